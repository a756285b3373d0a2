"""Coverage against the number of policies, and the map of who serves whom.

`coverage_plot` and `context_map` turn the results of a run into small records;
`draw_*` render a record with matplotlib. The record is saved beside the picture.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from taskspace._files import clean_leftovers, write_atomically
from taskspace.cover import CoverAnswer
from taskspace.questions import Question
from taskspace.runs.experiment import Experiment
from taskspace.runs.results import Results
from taskspace.show.style import (
    METHOD_COLOURS,
    PALETTE,
    STYLE,
    new_figure,
    save,
)
from taskspace.spaces import Grid

__all__ = [
    "ContextMap",
    "CoveragePlot",
    "context_map",
    "coverage_plot",
    "draw_context_map",
    "draw_coverage",
    "save_figures",
]


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
        curves: one a method.
        covers: method, number of sources and coverage of covers without a curve.
        lower_bound: no selection with fewer sources covers as much.
    """

    title: str
    curves: list[Curve]
    covers: list[tuple[str, int, float]]
    lower_bound: float | None


@dataclass(frozen=True)
class ContextMap:
    """Who serves whom in a space of one or two axes.

    Args:
        title: what cover this is.
        labels: axis labels with units, one or two.
        targets: contexts of the targets, one row each.
        shape: shape of the target grid, None for a list of points.
        assignment: for each target the place of its source in `sources`, −1 for none.
        sources: contexts of the sources, in order of selection.
    """

    title: str
    labels: list[str]
    targets: list[list[float]]
    shape: list[int] | None
    assignment: list[int]
    sources: list[list[float]]


