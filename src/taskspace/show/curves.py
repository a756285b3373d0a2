"""Numbers as curves: coverage, complexity, a selection; all figures of a run."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter, StrMethodFormatter

from taskspace._util.arrays import Array
from taskspace._util.files import clean_leftovers
from taskspace.cover import Profile, complexity_profile, coverage_curve, greedy_cover
from taskspace.performance.study import Study, as_study
from taskspace.questions import Question
from taskspace.runs.opening import open_study
from taskspace.runs.results import Results
from taskspace.selection import SelectResult
from taskspace.show.maps import map as draw_map
from taskspace.show.style import (
    METHOD_COLOURS,
    PALETTE,
    few_ticks,
    legend_below,
    literal,
    panel,
    panels,
    save,
    title_of,
)
from taskspace.systems.base import PROVENANCE_WORDS

STAR: Any = {
    "marker": "*", "ls": "none", "ms": 13, "mfc": "none", "mew": 1.5,
    "clip_on": False, "zorder": 5,
}  # fmt: skip
"""A hollow star hides no curve."""


def coverage(
    study: Study | xr.Dataset,
    question: Question,
    *,
    methods: Sequence[str] = ("greedy", "random"),
    n_repeats: int = 100,
) -> Figure:
    """Draw coverage against the sources kept and the policies trained.

    Args:
        study: what is known, or a performance table.
        question: criterion, judge and tolerance.
        methods: of `greedy`, `uniform` (for sources on a grid) and `random`.
        n_repeats: random selections.
    """
    study = as_study(study)
    sets = question.sets(study)
    curves = [
        coverage_curve(
            sets, method=cast("Any", method), n_repeats=n_repeats, shape=study.shape
        )
        for method in methods
    ]
    found = [greedy_cover(sets)]
    spent = study.n_policies, study.n_policies * len(sets)
    provenance = question.provenance_of(study)
    return _draw([(question, curves, found)], provenance, *spent)


def run_coverage(results: Results, questions: Sequence[Question]) -> Figure:
    """Draw the curves and covers of a run, one column per question.

    Args:
        results: what the run found.
        questions: of the run.
    """
    columns = [
        (
            question,
            [curve for curve in results.curves if curve.question == question],
            [cover for cover in results.covers if cover.question == question],
        )
        for question in questions
    ]
    spent = results.n_policies, results.n_trained
    return _draw(columns, results.provenance, *spent)


def _draw(
    columns: Sequence[tuple[Question, Sequence[Any], Sequence[Any]]],
    provenance: Any,
    per_source: int,
    trained: int,
) -> Figure:
    """Draw a column per question: above by sources kept, below by policies trained."""
    words = PROVENANCE_WORDS[provenance]
    of = f" of {words.table}" if words.scope else ""
    n = len(columns)
    with panels(4.6 * n, 6.4, 2, n, sharey=True) as (figure, axes):
        for (top, bottom), (question, curves, covers) in zip(
            axes.T, columns, strict=True
        ):
            for curve in curves:
                _draw_curve(top, curve, 1)
                if curve.method != "greedy":
                    _draw_curve(bottom, curve, per_source)
                elif len(curve.coverage):
                    # It chooses from the finished table: everything is trained first.
                    end: Any = {"label": f"greedy, of all {trained:,}"}
                    end |= {"c": METHOD_COLOURS["greedy"], "clip_on": False}
                    bottom.plot(trained, curve.coverage[-1], "o", **end)
            drawn = [curve.method for curve in curves]
            for cover in covers:
                if cover.method in drawn:
                    continue
                label = f"{cover.method}: {cover.size}"
                shade = METHOD_COLOURS.get(cover.method, "black")
                top.plot(cover.size, cover.coverage, c=shade, label=label, **STAR)
            bound = max((cover.lower_bound for cover in covers), default=0)
            if bound:
                label = f"proven{of}: at least {bound:g}"
                top.axvline(bound, color="black", ls=":", lw=1, label=label)
            top.set_title(literal(textwrap.fill(title_of(question), 42)), fontsize=9.5)
            most = max((max(c.n_sources, default=1) for c in curves), default=1)
            for panel, least, largest, label in (
                (top, 1, most, "sources kept"),
                (bottom, per_source, trained, "policies trained to choose them"),
            ):
                panel.set(xscale="log", ylim=(0, 1.02), xlabel=label)
                few_ticks(panel.xaxis, least, largest)
        for first in axes[:, 0]:
            first.set_ylabel("targets covered")
            first.yaxis.set_major_formatter(PercentFormatter(1.0))
        legend_below(figure)
    return figure


def _draw_curve(axes: Any, curve: Any, per_source: int) -> None:
    shade = METHOD_COLOURS.get(curve.method, "black")
    x = per_source * np.array(curve.n_sources)
    style = "steps-post" if curve.method == "greedy" else "default"
    axes.plot(x, curve.coverage, color=shade, label=curve.method, drawstyle=style)
    if curve.method == "greedy" and len(x):
        axes.plot(x[-1], curve.coverage[-1], "o", color=shade, ms=4, clip_on=False)
    if tuple(curve.low) != tuple(curve.high):
        axes.fill_between(x, curve.low, curve.high, color=shade, alpha=0.2, lw=0)


def draw_run(path: Path, results: Results) -> list[Path]:
    """Draw the figures of a run.

    Args:
        path: the run directory.
        results: what it found.

    Returns:
        The PNG files: `coverage.png`, `map-regret-worst-0.2.png`, ….
    """
    folder = path / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    clean_leftovers(folder)
    files: list[Path] = []
    # A question by which no target can be served has nothing to show.
    shown = [
        question
        for question, _ in results.by_question
        if any(c.question == question and any(c.coverage) for c in results.curves)
    ]
    if shown:
        files += save(run_coverage(results, shown), folder / "coverage")
    study = open_study(path)
    for question, answers in results.by_question:
        # The smallest of the fullest covers.
        best = min(answers, key=lambda a: (-a.coverage, a.size))
        if best.size:
            name = f"map-{question.criterion}-{question.judge}-{question.epsilon:g}"
            files += save(draw_map(study, best), folder / name)
    return [file for file in files if file.suffix == ".png"]


def profile(
    study: Study | xr.Dataset,
    question: Question,
    *,
    points: Profile | None = None,
    time_limit: float = 20.0,
) -> Figure:
    """Draw how many sources each tolerance needs: greedy, best found, lower bound.

    Args:
        study: what is known, or a performance table.
        question: criterion and judge; its tolerance does not matter.
        points: the profile, where it is known already; one without a cover is left out.
        time_limit: processor seconds for all tolerances together.
    """
    if points is None:
        points = complexity_profile(as_study(study), question, time_limit=time_limit)
    covered = [point for point in points if point.upper is not None]
    epsilon = np.array([point.epsilon for point in covered])
    minimum = METHOD_COLOURS["minimum"]
    bound = f"lower bound, proven {points.scope}".rstrip()
    sizes = [n for p in covered for n in (p.greedy, p.upper) if n is not None]
    with panel(5.4, 4.2) as (figure, axes):
        # A cover at ε is one at every larger ε, so sizes hold to the right; a
        # lower bound at ε is one at every smaller ε, so bounds hold to the left.
        for name, label, shade, line, width in (
            ("greedy", "greedy", METHOD_COLOURS["greedy"], "-", 3.5),
            ("upper", "best found", minimum, "-", 1.5),
            ("lower", bound, "black", ":", 1.5),
        ):
            axes.step(
                epsilon,
                [getattr(point, name) for point in covered],
                where="pre" if name == "lower" else "post",
                color=shade,
                linestyle=line,
                linewidth=width,
                marker="o",
                markersize=3,
                label=label,
            )
        axes.fill_between(
            epsilon,
            [point.lower or 0 for point in [*covered[1:], *covered[-1:]]],
            [point.upper or 0 for point in covered],
            step="post",
            color=minimum,
            alpha=0.2,
            lw=0,
        )
        scale_tolerances(axes, epsilon)
        if max(sizes, default=0) < 10:
            axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        else:
            axes.set_yscale("log")
            few_ticks(axes.yaxis, min(sizes), max(sizes))
        title = f"{question.criterion}, {question.judge} policy of each source"
        axes.set(xlabel="tolerance ε", ylabel="sources", title=title)
        legend_below(figure)
    return figure


def scale_tolerances(axes: Axes, epsilon: Array) -> None:
    """Make the axis of tolerances logarithmic above the smallest positive one.

    Args:
        axes: where tolerances are on the x-axis.
        epsilon: the tolerances.
    """
    positive = epsilon[epsilon > 0]
    if len(positive) and len(positive) == len(epsilon):
        axes.set_xscale("log")
        few_ticks(axes.xaxis, positive.min(), positive.max())
    elif len(positive) and epsilon.min() == 0:
        axes.set_xscale("symlog", linthresh=positive.min(), linscale=0.4)
        axes.set_xlim(0, None)
        decades = np.floor(np.log10(positive.max() / positive.min())) + 1
        every = 10.0 ** (np.arange(-decades, 1) + np.floor(np.log10(positive.max())))
        axes.set_xticks([0, *every[every > 1.5 * positive.min()]])
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))


COSTS = {
    "trainings": "trainings",
    "environment_steps": "environment steps",
    "evaluations": "evaluations of a policy at a target",
}


def history(selection: SelectResult) -> Figure:
    """Draw coverage against trainings, environment steps and evaluations.

    Args:
        selection: what `taskspace.select` returned. The least number of trainings of
            any selector is drawn where the result knows it.
    """
    entries, fewest = selection.history, selection.fewest
    costs = [c for c in COSTS if any(entry[c] for entry in entries)] or ["trainings"]
    covered = [entry["coverage"] for entry in entries]
    width = 4.6 * len(costs) + 0.8
    with panels(width, 4.0, 1, len(costs), sharey=True) as (figure, (row,)):
        for axes, cost in zip(row, costs, strict=True):
            axes.step(
                [entry[cost] for entry in entries],
                covered,
                where="post",
                color=PALETTE[3],
                linewidth=2.0,
                marker="o",
                markersize=3,
                label=f"{literal(selection.selector)}: {selection.trainings} trainings",
            )
            axes.set(xlabel=COSTS[cost])
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        if fewest is not None and fewest.lower_bound > 1:
            label = f"no selector needs fewer than {fewest.lower_bound}{fewest.of}"
            row[0].axvline(fewest.lower_bound, color="black", ls=":", label=label)
        row[0].set(ylabel="targets covered", ylim=(0, 1.03))
        row[0].yaxis.set_major_formatter(PercentFormatter(1.0))
        legend_below(figure)
        figure.suptitle(literal(selection.question.label))
    return figure
