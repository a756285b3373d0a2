"""Bounds for policies whose closed loops are programs of their own, one by one."""

from abc import abstractmethod
from copy import copy
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.certificates.boxes.enclosures.boxes import (
    Boxes,
    Enclosure,
    NoEnclosureError,
)
from taskspace.certificates.boxes.enclosures.traced import (
    MAGNITUDE,
    TracedFamily,
    relative_widths,
)
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearController, LinearGain, Policy
from taskspace.questions import Question
from taskspace.systems.linear import LinearSystem

Pair = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Low and high bounds."""


class PerLoop(Enclosure):
    """Bounds on gains and controllers of a linear family, one loop at a time.

    Args:
        system: a linear family with an infinite horizon.
        policies: a stack with leading dims `(source, policy)`.
        sources: full context rows of the sources.
        question: what is asked.
    """

    def __init__(
        self,
        system: LinearSystem,
        policies: Policy,
        sources: NDArray[np.float64],
        question: Question,
    ):
        if system.direct_matrix(sources[:1]) is not None:
            raise NoEnclosureError(
                "Bounds over boxes are for plants without a direct part, but this one "
                "has D. Add the lag of the actuator or of the sensor to its states."
            )
        self._stack = stack = system.stacked(policies)
        arrays = list(stack.arrays().values())
        if not all((np.abs(array) <= MAGNITUDE).all() for array in arrays):
            raise InvalidInputError(
                f"Policies must lie in ±{MAGNITUDE:g} for a certificate."
            )
        self.kind, self.question = "proof", question
        self.system, self.policies = system, policies
        rows = np.asarray(sources, np.float64)
        sigma = system.initial_covariance
        self._family = TracedFamily(system, rows, question, (*arrays, sigma))
        self.basis, self.assumption = self._family.basis, self._family.assumption
        shape = arrays[0].shape[:2]
        self._members: list[list[LinearController | LinearGain]] = [
            [stack[s, p] for p in range(shape[1])] for s in range(shape[0])
        ]

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return len(self._members)

    @property
    def n_policies(self) -> int:
        """Members of each source's family."""
        return len(self._members[0])

    def subset(self, sources: ArrayLike) -> Self:
        """Return the same bounds for only these sources, in this order."""
        rows = np.asarray(sources, np.int64)
        part = copy(self)
        part._members = [self._members[s] for s in rows.tolist()]
        assert self.policies is not None
        part.policies = self.policies[rows]
        return part

    @abstractmethod
    def _loop_bounds(
        self, boxes: Boxes, source: int, policy: int, epsilon: float
    ) -> Pair:
        """Return bounds of one policy on each box."""

    def bounds(
        self,
        boxes: Boxes,
        sources: ArrayLike | None = None,
        *,
        epsilon: float = np.nan,
    ) -> Pair:
        """Return low and high bound on the loss, each with dims `(source, box)`."""
        rows = np.arange(self.n_sources) if sources is None else np.asarray(sources)
        low = np.empty((len(rows), len(boxes)))
        high = np.empty((len(rows), len(boxes)))
        for i, source in enumerate(rows.tolist()):
            low[i], high[i] = self._of_source(boxes, source, epsilon)
        return low, high

    def pair_bounds(
        self,
        boxes: Boxes,
        sources: NDArray[np.integer],
        *,
        epsilon: float = np.nan,
    ) -> Pair:
        """Return bounds of source `sources[i]` on `boxes[i]`."""
        low, high = np.empty(len(boxes)), np.empty(len(boxes))
        for source in np.unique(sources).tolist():
            own = np.flatnonzero(sources == source)
            low[own], high[own] = self._of_source(boxes[own], source, epsilon)
        return low, high

    def tried_bounds(
        self, boxes: Boxes, tries: NDArray[np.integer], epsilon: float
    ) -> Pair:
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

    def widths(self, boxes: Boxes, extent: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return relative widths where a parameter keeps its sign, else shares."""
        return relative_widths(boxes, extent)

    def _of_source(self, boxes: Boxes, source: int, epsilon: float) -> Pair:
        """Return bounds of the policy that counts."""
        pairs = [
            self._loop_bounds(boxes, source, policy, epsilon)
            for policy in range(self.n_policies)
        ]
        reduce = np.max if self.question.judge == "worst" else np.min
        low, high = (reduce([pair[i] for pair in pairs], axis=0) for i in (0, 1))
        return low, high
