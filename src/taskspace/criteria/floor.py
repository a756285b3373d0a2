"""An absolute level of performance: "at least this good"."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace.criteria.base import Criterion, Reference

__all__ = ["Floor"]


class Floor(Criterion):
    """−J(t, π): ε = −450 asks for at least 450."""

    name: ClassVar[str] = "floor"
    summary: ClassVar[str] = '−J(t, π): "at least this good"'
    reference: ClassVar[Reference] = "none"
    allows_negative_epsilon: ClassVar[bool] = True

    def loss(
        self, performance: NDArray[np.float64], reference: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """The score with its sign turned.

        Args:
            performance: J at targets.
            reference: not used.
        """
        del reference
        return -performance

    def sentence(self, epsilon: float) -> str:
        """What serving a target within `epsilon` means.

        Args:
            epsilon: the tolerance.
        """
        return f"floor ≤ {epsilon:g} (performance of at least {-epsilon:g})"

    def clause(self, epsilon: float) -> str:
        """What is true of a context that is served within `epsilon`.

        Args:
            epsilon: the tolerance.
        """
        return f"has a performance of at least {-epsilon:g}"
