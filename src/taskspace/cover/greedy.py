"""Greedy cover: take the source that serves the most targets not yet served.

The paper's Algorithm 1, exact to the index, but lazy: a source's gain only shrinks
as targets get served, so an old gain is an upper bound and most sources need no
second look.
"""

import heapq
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.clock import Clock
from taskspace.cover.cover import Cover
from taskspace.cover.prices import (
    coverage_limit,
    greedy_dual_bound,
    join_prices,
    knapsack_bound,
    quick_bound,
)
from taskspace.cover.problem import CoverProblem
from taskspace.cover.registry import cover_method
from taskspace.performance.study import Study
from taskspace.questions import Question
from taskspace.sets import TargetSets, popcount

# Above this many (source, target) pairs the better bounds take longer than greedy.
_MAX_QUICK_PAIRS = 1_000_000


def _curve(
    sets: TargetSets, shape: Sequence[int] | None, n_repeats: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many targets the first sources of greedy serve."""
    del shape, n_repeats, seed
    counts = served_counts(sets, greedy_sources(sets, np.ones(sets.n_sources)))
    return np.arange(1, len(counts) + 1), counts[None]


def served_counts(sets: TargetSets, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return number of targets served after each source, until nothing more can be.

    Args:
        sets: the targets that each source serves.
        order: sources in the order in which they are taken.

    Returns:
        Cumulative counts; shorter than `order` where all coverable targets are
        served before its end.
    """
    served, n_servable = np.zeros(sets.n_targets, np.bool_), int(sets.coverable.sum())
    return _count_served(*sets.arrays, order, n_servable, served)


@numba.njit(cache=True)
def _count_served(offsets, starts, stops, order, n_servable, served):
    counts, n_served = np.zeros(len(order), np.int64), 0
    for k in range(len(order)):
        for r in range(offsets[order[k]], offsets[order[k] + 1]):
            for t in range(starts[r], stops[r]):
                n_served += not served[t]
                served[t] = True
        counts[k] = n_served
        if n_served == n_servable:
            return counts[: k + 1]
    return counts


@cover_method("greedy", colour="#0072B2", curve=_curve)
def greedy_cover(
    problem: Study | TargetSets,
    question: Question | str | None = None,
    *,
    costs: ArrayLike | None = None,
    share: float | None = None,
    target_weights: ArrayLike | None = None,
    budget: int | None = None,
    include: ArrayLike = (),
    exclude: ArrayLike = (),
) -> Cover:
    r"""Cover by repeatedly taking the source with the largest gain per cost.

    The gain is the number (weight) of targets that a source serves and no earlier
    one does. Ties go to the lowest index. The cost is at most $H(\max|S|)$ times the
    minimum; `cost / lower_bound` is usually a far better factor.

    Args:
        problem: a study, or the targets that each source serves.
        question: what is asked of a study.
        costs: cost of each source, `> 0`; all 1 where not given.
        share: stop when this share of all targets (of all target weight) is served;
            everything that can be served if left out.
        target_weights: weight of each target, `>= 0`; all 1 where not given.
        budget: stop after this many sources.
        include: sources that must be selected; they come first.
        exclude: sources that must not be selected.

    Returns:
        The cover; its sources in the order of selection are the coverage curve. See
        `Cover` for what `lower_bound` and `optimal` mean with a share or a budget.
    """
    instance = CoverProblem(
        problem,
        question,
        costs=costs,
        share=share,
        target_weights=target_weights,
        budget=budget,
        include=include,
        exclude=exclude,
    )
    return cover_greedily(instance)


def cover_greedily(instance: CoverProblem) -> Cover:
    """Return greedy's cover, with the best bound that takes no longer.

    Args:
        instance: what is asked.
    """
    sets, costs, weights = (
        instance.free_sets,
        instance.free_costs,
        instance.open_weights,
    )
    clock = Clock()
    room = sets.n_sources
    if instance.budget is not None:
        room = min(instance.budget, instance.sets.n_sources) - len(instance.include)
    needed = instance.servable
    if instance.share is not None and instance.share < 1:
        needed = max(0, instance.required_weight - instance.included_weight)
    sources, served = _take(sets, costs, weights, needed, room)
    # "As much" is what the share asks for, or what was served.
    goal, reason = served, "covered"
    if instance.share is not None and instance.share < 1 and served >= needed:
        goal, reason = needed, "share reached"
    elif served < min(needed, instance.servable):
        reason = "budget spent"
    elif (weights[~sets.coverable] > 0).any():
        reason = "uncoverable targets remain"
    if reason in ("share reached", "budget spent"):
        bound, kind = knapsack_bound(sets, costs, weights, goal), "knapsack"
        prices = None
    else:
        # A target without weight need not be served, and has no price.
        counts = weights > 0
        wanted = sets if counts.all() else sets.keep_targets(counts)
        if int(wanted.sizes.sum()) <= _MAX_QUICK_PAIRS:
            priced = quick_bound(wanted, costs)
        else:
            priced = greedy_dual_bound(wanted, costs, sources)
        bound, kind = priced.value, priced.kind
        prices = join_prices(instance.scaled_costs, [(priced, np.flatnonzero(counts))])
    total = served + instance.included_weight
    claims: dict[str, Any] = {}
    if reason == "budget spent":
        most, prices = coverage_limit(sets, weights, sources, room)
        most += instance.included_weight
        claims = {"optimal": total >= most, "most": Fraction(most, instance.total)}
    return instance.cover(
        "greedy",
        np.append(instance.include, instance.free[sources]),
        lower_bound=instance.included_cost + bound,
        lower_bound_kind=kind,
        stop_reason=reason,
        clock=clock,
        prices=prices,
        missed_share=instance.missed_share(total),
        **claims,
    )


def greedy_sources(
    sets: TargetSets,
    costs: NDArray[np.float64],
    weights: NDArray[Any] | None = None,
    needed: int | None = None,
) -> NDArray[np.int64]:
    """Return greedy's sources, in the order of selection.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, scaled.
        weights: weight of each target; all 1 where not given.
        needed: weight that is enough; all that can be served where not given.
    """
    if weights is None:
        weights = np.ones(sets.n_targets, np.int64)
    if needed is None:
        needed = int(weights[sets.coverable].sum())
    return _take(sets, costs, weights, needed, sets.n_sources)[0]


def _take(
    sets: TargetSets,
    costs: NDArray[np.float64],
    weights: NDArray[Any],
    needed: int,
    budget: int,
) -> tuple[NDArray[np.int64], int]:
    """Return sources by gain per cost until enough is served, and what is served."""
    if not ((weights == 1).all() and (costs == 1).all()):
        return _take_weighted(sets, costs, weights, needed, budget)
    sizes, n = sets.sizes, max(1, sets.n_sources)
    largest = int(sizes.max(initial=0))
    words = sets.words if sets.is_dense else np.zeros((0, 0), np.uint64)
    useful = np.flatnonzero(sizes > 0)
    keys = np.sort((largest - sizes[useful]) * n + useful)
    unserved = np.full(-(-sets.n_targets // 64), ~np.uint64(0))
    order, served = _greedy(
        *sets.arrays, words, keys, (largest, n), unserved, needed, min(budget, n)
    )
    return order, int(served)


def _take_weighted(
    sets: TargetSets,
    costs: NDArray[np.float64],
    weights: NDArray[Any],
    needed: int,
    budget: int,
) -> tuple[NDArray[np.int64], int]:
    """Lazy greedy on a heap of (-gain / cost, source)."""
    exact = weights.copy()
    # Gains are compared as floats; what has been served is counted without rounding.
    scale = 1 << max(0, int(max(weights.tolist(), default=0)).bit_length() - 53)
    floats = [float(Fraction(n, scale)) for n in weights.tolist()]
    unserved = np.maximum(floats, np.where(weights > 0, 1e-300, 0.0))
    gains = _sum_runs(*sets.arrays, 0, sets.n_sources, unserved) / costs
    heap = [(-gain, source) for source, gain in enumerate(gains.tolist()) if gain > 0]
    heapq.heapify(heap)
    sources: list[int] = []
    served = 0
    while heap and served < needed and len(sources) < budget:
        source = heap[0][1]
        gain = float(_sum_runs(*sets.arrays, source, source + 1, unserved)[0])
        key = (-gain / costs[source], source)
        if key > heap[0]:
            heapq.heapreplace(heap, key) if gain > 0 else heapq.heappop(heap)
            continue
        heapq.heappop(heap)
        sources.append(source)
        new = sets.row(source)
        served += int(exact[new].sum())
        exact[new] = 0
        unserved[new] = 0.0
    return np.array(sources, np.int64), served


# --- compiled kernels -------------------------------------------------------------


@numba.njit(cache=True)
def _gain(offsets, starts, stops, words, s, unserved, clear):
    """Count the unserved targets of a source, and mark them as served if `clear`."""
    gain = np.uint64(0)
    if len(words):
        for w in range(len(unserved)):
            gain += popcount(words[s, w] & unserved[w])
            if clear:
                unserved[w] &= ~words[s, w]
        return np.int64(gain)
    ones = ~np.uint64(0)
    for r in range(offsets[s], offsets[s + 1]):
        first, last = starts[r] // 64, (stops[r] - 1) // 64
        for w in range(first, last + 1):
            mask = ones
            if w == first:
                mask = mask << np.uint64(starts[r] % 64)
            if w == last:
                mask = mask & (ones >> np.uint64(63 - (stops[r] - 1) % 64))
            gain += popcount(unserved[w] & mask)
            if clear:
                unserved[w] &= ~mask
    return np.int64(gain)


@numba.njit(cache=True)
def _greedy(offsets, starts, stops, words, keys, scale, unserved, needed, budget):
    """Take the source of largest gain, of equals the lowest, until enough is served.

    `keys` is a heap of (largest − gain) × n + source. Gains only shrink, so a source
    whose gain is still what its key says is the one that plain greedy takes.
    """
    largest, n = scale
    sources = np.empty(budget, np.int64)
    n_taken, served, size = 0, 0, len(keys)
    while size > 0 and served < needed and n_taken < budget:
        s = keys[0] % n
        gain = _gain(offsets, starts, stops, words, s, unserved, False)
        key = (largest - gain) * n + s
        if key == keys[0]:
            _gain(offsets, starts, stops, words, s, unserved, True)
            sources[n_taken] = s
            n_taken += 1
            served += gain
        if key == keys[0] or gain == 0:
            size -= 1
            key = keys[size]
        # Sift down from the root.
        at, child = 0, 1
        while child < size:
            if child + 1 < size and keys[child + 1] < keys[child]:
                child += 1
            if keys[child] >= key:
                break
            keys[at] = keys[child]
            at, child = child, 2 * child + 1
        keys[at] = key
    return sources[:n_taken].copy(), served


@numba.njit(cache=True)
def _sum_runs(offsets, starts, stops, first, last, values):
    """For each source from `first` on the sum of `values` over its targets."""
    sums = np.zeros(last - first)
    for s in range(first, last):
        for r in range(offsets[s], offsets[s + 1]):
            for t in range(starts[r], stops[r]):
                sums[s - first] += values[t]
    return sums
