r"""Lower bounds from dual prices, exact in spite of floating point.

Prices $y_t \ge 0$ on targets are feasible if no source's targets cost more than the
source: $\sum_{t \in S_s} y_t \le c_s$. Then no cover costs less than $\sum_t y_t$,
whatever method made the prices. So a bound needs no trust in its method: here the
prices are rounded to integers, checked with integer arithmetic, and only then summed.
Costs are rounded down to these integers, to nothing if need be: a price too low makes
a bound weaker, a cost too high would make it false.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.clock import Clock
from taskspace.cover.costs import (
    Costs,
    Exact,
    has_whole_costs,
    integer_array,
    scale_costs,
)
from taskspace.cover.cover import PriceProof
from taskspace.cover.lp import PrimalDual, solve_lp
from taskspace.errors import UnknownNameError
from taskspace.sets import TargetSets, multiply_runs

# Above this many (source, target) pairs only bounds that look at runs are tried.
MAX_PAIRS = 200_000_000
# The LP by an interior-point method takes minutes beyond this many pairs.
MAX_LP_PAIRS = 2_000_000
_MAX_PREFIXES = 64  # of a selection that are tried for a bound on its coverage
_TOP = 2.0**61  # no sum of prices exceeds it, nor does a rounded cost


class PriceBound(NamedTuple):
    """A lower bound and the feasible prices that prove it.

    Args:
        value: no cover of all coverable targets costs less.
        kind: which method made the prices.
        units: the price of each target, in units of `2**-shift` of scaled cost.
        shift: of the unit; may be negative.
    """

    value: Exact
    kind: str
    units: NDArray[np.int64]
    shift: int


def certified_bound(
    sets: TargetSets,
    costs: NDArray[np.float64],
    prices: NDArray[np.float64],
    kind: str,
    order: NDArray[np.int64] | None = None,
) -> PriceBound:
    """Return the lower bound that prices prove, after scaling them to feasibility.

    It is rounded up to an integer where all costs are integers.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, scaled.
        prices: any numbers `>= 0`, one for each target; their scale does not matter.
        kind: the name of the bound.
        order: targets whose prices are then raised, in this order, as far as there is
            room; None raises none.
    """
    units, shift = _certified_prices(sets, costs, prices)
    if order is not None:
        slack = cost_units(costs, shift) - run_loads(sets, units)
        units = _ascend(*sets.inverse.arrays, slack, units.copy(), order)
    total = int(units.sum()) / Fraction(2) ** shift
    value = math.ceil(total) if has_whole_costs(costs) else total
    return PriceBound(value, kind, units, shift)


def polished_bound(
    sets: TargetSets, costs: NDArray[np.float64], prices: NDArray[np.float64], kind: str
) -> PriceBound:
    """Return the bound of prices, raised for targets of the fewest sources first.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, scaled.
        prices: numbers `>= 0`, one for each target; their scale does not matter.
        kind: the name of the bound.
    """
    order = np.argsort(sets.inverse.sizes, kind="stable")
    return certified_bound(sets, costs, prices, kind, order)


def useful_sources(
    sets: TargetSets, costs: NDArray[np.float64], bound: PriceBound, most: Exact
) -> NDArray[np.bool_]:
    """Return the sources that a cover of cost `<= most` may hold.

    With feasible prices y, a cover that holds source s costs at least
    sum(y) + c_s − load_s.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, scaled.
        bound: the prices.
        most: the cost.
    """
    reduced = cost_units(costs, bound.shift) - run_loads(sets, bound.units)
    room = math.floor(most * Fraction(2) ** bound.shift) - int(bound.units.sum())
    return reduced <= room


def _certified_prices(
    sets: TargetSets, costs: NDArray[np.float64], prices: NDArray[np.float64]
) -> tuple[NDArray[np.int64], int]:
    """Return feasible integer prices in units of `2**-shift`, and the shift."""
    limits = _price_limits(sets, costs)
    shift = _price_shift(limits, costs)
    capacity = cost_units(costs, shift)
    prices = np.where(sets.coverable, np.maximum(np.nan_to_num(prices), 0.0), 0.0)
    peak = float(np.max(run_loads(sets, prices) / costs, initial=0.0))
    if peak <= 0:
        return np.zeros(sets.n_targets, np.int64), shift
    # Neither division nor float loads are exact, hence the loop below.
    units = cost_units(np.minimum(prices / peak, limits), shift)
    units[sets.union(np.flatnonzero(capacity == 0))] = 0
    while True:
        loads = run_loads(sets, units)
        if not (loads > capacity).any():
            return units, shift
        excess = float(np.max(loads / np.maximum(capacity, 1)))
        # A trifle more, so that rounding cannot leave the units as they are.
        units = np.floor(units / (excess * (1 + 1e-12))).astype(np.int64)


def _price_limits(sets: TargetSets, costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cost of the cheapest source of each target, which limits its price."""
    if not len(costs):
        return np.zeros(sets.n_targets)
    if (costs == costs[0]).all() or int(sets.sizes.sum()) > MAX_PAIRS:
        return np.full(sets.n_targets, float(costs.max()))
    limits = _cheapest(*sets.arrays, costs, np.full(sets.n_targets, np.inf))
    return np.where(np.isinf(limits), 0.0, limits)


