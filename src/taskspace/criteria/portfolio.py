"""The rule of algorithm portfolios: within max(factor × best, best + δ)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace.criteria.base import Criterion, Reference, check_parameter
from taskspace.errors import InvalidInputError

__all__ = ["Portfolio"]


@dataclass(frozen=True)
class Portfolio(Criterion):
    """0 where the cost is within δ of the best, else cost / best − 1.

    So ε = factor − 1 serves costs up to max(factor × best, best + δ), as portfolios of
    solvers do: small differences of small runtimes do not count.

    Args:
        delta: the difference δ that does not count, in units of cost.
    """

    delta: float = 0.0

    name: ClassVar[str] = "portfolio"
    summary: ClassVar[str] = "0 within δ of the best known cost, else as ratio"
    reference: ClassVar[Reference] = "best known"
    is_relative: ClassVar[bool] = True

    def __post_init__(self):
        check_parameter("delta", self.delta)

    @property
    def has_box_bounds(self) -> bool:
        """No: bounds over boxes know `ratio`."""
        return False

    def loss(
        self, performance: NDArray[np.float64], reference: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """0 within δ, else (cost − best) / best; +inf beyond δ of a best cost of 0.

        Args:
            performance: J at targets.
            reference: best known J there, not positive; NaN for none.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(
                reference == 0, np.inf, (performance - reference) / reference
            )
        ratio = np.where(performance >= reference - self.delta, 0.0, ratio)
        undefined = (performance == -np.inf) | np.isnan(reference)
        return np.where(undefined, np.inf, ratio)

    def check_reference(self, reference: NDArray[np.float64]) -> None:
        """Costs must not be negative.

        Args:
            reference: best known J of every target, NaN for none.
        """
        if (reference > 0).any():
            target = int(np.nanargmax(reference))
            raise InvalidInputError(
                "criterion='portfolio' compares costs, J = −cost <= 0, but the best "
                f"known J of target {target} is {reference[target]:g}. If the numbers "
                "are costs, say lower_is_better=True (--lower-is-better)."
            )

    def threshold(
        self, epsilon: float, reference: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the smallest J that is served: the larger of both allowances.

        Args:
            epsilon: the tolerance.
            reference: best known J, not positive.
        """
        return np.minimum(reference * (1 + epsilon), reference - self.delta)

    def sentence(self, epsilon: float) -> str:
        """Return what serving a target within `epsilon` means.

        Args:
            epsilon: the tolerance.
        """
        return (
            f"portfolio ≤ {epsilon:g} (cost at most max({1 + epsilon:g} × best, best + "
            f"{self.delta:g}))"
        )

    def clause(self, epsilon: float) -> str:
        """Return what is true of a context that is served within `epsilon`.

        Args:
            epsilon: the tolerance.
        """
        return f"costs at most max({1 + epsilon:g} × best, best + {self.delta:g})"
