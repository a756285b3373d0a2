"""Plot data: small records of what to draw, for matplotlib and for the page alike."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.spaces import Grid, Space

__all__ = ["AxisRecord", "axes_of", "seriation"]


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
