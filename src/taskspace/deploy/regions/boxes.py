"""Regions that are boxes: those of a certified cover, merged into a tree.

Boxes that carry the same label are merged, so a certified cover of ten thousand
boxes becomes a tree of some hundred comparisons that fits a microcontroller. Every
cut lies on a face of a given box and compares `x <= cut`, so nothing is rounded: a
context goes to the box with `low < x <= high` (on the lower rim of the range, to the
box that starts there). Gaps between boxes become regions with the label −1.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace.deploy.regions.base import Regions, require
from taskspace.errors import InvalidInputError

LEAF = -1
"""Axis of a node that is a region."""


class BoxTree(NamedTuple):
    """A binary tree in preorder, and the regions at its ends.

    Node `i` compares `x[axis[i]] <= cut[i]`: if so the next node is `i + 1`, otherwise
    `follow[i]`. Where `axis[i]` is `LEAF`, `follow[i]` is the number of the region.

    Args:
        axis: axis that a node compares, `LEAF` for a region.
        cut: what it is compared with.
        follow: the other child, or the region.
        low: lower corners of the regions, `(region, axis)`.
        high: upper corners.
        label: label of each region, −1 for a gap.
        members: the given boxes that each region is made of.
    """

    axis: Numbers
    cut: Array
    follow: Numbers
    low: Array
    high: Array
    label: Numbers
    members: list[Numbers]


def build_tree(low: Array, high: Array, label: NDArray[np.integer]) -> BoxTree:
    """Return the tree of some boxes, each cut chosen to part the labels best.

    Args:
        low: lower corners, `(box, axis)`; every box has a width on every axis.
        high: upper corners; two boxes may share a face, nothing more.
        label: label of each box, at least 0.
    """
    if len(low) == 0 or not (low < high).all():
        raise InvalidInputError(
            "There must be at least one box, and low < high on every axis of each."
        )
    edges = [
        np.unique(np.concatenate(pair)) for pair in zip(low.T, high.T, strict=True)
    ]
    lo = np.stack([e.searchsorted(x) for e, x in zip(edges, low.T, strict=True)], 1)
    hi = np.stack([e.searchsorted(x) for e, x in zip(edges, high.T, strict=True)], 1)
    # Volumes are counted in whole edges, so that "all covered" is exact.
    if np.prod([float(len(e)) for e in edges]) > 2.0**62:
        raise InvalidInputError(
            "The boxes have too many different edges for one tree: "
            f"{' x '.join(str(len(e)) for e in edges)}."
        )
    order = np.argsort(lo[:, 0], kind="stable")
    first, second = _first_overlap(lo[order], hi[order])
    if first >= 0:
        raise InvalidInputError(
            "Boxes may share faces, but must not overlap; boxes "
            f"{order[first]} and {order[second]} do."
        )
    _, code = np.unique(label, return_inverse=True)
    nodes: list[tuple[int, float, int]] = []
    ends: list[tuple[NDArray, NDArray, NDArray]] = []
    # Preorder: a right child waits on the stack with the number of its parent.
    stack = [(np.arange(len(lo)), lo.min(0), hi.max(0), -1)]
    while stack:
        inside, bottom, top, parent = stack.pop()
        if parent >= 0:
            nodes[parent] = (*nodes[parent][:2], len(nodes))
        a, b = np.maximum(lo[inside], bottom), np.minimum(hi[inside], top)
        pure = len(inside) == 0 or (code[inside] == code[inside[0]]).all()
        filled = len(inside) and np.prod(b - a, axis=1).sum() == np.prod(top - bottom)
        if pure and (filled or len(inside) == 0):
            nodes.append((LEAF, 0.0, len(ends)))
            ends.append((bottom, top, inside))
            continue
        axis, cut = _best_cut(a, b, code[inside], bottom, top)
        nodes.append((axis, float(edges[axis][cut]), -1))
        below, above = top.copy(), bottom.copy()
        below[axis] = above[axis] = cut
        stack.append((inside[b[:, axis] > cut], above, top, len(nodes) - 1))
        stack.append((inside[a[:, axis] < cut], bottom, below, -1))
    axes, cuts, follow = (np.array(x) for x in zip(*nodes, strict=True))

    def corners(ranks: list[NDArray]) -> Array:
        table = np.array(ranks)
        return np.stack([e[r] for e, r in zip(edges, table.T, strict=True)], 1)

    bottoms, tops, members = (list(x) for x in zip(*ends, strict=True))
    return BoxTree(
        axes.astype(np.int64),
        cuts.astype(np.float64),
        follow.astype(np.int64),
        corners(bottoms),
        corners(tops),
        np.array([int(label[m[0]]) if len(m) else -1 for m in members], np.int64),
        members,
    )


def _best_cut(
    a: Numbers, b: Numbers, code: Numbers, bottom: Numbers, top: Numbers
) -> tuple[int, int]:
    """Axis and edge that leave the least disorder of labels on the two sides."""
    _, code = np.unique(code, return_inverse=True)
    n_codes = int(code.max()) + 1
    best = (np.inf, 0, 0)
    for axis in range(a.shape[1]):
        n = int(top[axis] - bottom[axis])
        if n < 2:
            continue
        starts = _counts(code, a[:, axis] - bottom[axis], n_codes, n + 1)
        stops = _counts(code, b[:, axis] - bottom[axis], n_codes, n + 1)
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


def _counts(code: Numbers, rank: Numbers, n_codes: int, n: int) -> Numbers:
    return np.bincount(code * n + rank, minlength=n_codes * n).reshape(n_codes, n)


def _disorder(counts: Numbers) -> Array:
    """Entropy of the labels times the number of boxes, and one per box."""
    total = counts.sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(counts > 0, counts * np.log2(counts), 0.0).sum(0)
        whole = np.where(total > 0, total * np.log2(total), 0.0)
    return whole - each + 0.01 * total


@njit(cache=True)
def _first_overlap(lo, hi):  # pragma: no cover
    """Two boxes that share more than a face, of boxes sorted by their first rank."""
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
def descend(axis, cut, follow, rows):  # pragma: no cover
    """Region of each row of contexts, which lie in the range of the tree."""
    numbers = np.empty(len(rows), np.int64)
    for i in range(len(rows)):
        node = 0
        while axis[node] >= 0:
            node = node + 1 if rows[i, axis[node]] <= cut[node] else follow[node]
        numbers[i] = follow[node]
    return numbers


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

    box_low: Array
    box_high: Array
    axis: Numbers
    cut: Array
    follow: Numbers
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
        require(n == self.n_regions and self.box_high.shape == (n, d), "boxes must fit")
        require(
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
        cls, low: Array, high: Array, policy: Numbers, served: Mask, margin: Array
    ) -> Self:
        """Regions from many boxes: neighbours that agree are merged.

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
    def low(self) -> Array:
        """Lower corner of all boxes."""
        return self.box_low.min(0)

    @property
    def high(self) -> Array:
        """Upper corner of all boxes."""
        return self.box_high.max(0)

    @property
    def centres(self) -> Array:
        """The middles of the boxes."""
        return self.box_low / 2 + self.box_high / 2

    @property
    def depth(self) -> int:
        """Comparisons that the longest way through the tree takes."""
        depth = np.zeros(len(self.axis), int)
        for i in np.flatnonzero(self.axis >= 0):
            depth[i + 1] = depth[self.follow[i]] = depth[i] + 1
        return int(depth.max())

    def locate(self, rows: Array) -> Numbers:
        """Return number of the box.

        Args:
            rows: contexts within the range, `(context, axis)`.
        """
        return descend(self.axis, self.cut, self.follow, np.ascontiguousarray(rows))
