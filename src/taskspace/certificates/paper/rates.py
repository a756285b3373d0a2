r"""Loss rates: how fast the performance of a source's family falls around it.

$L^r(\theta) = \max_{\pi, \tilde\theta} \frac{J(\theta, \pi) - J(\tilde\theta, \pi)}
{\|\theta - \tilde\theta\|}$ over $0 < \|\theta - \tilde\theta\| \le r$ and $M^r$ the
minimum (the paper's Definition 4). Three ways to have them:

- `loss_rates`: over the targets of a table. Exact for those targets, an estimate
  (too small for L, too large for M) for the continuum between them.
- `local_slopes`: the limit $r \to 0$, from the gradient of J.
- `rate_bounds`: a number that $L^r$ certainly does not exceed on the continuum.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace.certificates.boxes.enclosures import Boxes, Enclosure, find_enclosure
from taskspace.errors import InvalidInputError
from taskspace.performance import (
    family_rows,
    row_blocks,
    source_space,
    target_space,
)
from taskspace.performance.table import provenance_of
from taskspace.policies import Policy
from taskspace.questions import Question
from taskspace.spaces import Grid, Points, Space
from taskspace.systems.base import Provenance, System

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


def loss_rates(table: xr.Dataset, radius: float) -> LossRates:
    """Return loss rates of every source over the targets of a table.

    Args:
        table: a performance table with contexts and scores at home.
        radius: r > 0, Euclidean distance between contexts.
    """
    rates = loss_rates_until(table, radius, Clock())
    assert rates is not None
    return rates


def loss_rates_until(
    table: xr.Dataset, radius: float, clock: Clock
) -> LossRates | None:
    """Return `loss_rates`, or None where time was up; some rows are always done.

    Args:
        table: a performance table with contexts and scores at home.
        radius: r > 0.
        clock: when to give up.
    """
    if not radius > 0:
        raise InvalidInputError(f"radius > 0 must hold, but got radius={radius}.")
    sources, targets = contexts_of(table)
    upper = np.full(sources.size, -np.inf)
    lower = np.full(sources.size, np.inf)
    count = np.zeros(sources.size, np.int64)
    has_lower = "gap_best" in table or "performance" in table
    for number, rows in enumerate(row_blocks(table)):
        if number and clock.left <= 0:
            return None
        distance = distances(sources.points[rows], targets.points)
        near = (distance > 0) & (distance <= radius)
        count[rows] = near.sum(1)
        gap = family_rows(table, "gap_worst", rows)
        upper[rows] = _quotients(gap, distance, near, -np.inf).max(1)
        if has_lower:
            gap = family_rows(table, "gap_best", rows)
            lower[rows] = _quotients(gap, distance, near, np.inf).min(1)
    if not has_lower:
        lower[:] = np.nan
    return LossRates(float(radius), upper, lower, count, sources, provenance_of(table))


def _quotients(
    gap: Array, distance: Array, near: NDArray[np.bool_], otherwise: float
) -> Array:
    out = np.full(gap.shape, otherwise)
    np.divide(gap, distance, out=out, where=near)
    return out


def distances(points: Array, others: Array) -> Array:
    """Return Euclidean distances, dims `(point, other)`.

    Args:
        points: one point per row.
        others: one point per row, with the same columns.
    """
    total = np.zeros((len(points), len(others)))
    for column in range(points.shape[1]):
        total += (points[:, None, column] - others[None, :, column]) ** 2
    return np.sqrt(total)


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


def local_slopes(system: System, policies: Policy, space: Space) -> Array:
    r"""Return the exact limit of $L^r$ as r → 0 at each source, from the gradient of J.

    It is the largest $\|\nabla_\theta J(\theta, \pi)\|$ of the family, over the axes
    that the space varies. The limit of $M^r$ is its negative: where J is
    differentiable it falls in one direction as fast as it grows in the other.

    Args:
        system: one whose enclosure knows the gradient of J, such as a
            `MassSpringDamper` with an infinite horizon.
        policies: a stack with leading dims `(source, policy)`.
        space: the sources.

    Returns:
        One slope per source; infinite where a policy is unstable at home.
    """
    contexts = system.contexts(space)
    enclosure, _ = find_enclosure(
        system, policies, contexts, Question("signed", epsilon=0.0)
    )
    live = [i for i, axis in enumerate(system.axes) if axis.name in space.names]
    slopes = None if enclosure is None else enclosure.home_slopes(live)
    if slopes is None:
        raise InvalidInputError(
            "Exact slopes need a differentiable closed form, which msd-v1 with an "
            f"infinite horizon has, but got {system.id}. Use loss_rates instead."
        )
    return slopes


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
        enclosure: of the criterion `signed` (whose slopes are those of J).
        targets: full context rows; the box that they span holds every target.
        radius: r > 0.
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
        start = np.minimum(source, np.maximum(low, _below(source - reach)))
        stop = np.maximum(source, np.minimum(high, _above(source + reach)))
        pieces = Boxes.from_edges(
            [
                _pieces(a, b) if b > a else np.array([a])
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


def _pieces(low: float, high: float) -> Array:
    edges = np.linspace(low, high, PIECES + 1)
    edges[0], edges[-1] = low, high
    return edges


def _below(x: Array) -> Array:
    return np.nextafter(x, -np.inf)


def _above(x: Array) -> Array:
    return np.nextafter(x, np.inf)
