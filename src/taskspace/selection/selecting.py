"""`select`: train only what the answer needs."""

from concurrent.futures import Executor
from typing import Any

import numpy as np
import xarray as xr

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace.cover.methods import find_cover
from taskspace.errors import ContradictionError, InvalidInputError, UnknownNameError
from taskspace.performance import family_rows, source_space, target_space
from taskspace.performance.ledger import Ledger
from taskspace.performance.study import Study, as_study
from taskspace.performance.work import TRAINED, Task
from taskspace.progress import Progress
from taskspace.questions import Question, as_question
from taskspace.selection.base import SELECTORS, Candidates, Selector
from taskspace.selection.base import selector as selector  # with ours registered
from taskspace.selection.coverage import Coverage
from taskspace.selection.loop import COVERED, Options, SelectionLoop
from taskspace.selection.noisy import Noisy
from taskspace.selection.result import Fewest, SelectResult, statement
from taskspace.sets import pack
from taskspace.spaces import Space
from taskspace.systems.base import PROVENANCE_WORDS, System
from taskspace.trainers.base import RegionTrainer, Trainer, check_tasks

BOX = "box"
"""The value of `candidates` that lets a selector propose any point of the box."""


def select(
    system: System,
    trainer: Trainer,
    space: Space,
    question: Question | str,
    *,
    seed: int = 0,
    selector: str | Selector | None = None,
    targets: Space | None = None,
    candidates: str | None = None,
    budget: int | None = None,
    environment_steps: int | None = None,
    n_parallel: int = 1,
    patience: int | None = None,
    reference: float | Array | None = None,
    full_table: Study | xr.Dataset | None = None,
    executor: Executor | None = None,
    cover_time_limit: float = 30.0,
    progress: Progress | None = None,
) -> SelectResult:
    """Train one policy after the other, where it helps most, until all is covered.

    A target counts as covered by an evaluation only, never by a prediction.

    Args:
        system: the tasks.
        trainer: makes the policies of a source.
        space: contexts that may be trained.
        question: criterion, judge and tolerance.
        seed: seed of the trainer and of random choices.
        selector: name of one of `SELECTORS`, or a selector; if left out `noisy` for
            trainers that learn, `coverage` for others.
        targets: contexts to cover; `space` if left out.
        candidates: `"box"` to train at any point of the box of `space`.
        budget: number of trainings, at most.
        environment_steps: simulated steps of all trainings, at most.
        n_parallel: trainings under way at a time; proposals know of each other, and
            results count in the order of proposals.
        patience: trainings without success, once every target was tried at home,
            after which it stops; twice the number of axes plus one if left out.
        reference: the best performance there is, as you state it, one or one per
            target, which regret is against. If left out it is the optimum where that
            is known. Where it is not, a target has a reference only once a policy is
            trained there.
        full_table: the study of all candidates, where it is known: for the lower
            bound on trainings. Its best policies are the reference of targets that
            have no other.
        executor: trains in other processes, e.g. a `ProcessPoolExecutor`; in this one
            if left out.
        cover_time_limit: processor seconds for the cover of what is trained.
        progress: told after each training how many targets are covered.
    """
    targets = space if targets is None else targets
    check_tasks(system, trainer, space, targets)
    question = as_question(question)
    question.check_exact("A selection")
    question.check_single("A selection")
    if candidates not in (None, BOX):
        raise InvalidInputError(
            f"candidates must be {BOX!r} for any point of the box, or left out, but "
            f"got {candidates!r}. Give other contexts as space, and what they shall "
            "serve as targets."
        )
    options = Options(budget, environment_steps, n_parallel, patience)
    ledger = new_selection_ledger(
        system, trainer, space, targets, question, seed=seed, reference=reference
    )
    if full_table is not None:
        full_table = as_study(full_table).table
        check_full_table(full_table, space, targets)
    if not isinstance(selector, Selector):
        anywhere = candidates == BOX
        name = selector or default_selector(trainer, anywhere)
        selector = make_selector(name, space, seed, anywhere)
    selection = SelectionLoop(
        ledger,
        selector,
        question,
        options,
        submit=None
        if executor is None
        else lambda work: executor.submit(ledger.task.do, work, record_failures=True),
        progress=progress,
    )
    return conclude(selection, selection.run(), full_table, cover_time_limit)


def default_selector(trainer: Trainer, anywhere: bool = False) -> str:
    """Return the name of the selector for a trainer.

    Policies that are learned depend on luck, and may be trained on regions; those that
    are computed change smoothly with the context, which `coverage` learns.

    Args:
        trainer: makes the policies.
        anywhere: any point of the box may be proposed.
    """
    learns = isinstance(trainer, RegionTrainer) and not anywhere
    return Noisy.name if learns else Coverage.name


