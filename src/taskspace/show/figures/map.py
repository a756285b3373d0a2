"""Maps of who serves whom: the record, and the picture."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
from numpy.typing import NDArray

from taskspace.cover import Cover
from taskspace.cover.answer import source_names
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study, as_study
from taskspace.questions import Question
from taskspace.show.figures.transfer import transfer
from taskspace.show.style import (
    colour,
    colour_numbers,
    draw_sources,
    literal,
    panel,
    panels,
    touching_sources,
)
from taskspace.spaces import Grid, Space

MAX_SLICES = 9
MAX_NUMERALS = 99


def map(study: Study | xr.Dataset, cover: Cover) -> Figure:
    """Draw who serves whom: a map over the contexts of any study, with any cover.

    One axis is a strip, two a plane, more are slices; points that are no grid are
    dots. A study without contexts becomes a heat map with the sources marked.

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
    record = context_map(
        study.targets,
        study.sources,
        cover,
        labels=study.labels,
        names=source_names(study.table),
        trained_on=regions_of(study.table),
    )
    return draw_context_map(record)


def regions_of(table: xr.Dataset) -> NDArray[np.float64] | None:
    """Return what the sources of a table were trained on, None where that is points.

    Args:
        table: a performance table.
    """
    return table["trained_on"].values if "trained_on" in table else None


def map_title(cover: Cover) -> str:
    """Return what a map shows, in a line.

    Args:
        cover: the cover.
    """
    question = cover.question
    asked = f"{question.rule.short(question.epsilon)}, " if question else ""
    covered = f"{100 * cover.coverage:.4g} % covered"
    return f"{n_sources(cover.size)} ({cover.method}), {asked}{covered}"


def n_sources(size: int) -> str:
    """Return how many sources, in words.

    Args:
        size: how many.
    """
    return f"{size} source" if size == 1 else f"{size} sources"


def places_on(
    names: Sequence[str], sources: Space | None, chosen: Sequence[int] | NDArray[Any]
) -> list[list[float]] | None:
    """Return where sources lie on some axes, None if they do not have all of these.

    Args:
        names: the axes.
        sources: contexts of all sources, None where they have none.
        chosen: numbers of the sources.
    """
    if sources is None or not set(names) <= set(sources.names):
        return None
    columns = [sources.names.index(name) for name in names]
    return sources.points[chosen][:, columns].tolist()


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


@dataclass(frozen=True)
class ContextMap:
    """Who serves whom over a context space of any number of axes.

    Args:
        title: what cover this is.
        axes: of the targets.
        shape: shape of the target grid, None for a list of points.
        targets: contexts of the targets, one row each.
        assignment: for each target the place of its source in `sources`, −1 for none.
        sources: contexts of the sources on the targets' axes, in order of selection;
            None where a source has no such context.
        names: names of the sources, None where they have none.
        colours: number of each source's colour; regions that touch differ.
        trained_on: numbers of the targets that each source was trained for, where it
            was more than one; None where no source was trained on a region.
    """

    title: str
    axes: list[AxisRecord]
    shape: list[int] | None
    targets: list[list[float]]
    assignment: list[int]
    sources: list[list[float]] | None
    names: list[str] | None
    colours: list[int]
    trained_on: list[list[int]] | None = None


def context_map(
    targets: Space,
    sources: Space | None,
    cover: Cover,
    *,
    labels: Mapping[str, str] | None = None,
    names: list[str] | None = None,
    trained_on: NDArray[np.float64] | None = None,
) -> ContextMap:
    """Return the map of one cover.

    Args:
        targets: contexts of the targets.
        sources: contexts of the sources, None where they have none.
        cover: who serves whom.
        labels: axis labels by name.
        names: names of all sources.
        trained_on: weights of the targets in the training of each source, dims
            `(source, target)`, where some were trained on regions.
    """
    axes = axes_of(targets, labels)
    shape = None
    if all(axis.values is not None for axis in axes):
        shape = [len(axis.values or ()) for axis in axes]
    chosen = [int(source) for source in cover.sources]
    place = {source: i for i, source in enumerate(chosen)}
    assignment = [place.get(int(source), -1) for source in cover.assignment]
    if shape is None:
        colours = list(range(cover.size))
    else:
        region = np.array(assignment, np.int64).reshape(shape)
        colours = colour_numbers(touching_sources(region, cover.size))
    title = map_title(cover)
    regions = None if trained_on is None else _regions(trained_on[chosen])
    if any(regions or []):
        title += "\ndashed: what a source was trained on"
    return ContextMap(
        title=title,
        axes=axes,
        shape=shape,
        targets=targets.points.tolist(),
        assignment=assignment,
        sources=places_on(targets.names, sources, chosen),
        names=None if names is None else [names[s] for s in chosen],
        colours=colours,
        trained_on=regions,
    )


