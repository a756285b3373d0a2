"""Which policy where: the nodes of a grid, or boxes.

On a grid a context belongs to the node between whose borders it lies. Boxes are found
by a tree of comparisons: those of a certified cover, merged where neighbours agree, or
one around each of some scattered points.

What is known is known of a node itself, not of the cell around it; of a box of a
certified cover it is known of the whole box. `knows` is this rule. An export that
selects by other means (C, ONNX, a table) must follow it.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace.errors import InvalidInputError

LEAF = -1
"""Axis of a node of the tree that is a region."""


@dataclass(frozen=True, eq=False)
class Regions(ABC):
    """Regions with the policy that each uses and what is known there.

    Args:
        policy: index of the policy used in each region, −1 for none.
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
        for name in ("policy", "served", "margin"):
            shape = getattr(self, name).shape
            _require(shape == (len(self.policy),), f"{name} must have one dim")

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
        """A context of each region, `(region, axis)`: its node, or its middle."""

    @abstractmethod
    def locate(self, rows: Array) -> Numbers:
        """Return the region of each context.

        Args:
            rows: contexts within the range, `(context, axis)`.
        """

    @abstractmethod
    def knows(self, rows: Array, region: Numbers) -> Mask:
        """Return whether what is known of a region speaks of these very contexts.

        Args:
            rows: contexts, `(context, axis)`.
            region: the region of each.
        """

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return every array by name; `from_arrays` reads them."""
        named = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: array for name, array in named.items() if array is not None}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the regions that `arrays` described.

        Args:
            arrays: arrays by name.
        """
        return cls(**arrays)


def _require(holds: object, what: str) -> None:
    if not holds:
        raise InvalidInputError(f"The regions of a library do not fit: {what}.")


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
    return BoxRegions(*facts, *_boxes_around(points, is_log))


def _borders(values: Array, is_log: bool) -> Array:
    """Return a float between every two neighbours, the upper one never included."""
    below, above = values[:-1], values[1:]
    middle = below * np.sqrt(above / below) if is_log else below + (above - below) / 2
    return np.clip(middle, below, np.nextafter(above, below))


