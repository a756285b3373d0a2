"""The enclosure of controllers with states: proofs over boxes for linear families.

The closed loop of a plant and a controller is linear again, so the mathematics of
`taskspace.certificates.boxes.rigor` bounds its cost. The reference of `regret` and
`ratio` is the least cost over all feedback of the plant's whole state: no controller of
any structure is below it.
"""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.threads import over_rows
from taskspace.certificates.boxes.enclosures.boxes import (
    Boxes,
    Enclosure,
    NoEnclosureError,
    check_cost,
)
from taskspace.certificates.boxes.enclosures.linear import KINDS
from taskspace.certificates.boxes.enclosures.per_loop import Pair, PerLoop
from taskspace.certificates.boxes.enclosures.traced import (
    TracedFamily,
    box_grid,
    trace_program,
)
from taskspace.certificates.boxes.rigor.losses import COST, START, bound_loop
from taskspace.policies import LinearController, Policy
from taskspace.questions import Question
from taskspace.systems.base import System
from taskspace.systems.linear import LinearSystem
from taskspace.systems.linear.tracing.loops import loop_trace
from taskspace.systems.linear.tracing.traced import Trace, UntraceableError

ORDER = 2


def loop_enclosure(
    system: System,
    policies: Policy,
    sources: NDArray[np.float64],
    question: Question,
) -> Enclosure | None:
    """Return bounds for a linear family and linear controllers; None for others.

    Args:
        system: the tasks.
        policies: a stack with leading dims `(source, policy)`.
        sources: full context rows of the sources.
        question: criterion and judge; its tolerance does not matter here.
    """
    if not isinstance(system, LinearSystem):
        return None
    if not isinstance(policies, LinearController):
        return None
    try:
        return LoopEnclosure(system, policies, sources, question)
    except UntraceableError as error:
        raise NoEnclosureError(str(error)) from error


class LoopEnclosure(PerLoop):
    """Bounds on the losses of linear controllers over boxes of any linear family.

    Args:
        system: a linear family with an infinite horizon.
        policies: a stack of controllers with leading dims `(source, policy)`.
        sources: full context rows of the sources, which `signed` compares with.
        question: criterion and judge; its tolerance does not matter here.
    """

    def __init__(
        self,
        system: LinearSystem,
        policies: LinearController,
        sources: NDArray[np.float64],
        question: Question,
    ):
        check_cost(question)
        kind = KINDS.get(question.criterion)
        if kind is None or kind == START:
            raise NoEnclosureError(
                f"The criterion {question.criterion!r} has no bounds over boxes for "
                "controllers with states. Use ratio, regret, floor or signed."
            )
        super().__init__(system, policies, sources, question)
        if question.rule.reference == "best known":
            self.basis += (
                "; the best is the least cost over all feedback of the whole state, "
                "which no controller of another structure can beat"
            )
        self._kind = kind
        sigma = np.ascontiguousarray(system.initial_covariance, dtype=np.float64)
        stack = self._stack
        assert isinstance(stack, LinearController)
        n = len(sigma) + stack.n_states
        self._sigmas = np.zeros((n, n)), sigma
        self._sigmas[0][: len(sigma), : len(sigma)] = sigma
        self._loops = [
            [loop_trace(self._family.trace, one) for one in members]
            for members in self._members
        ]
        # What to subtract from the cost; (inf, inf) if unstable at home.
        self._home = np.zeros((self.n_sources, self.n_policies, 2))
        if question.criterion == "signed":
            rows = np.asarray(sources, np.float64)
            for s, p in np.ndindex(self.n_sources, self.n_policies):
                box = Boxes.points(rows[s : s + 1])
                low, high = self._bound(box, self._loops[s][p], COST, np.zeros(2))
                self._home[s, p] = low[0], high[0]

    def subset(self, sources: ArrayLike) -> Self:
        """Return the same bounds for only these sources, in this order."""
        part = super().subset(sources)
        rows = np.asarray(sources, np.int64)
        part._loops = [self._loops[s] for s in rows.tolist()]
        part._home = self._home[rows]
        return part

    def _loop_bounds(
        self, boxes: Boxes, source: int, policy: int, epsilon: float
    ) -> Pair:
        del epsilon
        loop, home = self._loops[source][policy], self._home[source, policy]
        return self._bound(boxes, loop, self._kind, home)

    def _bound(
        self, boxes: Boxes, trace: Trace, kind: int, home: NDArray[np.float64]
    ) -> Pair:
        if not len(boxes):
            return np.empty(0), np.empty(0)
        self._family.check(boxes)
        return cost_bounds(self._family, boxes, trace, kind, home, self._sigmas)


def cost_bounds(
    family: TracedFamily,
    boxes: Boxes,
    trace: Trace,
    kind: int,
    home: NDArray[np.float64],
    sigmas: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> Pair:
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
    grid = box_grid(boxes, ORDER)
    loop, arrays = trace_program(trace, grid, boxes)
    plant, _ = trace_program(family.trace, grid, boxes)
    options = (kind, family.system.is_continuous, *sigmas)

    def kernel(first: int, stop: int) -> None:
        some = slice(first, stop)
        bound_loop(
            loop,
            plant,
            tuple(x[some] for x in arrays),
            grid.tables,
            ORDER,
            grid.n_candidate,
            options,
            home,
            low[some],
            high[some],
        )

    over_rows(kernel, len(boxes))
    return low, high
