"""Regions around nodes: of a grid, of plain points, or targets with names only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace.deploy.regions.base import Regions, require
from taskspace.errors import InvalidInputError, UnknownNameError


@dataclass(frozen=True, eq=False)
class PointRegions(Regions):
    """Regions of the nearest of some points, each axis in widths of its range.

    Args:
        policy: see `Regions`.
        served: see `Regions`.
        margin: see `Regions`.
        points: the nodes, `(region, axis)`.
    """

    points: Array
    kind: ClassVar[str] = "points"
    plural: ClassVar[str] = "points"
    law: ClassVar[str] = (
        "nearest node by the Euclidean distance, each axis divided by the width of "
        "its range; ties to the lowest number"
    )

    def __post_init__(self):
        super().__post_init__()
        shape = self.points.shape
        good = len(shape) == 2 and shape[0] == self.n_regions and shape[1] > 0
        require(good and np.isfinite(self.points).all(), "points must be finite rows")

    @property
    def low(self) -> Array:
        """Smallest coordinates of the points."""
        return self.points.min(0)

    @property
    def high(self) -> Array:
        """Largest coordinates of the points."""
        return self.points.max(0)

    @property
    def centres(self) -> Array:
        """The points."""
        return self.points

    @property
    def scale(self) -> Array:
        """One over the width of each axis, 1 where it has none."""
        width = self.high - self.low
        return 1.0 / np.where(width > 0, width, 1.0)

    def locate(self, rows: Array) -> Numbers:
        """Return number of the nearest point.

        Args:
            rows: contexts, `(context, axis)`.
        """
        return _nearest(self.points, self.scale, np.ascontiguousarray(rows))

    def knows(self, rows: Array, region: Numbers) -> Mask:
        """Only the node itself is known.

        Args:
            rows: contexts, `(context, axis)`.
            region: the region of each.
        """
        return (self.points[region] == rows).all(-1)


@dataclass(frozen=True, eq=False)
class GridRegions(Regions):
    """Regions of the nearest node of a grid, the last axis running fastest.

    Args:
        policy: see `Regions`.
        served: see `Regions`.
        margin: see `Regions`.
        values: the values of each axis, ascending.
        borders: between every two neighbouring values of each axis, where the nearer
            one changes; on the border itself the lower one is used.
    """

    values: tuple[Array, ...]
    borders: tuple[Array, ...]
    kind: ClassVar[str] = "grid"
    plural: ClassVar[str] = "nodes of a grid"
    law: ClassVar[str] = (
        "on each axis the value of the grid between whose borders the context lies "
        "(on a border the lower one), borders halfway between neighbouring values, on "
        "logarithmic axes at their geometric mean; the node of these values"
    )

    def __post_init__(self):
        super().__post_init__()
        for values, borders in zip(self.values, self.borders, strict=True):
            between = (values[:-1] <= borders) & (borders < values[1:])
            require(bool(between.all()), "borders must lie between values")
        sizes = {
            len(v) - len(b) for v, b in zip(self.values, self.borders, strict=True)
        }
        require(sizes == {1}, "there must be one border between two values")
        require(
            np.prod(self.shape) == self.n_regions, "there must be one node per region"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values on each axis."""
        return tuple(len(v) for v in self.values)

    @property
    def low(self) -> Array:
        """Smallest value of each axis."""
        return np.array([v[0] for v in self.values])

    @property
    def high(self) -> Array:
        """Largest value of each axis."""
        return np.array([v[-1] for v in self.values])

    @property
    def log_axes(self) -> tuple[bool, ...]:
        """Axes whose borders are geometric means, not arithmetic ones."""
        return tuple(
            bool(v[0] > 0 and (b == _borders(v, True)).all())
            and not bool((b == _borders(v, False)).all())
            for v, b in zip(self.values, self.borders, strict=True)
        )

    @property
    def centres(self) -> Array:
        """The nodes."""
        mesh = np.meshgrid(*self.values, indexing="ij")
        return np.stack([m.ravel() for m in mesh], 1)

    def locate(self, rows: Array) -> Numbers:
        """Return number of the nearest node, in C order.

        Args:
            rows: contexts, `(context, axis)`.
        """
        number = np.zeros(len(rows), np.int64)
        for border, x in zip(self.borders, rows.T, strict=True):
            number = number * (len(border) + 1) + border.searchsorted(x, side="left")
        return number

    def knows(self, rows: Array, region: Numbers) -> Mask:
        """Only the node itself is known.

        Args:
            rows: contexts, `(context, axis)`.
            region: the region of each.
        """
        same = np.ones(len(rows), bool)
        places = np.unravel_index(region, self.shape)
        for value, place, x in zip(self.values, places, rows.T, strict=True):
            same &= value[place] == x
        return same

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Every array by name, the axes numbered."""
        axes = {}
        for i, (value, border) in enumerate(
            zip(self.values, self.borders, strict=True)
        ):
            axes |= {f"values_{i}": value, f"borders_{i}": border}
        flat = {"policy": self.policy, "served": self.served, "margin": self.margin}
        return flat | axes

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the regions that `arrays` described.

        Args:
            arrays: arrays by name.
        """
        n = sum(name.startswith("values_") for name in arrays)
        return cls(
            policy=arrays["policy"],
            served=arrays["served"],
            margin=arrays["margin"],
            values=tuple(arrays[f"values_{i}"] for i in range(n)),
            borders=tuple(arrays[f"borders_{i}"] for i in range(n)),
        )


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
    def low(self) -> Array:
        """Names have no range."""
        return np.empty(0)

    @property
    def high(self) -> Array:
        """Names have no range."""
        return np.empty(0)

    @property
    def centres(self) -> Array:
        """Names have no coordinates."""
        return np.empty((len(self.targets), 0))

    def locate(self, rows: Array) -> Numbers:
        """Contexts must be names here.

        Args:
            rows: contexts.
        """
        raise InvalidInputError(
            "The targets of this library have names and no coordinates: select by "
            f"name, e.g. {str(self.targets[0])!r}; but got numbers, shape {rows.shape}."
        )

    def look_up(self, names: Sequence[str] | NDArray[Any]) -> Numbers:
        """Return number of each named target.

        Args:
            names: the names.
        """
        number = {str(name): i for i, name in enumerate(self.targets)}
        for name in names:
            if str(name) not in number:
                raise UnknownNameError("target of this library", name, number)
        return np.array([number[str(name)] for name in names], np.int64)


