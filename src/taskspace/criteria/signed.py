"""The paper's signed divergence D."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace.criteria.base import Criterion, Reference

__all__ = ["Signed"]


class Signed(Criterion):
    """J(s, π) − J(t, π): relative to the policy's own score at its source.

    A policy that is bad everywhere has nothing to lose, so a signed cover also
    reports the regret that it leaves.
    """

    name: ClassVar[str] = "signed"
    summary: ClassVar[str] = "J(s, π) − J(t, π): the paper's divergence D"
    reference: ClassVar[Reference] = "home"

    def loss(
        self, performance: NDArray[np.float64], reference: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Score at home minus score at the target; equal ones (−inf too) lose 0.

        Args:
            performance: J at targets.
            reference: J of the same policies at home.
        """
        with np.errstate(invalid="ignore"):
            return np.where(performance == reference, 0.0, reference - performance)

    def sentence(self, epsilon: float) -> str:
        """Return what serving a target within `epsilon` means.

        Args:
            epsilon: the tolerance.
        """
        return f"signed ≤ {epsilon:g} (compared with the policy's own score at home)"

    def clause(self, epsilon: float) -> str:
        """Return what is true of a context that is served within `epsilon`.

        Args:
            epsilon: the tolerance.
        """
        return f"loses at most {epsilon:g} against the source's own score"
