"""Contexts that may be trained, in coordinates where every axis has length one."""

from functools import cached_property

import numpy as np
from scipy.spatial import KDTree

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace.errors import InvalidInputError
from taskspace.spaces import Reach, Space, log_axes_of

BOX = "box"
"""The value of `candidates` that lets a selector propose any point of the box."""


def candidate_space(space: Space, candidates: Space | str | None) -> Space:
    """Return the contexts that a selector chooses from.

    Args:
        space: contexts that were named.
        candidates: other contexts, `"box"`, or None for `space`.
    """
    if candidates is None or (isinstance(candidates, str) and candidates == BOX):
        return space
    if isinstance(candidates, str) or not hasattr(candidates, "points"):
        raise InvalidInputError(
            f"candidates must be a space, or {BOX!r} for any point of the box, but got "
            f"{candidates!r}."
        )
    return candidates


class Candidates:
    """Contexts that may be trained, and their coordinates in the unit box.

    Args:
        space: the contexts.

    Examples:
        >>> from taskspace import Grid
        >>> candidates = Candidates(Grid(k=(1.0, 100.0, 3, "log"), c=(0.0, 4.0, 2)))
        >>> candidates.unit[:3].round(3).tolist()
        [[0.0, 0.0], [0.0, 1.0], [0.5, 0.0]]
        >>> candidates.middle
        2
    """

    def __init__(self, space: Space):
        self.space, self.points = space, space.points
        is_log = np.array(log_axes_of(space))
        self._reach = Reach(self.points.min(0), self.points.max(0), is_log)
        self.unit: Array = self.units_of(self.points)
        self.varies = np.flatnonzero(np.ptp(self.unit, axis=0) > 0)

    def units_of(self, points: Array) -> Array:
        """Return coordinates of contexts; the candidates' box is [0, 1] on each axis.

        Args:
            points: one row per context.
        """
        return self._reach.share(points)

    def points_of(self, units: Array) -> Array:
        """Return the contexts at some coordinates.

        Args:
            units: one row per context.
        """
        return np.clip(self._reach.at(units), self._reach.low, self._reach.high)

    @property
    def middle(self) -> int:
        """The candidate nearest to the middle of the box, the first among equals."""
        middle = np.full((1, self.unit.shape[1]), 0.5)
        return int(distances(self.unit, middle)[:, 0].argmin())

    def nearest(self, units: Array) -> Numbers:
        """Return the candidate nearest to each coordinate, the first among equals.

        Args:
            units: one row per context.
        """
        away, _ = self._tree.query(units)
        # Equal up to rounding is equal: all axes have length one.
        near = self._tree.query_ball_point(units, away + 1e-12)
        return np.fromiter(map(min, near), np.int64, len(units))

    @cached_property
    def _tree(self) -> KDTree:
        return KDTree(self.unit)

    def left(self, planned: Array) -> Mask:
        """Return which candidates are not planned yet.

        Args:
            planned: contexts of the planned sources.
        """
        remaining = np.ones(len(self.points), bool)
        for row in np.ascontiguousarray(planned) + 0.0:
            remaining[self._places.get(row.tobytes(), [])] = False
        return remaining

    @cached_property
    def _places(self) -> dict[bytes, list[int]]:
        """Indices of the candidates at each context; −0 is 0."""
        places: dict[bytes, list[int]] = {}
        for index, row in enumerate(np.ascontiguousarray(self.points) + 0.0):
            places.setdefault(row.tobytes(), []).append(index)
        return places


def distances(some: Array, others: Array) -> Array:
    """Return Euclidean distances, `(some, other)`.

    Args:
        some: one row per point.
        others: likewise.
    """
    square = (some**2).sum(1)[:, None] + (others**2).sum(1) - 2 * some @ others.T
    return np.sqrt(np.maximum(square, 0.0))
