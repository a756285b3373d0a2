"""What an experiment asks of its table: covers, curves, and what they cost."""

import numpy as np
import xarray as xr

from taskspace.cover import CoverageCurve, coverage_curve
from taskspace.cover.answer import CoverAnswer
from taskspace.cover.methods.catalogue import METHODS, find_cover
from taskspace.performance import family_rows, provenance_of, source_space, target_space
from taskspace.performance.ledger import REGION, TRAINED
from taskspace.progress import Progress, silent
from taskspace.questions import Question
from taskspace.runs.experiment import Experiment
from taskspace.runs.results import Curve, Results, Scores, Spent
from taskspace.spaces import Grid

__all__ = ["answer", "cover_settings"]

# Points kept of a coverage curve: as many as a picture can show.
CURVE_POINTS = 300
# Rows of the table that are looked at for axes without any effect.
PROBED_ROWS = 32


def answer(
    table: xr.Dataset,
    experiment: Experiment,
    report: Progress | None = None,
    *,
    solved_return: float | None = None,
    known: Results | None = None,
) -> Results:
    """Everything an experiment asks of its table.

    Args:
        table: the performance table.
        experiment: the questions and methods.
        report: told about progress.
        solved_return: J from which a task counts as solved, if that is agreed.
        known: answers of an earlier call for the same table, which are taken over
            where the settings of the covers are the same.
    """
    report = report or silent
    settings = cover_settings(experiment)
    known = known if known and known.settings == settings else None
    sources = source_space(table)
    shape = sources.shape if isinstance(sources, Grid) else None
    methods = [
        METHODS[name]
        for name in experiment.cover.methods
        if shape or not METHODS[name].needs_grid
    ]
    questions = experiment.questions
    steps = len(questions) * (len(methods) + 1)
    covers: list[CoverAnswer] = []
    curves: list[Curve] = []
    for number, question in enumerate(questions):
        done = number * (len(methods) + 1)
        report("cover", done, steps, question.statement)
        old = _known_answers(known, question)
        sets = None
        for step, method in enumerate(methods):
            report(
                "cover", done + step + 1, steps, f"{method.name}: {question.statement}"
            )
            if method.name in old:
                covers.append(old[method.name])
                curves += [
                    c
                    for c in (known.curves if known else ())
                    if c.question == question and c.method == method.name
                ]
                continue
            sets = question.sets(table) if sets is None else sets
            cover = find_cover(
                sets,
                method=method.name,
                shape=shape,
                time_limit=experiment.cover.time_limit,
                seed=experiment.seed,
            )
            sizes = None
            if method.has_curve:
                curve = coverage_curve(
                    sets,
                    method=method.name,
                    n_repeats=experiment.cover.n_repeats,
                    seed=experiment.seed,
                    shape=shape,
                )
                curves.append(_thinned(curve, question))
                if method.name == "random":
                    sizes = curve.size_spread
            covers.append(CoverAnswer.of(cover, table, sizes))
    report("cover", steps, steps, "")
    return Results(
        covers=tuple(covers),
        curves=tuple(curves),
        spent=_spent(table),
        scores=_scores(table, solved_return),
        n_sources=table.sizes["source"],
        n_targets=table.sizes["target"],
        best_known_kind=table.attrs["best_known_kind"],
        provenance=provenance_of(table),
        n_episodes=int(table.attrs.get("n_episodes", 0)),
        settings=settings,
    )


def cover_settings(experiment: Experiment) -> dict[str, int | float]:
    """What a cover depends on, beside its table, question and method.

    Args:
        experiment: who asks.
    """
    return {
        "n_repeats": experiment.cover.n_repeats,
        "time_limit": experiment.cover.time_limit,
        "seed": experiment.seed,
    }


def _known_answers(known: Results | None, question: Question) -> dict[str, CoverAnswer]:
    if known is None:
        return {}
    mine = (a for a in known.covers if a.question == question)
    return {a.cover.method: a for a in mine}


def _thinned(curve: CoverageCurve, question: Question) -> Curve:
    # All of a short curve; of a long one as many points as a picture can show.
    n = len(curve.n_sources)
    if n == 0:  # no target can be served
        return Curve(question, curve.method, (), (), (), ())
    spread = np.geomspace(1, n, CURVE_POINTS) if n > CURVE_POINTS else np.arange(1, n)
    kept = np.unique(np.append(spread.round().astype(int), n) - 1)
    shares = (curve.coverage, curve.low, curve.high)
    return Curve(
        question,
        curve.method,
        tuple(curve.n_sources[kept].tolist()),
        *(tuple(share[kept].round(6).tolist()) for share in shares),
    )


def _scores(table: xr.Dataset, solved_return: float | None) -> Scores:
    """How good the policies are at home, and what no policy changes."""
    home = table["home_performance"].values
    best = table["best_known"].values
    best = best[~np.isnan(best)]  # no reference
    failed = home == -np.inf if solved_return is None else home < solved_return
    return Scores(
        home=(float(home.min()), float(home.max())),
        best=(float(best.min()), float(best.max())) if len(best) else (None, None),
        n_policies=int(home.size),
        solved_return=solved_return,
        n_failed=int(failed.sum()),
        n_sources_with_a_failure=int(failed.any(1).sum()),
        n_sources_all_failed=int(failed.all(1).sum()),
        dead_axes=_dead_axes(table),
    )


def _dead_axes(table: xr.Dataset) -> tuple[str, ...]:
    """Axes of the targets along which the performance of no probed row changes."""
    targets = target_space(table)
    if not isinstance(targets, Grid):
        return ()
    name = next(n for n in ("performance", "worst", "best") if n in table)
    step = max(1, table.sizes["source"] // PROBED_ROWS)
    rows = slice(0, table.sizes["source"], step)
    reduction = "worst" if name == "performance" else name
    probed = family_rows(table, reduction, rows).reshape(-1, *targets.shape)
    if (probed == -np.inf).all():
        return ()
    return tuple(
        axis.name
        for place, axis in enumerate(targets.axes, start=1)
        if axis.n > 1 and (np.take(probed, [0], place) == probed).all()
    )


def _spent(table: xr.Dataset) -> Spent:
    n_sources, n_targets = table.sizes["source"], table.sizes["target"]
    n_policies = table.sizes["policy"]
    n_trained = n_sources
    if "source_kind" in table.coords:
        n_trained = int(table["source_kind"].isin([TRAINED, REGION]).sum())
    steps = int(table["environment_steps"].sum())
    return Spent(
        oracle_methods=tuple(m.name for m in METHODS.values() if m.needs_whole_table),
        trainings=n_trained * n_policies,
        evaluations=n_sources * n_policies * n_targets,
        environment_steps=steps,
        trainings_per_source=n_policies,
        evaluations_per_source=n_policies * n_targets,
        environment_steps_per_source=steps / n_sources,
    )
