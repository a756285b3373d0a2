r"""Covers with spares: each target served by as many sources as it needs.

With $r_t$ the sources that target t needs, prices $y_t \ge 0$ prove more here than in
a plain cover, because no source can be taken twice: every selection costs at least

$$\sum_t r_t y_t - \sum_s \max\big(0, \sum_{t \in S_s} y_t - c_s\big),$$

the dual of the covering LP with $0 \le x \le 1$. As in `prices`, whatever made them,
they are rounded to integers and what they prove is computed in integers.
"""

import heapq
import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taskspace.cover.base import Clock
from taskspace.cover.bounds import MAX_LP_PAIRS, lp_prices, quick_bound
from taskspace.cover.costs import Costs, Exact, has_whole_costs, total_cost
from taskspace.cover.exact import (
    MAX_EXACT_PAIRS,
    has_cp_sat,
    search_milp,
    solve_exact,
)
from taskspace.cover.prices import PriceBound, cost_units, multiply_runs, run_loads
from taskspace.cover.primal_dual import PrimalDual
from taskspace.cover.restrictions import Rest, count_servers
from taskspace.progress import Progress
from taskspace.sets import RunSets, TargetSets

__all__ = ["Spared", "copies_bound", "greedy_spared", "minimum_copies"]

_BITS = 60  # of the largest sum of prices


class Spared(NamedTuple):
    """A selection of free sources and what is proven of it.

    Args:
        sources: the selection, as places among the free sources.
        lower: no selection that serves as often costs less, scaled.
        kind: where the bound comes from.
        prices: what proves it, or a smaller bound; one for each target.
    """

    sources: NDArray[np.int64]
    lower: Exact
    kind: str
    prices: PriceBound


def greedy_copies(
    sets: TargetSets,
    costs: NDArray[np.float64],
    needed: NDArray[np.int64],
    weights: NDArray[np.float64] | None = None,
) -> NDArray[np.int64]:
    """Sources taken by the largest gain per cost, ties to the lowest index.

    The gain is the number (weight) of targets that need a source more and get it.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, scaled.
        needed: sources that each target needs, at most as many as serve it.
        weights: weight of each target, 1 where not given.
    """
    left = needed.copy()
    worth = np.ones(len(needed)) if weights is None else weights
    gains = multiply_runs(sets.to_runs().arrays, worth * (left > 0)) / costs
    heap = [(-gain, s) for s, gain in enumerate(gains.tolist()) if gain > 0]
    heapq.heapify(heap)
    chosen: list[int] = []
    while heap and (left > 0).any():
        source = heap[0][1]
        new = sets.row(source) & (left > 0)
        gain = float(worth[new].sum())
        key = (-gain / costs[source], source)
        if key > heap[0]:
            heapq.heapreplace(heap, key) if gain > 0 else heapq.heappop(heap)
            continue
        heapq.heappop(heap)
        chosen.append(source)
        left[new] -= 1
    return np.array(chosen, np.int64)


def drop_spare(
    sets: TargetSets,
    costs: NDArray[np.float64],
    needed: NDArray[np.int64],
    sources: NDArray[np.int64],
) -> NDArray[np.int64]:
    """A selection without sources that no target needs, the dearest dropped first.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, scaled.
        needed: sources that each target needs.
        sources: a selection that serves so often.
    """
    spare = count_servers(sets.subset(sources)) - needed
    kept = sources.tolist()
    for source in sorted(kept, key=lambda s: (-costs[s], sets.sizes[s], s)):
        row = sets.row(source)
        if not row.any() or spare[row].min() > 0:
            spare[row] -= 1
            kept.remove(source)
    return np.array(kept, np.int64)


def copies_bound(
    sets: TargetSets,
    costs: NDArray[np.float64],
    needed: NDArray[np.int64],
    prices: NDArray[np.float64],
    kind: str,
) -> PriceBound:
    """The bound that prices prove; see the top of this file.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, scaled.
        needed: sources that each target needs.
        prices: numbers `>= 0` in units of scaled cost, one for each target.
        kind: the name of the bound.
    """
    largest = float(costs.max(initial=0.0))
    most = largest * float(needed.sum()) or 1.0
    shift = _BITS - math.ceil(math.log2(most)) - 1
    if has_whole_costs(costs):
        shift = min(46, shift)
    # Beyond the dearest source's cost a price gains nothing.
    fit = np.where(needed > 0, np.clip(np.nan_to_num(prices), 0.0, largest), 0.0)
    units = cost_units(fit, shift)
    excess = run_loads(sets.to_runs(), units) - cost_units(costs, shift)
    total = int((needed * units).sum()) - sum(excess[excess > 0].tolist())
    value = max(Fraction(0), total / Fraction(2) ** shift)
    if has_whole_costs(costs):
        value = math.ceil(value)
    return PriceBound(value, kind, units, shift)


