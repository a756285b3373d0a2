"""Greedy cover: take the source that serves the most targets not yet served.

The paper's Algorithm 1, exact to the index, but lazy: a source's gain only shrinks
as targets get served, so an old gain is an upper bound and most sources need no
second look.
"""

import heapq
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._bits import popcount
from taskspace.cover.base import Clock, Cover, check_costs, make_cover
from taskspace.cover.bounds import quick_bound
from taskspace.cover.prices import greedy_dual_bound, knapsack_bound
from taskspace.errors import InvalidInputError
from taskspace.sets import PackedSets, TargetSets

# Above this many (source, target) pairs the better bounds take longer than greedy.
_MAX_QUICK_PAIRS = 1_000_000


def greedy_cover(
    sets: TargetSets,
    *,
    costs: ArrayLike | None = None,
    share: float = 1.0,
    target_weights: ArrayLike | None = None,
    budget: int | None = None,
) -> Cover:
    r"""Cover by repeatedly taking the source with the largest gain per cost.

    The gain is the number (weight) of targets that a source serves and no earlier
    one does. Ties go to the lowest index. The cost is at most $H(\max|S|)$ times the
    minimum; `cost / lower_bound` is usually a far better factor.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, `> 0`; all 1 where not given.
        share: stop when this share of all targets (of all target weight) is served.
        target_weights: weight of each target, `>= 0`; all 1 where not given.
        budget: stop after this many sources.

    Returns:
        The cover; its sources in the order of selection are the coverage curve.
    """
    clock = Clock()
    cost = check_costs(costs, sets.n_sources)
    weights = _check_weights(target_weights, sets.n_targets)
    if not 0 <= share <= 1:
        raise InvalidInputError(f"0 <= share <= 1 must hold, but got share={share}.")
    if budget is not None and budget < 0:
        raise InvalidInputError(f"budget >= 0 must hold, but got budget={budget}.")
    limit = sets.n_sources if budget is None else budget
    order = greedy_order(sets, cost, weights, share=share, budget=limit)
    partial = target_weights is not None or order.served < order.servable
    if partial:
        bound, kind = knapsack_bound(sets, cost, weights, order.served), "knapsack"
    elif int(sets.sizes.sum()) <= _MAX_QUICK_PAIRS:
        bound, kind = quick_bound(sets, cost)
    else:
        bound, kind = greedy_dual_bound(sets, cost, order.sources)
    return make_cover(
        "greedy",
        sets,
        order.sources,
        costs=cost,
        lower_bound=bound,
        lower_bound_kind=kind,
        stop_reason=order.stop_reason,
        clock=clock,
    )


class GreedyOrder(NamedTuple):
    """Sources in the order in which greedy takes them, and how far that got."""

    sources: NDArray[np.int64]
    served: float
    servable: float
    stop_reason: str


def greedy_order(
    sets: TargetSets,
    costs: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    *,
    share: float,
    budget: int,
) -> GreedyOrder:
    """The selection that `greedy_cover` makes, without the cover around it."""
    total = sets.n_targets if weights is None else float(weights.sum())
    # 1e-9: a share of 0.3 of 10 targets is 3 of them, not 4, whatever 0.3 * 10 is.
    needed = share * total * (1 - 1e-9)
    if weights is None:
        needed = float(np.ceil(needed))
    if weights is None and (costs == 1).all():
        sources, served = _unicost_order(sets, needed, budget)
    else:
        sources, served = _weighted_order(sets, costs, weights, needed, budget)
    if served >= needed:
        reason = "covered" if share == 1 else "share reached"
    elif len(sources) >= budget:
        reason = "budget spent"
    else:
        reason = "uncoverable targets remain"
    servable = served if reason in ("covered", "uncoverable targets remain") else total
    return GreedyOrder(sources, served, servable, reason)


def _check_weights(weights: ArrayLike | None, n: int) -> NDArray[np.float64] | None:
    if weights is None:
        return None
    array = np.asarray(weights, np.float64)
    if array.shape != (n,) or not (np.isfinite(array).all() and (array >= 0).all()):
        raise InvalidInputError(
            f"target_weights must be {n} finite numbers >= 0, one for each target, "
            f"but got shape {array.shape} and values {array}."
        )
    return array


def _unicost_order(
    sets: TargetSets, needed: float, budget: int
) -> tuple[NDArray[np.int64], float]:
    uncovered = _all_ones(sets.n_targets)
    if isinstance(sets, PackedSets):
        found = _greedy_bits(sets.words, sets.sizes, uncovered, needed, budget)
    else:
        arrays = sets.to_runs().arrays
        found = _greedy_runs(*arrays, sets.sizes, uncovered, needed, budget)
    return found[0], float(found[1])


