"""Plot data: small records of what to draw, for matplotlib and for the page alike."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.cover import Cover
from taskspace.show.colours import colour_numbers, neighbours
from taskspace.spaces import Grid, Space

__all__ = [
    "AxisRecord",
    "ContextMap",
    "MatrixPlot",
    "axes_of",
    "context_map",
    "matrix_plot",
    "seriation",
]


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

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def axes_of(space: Space, labels: Mapping[str, str] | None = None) -> list[AxisRecord]:
    """The axes of a space; points that fill a grid count as one.

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
    """Whether values lie evenly in their logarithm rather than in themselves."""
    if len(values) < 3 or values[0] <= 0:
        return "linear"
    steps, ratios = np.diff(values), np.diff(np.log(values))
    unevenness = np.ptp(ratios) / ratios.mean(), np.ptp(steps) / steps.mean()
    return "log" if unevenness[0] < 0.1 * unevenness[1] else "linear"


def seriation(
    losses: NDArray[np.float64],
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Orders of sources and targets in which like stands beside like.

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
    """

    title: str
    axes: list[AxisRecord]
    shape: list[int] | None
    targets: list[list[float]]
    assignment: list[int]
    sources: list[list[float]] | None
    names: list[str] | None
    colours: list[int]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class MatrixPlot:
    """Losses of sources at targets, in an order that puts like beside like.

    Args:
        title: what this is.
        losses: dims `(source, target)` in the order shown; None for a failure.
        sources: labels of the rows.
        targets: labels of the columns.
        selected: rows that are selected.
        epsilon: what counts as served; None where no tolerance is meant.
    """

    title: str
    losses: list[list[float | None]]
    sources: list[str]
    targets: list[str]
    selected: list[int]
    epsilon: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def context_map(
    targets: Space,
    sources: Space | None,
    cover: Cover,
    *,
    title: str | None = None,
    labels: Mapping[str, str] | None = None,
    names: list[str] | None = None,
) -> ContextMap:
    """The map of one cover.

    Args:
        targets: contexts of the targets.
        sources: contexts of the sources, None where they have none.
        cover: who serves whom.
        title: what it is called; what the cover says of itself by default.
        labels: axis labels by name.
        names: names of all sources.
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
        colours = colour_numbers(neighbours(region, cover.size))
    at = None
    if sources is not None and set(targets.names) <= set(sources.names):
        columns = [sources.names.index(name) for name in targets.names]
        at = sources.points[chosen][:, columns].tolist()
    size = f"{cover.size} source{'s' if cover.size != 1 else ''}"
    return ContextMap(
        title=title or f"{size} ({cover.method}), {100 * cover.coverage:.4g} % covered",
        axes=axes,
        shape=shape,
        targets=targets.points.tolist(),
        assignment=assignment,
        sources=at,
        names=None if names is None else [names[s] for s in chosen],
        colours=colours,
    )


def matrix_plot(
    losses: NDArray[np.float64],
    *,
    title: str,
    sources: list[str] | None = None,
    targets: list[str] | None = None,
    selected: Sequence[int] = (),
    epsilon: float | None = None,
) -> MatrixPlot:
    """Losses in a sensible order.

    Args:
        losses: dims `(source, target)`.
        title: what this is.
        sources: names of the rows.
        targets: names of the columns.
        selected: rows to mark.
        epsilon: what counts as served.
    """
    rows, columns = seriation(losses)
    sources = sources or [str(i) for i in range(losses.shape[0])]
    targets = targets or [str(i) for i in range(losses.shape[1])]
    chosen = {int(s) for s in selected}
    ordered = losses[rows][:, columns]
    return MatrixPlot(
        title=title,
        losses=[
            [float(v) if np.isfinite(v) else None for v in line] for line in ordered
        ],
        sources=[sources[i] for i in rows],
        targets=[targets[j] for j in columns],
        selected=[i for i, row in enumerate(rows.tolist()) if row in chosen],
        epsilon=epsilon,
    )
