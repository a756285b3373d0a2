"""Exact search for what reductions and bounds leave open, in integers.

Up to 63 sources are searched source by source, each left out or taken. Larger problems
branch on the linear program: each node solves the program of what is left in floats
(HiGHS), but only dual prices, rounded to integers and checked as in `prices`, close it.
So nothing rests on the tolerances of a solver: they cost nodes, not truth.

Costs that are not multiples of one unit are rounded so that a proof for the rounded
ones is a proof for the true ones: down for every source outside a reference cover R,
up inside it. Then for every cover X

    cost(X) - cost(R) >= rounded(X) - rounded(R),

so if no cover is cheaper than R after rounding, none is cheaper before.
"""

import heapq
import math
from fractions import Fraction
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from taskspace._util.clock import Clock
from taskspace.cover.costs import Exact, total_cost, whole_multiples
from taskspace.cover.lp import interruptible, solve_lp
from taskspace.cover.prices import polished_bound, useful_sources
from taskspace.cover.reductions import Core, reduce_problem
from taskspace.sets import TargetSets

# An exact solver gains nothing in minutes beyond this many (source, target) pairs.
MAX_EXACT_PAIRS = 1_500_000
# Sums of integer costs stay below these: prices of a node need digits after the point,
# the more the finer costs are rounded.
_WHOLE_SUM, _ROUNDED_SUM = 2**46, 2**36
_MAX_ROUNDS = 40  # reference covers that are tried
_MAX_FEW = 63  # sources that fit into the bits of an integer
_NODES, _FEW_NODES = 100, 2_000_000  # nodes per unit of work
_NODES_PER_SECOND = 4e6  # of few sources, so that a time limit ends them


class BranchResult(NamedTuple):
    """Best cover, a lower bound on every cover, and how the search ended.

    Args:
        sources: the cover, None where none was found.
        bound: no cover costs less.
        is_closed: whether more work would give no other answer.
    """

    sources: NDArray[np.int64] | None
    bound: Exact
    is_closed: bool


def solve_exact(
    sets: TargetSets,
    costs: NDArray[np.float64],
    *,
    clock: Clock,
    work: float,
    goal: Exact,
) -> BranchResult:
    """Find the cheapest cover of all targets; some source must serve each.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source.
        clock: whose time limit counts.
        work: nodes to look at, in hundreds.
        goal: a lower bound of this cost is enough.
    """
    if sets.n_targets == 0:
        return BranchResult(np.zeros(0, np.int64), 0, True)
    whole = whole_multiples(costs, _WHOLE_SUM)
    if whole is None:
        return _solve_rounded(sets, costs, clock, work, goal)
    units, unit = whole
    found = _solve_whole(sets, units, clock, work, None, goal / unit)
    return found._replace(bound=found.bound * unit)


def _solve_whole(
    sets: TargetSets,
    units: NDArray[np.float64],
    clock: Clock,
    work: float,
    start: NDArray[np.int64] | None,
    goal: Exact,
) -> BranchResult:
    """Find the cheapest cover where costs are integers."""
    if sets.n_sources <= _MAX_FEW:
        nodes = min(_FEW_NODES * work, _NODES_PER_SECOND * clock.left)
        chosen, is_closed = _search_few(sets, units, int(nodes))
        if is_closed:
            return BranchResult(chosen, int(units[chosen].sum()), True)
        start = chosen
    nodes = int(_NODES * work)
    return branch_and_bound(
        sets, units, clock=clock, start=start, max_nodes=nodes, goal=goal
    )


def _solve_rounded(
    sets: TargetSets,
    costs: NDArray[np.float64],
    clock: Clock,
    work: float,
    goal: Exact,
) -> BranchResult:
    """Costs that are no multiples of one unit: see the top of this file."""
    shift = _ROUNDED_SUM.bit_length() - 2 - math.ceil(math.log2(costs.sum()))
    scaled = np.ldexp(costs, shift)
    unit = 1 / Fraction(2) ** shift
    best, best_cost = None, Fraction(total_cost(costs, np.arange(len(costs)))) + 1
    lower, anchor, rounded = Fraction(0), Fraction(0), 0
    units, is_closed = np.floor(scaled), True
    for _ in range(_MAX_ROUNDS):
        if units.min() == 0:  # prices say nothing of sources that cost nothing
            break
        enough = (goal - anchor) / unit + rounded
        found = _solve_whole(sets, units, clock, work, best, enough)
        lower = max(lower, anchor + (found.bound - rounded) * unit)
        is_closed = found.is_closed
        if found.sources is None:
            break
        cost = Fraction(total_cost(costs, found.sources))
        is_better = cost < best_cost
        if is_better:
            best, best_cost = found.sources, cost
        if not (is_better and is_closed) or lower >= best_cost or clock.left <= 0:
            break
        units = np.floor(scaled)
        units[best] = np.ceil(scaled[best])
        rounded, anchor = int(units[best].sum()), best_cost
    return BranchResult(best, min(lower, best_cost), is_closed)