def _price_shift(limits: NDArray[np.float64], costs: NDArray[np.float64]) -> int:
    """Return the finest unit in which no sum of prices overflows 62 bits."""
    finest = 61 - math.ceil(math.log2(float(limits.sum()) or 1.0))
    # Float prices have 53 bits: beyond 46 after the point whole costs gain nothing.
    return min(46, finest) if has_whole_costs(costs) else finest


def cost_units(costs: NDArray[np.float64], shift: int) -> NDArray[np.int64]:
    """Costs in units of `2**-shift`, rounded down; at most the sum of all prices.

    Args:
        costs: cost of each source, scaled.
        shift: of the unit; may be negative.
    """
    with np.errstate(over="ignore"):
        return np.minimum(np.floor(np.ldexp(costs, shift)), _TOP).astype(np.int64)


def run_loads(runs: TargetSets, prices: NDArray) -> NDArray:
    """For each source the sum of the prices of its targets; exact for integers.

    Args:
        runs: the targets that each source serves.
        prices: one number for each target.
    """
    if prices.dtype != object:  # integers beyond 64 bits
        return multiply_runs(runs.arrays, prices)
    zero = np.zeros(1, prices.dtype)
    prefix = np.concatenate([zero, np.cumsum(prices, dtype=prices.dtype)])
    parts = prefix[runs.stops] - prefix[runs.starts]
    until = np.concatenate([zero, np.cumsum(parts, dtype=prices.dtype)])
    return np.diff(until[runs.offsets])


def size_bound(sets: TargetSets, costs: NDArray[np.float64]) -> PriceBound:
    """Coverable targets over the largest set: the same price for every target.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, scaled.
    """
    return certified_bound(sets, costs, np.ones(sets.n_targets), "size")


def greedy_dual_bound(
    sets: TargetSets, costs: NDArray[np.float64], sources: NDArray[np.int64]
) -> PriceBound:
    """Bound from greedy's own prices: cost per newly served target (Chvatal 1979).

    The price sums to greedy's cost; instead of dividing by the worst case
    H(max|S|), it is divided by the load that really occurs.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, scaled.
        sources: greedy's selection, in its order.
    """
    prices = np.zeros(sets.n_targets)
    for source in sources:
        new = sets.row(int(source)) & (prices == 0)
        prices[new] = costs[source] / max(1, int(new.sum()))
    return best_bound(
        [size_bound(sets, costs), certified_bound(sets, costs, prices, "greedy dual")]
    )


