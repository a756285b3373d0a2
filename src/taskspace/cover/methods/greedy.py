"""Greedy cover: take the source that serves the most targets not yet served.

The paper's Algorithm 1, exact to the index, but lazy: a source's gain only shrinks
as targets get served, so an old gain is an upper bound and most sources need no
second look.
"""

import heapq
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.cover.base import Clock, Cover, make_cover
from taskspace.cover.bounds.dual import quick_bound
from taskspace.cover.bounds.partial import coverage_limit, exact_weights, knapsack_bound
from taskspace.cover.bounds.prices import greedy_dual_bound
from taskspace.cover.costs import round_down, scale_costs, total_cost
from taskspace.cover.problem import sets_of
from taskspace.cover.restrictions import restrict
from taskspace.cover.verify.proof import PricedPart, join_prices
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.questions import Question
from taskspace.sets import PackedSets, TargetSets
from taskspace.sets.kernels import popcount

# Above this many (source, target) pairs the better bounds take longer than greedy.
_MAX_QUICK_PAIRS = 1_000_000


def greedy_cover(
    problem: Study | TargetSets,
    question: Question | None = None,
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
    clock = Clock()
    sets = sets_of(problem, question)
    cost = scale_costs(costs, sets.n_sources)
    weights = exact_weights(target_weights, sets.n_targets)
    if share is not None and not 0 <= share <= 1:
        raise InvalidInputError(f"0 <= share <= 1 must hold, but got share={share}.")
    if budget is not None and budget < 0:
        raise InvalidInputError(f"budget >= 0 must hold, but got budget={budget}.")
    limits = restrict(sets.n_sources, include, exclude)
    n_taken = len(limits.include)
    if budget is not None and budget < n_taken:
        raise InvalidInputError(
            f"include must fit into the budget, but got budget={budget} and {n_taken} "
            "sources that must be in."
        )
    claims: dict[str, Any] = {"costs": cost, "clock": clock, "restrictions": limits}
    rest = limits.leave(sets)
    spent = total_cost(cost.values, limits.include)
    costs_left = cost.values[rest.sources]
    # What must be in serves already, and what no allowed source serves stays unserved.
    taken = sets.union(limits.include)
    already = int(weights[taken].sum())
    unserved = np.where(taken, 0, weights) if n_taken else weights
    limit = sets.n_sources if budget is None else min(budget, sets.n_sources) - n_taken
    order = greedy_order(
        rest.sets,
        costs_left,
        unserved,
        share=1.0 if share is None else share,
        budget=limit,
        already=already,
    )
    if order.stop_reason in ("share reached", "budget spent"):
        bound = spent + knapsack_bound(rest.sets, costs_left, unserved, order.goal)
        claims |= {"lower_bound": bound, "lower_bound_kind": "knapsack"}
    else:
        # A target without weight need not be served, and has no price.
        asked = (
            rest.sets
            if (unserved > 0).all()
            else rest.sets.to_runs().keep_targets(unserved > 0)
        )
        if int(asked.sizes.sum()) <= _MAX_QUICK_PAIRS:
            prices = quick_bound(asked, costs_left)
        else:
            prices = greedy_dual_bound(asked, costs_left, order.sources)
        part = PricedPart(prices, np.flatnonzero(unserved > 0))
        claims |= {"lower_bound": spent + prices.value}
        claims |= {"lower_bound_kind": prices.kind, "prices": join_prices(cost, [part])}
    chosen = np.concatenate([limits.include, rest.sources[order.sources]])
    cover = make_cover("greedy", sets, chosen, stop_reason=order.stop_reason, **claims)
    served, total = order.served + already, int(weights.sum())
    cover = replace(cover, missed_share=missed_share(share, served, total))
    if order.stop_reason != "budget spent":
        return cover
    most = coverage_limit(rest.sets, unserved, order.sources, limit) + already
    is_best = served >= most
    return replace(
        cover,
        optimal=is_best,
        # Rounded up, unless it is the coverage itself.
        coverage_bound=cover.coverage
        if target_weights is None and is_best
        else -round_down(-Fraction(most, total)),
    )


class GreedyOrder(NamedTuple):
    """Sources in the order in which greedy takes them, and how far that got.

    Args:
        sources: in the order of selection.
        served: the weight of targets that they serve, of the weights given.
        goal: the weight that decides what "as much" is: where a share was reached,
            what it asks of these weights; else what was served.
        stop_reason: why greedy stopped.
    """

    sources: NDArray[np.int64]
    served: int
    goal: int
    stop_reason: str


def greedy_order(
    sets: TargetSets,
    costs: NDArray[np.float64],
    weights: NDArray[Any],
    *,
    share: float,
    budget: int,
    already: int = 0,
) -> GreedyOrder:
    """Return the selection that `greedy_cover` makes, without the cover around it.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, scaled.
        weights: weight of each target, integers.
        share: as in `greedy_cover`.
        budget: sources to take at most.
        already: weight of other targets, which are served.
    """
    servable = int(weights[sets.coverable].sum())
    asked = needed_weight(share, int(weights.sum()) + already)
    needed = servable if share == 1 else max(0, asked - already)
    is_plain = (weights == 1).all() and (costs == 1).all()
    take = _unicost_order if is_plain else _weighted_order
    sources, served = take(sets, costs, weights, needed, budget)
    if share < 1 and served >= needed:
        return GreedyOrder(sources, served, needed, "share reached")
    if served < min(needed, servable):
        return GreedyOrder(sources, served, served, "budget spent")
    unserved = not sets.coverable.all() and (weights[~sets.coverable] > 0).any()
    reason = "uncoverable targets remain" if unserved else "covered"
    return GreedyOrder(sources, served, served, reason)


def needed_weight(share: float, total: int) -> int:
    """Return the weight that a share asks for.

    Args:
        share: of all target weight.
        total: all target weight, an integer.
    """
    if share == 1:
        return total
    # Relative to the share's own rounding: 0.3 of 10 targets are 3 of them, not 4.
    return math.ceil(Fraction(share) * (1 - Fraction(1, 2**50)) * total)


def missed_share(share: float | None, served: int, total: int) -> float | None:
    """Return the share that was asked for if less is served, else None.

    Args:
        share: of all target weight; None where no share was asked for.
        served: weight of the targets that are served.
        total: all target weight.
    """
    is_missed = share is not None and served < needed_weight(share, total)
    return share if is_missed else None


def greedy_sources(sets: TargetSets, costs: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return sources of greedy's cover of everything, in the order of selection.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, scaled.
    """
    weights = np.ones(sets.n_targets, np.int64)
    n = sets.n_sources
    return greedy_order(sets, costs, weights, share=1.0, budget=n).sources


def _unicost_order(
    sets: TargetSets,
    costs: NDArray[np.float64],
    weights: NDArray[Any],
    needed: int,
    budget: int,
) -> tuple[NDArray[np.int64], int]:
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


def _weighted_order(
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
    left = np.maximum(floats, np.where(weights > 0, 1e-300, 0.0))
    gains = _run_sums(*arrays, left) / costs
    heap = [(-gain, source) for source, gain in enumerate(gains.tolist()) if gain > 0]
    heapq.heapify(heap)
    sources: list[int] = []
    served = 0
    while heap and served < needed and len(sources) < budget:
        source = heap[0][1]
        gain = _run_sum(*arrays, source, left)
        key = (-gain / costs[source], source)
        if key > heap[0]:
            heapq.heapreplace(heap, key) if gain > 0 else heapq.heappop(heap)
            continue
        heapq.heappop(heap)
        sources.append(source)
        new = sets.row(source)
        served += int(exact[new].sum())
        exact[new] = 0
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