def regions_of(
    points: Array,
    policy: ArrayLike,
    served: ArrayLike,
    margin: ArrayLike,
    *,
    log_axes: Sequence[bool] | None = None,
) -> Regions:
    """Regions around nodes: of a grid if they are one, of plain points otherwise.

    Args:
        points: the nodes, `(node, axis)`.
        policy: number of the policy used at each, −1 for none.
        served: whether it is known to serve the node.
        margin: ε minus the loss there.
        log_axes: axes on which the border between two values of a grid is their
            geometric mean; elsewhere it is the arithmetic one.
    """
    facts = (
        np.asarray(policy, np.int64),
        np.asarray(served, bool),
        np.asarray(margin, np.float64),
    )
    values = tuple(np.unique(column) for column in points.T)
    on_log = [False] * len(values) if log_axes is None else list(log_axes)
    if np.prod([float(len(v)) for v in values]) == len(points):
        mesh = np.meshgrid(*values, indexing="ij")
        if (np.stack([m.ravel() for m in mesh], 1) == points).all():
            borders = tuple(map(_borders, values, on_log))
            return GridRegions(*facts, values, borders)
    return PointRegions(*facts, np.ascontiguousarray(points, np.float64))


def _borders(values: Array, on_log: bool) -> Array:
    """Return a float between every two neighbours, the upper one never included."""
    below, above = values[:-1], values[1:]
    middle = below * np.sqrt(above / below) if on_log else below + (above - below) / 2
    return np.clip(middle, below, np.nextafter(above, below))


@njit(cache=True, nogil=True)
def _nearest(points, scale, rows):  # pragma: no cover
    n, d = points.shape
    nearest = np.empty(len(rows), np.int64)
    for i in range(len(rows)):
        best = np.inf
        at = 0
        for j in range(n):
            distance = 0.0
            for k in range(d):
                step = (rows[i, k] - points[j, k]) * scale[k]
                distance += step * step
            if distance < best:
                best = distance
                at = j
        nearest[i] = at
    return nearest
