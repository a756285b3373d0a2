"""Who serves whom: maps over the contexts, and losses as a heat map."""

import itertools
import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace.cover import Cover
from taskspace.cover.cover import names_of
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study, as_study
from taskspace.questions import Question
from taskspace.show.style import (
    colour,
    colour_numbers,
    draw_sources,
    literal,
    panel,
    panels,
    set_axis,
    title_of,
    touching_sources,
)
from taskspace.spaces import Grid, Space

MAX_SLICES = 9


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
    records = axes_of(study.targets, study.labels)
    who = places_of(cover.sources, cover.n_sources)[cover.assignment]
    sources = source_points(study, study.targets.names, cover.sources)
    outlines: list[Mask] = []
    if "trained_on" in study.table:
        weights = study.table["trained_on"].values[cover.sources]
        outlines = [row > 0 for row in weights]
    if records[0].values is None:  # points that are no grid
        shape, shades = None, [colour(i) for i in range(cover.size)]
        pairs = itertools.combinations(range(len(records)), min(2, len(records)))
        planes = [(pair, {}) for pair in pairs][:MAX_SLICES]
    else:
        shape = [len(record.values or ()) for record in records]
        near = touching_sources(who.reshape(shape), cover.size)
        shades = [colour(number) for number in colour_numbers(near)]
        planes = _slices(shape)
    columns = min(3, len(planes))
    lines = -(-len(planes) // columns)
    width, height = 3.4 * columns, 3.1 * lines + 0.4
    if len(planes) == 1:
        width, height = 5.4, 4.8 if len(records) > 1 else 1.9
    with panels(width, height, lines, columns, grid=False) as (figure, grid):
        for axes, (shown, fixed) in zip(grid.ravel(), planes, strict=False):
            here = [records[axis] for axis in shown]
            if shape is None:
                face = [shades[i] if i >= 0 else "white" for i in who]
                at = on_plane(study.targets.points[:, shown]).T
                axes.scatter(*at, c=face, edgecolors="grey", s=30)
            else:
                cut = tuple(fixed.get(axis, slice(None)) for axis in range(len(shape)))
                region = who.reshape(shape)[cut]
                masks = [mask.reshape(shape)[cut] for mask in outlines]
                _draw_cells(axes, here, region, masks, shades)
            draw_axes(axes, here, pad=0.03 if shape is None else 0.0)
            values = {
                axis: (records[axis].values or [])[i] for axis, i in fixed.items()
            }
            if sources is not None:
                on = [sources[:, axis] == value for axis, value in values.items()]
                numbers = np.flatnonzero(np.all([*on, [True] * cover.size], axis=0))
                places = on_plane(sources[numbers][:, shown])
                draw_sources(axes, places, numbers.tolist(), shades)
            words = [f"{records[axis].name} = {v:g}" for axis, v in values.items()]
            axes.set_title(literal(", ".join(words)), fontsize=9)
        for axes in grid.ravel()[len(planes) :]:
            axes.set_visible(False)
        figure.suptitle(literal(_title(cover, outlines)), fontsize=10)
    return figure


def _title(cover: Cover, outlines: list[Mask]) -> str:
    asked = f"{title_of(cover.question)}, " if cover.question else ""
    covered = f"{100 * cover.coverage:.4g} % covered"
    title = f"{n_sources(cover.size)} ({cover.method}), {asked}{covered}"
    if any(mask.sum() > 1 for mask in outlines):
        title += "\ndashed: what a source was trained on"
    return title


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
            (labels or {}).get(name, name),
            float(value[0]),
            float(value[-1]),
            scales.get(name, _scale(value)),
            value.tolist() if is_grid else None,
        )
        for name, value in zip(space.names, values, strict=True)
    ]


def _scale(values: Array) -> str:
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


def places_of(sources: Numbers, n_sources: int) -> Numbers:
    """Return the place of each source in a selection, −1 for the others and for −1.

    Args:
        sources: the selected sources, in order.
        n_sources: how many there are.
    """
    places = np.full(n_sources + 1, -1)
    places[sources] = np.arange(len(sources))
    return places


def source_points(study: Study, names: Any, sources: Numbers) -> Array | None:
    """Return contexts of sources on some axes, None where these are not known.

    Args:
        study: what is known.
        names: of the axes.
        sources: indices of the sources.
    """
    space = study.sources
    if space is None or not set(names) <= set(space.names):
        return None
    return space.points[sources][:, [space.names.index(name) for name in names]]


def on_plane(points: Array) -> Array:
    """Return points of one or two axes as points of a plane; one axis has height 0.

    Args:
        points: one row each.
    """
    return np.pad(points, ((0, 0), (0, 2 - points.shape[1])))


def draw_axes(axes: Axes, records: list[AxisRecord], pad: float = 0.0) -> None:
    """Give a panel over one or two context axes its labels, scales and limits.

    Args:
        axes: the panel.
        records: the axes that are shown.
        pad: how far the panel goes beyond its values, as a share of their range.
    """
    for axis, record in zip((axes.xaxis, axes.yaxis), records, strict=False):
        set_axis(axis, record.label, record.scale, record.low, record.high, pad)
    if len(records) == 1:
        axes.set(yticks=[], ylim=(-0.5, 0.5))


def _slices(shape: list[int]) -> list[tuple[tuple[int, ...], dict[int, int]]]:
    """Return slices along the axes with fewest values, as many as can be seen."""
    order = sorted(range(len(shape)), key=lambda a: (-shape[a], a))
    shown, rest = tuple(sorted(order[:2])), sorted(order[2:])
    every = list(itertools.product(*(range(shape[a]) for a in rest)))
    places = np.unique(np.linspace(0, len(every) - 1, MAX_SLICES).round().astype(int))
    return [(shown, dict(zip(rest, every[i], strict=True))) for i in places]


