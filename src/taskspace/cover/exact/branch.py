"""Branch and bound on certified prices: a proof in integers without OR-tools.

Every node solves the covering LP of what is left in floats (HiGHS), but is closed only
by its dual prices, rounded to integers and checked as in `prices`. So nothing rests on
the tolerances of the LP solver: they cost nodes, not truth.
"""

import heapq
import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taskspace._util.clock import Clock
from taskspace.cover.bounds.dual import polished_bound
from taskspace.cover.bounds.prices import PriceBound, cost_units, run_loads
from taskspace.cover.exact.reductions import Core, reduce_problem
from taskspace.cover.solvers import solve_lp
from taskspace.sets import TargetSets


class BranchResult(NamedTuple):
    """Best cover, a lower bound on every cover, and how the search ended.

    Args:
        sources: the cover.
        bound: no cover costs less.
        is_closed: whether no node is left.
        is_final: whether more work would give no other answer.
    """

    sources: NDArray[np.int64] | None
    bound: int
    is_closed: bool
    is_final: bool


class _Node(NamedTuple):
    """A problem of which some sources are decided; the order is that of the heap."""

    bound: int
    number: int
    core: Core
    taken: tuple[int, ...]


def branch_and_bound(
    sets: TargetSets,
    costs: NDArray[np.float64],
    *,
    clock: Clock,
    max_nodes: int,
    start: NDArray[np.int64] | None = None,
    on_bound: Callable[[int], bool] = lambda bound: False,
) -> BranchResult:
    """Minimum cover with integer costs, the least bound first.

    Args:
        sets: the targets that each source serves; each has at least one.
        costs: cost of each source, integers.
        clock: whose time limit counts.
        max_nodes: nodes to look at.
        start: a cover to begin with.
        on_bound: called with each better lower bound; True stops the search.
    """
    root = Core.of(sets, costs)
    best, best_cost = None, int(costs.sum()) + 1
    if start is not None and sets.union(start).all():
        best, best_cost = start, int(costs[start].sum())
    heap, n_nodes, bound = [_Node(0, 0, root, ())], 0, 0
    while heap and clock.left > 0 and n_nodes < 2 * max_nodes:
        node = heapq.heappop(heap)
        if node.bound >= best_cost:  # so are all others
            return BranchResult(best, best_cost, True, True)
        if node.bound > bound:
            bound = node.bound
            if on_bound(bound):
                heapq.heappush(heap, node)
                break
        if not node.core.sets.coverable.all():
            continue
        reduced = reduce_problem(node.core)
        core, taken = reduced.core, (*node.taken, *reduced.forced.tolist())
        spent = int(costs[list(taken)].sum())
        if core.sets.n_targets == 0:
            if spent < best_cost:
                best, best_cost = np.array(sorted(taken), np.int64), spent
            continue
        solved = _solve_lp(core, clock)
        if solved is None:  # out of time, or a failure of the LP solver
            heapq.heappush(heap, node)
            break
        x, prices = solved
        rounded = np.append(taken, core.sources[_round_up(core, x)]).astype(np.int64)
        if int(costs[rounded].sum()) < best_cost:
            best, best_cost = np.sort(rounded), int(costs[rounded].sum())
        if spent + int(prices.value) >= best_cost:
            continue
        low = max(node.bound, spent + int(prices.value))
        useful = _useful(core, prices, best_cost - 1 - spent)
        core, x = core.keep(useful), x[useful]
        if not core.sets.coverable.all():
            continue
        at = int(np.argmin(np.abs(x - 0.5)))
        others = np.arange(len(x)) != at
        decided = [
            (core.keep(others, ~core.sets.row(at)), (*taken, int(core.sources[at]))),
            (core.keep(others), taken),
        ]
        for child, chosen in decided:
            n_nodes += 1
            heapq.heappush(heap, _Node(low, n_nodes, child, chosen))
    if not heap:
        return BranchResult(best, best_cost, True, True)
    bound = max(bound, min(best_cost, *(node.bound for node in heap)))
    is_closed = bound >= best_cost
    return BranchResult(best, bound, is_closed, is_closed)


def _solve_lp(
    core: Core, clock: Clock
) -> tuple[NDArray[np.float64], PriceBound] | None:
    """Return a solution of the covering LP, and the bound that its prices prove."""
    costs = core.costs / core.costs.min()
    solved = solve_lp(core.sets, costs, clock, "highs-ds")
    if solved is None:
        return None
    x, prices = solved
    return x, polished_bound(core.sets, core.costs, prices, "lp")


def _round_up(core: Core, x: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return a cover by sources in descending order of x that serve something new."""
    unserved = np.ones(core.sets.n_targets, bool)
    chosen = []
    for source in np.argsort(-x, kind="stable"):
        row = core.sets.row(int(source))
        if (row & unserved).any():
            chosen.append(source)
            unserved &= ~row
            if not unserved.any():
                break
    return np.array(chosen, np.int64)


def _useful(core: Core, prices: PriceBound, most: int) -> NDArray[np.bool_]:
    """Return sources that a cover of cost `<= most` may hold; see `minimum`."""
    reduced = cost_units(core.costs, prices.shift) - run_loads(core.sets, prices.units)
    room = math.floor(most * Fraction(2) ** prices.shift) - int(prices.units.sum())
    return reduced <= room