def make_selector(
    name: str, space: Space, seed: int, anywhere: bool = False
) -> Selector:
    """Return a selector by name.

    Args:
        name: of `SELECTORS`.
        space: contexts that may be trained.
        seed: of random choices.
        anywhere: any point of the box may be proposed.
    """
    if name not in SELECTORS:
        raise UnknownNameError("selector", name, SELECTORS)
    if not anywhere:
        return SELECTORS[name](space, seed)
    if name != Coverage.name:
        raise InvalidInputError(
            f"Any point of the box is proposed by {Coverage.name!r} only, but the "
            f"selector is {name!r}. Give a space of candidates instead."
        )
    return Coverage(space, seed, anywhere=True)


def new_selection_ledger(
    system: System,
    trainer: Trainer,
    space: Space,
    targets: Space,
    question: Question,
    *,
    seed: int,
    reference: float | Array | None = None,
) -> Ledger:
    """Return an empty ledger in memory for a selection from candidates.

    Args:
        system: the tasks.
        trainer: makes the policies of a source.
        space: contexts that may be trained.
        targets: contexts to cover.
        question: what is asked.
        seed: seed of the trainer.
        reference: the best performance there is, as stated, one or one per target.
    """
    system.contexts(space)  # a mistake shows before anything is trained
    contexts = system.contexts(targets)
    if reference is not None:
        stated = np.asarray(reference, np.float64)
        reference = np.broadcast_to(stated, (len(contexts),)).copy()
        if not np.isfinite(reference).all():
            raise InvalidInputError(
                f"A stated reference must be finite, but got {reference}."
            )
    # The rows of a cover are few, whatever the number of candidates.
    measure = question.rule.measure
    more = [measure] if measure != "performance" else []
    task = Task(system, trainer, contexts, seed).keeping(1, [question.judge], more)
    return Ledger(task, None, targets, reference=reference, candidates=space)


def conclude(
    selection: SelectionLoop,
    reason: str,
    full_table: xr.Dataset | None = None,
    cover_time_limit: float = 30.0,
) -> SelectResult:
    """Return what a selection that has ended found.

    Args:
        selection: the selection.
        reason: why it stopped.
        full_table: the table of all candidates, where it is known.
        cover_time_limit: processor seconds for the cover of what is trained.
    """
    ledger, question = selection.ledger, selection.question
    if full_table is not None and selection.moves:
        kind = str(full_table.attrs.get("best_known_kind", "given"))
        best = full_table["best_known"].values.astype(np.float64)
        ledger.state_reference(best, f"{kind} of all candidates")
    seen = selection.look()
    covered, judged = seen.counted, seen.judged
    assert reason != COVERED or covered.all()
    study, sets = None, pack(np.zeros((1, len(covered)), bool))
    reference = "nothing: no source is evaluated"
    if len(seen.losses):
        study = ledger.study()
        table = study.table.assign_attrs(
            selector=selection.selector.name, notes=[statement(len(seen.losses))]
        )
        table.attrs.pop("n_planned", None)
        study = study.with_table(table)
        reference = study.table.attrs.get("best_known_kind", "best of the table")
        sets = question.sets(study)
    fewest = None
    if full_table is not None:
        fewest = fewest_trainings(selection, full_table, cover_time_limit)
        if covered.all() and ledger.n_sources < fewest.lower_bound:
            raise ContradictionError(
                f"The table of all candidates says that at least {fewest.lower_bound} "
                f"trainings are needed, and the selection that {ledger.n_sources} "
                "cover every target. One of them is wrong, so neither is reported. "
                "Please report this with its data."
            )
    return SelectResult(
        question=question,
        selector=selection.selector.name,
        stop_reason=reason,
        trainings=ledger.n_sources,
        environment_steps=selection.environment_steps,
        evaluations=selection.evaluations,
        coverage=float(covered.mean()) if judged.all() else None,
        covered_at_least=float(covered.mean()),
        unserved=np.flatnonzero(judged & ~covered),
        without_reference=np.flatnonzero(~judged),
        cover=find_cover(sets, method="minimum", time_limit=cover_time_limit),
        study=study,
        history=[step.entry for step in selection.log.steps],
        reference=reference,
        failures=_failures(ledger),
        fewest=fewest,
        close=close_targets(question, study, covered),
    )


