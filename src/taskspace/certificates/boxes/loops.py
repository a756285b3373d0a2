"""Enclosures of closed loops one by one, and those of controllers with states.

The closed loop of a plant and a controller is linear again, so the mathematics of
`taskspace.certificates.boxes.rigor` bounds its cost. The reference of `regret` and
`ratio` is the least cost over all feedback of the plant's whole state: no controller of
any structure is below it.
"""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
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
from taskspace.certificates.boxes.rigor.losses import COST, bound_loop
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearController, Policy
from taskspace.questions import Question
from taskspace.systems.linear import LinearSystem
from taskspace.systems.linear.controllers import without_unheard
from taskspace.systems.linear.tracing.loops import loop_trace
from taskspace.systems.linear.tracing.traced import Trace

ORDER = 2


class PerLoop(PolicyEnclosure):
    """Bounds on gains and controllers of a linear family, one loop at a time.

    Args:
        system: a linear family with an infinite horizon.
        policies: a stack with leading dims `(source, policy)`.
        sources: full context rows of the sources.
        question: what is asked.
    """

    per_source: ClassVar = ("policies", "_home", "_members")

    def __init__(
        self, system: LinearSystem, policies: Policy, sources: Array, question: Question
    ):
        super().__init__(system, policies, question)
        stack = system.stacked(policies)
        arrays = list(stack.arrays().values())
        if not all((np.abs(array) <= MAGNITUDE).all() for array in arrays):
            raise InvalidInputError(
                f"Policies must lie in ±{MAGNITUDE:g} for a certificate."
            )
        rows = np.asarray(sources, np.float64)
        sigma = system.initial_covariance
        self._family = TracedFamily(system, rows, question, (*arrays, sigma))
        self.kind = "proof"
        self.basis, self.assumption = self._family.basis, self._family.assumption
        # What to subtract from the cost; (inf, inf) if unstable at home.
        self._home = np.zeros((*stack.stack_shape, 2))
        n_states = len(system.initial_covariance)
        if isinstance(stack, LinearController):
            n_states += stack.A.shape[-1]
        self.pair_work = 2.5 * n_states**3 * stack.stack_shape[1]
        self._members: Any = np.empty(stack.stack_shape, object)
        for place in np.ndindex(self._members.shape):
            one = stack[place]
            if isinstance(one, LinearController):
                one = without_unheard(one)
            self._members[place] = one

    @abstractmethod
    def _loop_bounds(
        self, boxes: Boxes, source: int, policy: int, epsilon: float
    ) -> Bounds:
        """Return bounds of one policy on each box."""

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
        for source in np.unique(sources).tolist():
            own = np.flatnonzero(sources == source)
            low[own], high[own] = self._of_source(boxes[own], source, epsilon)
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

    def _of_source(self, boxes: Boxes, source: int, epsilon: float) -> Bounds:
        """Return bounds of the policy that counts."""
        pairs = [
            self._loop_bounds(boxes, source, policy, epsilon)
            for policy in range(self.n_policies)
        ]
        reduce = np.max if self.question.judge == "worst" else np.min
        low, high = (reduce([pair[i] for pair in pairs], axis=0) for i in (0, 1))
        return low, high


class LoopEnclosure(PerLoop):
    """Bounds on the losses of linear controllers over boxes of any linear family.

    Args:
        system: a linear family with an infinite horizon.
        policies: a stack of controllers with leading dims `(source, policy)`.
        sources: full context rows of the sources, which `signed` compares with.
        question: criterion and judge; its tolerance does not matter here.
    """

    per_source: ClassVar = (*PerLoop.per_source, "_loops")

    def __init__(
        self,
        system: LinearSystem,
        policies: LinearController,
        sources: Array,
        question: Question,
    ):
        check_cost(question)
        kind = KINDS.get(question.rule.box_bounds)
        if kind is None:
            raise NoEnclosureError(
                f"The criterion {question.criterion!r} has no bounds over boxes for "
                "controllers with states. Use ratio, regret, floor or signed."
            )
        super().__init__(system, policies, sources, question)
        if question.rule.compares_with_best:
            self.basis += (
                "; the best is the least cost over all feedback of the whole state, "
                "which no controller of another structure can beat"
            )
        self._kind = kind
        self._loops: Any = np.empty(self._members.shape, object)
        for place in np.ndindex(self._members.shape):
            self._loops[place] = loop_trace(self._family.trace, self._members[place])
        if question.rule.compares_with_home:
            rows = np.asarray(sources, np.float64)
            for s, p in np.ndindex(self._loops.shape):
                box = Boxes.points(rows[s : s + 1])
                low, high = self._bound(box, self._loops[s, p], COST, np.zeros(2))
                self._home[s, p] = low[0], high[0]

    def _loop_bounds(
        self, boxes: Boxes, source: int, policy: int, epsilon: float
    ) -> Bounds:
        del epsilon
        loop, home = self._loops[source, policy], self._home[source, policy]
        return self._bound(boxes, loop, self._kind, home)

    def _bound(self, boxes: Boxes, trace: Trace, kind: int, home: Array) -> Bounds:
        if not len(boxes):
            return np.empty(0), np.empty(0)
        self._family.check(boxes)
        sigma = np.ascontiguousarray(self._family.system.initial_covariance)
        sigmas = np.pad(sigma, (0, len(trace.A) - len(sigma))), sigma
        return cost_bounds(self._family, boxes, trace, kind, home, sigmas)


def cost_bounds(
    family: TracedFamily,
    boxes: Boxes,
    trace: Trace,
    kind: int,
    home: Array,
    sigmas: tuple[Array, Array],
) -> Bounds:
    """Return bounds on the loss of one closed loop on each box.

    Args:
        family: the plant.
        boxes: where, at least one.
        trace: the loop.
        kind: which loss, see `rigor.losses`.
        home: bounds on what is subtracted from the cost.
        sigmas: second moments of the initial states of the loop and of the plant.
    """
    low, high = np.full(len(boxes), -np.inf), np.full(len(boxes), np.inf)
    loop = BoxProgram(trace, boxes, ORDER)
    plant = loop.of(family.trace)
    options = (kind, family.system.is_continuous, *sigmas)
    loop.run(
        lambda some, where: bound_loop(
            loop.program, plant, *where, options, home, low[some], high[some]
        )
    )
    return low, high
