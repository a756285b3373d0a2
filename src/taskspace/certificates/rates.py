r"""Loss rates: how fast the performance of a source's family falls around it.

$L^r(\theta) = \max_{\pi, \tilde\theta} \frac{J(\theta, \pi) - J(\tilde\theta, \pi)}
{\|\theta - \tilde\theta\|}$ over $0 < \|\theta - \tilde\theta\| \le r$ and $M^r$ the
minimum (the paper's Definition 4). `loss_rates` takes them over the targets of a table:
exact for those targets, an estimate between them. `rate_bounds` is a number that $L^r$
certainly does not exceed on the continuum.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace.certificates.boxes.enclosures import Boxes, Enclosure
from taskspace.errors import InvalidInputError
from taskspace.performance import family_rows, row_blocks, source_space, target_space
from taskspace.performance.table import provenance_of
from taskspace.spaces import Grid, Points, Space
from taskspace.systems.base import Provenance

# Pieces on each axis into which a ball is cut to bound the slope on it.
PIECES = 8


@dataclass(frozen=True, eq=False)
class LossRates:
    """Loss rates of every source.

    Args:
        radius: r.
        upper: $L^r$ of each source; −inf where no other target is within r.
        lower: $M^r$ of each source; +inf where no other target is within r, NaN
            where the table does not hold what it takes (`judge="best"`).
        n_neighbours: other targets within r of each source.
        sources: contexts of the sources; with them `upper` is a map.
        provenance: where the numbers of the table come from.
    """

    radius: float
    upper: Array
    lower: Array
    n_neighbours: NDArray[np.int64]
    sources: Grid | Points
    provenance: Provenance = "given"


def loss_rates(
    table: xr.Dataset, radius: float, clock: Clock | None = None
) -> LossRates:
    """Return loss rates of every source over the targets of a table.

    Args:
        table: a performance table with contexts and scores at home.
        radius: r > 0, Euclidean distance between contexts.
        clock: when to give up; some rows are always done.
    """
    if not radius > 0:
        raise InvalidInputError(f"radius > 0 must hold, but got radius={radius}.")
    sources, targets = contexts_of(table)
    upper = np.full(sources.size, -np.inf)
    lower = np.full(sources.size, np.inf)
    count = np.zeros(sources.size, np.int64)
    has_lower = "gap_best" in table or "performance" in table
    for number, rows in enumerate(row_blocks(table)):
        if number and clock is not None and clock.left <= 0:
            raise InvalidInputError(
                f"Time was up before the loss rates of {sources.size:,} sources were "
                "known: a larger time limit gives them."
            )
        distance = cdist(sources.points[rows], targets.points)
        near = (distance > 0) & (distance <= radius)
        count[rows] = near.sum(1)
        distance = np.where(near, distance, 1.0)
        gap = family_rows(table, "gap_worst", rows) / distance
        upper[rows] = np.where(near, gap, -np.inf).max(1)
        if has_lower:
            gap = family_rows(table, "gap_best", rows) / distance
            lower[rows] = np.where(near, gap, np.inf).min(1)
    if not has_lower:
        lower[:] = np.nan
    return LossRates(float(radius), upper, lower, count, sources, provenance_of(table))


def contexts_of(table: xr.Dataset) -> tuple[Grid | Points, Grid | Points]:
    """Return contexts of both sides of a table, or a sentence about which is missing.

    Args:
        table: a performance table.
    """
    sources, targets = source_space(table), target_space(table)
    if sources is None or targets is None or sources.names != targets.names:
        sides = {"sources": sources, "targets": targets}
        clauses = [
            f"{side} have {'none' if space is None else ', '.join(space.names)}"
            for side, space in sides.items()
        ]
        raise InvalidInputError(
            "Distances need the contexts of sources and targets, on the same axes, but "
            f"{' and '.join(clauses)}. Give the contexts with the matrix."
        )
    return sources, targets


def default_radius(targets: Space) -> float:
    """Return the r of loss rates where none is given: a tenth of the diameter.

    Args:
        targets: contexts; r is at least one and a half of their largest steps.
    """
    widths = np.ptp(targets.points, axis=0)
    steps = [np.diff(np.unique(column)).max(initial=0.0) for column in targets.points.T]
    radius = max(0.1 * float(np.linalg.norm(widths)), 1.5 * max(steps))
    return radius if radius > 0 else 1.0  # a single context has no neighbour


def rate_bounds(
    enclosure: Enclosure,
    targets: Array,
    radius: float,
    sources: Array,
    *,
    clock: Clock | None = None,
) -> Array | None:
    """Bound $L^r$ from above on the whole box of the targets, for certain.

    On a convex set no slope between two points exceeds the largest gradient, and
    that is bounded by the enclosure on pieces of the ball around each source.

    Args:
        enclosure: bounds of the criterion `signed` or `cost`.
        targets: full context rows, whose box is meant.
        radius: r.
        sources: full context rows of the enclosure's sources.
        clock: when to give up.

    Returns:
        One bound per source, infinite where a policy may be unstable on the ball;
        None if the enclosure has no bounds on slopes, or time is up.
    """
    if enclosure.question.rule.compares_with_best:
        raise InvalidInputError(
            "Loss rates are slopes of J: the enclosure must be for 'signed' or "
            f"'cost', but is for {enclosure.question.criterion!r}."
        )
    if not radius > 0:
        raise InvalidInputError(f"radius > 0 must hold, but got radius={radius}.")
    low, high = targets.min(0), targets.max(0)
    # An axis that only the sources vary is part of the way to them.
    live = np.minimum(low, sources.min(0)) < np.maximum(high, sources.max(0))
    reach = np.where(live, np.nextafter(radius, np.inf), 0.0)
    bounds = np.zeros(len(sources))
    for i, source in enumerate(sources):
        if clock is not None and clock.left <= 0:
            return None
        # The ball's part of the box, and the source itself, inside the box or not:
        # its hull is convex.
        below = np.nextafter(source - reach, -np.inf)
        above = np.nextafter(source + reach, np.inf)
        start = np.minimum(source, np.maximum(low, below))
        stop = np.maximum(source, np.minimum(high, above))
        pieces = Boxes.from_edges(
            [
                np.linspace(a, b, PIECES + 1) if b > a else np.array([a])
                for a, b in zip(start, stop, strict=True)
            ]
        )
        nearest = np.clip(source, pieces.low, pieces.high)
        # 1e-9 is far above what the distance loses to rounding.
        inside = np.linalg.norm(nearest - source, axis=1) <= radius * (1 + 1e-9)
        slopes = enclosure.slope_bounds(pieces[inside], [i])
        if slopes is None:
            return None
        # 1e-12 is far above what the squares and the root lose to rounding.
        bounds[i] = np.sqrt((slopes[0][:, live] ** 2).sum(1)).max() * (1 + 1e-12)
    return bounds
