"""The closed loops of some gains, each on the boxes of contexts where it is used."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace.certificates.boxes.enclosures import Boxes
from taskspace.certificates.boxes.enclosures.traced import BoxProgram, TracedFamily
from taskspace.certificates.boxes.rigor.drift import bound_decay, bound_sensitivity
from taskspace.questions import Question
from taskspace.systems.linear import LinearSystem
from taskspace.systems.linear.tracing.loops import differentiate
from taskspace.systems.linear.tracing.symbols import CONSTANT
from taskspace.systems.linear.tracing.traced import Trace

__all__ = ["GainLoops"]

ORDER = 1


class GainLoops:
    """Closed loops of gains, at contexts in floats and over boxes with rigour.

    Args:
        system: a linear family with an infinite horizon.
        gains: `(gain, input, state)`.
        contexts: full context rows, at which code and formula are compared at least.
    """

    def __init__(self, system: LinearSystem, gains: Array, contexts: Array):
        self.system = system
        self.gains = np.ascontiguousarray(gains[:, None], np.float64)
        self._family = TracedFamily(
            system, contexts, Question("floor", epsilon=0.0), (self.gains,)
        )
        self._slopes: dict[int, Trace] = {}

    @property
    def n_states(self) -> int:
        """Number of states."""
        return self.gains.shape[-1]

    @property
    def basis(self) -> str:
        """What a proof rests on."""
        return (
            "Lyapunov inequalities on whole boxes, with rigorous rounding, for the "
            f"matrices of {getattr(self.system, 'name', self.system.id)}"
        )

    @property
    def has_constant_weights(self) -> bool:
        """Whether Q and R are the same at every context."""
        trace = self._family.trace
        places = np.concatenate([trace.Q.ravel(), trace.R.ravel()])
        return bool((trace.op[places] == CONSTANT).all())

    def at(self, contexts: Array, which: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return closed loops and weights at contexts, in floats.

        Args:
            contexts: full context rows.
            which: gain that is used at each.
        """
        a, b, q, r = map(np.asarray, self.system.matrices(contexts)[:4])
        k = self.gains[which, 0]
        return a - b @ k, q + np.swapaxes(k, -1, -2) @ r @ k

    def decay_bounds(
        self, boxes: Boxes, which: NDArray[np.int64], matrices: Array, rates: Array
    ) -> tuple[Array, Array]:
        """Return bounds that say whether matrices decay, and bound the cost, on boxes.

        Args:
            boxes: true contexts.
            which: gain that is used on each.
            matrices: X of each gain.
            rates: λ of each gain.

        Returns:
            Numbers below 1 where X decays with rate λ on all of a box; and numbers at
            most 0 where xᵀXx bounds the cost there.
        """
        gaps, tops = np.full((2, len(boxes)), np.inf)
        if not len(boxes):
            return gaps, tops
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
                tops[some],
            )
        )
        return gaps, tops

    def sensitivity_bounds(
        self, boxes: Boxes, which: NDArray[np.int64], axis: int
    ) -> Array:
        """Return bounds on how much the cost of gains changes with one axis, on boxes.

        Args:
            boxes: true contexts.
            which: gain that is used on each.
            axis: number of the axis.

        Returns:
            A number c per box with −cW ⪯ ∂P ⪯ cW on all of it, where xᵀPx is the cost
            from x at a context that stands still; infinite where none is shown.
        """
        out = np.full(len(boxes), np.inf)
        if not len(boxes):
            return out
        self._family.check(boxes)
        if axis not in self._slopes:
            self._slopes[axis] = differentiate(self._family.trace, axis)
        slopes = self._slopes[axis]
        # The tape of the derivatives begins with that of the matrices.
        longer = replace(slopes, **{x: getattr(self._family.trace, x) for x in "ABQR"})
        numbers = np.ascontiguousarray(which, np.int64)
        work = BoxProgram(longer, boxes, ORDER)
        work.run(
            lambda some, where: bound_sensitivity(
                self.gains,
                numbers[some],
                work.program,
                work.of(slopes)[1],
                *where,
                self.system.is_continuous,
                out[some],
            )
        )
        return out
