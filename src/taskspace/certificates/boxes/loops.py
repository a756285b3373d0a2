"""Enclosures of closed loops one by one, and those of controllers with states.

The closed loop of a plant and a controller is linear again, so the mathematics of
`taskspace.certificates.boxes.rigor` bounds its cost. The reference of `regret` and
`ratio` is the least cost over all feedback of the plant's whole state: no controller of
any structure is below it.

Measures that are proven by levels (decay rate, H∞ norm, disk margin): for a tolerance ε
it is decided on each box whether the loop meets it everywhere, by a Lyapunov inequality
of the shifted loop or by the bounded real lemma. Bounds for no tolerance are infinite.
"""

from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array
from taskspace.certificates.boxes.boxes import (
    Bounds,
    Boxes,
    NoEnclosureError,
    PolicyEnclosure,
    check_cost,
)
from taskspace.certificates.boxes.linear import (
    KINDS,
    MAGNITUDE,
    BoxProgram,
    TracedFamily,
    relative_widths,
)
from taskspace.certificates.boxes.rigor.inequalities import bounded_real
from taskspace.certificates.boxes.rigor.losses import COST, bound_loop
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearController, LinearGain, Policy
from taskspace.questions import Question
from taskspace.systems.linear import LinearSystem
from taskspace.systems.linear.controllers import without_unheard
from taskspace.systems.linear.measures import MEASURES
from taskspace.systems.linear.norms import NormMeasure
from taskspace.systems.linear.tracing.loops import (
    bounded_real_trace,
    loop_trace,
    shifted_trace,
)
from taskspace.systems.linear.tracing.traced import Trace

ORDER = 2


class LoopEnclosure(PolicyEnclosure):
    """Bounds on gains and controllers of a linear family, one loop at a time.

    Of the cost they are numbers; of the decay rate and H∞ norms they say on which boxes
    the tolerance is met.

    Args:
        system: a linear family with an infinite horizon.
        policies: a stack with leading dims `(source, policy)`.
        sources: full context rows of the sources, which `signed` compares with.
        question: criterion and judge; its tolerance does not matter here.
    """

    per_source: ClassVar = ("policies", "_home", "_members")

    def __init__(
        self, system: LinearSystem, policies: Policy, sources: Array, question: Question
    ):
        is_cost = question.measure == "performance"
        (check_cost if is_cost else check_level)(question)
        super().__init__(system, policies, question)
        if not isinstance(policies, LinearGain | LinearController):
            raise NoEnclosureError(
                "Bounds over boxes of a linear plant are for linear policies, but got "
                f"{type(policies).__name__}."
            )
        stack = system.stacked(policies)
        arrays = list(stack.arrays().values())
        if not all((np.abs(array) <= MAGNITUDE).all() for array in arrays):
            raise InvalidInputError(
                f"Policies must lie in ±{MAGNITUDE:g} for a certificate."
            )
        rows = np.asarray(sources, np.float64)
        sigma = np.ascontiguousarray(system.initial_covariance)
        self._family = TracedFamily(system, rows, question, (*arrays, sigma))
        self.basis, self.assumption = self._family.basis, self._family.assumption
        if is_cost and question.rule.compares_with_best:
            self.basis += (
                "; the best is the least cost over all feedback of the whole state, "
                "which no controller of another structure can beat"
            )
        n_states = len(sigma)
        if isinstance(stack, LinearController):
            n_states += stack.A.shape[-1]
        self.pair_work = 2.5 * n_states**3 * stack.stack_shape[1]
        # Of each policy its closed loop, or for levels the policy itself.
        self._members: Any = np.empty(stack.stack_shape, object)
        for place in np.ndindex(self._members.shape):
            one = stack[place]
            if isinstance(one, LinearController):
                one = without_unheard(one)
            self._members[place] = (
                loop_trace(self._family.trace, one) if is_cost else one
            )
        # What to subtract from the cost; (inf, inf) if unstable at home.
        self._home = np.zeros((*stack.stack_shape, 2))
        if is_cost and question.rule.compares_with_home:
            for s, p in np.ndindex(self._members.shape):
                box = Boxes.points(rows[s : s + 1])
                loop = self._members[s, p]
                low, high = cost_bounds(self._family, box, loop, COST, np.zeros(2))
                self._home[s, p] = low[0], high[0]

    def bounds(
        self, boxes: Boxes, sources: ArrayLike | None = None, *, epsilon: float = np.nan
    ) -> Bounds:
        """Return low and high bound on the loss, each with dims `(source, box)`."""
        return self._bounds_by_source(boxes, sources, epsilon)

    def pair_bounds(
        self, boxes: Boxes, sources: NDArray[np.integer], *, epsilon: float = np.nan
    ) -> Bounds:
        """Return bounds of source `sources[i]` on `boxes[i]`."""
        low, high = np.empty(len(boxes)), np.empty(len(boxes))
        reduce = np.max if self.question.judge == "worst" else np.min
        for source in np.unique(sources).tolist():
            own = np.flatnonzero(sources == source)
            some = boxes[own]
            pairs = [
                self._member_bounds(some, source, policy, epsilon)
                for policy in range(self.n_policies)
            ]
            low[own], high[own] = (
                reduce([p[i] for p in pairs], axis=0) for i in (0, 1)
            )
        return low, high

    def tried_bounds(
        self, boxes: Boxes, tries: NDArray[np.integer], epsilon: float
    ) -> Bounds:
        """Return bounds of `tries[b]` on box b, in order, until one serves."""
        low, high = np.full(tries.shape, -np.inf), np.full(tries.shape, np.inf)
        open_boxes = np.arange(len(boxes))
        for column in range(tries.shape[1]):
            asked = open_boxes[tries[open_boxes, column] >= 0]
            if not len(asked):
                break
            pair = self.pair_bounds(boxes[asked], tries[asked, column], epsilon=epsilon)
            low[asked, column], high[asked, column] = pair
            open_boxes = asked[~(pair[1] <= epsilon)]
        return low, high

    def widths(self, boxes: Boxes, extent: Array) -> Array:
        """Return relative widths where a parameter keeps its sign, else shares."""
        return relative_widths(boxes, extent)

    def _member_bounds(
        self, boxes: Boxes, source: int, policy: int, epsilon: float
    ) -> Bounds:
        """Return bounds of one policy on each box."""
        measure, member = self.question.measure, self._members[source, policy]
        if len(boxes):
            self._family.check(boxes)
        if measure != "performance":
            return level_bounds(self._family, MEASURES[measure], boxes, member, epsilon)
        kind = KINDS[self.question.rule.box_bounds]
        return cost_bounds(
            self._family, boxes, member, kind, self._home[source, policy]
        )