def best_bound(bounds: list[PriceBound]) -> PriceBound:
    """Return the largest of some bounds, the first of equals.

    Args:
        bounds: at least one.
    """
    return max(bounds, key=lambda bound: bound.value)


def join_prices(
    costs: Costs,
    parts: Iterable[tuple[PriceBound, NDArray[np.int64]]],
    forced: Sequence[tuple[int, float]] = (),
) -> PriceProof:
    """Return the prices of a problem from those of its parts.

    Args:
        costs: the costs of all sources.
        parts: prices of parts that share no source, each with its targets, as the
            whole problem numbers them.
        forced: for each source that reductions took a target that only it could
            serve, and its cost. No source serves two of these, or one of these and a
            target of a part, unless a better source does too.

    Returns:
        Feasible prices for the whole problem.
    """
    pieces = [(_shortest(bound, costs.is_whole), targets) for bound, targets in parts]
    shift = max([0, *(bound.shift for bound, _ in pieces)])
    exact = [Fraction(cost) for _, cost in forced]
    shift = max([shift, *(cost.denominator.bit_length() - 1 for cost in exact)])
    targets, units = [], []
    for bound, names in pieces:
        priced = np.flatnonzero(bound.units)
        targets += names[priced].tolist()
        units += [n << (shift - bound.shift) for n in bound.units[priced].tolist()]
    targets += [target for target, _ in forced]
    units += [int(cost * 2**shift) for cost in exact]
    order = np.argsort(np.array(targets, np.int64), kind="stable")
    return PriceProof(
        unit=costs.unit,
        shift=shift,
        is_whole=costs.is_whole,
        targets=np.array(targets, np.int64)[order],
        units=integer_array(units)[order],
    )


def _shortest(bound: PriceBound, shorten: bool) -> PriceBound:
    """Return the same bound with as few digits as it needs, where it is rounded up."""
    if not shorten:
        return bound
    for drop in range(bound.shift, 0, -1):
        units = bound.units >> drop  # rounded down: as feasible as before
        shift = bound.shift - drop
        if -(-int(units.sum()) >> shift) >= bound.value:
            return bound._replace(units=units, shift=shift)
    return bound


# --- covers of a part: what a share costs at least, what a budget can serve ---------


def knapsack_bound(
    sets: TargetSets,
    costs: NDArray[np.float64],
    weights: NDArray[Any],
    needed: int,
) -> Exact:
    r"""Least cost of sources whose sets would weigh `needed` if they were disjoint.

    For every rate $\lambda \ge 0$, sources $X$ of that weight cost at least
    $\lambda\,\mathrm{needed} - \sum_s \max(0, \lambda g_s - c_s)$; the best rate is
    that of the last source which fractional filling takes.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, scaled.
        weights: weight of each target, as `exact_weights` gives them.
        needed: weight to serve, `<=` that of all coverable targets.
    """
    if needed <= 0:
        return 0
    gains = run_loads(sets, weights)
    useful = np.flatnonzero(gains > 0)
    largest = max(gains[useful].tolist())
    shares = [float(Fraction(int(gain), largest)) for gain in gains[useful].tolist()]
    ratios = np.array(shares) / costs[useful]
    order = useful[np.argsort(-ratios, kind="stable")]
    filled, n_taken = 0, 0
    for gain in gains[order].tolist():
        filled += gain
        n_taken += 1
        if filled >= needed:
            break
    last = order[n_taken - 1]
    rate = Fraction(float(costs[last])) / int(gains[last])
    # Whichever source gains from the rate is among the first; ratios that floats
    # cannot tell apart from the last one's are looked at too.
    least = (1 - 2.0**-40) * ratios[np.searchsorted(useful, last)]
    candidates = useful[ratios >= least]
    surplus = sum(
        max(Fraction(0), rate * int(gains[s]) - Fraction(float(costs[s])))
        for s in candidates
    )
    bound = max(Fraction(0), rate * needed - surplus)
    return math.ceil(bound) if has_whole_costs(costs) else bound


