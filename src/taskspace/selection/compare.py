"""What a selection saved, where the table of all candidates is known.

The table answers two questions that a selection alone cannot: how few trainings any
selector needs, and what other selectors would have spent. Others are replayed on the
table: they are asked as in a selection of their own, and their rows are looked up.
"""

import time
from dataclasses import replace

import numpy as np
import xarray as xr

from taskspace._util.arrays import Array, Mask
from taskspace.cover import coverage_curve
from taskspace.cover.methods.catalogue import find_cover
from taskspace.errors import InvalidInputError
from taskspace.performance import family_rows, source_space, target_space
from taskspace.performance.ledger import Ledger
from taskspace.performance.table import REDUCTIONS
from taskspace.performance.work import Rows, TrainedBlock, Work
from taskspace.policies import LinearGain
from taskspace.questions import Question
from taskspace.selection.result import Rival, Saved
from taskspace.selection.selectors.base import Candidates, Selector, known
from taskspace.selection.selectors.catalogue import SELECTORS
from taskspace.spaces import Points, Space
from taskspace.trainers.base import Trained

RIVALS = "uniform", "mbtl"
RANDOM_REPEATS = 100
# Rivals may take this many times the trainings of the selection.
FOLLOWED = 3
AT_LEAST = 20


def check_full_table(table: xr.Dataset, space: Space, targets: Space) -> None:
    """Refuse a table that is not that of these candidates and targets.

    Args:
        table: the table of all candidates.
        space: contexts that may be trained.
        targets: contexts to cover.
    """
    tried, sources = target_space(table), source_space(table)
    if tried is None or not (
        tuple(tried.names) == tuple(targets.names)
        and np.array_equal(tried.points, targets.points)
    ):
        raise InvalidInputError(
            "The full table must have the targets of the selection, in their order, "
            f"but has {table.sizes['target']} targets over "
            f"{() if tried is None else tuple(tried.names)}, and the selection "
            f"{targets.size} over {tuple(targets.names)}."
        )
    if sources is None or tuple(sources.names) != tuple(space.names):
        raise InvalidInputError(
            "The full table must say where its sources are, on the axes "
            f"{tuple(space.names)}, but has "
            f"{None if sources is None else tuple(sources.names)}."
        )
    missing = int(Candidates(space).left(sources.points).sum())
    if missing:
        raise InvalidInputError(
            "The full table must have a source at every candidate, but "
            f"{missing} of {space.size} candidates are not among its "
            f"{table.sizes['source']} sources. Leave it out, or evaluate them all."
        )


def what_it_saved(
    ledger: Ledger,
    question: Question,
    selector: Selector,
    full_table: xr.Dataset,
    time_limit: float,
) -> Saved:
    """Return a selection that has ended beside what the full table allows.

    Args:
        ledger: what the selection trained and evaluated.
        question: what was covered.
        selector: who chose; its candidates are those of the table, and its seed that of
            random rivals.
        full_table: the table of its candidates; see `check_full_table`.
        time_limit: seconds for the smallest cover, and for each rival.
    """
    space, seed = selector.candidates.space, selector.seed
    extra = _sources_of(full_table).left(space.points)
    if extra.any():  # sources that are no candidates
        full_table = full_table.isel(source=np.flatnonzero(~extra))
    table, why = _referred(full_table, ledger, question)
    sets = question.sets(table)
    least = find_cover(sets, method="minimum", time_limit=time_limit)
    if selector.anywhere:
        why = why or "any point of the box may be trained, not only those of the table"
    why = why or _differs(table, ledger, question)
    n_trained = max(1, sum(kind == "trained" for kind in ledger.kinds))
    n_steps = min(max(AT_LEAST, FOLLOWED * n_trained), space.size)
    rivals = []
    for name in RIVALS:
        if name == "mbtl" and "home_performance" not in table:
            continue  # it models the scores at home
        rows = replay(
            SELECTORS[name](space, seed),
            ledger,
            question,
            table,
            n_steps=n_steps,
            seconds=time_limit,
        )
        covered = np.logical_or.accumulate(_served(table, question, rows), axis=0)
        rivals.append(_rival(name, covered.mean(1), table, rows))
    curve = coverage_curve(sets, method="random", n_repeats=RANDOM_REPEATS, seed=seed)
    shares = np.asarray(curve.coverage)[:n_steps]
    rivals.append(_rival("random", shares, table, None))
    steps = table.get("environment_steps")
    return Saved(
        n_candidates=space.size,
        environment_steps=None if steps is None else int(steps.sum()),
        evaluations=space.size * _each(table),
        greedy=tuple(coverage_curve(sets, method="greedy").coverage.tolist()),
        minimum=(int(least.lower_bound), least.size),
        rivals=tuple(rivals),
        lower_bound=1 if why else max(1, int(least.lower_bound)),
        why_no_bound=why,
    )


