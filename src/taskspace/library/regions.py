"""Regions of contexts: where in the range which policy is used.

Four kinds, one interface. On a grid or a list of points a context belongs to the
nearest node, and what is known is known at the node itself; in the boxes of a
certified cover it is known on the whole box; where targets have names only, a name is
looked up.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.library.tree import BoxTree, build_tree, descend

__all__ = [
    "REGION_KINDS",
    "BoxRegions",
    "GridRegions",
    "NamedRegions",
    "PointRegions",
    "Regions",
    "regions_of",
]


@dataclass(frozen=True, eq=False)
class Regions(ABC):
    """Regions with the policy that each uses and what is known there.

    Args:
        policy: number of the policy used in each region, −1 for none.
        served: whether the policy is known to serve the region within ε.
        margin: ε minus the loss known there; NaN where none is known.
    """

    policy: NDArray[np.int64]
    served: NDArray[np.bool_]
    margin: NDArray[np.float64]
    kind: ClassVar[str]
    plural: ClassVar[str]
    """What the regions are called, for people."""
    law: ClassVar[str]
    """How a context finds its region, in words for a contract."""

    def __post_init__(self):
        n = self.n_regions
        for name in ("policy", "served", "margin"):
            _require(getattr(self, name).shape == (n,), f"{name} must have one dim")

    @property
    def n_regions(self) -> int:
        """How many regions there are."""
        return len(self.policy)

    @property
    @abstractmethod
    def low(self) -> NDArray[np.float64]:
        """Lower corner of the range of contexts."""

    @property
    @abstractmethod
    def high(self) -> NDArray[np.float64]:
        """Upper corner of the range of contexts."""

    @property
    @abstractmethod
    def centres(self) -> NDArray[np.float64]:
        """A context of each region, `(region, axis)`: its node or its middle."""

    @abstractmethod
    def locate(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Region of each context.

        Args:
            rows: contexts within the range, `(context, axis)`.
        """

    @abstractmethod
    def knows(
        self, rows: NDArray[np.float64], region: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Whether what is known of a region speaks of these very contexts.

        Args:
            rows: contexts, `(context, axis)`.
            region: the region of each.
        """

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Every array by name; `from_arrays` reads them."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The regions that `arrays` described.

        Args:
            arrays: arrays by name.
        """
        return cls(**arrays)


@dataclass(frozen=True, eq=False)
class PointRegions(Regions):
    """Regions of the nearest of some points, each axis in widths of its range.

    Args:
        policy: see `Regions`.
        served: see `Regions`.
        margin: see `Regions`.
        points: the nodes, `(region, axis)`.
    """

    points: NDArray[np.float64]
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
        _require(good and np.isfinite(self.points).all(), "points must be finite rows")

    @property
    def low(self) -> NDArray[np.float64]:
        """Smallest coordinates of the points."""
        return self.points.min(0)

    @property
    def high(self) -> NDArray[np.float64]:
        """Largest coordinates of the points."""
        return self.points.max(0)

    @property
    def centres(self) -> NDArray[np.float64]:
        """The points."""
        return self.points

    @property
    def scale(self) -> NDArray[np.float64]:
        """One over the width of each axis, 1 where it has none."""
        width = self.high - self.low
        return 1.0 / np.where(width > 0, width, 1.0)

    def locate(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Number of the nearest point.

        Args:
            rows: contexts, `(context, axis)`.
        """
        return _nearest(self.points, self.scale, np.ascontiguousarray(rows))

    def knows(
        self, rows: NDArray[np.float64], region: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
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

    values: tuple[NDArray[np.float64], ...]
    borders: tuple[NDArray[np.float64], ...]
    kind: ClassVar[str] = "grid"
    plural: ClassVar[str] = "nodes of a grid"
    law: ClassVar[str] = (
        "on each axis the nearest value of the grid (on a border the lower one); the "
        "node of these values"
    )

    def __post_init__(self):
        super().__post_init__()
        for values, borders in zip(self.values, self.borders, strict=True):
            between = (values[:-1] <= borders) & (borders < values[1:])
            _require(bool(between.all()), "borders must lie between values")
        sizes = {
            len(v) - len(b) for v, b in zip(self.values, self.borders, strict=True)
        }
        _require(sizes == {1}, "there must be one border between two values")
        _require(
            np.prod(self.shape) == self.n_regions, "there must be one node a region"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values on each axis."""
        return tuple(len(v) for v in self.values)

    @property
    def low(self) -> NDArray[np.float64]:
        """Smallest value of each axis."""
        return np.array([v[0] for v in self.values])

    @property
    def high(self) -> NDArray[np.float64]:
        """Largest value of each axis."""
        return np.array([v[-1] for v in self.values])

    @property
    def centres(self) -> NDArray[np.float64]:
        """The nodes."""
        mesh = np.meshgrid(*self.values, indexing="ij")
        return np.stack([m.ravel() for m in mesh], 1)

    def locate(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Number of the nearest node, in C order.

        Args:
            rows: contexts, `(context, axis)`.
        """
        found = np.zeros(len(rows), np.int64)
        for border, x in zip(self.borders, rows.T, strict=True):
            found = found * (len(border) + 1) + border.searchsorted(x, side="left")
        return found

    def knows(
        self, rows: NDArray[np.float64], region: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
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
        """The regions that `arrays` described.

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
class BoxRegions(Regions):
    """Regions that are boxes, found by a tree of comparisons.

    Args:
        policy: see `Regions`.
        served: see `Regions`; of every context of the box.
        margin: see `Regions`; the least of the box.
        box_low: lower corners, `(region, axis)`.
        box_high: upper corners.
        axis: the tree, see `BoxTree`.
        cut: the tree.
        follow: the tree.
    """

    box_low: NDArray[np.float64]
    box_high: NDArray[np.float64]
    axis: NDArray[np.int64]
    cut: NDArray[np.float64]
    follow: NDArray[np.int64]
    kind: ClassVar[str] = "boxes"
    plural: ClassVar[str] = "boxes"
    law: ClassVar[str] = (
        "the box that holds the context (on a shared face the lower one), by a tree "
        "of comparisons"
    )

    def __post_init__(self):
        super().__post_init__()
        # What a compiled descent relies on: it only goes forward, and ends in a region.
        n, d = self.box_low.shape
        size, leaf = len(self.axis), self.axis < 0
        number = np.arange(size)
        _require(
            n == self.n_regions and self.box_high.shape == (n, d), "boxes must fit"
        )
        _require(
            size > 0
            and len(self.cut) == len(self.follow) == size
            and bool(leaf[-1])
            and bool((self.axis < d).all())
            and bool((self.follow[~leaf] > number[~leaf] + 1).all())
            and bool((self.follow[~leaf] < size).all())
            and bool((self.follow[leaf] >= 0).all())
            and bool((self.follow[leaf] < n).all()),
            "the tree of boxes must lead forward to a region",
        )

    @classmethod
    def merged(
        cls,
        low: NDArray[np.float64],
        high: NDArray[np.float64],
        policy: NDArray[np.int64],
        served: NDArray[np.bool_],
        margin: NDArray[np.float64],
    ) -> Self:
        """Regions from many boxes: neighbours that agree melt into one.

        Args:
            low: lower corners, `(box, axis)`.
            high: upper corners.
            policy: number of the policy used in each box, −1 for none.
            served: whether it is known to serve the whole box.
            margin: ε minus the loss bound of the box; a region keeps the least.
        """
        tree: BoxTree = build_tree(low, high, 2 * (policy + 1) + served)
        least = [np.fmin.reduce(margin[m], initial=np.inf) for m in tree.members]
        is_box = tree.label >= 0
        return cls(
            policy=np.where(is_box, tree.label // 2 - 1, -1),
            served=is_box & (tree.label % 2 == 1),
            margin=np.where(np.isposinf(least), np.nan, least),
            box_low=tree.low,
            box_high=tree.high,
            axis=tree.axis,
            cut=tree.cut,
            follow=tree.follow,
        )

    @property
    def low(self) -> NDArray[np.float64]:
        """Lower corner of all boxes."""
        return self.box_low.min(0)

    @property
    def high(self) -> NDArray[np.float64]:
        """Upper corner of all boxes."""
        return self.box_high.max(0)

    @property
    def centres(self) -> NDArray[np.float64]:
        """The middles of the boxes."""
        return self.box_low / 2 + self.box_high / 2

    @property
    def depth(self) -> int:
        """Comparisons that the longest way through the tree takes."""
        depth = np.zeros(len(self.axis), int)
        for i in np.flatnonzero(self.axis >= 0):
            depth[i + 1] = depth[self.follow[i]] = depth[i] + 1
        return int(depth.max())

    def locate(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Number of the box.

        Args:
            rows: contexts within the range, `(context, axis)`.
        """
        return descend(self.axis, self.cut, self.follow, np.ascontiguousarray(rows))

    def knows(
        self, rows: NDArray[np.float64], region: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """The whole box is known.

        Args:
            rows: contexts, `(context, axis)`.
            region: the region of each.
        """
        del rows
        return np.ones(len(region), bool)


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
        """Number of each named target.

        Args:
            names: the names.
        """
        number = {str(name): i for i, name in enumerate(self.targets)}
        for name in names:
            if str(name) not in number:
                raise UnknownNameError("target of this library", name, number)
        return np.array([number[str(name)] for name in names], np.int64)

    def knows(
        self, rows: NDArray[np.float64], region: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """A named target is the very target.

        Args:
            rows: not used.
            region: the region of each.
        """
        del rows
        return np.ones(len(region), bool)


REGION_KINDS: dict[str, type[Regions]] = {
    cls.kind: cls for cls in (GridRegions, PointRegions, BoxRegions, NamedRegions)
}


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise InvalidInputError(f"The regions of a library do not fit: {what}.")


def regions_of(
    points: NDArray[np.float64],
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
    known = (
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
            return GridRegions(*known, values, borders)
    return PointRegions(*known, np.ascontiguousarray(points, np.float64))


def _borders(values: NDArray[np.float64], on_log: bool) -> NDArray[np.float64]:
    """A float between every two neighbours, the upper one never included."""
    below, above = values[:-1], values[1:]
    middle = below * np.sqrt(above / below) if on_log else below + (above - below) / 2
    return np.clip(middle, below, np.nextafter(above, below))


@njit(cache=True, nogil=True)
def _nearest(points, scale, rows):  # pragma: no cover
    n, d = points.shape
    found = np.empty(len(rows), np.int64)
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
        found[i] = at
    return found