def minimum_copies(
    rest: Rest,
    costs: Costs,
    clock: Clock,
    seed: int,
    progress: Progress | None = None,
    spent: Exact = 0,
) -> Spared:
    """The cheapest selection of free sources that serves often enough, with its bound.

    Greedy without what is not needed; the LP with `x <= 1` or, on large data, prices
    of the plain cover; then an exact solver. Without OR-tools the cover is SciPy's
    and the bound stays that of the prices.

    Args:
        rest: the free sources and how often each target must be served.
        costs: cost of every source of the whole problem.
        clock: whose time limit counts.
        seed: of the exact solver.
        progress: called now and then with where the search stands.
        spent: scaled cost of what is selected already, for `progress`.
    """
    sets, needed = rest.sets, rest.needed
    cost = costs.values[rest.sources]
    best = drop_spare(sets, cost, needed, greedy_copies(sets, cost, needed))
    bound = copies_bound(sets, cost, needed, *_quick(sets, cost, needed))

    def report(phase: str) -> None:
        if progress is not None:
            high = costs.in_unit(spent + total_cost(cost, best))
            low = costs.in_unit(spent + bound.value)
            progress("search", low, high, phase)

    def is_solved() -> bool:
        return bound.value >= total_cost(cost, best)

    asked = needed > 0
    core = sets.to_runs().keep_targets(asked)
    n_pairs = int(core.sizes.sum())
    if not is_solved() and clock.left > 0 and n_pairs:
        report("lower bounds")
        prices = _lp(core, cost, needed[asked], Clock(0.4 * clock.left))
        dense = np.zeros(len(needed))
        dense[asked] = prices[0]
        found = copies_bound(sets, cost, needed, dense, prices[1])
        bound = max(bound, found, key=lambda b: b.value)
    lower, kind = bound.value, bound.kind
    if not is_solved() and clock.left > 0 and n_pairs <= MAX_EXACT_PAIRS:
        report("exact solver")
        start = np.sort(best)
        if has_cp_sat():
            picked, proven = solve_exact(
                core,
                cost,
                time_limit=clock.left,
                seed=seed,
                start=start,
                needed=needed[asked],
            )
            if proven > lower:
                lower, kind = proven, "exact"
        else:
            picked = search_milp(core, cost, clock.left, needed[asked])
        if picked is not None and total_cost(cost, picked) < total_cost(cost, best):
            best = picked
    lower = min(lower, total_cost(cost, best))
    return Spared(np.sort(best), lower, kind, bound)


def greedy_spared(
    rest: Rest, costs: Costs, weights: NDArray[np.float64] | None = None
) -> Spared:
    """Greedy's selection that serves often enough, with a bound of milliseconds.

    Args:
        rest: the free sources and how often each target must be served.
        costs: cost of every source of the whole problem.
        weights: weight of each target, 1 where not given.
    """
    cost = costs.values[rest.sources]
    sources = greedy_copies(rest.sets, cost, rest.needed, weights)
    quick = _quick(rest.sets, cost, rest.needed)
    bound = copies_bound(rest.sets, cost, rest.needed, *quick)
    return Spared(sources, bound.value, bound.kind, bound)


def _quick(
    sets: TargetSets, costs: NDArray[np.float64], needed: NDArray[np.int64]
) -> tuple[NDArray[np.float64], str]:
    """Prices of the plain cover, and high ones where every source is needed."""
    asked = needed > 0
    if not asked.any():
        return np.zeros(len(needed)), "reductions"
    core = sets.to_runs().keep_targets(asked)
    bound = quick_bound(core, costs)
    prices = np.zeros(len(needed))
    prices[asked] = np.ldexp(bound.units.astype(np.float64), -bound.shift)
    able = count_servers(sets)
    forced = asked & (able == needed)
    if not forced.any():
        return prices, bound.kind
    high = np.where(forced, costs.max(), prices)
    found = [(high, "reductions"), (prices, bound.kind)]
    return max(found, key=lambda f: copies_bound(sets, costs, needed, *f).value)


def _lp(
    core: RunSets,
    costs: NDArray[np.float64],
    needed: NDArray[np.int64],
    clock: Clock,
) -> tuple[NDArray[np.float64], str]:
    if int(core.sizes.sum()) <= MAX_LP_PAIRS:
        prices = lp_prices(core, costs, clock.left, needed)
        if prices is not None:
            return prices, "lp"
    # Where all need the same, these are best but for x <= 1.
    solver = PrimalDual(core, costs)
    solver.run(clock, max_iterations=20_000)
    loads = run_loads(core, solver.prices)
    peak = float(np.max(loads / costs, initial=0.0))
    return solver.prices / (peak or 1.0), "primal-dual"
