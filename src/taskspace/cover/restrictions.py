"""What a selection must hold and must not hold.

A restricted problem is a smaller problem: the sources that must be in are taken, those
that must not be are left out, and the free ones serve what is still needed. A bound on
what these cost, and the cost of those taken, bound every restricted selection.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.errors import InvalidInputError
from taskspace.sets import TargetSets

__all__ = ["Rest", "Restrictions", "restrict"]


@dataclass(frozen=True, eq=False)
class Rest:
    """What restrictions leave to decide.

    Args:
        sources: the free sources.
        sets: what these serve, of all targets.
        needed: whether one of them still has to serve each target.
        uncoverable: targets that no allowed source serves.
    """

    sources: NDArray[np.int64]
    sets: TargetSets
    needed: NDArray[np.bool_]
    uncoverable: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Restrictions:
    """Which selections count.

    Args:
        include: sources that must be selected, ascending.
        exclude: sources that must not be, ascending.
    """

    include: NDArray[np.int64]
    exclude: NDArray[np.int64]

    def __bool__(self) -> bool:
        return bool(self.include.size or self.exclude.size)

    def leave(self, sets: TargetSets) -> Rest:
        """Return what is left to decide.

        Args:
            sets: the targets that each source serves.
        """
        if not self:
            needed = sets.coverable
            free = np.arange(sets.n_sources)
            return Rest(free, sets, needed, np.flatnonzero(~needed))
        kept = np.ones(sets.n_sources, bool)
        kept[self.exclude] = False
        allowed = np.flatnonzero(kept)
        kept[self.include] = False
        free = np.flatnonzero(kept)
        coverable = sets.subset(allowed).coverable
        return Rest(
            sources=free,
            sets=sets.subset(free),
            needed=coverable & ~sets.union(self.include),
            uncoverable=np.flatnonzero(~coverable),
        )


def restrict(
    n_sources: int,
    include: ArrayLike | Sequence[int] = (),
    exclude: ArrayLike | Sequence[int] = (),
) -> Restrictions:
    """Restrictions of a selection among so many sources, checked.

    Args:
        n_sources: number of sources.
        include: sources that must be selected.
        exclude: sources that must not be.
    """
    checked = []
    for name, sources in (("include", include), ("exclude", exclude)):
        raw = np.asarray(sources)
        if raw.size and (raw.ndim != 1 or raw.dtype.kind not in "iu"):
            raise InvalidInputError(
                f"{name} must be a list of sources, which are integers, but got an "
                f"array of type {raw.dtype} and shape {raw.shape}."
            )
        array = np.unique(raw.astype(np.int64).reshape(-1))
        if array.size and not (array[0] >= 0 and array[-1] < n_sources):
            raise InvalidInputError(
                f"0 <= source < {n_sources} must hold for every source of {name}, "
                f"but got values from {array[0]} to {array[-1]}."
            )
        checked.append(array)
    both = np.intersect1d(*checked)
    if both.size:
        raise InvalidInputError(
            f"A source is either in or out, but source {both[0]} is in include and in "
            "exclude."
        )
    return Restrictions(checked[0], checked[1])
