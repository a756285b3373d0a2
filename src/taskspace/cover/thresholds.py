"""Losses a block at a time, and their tolerance sets at many tolerances."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from taskspace._util import files
from taskspace._util.clock import Clock
from taskspace.cover.cover import Cover
from taskspace.cover.greedy import greedy_cover
from taskspace.cover.minimum import full_cover
from taskspace.cover.problem import CoverProblem
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.questions import Question, as_question
from taskspace.sets import TargetSets, pack
from taskspace.sets.target_sets import join

BLOCK_CELLS = 2**21
AT_ONCE = 16
"""Tolerances of which sets are made in one pass over losses that are not in memory."""


class Losses:
    """The losses of all sources at all targets, given block by block.

    Args:
        data: a loss matrix `(source, target)`, xarray or NumPy; or a study or a
            performance table, whose losses are computed as they are needed.
        question: what is asked of a study; None beside a matrix.
    """

    def __init__(self, data: Any, question: Question | str | None = None):
        self.matrix: NDArray[Any] | None = None
        if isinstance(data, Study | xr.Dataset):
            self._question = as_question(question, needs_bound=False)
            self._table = self._question.table_of(data)
            sizes = self._table.sizes
            self.n_sources, self.n_targets = sizes["source"], sizes["target"]
            return
        if hasattr(data, "dims"):
            if set(data.dims) != {"source", "target"}:
                raise InvalidInputError(
                    f"loss must have the dims (source, target), but got {data.dims}."
                )
            data = data.transpose("source", "target").values
        self.matrix = np.asarray(data)
        if self.matrix.ndim != 2 or self.matrix.dtype.kind not in "fiu":
            raise InvalidInputError(
                "loss must be a matrix of numbers (source, target), but got "
                f"{self.matrix.dtype} of shape {self.matrix.shape}."
            )
        self.n_sources, self.n_targets = self.matrix.shape
        if self.n_sources:
            _ = self.best  # no NaN

    def blocks(self) -> Iterator[NDArray[np.float64]]:
        """Yield the rows, a stretch of sources at a time."""
        if self.matrix is None:
            yield from (block for _, block in self._question.blocks(self._table))
            return
        step = max(1, BLOCK_CELLS // max(1, self.n_targets))
        for first in range(0, self.n_sources, step):
            yield self.matrix[first : first + step]

    @property
    def best(self) -> NDArray[np.float64]:
        """Least loss at each target."""
        return self._ends[0]

    @property
    def single(self) -> float:
        """The least tolerance at which one source serves all targets."""
        return self._ends[1]

    @cached_property
    def _ends(self) -> tuple[NDArray[np.float64], float]:
        best = np.full(self.n_targets, np.inf)
        single = np.inf
        for block in self.blocks():
            np.minimum(best, block.min(0), out=best)
            worst = block.max(1).min() if self.n_targets else -np.inf
            single = min(single, float(worst))
        if np.isnan(best).any():
            n_nan = sum(int(np.isnan(block).sum()) for block in self.blocks())
            raise InvalidInputError(
                f"loss must hold no NaN, but got {n_nan}. A failed transfer is a loss "
                "of inf."
            )
        return best, single


class Thresholds:
    """The tolerance sets at many tolerances, made when they are asked for.

    As many are kept as fit into an eighth of the memory; several are made in one pass
    where a pass is dear.

    Args:
        losses: the losses.
        epsilons: the tolerances.
    """

    def __init__(self, losses: Losses, epsilons: NDArray[np.floating | np.integer]):
        self._losses, self._epsilons = losses, epsilons
        self._n_bytes = losses.n_sources * losses.n_targets // 8  # of one, as bits
        self._kept: dict[int, TargetSets] = {}

    def at(self, k: int, coming: Sequence[int] = ()) -> TargetSets:
        """Return the sets at one tolerance.

        Args:
            k: its place.
            coming: places that will be asked for next.
        """
        if k not in self._kept:
            most = files.available_memory() // 8 // max(1, self._n_bytes)
            in_memory = self._losses.matrix is not None
            n = 1 if in_memory else max(1, min(AT_ONCE, most))
            self._make([k, *(c for c in coming if c not in self._kept)][:n])
        return replace(self._kept[k])  # what is computed from it is not kept

    def _make(self, places: Sequence[int]) -> None:
        room = files.available_memory() // 8 - len(places) * self._n_bytes
        while self._kept and sum(sets.nbytes for sets in self._kept.values()) > room:
            self._kept.pop(next(iter(self._kept)))
        parts: dict[int, list[TargetSets]] = {k: [] for k in places}
        for block in self._losses.blocks():
            for k in places:
                parts[k].append(pack(block <= self._epsilons[k]))
        for k in places:
            self._kept[k] = join(parts.pop(k), self._losses.n_targets)


# One search over tolerances: covers at some of them, and what follows at the others.
# Profiles, budgets and the slider of a page ask at different tolerances and in
# different orders. What they find is put together here.


class ToleranceSearch:
    """Bounds on the size of a minimum cover at each of many tolerances.

    A cover at one tolerance is a cover at every larger one, and a lower bound at one
    tolerance holds at every smaller one, as long as the same targets can be served.

    Args:
        losses: the losses.
        epsilons: the tolerances, ascending.
        include: sources that every cover must hold.
        exclude: sources that no cover may hold.
        seed: of the random choices.

    Attributes:
        n_uncoverable: targets that no source serves, at each tolerance.
        lower: no cover of all targets that can be served is smaller.
        upper: such a cover of this size exists.
        lower_from: at which tolerance `lower` was proven, −1 where nowhere yet.
        upper_from: at which tolerance a cover of this size was found, or −1.
    """

    def __init__(
        self,
        losses: Losses,
        epsilons: NDArray[np.floating | np.integer],
        *,
        include: ArrayLike = (),
        exclude: ArrayLike = (),
        seed: int = 0,
    ):
        self.epsilons, self._seed = epsilons, seed
        self._sets = Thresholds(losses, epsilons)
        self._limits: dict[str, Any] = {"include": include, "exclude": exclude}
        best = np.sort(losses.best)
        n_served = np.searchsorted(best, epsilons, side="right")
        self.n_uncoverable = losses.n_targets - n_served
        self.lower = np.minimum(1, n_served)
        self.upper = np.minimum(losses.n_sources, n_served)
        self.lower_from = np.full(len(epsilons), -1)
        self.upper_from = np.full(len(epsilons), -1)

    def largest(self, k: int) -> int:
        """Return how many targets the most useful source serves.

        Args:
            k: number of the tolerance.
        """
        return int(self._sets.at(k).sizes.max(initial=0))

    def greedy(self, k: int, coming: Sequence[int] = ()) -> Cover:
        """Return greedy's cover at one tolerance, and learn from it.

        Args:
            k: number of the tolerance.
            coming: tolerances that will be asked for next.
        """
        return self.learn(k, greedy_cover(self._sets.at(k, coming), **self._limits))

    def minimum(
        self, k: int, clock: Clock, n_stages: int, coming: Sequence[int] = ()
    ) -> Cover:
        """Return the smallest cover found at one tolerance, and learn from it.

        Args:
            k: number of the tolerance.
            clock: whose time limit counts.
            n_stages: stages of counted work, see `full_cover`.
            coming: tolerances that will be asked for next.
        """
        instance = CoverProblem(self._sets.at(k, coming), **self._limits)
        cover = full_cover(instance, clock, seed=self._seed, n_stages=n_stages)
        return self.learn(k, cover)

    def learn(self, k: int, cover: Cover) -> Cover:
        """Return a cover, after noting what it says about all tolerances.

        Args:
            k: number of the tolerance at which it was found.
            cover: one that leaves out more than it must says nothing.
        """
        n_left = int((cover.assignment < 0).sum())
        if n_left != self.n_uncoverable[k]:
            return cover
        alike = np.flatnonzero(self.n_uncoverable == n_left)
        lower, below, above = (
            int(cover.lower_bound),
            alike[alike <= k],
            alike[alike >= k],
        )
        below = below[(self.lower_from[below] < 0) | (self.lower[below] < lower)]
        above = above[(self.upper_from[above] < 0) | (self.upper[above] > cover.size)]
        self.lower[below] = np.maximum(self.lower[below], lower)
        self.upper[above] = cover.size
        self.lower_from[below], self.upper_from[above] = k, k
        return cover
