"""Cost against the best known cost: 0.1 is "10 % worse"."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace.criteria.base import Criterion, Reference, check_parameter
from taskspace.errors import InvalidInputError

__all__ = ["Ratio"]


@dataclass(frozen=True)
class Ratio(Criterion):
    """Cost at t / best known cost at t − 1, for J = −cost < 0.

    Args:
        floor: costs below this count as this, so that a best cost of (nearly) 0 asks
            for no miracle; 0 for no such floor.
    """

    floor: float = 0.0

    def __post_init__(self):
        check_parameter("floor", self.floor)

    name: ClassVar[str] = "ratio"
    summary: ClassVar[str] = "cost at t / best known cost at t − 1, for J = −cost < 0"
    reference: ClassVar[Reference] = "best known"
    is_relative: ClassVar[bool] = True

    def loss(
        self, performance: NDArray[np.float64], reference: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """(cost − best) / best: no cancellation for costs close to the best.

        Args:
            performance: J at targets.
            reference: best known J there, negative; NaN for none.
        """
        if self.floor:
            performance = np.minimum(performance, -self.floor)
            reference = np.minimum(reference, -self.floor)
        with np.errstate(invalid="ignore"):
            ratio = (performance - reference) / reference
        undefined = (performance == -np.inf) | np.isnan(reference)
        return np.where(undefined, np.inf, ratio)

    def enclose(
        self,
        performance: tuple[NDArray[np.float64], NDArray[np.float64]],
        reference: tuple[NDArray[np.float64], NDArray[np.float64]],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Cost over best cost − 1, at opposite ends.

        Args:
            performance: lower and upper bounds of J.
            reference: lower and upper bounds of the best J; where the upper one is
                not negative nothing is known from above.
        """
        low, high = super().enclose(performance, reference)
        is_positive = reference[1] < 0
        return low, np.where(is_positive | (self.floor > 0), high, np.inf)

    def check_reference(self, reference: NDArray[np.float64]) -> None:
        """Costs must be positive.

        Args:
            reference: best known J of every target, NaN for none.
        """
        reference = np.where(np.isnan(reference), -np.inf, reference)
        zero = np.flatnonzero(reference == 0)
        if (reference > 0).any():
            target = int(reference.argmax())
            raise InvalidInputError(
                "criterion='ratio' compares costs, J = −cost < 0, but the best known J "
                f"of target {target} is {reference[target]:g}. If the numbers are "
                "costs, say lower_is_better=True (--read lower_is_better); for scores "
                "use criterion='regret' (--criterion regret)."
            )
        if len(zero) and not self.floor:
            more = f" and {len(zero) - 1} more" if len(zero) > 1 else ""
            raise InvalidInputError(
                f"criterion='ratio' takes shares of the best known cost, which is 0 at "
                f"target {zero[0]}{more}. State a floor, below which all costs are "
                "alike: criterion='ratio:floor=0.1' (--criterion ratio:floor=0.1); "
                "leave such targets out (--read 'ignore=[\"a\"]'), or ask for "
                "criterion='regret' (--criterion regret)."
            )

    def threshold(
        self, epsilon: float, reference: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the smallest J that is served: a cost of 1 + ε times the best.

        Args:
            epsilon: the tolerance.
            reference: best known J, negative.
        """
        return np.minimum(reference, -self.floor) * (1 + epsilon)

    def sentence(self, epsilon: float) -> str:
        """Return what serving a target within `epsilon` means.

        Args:
            epsilon: the tolerance.
        """
        low = f", costs below {self.floor:g} counted as that" if self.floor else ""
        more = f"{100 * epsilon:g} % above the best{low}"
        return f"ratio ≤ {epsilon:g} (cost at most {more})"

    def clause(self, epsilon: float) -> str:
        """Return what is true of a context that is served within `epsilon`.

        Args:
            epsilon: the tolerance.
        """
        low = f" (costs below {self.floor:g} counted as that)" if self.floor else ""
        return f"costs at most {100 * epsilon:g} % more than optimal{low}"
