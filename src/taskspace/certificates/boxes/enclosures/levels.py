"""Enclosures of measures that are proven by levels: decay rate, H∞ norm, disk margin.

For a tolerance ε it is decided on each box whether the loop meets it everywhere, by a
Lyapunov inequality of the shifted loop or by the bounded real lemma. Bounds for no
tolerance are infinite.
"""

from typing import Any

import numpy as np
import scipy.linalg

from taskspace._util.arrays import Array
from taskspace.certificates.boxes.enclosures.boxes import (
    Bounds,
    Boxes,
    NoEnclosureError,
)
from taskspace.certificates.boxes.enclosures.loops import ORDER, PerLoop, cost_bounds
from taskspace.certificates.boxes.enclosures.traced import BoxProgram
from taskspace.certificates.boxes.rigor.bounded_real import bounded_real
from taskspace.certificates.boxes.rigor.losses import COST
from taskspace.policies import Policy
from taskspace.questions import Question
from taskspace.systems.linear import LinearSystem
from taskspace.systems.linear.measures import MEASURES
from taskspace.systems.linear.measures.norms import NormMeasure
from taskspace.systems.linear.tracing.loops import (
    bounded_real_trace,
    loop_trace,
    shifted_trace,
)

# A rate is proven not to be reached if it is not by so much less.
REFUTED = 1e-9


class LevelEnclosure(PerLoop):
    """Whether gains or controllers meet a level of a measure on whole boxes.

    Args:
        system: a linear family with an infinite horizon.
        policies: a stack with leading dims `(source, policy)`.
        sources: full context rows of the sources.
        question: `floor` by the decay rate or an H∞ norm.
    """

    def __init__(
        self, system: LinearSystem, policies: Policy, sources: Array, question: Question
    ):
        question.check_single("A bound on a measure over boxes")
        self._measure = MEASURES[question.measure]
        self._is_norm = isinstance(self._measure, NormMeasure)
        if not self._is_norm and question.measure != "decay_rate":
            raise NoEnclosureError(
                f"The measure {question.measure!r} has no bounds over boxes: what is "
                "said of it is about the contexts of the table."
            )
        super().__init__(system, policies, sources, question)

    def _loop_bounds(
        self, boxes: Boxes, source: int, policy: int, epsilon: float
    ) -> Bounds:
        low, high = np.full(len(boxes), -np.inf), np.full(len(boxes), np.inf)
        if not len(boxes) or np.isnan(epsilon):
            return low, high
        self._family.check(boxes)
        decide = self._decide_norm if self._is_norm else self._decide_rate
        decide(boxes, self._members[source, policy], epsilon, low, high)
        return low, high

    def _decide_rate(
        self, boxes: Boxes, policy: Any, epsilon: float, low: Any, high: Any
    ) -> None:
        """Fill bounds on minus the decay rate.

        Args:
            boxes: where.
            policy: a single one.
            epsilon: minus the rate that is asked for.
            low: filled where the rate is proven not to be reached.
            high: filled where it is proven to be.
        """
        trace, continuous = self._family.trace, self._family.system.is_continuous
        centre = boxes.centre[:1]
        loop = loop_trace(trace, policy).at(centre)[0][0][0]
        weight = np.eye(len(loop))
        if np.isfinite(loop).all():
            _, (scale, _) = scipy.linalg.matrix_balance(
                loop, permute=False, separate=True
            )
            weight = np.diag(1 / scale**2)
        eye, nothing = np.eye(len(loop)), np.zeros(2)
        for level, side in ((-epsilon, 1), (-epsilon - REFUTED * abs(epsilon), -1)):
            # A loop that is not stable meets no level, be it a rate of growth.
            rate = max(level, 0.0)
            # In discrete time a factor, rounded to the safe side.
            factor = rate if continuous else np.exp(rate) * (1 + side * 1e-14)
            if not np.isfinite(factor):
                continue
            moved = shifted_trace(trace, policy, factor, weight, continuous=continuous)
            sigmas = eye, np.eye(len(self._family.system.initial_covariance))
            costs = cost_bounds(self._family, boxes, moved, COST, nothing, sigmas)
            if side > 0:
                high[costs[1] < np.inf] = epsilon
            else:
                low[costs[0] == np.inf] = np.nextafter(epsilon, np.inf)

    def _decide_norm(
        self, boxes: Boxes, policy: Any, epsilon: float, low: Any, high: Any
    ) -> None:
        """Fill bounds on the loss of an H∞ norm, or of a margin that is one over it.

        Args:
            boxes: where.
            policy: a single one.
            epsilon: tolerance of the loss.
            low: not filled: no norm is proven to be above a level.
            high: filled where the level is proven.
        """
        del low
        measure = self._measure
        assert isinstance(measure, NormMeasure)
        level = measure.level(epsilon) * (1 - 1e-14)  # rounded to the safe side
        if not measure.direct < level < np.inf:
            return
        system = self._family.system
        trace = bounded_real_trace(self._family.trace, policy, measure, level, system)
        work = BoxProgram(trace, boxes, ORDER)
        proven = np.zeros(len(boxes), np.bool_)
        work.run(
            lambda some, where: bounded_real(
                work.program, *where, system.is_continuous, proven[some]
            )
        )
        high[proven] = epsilon