# --- few sources ------------------------------------------------------------------


def _search_few(
    sets: TargetSets, costs: NDArray[np.float64], max_nodes: int
) -> tuple[NDArray[np.int64], bool]:
    """Return the best cover found, and whether it is proven to be the cheapest."""
    serves = sets.to_bool()
    bits = np.uint64(1) << np.arange(len(serves), dtype=np.uint64)
    masks = np.bitwise_or.reduce(np.where(serves.T, bits, np.uint64(0)), axis=1)
    targets = np.nonzero(serves)[1]
    offsets = np.concatenate([[0], np.cumsum(serves.sum(1))])
    units = costs.astype(np.int64)
    chosen, is_closed = interruptible(
        lambda: _leave_out_or_take(offsets, targets, masks, units, max_nodes)
    )
    return np.flatnonzero(chosen & bits), is_closed


@numba.njit(cache=True, nogil=True)
def _leave_out_or_take(offsets, targets, masks, costs, max_nodes):
    """Decide one source after the other, out first, then in, depth first.

    A target of which all sources but one are out forces that one in. Sets of sources
    are bits: `masks` holds the sources of each target.
    """
    n, one = len(costs), np.uint64(1)
    out, taken = np.zeros(n + 1, np.uint64), np.zeros(n + 1, np.uint64)
    spent, at = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    tries = np.zeros(n + 1, np.int64)
    best, least = (one << np.uint64(n)) - one, costs.sum()
    depth, n_nodes = 0, 0
    while depth >= 0:
        if tries[depth] == 0:
            n_nodes += 1
            if n_nodes > max_nodes:
                return best, False
            while at[depth] < n and taken[depth] >> np.uint64(at[depth]) & one:
                at[depth] += 1
            if at[depth] == n and spent[depth] < least:
                best, least = taken[depth], spent[depth]
        s = at[depth]
        if tries[depth] == 2 or s == n or spent[depth] >= least:
            depth -= 1
            continue
        bit = one << np.uint64(s)
        now_out, now_taken, cost = out[depth], taken[depth], spent[depth]
        tries[depth] += 1
        if tries[depth] == 1:
            now_out |= bit
            for j in range(offsets[s], offsets[s + 1]):
                mask = masks[targets[j]]
                left = mask & ~now_out
                if mask & now_taken or left & (left - one):
                    continue
                if not left:
                    cost = least
                    break
                now_taken |= left
                k = s
                while not left >> np.uint64(k) & one:
                    k += 1
                cost += costs[k]
        else:
            now_taken |= bit
            cost += costs[s]
        if cost < least:
            depth += 1
            out[depth], taken[depth], spent[depth] = now_out, now_taken, cost
            at[depth], tries[depth] = s + 1, 0
    return best, True


# --- branch and bound -------------------------------------------------------------


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
    goal: Exact | None = None,
) -> BranchResult:
    """Minimum cover with integer costs, the least bound first.

    Args:
        sets: the targets that each source serves; each has at least one.
        costs: cost of each source, integers.
        clock: whose time limit counts.
        max_nodes: nodes to look at.
        start: a cover to begin with.
        goal: a lower bound that is enough; None for the best one.
    """
    root = Core.of(sets, costs)
    best, best_cost = None, int(costs.sum()) + 1
    if start is not None and sets.union(start).all():
        best, best_cost = start, int(costs[start].sum())
    heap, n_nodes, bound = [_Node(0, 0, root, ())], 0, 0
    while heap and clock.left > 0 and n_nodes < 2 * max_nodes:
        node = heapq.heappop(heap)
        if node.bound >= best_cost:  # so are all others
            return BranchResult(best, best_cost, True)
        if node.bound > bound:
            bound = node.bound
            if goal is not None and bound >= goal:
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
        solved = solve_lp(core.sets, core.costs / core.costs.min(), clock, "highs-ds")
        if solved is None:  # out of time, or a failure of the LP solver
            heapq.heappush(heap, node)
            break
        x = solved[0]
        prices = polished_bound(core.sets, core.costs, solved[1], "lp")
        rounded = np.append(taken, core.sources[_round_up(core, x)]).astype(np.int64)
        if int(costs[rounded].sum()) < best_cost:
            best, best_cost = np.sort(rounded), int(costs[rounded].sum())
        if spent + int(prices.value) >= best_cost:
            continue
        low = max(node.bound, spent + int(prices.value))
        most = best_cost - 1 - spent
        useful = useful_sources(core.sets, core.costs, prices, most)
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
        return BranchResult(best, best_cost, True)
    bound = max(bound, min(best_cost, *(node.bound for node in heap)))
    return BranchResult(best, bound, bound >= best_cost)


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
