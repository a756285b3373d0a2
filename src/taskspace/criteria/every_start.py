"""Cost from every initial state against the best from there, for linear systems."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace.criteria.base import Criterion, Reference
from taskspace.errors import InvalidInputError

__all__ = ["EveryStart"]


class EveryStart(Criterion):
    r"""The least ε with $P_K \preceq (1 + \epsilon) P_*$ at the target.

    From an initial state $x_0$ a gain costs $x_0^\top P_K x_0$ and the best possible is
    $x_0^\top P_* x_0$. Within ε means: at most 1 + ε times the best, from *every*
    $x_0$; `ratio` means on average over initial states.
    """

    name: ClassVar[str] = "every_start"
    summary: ClassVar[str] = (
        "cost / least cost − 1 from the worst initial state, for linear systems"
    )
    reference: ClassVar[Reference] = "none"
    measure: str = "every_start"
    is_relative: ClassVar[bool] = True
    averages_starts: bool = False

    def loss(
        self, performance: NDArray[np.float64], reference: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the score with its sign turned; refuse a score that is not known.

        Args:
            performance: the score `every_start` at targets.
            reference: not used.
        """
        del reference
        if np.isnan(performance).any():
            target = int(np.argwhere(np.isnan(performance))[0][-1])
            raise InvalidInputError(
                "criterion='every_start' compares with the least cost from every "
                "initial state, which must be known and positive, but at target "
                f"{target} it is not: the Riccati equation was not solved there, or "
                "some initial state costs nothing. Give every state a weight in Q, "
                "leave that target out, or use criterion='ratio'."
            )
        return -performance

    def sentence(self, epsilon: float) -> str:
        """Return what serving a target within `epsilon` means.

        Args:
            epsilon: the tolerance.
        """
        return (
            f"every_start ≤ {epsilon:g} (cost at most {100 * epsilon:g} % above the "
            "best, from every initial state)"
        )

    def clause(self, epsilon: float) -> str:
        """Return what is true of a context that is served within `epsilon`.

        Args:
            epsilon: the tolerance.
        """
        return (
            f"costs at most {100 * epsilon:g} % more than optimal from every initial "
            "state"
        )