def replay(
    selector: Selector,
    ledger: Ledger,
    question: Question,
    table: xr.Dataset,
    *,
    n_steps: int,
    seconds: float = np.inf,
) -> list[int]:
    """Return the trainings of a selector, their rows looked up in a table.

    Args:
        selector: who chooses.
        ledger: of a selection with the same task.
        question: what shall be covered.
        table: the table of all candidates.
        n_steps: trainings, at most; it ends when all is covered.
        seconds: that it may take to choose, at most.

    Returns:
        Numbers of sources of the table, in the order of their training.
    """
    where = _sources_of(table)
    names = [n for n in ("performance", *sum(REDUCTIONS.values(), ())) if n in table]
    task = replace(ledger.task, keep=tuple(names))
    reference = table["best_known"].values if "best_known" in table else None
    past = Ledger(task, None, ledger.target_space, reference=reference)
    rows: list[int] = []
    began = time.monotonic()
    while len(rows) < n_steps and time.monotonic() - began < seconds:
        if rows and known(past, question).covered.all():
            break
        context = selector.propose(past, question, 1)
        if not len(context):
            break
        number = int(np.flatnonzero(~where.left(context))[0])
        past.plan(Points(past.target_space.names, context))
        work = Work("train", len(rows), np.array([len(rows)]), context)
        past.tell(work, _unknown_policies(table, number))
        part = table.isel(source=[number])
        values = {name: part[name].values for name in names}
        top = family_rows(part, question.judge, slice(0, 1))[0]
        past.tell(work, Rows(values, top))
        rows.append(number)
    return rows


def _unknown_policies(table: xr.Dataset, number: int) -> TrainedBlock:
    """Return blank policies: a table has scores only, and these are not looked at."""
    shape = 1, _n_policies(table)
    home = np.zeros(shape)
    if "home_performance" in table:
        home = table["home_performance"].values[[number]]
    blank = LinearGain(np.zeros((*shape, 1, 1)))
    return TrainedBlock(Trained(blank, np.zeros(shape, np.int64)), home)


def _sources_of(table: xr.Dataset) -> Candidates:
    """Return the sources of a table, to find them by their contexts."""
    space = source_space(table)
    assert space is not None
    return Candidates(space)


def _referred(
    table: xr.Dataset, ledger: Ledger, question: Question
) -> tuple[xr.Dataset, str]:
    """Return the table against the reference that the selection is judged by.

    What a policy serves only shrinks as the reference rises, so a bound against the
    stated one holds also where a policy beats it.
    """
    if question.rule.reference != "best known":
        return table, ""
    stated = ledger.reference
    if stated is None:
        stated = ledger.task.system.optimum(ledger.task.targets)
    assert stated is not None  # else the table's own reference was stated
    table = table.assign(best_known=("target", np.asarray(stated, np.float64)))
    if np.isnan(stated).any():
        return table, "some targets have no reference in the table either"
    return table, ""


def _differs(table: xr.Dataset, ledger: Ledger, question: Question) -> str:
    """Why the table is not that of the selection's own policies; empty if it is."""
    if set(ledger.kinds) - {"trained"}:
        return "sources were made without a training of their own"
    if not ledger.n_sources or not ledger.evaluated.any():
        return ""
    where = _sources_of(table)
    # Both against the same reference: then the same scores serve the same targets.
    trained = ledger.table().assign(best_known=("target", table["best_known"].values))
    judge = question.judge
    for row, context in enumerate(ledger.sources.points[ledger.evaluated]):
        places = np.flatnonzero(~where.left(context[None]))
        if not len(places):
            return "a source is trained that is not in the table"
        own_scores = family_rows(trained, judge, slice(row, row + 1))[0]
        number = int(places[0])
        table_scores = family_rows(table, judge, slice(number, number + 1))[0]
        both = np.isfinite(own_scores)  # where it was evaluated and did not fail
        if not np.allclose(own_scores[both], table_scores[both], rtol=1e-6, atol=0):
            return "its policies are others than those trained here"
        served, claimed = (
            question.rows(one, slice(place, place + 1))[0] <= question.epsilon
            for one, place in ((trained, row), (table, number))
        )
        if not (served <= claimed).all():
            return "its policies serve other targets, by a rounding of their scores"
    return ""


def _served(table: xr.Dataset, question: Question, rows: list[int]) -> Mask:
    if not rows:
        return np.zeros((0, table.sizes["target"]), bool)
    losses = question.losses(table.isel(source=rows)).values
    return np.asarray(losses <= question.epsilon)


def _each(table: xr.Dataset) -> int:
    """Pairs of a policy and a target that one training has."""
    return _n_policies(table) * table.sizes["target"]


def _n_policies(table: xr.Dataset) -> int:
    return int(table.sizes.get("policy", 1))


def _rival(
    name: str, coverage: Array, table: xr.Dataset, rows: list[int] | None
) -> Rival:
    count = np.arange(1, len(coverage) + 1)
    steps = np.zeros(len(count))
    if "environment_steps" in table:
        each = table["environment_steps"].values.sum(1)
        steps = count * each.mean() if rows is None else np.cumsum(each[rows])
    return Rival(
        name,
        tuple(coverage.tolist()),
        tuple(np.rint(steps).astype(int).tolist()),
        tuple((count * _each(table)).tolist()),
    )
