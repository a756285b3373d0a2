"""The interface of regions: where in the range which policy is used."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace.errors import InvalidInputError


@dataclass(frozen=True, eq=False)
class Regions(ABC):
    """Regions with the policy that each uses and what is known there.

    Args:
        policy: number of the policy used in each region, −1 for none.
        served: whether the policy is known to serve the region within ε.
        margin: ε minus the loss known there; NaN where none is known.
    """

    policy: Numbers
    served: Mask
    margin: Array
    kind: ClassVar[str]
    plural: ClassVar[str]
    """What the regions are called, for people."""
    law: ClassVar[str]
    """How a context finds its region, in words for a contract."""

    def __post_init__(self):
        n = self.n_regions
        for name in ("policy", "served", "margin"):
            require(getattr(self, name).shape == (n,), f"{name} must have one dim")

    @property
    def n_regions(self) -> int:
        """How many regions there are."""
        return len(self.policy)

    @property
    @abstractmethod
    def low(self) -> Array:
        """Lower corner of the range of contexts."""

    @property
    @abstractmethod
    def high(self) -> Array:
        """Upper corner of the range of contexts."""

    @property
    @abstractmethod
    def centres(self) -> Array:
        """A context of each region, `(region, axis)`: its node or its middle."""

    @abstractmethod
    def locate(self, rows: Array) -> Numbers:
        """Region of each context.

        Args:
            rows: contexts within the range, `(context, axis)`.
        """

    def knows(self, rows: Array, region: Numbers) -> Mask:
        """Return whether what is known of a region speaks of these very contexts.

        Args:
            rows: contexts, `(context, axis)`.
            region: the region of each.
        """
        del rows  # a region is known as a whole, unless it says otherwise
        return np.ones(len(region), bool)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Every array by name; `from_arrays` reads them."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the regions that `arrays` described.

        Args:
            arrays: arrays by name.
        """
        return cls(**arrays)


def require(holds: object, what: str) -> None:
    """Refuse regions that do not fit together.

    Args:
        holds: what must be true.
        what: the same in words.
    """
    if not holds:
        raise InvalidInputError(f"The regions of a library do not fit: {what}.")
