"""Whether Lyapunov matrices decay wherever gains are used, by rigorous arithmetic.

Matrices may come from anywhere: they are candidates. Here they are checked with bounds
over boxes, which are cut where they are too wide.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace.certificates.boxes.enclosures import Boxes
from taskspace.certificates.boxes.enclosures.traced import (
    BoxProgram,
    TracedFamily,
    relative_widths,
)
from taskspace.certificates.boxes.rigor.costs import definite
from taskspace.certificates.boxes.rigor.decay import bound_decay
from taskspace.questions import Question
from taskspace.systems.linear import LinearSystem

ORDER = 1
MAX_CUTS = 14
MAX_BOXES = 100_000
WITNESSES = 32
# What is taken off a matrix before it is called definite, in units of its rounding.
ROUNDINGS = 16.0


class GainLoops:
    """Closed loops of gains, at contexts in floats and over boxes with rigour.

    Args:
        system: a linear family with an infinite horizon.
        gains: `(gain, input, state)`.
        boxes: true contexts where gains are used.
        which: gain that is used on each box.
    """

    def __init__(
        self,
        system: LinearSystem,
        gains: Array,
        boxes: Boxes,
        which: NDArray[np.integer],
    ):
        self.system = system
        self.gains = np.ascontiguousarray(gains[:, None], np.float64)
        self.boxes = boxes
        self.which = np.ascontiguousarray(which, np.int64)
        self._family = TracedFamily(
            system, boxes.centre, Question("floor", epsilon=0.0), (self.gains,)
        )

    def cut(self, axes: Sequence[int]) -> "list[GainLoops]":
        """Return the loops on each stretch of some axes, between ends of the boxes.

        A stretch has its ends: boxes that only touch it are in it too.

        Args:
            axes: numbers of the axes; for none the loops themselves.
        """
        parts: list[GainLoops] = [self]
        for axis in axes:
            ends = np.unique([self.boxes.low[:, axis], self.boxes.high[:, axis]])
            if len(ends) > 1:
                parts = [cut for part in parts for cut in part._cut_at(axis, ends)]
        return parts

    def halves(self, axes: Sequence[int]) -> "list[GainLoops]":
        """Return the loops on both halves of the widest of some axes.

        Args:
            axes: numbers of the axes, of which one at least has a width.
        """
        low, high = self.boxes.low.min(0), self.boxes.high.max(0)
        size = np.abs(low) + np.abs(high)
        width = (high - low) / np.where(size > 0, size, 1.0)
        axis = max(axes, key=lambda i: width[i])
        middle = low[axis] / 2 + high[axis] / 2
        return self._cut_at(axis, np.array([low[axis], middle, high[axis]]))

    def _cut_at(self, axis: int, ends: Array) -> "list[GainLoops]":
        low, high = self.boxes.low, self.boxes.high
        parts: list[GainLoops] = []
        for first, last in pairwise(ends):
            some = np.flatnonzero((low[:, axis] <= last) & (high[:, axis] >= first))
            if not len(some):
                continue
            boxes = Boxes(low[some].copy(), high[some].copy())
            boxes.low[:, axis] = np.maximum(boxes.low[:, axis], first)
            boxes.high[:, axis] = np.minimum(boxes.high[:, axis], last)
            part = copy(self)
            part.boxes, part.which = boxes, self.which[some]
            parts.append(part)
        return parts

    @property
    def basis(self) -> str:
        """What a proof rests on."""
        return (
            "Lyapunov inequalities on whole boxes, with rigorous rounding, for the "
            f"matrices of {getattr(self.system, 'name', self.system.id)}"
        )

    def at(self, contexts: Array, which: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return closed loops and weights at contexts, in floats.

        Args:
            contexts: full context rows.
            which: gain that is used at each.
        """
        a, b, q, r = map(np.asarray, self.system.matrices(contexts)[:4])
        k = self.gains[which, 0]
        return a - b @ k, q + np.swapaxes(k, -1, -2) @ r @ k

    def decay_gaps(
        self, boxes: Boxes, which: NDArray[np.int64], matrices: Array, rates: Array
    ) -> Array:
        """Return a number per box, below 1 where X decays with rate λ on all of it.

        Args:
            boxes: true contexts.
            which: gain that is used on each.
            matrices: X of each gain.
            rates: λ of each gain.
        """
        gaps = np.full(len(boxes), np.inf)
        if not len(boxes):
            return gaps
        self._family.check(boxes)
        stack = np.ascontiguousarray(matrices, np.float64)
        shares = np.ascontiguousarray(rates, np.float64)
        numbers = np.ascontiguousarray(which, np.int64)
        work = BoxProgram(self._family.trace, boxes, ORDER)
        work.run(
            lambda some, where: bound_decay(
                self.gains,
                numbers[some],
                stack,
                shares,
                work.program,
                *where,
                self.system.is_continuous,
                gaps[some],
            )
        )
        return gaps


@dataclass(frozen=True, eq=False)
class DecayCheck:
    """What is shown of Lyapunov matrices on boxes.

    Args:
        holds: whether they decay on every box.
        failing: full context rows at which they do not decay, or where it stays open.
        failing_gain: the gain that is used there.
    """

    holds: bool
    failing: Array
    failing_gain: NDArray[np.int64]


def check_decay(
    loops: GainLoops,
    matrices: Array,
    rates: Array,
    clock: Clock,
    some: NDArray[np.integer] | None = None,
) -> DecayCheck:
    """Check that xᵀX_g x decays with rate λ_g wherever gain g is used.

    Args:
        loops: the closed loops of the gains.
        matrices: X of each gain, `(gain, state, state)`.
        rates: λ of each gain, at least 0.
        clock: when to stop.
        some: numbers of the boxes to look at; all if left out.
    """
    some = np.arange(len(loops.boxes)) if some is None else some
    work, which = loops.boxes[some], loops.which[some]
    extent, n_boxes = work.extent, 0
    none = np.empty((0, work.low.shape[1])), np.empty(0, np.int64)
    used = matrices[np.unique(which)]
    if any(definite(np.ascontiguousarray(x)) != 1 for x in used):
        return DecayCheck(False, *none)
    for cut in range(MAX_CUTS + 1):
        gaps = loops.decay_gaps(work, which, matrices, rates)
        n_boxes += len(work)
        rest = np.flatnonzero(~(gaps < 1.0))
        if not len(rest):
            break
        centre = work[rest].centre
        alone = loops.decay_gaps(Boxes.points(centre), which[rest], matrices, rates)
        failed = ~(alone < 1.0)
        is_last = n_boxes + 2 * len(rest) > MAX_BOXES or clock.left <= 0
        if failed.any() or is_last or cut == MAX_CUTS:
            first = np.argsort(~failed, kind="stable")[:WITNESSES]
            return DecayCheck(False, centre[first], which[rest][first])
        axis = relative_widths(work[rest], extent).argmax(1)
        work, parent = work[rest].split(axis)
        which = which[rest[parent]]
    return DecayCheck(True, *none)


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
