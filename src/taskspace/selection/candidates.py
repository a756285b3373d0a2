"""What may be trained: nodes of a grid, points between them, any point of the box."""

from functools import cached_property
from typing import Literal, cast

import numpy as np
from scipy.spatial import KDTree

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace.errors import InvalidInputError
from taskspace.spaces import Points, Reach, Space, log_axes_of

BOX = "box"
"""The option that lets a selector propose any point of the box."""

CandidatesOption = Space | int | Literal["box"] | None
"""What may be trained: a space, the contexts to cover and so many points between them,
any point of their box, or (None) just these contexts."""


class Scattered(Points):
    """Contexts, and points scattered over their box.

    Args:
        box: the contexts whose box and scales they are in.
        n: number of further points, a Sobol sequence; > 0.
        seed: of the shift of the sequence.
    """

    def __init__(self, box: Space, n: int, seed: int):
        self.box, frame = box, Candidates(box)
        varies = np.flatnonzero(np.ptp(frame.unit, axis=0) > 0)
        units = np.repeat(frame.unit[:1], n, axis=0)
        if len(varies):
            # A power of two keeps the sequence balanced; the first n are kept.
            power = int(np.ceil(np.log2(max(n, 2))))
            from scipy.stats.qmc import Sobol  # loads slowly

            drawn = Sobol(len(varies), scramble=False).random_base2(power)[:n]
            shift = np.random.default_rng(seed).random(len(varies))
            units[:, varies] = (drawn + shift) % 1.0
        points = np.concatenate([box.points, frame.points_of(units)])
        super().__init__(box.names, points)


def candidate_space(space: Space, candidates: CandidatesOption, seed: int) -> Space:
    """Return the contexts that a selector chooses from.

    Args:
        space: contexts that were named.
        candidates: see `CandidatesOption`.
        seed: of scattered points.
    """
    if candidates is None or candidates == BOX:
        return space
    if isinstance(candidates, int) and not isinstance(candidates, bool):
        if candidates < 1:
            raise InvalidInputError(
                f"A number of further candidates must be >= 1, but got {candidates}."
            )
        return Scattered(space, candidates, seed)
    if isinstance(candidates, str | bool | float) or not hasattr(candidates, "points"):
        raise InvalidInputError(
            "candidates must be a space, a number of points between the contexts, or "
            f"{BOX!r} for any point of their box, but got {candidates!r}."
        )
    return cast("Space", candidates)


class Candidates:
    """Contexts that may be trained, in coordinates where every axis is as long.

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
        self.space = space
        self.points = space.points
        box = space.box if isinstance(space, Scattered) else space
        is_log = np.array(log_axes_of(box))
        self._reach = Reach(box.points.min(0), box.points.max(0), is_log)
        self.unit: Array = self.units_of(self.points)
        # What was planned when it was last asked what is left: mostly, a row is added.
        self._last = self.points[:0], np.ones(len(self.points), bool)

    def units_of(self, points: Array) -> Array:
        """Coordinates of any contexts; the candidates' box is [0, 1] on each axis.

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
        return int(self.distances(np.full((1, self.unit.shape[1]), 0.5))[:, 0].argmin())

    def distances(self, units: Array) -> Array:
        """Distance of each candidate to some coordinates, `(candidate, other)`.

        Args:
            units: one row per context.
        """
        return distances(self.unit, units)

    def nearest(self, units: Array) -> Numbers:
        """Return the candidate nearest to each coordinate, the first among equals.

        Args:
            units: one row per context.
        """
        away, _ = self._tree.query(units)
        # Equal but for rounding is equal: the axes are all of length one.
        near = self._tree.query_ball_point(units, away + 1e-12)
        return np.fromiter(map(min, near), np.int64, len(units))

    @cached_property
    def _tree(self) -> KDTree:
        return KDTree(self.unit)

    def left(self, planned: Array) -> Mask:
        """Candidates that are not planned yet.

        Args:
            planned: contexts of the planned sources.
        """
        before, remaining = self._last
        n = len(before)
        if not np.array_equal(planned[:n], before):
            n, remaining = 0, np.ones(len(self.points), bool)
        remaining = remaining.copy()
        for row in np.ascontiguousarray(planned[n:]) + 0.0:
            remaining[self._places.get(row.tobytes(), [])] = False
        self._last = planned, remaining
        return remaining.copy()

    @cached_property
    def _places(self) -> dict[bytes, list[int]]:
        """Where each context is among the candidates; −0 is 0."""
        places: dict[bytes, list[int]] = {}
        for number, row in enumerate(np.ascontiguousarray(self.points) + 0.0):
            places.setdefault(row.tobytes(), []).append(number)
        return places


def distances(some: Array, others: Array) -> Array:
    """Euclidean distances, `(some, other)`.

    Args:
        some: one row per point.
        others: likewise.
    """
    square = (some**2).sum(1)[:, None] + (others**2).sum(1) - 2 * some @ others.T
    return np.sqrt(np.maximum(square, 0.0))
