"""One search over tolerances: covers at some of them, and what follows at the others.

Profiles, budgets and the slider of a page ask at different tolerances and in different
orders. What they find is put together here.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.clock import Clock
from taskspace.cover.base import Cover
from taskspace.cover.methods.greedy import greedy_cover
from taskspace.cover.methods.minimum import full_cover
from taskspace.cover.problem import Instance
from taskspace.cover.tolerance.thresholds import Losses, Thresholds

__all__ = ["ToleranceSearch"]


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
        instance = Instance.of(self._sets.at(k, coming), **self._limits)
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
