"""Greedy cover: take the source that serves the most targets not yet served.

The paper's Algorithm 1, exact to the index, but lazy: a source's gain only shrinks
as targets get served, so an old gain is an upper bound and most sources need no
second look.
"""

import heapq
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.clock import Clock
from taskspace.cover.base import Cover
from taskspace.cover.bounds.dual import quick_bound
from taskspace.cover.bounds.prices import (
    coverage_limit,
    greedy_dual_bound,
    join_prices,
    knapsack_bound,
)
from taskspace.cover.methods.registry import cover_method
from taskspace.cover.problem import Instance
from taskspace.performance.study import Study
from taskspace.questions import Question
from taskspace.sets import PackedSets, TargetSets
from taskspace.sets.kernels import popcount

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
    return _count_served(*sets.to_runs().arrays, order, n_servable, served)


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
    instance = Instance.of(
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


def cover_greedily(instance: Instance) -> Cover:
    """Return greedy's cover, with the best bound that takes no longer.

    Args:
        instance: what is asked.
    """
    clock = Clock()
    sets, costs, weights = (
        instance.free_sets,
        instance.free_costs,
        instance.open_weights,
    )
    room = sets.n_sources
    if instance.budget is not None:
        room = min(instance.budget, instance.sets.n_sources) - len(instance.include)
    order = _order(instance, room)
    if order.stop_reason in ("share reached", "budget spent"):
        bound, kind = knapsack_bound(sets, costs, weights, order.goal), "knapsack"
        prices = None
    else:
        # A target without weight need not be served, and has no price.
        counts = weights > 0
        wanted = sets if counts.all() else sets.to_runs().keep_targets(counts)
        if int(wanted.sizes.sum()) <= _MAX_QUICK_PAIRS:
            priced = quick_bound(wanted, costs)
        else:
            priced = greedy_dual_bound(wanted, costs, order.sources)
        bound, kind = priced.value, priced.kind
        prices = join_prices(instance.costs, [(priced, np.flatnonzero(counts))])
    served = order.served + instance.already
    claims: dict[str, Any] = {}
    if order.stop_reason == "budget spent":
        most = coverage_limit(sets, weights, order.sources, room) + instance.already
        claims = {"optimal": served >= most, "most": Fraction(most, instance.total)}
    return instance.cover(
        "greedy",
        np.append(instance.include, instance.free[order.sources]),
        lower_bound=instance.spent + bound,
        lower_bound_kind=kind,
        stop_reason=order.stop_reason,
        clock=clock,
        prices=prices,
        missed_share=instance.missed_share(served),
        **claims,
    )


class _Order(NamedTuple):
    """Sources in the order in which greedy takes them, and how far that got.

    Args:
        sources: in the order of selection, by their places among the free ones.
        served: the weight of targets that they serve.
        goal: the weight that decides what "as much" is: where a share was reached,
            what it asks of them; else what was served.
        stop_reason: why greedy stopped.
    """

    sources: NDArray[np.int64]
    served: int
    goal: int
    stop_reason: str


def _order(instance: Instance, room: int) -> _Order:
    """Return the free sources that greedy takes, so many at most."""
    sets, weights, servable = (
        instance.free_sets,
        instance.open_weights,
        instance.servable,
    )
    share = 1.0 if instance.share is None else instance.share
    asked = servable if share == 1 else max(0, instance.asked - instance.already)
    sources, served = _take(sets, instance.free_costs, weights, asked, room)
    if share < 1 and served >= asked:
        return _Order(sources, served, asked, "share reached")
    if served < min(asked, servable):
        return _Order(sources, served, served, "budget spent")
    is_short = (weights[~sets.coverable] > 0).any()
    reason = "uncoverable targets remain" if is_short else "covered"
    return _Order(sources, served, served, reason)


def greedy_sources(sets: TargetSets, costs: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return sources of greedy's cover of everything, in the order of selection.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, scaled.
    """
    weights, n_coverable = np.ones(sets.n_targets, np.int64), int(sets.coverable.sum())
    return _take(sets, costs, weights, n_coverable, sets.n_sources)[0]


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
    uncovered = _all_ones(sets.n_targets)
    if isinstance(sets, PackedSets):
        order = _greedy_bits(sets.words, sets.sizes, uncovered, needed, budget)
    else:
        arrays = sets.to_runs().arrays
        order = _greedy_runs(*arrays, sets.sizes, uncovered, needed, budget)
    return order[0], int(order[1])


def _all_ones(n_bits: int) -> NDArray[np.uint64]:
    words = np.full(-(-n_bits // 64), ~np.uint64(0))
    if n_bits % 64:
        words[-1] = (np.uint64(1) << np.uint64(n_bits % 64)) - np.uint64(1)
    return words


def _take_weighted(
    sets: TargetSets,
    costs: NDArray[np.float64],
    weights: NDArray[Any],
    needed: int,
    budget: int,
) -> tuple[NDArray[np.int64], int]:
    """Lazy greedy on a heap of (-gain / cost, source)."""
    arrays = sets.to_runs().arrays
    exact = weights.copy()
    # Gains are compared as floats; what has been served is counted without rounding.
    scale = 1 << max(0, int(max(weights.tolist(), default=0)).bit_length() - 53)
    floats = [float(Fraction(n, scale)) for n in weights.tolist()]
    unserved = np.maximum(floats, np.where(weights > 0, 1e-300, 0.0))
    gains = _run_sums(*arrays, unserved) / costs
    heap = [(-gain, source) for source, gain in enumerate(gains.tolist()) if gain > 0]
    heapq.heapify(heap)
    sources: list[int] = []
    served = 0
    while heap and served < needed and len(sources) < budget:
        source = heap[0][1]
        gain = _run_sum(*arrays, source, unserved)
        key = (-gain / costs[source], source)
        if key > heap[0]:
            heapq.heapreplace(heap, key) if gain > 0 else heapq.heappop(heap)
            continue
        heapq.heappop(heap)
        sources.append(source)
        new = sets.row(source)
        served += int(exact[new].sum())
        exact[new] = 0
        _clear_runs(*arrays, source, unserved)
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
    """Return sources whose last known gain is `gain`, lowest index first."""
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
