r"""Lower bounds on the cost of any cover, each by name.

All but the size bound are dual prices (see `prices`), made by methods of growing
effort and all checked in integer arithmetic before they count. In growing strength:
`size`, `packing`, `dual ascent`, `primal-dual`, `lp`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.clock import Clock
from taskspace.cover.bounds.prices import (
    PriceBound,
    best_bound,
    certified_bound,
    certified_prices,
    cost_units,
    price_total,
    run_loads,
    size_bound,
)
from taskspace.cover.bounds.primal_dual import PrimalDual
from taskspace.cover.costs import scale_costs
from taskspace.cover.solvers import solve_lp
from taskspace.errors import UnknownNameError
from taskspace.sets import TargetSets

# Beyond this many (source, target) pairs only bounds that look at runs are tried.
MAX_PAIRS = 200_000_000
# The LP by an interior-point method takes minutes beyond this many pairs.
MAX_LP_PAIRS = 2_000_000


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
    zero = np.zeros(sets.n_targets)
    units, shift = certified_prices(sets, costs, zero)
    order = np.argsort(sets.inverse.sizes, kind="stable")
    candidates = []
    for trial in (order, order[::-1].copy()):
        raised = ascend(sets, costs, units, shift, trial)
        value = price_total(raised, shift, costs)
        candidates.append(PriceBound(value, "dual ascent", raised, shift))
    return best_bound(candidates)


def polished_bound(
    sets: TargetSets, costs: NDArray[np.float64], prices: NDArray[np.float64], kind: str
) -> PriceBound:
    """Bound of prices scaled to feasibility and then raised where there is room.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, scaled.
        prices: numbers `>= 0`, one for each target; their scale does not matter.
        kind: the name of the bound.
    """
    units, shift = certified_prices(sets, costs, prices)
    order = np.argsort(sets.inverse.sizes, kind="stable")
    units = ascend(sets, costs, units, shift, order)
    return PriceBound(price_total(units, shift, costs), kind, units, shift)


def ascend(
    sets: TargetSets,
    costs: NDArray[np.float64],
    units: NDArray[np.int64],
    shift: int,
    order: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Feasible integer prices raised, in the given order of targets, to the limit.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, scaled.
        units: feasible prices in units of `2**-shift`.
        shift: of the unit.
        order: targets in the order in which their prices are raised.
    """
    slack = cost_units(costs, shift) - run_loads(sets, units)
    return _ascend(*sets.inverse.arrays, slack, units.copy(), order)


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
