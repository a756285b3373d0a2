"""Maps of who serves whom."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from taskspace.cover import Cover
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study, as_study
from taskspace.questions import Question
from taskspace.show.figures.transfer import transfer
from taskspace.show.style import (
    colour,
    colour_numbers,
    draw_sources,
    literal,
    panels,
    set_axis,
    title_of,
    touching_sources,
)
from taskspace.spaces import Grid, Space

MAX_SLICES = 9
MAX_NUMERALS = 99


def map(study: Study | xr.Dataset, cover: Cover) -> Figure:
    """Draw who serves whom: a map over the contexts of any study, with any cover.

    One axis is a strip, two a plane, more are slices; points that are no grid are
    dots. Regions that touch differ in colour. What a source was trained on, where that
    is a region, is outlined. A study without contexts becomes a heat map with the
    sources marked.

    Args:
        study: what is known, or a performance table.
        cover: a cover of it.
    """
    study = as_study(study)
    sizes = study.n_sources, study.n_targets
    if sizes != (cover.n_sources, cover.n_targets):
        raise InvalidInputError(
            f"The cover must be one of this table, {sizes[0]} sources at {sizes[1]} "
            f"targets, but it speaks of {cover.n_sources} and {cover.n_targets}."
        )
    if study.targets is None:
        question = cover.question or Question(epsilon=0.0)
        return transfer(study, question, cover=cover)
    axes_shown = axes_of(study.targets, study.labels)
    values = [axis.values for axis in axes_shown]
    shape = None
    planes: list[tuple[tuple[int, ...], dict[int, int]]]
    if None not in values:
        shape = [len(v or ()) for v in values]
        planes = _slices(shape)
    else:
        pairs = itertools.combinations(range(len(values)), min(2, len(values)))
        planes = [(pair, {}) for pair in pairs][:MAX_SLICES]
    picture = _Map(study, cover, axes_shown, shape)
    columns = min(3, len(planes))
    lines = -(-len(planes) // columns)
    width, height = 3.4 * columns, 3.1 * lines + 0.4
    if len(planes) == 1:
        width, height = 5.4, 4.8 if len(values) > 1 else 1.9
    with panels(width, height, lines, columns, grid=False) as (figure, grid):
        for axes, (shown, fixed) in zip(grid.ravel(), planes, strict=False):
            picture.draw(axes, shown, fixed)
            at = {axes_shown[a].name: (values[a] or [])[i] for a, i in fixed.items()}
            words = ", ".join(f"{name} = {value:g}" for name, value in at.items())
            axes.set_title(literal(words), fontsize=9)
        for axes in grid.ravel()[len(planes) :]:
            axes.set_visible(False)
        figure.suptitle(literal(picture.title), fontsize=10)
    return figure


@dataclass(frozen=True)
class AxisRecord:
    """One axis of a context space.

    Args:
        name: of the parameter.
        label: name and unit, for people.
        low: smallest value.
        high: largest value.
        scale: `"linear"` or `"log"`.
        values: the values of a grid's axis, None for a list of points.
    """

    name: str
    label: str
    low: float
    high: float
    scale: str
    values: list[float] | None


def axes_of(space: Space, labels: Mapping[str, str] | None = None) -> list[AxisRecord]:
    """Return the axes of a space; points that fill a grid count as one.

    Args:
        space: the contexts.
        labels: labels by name; the name where there is none.
    """
    labels = labels or {}
    columns = space.points.T
    values = [np.unique(column) for column in columns]
    is_grid = math.prod(len(v) for v in values) == space.size
    if is_grid:
        mesh = np.meshgrid(*values, indexing="ij")
        pairs = zip(mesh, columns, strict=True)
        is_grid = all(np.array_equal(m.ravel(), c) for m, c in pairs)
    scales = {a.name: a.scale for a in space.axes} if isinstance(space, Grid) else {}
    return [
        AxisRecord(
            name,
            labels.get(name, name),
            float(column.min()),
            float(column.max()),
            scales.get(name, _scale(value)),
            value.tolist() if is_grid else None,
        )
        for name, column, value in zip(space.names, columns, values, strict=True)
    ]


def _scale(values: NDArray[np.float64]) -> str:
    """Return whether values lie evenly in their logarithm rather than in themselves."""
    if len(values) < 3 or values[0] <= 0:
        return "linear"
    steps, ratios = np.diff(values), np.diff(np.log(values))
    unevenness = np.ptp(ratios) / ratios.mean(), np.ptp(steps) / steps.mean()
    return "log" if unevenness[0] < 0.1 * unevenness[1] else "linear"


def n_sources(size: int) -> str:
    """Return how many sources, in words.

    Args:
        size: how many.
    """
    return f"{size} source" if size == 1 else f"{size} sources"


def _slices(shape: list[int]) -> list[tuple[tuple[int, ...], dict[int, int]]]:
    """Return slices along the axes with fewest values, as many as can be seen."""
    order = sorted(range(len(shape)), key=lambda a: (-shape[a], a))
    shown, rest = tuple(sorted(order[:2])), sorted(order[2:])
    every = list(itertools.product(*(range(shape[a]) for a in rest)))
    places = np.unique(np.linspace(0, len(every) - 1, MAX_SLICES).round().astype(int))
    return [(shown, dict(zip(rest, every[i], strict=True))) for i in places]


class _Map:
    """Draws one cover, plane by plane.

    Args:
        study: with contexts of the targets.
        cover: who serves whom.
        axes: of the targets.
        shape: of the grid of targets, None for points.
    """

    def __init__(
        self,
        study: Study,
        cover: Cover,
        axes: list[AxisRecord],
        shape: list[int] | None,
    ):
        assert study.targets is not None
        self.axes, self.shape, self.points = axes, shape, study.targets.points
        place = np.full(cover.n_sources + 1, -1)
        place[cover.sources] = np.arange(cover.size)
        self.who = place[cover.assignment]
        numbers = list(range(cover.size))
        if shape is not None:
            region = self.who.reshape(shape)
            numbers = colour_numbers(touching_sources(region, cover.size))
        self.shades = [colour(number) for number in numbers]
        self.sources: NDArray[np.float64] | None = None
        names = study.targets.names
        if study.sources is not None and set(names) <= set(study.sources.names):
            columns = [study.sources.names.index(name) for name in names]
            self.sources = study.sources.points[cover.sources][:, columns]
        self.trained_on: list[NDArray[np.bool_]] = []
        if "trained_on" in study.table:
            weights = study.table["trained_on"].values[cover.sources]
            self.trained_on = [row > 0 for row in weights]
        question = cover.question
        asked = f"{title_of(question)}, " if question else ""
        covered = f"{100 * cover.coverage:.4g} % covered"
        self.title = f"{n_sources(cover.size)} ({cover.method}), {asked}{covered}"
        if any(row.sum() > 1 for row in self.trained_on):
            self.title += "\ndashed: what a source was trained on"

    def draw(self, axes: Axes, shown: tuple[int, ...], fixed: dict[int, int]) -> None:
        """Draw regions, outlines and sources of one plane.

        Args:
            axes: where to draw.
            shown: the one or two axes that are drawn.
            fixed: place on each of the other axes.
        """
        records = [self.axes[axis] for axis in shown]
        if self.shape is None:
            columns = [self.points[:, axis] for axis in shown]
            face = [self.shades[i] if i >= 0 else "white" for i in self.who]
            at = columns if len(columns) == 2 else [columns[0], 0 * columns[0]]
            axes.scatter(*at, c=face, edgecolors="grey", s=30)
        else:
            self._draw_cells(axes, records, fixed)
        pad = 0.0 if self.shape is not None else 0.03
        for axis, record in zip((axes.xaxis, axes.yaxis), records, strict=False):
            set_axis(axis, record.label, record.scale, record.low, record.high, pad)
        if len(records) == 1:
            axes.set(yticks=[], ylim=(-0.5, 0.5))
        if self.sources is not None:
            on = np.ones(len(self.sources), bool)
            for axis, i in fixed.items():
                on &= self.sources[:, axis] == (self.axes[axis].values or [])[i]
            numbers = np.flatnonzero(on).tolist()
            places = [tuple(self.sources[n, list(shown)]) for n in numbers]
            places = [at if len(at) == 2 else (*at, 0.0) for at in places]
            many = len(self.sources) > MAX_NUMERALS
            size = 4 if many else 11
            draw_sources(
                axes, places, numbers, self.shades, size=size, numerals=not many
            )

    def _draw_cells(
        self, axes: Axes, records: list[AxisRecord], fixed: dict[int, int]
    ) -> None:
        assert self.shape is not None
        edges = [cell_edges(np.array(r.values), r.scale) for r in records]
        x, y = edges if len(edges) == 2 else (edges[0], np.array([-0.5, 0.5]))
        cut = tuple(fixed.get(axis, slice(None)) for axis in range(len(self.shape)))

        def cells(values: NDArray[Any]) -> NDArray[Any]:
            return values.reshape(self.shape)[cut].reshape(len(x) - 1, -1)

        region = cells(self.who)
        axes.pcolormesh(
            x,
            y,
            region.T + 1,
            cmap=ListedColormap(["white", *self.shades]),
            vmin=-0.5,
            vmax=len(self.shades) + 0.5,
            rasterized=True,
        )
        missing = np.ma.masked_where(region.T >= 0, region.T)
        if not missing.mask.all():
            axes.pcolor(x, y, missing, hatch="////", alpha=0.0, edgecolor="grey")
        lines = _borders(np.pad(region, 1, mode="edge"), x, y)
        axes.add_collection(LineCollection(lines, colors="white", linewidths=0.8))
        for mask, shade in zip(self.trained_on, self.shades, strict=False):
            if mask.sum() > 1:
                lines = _borders(np.pad(cells(mask), 1), x, y)
                for ink, width, style in (("black", 2.6, "-"), (shade, 1.6, "--")):
                    drawn = LineCollection(
                        lines, colors=ink, linewidths=width, linestyles=style
                    )
                    drawn.set_clip_on(False)
                    axes.add_collection(drawn)


def _borders(
    wide: NDArray[Any], x: NDArray[np.float64], y: NDArray[np.float64]
) -> list[Any]:
    """Return the lines between cells that differ, of cells with one more around."""
    lines = []
    i, j = np.nonzero(wide[1:, 1:-1] != wide[:-1, 1:-1])
    lines += [[(x[a], y[b]), (x[a], y[b + 1])] for a, b in zip(i, j, strict=True)]
    i, j = np.nonzero(wide[1:-1, 1:] != wide[1:-1, :-1])
    lines += [[(x[a], y[b]), (x[a + 1], y[b])] for a, b in zip(i, j, strict=True)]
    return lines


def cell_edges(values: NDArray[np.float64], scale: str) -> NDArray[np.float64]:
    """Return where cells meet: half way in the axis' own scale, and the ends.

    Args:
        values: of the axis, ascending.
        scale: `"linear"` or `"log"`.
    """
    if len(values) == 1:
        if scale == "log":
            return values[0] * np.array([1 / 1.5, 1.5])
        return values[0] + np.array([-0.5, 0.5])
    middle = (values[1:] + values[:-1]) / 2
    if scale == "log":
        middle = np.sqrt(values[1:] * values[:-1])
    return np.concatenate([values[:1], middle, values[-1:]])
