"""Maps of who serves whom, and heat maps of tables without contexts."""

import itertools
import textwrap
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
from numpy.typing import NDArray

from taskspace.cover import Cover
from taskspace.cover.answer import source_names, target_names
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study, as_study
from taskspace.questions import Question
from taskspace.show.colours import colour, ink
from taskspace.show.figures.records import (
    AxisRecord,
    ContextMap,
    MatrixPlot,
    context_map,
    matrix_plot,
)
from taskspace.show.style import STYLE, literal, new_figure

__all__ = ["draw_context_map", "draw_matrix", "map", "map_title", "transfer"]

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
        title=map_title(cover),
        labels=study.labels,
        names=source_names(study.table),
    )
    return draw_context_map(record)


def map_title(cover: Cover) -> str:
    """Return what a map shows, in a line.

    Args:
        cover: the cover.
    """
    question = cover.question
    asked = f"{question.criterion} ≤ {question.epsilon:g}, " if question else ""
    things = "1 source" if cover.size == 1 else f"{cover.size} sources"
    return f"{things} ({cover.method}), {asked}{100 * cover.coverage:.4g} % covered"


def transfer(
    study: Study | xr.Dataset, question: Question, *, cover: Cover | None = None
) -> Figure:
    """Draw the losses of all sources at all targets, like beside like.

    Args:
        study: what is known, or a performance table.
        question: criterion, judge and tolerance.
        cover: whose sources to mark.
    """
    table = question.table_of(study)
    record = matrix_plot(
        question.losses(table).values,
        title=question.statement,
        sources=source_names(table),
        targets=target_names(table),
        selected=() if cover is None else cover.sources.tolist(),
        epsilon=question.epsilon,
    )
    return draw_matrix(record)


def draw_context_map(record: ContextMap) -> Figure:
    """Draw a map: one colour a source, neighbours always different.

    Args:
        record: what to draw.
    """
    n_axes = len(record.axes)
    if n_axes <= 2:
        figure = new_figure(5.4, 4.8 if n_axes == 2 else 1.9)
        with mpl.rc_context(STYLE | {"axes.grid": False}):
            axes = figure.subplots()
            _draw_plane(axes, record, (0, 1)[:n_axes], ())
            axes.set_title(literal(record.title), fontsize=10)
        return figure
    panels = _slices(record) if record.shape else _pairs(record)
    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    figure = new_figure(3.4 * columns, 3.1 * lines + 0.4)
    with mpl.rc_context(STYLE | {"axes.grid": False}):
        grid = figure.subplots(lines, columns, squeeze=False).ravel()
        for axes, (shown, fixed) in zip(grid, panels, strict=False):
            _draw_plane(axes, record, shown, fixed)
            axes.set_title(
                literal(
                    ", ".join(
                        f"{record.axes[a].name} = {_value(record, a, i):g}"
                        for a, i in fixed
                    )
                ),
                fontsize=9,
            )
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        figure.suptitle(literal(record.title), fontsize=10)
    return figure


def _value(record: ContextMap, axis: int, place: int) -> float:
    return (record.axes[axis].values or [0.0])[place]


