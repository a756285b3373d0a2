"""Regret: what most users mean by ε-optimal."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace.criteria.base import Criterion, Reference, difference

__all__ = ["Regret"]


class Regret(Criterion):
    """Best known J at t − J(t, π)."""

    name: ClassVar[str] = "regret"
    summary: ClassVar[str] = "best known J at t − J(t, π)"
    reference: ClassVar[Reference] = "best known"

    def loss(
        self, performance: NDArray[np.float64], reference: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Best known J minus J.

        Args:
            performance: J at targets.
            reference: best known J there.
        """
        return difference(performance, reference)

    def clause(self, epsilon: float) -> str:
        """Return what is true of a context that is served within `epsilon`.

        Args:
            epsilon: the tolerance.
        """
        return f"is within {epsilon:g} of optimal"
