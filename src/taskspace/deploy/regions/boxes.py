"""Regions that are boxes: those of a certified cover, melted together."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from taskspace.deploy.regions.base import Regions, require
from taskspace.deploy.regions.tree import BoxTree, build_tree, descend

__all__ = ["BoxRegions"]


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
