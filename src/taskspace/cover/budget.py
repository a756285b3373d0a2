"""The smallest tolerance that a number of sources can meet, with a proof."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.cover.base import Clock, Cover, Progress, ProgressCallback
from taskspace.cover.greedy import greedy_cover
from taskspace.cover.minimum import minimum_cover
from taskspace.cover.thresholds import MatrixLosses
from taskspace.errors import InvalidInputError
from taskspace.sets import TargetSets, pack


@dataclass(frozen=True)
class SmallestEpsilon:
    """The least tolerance within which a budget of sources serves every target.

    Args:
        budget: number of sources.
        lower: no `budget` sources serve every target within less.
        upper: `sources` do within this; inf where no budget of this size does.
        sources: the selection, `len(sources) <= budget`, ascending.
        optimal: whether lower and upper are equal, so that the answer is proven.
        cover: the cover at `upper`, of the targets that the sources which must be in
            do not serve; None where these serve all, or nothing does.
        seconds: wall-clock time.
    """

    budget: int
    lower: float
    upper: float
    sources: tuple[int, ...]
    optimal: bool
    cover: Cover | None
    seconds: float


def smallest_epsilon(
    losses: Any,
    budget: int,
    *,
    include: Sequence[int] = (),
    exclude: Sequence[int] = (),
    time_limit: float = 60.0,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> SmallestEpsilon:
    """The smallest tolerance for which a cover of at most `budget` sources exists.

    Between two values of the loss matrix no set changes, so the answer is one of
    them: a binary search, in which `minimum_cover` says yes by a cover, or no by its
    lower bound. Where it can say neither in time, the answer is an interval.

    Args:
        losses: loss matrix `(source, target)`, xarray or NumPy; may hold infinities.
        budget: number of sources, `>= 1`.
        include: sources that must be selected.
        exclude: sources that must not be.
        time_limit: seconds for all of it.
        seed: of the random choices.
        progress: called after each tolerance that was tried; `best` and `lower_bound`
            are tolerances.

    Returns:
        The tolerance, or the interval in which it lies, and the selection.
    """
    clock = Clock(time_limit)
    matrix = MatrixLosses(losses).matrix
    wanted, refused = _checked(matrix, budget, include, exclude)
    free = np.setdiff1d(np.arange(len(matrix)), np.concatenate([wanted, refused]))
    search = _Search(matrix, wanted, free, budget - len(wanted))
    values = np.unique(matrix[np.concatenate([wanted, free])])
    values = values[(values >= search.least) & np.isfinite(values)]
    no, yes = -1, len(values)  # indices of tolerances that are known to be ...
    best: tuple[Cover | None, NDArray[np.int64]] = None, wanted
    open_: list[int] = []
    while True:
        left = [k for k in range(no + 1, yes) if k not in open_]
        if not left or clock.left <= 0:
            break
        k = left[len(left) // 2]
        # As many halvings are to come as the interval has.
        share = clock.left / (len(left).bit_length() + 1)
        answer, cover, sources = search.ask(float(values[k]), share, seed)
        if answer == "yes":
            yes, best = k, (cover, sources)
            open_ = [n for n in open_ if n < k]
        elif answer == "no":
            no = k
            open_ = [n for n in open_ if n > k]
        else:
            open_.append(k)
        if progress is not None:
            low, high = _ends(values, no, yes)
            phase = f"epsilon={values[k]:g}"
            progress(Progress(clock.seconds, high, low, phase))
    low, high = _ends(values, no, yes)
    return SmallestEpsilon(
        budget=budget,
        lower=low,
        upper=high,
        sources=tuple(np.sort(best[1]).tolist()) if yes < len(values) else (),
        optimal=low == high,
        cover=best[0],
        seconds=clock.seconds,
    )


def _ends(values: NDArray[np.float64], no: int, yes: int) -> tuple[float, float]:
    """The interval: the first value that is not refused, the first that is met."""
    ends = np.append(values, np.inf)
    return float(ends[min(no + 1, len(values))]), float(ends[yes])


class _Search:
    """Can so many free sources serve what the wanted ones leave, within epsilon?"""

    def __init__(
        self,
        matrix: NDArray[np.float64],
        wanted: NDArray[np.int64],
        free: NDArray[np.int64],
        n_free: int,
    ):
        self.matrix, self.wanted, self.free, self.n_free = matrix, wanted, free, n_free
        self.at_wanted = matrix[wanted].min(0, initial=np.inf)
        usable = np.concatenate([wanted, free] if n_free else [wanted])
        # No tolerance below this one serves every target, whatever the budget.
        self.least = float(matrix[usable].min(0, initial=np.inf).max(initial=-np.inf))

    def ask(
        self, epsilon: float, seconds: float, seed: int
    ) -> tuple[str, Cover | None, NDArray[np.int64]]:
        left = self.at_wanted > epsilon
        if not left.any():
            return "yes", None, self.wanted
        if self.n_free == 0:
            return "no", None, self.wanted
        sets = self._sets(epsilon, left)
        if not sets.coverable.all():
            return "no", None, self.wanted
        cover = greedy_cover(sets)
        if self.n_free < cover.size and cover.lower_bound <= self.n_free:
            cover = minimum_cover(sets, time_limit=seconds, seed=seed)
        sources = np.concatenate([self.wanted, self.free[cover.sources]])
        if cover.size <= self.n_free:
            return "yes", cover, sources
        return ("no" if cover.lower_bound > self.n_free else "open"), cover, sources

    def _sets(self, epsilon: float, left: NDArray[np.bool_]) -> TargetSets:
        starts = range(0, len(self.free), 1024)
        parts = (self.matrix[self.free[r : r + 1024]] for r in starts)
        blocks = (part[:, left] <= epsilon for part in parts)
        return pack(blocks, n_targets=int(left.sum()))


def _checked(
    matrix: NDArray[np.float64],
    budget: int,
    include: Sequence[int],
    exclude: Sequence[int],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    found = []
    for name, sources in (("include", include), ("exclude", exclude)):
        array = np.unique(np.asarray(sources, np.int64).reshape(-1))
        if array.size and not (array[0] >= 0 and array[-1] < len(matrix)):
            raise InvalidInputError(
                f"0 <= source < {len(matrix)} must hold for every source of {name}, "
                f"but got values from {array[0]} to {array[-1]}."
            )
        found.append(array)
    both = np.intersect1d(*found)
    if both.size:
        raise InvalidInputError(
            f"A source is either in or out, but source {both[0]} is in include and in "
            "exclude."
        )
    if budget < 1 or budget < len(found[0]):
        raise InvalidInputError(
            "budget >= 1 must hold and include must fit into it, but got "
            f"budget={budget} and {len(found[0])} sources that must be in."
        )
    return found[0], found[1]
