"""Which policy where: the nodes of a grid, or boxes.

On a grid a context belongs to the node between whose borders it lies. Boxes are those
of a certified cover, merged where neighbours agree, or one around each of some
scattered points.

What is known is known of a node itself, not of the cell around it; of a box of a
certified cover it is known of the whole box. `knows` is this rule. An export that
selects by other means (C, ONNX, a table) must follow it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace.errors import InvalidInputError


def _require(holds: object, what: str) -> None:
    if not holds:
        raise InvalidInputError(f"The regions of a library do not fit: {what}.")


def _check_facts(regions: "Regions", n: int) -> None:
    shapes = {x.shape for x in (regions.policy, regions.served, regions.margin)}
    fits = shapes == {(n,)} and n > 0
    _require(fits, f"policy, served and margin must have {n} values")


def _borders(values: Array, is_log: bool) -> Array:
    """Return a float between every two neighbours, the upper one never included."""
    below, above = values[:-1], values[1:]
    middle = below * np.sqrt(above / below) if is_log else below + (above - below) / 2
    return np.clip(middle, below, np.nextafter(above, below))


# --- nodes of a grid ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GridRegions:
    """Cells around the nodes of a grid, the last axis running fastest.

    Args:
        policy: index of the policy used at each node, −1 for none.
        served: whether the policy is known to serve the node within ε.
        margin: ε minus the loss known there; NaN where none is known.
        values: the values of each axis, ascending.
        borders: where on each axis one value ends and the next begins; the border
            itself belongs to the lower one.
    """

    policy: Numbers
    served: Mask
    margin: Array
    values: tuple[Array, ...]
    borders: tuple[Array, ...]
    kind: ClassVar[str] = "grid"
    plural: ClassVar[str] = "nodes of a grid"
    """What the regions are called, for people."""
    law: ClassVar[str] = (
        "on each axis the value of the grid between whose borders the context lies "
        "(on a border the lower one), borders halfway between neighbouring values, on "
        "logarithmic axes at their geometric mean; the node of these values"
    )

    def __post_init__(self):
        n_nodes = int(np.prod(self.shape))
        _check_facts(self, n_nodes)
        for values, borders in zip(self.values, self.borders, strict=True):
            fits = len(values) == len(borders) + 1
            fits = fits and ((values[:-1] <= borders) & (borders < values[1:])).all()
            _require(fits, "there must be one border between two values of an axis")

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
    def centres(self) -> Array:
        """The nodes."""
        mesh = np.meshgrid(*self.values, indexing="ij")
        return np.stack([m.ravel() for m in mesh], 1)

    def locate(self, rows: Array) -> Numbers:
        """Return the node of the cell, in C order.

        Args:
            rows: contexts within the range, `(context, axis)`.
        """
        region = np.zeros(len(rows), np.int64)
        for border, x in zip(self.borders, rows.T, strict=True):
            region = region * (len(border) + 1) + border.searchsorted(x, side="left")
        return region

    def knows(self, rows: Array, region: Numbers) -> Mask:
        """Return true at the node itself alone.

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
        """Return every array by name, the axes numbered."""
        named = {"policy": self.policy, "served": self.served, "margin": self.margin}
        for i, value in enumerate(self.values):
            named |= {f"values_{i}": value, f"borders_{i}": self.borders[i]}
        return named

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the regions that `arrays` described.

        Args:
            arrays: arrays by name.
        """
        n = sum(name.startswith("values_") for name in arrays)
        return cls(
            arrays["policy"],
            arrays["served"],
            arrays["margin"],
            tuple(arrays[f"values_{i}"] for i in range(n)),
            tuple(arrays[f"borders_{i}"] for i in range(n)),
        )


# --- boxes --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BoxRegions:
    """Boxes: a context belongs to the first one with `low < x <= high` on every axis.

    On the lower rim of the range it belongs to a box that starts there.

    Args:
        policy: index of the policy used in each box, −1 for none.
        served: whether it is known to serve every context of the box, or its node.
        margin: ε minus the loss known there, the least of the box; NaN for none.
        box_low: lower corners, `(region, axis)`.
        box_high: upper corners.
        nodes: the context of each box that something is known of, `(region, axis)`;
            None where it is known of whole boxes.
    """

    policy: Numbers
    served: Mask
    margin: Array
    box_low: Array
    box_high: Array
    nodes: Array | None = None
    kind: ClassVar[str] = "boxes"
    plural: ClassVar[str] = "boxes"
    law: ClassVar[str] = (
        "the box that holds the context, on a shared face the lower one"
    )

    def __post_init__(self):
        _check_facts(self, len(self.box_low))
        corners = [self.box_low, self.box_high]
        corners += [] if self.nodes is None else [self.nodes]
        fits = len({x.shape for x in corners}) == 1 and self.box_low.ndim == 2
        fits = fits and all(np.isfinite(x).all() for x in corners)
        _require(fits, "corners of boxes must be finite rows, one per region")

    @classmethod
    def merged(
        cls, low: Array, high: Array, policy: Numbers, served: Mask, margin: Array
    ) -> Self:
        """Return regions of boxes that tile a range; neighbours that agree are merged.

        A certified cover of ten thousand boxes becomes some hundred. No face is moved,
        so nothing is rounded. Large boxes come first, since most contexts lie there.

        Args:
            low: lower corners, `(box, axis)`.
            high: upper corners.
            policy: index of the policy used in each box, −1 for none.
            served: whether it is known to serve the whole box.
            margin: ε minus the loss bound of the box; a region keeps the least.
        """
        _check_tiling(low, high)
        n_before = 0
        while n_before != len(low):
            n_before = len(low)
            for axis in range(low.shape[1]):
                # What neighbours along this axis must share; then where they begin.
                others = np.delete(np.arange(low.shape[1]), axis)
                shared = [policy, served, *low.T[others], *high.T[others]]
                order = np.lexsort([low[:, axis], *shared])
                begins = high[order[:-1], axis] != low[order[1:], axis]
                for column in shared:
                    begins |= column[order[1:]] != column[order[:-1]]
                first = np.flatnonzero(np.append(True, begins))
                last = np.append(first[1:], len(order)) - 1
                margin = np.fmin.reduceat(margin[order], first)
                policy, served = policy[order[first]], served[order[first]]
                low, high = low[order[first]], high[order[last]]
        large_first = np.argsort(-np.prod(high - low, axis=1), kind="stable")
        arrays: tuple[Any, ...] = policy, served, margin, low, high
        return cls(*(array[large_first] for array in arrays))

    @property
    def low(self) -> Array:
        """Lower corner of all boxes."""
        return self.box_low.min(0)

    @property
    def high(self) -> Array:
        """Upper corner of all boxes."""
        return self.box_high.max(0)

    @property
    def centres(self) -> Array:
        """The nodes, or the middles of the boxes."""
        middles = self.box_low / 2 + self.box_high / 2
        return middles if self.nodes is None else self.nodes

    @cached_property
    def open_ends(self) -> tuple[Array, Array]:
        """Corners of the boxes, infinite where they are those of the range."""
        return (
            np.where(self.box_low == self.low, -np.inf, self.box_low),
            np.where(self.box_high == self.high, np.inf, self.box_high),
        )

    def locate(self, rows: Array) -> Numbers:
        """Return the first box that holds the context; −1 where there is none.

        Args:
            rows: contexts within the range, `(context, axis)`.
        """
        return _first_box(*self.open_ends, np.ascontiguousarray(rows))

    def knows(self, rows: Array, region: Numbers) -> Mask:
        """Return true in the whole box, or at its node alone.

        Args:
            rows: contexts, `(context, axis)`.
            region: the region of each.
        """
        if self.nodes is None:
            return np.ones(len(region), bool)
        return (self.nodes[region] == rows).all(-1)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return every array by name; those without nodes have none."""
        named = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: array for name, array in named.items() if array is not None}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the regions that `arrays` described.

        Args:
            arrays: arrays by name.
        """
        return cls(**arrays)


def _check_tiling(low: Array, high: Array) -> None:
    """Refuse boxes that overlap or leave gaps; this is exact.

    A sum of boxes is the range if and only if the signed corners of the boxes, which
    are the jumps of their sum, are those of the range.
    """
    if not (low < high).all():
        raise InvalidInputError("Boxes must have low < high on every axis.")
    low, high = (np.vstack([low, low.min(0)]), np.vstack([high, high.max(0)]))
    weight = np.append(np.ones(len(low) - 1), -1.0)
    corners, signs = [], []
    for ends in product((False, True), repeat=low.shape[1]):
        corners.append(np.where(ends, high, low))
        signs.append(weight * (-1) ** sum(ends))
    _, place = np.unique(np.concatenate(corners), axis=0, return_inverse=True)
    if np.bincount(place.ravel(), np.concatenate(signs)).any():
        raise InvalidInputError(
            "Boxes must tile their range, but these overlap or leave gaps."
        )


def _boxes_around(points: Array, is_log: Sequence[bool]) -> tuple[Array, Array]:
    """Return the corners of one box around each point; equal points have equal boxes.

    The axis whose points lie farthest apart, in widths of its range, is cut next to
    the middle point.
    """
    low, high = (
        np.tile(end, (len(points), 1)) for end in (points.min(0), points.max(0))
    )
    width = np.where(high[0] > low[0], high[0] - low[0], 1.0)
    waiting = [np.arange(len(points))]
    while waiting:
        inside = waiting.pop()
        spread = np.ptp(points[inside], axis=0) / width
        axis = int(spread.argmax())
        if spread[axis] == 0:
            continue
        x = points[inside, axis]
        values = np.unique(x)
        place = int(np.clip(values.searchsorted(np.median(x)), 1, len(values) - 1))
        cut = float(_borders(values[place - 1 : place + 1], is_log[axis])[0])
        below, above = inside[x <= cut], inside[x > cut]
        high[below, axis] = low[above, axis] = cut
        waiting += [above, below]
    return low, high


@njit(cache=True, nogil=True)
def _first_box(low, high, rows):  # pragma: no cover
    """Return the first box that holds each row, −1 where none does."""
    region = np.full(len(rows), -1)
    for i in range(len(rows)):
        for j in range(len(low)):
            is_inside = True
            for k in range(low.shape[1]):
                if not low[j, k] < rows[i, k] <= high[j, k]:
                    is_inside = False
                    break
            if is_inside:
                region[i] = j
                break
    return region


Regions = GridRegions | BoxRegions
REGION_KINDS: dict[str, type[Regions]] = {"grid": GridRegions, "boxes": BoxRegions}
"""Kinds of regions by name."""


def regions_of(
    points: Array,
    policy: ArrayLike,
    served: ArrayLike,
    margin: ArrayLike,
    *,
    log_axes: Sequence[bool] | None = None,
) -> Regions:
    """Return regions around nodes: of a grid if they are one, else a box around each.

    Args:
        points: the nodes, `(node, axis)`.
        policy: index of the policy used at each, −1 for none.
        served: whether it is known to serve the node.
        margin: ε minus the loss there.
        log_axes: axes on which the border between two values is their geometric mean;
            elsewhere it is the arithmetic one.
    """
    facts = (
        np.asarray(policy, np.int64),
        np.asarray(served, bool),
        np.asarray(margin, np.float64),
    )
    values = tuple(np.unique(column) for column in points.T)
    is_log = [False] * len(values) if log_axes is None else list(log_axes)
    if np.prod([float(len(v)) for v in values]) == len(points):
        mesh = np.meshgrid(*values, indexing="ij")
        if (np.stack([m.ravel() for m in mesh], 1) == points).all():
            return GridRegions(*facts, values, tuple(map(_borders, values, is_log)))
    return BoxRegions(*facts, *_boxes_around(points, is_log), points)