def cost_bounds(
    family: TracedFamily,
    boxes: Boxes,
    trace: Trace,
    kind: int,
    home: Array,
    sigmas: tuple[Array, Array] | None = None,
) -> Bounds:
    """Return bounds on the loss of one closed loop on each box.

    Args:
        family: the plant.
        boxes: where.
        trace: the loop.
        kind: which loss, see `rigor.losses`.
        home: bounds on what is subtracted from the cost.
        sigmas: second moments of the initial states of the loop and of the plant; by
            default those of the family, where a controller begins at zero.
    """
    low, high = np.full(len(boxes), -np.inf), np.full(len(boxes), np.inf)
    if not len(boxes):
        return low, high
    if sigmas is None:
        sigma = np.ascontiguousarray(family.system.initial_covariance)
        sigmas = np.pad(sigma, (0, len(trace.A) - len(sigma))), sigma
    loop = BoxProgram(trace, boxes, ORDER)
    plant = loop.of(family.trace)
    options = (kind, family.system.is_continuous, *sigmas)
    loop.run(
        lambda some, where: bound_loop(
            loop.program, plant, *where, options, home, low[some], high[some]
        )
    )
    return low, high


# A rate is proven not to be reached if it is not by so much less.
REFUTED = 1e-9


def check_level(question: Question) -> None:
    """Refuse a measure that has no bounds over boxes.

    Args:
        question: what is asked.
    """
    question.check_single("A bound on a measure over boxes")
    is_norm = isinstance(MEASURES[question.measure], NormMeasure)
    if not is_norm and question.measure != "decay_rate":
        raise NoEnclosureError(
            f"The measure {question.measure!r} has no bounds over boxes: what is said "
            "of it is about the contexts of the table."
        )


def level_bounds(
    family: TracedFamily, measure: Any, boxes: Boxes, policy: Any, epsilon: float
) -> Bounds:
    """Return whether a policy meets a level on each box, as bounds on its loss.

    Args:
        family: the plant.
        measure: the decay rate or an H∞ norm.
        boxes: where.
        policy: a single one.
        epsilon: tolerance of the loss; without one nothing is known.
    """
    low, high = np.full(len(boxes), -np.inf), np.full(len(boxes), np.inf)
    if not len(boxes) or np.isnan(epsilon):
        return low, high
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
