"""An absolute level of performance: "at least this good"."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace.criteria.base import Criterion, Reference
from taskspace.errors import InvalidInputError
from taskspace.systems.base import MEASURES

__all__ = ["Floor"]


class Floor(Criterion):
    """−J(t, π): ε = −450 asks for at least 450; or minus another score than J.

    Args:
        measure: the score, `"performance"` or one of `taskspace.systems.base.MEASURES`.
    """

    name: ClassVar[str] = "floor"
    summary: ClassVar[str] = '−J(t, π): "at least this good"'
    reference: ClassVar[Reference] = "none"
    allows_negative_epsilon: ClassVar[bool] = True

    def __init__(self, measure: str = "performance"):
        self.measure = measure
        self.averages_starts = measure == "performance"

    @property
    def unit(self) -> str:
        """Unit of the loss and of ε."""
        if self.measure == "performance":
            return super().unit
        return MEASURES[self.measure].unit or self.measure

    def loss(
        self, performance: NDArray[np.float64], reference: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the score with its sign turned; refuse a measure that is not known.

        Args:
            performance: J, or the measure's score, at targets.
            reference: not used.
        """
        del reference
        if self.measure != "performance" and np.isnan(performance).any():
            target = int(np.argwhere(np.isnan(performance))[0][-1])
            raise InvalidInputError(
                f"The measure {self.measure} must be known at every target, but at "
                f"target {target} it is not. Leave that target out, or ask by another "
                "measure."
            )
        return -performance

    def sentence(self, epsilon: float) -> str:
        """Return what serving a target within `epsilon` means.

        Args:
            epsilon: the tolerance.
        """
        return f"floor ≤ {epsilon:g} ({self._words(epsilon)})"

    def short(self, epsilon: float) -> str:
        """Return the inequality alone, for titles.

        Args:
            epsilon: the tolerance.
        """
        if self.measure == "performance":
            return super().short(epsilon)
        if MEASURES[self.measure].larger_is_better:
            return f"{self.measure} ≥ {-epsilon:g}"
        return f"{self.measure} ≤ {epsilon:g}"

    def clause(self, epsilon: float) -> str:
        """Return what is true of a context that is served within `epsilon`.

        Args:
            epsilon: the tolerance.
        """
        said = self._words(epsilon)
        return f"has {'a ' if self.measure == 'performance' else ''}{said}"

    def _words(self, epsilon: float) -> str:
        if self.measure == "performance":
            return f"performance of at least {-epsilon:g}"
        return MEASURES[self.measure].sentence(epsilon)
