"""What a selection must hold, must not hold, and how often it must serve a target.

A restricted problem is a smaller problem: the sources that must be in are taken, those
that must not be are left out, and the free ones serve what is still needed. A bound on
what these cost, and the cost of those taken, bound every restricted selection.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace import _bits as kernels
from taskspace.errors import InvalidInputError
from taskspace.sets import TargetSets

__all__ = ["Rest", "Restrictions", "count_servers", "restrict"]


@dataclass(frozen=True, eq=False)
class Rest:
    """What restrictions leave to decide.

    Args:
        sources: the free sources.
        sets: what these serve, of all targets.
        needed: how many of them each target still needs, 0 for no more.
        short: targets that some, but fewer than `copies` allowed sources serve.
        uncoverable: targets that no allowed source serves.
    """

    sources: NDArray[np.int64]
    sets: TargetSets
    needed: NDArray[np.int64]
    short: NDArray[np.int64]
    uncoverable: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Restrictions:
    """Which selections count.

    Args:
        include: sources that must be selected, ascending.
        exclude: sources that must not be, ascending.
        copies: selected sources that must serve each target, or all that can where
            these are fewer.
    """

    include: NDArray[np.int64]
    exclude: NDArray[np.int64]
    copies: int = 1

    def __bool__(self) -> bool:
        return bool(self.include.size or self.exclude.size or self.copies != 1)

    def leave(self, sets: TargetSets) -> Rest:
        """What is left to decide.

        Args:
            sets: the targets that each source serves.
        """
        if not self:
            needed = sets.coverable.astype(np.int64)
            none = np.zeros(0, np.int64)
            free = np.arange(sets.n_sources)
            return Rest(free, sets, needed, none, np.flatnonzero(needed == 0))
        kept = np.ones(sets.n_sources, bool)
        kept[self.exclude] = False
        allowed = np.flatnonzero(kept)
        kept[self.include] = False
        free = np.flatnonzero(kept)
        able = count_servers(sets.subset(allowed))
        served = count_servers(sets.subset(self.include))
        return Rest(
            sources=free,
            sets=sets.subset(free),
            needed=np.maximum(0, np.minimum(self.copies, able) - served),
            short=np.flatnonzero((able > 0) & (able < self.copies)),
            uncoverable=np.flatnonzero(able == 0),
        )


def restrict(
    n_sources: int,
    include: ArrayLike | Sequence[int] = (),
    exclude: ArrayLike | Sequence[int] = (),
    copies: int = 1,
) -> Restrictions:
    """Restrictions of a selection among so many sources, checked.

    Args:
        n_sources: number of sources.
        include: sources that must be selected.
        exclude: sources that must not be.
        copies: selected sources that must serve each target.
    """
    found = []
    for name, sources in (("include", include), ("exclude", exclude)):
        given = np.asarray(sources)
        if given.size and (given.ndim != 1 or given.dtype.kind not in "iu"):
            raise InvalidInputError(
                f"{name} must be a list of sources, which are integers, but got an "
                f"array of type {given.dtype} and shape {given.shape}."
            )
        array = np.unique(given.astype(np.int64).reshape(-1))
        if array.size and not (array[0] >= 0 and array[-1] < n_sources):
            raise InvalidInputError(
                f"0 <= source < {n_sources} must hold for every source of {name}, "
                f"but got values from {array[0]} to {array[-1]}."
            )
        found.append(array)
    both = np.intersect1d(*found)
    if both.size:
        raise InvalidInputError(
            f"A source is either in or out, but source {both[0]} is in include and in "
            "exclude."
        )
    if copies < 1 or copies != int(copies):
        raise InvalidInputError(
            f"copies >= 1 must hold, a whole number, but got copies={copies}."
        )
    return Restrictions(found[0], found[1], int(copies))


def count_servers(sets: TargetSets) -> NDArray[np.int64]:
    """How many sources serve each target, `[n_targets]`.

    Args:
        sets: the targets that each source serves.
    """
    runs = sets.to_runs()
    change = kernels.count_ends(runs.starts, runs.stops, runs.n_targets)
    return np.cumsum(change[:-1]).astype(np.int64)