def _regions(weights: NDArray[np.float64]) -> list[list[int]]:
    """Return the targets with weight, of rows that have more than one."""
    rows = [np.flatnonzero(row).tolist() for row in weights]
    return [row if len(row) > 1 else [] for row in rows]


def draw_context_map(record: ContextMap) -> Figure:
    """Draw a map: one colour per source, neighbours always different.

    Args:
        record: what to draw.
    """
    n_axes = len(record.axes)
    if n_axes <= 2:
        height = 4.8 if n_axes == 2 else 1.9
        with panel(5.4, height, grid=False) as (figure, axes):
            _draw_plane(axes, record, (0, 1)[:n_axes], ())
            axes.set_title(literal(record.title), fontsize=10)
        return figure
    planes = _slices(record) if record.shape else _pairs(record)
    columns = min(3, len(planes))
    lines = -(-len(planes) // columns)
    width, height = 3.4 * columns, 3.1 * lines + 0.4
    with panels(width, height, lines, columns, grid=False) as (figure, grid):
        for axes, (shown, fixed) in zip(grid.ravel(), planes, strict=False):
            _draw_plane(axes, record, shown, fixed)
            values = [(record.axes[a].name, _value(record, a, i)) for a, i in fixed]
            words = ", ".join(f"{name} = {value:g}" for name, value in values)
            axes.set_title(literal(words), fontsize=9)
        for axes in grid.ravel()[len(planes) :]:
            axes.set_visible(False)
        figure.suptitle(literal(record.title), fontsize=10)
    return figure


def _value(record: ContextMap, axis: int, place: int) -> float:
    return (record.axes[axis].values or [0.0])[place]


def _slices(record: ContextMap) -> list[tuple[tuple[int, int], tuple]]:
    """Return slices along the axes with fewest values, as many as can be seen."""
    shape = record.shape or []
    order = sorted(range(len(shape)), key=lambda a: (-shape[a], a))
    shown = tuple(sorted(order[:2]))
    rest = sorted(order[2:])
    every = list(itertools.product(*(range(shape[a]) for a in rest)))
    places = np.unique(np.linspace(0, len(every) - 1, MAX_SLICES).round().astype(int))
    return [
        ((shown[0], shown[1]), tuple(zip(rest, every[i], strict=True))) for i in places
    ]


def _pairs(record: ContextMap) -> list[tuple[tuple[int, int], tuple]]:
    pairs = list(itertools.combinations(range(len(record.axes)), 2))
    return [(pair, ()) for pair in pairs[:MAX_SLICES]]


def _draw_plane(
    axes: Axes, record: ContextMap, shown: tuple[int, ...], fixed: tuple
) -> None:
    two = len(shown) == 2
    x_axis, y_axis = record.axes[shown[0]], record.axes[shown[1]] if two else None
    shades = [colour(number) for number in record.colours]
    if (shape := record.shape) is not None:
        x = _edges(x_axis)
        y = np.array([-0.5, 0.5]) if y_axis is None else _edges(y_axis)
        place: list[Any] = [slice(None)] * len(shape)
        for axis, at in fixed:
            place[axis] = at

        def cells(values: Any) -> NDArray[Any]:
            cut = np.reshape(values, shape)[tuple(place)]
            return cut if two else cut[:, None]

        _draw_cells(axes, cells(record.assignment), x, y, shades)
        for number, members in enumerate(record.trained_on or []):
            mask = np.zeros(len(record.assignment), bool)
            mask[members] = True
            _outline(axes, cells(mask), x, y, shades[number])
    else:
        targets = np.array(record.targets)
        height = targets[:, shown[1]] if two else np.zeros(len(targets))
        face = [shades[i] if i >= 0 else "white" for i in record.assignment]
        axes.scatter(targets[:, shown[0]], height, c=face, edgecolors="grey", s=30)
    pad = 0.0 if record.shape is not None else 0.03
    _set_axis(axes, "x", x_axis, pad)
    if y_axis is not None:
        _set_axis(axes, "y", y_axis, pad)
    else:
        axes.set(yticks=[], ylim=(-0.5, 0.5))
    _draw_sources(axes, record, shown, fixed, shades)


def _set_axis(axes: Axes, name: str, axis: AxisRecord, pad: float) -> None:
    """Give an axis its label, scale, ticks and limits.

    Args:
        axes: where to draw.
        name: `"x"` or `"y"`.
        axis: what it shows.
        pad: how far it goes beyond its values, as a share of their range.
    """
    extra = pad * (axis.high - axis.low)
    low, high = axis.low - extra, axis.high + extra
    if low == high:
        low, high = low - 0.5, high + 0.5
    axes.set(**{f"{name}label": literal(axis.label)})
    if axis.scale == "log":
        low = max(low, axis.low)
        axes.set(**{f"{name}scale": "log"})
        ticks = getattr(axes, f"{name}axis")
        few = axis.high / axis.low < 200
        ticks.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
        ticks.set_major_formatter(StrMethodFormatter("{x:g}"))
        ticks.set_minor_formatter(NullFormatter())
    axes.set(**{f"{name}lim": (low, high)})


def _draw_cells(
    axes: Axes,
    region: NDArray[np.int64],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    shades: list[str],
) -> None:
    axes.pcolormesh(
        x,
        y,
        region.T + 1,
        cmap=ListedColormap(["white", *shades]),
        vmin=-0.5,
        vmax=len(shades) + 0.5,
        rasterized=True,
    )
    missing = np.ma.masked_where(region.T >= 0, region.T)
    if not missing.mask.all():
        axes.pcolor(x, y, missing, hatch="////", alpha=0.0, edgecolor="grey")
    lines = _borders(np.pad(region, 1, mode="edge"), x, y)
    axes.add_collection(LineCollection(lines, colors="white", linewidths=0.8))


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


def _outline(
    axes: Axes,
    mask: NDArray[np.bool_],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    shade: str,
) -> None:
    """Draw the border of what a source was trained on, dashed."""
    lines = _borders(np.pad(mask, 1), x, y)
    for colour_, width, style in (("black", 2.6, "solid"), (shade, 1.6, "dashed")):
        axes.add_collection(
            LineCollection(
                lines, colors=colour_, linewidths=width, linestyles=style, clip_on=False
            )
        )


def _edges(axis: AxisRecord) -> NDArray[np.float64]:
    """Return where cells meet: half way in the axis' own scale, and the ends."""
    values = np.array(axis.values)
    if len(values) == 1:
        return values[0] + np.array([-0.5, 0.5])
    bent = np.log(values) if axis.scale == "log" else values
    middle = (bent[1:] + bent[:-1]) / 2
    if axis.scale == "log":
        middle = np.exp(middle)
    return np.concatenate([values[:1], middle, values[-1:]])


def _draw_sources(
    axes: Axes,
    record: ContextMap,
    shown: tuple[int, ...],
    fixed: tuple,
    shades: list[str],
) -> None:
    sources = record.sources or []
    many = len(sources) > MAX_NUMERALS
    numbers = [
        number
        for number, source in enumerate(sources)
        if all(source[a] == _value(record, a, i) for a, i in fixed)
    ]
    x, y = shown[0], shown[1] if len(shown) == 2 else None
    places = [(sources[n][x], 0.0 if y is None else sources[n][y]) for n in numbers]
    draw_sources(
        axes, places, numbers, shades, size=4 if many else 11, numerals=not many
    )
