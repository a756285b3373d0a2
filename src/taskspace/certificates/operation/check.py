"""Whether a Lyapunov matrix serves whole boxes of contexts, by rigorous arithmetic.

Matrices may come from anywhere: they are candidates. Here they are checked with bounds
over boxes, which are cut where they are too wide.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace.certificates.boxes.enclosures import Boxes
from taskspace.certificates.boxes.enclosures.traced import relative_widths
from taskspace.certificates.boxes.rigor.costs import definite
from taskspace.certificates.operation.loops import GainLoops
from taskspace.cover.base import Clock

MAX_CUTS = 14
MAX_BOXES = 100_000
WITNESSES = 32
# What is taken off a matrix before it is called definite, in units of its rounding.
ROUNDINGS = 16.0


@dataclass(frozen=True, eq=False)
class DecayCheck:
    """What is shown of Lyapunov matrices on boxes.

    Args:
        holds: whether they decay on every box.
        bounds_cost: whether they bound the cost on every box, too.
        costly: full context rows where that is not shown.
        n_boxes: boxes that were looked at.
        failing: full context rows at which they do not decay, or where it stays open.
        failing_gain: the gain that is used there.
    """

    holds: bool
    bounds_cost: bool
    costly: Array
    n_boxes: int
    failing: Array
    failing_gain: NDArray[np.int64]


def check_decay(
    loops: GainLoops,
    boxes: Boxes,
    which: NDArray[np.int64],
    matrices: Array,
    rates: Array,
    clock: Clock,
    *,
    bound_cost: bool = False,
) -> DecayCheck:
    """Check that xᵀX_g x decays with rate λ_g wherever gain g is used.

    Args:
        loops: the closed loops of the gains.
        boxes: where gains are used, true contexts.
        which: gain that is used on each box.
        matrices: X of each gain, `(gain, state, state)`.
        rates: λ of each gain, at least 0.
        clock: when to stop.
        bound_cost: also check that xᵀX_g x bounds the cost.
    """
    n_boxes = 0
    costly: list[Array] = []
    work, extent = boxes, boxes.extent
    none = np.empty((0, boxes.low.shape[1])), np.empty(0, np.int64)
    used = matrices[np.unique(which)]
    if any(definite(np.ascontiguousarray(x)) != 1 for x in used):
        return DecayCheck(False, False, none[0], 0, *none)
    for cut in range(MAX_CUTS + 1):
        gaps, tops = loops.decay_bounds(work, which, matrices, rates)
        n_boxes += len(work)
        fails = ~(gaps < 1.0)
        rest = np.flatnonzero(fails | ~(tops <= 0.0)) if bound_cost else (
            np.flatnonzero(fails)
        )  # fmt: skip
        if not len(rest):
            break
        centre = work[rest].centre
        alone, dear = loops.decay_bounds(
            Boxes.points(centre), which[rest], matrices, rates
        )
        is_last = n_boxes + 2 * len(rest) > MAX_BOXES or clock.left <= 0
        is_last |= cut == MAX_CUTS
        failed = ~(alone < 1.0)
        if failed.any() or (is_last and fails.any()):
            first = np.argsort(~failed, kind="stable")[:WITNESSES]
            return DecayCheck(
                False, False, none[0], n_boxes, centre[first], which[rest][first]
            )
        over = np.full(len(rest), True) if is_last else ~(dear <= 0.0)
        over &= bound_cost & ~fails[rest]
        costly.append(centre[over])
        rest = rest[~over]
        axis = relative_widths(work[rest], extent).argmax(1)
        work, parent = work[rest].split(axis)
        which = which[rest[parent]]
    rows = np.concatenate(costly) if costly else none[0]
    return DecayCheck(True, bound_cost and not len(rows), rows, n_boxes, *none)


def largest_ratio(one: Array, other: Array) -> float:
    """Return a bound above on the μ ≥ 1 with one ⪯ μ · other; inf if none is shown.

    Args:
        one: symmetric.
        other: symmetric and positive definite.
    """
    factor = np.linalg.inv(np.linalg.cholesky(other))
    mu = max(1.0, float(np.linalg.eigvalsh(factor @ one @ factor.T).max()))
    for slack in (1e-9, 1e-6, 1e-3):
        bound = mu * (1.0 + slack)
        size = bound * np.abs(other) + np.abs(one)
        room = ROUNDINGS * np.finfo(float).eps * np.diag(size.sum(1))
        if definite(np.ascontiguousarray(bound * other - one - room)) == 1:
            return bound
    return np.inf