def coverage_limit(
    sets: TargetSets,
    weights: NDArray[Any],
    sources: Iterable[int],
    budget: int,
) -> tuple[int, PriceProof]:
    """Return a weight of targets that no selection of `budget` sources exceeds.

    What a selection serves beyond any given sources is at most the sum of the
    `budget` largest gains beyond them (coverage is submodular); the given sources are
    the beginnings of `sources`. As prices: the weights of what a beginning leaves.

    Args:
        sets: the targets that each source serves.
        weights: weight of each target, as `exact_weights` gives them.
        sources: a good selection.
        budget: number of sources.
    """
    rest = np.where(sets.coverable, weights, 0)
    limit, best = int(rest.sum()), np.zeros_like(rest)
    served, chosen = 0, list(sources)
    tried = {round(k) for k in np.linspace(0, len(chosen), _MAX_PREFIXES)}
    for k in range(len(chosen) + 1):
        if k in tried:
            gains = np.sort(run_loads(sets, rest))[::-1]
            most = served + int(gains[:budget].sum())
            if most < limit:
                limit, best = most, rest.copy()
        if k < len(chosen):
            new = sets.row(int(chosen[k]))
            served += int(rest[new].sum())
            rest[new] = 0
    priced = np.flatnonzero(best)
    return limit, PriceProof(Fraction(1), 0, True, priced, best[priced])


# --- compiled kernels -------------------------------------------------------------


@numba.njit(cache=True, nogil=True)
def _cheapest(offsets, starts, stops, costs, cheapest):
    """For each target the least cost of a source that serves it."""
    for s in range(len(costs)):
        for r in range(offsets[s], offsets[s + 1]):
            for t in range(starts[r], stops[r]):
                cheapest[t] = min(cheapest[t], costs[s])
    return cheapest


# Lower bounds on the cost of any cover, each by name. All but the size bound are dual
# prices (see `prices`), made by methods of growing effort and all checked in integer
# arithmetic before they count. In growing strength: `size`, `packing`, `dual ascent`,
# `primal-dual`, `lp`.


@dataclass(frozen=True)
class LowerBound:
    """A bound and what it took.

    Args:
        kind: its name.
        value: no cover costs less; an integer where all costs are.
        seconds: wall-clock time.
    """

    kind: str
    value: float
    seconds: float


def lower_bounds(
    sets: TargetSets,
    *,
    costs: ArrayLike | None = None,
    kinds: Sequence[str] | None = None,
    time_limit: float = 10.0,
) -> list[LowerBound]:
    """Lower bounds on the cost of covering all coverable targets.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, `> 0`; all 1 where not given.
        kinds: names from `BOUND_KINDS`; all of them where not given.
        time_limit: processor seconds for each bound that takes its time.

    Returns:
        One valid bound for each kind; 0 where a method found none in time.
    """
    cost = scale_costs(costs, sets.n_sources)
    chosen = list(BOUND_KINDS) if kinds is None else list(kinds)
    unknown = [kind for kind in chosen if kind not in BOUND_KINDS]
    if unknown:
        raise UnknownNameError("bound", unknown[0], BOUND_KINDS)
    core = sets.keep_targets(sets.coverable)
    bounds = []
    for kind in chosen:
        clock = Clock(time_limit)
        bound = BOUND_KINDS[kind](core, cost.values, clock) if core.n_targets else None
        value = 0 if bound is None else cost.in_unit(bound.value)
        bounds.append(LowerBound(kind, value, clock.seconds))
    return bounds


