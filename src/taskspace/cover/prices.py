r"""Lower bounds from dual prices, exact in spite of floating point.

Prices $y_t \ge 0$ on targets are feasible if no source's targets cost more than the
source: $\sum_{t \in S_s} y_t \le c_s$. Then no cover costs less than $\sum_t y_t$,
whatever method made the prices. So a bound needs no trust in its method: here the
prices are rounded to integers, checked with integer arithmetic, and only then summed.
"""

import math

import numba
import numpy as np
from numpy.typing import NDArray

from taskspace.cover.base import has_whole_costs
from taskspace.sets import RunSets, TargetSets


def certified_bound(
    sets: TargetSets, costs: NDArray[np.float64], prices: NDArray[np.float64]
) -> float:
    """The lower bound that prices prove, after scaling them to feasibility.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source.
        prices: any numbers `>= 0`, one for each target; their scale does not matter.

    Returns:
        A number that no cover of all coverable targets can cost less than; rounded
        up to an integer where all costs are integers.
    """
    units, shift = certified_prices(sets, costs, prices)
    return price_total(units, shift, costs)


def price_total(
    units: NDArray[np.int64], shift: int, costs: NDArray[np.float64]
) -> float:
    """Bound of feasible prices `units / 2**shift`."""
    total = int(units.sum())
    if has_whole_costs(costs):
        return -(-total >> shift)
    return max(0.0, math.nextafter(total / 2**shift, 0.0))


def certified_prices(
    sets: TargetSets, costs: NDArray[np.float64], prices: NDArray[np.float64]
) -> tuple[NDArray[np.int64], int]:
    """Feasible integer prices in units of `2**-shift`, and the shift."""
    runs = sets.to_runs()
    shift = price_shift(sets, costs)
    capacity = cost_units(costs, shift)
    prices = np.where(sets.coverable, np.maximum(np.nan_to_num(prices), 0.0), 0.0)
    loads = run_loads(runs, prices)
    peak = float(np.max(loads / costs, initial=0.0))
    if peak <= 0:
        return np.zeros(sets.n_targets, np.int64), shift
    # Scaling by a power of two is exact; the division is not, hence the loop below.
    units = np.floor(prices / peak * 2.0**shift).astype(np.int64)
    np.minimum(units, capacity.max(), out=units)
    while True:
        loads = run_loads(runs, units)
        if not (loads > capacity).any():
            return units, shift
        excess = float(np.max(loads / capacity))
        units = np.floor(units / (excess * (1 + 1e-12))).astype(np.int64)


def price_shift(sets: TargetSets, costs: NDArray[np.float64]) -> int:
    """The finest unit in which no sum of prices overflows 62 bits."""
    largest = float(costs.max(initial=1.0)) * max(1, sets.n_targets)
    return max(0, min(46, 61 - math.ceil(math.log2(largest))))


def cost_units(costs: NDArray[np.float64], shift: int) -> NDArray[np.int64]:
    """Costs in units of `2**-shift`, rounded down, at least 1."""
    return np.maximum(np.floor(costs * 2.0**shift).astype(np.int64), 1)


def run_loads(runs: RunSets, prices: NDArray) -> NDArray:
    """For each source the sum of the prices of its targets; exact for integers."""
    prefix = np.zeros(runs.n_targets + 1, prices.dtype)
    np.cumsum(prices, out=prefix[1:])
    return sum_runs(*runs.arrays, prefix)


def size_bound(sets: TargetSets, costs: NDArray[np.float64]) -> float:
    """Coverable targets over the largest set: the same price for every target."""
    if (costs == 1).all():
        return -(-int(sets.coverable.sum()) // max(1, int(sets.sizes.max(initial=0))))
    return certified_bound(sets, costs, np.ones(sets.n_targets))


def greedy_dual_bound(
    sets: TargetSets, costs: NDArray[np.float64], sources: NDArray[np.int64]
) -> tuple[float, str]:
    """Bound from greedy's own prices: cost per newly served target (Chvatal 1979).

    The price sums to greedy's cost; instead of dividing by the worst case
    H(max|S|), it is divided by the load that really occurs.
    """
    prices = np.zeros(sets.n_targets)
    for source in sources:
        new = sets.row(int(source)) & (prices == 0)
        prices[new] = costs[source] / max(1, int(new.sum()))
    bounds = {
        "size": size_bound(sets, costs),
        "greedy dual": certified_bound(sets, costs, prices),
    }
    kind = max(bounds, key=lambda name: bounds[name])
    return bounds[kind], kind


def knapsack_bound(
    sets: TargetSets,
    costs: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    served: float,
) -> float:
    """Least cost of sources whose sets would have the weight `served` if disjoint."""
    gains = sets.sizes if weights is None else run_loads(sets.to_runs(), weights)
    order = np.argsort(-(gains / costs), kind="stable")
    # Float weights: ask for a trifle less, so that the bound stays below the truth.
    served = served if weights is None else served * (1 - 1e-9)
    reached = np.cumsum(gains[order])
    n_whole = int(np.searchsorted(reached, served))
    spent = float(costs[order[:n_whole]].sum())
    before = float(reached[n_whole - 1]) if n_whole else 0.0
    if before < served and n_whole < len(order):
        last = order[n_whole]
        spent += float(costs[last]) * (served - before) / float(gains[last])
    spent *= 1 - 1e-12
    return math.ceil(spent - 1e-9) if has_whole_costs(costs) else spent


@numba.njit(cache=True, nogil=True)
def sum_runs(offsets, starts, stops, prefix):
    """Sum over each source's runs of `prefix[stop] - prefix[start]`."""
    sums = np.zeros(len(offsets) - 1, prefix.dtype)
    for s in range(len(sums)):
        total = prefix[0]
        for r in range(offsets[s], offsets[s + 1]):
            total += prefix[stops[r]] - prefix[starts[r]]
        sums[s] = total
    return sums


@numba.njit(cache=True, nogil=True)
def multiply_runs(offsets, starts, stops, values):
    """For each source the sum of `values` over its targets, in floats."""
    prefix = np.empty(len(values) + 1)
    prefix[0] = 0.0
    for i in range(len(values)):
        prefix[i + 1] = prefix[i] + values[i]
    return sum_runs(offsets, starts, stops, prefix)
