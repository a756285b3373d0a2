"""The enclosure of controllers with states: proofs over boxes for linear families.

The closed loop of a plant and a controller is linear again, so the mathematics of
`taskspace.certificates.boxes.rigor` bounds its cost. The reference of `regret` and
`ratio` is the least cost over all feedback of the plant's whole state: no controller of
any structure is below it.
"""

from copy import copy
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
from taskspace.certificates.boxes.enclosures.traced import (
    MAGNITUDE,
    TracedFamily,
    box_grid,
    relative_widths,
    trace_program,
)
from taskspace.certificates.boxes.rigor.loops import bound_loop
from taskspace.certificates.boxes.rigor.losses import COST, START
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearController, Policy
from taskspace.questions import Question
from taskspace.systems.base import System
from taskspace.systems.linear import LinearSystem
from taskspace.systems.linear.tracing.loops import loop_trace
from taskspace.systems.linear.tracing.traced import Trace, UntraceableError

__all__ = ["LoopEnclosure", "loop_enclosure"]

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


class LoopEnclosure(Enclosure):
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
        stack = system.stacked(policies)
        assert isinstance(stack, LinearController)
        if not (np.abs(stack.feedback) <= MAGNITUDE).all():
            raise InvalidInputError(
                f"Controllers must lie in ±{MAGNITUDE:g} for a certificate."
            )
        self.kind = "proof"
        self.question = question
        self.system, self.policies = system, stack
        self._kind = kind
        sigma = np.ascontiguousarray(system.initial_covariance, dtype=np.float64)
        n = len(sigma) + stack.n_states
        self._sigmas = np.zeros((n, n)), sigma
        self._sigmas[0][: len(sigma), : len(sigma)] = sigma
        rows = np.asarray(sources, np.float64)
        self._family = TracedFamily(system, rows, question, (stack.feedback, sigma))
        self.basis, self.assumption = self._family.basis, self._family.assumption
        if question.rule.reference == "best known":
            self.basis += (
                "; the best is the least cost over all feedback of the whole state, "
                "which no controller of another structure can beat"
            )
        self._loops: list[list[Trace]] = [
            [
                loop_trace(self._family.trace, stack[s, p])
                for p in range(stack.D.shape[1])
            ]
            for s in range(len(stack.D))
        ]
        # What to subtract from the cost; (inf, inf) if unstable at home.
        self._home = np.zeros((*stack.D.shape[:2], 2))
        if question.criterion == "signed":
            for s, p in np.ndindex(*stack.D.shape[:2]):
                box = Boxes.points(rows[s : s + 1])
                low, high = self._bound(box, self._loops[s][p], COST, np.zeros(2))
                self._home[s, p] = low[0], high[0]

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return len(self._loops)

    @property
    def n_policies(self) -> int:
        """Members of each source's family."""
        return len(self._loops[0])

    def subset(self, sources: ArrayLike) -> Self:
        """The same bounds for only these sources, in this order."""
        rows = np.asarray(sources, np.int64)
        part = copy(self)
        part._loops = [self._loops[s] for s in rows.tolist()]
        part._home = self._home[rows]
        assert self.policies is not None
        part.policies = self.policies[rows]
        return part

    def bounds(
        self,
        boxes: Boxes,
        sources: ArrayLike | None = None,
        *,
        epsilon: float = np.nan,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Low and high bound on the loss, each with dims `(source, box)`."""
        del epsilon
        rows = np.arange(self.n_sources) if sources is None else np.asarray(sources)
        low = np.empty((len(rows), len(boxes)))
        high = np.empty((len(rows), len(boxes)))
        for i, source in enumerate(rows.tolist()):
            low[i], high[i] = self._of_source(boxes, source)
        return low, high

    def pair_bounds(
        self,
        boxes: Boxes,
        sources: NDArray[np.integer],
        *,
        epsilon: float = np.nan,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Bounds of source `sources[i]` on `boxes[i]`."""
        del epsilon
        low, high = np.empty(len(boxes)), np.empty(len(boxes))
        for source in np.unique(sources).tolist():
            mine = np.flatnonzero(sources == source)
            low[mine], high[mine] = self._of_source(boxes[mine], source)
        return low, high

    def tried_bounds(
        self, boxes: Boxes, tries: NDArray[np.integer], epsilon: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Bounds of the sources `tries[b]` on box b, in order, until one serves."""
        low, high = np.full(tries.shape, -np.inf), np.full(tries.shape, np.inf)
        open_boxes = np.arange(len(boxes))
        for column in range(tries.shape[1]):
            asked = open_boxes[tries[open_boxes, column] >= 0]
            if not len(asked):
                break
            found = self.pair_bounds(boxes[asked], tries[asked, column])
            low[asked, column], high[asked, column] = found
            open_boxes = asked[~(found[1] <= epsilon)]
        return low, high

    def widths(self, boxes: Boxes, extent: NDArray[np.float64]) -> NDArray[np.float64]:
        """Relative widths where a parameter keeps its sign, else shares of all."""
        return relative_widths(boxes, extent)

    def _of_source(
        self, boxes: Boxes, source: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Bounds of the policy that counts."""
        pairs = [
            self._bound(boxes, loop, self._kind, home)
            for loop, home in zip(self._loops[source], self._home[source], strict=True)
        ]
        reduce = np.max if self.question.judge == "worst" else np.min
        low, high = (reduce([pair[i] for pair in pairs], axis=0) for i in (0, 1))
        return low, high

    def _bound(
        self, boxes: Boxes, trace: Trace, kind: int, home: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        low, high = np.full(len(boxes), -np.inf), np.full(len(boxes), np.inf)
        if not len(boxes):
            return low, high
        self._family.check(boxes)
        grid = box_grid(boxes, ORDER)
        loop, arrays = trace_program(trace, grid, boxes)
        plant, _ = trace_program(self._family.trace, grid, boxes)
        options = (kind, self._family.system.is_continuous, *self._sigmas)

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
