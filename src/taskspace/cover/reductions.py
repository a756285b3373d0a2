"""Reductions: what can be decided before any search, without losing the optimum.

- A source that alone serves some target is in every cover.
- A source whose targets another source serves too, for no more cost, can go.
- A target that is served whenever some other target is served can go.
- What then falls apart into components can be solved apart.
"""

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from taskspace._util.clock import Clock
from taskspace.cover.costs import Exact, total_cost
from taskspace.sets import TargetSets

# Comparing sets takes seconds beyond this many (source, target) pairs.
MAX_PAIRS = 20_000_000


@dataclass(frozen=True)
class Core:
    """What is left of a covering problem.

    Args:
        sets: the remaining sets; every target has at least two sources.
        costs: costs of the remaining sources.
        sources: index of each remaining source in the original problem.
        targets: index of each remaining target in the original problem.
    """

    sets: TargetSets
    costs: NDArray[np.float64]
    sources: NDArray[np.int64]
    targets: NDArray[np.int64]

    @classmethod
    def of(cls, sets: TargetSets, costs: NDArray[np.float64]) -> "Core":
        """Return a problem with all its sources and all its coverable targets.

        Args:
            sets: the targets that each source serves.
            costs: cost of each source, scaled.
        """
        names = np.arange(sets.n_sources), np.arange(sets.n_targets)
        return cls(sets, costs, *names).keep(targets=sets.coverable)

    def keep(
        self,
        sources: NDArray[np.bool_] | None = None,
        targets: NDArray[np.bool_] | None = None,
    ) -> "Core":
        """Return the part of the core with only the marked sources and targets.

        Args:
            sources: True for each source that stays; all where not given.
            targets: True for each target that stays; all where not given.
        """
        core = self
        if sources is not None and not sources.all():
            rows = np.flatnonzero(sources)
            names, costs = core.sources[rows], core.costs[rows]
            core = Core(core.sets.subset(rows), costs, names, core.targets)
        if targets is not None and not targets.all():
            sets = core.sets.keep_targets(targets)
            core = Core(sets, core.costs, core.sources, core.targets[targets])
        return core

    def places(self, names: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where sources stand in the core.

        Args:
            names: their numbers in the original problem.
        """
        return np.searchsorted(self.sources, names)


@dataclass(frozen=True)
class Reduced:
    """A covering problem after reductions; all numbers are those of the original.

    Args:
        forced: sources that are in some minimum cover, in the order they were found.
        witnesses: for each of them a target that only it could serve.
        costs: the cost of each of them.
        core: what is left to decide.
    """

    forced: NDArray[np.int64]
    witnesses: NDArray[np.int64]
    costs: NDArray[np.float64]
    core: Core

    @property
    def spent(self) -> Exact:
        """Cost of the forced sources, without rounding."""
        return total_cost(self.costs, np.arange(len(self.costs)))

    @property
    def prices(self) -> list[tuple[int, float]]:
        """A target that only it could serve, and the cost, of each forced source."""
        return list(zip(self.witnesses.tolist(), self.costs.tolist(), strict=True))

    def selection(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a selection of the original problem, the forced sources first.

        Args:
            places: its other sources, by their places in the core.
        """
        return np.append(self.forced, self.core.sources[places])


def reduce_problem(core: Core, clock: Clock | None = None) -> Reduced:
    """Reduce a covering problem; the optimum stays the same.

    Args:
        core: the problem; every target has a source.
        clock: stop reducing when its time is up.

    Returns:
        Forced sources and the remaining core.
    """
    clock = clock or Clock()
    core = core.keep(core.sets.sizes > 0)
    forced: list[tuple[int, int, float]] = []
    while True:
        before = core.sets.n_sources, core.sets.n_targets
        core, taken = _take_forced(core)
        forced += taken
        small = int(core.sets.sizes.sum()) <= MAX_PAIRS
        if small and clock.left > 0:
            core = core.keep(~_dominated(core.sets, core.costs))
        if small and clock.left > 0:
            core = core.keep(targets=~_redundant(core.sets))
        if (core.sets.n_sources, core.sets.n_targets) == before:
            sources, witnesses, costs = (
                zip(*forced, strict=True) if forced else ((),) * 3
            )
            return Reduced(
                np.array(sources, np.int64),
                np.array(witnesses, np.int64),
                np.array(costs, np.float64),
                core,
            )


def components(core: Core) -> list[Core]:
    """Return the parts of a core that share neither sources nor targets.

    Args:
        core: what is left of a problem.
    """
    if core.sets.n_targets == 0:
        return []
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    # Neighbours that a run joins are one block of targets; a source joins its blocks.
    offsets, starts, stops = core.sets.arrays
    n_targets, n_sources = core.sets.n_targets, core.sets.n_sources
    joins = np.bincount(starts, minlength=n_targets)
    joins -= np.bincount(stops - 1, minlength=n_targets)
    block = np.append(0, np.cumsum(np.cumsum(joins)[:-1] <= 0))
    n_blocks = int(block[-1]) + 1
    owners = n_blocks + np.repeat(np.arange(n_sources), np.diff(offsets))
    graph = sparse.coo_array(
        (np.ones(len(starts), bool), (owners, block[starts])),
        shape=(n_blocks + n_sources,) * 2,
    )
    labels = connected_components(graph, directed=False)[1]
    of_source, of_target = labels[n_blocks:], labels[block]
    parts = np.unique(of_target)
    if len(parts) == 1 and (of_source == parts[0]).all():
        return [core]
    return [core.keep(of_source == part, of_target == part) for part in parts]


def _take_forced(core: Core) -> tuple[Core, list[tuple[int, int, float]]]:
    """Take the sources that alone serve a target: each, such a target, its cost."""
    inverse = core.sets.inverse
    alone = np.flatnonzero(inverse.sizes == 1)
    owners = inverse.starts[inverse.offsets[alone]]
    forced, first = np.unique(owners, return_index=True)
    if not len(forced):
        return core, []
    witnesses = core.targets[alone[first]].tolist()
    names, costs = core.sources[forced].tolist(), core.costs[forced].tolist()
    is_free = np.ones(core.sets.n_sources, bool)
    is_free[forced] = False
    rest = core.keep(is_free, ~core.sets.union(forced))
    return rest.keep(rest.sets.sizes > 0), list(
        zip(names, witnesses, costs, strict=True)
    )


def _dominated(sets: TargetSets, costs: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mark sources whose targets another one serves for no more."""
    sizes = sets.sizes, sets.inverse.sizes
    return _find_contained(sets.arrays, sets.inverse.arrays, sets.words, sizes, costs)


def _redundant(sets: TargetSets) -> NDArray[np.bool_]:
    """Mark targets that are served whenever another one is."""
    inverse = sets.inverse
    sizes = inverse.sizes, sets.sizes
    return _find_containing(inverse.arrays, sets.arrays, inverse.words, sizes)


# --- compiled kernels -------------------------------------------------------------


@numba.njit(cache=True)
def _rarest(sets, n_with, i):
    """Return the element of set i that is in the fewest sets."""
    off, sta, sto = sets
    best = -1
    for r in range(off[i], off[i + 1]):
        for e in range(sta[r], sto[r]):
            if best < 0 or n_with[e] < n_with[best]:
                best = e
    return best


@numba.njit(cache=True)
def _is_subset(a, b):
    w = 0
    while w < len(a) and not (a[w] & ~b[w]):
        w += 1
    return w == len(a)


@numba.njit(cache=True)
def _find_contained(sets, inverse, words, n_of, costs):
    """Mark sets that lie in another one of no more cost; of equals the first stays."""
    sizes, n_with = n_of
    off, sta, sto = inverse
    dropped = np.zeros(len(sizes), np.bool_)
    for i in range(len(sizes)):
        if sizes[i] == 0:
            dropped[i] = True
            continue
        e = _rarest(sets, n_with, i)
        for r in range(off[e], off[e + 1]):
            for j in range(sta[r], sto[r]):
                if j == i or dropped[j] or costs[j] > costs[i] or sizes[j] < sizes[i]:
                    continue
                if sizes[j] == sizes[i] and costs[j] == costs[i] and j > i:
                    continue
                if _is_subset(words[i], words[j]):
                    dropped[i] = True
                    break
            if dropped[i]:
                break
    return dropped


@numba.njit(cache=True)
def _find_containing(sets, inverse, words, n_of):
    """Mark sets that contain another one; of equals the first stays."""
    sizes, n_with = n_of
    off, sta, sto = inverse
    dropped = np.zeros(len(sizes), np.bool_)
    for i in range(len(sizes)):
        if dropped[i] or sizes[i] == 0:
            continue
        e = _rarest(sets, n_with, i)
        for r in range(off[e], off[e + 1]):
            for j in range(sta[r], sto[r]):
                if j == i or dropped[j] or sizes[j] < sizes[i]:
                    continue
                if sizes[j] == sizes[i] and j < i:
                    continue
                if _is_subset(words[i], words[j]):
                    dropped[j] = True
    return dropped