def _draw_cells(
    axes: Axes,
    records: list[AxisRecord],
    region: NDArray[Any],
    outlines: list[Mask],
    shades: list[str],
) -> None:
    """Draw the cells of a plane in the colour of their source, and outlines."""
    x = cell_edges(np.array(records[0].values), records[0].scale)
    y = np.array([-0.5, 0.5])
    if len(records) == 2:
        y = cell_edges(np.array(records[1].values), records[1].scale)
    region = region.reshape(len(x) - 1, -1)
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
    for mask, shade in zip(outlines, shades, strict=False):
        if mask.sum() > 1:
            lines = _borders(np.pad(mask.reshape(region.shape), 1), x, y)
            for ink, width, style in (("black", 2.6, "-"), (shade, 1.6, "--")):
                drawn = LineCollection(
                    lines, colors=ink, linewidths=width, linestyles=style
                )
                drawn.set_clip_on(False)
                axes.add_collection(drawn)


def _borders(wide: NDArray[Any], x: Array, y: Array) -> list[Any]:
    """Return the lines between cells that differ, of cells with one more around."""
    lines = []
    i, j = np.nonzero(wide[1:, 1:-1] != wide[:-1, 1:-1])
    lines += [[(x[a], y[b]), (x[a], y[b + 1])] for a, b in zip(i, j, strict=True)]
    i, j = np.nonzero(wide[1:-1, 1:] != wide[1:-1, :-1])
    lines += [[(x[a], y[b]), (x[a + 1], y[b])] for a, b in zip(i, j, strict=True)]
    return lines


def cell_edges(values: Array, scale: str) -> Array:
    """Return where cells meet: half way in the scale of the axis, and the ends.

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


MAX_NAMES = 40
"""Names along an axis, at most."""


def transfer(
    study: Study | xr.Dataset, question: Question, *, cover: Cover | None = None
) -> Figure:
    """Draw the losses of all sources at all targets; what is not served is grey.

    Sources that are alike stand beside each other, and so do targets.

    Args:
        study: what is known, or a performance table.
        question: criterion, judge and tolerance.
        cover: whose sources to mark.
    """
    table = question.table_of(study)
    losses = question.losses(table).values
    rows, columns = seriation(losses)
    n_rows, n_columns = losses.shape
    limit = question.epsilon
    if limit is None:
        limit = float(losses[np.isfinite(losses)].max(initial=0.0))
    width = max(4.5, 2.2 + min(7.0, 0.22 * n_columns))
    height = max(2.6, 1.5 + min(6.5, 0.2 * n_rows))
    with panel(width, height, grid=False) as (figure, axes):
        axes.set_facecolor("#dddddd")
        shown = np.ma.masked_where(losses > limit, losses)[rows][:, columns]
        image = axes.imshow(
            shown, cmap="cividis_r", aspect="auto", interpolation="nearest"
        )
        figure.colorbar(image, label="loss; grey: not served")
        chosen = [] if cover is None else cover.sources
        for row in np.flatnonzero(np.isin(rows, chosen)).tolist():
            corner = (-0.5, row - 0.5)
            axes.add_patch(
                Rectangle(corner, n_columns, 1, fill=False, ec="#D55E00", lw=1.5)
            )
        axes.set_yticks(*_ticks(names_of(table, "source"), rows))
        axes.set_xticks(*_ticks(names_of(table, "target"), columns), rotation=90)
        axes.tick_params(labelsize=7)
        axes.set(ylabel="sources", xlabel="targets")
        title = textwrap.fill(title_of(question), 60)
        if cover is not None and cover.size:
            title += "\nframed: the selected sources"
        axes.set_title(literal(title), fontsize=10)
    return figure


def seriation(
    losses: NDArray[np.float64],
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return orders of sources and targets in which like stands beside like.

    By the second singular vectors of the ranks of the losses (correspondence
    analysis), which also orders matrices with failures and of any unit.

    Args:
        losses: dims `(source, target)`; infinities count as the largest.
    """
    if min(losses.shape) < 3:
        score = np.where(np.isfinite(losses), losses, np.nanmax(losses))
        return score.mean(1).argsort(kind="stable"), score.mean(0).argsort(
            kind="stable"
        )
    order = losses.ravel().argsort(kind="stable")
    rank = np.empty(losses.size)
    rank[order] = np.arange(losses.size)
    likeness = 1.0 - rank.reshape(losses.shape) / losses.size
    by_source = likeness / np.sqrt(likeness.sum(1, keepdims=True))
    scaled = by_source / np.sqrt(likeness.sum(0, keepdims=True))
    left, _, right = np.linalg.svd(scaled, full_matrices=False)
    rows, columns = left[:, 1], right[1]
    if abs(rows.min()) > rows.max():  # a sign that does not depend on the machine
        rows, columns = -rows, -columns
    return rows.argsort(kind="stable"), columns.argsort(kind="stable")


def _ticks(names: list[str] | None, order: NDArray[np.intp]) -> tuple[range, list[str]]:
    """Return places and names along an axis, none of too many."""
    if len(order) > MAX_NAMES:
        return range(0), []
    shown = [str(i) if names is None else names[i] for i in order.tolist()]
    short = [literal(textwrap.shorten(n, 24, placeholder="…")) for n in shown]
    return range(len(short)), short
