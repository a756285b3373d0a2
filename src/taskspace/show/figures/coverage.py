"""Coverage against the number of policies, and everything that a run has to show.

`coverage_plot` turns the results of a run into a small record; `draw_coverage`
renders it with matplotlib. The record is saved beside the picture.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from taskspace._util.files import checksum, clean_leftovers, read_sealed, write_sealed
from taskspace.cover import CoverAnswer, coverage_curve, greedy_cover
from taskspace.errors import DamagedFileError
from taskspace.performance.study import Study, as_study
from taskspace.questions import Question
from taskspace.runs.experiment import Experiment
from taskspace.runs.opening import open_study
from taskspace.runs.results import Results
from taskspace.show.figures.map import context_map, draw_context_map, regions_of
from taskspace.show.style import METHOD_COLOURS, panels, save
from taskspace.spaces import Points, Space
from taskspace.systems.base import PROVENANCE_WORDS, Provenance


@dataclass(frozen=True)
class Curve:
    """Coverage of one method.

    Args:
        method: name of the method.
        n_sources: sources selected.
        coverage: share of targets served.
        low: lower edge of the band over repeats.
        high: upper edge of the band.
        trainings: policies that had to be trained to make each selection.
    """

    method: str
    n_sources: list[int]
    coverage: list[float]
    low: list[float]
    high: list[float]
    trainings: list[int]


@dataclass(frozen=True)
class CoveragePlot:
    """Coverage curves of one criterion: one panel of the paper's Figure 1.

    Args:
        title: what the panel is about.
        curves: one per method.
        covers: method, number of sources and coverage of covers without a curve.
        lower_bound: no selection with fewer sources covers as much.
        provenance: where the numbers of the table come from that this is proven of.
    """

    title: str
    curves: list[Curve]
    covers: list[tuple[str, int, float]]
    lower_bound: float | None
    provenance: Provenance = "exact"


def coverage_plot(results: Results, question: Question) -> CoveragePlot:
    """Return the coverage curves of one question of a run.

    Args:
        results: what the run found.
        question: which question.
    """
    curves = [
        Curve(
            method=curve.method,
            n_sources=list(curve.n_sources),
            coverage=list(curve.coverage),
            low=list(curve.low),
            high=list(curve.high),
            trainings=[
                results.spent.trained_for(curve.method, n) for n in curve.n_sources
            ],
        )
        for curve in results.curves
        if curve.question == question
    ]
    covers = [a.cover for a in results.covers if a.question == question]
    drawn = [curve.method for curve in curves]
    return CoveragePlot(
        title=question.label,
        curves=curves,
        covers=[
            (cover.method, cover.size, cover.coverage)
            for cover in covers
            if cover.method not in drawn
        ],
        lower_bound=max((cover.lower_bound for cover in covers), default=None),
        provenance=results.provenance,
    )


def draw_coverage(plots: Sequence[CoveragePlot]) -> Figure:
    """Draw coverage against policies kept (top) and trainings spent (bottom).

    Args:
        plots: one per question.
    """
    n = len(plots)
    with panels(4.2 * n, 6.0, 2, n, sharey=True) as (figure, axes):
        for plot, top, bottom in zip(plots, *axes, strict=True):
            _draw_curves(top, plot, "n_sources")
            _draw_curves(bottom, plot, "trainings")
            top.set_xlabel("sources kept")
            bottom.set_xlabel("policies trained to choose them")
            top.set_title(textwrap.fill(plot.title, 42), fontsize=9.5)
            _draw_covers(top, plot)
        for first in axes[:, 0]:
            first.set_ylabel("targets covered")
        axes[0, 0].legend(loc="lower right")
    return figure


def _draw_covers(axes: Axes, plot: CoveragePlot) -> None:
    """Draw covers without a curve as stars, and the lower bound of all of them."""
    for method, size, coverage in plot.covers:
        axes.plot(
            size,
            coverage,
            "*",
            color=METHOD_COLOURS.get(method, "black"),
            markersize=13,
            markeredgecolor="black",
            markeredgewidth=0.5,
            linestyle="none",
            label=method,
            clip_on=False,
            zorder=5,
        )
    if plot.lower_bound is not None:
        words = PROVENANCE_WORDS[plot.provenance]
        of = f" of {words.table}" if words.scope else ""
        axes.axvline(plot.lower_bound, color="black", linestyle=":", linewidth=1)
        axes.annotate(
            f"proven{of}: at least {plot.lower_bound:g}",
            (plot.lower_bound, 0.02),
            xytext=(4, 0),
            textcoords="offset points",
            fontsize=8,
        )


def _draw_curves(axes: Axes, panel: CoveragePlot, quantity: str) -> None:
    for curve in panel.curves:
        x = np.array(getattr(curve, quantity))
        colour = METHOD_COLOURS.get(curve.method, "black")
        if quantity == "trainings" and len(set(x.tolist())) == 1:
            # An oracle method trains everything first, then covers at once.
            axes.plot(x[-1], curve.coverage[-1], "o", color=colour)
            axes.annotate(
                f"{curve.method}: chooses from\nthe finished table",
                (x[-1], curve.coverage[-1]),
                xytext=(-4, -10),
                textcoords="offset points",
                ha="right",
                va="top",
                fontsize=8,
                color=colour,
            )
            continue
        style = "steps-post" if curve.method == "greedy" else "default"
        axes.plot(x, curve.coverage, color=colour, label=curve.method, drawstyle=style)
        if curve.low != curve.high:
            axes.fill_between(x, curve.low, curve.high, color=colour, alpha=0.2, lw=0)
    axes.set_xscale("log")
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))


def coverage(
    study: Study | xr.Dataset,
    question: Question,
    *,
    methods: Sequence[str] = ("greedy", "random"),
    n_repeats: int = 100,
    seed: int = 0,
) -> Figure:
    """Draw coverage against the number of sources.

    Args:
        study: what is known, or a performance table.
        question: criterion, judge and tolerance.
        methods: of `greedy`, `uniform` (for sources on a grid) and `random`.
        n_repeats: random selections.
        seed: of the random selections.
    """
    study = as_study(study)
    sets = question.sets(study)
    curves = []
    for method in methods:
        curve = coverage_curve(
            sets,
            method=cast("Any", method),
            n_repeats=n_repeats,
            seed=seed,
            shape=study.shape,
        )
        n_sources = curve.n_sources.tolist()
        spent = [len(sets)] * len(n_sources) if method == "greedy" else n_sources
        curves.append(
            Curve(
                method,
                n_sources,
                curve.coverage.tolist(),
                curve.low.tolist(),
                curve.high.tolist(),
                [study.n_policies * n for n in spent],
            )
        )
    bound = greedy_cover(sets).lower_bound
    provenance = question.provenance_of(study)
    plot = CoveragePlot(question.statement, curves, [], bound, provenance)
    return draw_coverage([plot])


def save_figures(study: Study, results: Results, folder: Path) -> list[Path]:
    """Draw everything a run has to show.

    Args:
        study: of the run.
        results: what it found.
        folder: where to put `coverage.png`, `map-regret-worst-0.2.png`, …

    Returns:
        The PNG files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    clean_leftovers(folder)
    files = []
    panels = [coverage_plot(results, question) for question, _ in results.by_question]
    # A question by which no target can be served has nothing to show.
    drawn = [p for p in panels if any(max(c.coverage, default=0) for c in p.curves)]
    if drawn:
        files.append(save(draw_coverage(drawn), folder / "coverage", drawn)[0])
    for question, answers in results.by_question:
        # The smallest of the fullest covers.
        best = min(answers, key=lambda a: (-a.cover.coverage, a.cover.size))
        if not best.cover.size:
            continue
        record = context_map(
            study.experiment.target_space,
            _sources(study.experiment, results, best),
            best.cover,
            labels=study.labels,
            trained_on=regions_of(study.table),
        )
        name = f"map-{question.criterion}-{question.judge}-{question.epsilon:g}"
        files.append(save(draw_context_map(record), folder / name, record)[0])
    return files


