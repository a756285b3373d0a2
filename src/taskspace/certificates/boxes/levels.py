"""Enclosures of measures that are proven by levels: decay rate, H∞ norm, disk margin.

For a tolerance ε it is decided on each box whether the loop meets it everywhere, by a
Lyapunov inequality of the shifted loop or by the bounded real lemma. Bounds for no
tolerance are infinite.
"""

from typing import Any

import numpy as np
import scipy.linalg

from taskspace._util.arrays import Array
from taskspace.certificates.boxes.boxes import (
    Bounds,
    Boxes,
    NoEnclosureError,
)
from taskspace.certificates.boxes.linear import BoxProgram, TracedFamily
from taskspace.certificates.boxes.loops import ORDER, PerLoop, cost_bounds
from taskspace.certificates.boxes.rigor.inequalities import bounded_real
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


def check_level(question: Question) -> None:
    """Refuse a measure that has no bounds over boxes.

    Args:
        question: what is asked.
    """
    is_norm = isinstance(MEASURES[question.measure], NormMeasure)
    if not is_norm and question.measure != "decay_rate":
        raise NoEnclosureError(
            f"The measure {question.measure!r} has no bounds over boxes: what is said "
            "of it is about the contexts of the table."
        )


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
        check_level(question)
        super().__init__(system, policies, sources, question)

    def _loop_bounds(
        self, boxes: Boxes, source: int, policy: int, epsilon: float
    ) -> Bounds:
        low, high = np.full(len(boxes), -np.inf), np.full(len(boxes), np.inf)
        if not len(boxes) or np.isnan(epsilon):
            return low, high
        self._family.check(boxes)
        member = self._members[source, policy]
        return level_bounds(self._family, self._measure, boxes, member, epsilon)


def level_bounds(
    family: TracedFamily, measure: Any, boxes: Boxes, policy: Any, epsilon: float
) -> Bounds:
    """Return whether a policy meets a level on each box, as bounds on its loss.

    Args:
        family: the plant.
        measure: the decay rate or an H∞ norm.
        boxes: where, at least one.
        policy: a single one.
        epsilon: tolerance of the loss.
    """
    low, high = np.full(len(boxes), -np.inf), np.full(len(boxes), np.inf)
    if isinstance(measure, NormMeasure):
        _decide_norm(family, measure, boxes, policy, epsilon, high)
    else:
        _decide_rate(family, boxes, policy, epsilon, low, high)
    return low, high


def _decide_rate(
    family: TracedFamily,
    boxes: Boxes,
    policy: Any,
    epsilon: float,
    low: Array,
    high: Array,
) -> None:
    """Fill bounds on minus the decay rate.

    `low` where the rate is proven not to be reached, `high` where it is.
    """
    trace, continuous = family.trace, family.system.is_continuous
    centre = boxes.centre[:1]
    loop = loop_trace(trace, policy).at(centre)[0][0][0]
    weight = np.eye(len(loop))
    if np.isfinite(loop).all():
        _, (scale, _) = scipy.linalg.matrix_balance(loop, permute=False, separate=True)
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
        sigmas = eye, np.eye(len(family.system.initial_covariance))
        costs = cost_bounds(family, boxes, moved, COST, nothing, sigmas)
        if side > 0:
            high[costs[1] < np.inf] = epsilon
        else:
            low[costs[0] == np.inf] = np.nextafter(epsilon, np.inf)


def _decide_norm(
    family: TracedFamily,
    measure: NormMeasure,
    boxes: Boxes,
    policy: Any,
    epsilon: float,
    high: Array,
) -> None:
    """Fill bounds on the loss of an H∞ norm, or of a margin that is one over it.

    Only from above: no norm is proven to be above a level.
    """
    level = measure.level(epsilon) * (1 - 1e-14)  # rounded to the safe side
    if not measure.direct < level < np.inf:
        return
    system = family.system
    trace = bounded_real_trace(family.trace, policy, measure, level, system)
    work = BoxProgram(trace, boxes, ORDER)
    proven = np.zeros(len(boxes), np.bool_)
    work.run(
        lambda some, where: bounded_real(
            work.program, *where, system.is_continuous, proven[some]
        )
    )
    high[proven] = epsilon