def quick_bound(sets: TargetSets, costs: NDArray[np.float64]) -> PriceBound:
    """Return the best of the bounds that take milliseconds.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, scaled.

    Returns:
        The bound and its prices, one for each target of `sets`.
    """
    core = sets
    if not sets.coverable.all():
        core = core.keep_targets(sets.coverable)
    bounds = [size_bound(core, costs)]
    if 0 < int(core.sizes.sum()) <= MAX_PAIRS:
        bounds += [packing_bound(core, costs), dual_ascent_bound(core, costs)]
    best = best_bound(bounds)
    units = np.zeros(sets.n_targets, np.int64)
    units[sets.coverable] = best.units
    return best._replace(units=units)


def packing_bound(sets: TargetSets, costs: NDArray[np.float64]) -> PriceBound:
    """Targets of which no source serves two: each needs a source of its own.

    The price of such a target is the cost of the cheapest source that serves it.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, scaled.
    """
    inverse = sets.inverse
    order = np.argsort(inverse.sizes, kind="stable")
    prices = _pack_targets(*sets.arrays, *inverse.arrays, costs, order)
    return certified_bound(sets, costs, prices, "packing")


def dual_ascent_bound(sets: TargetSets, costs: NDArray[np.float64]) -> PriceBound:
    """Raise one price after the other as far as the costs allow.

    The best of two orders: fewest sources first, and last.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, scaled.
    """
    zero, order = (
        np.zeros(sets.n_targets),
        np.argsort(sets.inverse.sizes, kind="stable"),
    )
    return best_bound(
        [
            certified_bound(sets, costs, zero, "dual ascent", trial)
            for trial in (order, order[::-1].copy())
        ]
    )


def _lp_bound(
    sets: TargetSets, costs: NDArray[np.float64], clock: Clock
) -> PriceBound | None:
    if int(sets.sizes.sum()) > MAX_LP_PAIRS:
        return None
    solved = solve_lp(sets, costs, clock, "highs-ipm")
    return None if solved is None else polished_bound(sets, costs, solved[1], "lp")


def _primal_dual_bound(
    sets: TargetSets, costs: NDArray[np.float64], clock: Clock
) -> PriceBound:
    solver = PrimalDual(sets, costs)
    solver.run(clock, max_iterations=10**9)
    return polished_bound(sets, costs, solver.prices, "primal-dual")


BoundMethod = Callable[[TargetSets, NDArray[np.float64], Clock], PriceBound | None]

BOUND_KINDS: dict[str, BoundMethod] = {
    "size": lambda sets, costs, _: size_bound(sets, costs),
    "packing": lambda sets, costs, _: packing_bound(sets, costs),
    "dual ascent": lambda sets, costs, _: dual_ascent_bound(sets, costs),
    "primal-dual": _primal_dual_bound,
    "lp": _lp_bound,
}


@numba.njit(cache=True)
def _pack_targets(s_off, s_sta, s_sto, t_off, t_sta, t_sto, costs, order):
    taken = np.zeros(len(s_off) - 1, np.bool_)  # sources that serve a packed target
    prices = np.zeros(len(order))
    for t in order:
        free = True
        cheapest = np.inf
        for r in range(t_off[t], t_off[t + 1]):
            for s in range(t_sta[r], t_sto[r]):
                free &= not taken[s]
                cheapest = min(cheapest, costs[s])
        if free and cheapest < np.inf:
            prices[t] = cheapest
            for r in range(t_off[t], t_off[t + 1]):
                taken[t_sta[r] : t_sto[r]] = True
    return prices


@numba.njit(cache=True)
def _ascend(t_off, t_sta, t_sto, slack, units, order):
    for t in order:
        room = np.int64(2**62)
        for r in range(t_off[t], t_off[t + 1]):
            for s in range(t_sta[r], t_sto[r]):
                room = min(room, slack[s])
        if t_off[t] == t_off[t + 1] or room <= 0:
            continue
        units[t] += room
        for r in range(t_off[t], t_off[t + 1]):
            for s in range(t_sta[r], t_sto[r]):
                slack[s] -= room
    return units