def coverage_plot(results: Results, question: Question) -> CoveragePlot:
    """The coverage curves of one question of a run.

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
        title=question.statement,
        curves=curves,
        covers=[
            (cover.method, cover.size, cover.coverage)
            for cover in covers
            if cover.method not in drawn
        ],
        lower_bound=max((cover.lower_bound for cover in covers), default=None),
    )


def context_map(
    experiment: Experiment, answer: CoverAnswer, labels: Mapping[str, str]
) -> ContextMap | None:
    """The map of one cover, None where the space has more than two axes.

    Args:
        experiment: the experiment of the run.
        answer: a cover and its question.
        labels: name and unit of each axis.
    """
    cover, question = answer.cover, answer.question
    assert question is not None
    space = experiment.target_space
    if len(space.names) > 2 or space.names != experiment.sources.names:
        return None
    place = {int(source): i for i, source in enumerate(cover.sources)}
    return ContextMap(
        title=(
            f"{cover.size} sources ({cover.method}), {question.criterion} "
            f"≤ {question.epsilon:g}, {100 * cover.coverage:.4g} % covered"
        ),
        labels=[labels.get(name, name) for name in space.names],
        targets=space.points.tolist(),
        shape=list(space.shape) if isinstance(space, Grid) else None,
        assignment=[place.get(int(source), -1) for source in cover.assignment],
        sources=experiment.sources.points[cover.sources].tolist(),
    )


def draw_coverage(panels: Sequence[CoveragePlot]) -> Figure:
    """Draw coverage against policies kept (top) and trainings spent (bottom)."""
    figure = new_figure(4.2 * len(panels), 6.0)
    with mpl.rc_context(STYLE):
        axes = figure.subplots(2, len(panels), squeeze=False, sharey=True)
        for column, panel in enumerate(panels):
            for row, quantity in enumerate(("n_sources", "trainings")):
                _draw_curves(axes[row, column], panel, quantity)
            for method, size, coverage in panel.covers:
                axes[0, column].plot(
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
            axes[0, column].set_title(panel.title)
            axes[0, column].set_xlabel("sources kept")
            axes[1, column].set_xlabel("policies trained to choose them")
            if panel.lower_bound is not None:
                axes[0, column].axvline(
                    panel.lower_bound, color="black", linestyle=":", linewidth=1
                )
                axes[0, column].annotate(
                    f"proven: at least {panel.lower_bound:g}",
                    (panel.lower_bound, 0.02),
                    xytext=(4, 0),
                    textcoords="offset points",
                    fontsize=8,
                )
        for row in range(2):
            axes[row, 0].set_ylabel("targets covered")
        axes[0, 0].legend(loc="lower right")
    return figure


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


def draw_context_map(record: ContextMap) -> Figure:
    """Draw who serves whom: one colour a source, neighbours always different."""
    two = len(record.labels) == 2
    figure = new_figure(5.4, 4.8 if two else 1.9)
    targets, sources = np.array(record.targets), np.array(record.sources)
    assignment = np.array(record.assignment)
    shades = np.array(["white", *PALETTE])
    with mpl.rc_context(STYLE | {"axes.grid": False}):
        axes = figure.subplots()
        if record.shape is not None:
            region = assignment.reshape(record.shape if two else [-1, 1])
            entry = _colour_sources(region, len(sources))
            x = _edges(np.unique(targets[:, 0]))
            y = _edges(np.unique(targets[:, 1])) if two else np.array([-0.5, 0.5])
            axes.pcolormesh(
                x,
                y,
                entry[region].T,
                cmap=ListedColormap(list(shades)),
                vmin=-0.5,
                vmax=len(PALETTE) + 0.5,
                rasterized=True,
            )
            _draw_borders(axes, region, x, y)
        else:
            entry = 1 + np.arange(len(sources) + 1) % len(PALETTE)
            entry[-1] = 0
            height = targets[:, 1] if two else np.zeros(len(targets))
            colours = shades[entry[assignment]]
            axes.scatter(targets[:, 0], height, c=colours, edgecolors="grey", s=30)
        for place, source in enumerate(sources):
            _draw_source(axes, source, str(shades[entry[place]]), str(place + 1))
        axes.set_title(record.title, fontsize=10)
        axes.set_xlabel(record.labels[0])
        if two:
            axes.set_ylabel(record.labels[1])
        else:
            axes.set_yticks([])
    return figure


def _draw_source(
    axes: Axes, source: NDArray[np.float64], colour: str, label: str
) -> None:
    x, y = source[0], source[1] if len(source) > 1 else 0.0
    axes.plot(
        x,
        y,
        "o",
        color=colour,
        markersize=11,
        markeredgecolor="black",
        clip_on=False,
        zorder=5,
    )
    axes.annotate(
        label, (x, y), ha="center", va="center", fontsize=6.5, zorder=6, clip_on=False
    )


def _edges(centres: NDArray[np.float64]) -> NDArray[np.float64]:
    if len(centres) == 1:
        return centres[0] + np.array([-0.5, 0.5])
    middle = (centres[1:] + centres[:-1]) / 2
    first = centres[0] - (middle[0] - centres[0])
    last = centres[-1] + (centres[-1] - middle[-1])
    return np.concatenate([[first], middle, [last]])


def _colour_sources(region: NDArray[np.int64], n_sources: int) -> NDArray[np.int64]:
    """Palette entry (from 1) of each source so that regions that touch differ.

    Greedy colouring by degree: the entry that the fewest neighbours have, and of
    those the one used least so far, so that colours repeat as late as they can.
    """
    touching: list[set[int]] = [set() for _ in range(n_sources)]
    for a, b in ((region[1:], region[:-1]), (region[:, 1:], region[:, :-1])):
        differs = (a != b) & (a >= 0) & (b >= 0)
        for i, j in {
            (int(p), int(q)) for p, q in zip(a[differs], b[differs], strict=True)
        }:
            touching[i].add(j)
            touching[j].add(i)
    n_colours = 1 + len(PALETTE)
    entry = np.zeros(n_sources + 1, np.int64)  # the last one is for −1: no source
    for i in sorted(range(n_sources), key=lambda i: (-len(touching[i]), i)):
        near = np.bincount([entry[j] for j in touching[i]], minlength=n_colours)
        total = np.bincount(entry[:-1], minlength=n_colours)
        entry[i] = min(range(1, n_colours), key=lambda e: (near[e], total[e]))
    return entry


def _draw_borders(
    axes: Axes,
    region: NDArray[np.int64],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
) -> None:
    style: dict[str, Any] = {"color": "white", "linewidth": 0.8}
    i, j = np.nonzero(region[1:] != region[:-1])
    axes.vlines(x[i + 1], y[j], y[j + 1], **style)
    i, j = np.nonzero(region[:, 1:] != region[:, :-1])
    axes.hlines(y[j + 1], x[i], x[i + 1], **style)


def save_figures(
    experiment: Experiment, results: Results, system: Mapping[str, Any], folder: Path
) -> list[Path]:
    """Draw everything a run has to show.

    Args:
        experiment: the experiment of the run.
        results: what it found.
        system: what a run tells of its system: the labels of its axes.
        folder: where to put `coverage.png`, `map-regret-worst-0.2.png`, …

    Returns:
        The PNG files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    clean_leftovers(folder)
    files = []
    panels = [coverage_plot(results, question) for question, _ in results.by_question]
    drawn = [panel for panel in panels if panel.curves]
    if drawn:
        files.append(
            _save(draw_coverage(drawn), [asdict(p) for p in drawn], folder / "coverage")
        )
    labels = {axis["name"]: axis["label"] for axis in system.get("axes", ())}
    for question, answers in results.by_question:
        # The smallest of the fullest covers.
        best = min(answers, key=lambda a: (-a.cover.coverage, a.cover.size))
        record = context_map(experiment, best, labels)
        if record is not None and best.cover.size:
            name = f"map-{question.criterion}-{question.judge}-{question.epsilon:g}"
            files.append(_save(draw_context_map(record), asdict(record), folder / name))
    return files


def _save(figure: Figure, record: Any, path: Path) -> Path:
    write_atomically(path.with_name(f"{path.name}.json"), json.dumps(record) + "\n")
    return save(figure, path)[0]
