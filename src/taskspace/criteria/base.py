r"""The interface of a criterion: what a policy loses at a target.

Every criterion compares J(target, π) with a reference: nothing, π's own score at
home, or the best J known at the target; as a difference or relative to that best
cost. So a criterion is a few declared facts, and everything that needs it (tables,
covers, enclosures over boxes, sentences for people) reads them here.
"""

from abc import ABC, abstractmethod
from dataclasses import fields, is_dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError

__all__ = [
    "JUDGES",
    "Criterion",
    "Reference",
]

Array = NDArray[np.float64]
Reference = Literal["none", "home", "best known"]

JUDGES = ("worst", "best")
"""Which policy of a family counts: the paper's sup, or a deployer's choice."""


class Criterion(ABC):
    """A way to say what a policy loses at a target; `loss` falls as J rises."""

    name: ClassVar[str]
    """What users call it."""
    summary: ClassVar[str]
    """The loss as a formula, for help and tables."""
    reference: ClassVar[Reference]
    """What J at the target is compared with."""
    measure: str = "performance"
    """The score of the table that it reads: J, or another that the system gives."""
    averages_starts: bool = True
    """Whether a cost is a mean over initial states, where J is one."""
    is_relative: ClassVar[bool] = False
    """Whether the loss is a share of the reference, not in units of performance."""
    allows_negative_epsilon: ClassVar[bool] = False
    """Whether a tolerance below zero means something."""

    @property
    def parameters(self) -> dict[str, float]:
        """Its parameters by name; none for most."""
        if not is_dataclass(self):
            return {}
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @property
    def text(self) -> str:
        """Its name, with the parameters that are not the usual ones."""
        usual = {f.name: f.default for f in fields(self)} if is_dataclass(self) else {}
        own = [f"{k}={v!r}" for k, v in self.parameters.items() if v != usual[k]]
        return ":".join([self.name, ",".join(own)]) if own else self.name

    @property
    def has_box_bounds(self) -> bool:
        """Whether bounds over boxes of contexts know it: not with parameters."""
        return self.text == self.name

    @property
    def unit(self) -> str:
        """Unit of the loss and of ε."""
        return "share of the best known cost" if self.is_relative else "performance"

    @abstractmethod
    def loss(self, performance: Array, reference: Array) -> Array:
        """Loss of scores against their reference.

        It is +inf where a policy failed, and where there is no reference: nothing
        shows that such a target is served.

        Args:
            performance: J at targets, −inf for a failure.
            reference: what `self.reference` names, broadcast against it; zeros
                where it is `"none"`. NaN at targets without a reference.
        """

    def check_reference(self, reference: Array) -> None:
        """Refuse a reference for which the loss has no meaning.

        Args:
            reference: best known J of every target.
        """
        del reference

    def enclose(
        self,
        performance: tuple[Array, Array],
        reference: tuple[Array, Array],
    ) -> tuple[Array, Array]:
        """Bounds of the loss from bounds of J and of its reference.

        The loss falls in J and rises in the reference, so its ends are at opposite
        ends of both. The arithmetic is plain floating point: a caller that claims a
        proof rounds its bounds outwards.

        Args:
            performance: lower and upper bounds of J.
            reference: lower and upper bounds of the reference.

        Returns:
            Lower and upper bounds of the loss.
        """
        low = self.loss(performance[1], reference[0])
        return low, self.loss(performance[0], reference[1])

    def threshold(self, epsilon: float, reference: Array) -> Array:
        """Return the smallest J that is served: `loss <= epsilon` from there on.

        Args:
            epsilon: the tolerance.
            reference: what `self.reference` names; zeros where it is `"none"`.
        """
        return reference - epsilon

    def sentence(self, epsilon: float) -> str:
        """Return what serving a target within `epsilon` means, for people.

        Args:
            epsilon: the tolerance.
        """
        return f"{self.name} ≤ {epsilon:g}"

    def short(self, epsilon: float) -> str:
        """Return the inequality alone, for titles.

        Args:
            epsilon: the tolerance.
        """
        return f"{self.name} ≤ {epsilon:g}"

    def clause(self, epsilon: float) -> str:
        """Return what is true of a context that is served within `epsilon`.

        Args:
            epsilon: the tolerance.
        """
        return f"has {self.sentence(epsilon)}"

    def check_epsilon(self, epsilon: float) -> None:
        """Refuse a tolerance that is not finite, or negative where losses start at 0.

        Args:
            epsilon: the tolerance.
        """
        if np.isinf(epsilon):
            raise InvalidInputError(
                f"epsilon must be finite, but got epsilon={epsilon}. Name the largest "
                "loss that you accept."
            )
        if np.isnan(epsilon) or (epsilon < 0 and not self.allows_negative_epsilon):
            raise InvalidInputError(
                f"epsilon >= 0 must hold, but got epsilon={epsilon}. For a relative "
                "tolerance use criterion='ratio', for an absolute level of "
                "performance criterion='floor'."
            )


def check_parameter(name: str, value: float) -> None:
    """Refuse a parameter that is no finite number of at least 0.

    Args:
        name: of the parameter.
        value: of the parameter.
    """
    if not 0 <= value < np.inf:
        raise InvalidInputError(f"{name} >= 0 must hold and be finite, got {value}.")


def difference(performance: Array, reference: Array) -> Array:
    """Return reference − J, 0 between equals, +inf for failures and without reference.

    Args:
        performance: J at targets.
        reference: what it is compared with, NaN for nothing.
    """
    if np.isfinite(reference).all():  # minus −inf is +inf: one pass is enough
        return reference - performance
    undefined = (performance == -np.inf) | np.isnan(reference)
    with np.errstate(invalid="ignore"):
        return np.where(undefined, np.inf, reference - performance)