def _slices(record: ContextMap) -> list[tuple[tuple[int, int], tuple]]:
    """Slices along the axes with fewest values; as many as can be looked at."""
    shape = record.shape or []
    order = sorted(range(len(shape)), key=lambda a: (-shape[a], a))
    shown = tuple(sorted(order[:2]))
    rest = sorted(order[2:])
    every = list(itertools.product(*(range(shape[a]) for a in rest)))
    kept = np.unique(np.linspace(0, len(every) - 1, MAX_SLICES).round().astype(int))
    return [
        ((shown[0], shown[1]), tuple(zip(rest, every[i], strict=True))) for i in kept
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
    if record.shape is not None:
        region = np.array(record.assignment).reshape(record.shape)
        place: list[Any] = [slice(None)] * region.ndim
        for axis, at in fixed:
            place[axis] = at
        _draw_cells(axes, region[tuple(place)], x_axis, y_axis, shades)
    else:
        targets = np.array(record.targets)
        height = targets[:, shown[1]] if two else np.zeros(len(targets))
        face = [shades[i] if i >= 0 else "white" for i in record.assignment]
        axes.scatter(targets[:, shown[0]], height, c=face, edgecolors="grey", s=30)
    for axis, name in ((x_axis, "x"), (y_axis, "y")):
        if axis is None:
            continue
        getattr(axes, f"set_{name}label")(literal(axis.label))
        if axis.scale == "log":
            getattr(axes, f"set_{name}scale")("log")
            ticks = getattr(axes, f"{name}axis")
            few = axis.high / axis.low < 200
            ticks.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
            ticks.set_major_formatter(StrMethodFormatter("{x:g}"))
            ticks.set_minor_formatter(NullFormatter())
        pad = 0.0 if record.shape is not None else 0.03 * (axis.high - axis.low)
        low, high = axis.low - pad, axis.high + pad
        if low == high:
            low, high = low - 0.5, high + 0.5
        if axis.scale == "log":
            low = max(low, axis.low)
        getattr(axes, f"set_{name}lim")(low, high)
    if not two:
        axes.set_yticks([])
        axes.set_ylim(-0.5, 0.5)
    _draw_sources(axes, record, shown, fixed, shades)


def _draw_cells(
    axes: Axes,
    region: NDArray[np.int64],
    x_axis: AxisRecord,
    y_axis: AxisRecord | None,
    shades: list[str],
) -> None:
    if region.ndim == 1:
        region = region[:, None]
    x = _edges(x_axis)
    y = _edges(y_axis) if y_axis is not None else np.array([-0.5, 0.5])
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
    lines = []
    i, j = np.nonzero(region[1:] != region[:-1])
    lines += [
        [(x[a + 1], y[b]), (x[a + 1], y[b + 1])] for a, b in zip(i, j, strict=True)
    ]
    i, j = np.nonzero(region[:, 1:] != region[:, :-1])
    lines += [
        [(x[a], y[b + 1]), (x[a + 1], y[b + 1])] for a, b in zip(i, j, strict=True)
    ]
    axes.add_collection(LineCollection(lines, colors="white", linewidths=0.8))


def _edges(axis: AxisRecord) -> NDArray[np.float64]:
    """Where cells meet: half way in the axis' own scale; the ends are the range."""
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
    if record.sources is None:
        return
    many = len(record.sources) > MAX_NUMERALS
    for place, source in enumerate(record.sources):
        if any(source[a] != _value(record, a, i) for a, i in fixed):
            continue
        at = source[shown[0]], source[shown[1]] if len(shown) == 2 else 0.0
        axes.plot(
            *at,
            "o",
            color=shades[place],
            markersize=4 if many else 11,
            markeredgecolor="black",
            clip_on=False,
            zorder=5,
        )
        if not many:
            axes.annotate(
                str(place + 1),
                at,
                ha="center",
                va="center",
                fontsize=6.5,
                color=ink(shades[place]),
                zorder=6,
                annotation_clip=False,
            )


def draw_matrix(record: MatrixPlot) -> Figure:
    """Draw losses as an ordered heat map; what is not served is grey.

    Args:
        record: what to draw.
    """
    losses = np.array(
        [[np.inf if v is None else v for v in line] for line in record.losses]
    )
    n_rows, n_columns = losses.shape
    named = n_rows <= 40, n_columns <= 40
    width = 2.2 + min(7.0, 0.22 * n_columns)
    figure = new_figure(max(4.5, width), max(2.6, 1.5 + min(6.5, 0.2 * n_rows)))
    limit = record.epsilon
    if limit is None:
        limit = float(losses[np.isfinite(losses)].max(initial=0.0))
    with mpl.rc_context(STYLE | {"axes.grid": False}):
        axes = figure.subplots()
        axes.set_facecolor("#dddddd")
        inside = np.ma.masked_where(losses > limit, losses)
        image = axes.imshow(
            inside, cmap="cividis_r", aspect="auto", interpolation="nearest"
        )
        figure.colorbar(image, label=f"loss ≤ {limit:.4g}; grey: not served")
        for row in record.selected:
            axes.add_patch(
                Rectangle(
                    (-0.5, row - 0.5), n_columns, 1, fill=False, ec="#D55E00", lw=1.5
                )
            )
        if named[0]:
            axes.set_yticks(range(n_rows), [_short(n) for n in record.sources])
        else:
            axes.set_yticks([])
        if named[1]:
            axes.set_xticks(
                range(n_columns), [_short(n) for n in record.targets], rotation=90
            )
        else:
            axes.set_xticks([])
        axes.tick_params(labelsize=7)
        axes.set_ylabel("sources")
        axes.set_xlabel("targets")
        axes.set_title(textwrap.fill(record.title, 60), fontsize=10)
    return figure


def _short(name: str) -> str:
    return literal(textwrap.shorten(name, 24, placeholder="…"))
