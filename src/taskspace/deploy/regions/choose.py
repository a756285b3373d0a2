"""Regions of contexts: where in the range which policy is used.

Four kinds, one interface. On a grid or a list of points a context belongs to the
nearest node, and what is known is known at the node itself; in the boxes of a
certified cover it is known on the whole box; where targets have names only, a name is
looked up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace.deploy.regions.base import Regions
from taskspace.deploy.regions.boxes import BoxRegions
from taskspace.deploy.regions.nodes import (
    GridRegions,
    PointRegions,
)
from taskspace.errors import InvalidInputError, UnknownNameError


@dataclass(frozen=True, eq=False)
class NamedRegions(Regions):
    """Targets that have names and no coordinates.

    Args:
        policy: see `Regions`.
        served: see `Regions`.
        margin: see `Regions`.
        targets: name of each target.
    """

    targets: NDArray[np.str_]
    kind: ClassVar[str] = "names"
    plural: ClassVar[str] = "named targets"
    law: ClassVar[str] = "the target of this name"

    @property
    def low(self) -> NDArray[np.float64]:
        """Names have no range."""
        return np.empty(0)

    @property
    def high(self) -> NDArray[np.float64]:
        """Names have no range."""
        return np.empty(0)

    @property
    def centres(self) -> NDArray[np.float64]:
        """Names have no coordinates."""
        return np.empty((len(self.targets), 0))

    def locate(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Contexts must be names here.

        Args:
            rows: contexts.
        """
        raise InvalidInputError(
            "The targets of this library have names and no coordinates: select by "
            f"name, e.g. {str(self.targets[0])!r}; but got numbers, shape {rows.shape}."
        )

    def look_up(self, names: Sequence[str] | NDArray[Any]) -> NDArray[np.int64]:
        """Return number of each named target.

        Args:
            names: the names.
        """
        number = {str(name): i for i, name in enumerate(self.targets)}
        for name in names:
            if str(name) not in number:
                raise UnknownNameError("target of this library", name, number)
        return np.array([number[str(name)] for name in names], np.int64)


REGION_KINDS: dict[str, type[Regions]] = {
    cls.kind: cls for cls in (GridRegions, PointRegions, BoxRegions, NamedRegions)
}
"""Kinds of regions by name."""