def _failures(ledger: Ledger) -> list[dict[str, Any]]:
    """Return trainings that failed or do not work at home, one record each."""
    failures = []
    for index in np.flatnonzero(~ledger.pending).tolist():
        state, reason = ledger.state(index)
        record = {
            "source": index,
            "context": ledger.sources.context(index),
            "seed": ledger.seeds[index],
            "state": state,
            "reason": reason,
        }
        failures += [] if state == "ok" else [record]
    return failures


def close_targets(question: Question, study: Study | None, served: Mask) -> Numbers:
    """Return served targets that would not be if scores were 2 standard errors lower.

    Args:
        question: what is asked.
        study: what is known; without standard errors no target is close.
        served: which targets count as served.
    """
    table = None if study is None else question.table_of(study)
    if table is None or not {"performance", "standard_error"} <= set(table.data_vars):
        return np.empty(0, np.int64)
    # A policy that failed has no error: −inf stays −inf.
    lower = table["performance"] - 2 * table["standard_error"].fillna(0.0)
    losses = question.losses(table.assign(performance=lower)).values
    return np.flatnonzero(served & ~(losses <= question.epsilon).any(0))


# --- the bound by the table of all candidates -----------------------------------------


def check_full_table(table: xr.Dataset, space: Space, targets: Space) -> None:
    """Refuse a table that lacks a candidate, or has other targets.

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
    missing = space.size
    if sources is not None and tuple(sources.names) == tuple(space.names):
        missing = int((Candidates(sources).index_of(space.points) < 0).sum())
    if missing:
        raise InvalidInputError(
            "The full table must have a source at every candidate, but "
            f"{missing} of {space.size} candidates are not among its "
            f"{table.sizes['source']} sources. Leave it out, or evaluate them all."
        )


def fewest_trainings(
    selection: SelectionLoop, full_table: xr.Dataset, time_limit: float
) -> Fewest:
    """Return how few trainings the full table allows.

    Args:
        selection: what was trained and evaluated.
        full_table: the table of its candidates; see `check_full_table`.
        time_limit: processor seconds for the smallest cover.
    """
    ledger, question = selection.ledger, selection.question
    candidates, space = selection.selector.candidates, source_space(full_table)
    assert space is not None
    rows = np.flatnonzero(candidates.index_of(space.points) >= 0)
    table, why = _referred(full_table.isel(source=rows), ledger, question)
    least = find_cover(question.sets(table), method="minimum", time_limit=time_limit)
    if selection.selector.anywhere:
        why = why or "any point of the box may be trained, not only those of the table"
    why = why or _differs(table, ledger, question)
    words = PROVENANCE_WORDS[question.provenance_of(table)]
    return Fewest(
        lower_bound=1 if why else max(1, int(least.lower_bound)),
        size=least.size,
        why_no_bound=why,
        of=f" of {words.table}" if words.scope else "",
    )


def _referred(
    table: xr.Dataset, ledger: Ledger, question: Question
) -> tuple[xr.Dataset, str]:
    """Return the table against the reference that the selection is judged by.

    What a policy serves only shrinks as the reference rises, so a bound against the
    stated one holds also where a policy beats it.
    """
    if not question.rule.compares_with_best:
        return table, ""
    stated = ledger.reference
    if stated is None:
        stated = ledger.task.system.optimum(ledger.task.targets)
    assert stated is not None  # else the table's own reference was stated
    table = table.assign(best_known=("target", np.asarray(stated, np.float64)))
    lacks = np.isnan(stated).any()
    return table, "some targets have no reference in the table either" * bool(lacks)


def _differs(table: xr.Dataset, ledger: Ledger, question: Question) -> str:
    """Return why the table is not that of the selection's policies; empty if it is."""
    if set(ledger.kinds) - {TRAINED}:
        return "a policy was trained on a region, not at a candidate"
    done, space = ledger.evaluated, source_space(table)
    if not done.any() or space is None:
        return ""
    rows = Candidates(space).index_of(ledger.sources.points[done])
    if (rows < 0).any():
        return "a source is trained that is not in the table"
    # Both against the same reference: then the same scores serve the same targets.
    trained = ledger.table().assign(best_known=("target", table["best_known"].values))
    table, every = table.isel(source=rows), slice(0, len(rows))
    scores, expected = (
        family_rows(one, question.judge, every) for one in (trained, table)
    )
    served, allowed = (
        question.rows(one, every) <= question.epsilon for one in (trained, table)
    )
    works = np.isfinite(scores)
    same = np.allclose(scores[works], expected[works], rtol=1e-6, atol=0)
    if not same or (served & ~allowed).any():
        return "its policies are others than those trained here"
    return ""