def _all_ones(n_bits: int) -> NDArray[np.uint64]:
    words = np.full(-(-n_bits // 64), ~np.uint64(0))
    if n_bits % 64:
        words[-1] = (np.uint64(1) << np.uint64(n_bits % 64)) - np.uint64(1)
    return words


def _weighted_order(
    sets: TargetSets,
    costs: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    needed: float,
    budget: int,
) -> tuple[NDArray[np.int64], float]:
    """Lazy greedy on a heap of (-gain / cost, source)."""
    arrays = sets.to_runs().arrays
    left = np.ones(sets.n_targets) if weights is None else weights.copy()
    gains = _run_sums(*arrays, left) / costs
    heap = [(-gain, source) for source, gain in enumerate(gains.tolist()) if gain > 0]
    heapq.heapify(heap)
    sources: list[int] = []
    served = 0.0
    while heap and served < needed and len(sources) < budget:
        source = heap[0][1]
        gain = _run_sum(*arrays, source, left)
        key = (-gain / costs[source], source)
        if key > heap[0]:
            heapq.heapreplace(heap, key) if gain > 0 else heapq.heappop(heap)
            continue
        heapq.heappop(heap)
        sources.append(source)
        served += gain
        _clear_runs(*arrays, source, left)
    return np.array(sources, np.int64), served


# --- compiled kernels -------------------------------------------------------------


@numba.njit(cache=True)
def _gain_bits(row, uncovered):
    gain = np.uint64(0)
    for w in range(len(row)):
        gain += popcount(row[w] & uncovered[w])
    return np.int64(gain)


@numba.njit(cache=True)
def _gain_runs(starts, stops, first, last, uncovered):
    gain = np.uint64(0)
    ones = ~np.uint64(0)
    for r in range(first, last):
        w, end = starts[r] // 64, (stops[r] - 1) // 64
        low = ones << np.uint64(starts[r] % 64)
        high = ones >> np.uint64(63 - (stops[r] - 1) % 64)
        if w == end:
            gain += popcount(uncovered[w] & low & high)
            continue
        gain += popcount(uncovered[w] & low)
        for v in range(w + 1, end):
            gain += popcount(uncovered[v])
        gain += popcount(uncovered[end] & high)
    return np.int64(gain)


@numba.njit(cache=True)
def _fill_buckets(sizes):
    """Linked lists of the sources of each size; returns heads and links."""
    head = np.full((sizes.max() if len(sizes) else 0) + 1, -1, np.int64)
    link = np.empty(len(sizes), np.int64)
    for s in range(len(sizes) - 1, -1, -1):
        link[s] = head[sizes[s]]
        head[sizes[s]] = s
    return head, link


@numba.njit(cache=True)
def _bucket(head, link, gain):
    """Sources whose last known gain is `gain`, lowest index first."""
    n = 0
    s = head[gain]
    while s >= 0:
        n += 1
        s = link[s]
    members = np.empty(n, np.int64)
    s = head[gain]
    for k in range(n):
        members[k] = s
        s = link[s]
    return np.sort(members)


# A bucket is only opened when all higher ones are empty, so within it the first
# source whose gain is still what the bucket says is the one that plain greedy takes.


@numba.njit(cache=True)
def _greedy_bits(words, sizes, uncovered, needed, budget):
    head, link = _fill_buckets(sizes)
    sources = np.empty(min(budget, len(sizes)), np.int64)
    n, served = 0, 0
    for bucket in range(len(head) - 1, 0, -1):
        for s in _bucket(head, link, bucket):
            if served >= needed or n == budget:
                return sources[:n].copy(), served
            gain = _gain_bits(words[s], uncovered)
            if gain < bucket:
                link[s] = head[gain]
                head[gain] = s
                continue
            sources[n] = s
            n += 1
            served += gain
            for w in range(len(uncovered)):
                uncovered[w] &= ~words[s, w]
    return sources[:n].copy(), served


@numba.njit(cache=True)
def _greedy_runs(offsets, starts, stops, sizes, uncovered, needed, budget):
    head, link = _fill_buckets(sizes)
    sources = np.empty(min(budget, len(sizes)), np.int64)
    n, served = 0, 0
    for bucket in range(len(head) - 1, 0, -1):
        for s in _bucket(head, link, bucket):
            if served >= needed or n == budget:
                return sources[:n].copy(), served
            gain = _gain_runs(starts, stops, offsets[s], offsets[s + 1], uncovered)
            if gain < bucket:
                link[s] = head[gain]
                head[gain] = s
                continue
            sources[n] = s
            n += 1
            served += gain
            for r in range(offsets[s], offsets[s + 1]):
                for t in range(starts[r], stops[r]):
                    uncovered[t // 64] &= ~(np.uint64(1) << np.uint64(t % 64))
    return sources[:n].copy(), served


@numba.njit(cache=True)
def _run_sum(offsets, starts, stops, source, values):
    total = 0.0
    for r in range(offsets[source], offsets[source + 1]):
        for t in range(starts[r], stops[r]):
            total += values[t]
    return total


@numba.njit(cache=True)
def _run_sums(offsets, starts, stops, values):
    sums = np.empty(len(offsets) - 1)
    for s in range(len(sums)):
        sums[s] = _run_sum(offsets, starts, stops, s, values)
    return sums


@numba.njit(cache=True)
def _clear_runs(offsets, starts, stops, source, values):
    for r in range(offsets[source], offsets[source + 1]):
        values[starts[r] : stops[r]] = 0