def _sources(experiment: Experiment, results: Results, answer: CoverAnswer) -> Space:
    """Return contexts of the table's sources; of a table with gaps those selected."""
    sources = experiment.sources
    if results.n_sources == sources.size or answer.contexts is None:
        return sources
    points = np.zeros((results.n_sources, len(sources.names)))
    for number, context in zip(answer.cover.sources, answer.contexts, strict=True):
        points[number] = [context[name] for name in sources.names]
    return Points(sources.names, points)


RECORD = "drawn.json"
"""What was drawn, and from which results."""


def draw_run(path: Path, results: Results) -> list[Path]:
    """Draw the figures of a run, unless they are there as they were drawn.

    Args:
        path: the run directory.
        results: what it found.

    Returns:
        The pictures.
    """
    folder = path / "figures"
    drawn = _drawn(path)
    if drawn is not None:
        return [file for file in drawn if file.suffix == ".png"]
    (folder / RECORD).unlink(missing_ok=True)
    figures = save_figures(open_study(path), results, folder)
    files = {file for figure in figures for file in folder.glob(f"{figure.stem}.*")}
    record = {
        "results": _checksum(path / "results.json"),
        "files": {file.name: _checksum(file) for file in sorted(files)},
    }
    write_sealed(folder / RECORD, record)
    return figures


def _drawn(path: Path) -> list[Path] | None:
    """Return the figures of these results, None if one is missing or damaged."""
    folder = path / "figures"
    try:
        record = read_sealed(folder / RECORD)
        files = {folder / Path(name).name: c for name, c in record["files"].items()}
        if record["results"] != _checksum(path / "results.json"):
            return None
        return list(files) if all(_checksum(f) == c for f, c in files.items()) else None
    except (DamagedFileError, OSError, AttributeError, KeyError, TypeError):
        return None


def _checksum(file: Path) -> str:
    return checksum(file.read_bytes())