# --- nodes of a grid ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GridRegions(Regions):
    """Cells around the nodes of a grid, the last axis running fastest.

    Args:
        policy: see `Regions`.
        served: see `Regions`.
        margin: see `Regions`.
        values: the values of each axis, ascending.
        borders: where on each axis one value ends and the next begins; the border
            itself belongs to the lower one.
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
            _require(
                len(values) == len(borders) + 1,
                "there must be one border between two values",
            )
            between = (values[:-1] <= borders) & (borders < values[1:])
            _require(between.all(), "borders must lie between values")
        n_nodes = np.prod(self.shape)
        _require(n_nodes == len(self.policy), "there must be one node per region")

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
        """Return the node of the cell, in C order."""
        region = np.zeros(len(rows), np.int64)
        for border, x in zip(self.borders, rows.T, strict=True):
            region = region * (len(border) + 1) + border.searchsorted(x, side="left")
        return region

    def knows(self, rows: Array, region: Numbers) -> Mask:
        """Return true at the node itself alone."""
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
        """Return the regions that `arrays` described."""
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
class BoxRegions(Regions):
    """Boxes, found by a binary tree of comparisons in preorder.

    Node `i` of the tree compares `x[axis[i]] <= cut[i]`: if so the next node is
    `i + 1`, otherwise `follow[i]`. Where `axis[i]` is `LEAF`, `follow[i]` is the
    region. So a context goes to the box with `low < x <= high`; on the lower rim of the
    range, to the box that starts there.

    Args:
        policy: see `Regions`.
        served: see `Regions`; of every context of the box, or of its node.
        margin: see `Regions`; the least of the box.
        box_low: lower corners, `(region, axis)`.
        box_high: upper corners.
        axis: axis that each node of the tree compares.
        cut: what it is compared with.
        follow: the other child, or the region.
        nodes: the context of each box that something is known of, `(region, axis)`;
            None where it is known of whole boxes.
    """

    box_low: Array
    box_high: Array
    axis: Numbers
    cut: Array
    follow: Numbers
    nodes: Array | None = None
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
        inner = np.flatnonzero(~leaf)
        fits = n == len(self.policy) and self.box_high.shape == (n, d)
        _require(fits, "boxes must fit")
        _require(
            size > 0
            and len(self.cut) == len(self.follow) == size
            and bool(leaf[-1])
            and bool((self.axis < d).all())
            and bool((self.follow[inner] > inner + 1).all())
            and bool((self.follow[inner] < size).all())
            and bool((self.follow[leaf] >= 0).all())
            and bool((self.follow[leaf] < n).all()),
            "the tree of boxes must lead forward to a region",
        )
        if self.nodes is not None:
            fits = self.nodes.shape == (n, d) and np.isfinite(self.nodes).all()
            _require(fits, "nodes must be finite rows")

    @classmethod
    def merged(
        cls, low: Array, high: Array, policy: Numbers, served: Mask, margin: Array
    ) -> Self:
        """Return regions of many boxes: neighbours that agree are merged.

        A certified cover of ten thousand boxes becomes a tree of some hundred
        comparisons. Every cut lies on a face of a given box, so nothing is rounded.
        Gaps between boxes become regions without a policy.

        Args:
            low: lower corners, `(box, axis)`; every box has a width on every axis.
            high: upper corners; two boxes may share a face, nothing more.
            policy: index of the policy used in each box, −1 for none.
            served: whether it is known to serve the whole box.
            margin: ε minus the loss bound of the box; a region keeps the least.
        """
        edges, lo, hi = _ranks(low, high)
        _, label = np.unique(2 * policy + served, return_inverse=True)
        tree: list[tuple[int, float, int]] = []
        ends: list[tuple[NDArray, NDArray, NDArray]] = []
        # Preorder: a right child waits on the stack with the index of its parent.
        stack = [(np.arange(len(lo)), lo.min(0), hi.max(0), -1)]
        while stack:
            inside, bottom, top, parent = stack.pop()
            if parent >= 0:
                tree[parent] = (*tree[parent][:2], len(tree))
            a, b = np.maximum(lo[inside], bottom), np.minimum(hi[inside], top)
            # Volumes are counted in whole edges, so that "all covered" is exact.
            is_filled = np.prod(b - a, axis=1).sum() == np.prod(top - bottom)
            pure = len(inside) and (label[inside] == label[inside[0]]).all()
            if len(inside) == 0 or (pure and is_filled):
                tree.append((LEAF, 0.0, len(ends)))
                ends.append((bottom, top, inside))
                continue
            axis, cut = _best_cut(a, b, label[inside], bottom, top)
            tree.append((axis, float(edges[axis][cut]), -1))
            below, above = top.copy(), bottom.copy()
            below[axis] = above[axis] = cut
            stack.append((inside[b[:, axis] > cut], above, top, len(tree) - 1))
            stack.append((inside[a[:, axis] < cut], bottom, below, -1))
        bottoms, tops, members = zip(*ends, strict=True)
        first = np.array([m[0] if len(m) else -1 for m in members])
        least = [np.fmin.reduce(margin[m], initial=np.inf) for m in members]
        axes, cuts, follow = (np.array(x) for x in zip(*tree, strict=True))
        return cls(
            policy=np.where(first >= 0, policy[first], -1).astype(np.int64),
            served=np.where(first >= 0, served[first], False),
            margin=np.where(np.isposinf(least), np.nan, least),
            box_low=_corners(edges, bottoms),
            box_high=_corners(edges, tops),
            axis=axes.astype(np.int64),
            cut=cuts.astype(np.float64),
            follow=follow.astype(np.int64),
        )

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

    @property
    def depth(self) -> int:
        """Comparisons that the longest way through the tree takes."""
        depth = np.zeros(len(self.axis), int)
        for i in np.flatnonzero(self.axis >= 0):
            depth[i + 1] = depth[self.follow[i]] = depth[i] + 1
        return int(depth.max())

    def locate(self, rows: Array) -> Numbers:
        """Return the box, by the tree."""
        return _descend(self.axis, self.cut, self.follow, np.ascontiguousarray(rows))

    def knows(self, rows: Array, region: Numbers) -> Mask:
        """Return true in the whole box, or at its node alone."""
        if self.nodes is None:
            return np.ones(len(region), bool)
        return (self.nodes[region] == rows).all(-1)


def _ranks(low: Array, high: Array) -> tuple[list[Array], Numbers, Numbers]:
    """Return all edges of each axis, and the corners of the boxes as places in them."""
    if len(low) == 0 or not (low < high).all():
        raise InvalidInputError(
            "There must be at least one box, and low < high on every axis of each."
        )
    both = zip(low.T, high.T, strict=True)
    edges = [np.unique(np.concatenate(pair)) for pair in both]
    if np.prod([float(len(e)) for e in edges]) > 2.0**62:
        raise InvalidInputError(
            "The boxes have too many different edges for one tree: "
            f"{' x '.join(str(len(e)) for e in edges)}."
        )
    lo, hi = (
        np.stack([e.searchsorted(x) for e, x in zip(edges, ends.T, strict=True)], 1)
        for ends in (low, high)
    )
    order = np.argsort(lo[:, 0], kind="stable")
    first, second = _first_overlap(lo[order], hi[order])
    if first >= 0:
        raise InvalidInputError(
            "Boxes may share faces, but must not overlap; boxes "
            f"{order[first]} and {order[second]} do."
        )
    return edges, lo, hi


def _corners(edges: list[Array], ranks: Sequence[Numbers]) -> Array:
    return np.stack([e[r] for e, r in zip(edges, np.array(ranks).T, strict=True)], 1)


def _best_cut(
    a: Numbers, b: Numbers, label: Numbers, bottom: Numbers, top: Numbers
) -> tuple[int, int]:
    """Return axis and edge that leave the least disorder of labels on the two sides."""
    _, code = np.unique(label, return_inverse=True)
    n_codes = int(code.max()) + 1
    best = (np.inf, 0, 0)
    for axis in range(a.shape[1]):
        n = int(top[axis] - bottom[axis])
        if n < 2:
            continue
        starts, stops = (
            np.bincount(
                code * (n + 1) + ends[:, axis] - bottom[axis],
                minlength=n_codes * (n + 1),
            ).reshape(n_codes, n + 1)
            for ends in (a, b)
        )
        cuts = np.flatnonzero((starts + stops).sum(0)[1:n]) + 1
        left = starts.cumsum(1)[:, cuts - 1]
        right = starts.sum(1)[:, None] - stops.cumsum(1)[:, cuts]
        cost = _disorder(left) + _disorder(right)
        # Of equal cuts the one nearest the middle keeps the tree shallow.
        cost = cost + 1e-6 * np.abs(2 * cuts - n) / n
        if len(cuts) and cost.min() < best[0]:
            at = int(cost.argmin())
            best = (float(cost[at]), axis, int(bottom[axis] + cuts[at]))
    return best[1], best[2]


def _disorder(counts: Numbers) -> Array:
    """Entropy of the labels times the number of boxes, and one per box."""
    total = counts.sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(counts > 0, counts * np.log2(counts), 0.0).sum(0)
        whole = np.where(total > 0, total * np.log2(total), 0.0)
    return whole - each + 0.01 * total


def _boxes_around(points: Array, is_log: Sequence[bool]) -> tuple[NDArray[Any], ...]:
    """Return one box around each point: corners, the tree, and the points.

    The axis whose points lie farthest apart, in widths of its range, is cut next to
    the middle point. Of equal points the first has the box.
    """
    points = np.ascontiguousarray(points, np.float64)
    if points.ndim != 2 or points.size == 0 or not np.isfinite(points).all():
        _require(False, "points must be finite rows")
    low, high = (
        np.tile(end, (len(points), 1)) for end in (points.min(0), points.max(0))
    )
    width = np.where(high[0] > low[0], high[0] - low[0], 1.0)
    tree: list[tuple[int, float, int]] = []
    stack = [(np.arange(len(points)), -1)]
    while stack:
        inside, parent = stack.pop()
        if parent >= 0:
            tree[parent] = (*tree[parent][:2], len(tree))
        spread = np.ptp(points[inside], axis=0) / width
        axis = int(spread.argmax())
        if spread[axis] == 0:
            tree.append((LEAF, 0.0, int(inside[0])))
            continue
        x = points[inside, axis]
        values = np.unique(x)
        place = int(np.clip(values.searchsorted(np.median(x)), 1, len(values) - 1))
        cut = float(_borders(values[place - 1 : place + 1], is_log[axis])[0])
        below, above = inside[x <= cut], inside[x > cut]
        high[below, axis] = low[above, axis] = cut
        stack += [(above, len(tree)), (below, -1)]
        tree.append((axis, cut, -1))
    axes, cuts, follow = (np.array(x) for x in zip(*tree, strict=True))
    return (
        low, high, axes.astype(np.int64), cuts.astype(np.float64),
        follow.astype(np.int64), points,
    )  # fmt: skip


@njit(cache=True)
def _first_overlap(lo, hi):  # pragma: no cover
    """Return two boxes that share more than a face, of boxes sorted by axis 0."""
    n, d = lo.shape
    for i in range(n):
        for j in range(i + 1, n):
            if lo[j, 0] >= hi[i, 0]:
                break
            apart = False
            for k in range(1, d):
                if lo[j, k] >= hi[i, k] or lo[i, k] >= hi[j, k]:
                    apart = True
                    break
            if not apart:
                return i, j
    return -1, -1


@njit(cache=True, nogil=True)
def _descend(axis, cut, follow, rows):  # pragma: no cover
    """Return the region of each row; the rows lie in the range of the tree."""
    region = np.empty(len(rows), np.int64)
    for i in range(len(rows)):
        node = 0
        while axis[node] >= 0:
            node = node + 1 if rows[i, axis[node]] <= cut[node] else follow[node]
        region[i] = follow[node]
    return region


REGION_KINDS: dict[str, type[Regions]] = {
    cls.kind: cls for cls in (GridRegions, BoxRegions)
}
"""Kinds of regions by name."""
