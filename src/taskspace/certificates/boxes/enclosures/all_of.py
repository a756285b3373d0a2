"""Bounds for several demands at once, from the bounds of each."""

from collections.abc import Sequence
from copy import copy
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.certificates.boxes.enclosures.boxes import Boxes, Enclosure
from taskspace.questions import Question

__all__ = ["AllOf"]


class AllOf(Enclosure):
    """The loss of the first demand, infinite where another is not met.

    It is bounded above where every other demand is proven met on the whole box, and
    infinite where one is proven to fail everywhere on it.

    Args:
        parts: bounds of each demand, in the order of `question.demands`.
        question: all demands.
    """

    def __init__(self, parts: Sequence[Enclosure], question: Question):
        self.question, self._parts = question, list(parts)
        first = parts[0]
        proven = all(part.kind == "proof" for part in parts)
        self.kind = "proof" if proven else "estimate"
        self.basis = "; and ".join(dict.fromkeys(part.basis for part in parts))
        self.assumption = "; ".join(
            dict.fromkeys(part.assumption for part in parts if part.assumption)
        )
        self.system, self.policies = first.system, first.policies

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return self._parts[0].n_sources

    @property
    def n_policies(self) -> int:
        """Members of each source's family."""
        return self._parts[0].n_policies

    def subset(self, sources: ArrayLike) -> Self:
        """The same bounds for only these sources, in this order."""
        part = copy(self)
        part._parts = [one.subset(sources) for one in self._parts]
        part.policies = part._parts[0].policies
        return part

    def bounds(
        self,
        boxes: Boxes,
        sources: ArrayLike | None = None,
        *,
        epsilon: float = np.nan,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Low and high bound on the loss, each with dims `(source, box)`."""
        low, high = self._parts[0].bounds(boxes, sources, epsilon=epsilon)
        for part, demand in self._others:
            found = part.bounds(boxes, sources, epsilon=demand.epsilon)
            low, high = _combine(low, high, *found, demand.epsilon)
        return low, high

    def pair_bounds(
        self,
        boxes: Boxes,
        sources: NDArray[np.integer],
        *,
        epsilon: float = np.nan,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return bounds of source `sources[i]` on `boxes[i]`."""
        pairs = self._parts[0].pair_bounds(boxes, sources, epsilon=epsilon)
        for part, demand in self._others:
            found = part.pair_bounds(boxes, sources, epsilon=demand.epsilon)
            pairs = _combine(*pairs, *found, demand.epsilon)
        return pairs

    def widths(self, boxes: Boxes, extent: NDArray[np.float64]) -> NDArray[np.float64]:
        """As the first demand's bounds say."""
        return self._parts[0].widths(boxes, extent)

    @property
    def _others(self) -> list[tuple[Enclosure, Question]]:
        return list(zip(self._parts[1:], self.question.also, strict=True))


def _combine(
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    other_low: NDArray[np.float64],
    other_high: NDArray[np.float64],
    epsilon: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the bounds of a loss that is infinite where another exceeds ε."""
    return (
        np.where(other_low > epsilon, np.inf, low),
        np.where(other_high <= epsilon, high, np.inf),
    )
