"""Exact solvers for what reductions and bounds leave open, in integers.

OR-tools' CP-SAT where the extra `exact` is installed, else branch and bound on prices
(`branch`). Both take integer costs. Costs that are not multiples of one unit are
rounded so that a proof for the rounded ones is a proof for the true ones: down for
every source outside a reference cover R, up inside it. Then for every cover X

    cost(X) - cost(R) >= rounded(X) - rounded(R),

so if no cover is cheaper than R after rounding, none is cheaper before.
"""

import functools
import heapq
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taskspace._util.clock import Clock
from taskspace.cover.costs import Exact, total_cost, whole_multiples
from taskspace.cover.prices import PriceBound, cost_units, polished_bound, run_loads
from taskspace.cover.reductions import Core, reduce_problem
from taskspace.cover.solvers import has_cp_sat, run_cp_sat, solve_lp
from taskspace.sets import TargetSets

# An exact solver gains nothing in minutes beyond this many (source, target) pairs.
MAX_EXACT_PAIRS = 1_500_000
# Sums of integer costs stay below these: CP-SAT's bounds are floats, and prices in
# branch and bound need digits after the point, the more the finer costs are rounded.
_CP_SAT_SUM, _BRANCH_SUM, _ROUNDED_BRANCH_SUM = 2**50, 2**46, 2**36
_MAX_ROUNDS = 40  # references and forbidden covers that are tried
_NODES = 100  # of branch and bound that count as one deterministic second


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


class ExactResult(NamedTuple):
    """Best selection found, None where there is none, and a valid lower bound.

    Args:
        sources: the selection.
        lower_bound: no cover costs less.
        is_final: whether more work would give no other answer.
    """

    sources: NDArray[np.int64] | None
    lower_bound: Exact
    is_final: bool


class _Question(NamedTuple):
    """What a solver with integer costs is asked.

    Args:
        sets: the targets that each source serves.
        units: integer cost of each source.
        forbidden: selections that no cover may contain.
        clock: whose time limit counts.
        seed: of the solver.
        start: a cover to begin with.
        on_bound: called with each better lower bound; True stops the solver.
        work: how much the solver may do: CP-SAT's deterministic seconds.
        linear: whether CP-SAT uses the LP relaxation.
    """

    sets: TargetSets
    units: NDArray[np.int64]
    forbidden: list[NDArray[np.int64]]
    clock: Clock
    seed: int
    start: NDArray[np.int64] | None
    on_bound: Callable[[int], bool]
    work: float
    linear: bool


def solve_exact(
    sets: TargetSets,
    costs: NDArray[np.float64],
    *,
    clock: Clock,
    work: float,
    seed: int,
    start: NDArray[np.int64] | None = None,
    on_bound: Callable[[Exact], bool] | None = None,
    linear: bool = True,
) -> ExactResult:
    """Minimum cover of all targets, each of which some source must serve.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source.
        clock: whose time limit counts.
        work: how much the solver may do: CP-SAT's deterministic seconds, or as many
            hundreds of nodes.
        seed: of the solver.
        start: a cover to begin with.
        on_bound: called with each better lower bound; True stops the solver.
        linear: whether CP-SAT uses the LP relaxation; without it small problems of
            much symmetry are proven sooner.

    Returns:
        The best cover found and the bound proven.
    """
    if sets.n_targets == 0:
        return ExactResult(np.zeros(0, np.int64), 0, True)
    solve, limit, rounded_limit = _branch, _BRANCH_SUM, _ROUNDED_BRANCH_SUM
    if has_cp_sat():
        solve, limit, rounded_limit = _cp_sat, _CP_SAT_SUM, _CP_SAT_SUM
    tell = on_bound or (lambda bound: False)
    question = _Question(
        sets, np.zeros(0, np.int64), [], clock, seed, start,
        lambda bound: False, work, linear,
    )  # fmt: skip
    whole = whole_multiples(costs, limit)
    if whole is None:
        return _solve_rounded(question, costs, solve, rounded_limit, tell)
    units, unit = whole
    answer = solve(
        question._replace(
            units=units.astype(np.int64), on_bound=lambda bound: tell(bound * unit)
        )
    )
    return ExactResult(answer.sources, answer.bound * unit, answer.is_final)


def _solve_rounded(
    question: _Question,
    costs: NDArray[np.float64],
    solve: Callable[[_Question], BranchResult],
    limit: int,
    tell: Callable[[Exact], bool],
) -> ExactResult:
    """Costs that are no multiples of one unit: see the top of this file."""
    shift = limit.bit_length() - 2 - math.ceil(math.log2(costs.sum()))
    scaled = np.ldexp(costs, shift)
    unit = 1 / Fraction(2) ** shift
    best, best_cost = None, Fraction(total_cost(costs, np.arange(len(costs)))) + 1
    reference, lower = None, Fraction(0)
    start, forbidden, is_final = question.start, [], False
    for _ in range(_MAX_ROUNDS):
        units = np.floor(scaled).astype(np.int64)
        goal, anchor = 0, Fraction(0)
        if reference is not None:
            units[reference] = np.ceil(scaled[reference]).astype(np.int64)
            goal = int(units[reference].sum())
            anchor = Fraction(total_cost(costs, reference))

        valid = functools.partial(_valid_bound, anchor, goal, unit, best_cost)
        answer = solve(
            question._replace(
                units=units,
                forbidden=forbidden,
                start=start,
                on_bound=lambda bound, valid=valid: tell(valid(bound)),  # this round's
            )
        )
        lower, is_final = max(lower, valid(answer.bound)), answer.is_final
        if answer.sources is None:
            break
        cost = Fraction(total_cost(costs, answer.sources))
        if cost < best_cost:
            best, best_cost = answer.sources, cost
            reference = start = answer.sources
        elif answer.is_closed:
            # No cheaper than the best, though it looks so in these units.
            forbidden = [*forbidden, answer.sources]
        if not answer.is_closed or lower >= best_cost or question.clock.left <= 0:
            break
    return ExactResult(best, lower, is_final)


def _valid_bound(
    anchor: Fraction, goal: int, unit: Fraction, best_cost: Fraction, bound: int
) -> Fraction:
    """Return what a bound on rounded costs says of true ones.

    Args:
        anchor: true cost of the reference.
        goal: its rounded cost.
        unit: of rounded costs.
        best_cost: every cover that is forbidden costs at least this.
        bound: on rounded costs.
    """
    return min(anchor + (bound - goal) * unit, best_cost)


def _branch(question: _Question) -> BranchResult:
    # Prices can speak neither of forbidden covers nor of sources that cost nothing.
    if question.forbidden or question.units.min() == 0:
        return BranchResult(None, 0, False, True)
    return branch_and_bound(
        question.sets,
        question.units.astype(np.float64),
        clock=question.clock,
        start=question.start,
        max_nodes=int(_NODES * question.work),
        on_bound=question.on_bound,
    )


def _cp_sat(question: _Question) -> BranchResult:
    from ortools.sat.python import cp_model

    sets = question.sets
    model: Any = cp_model.CpModel()
    chosen = [model.new_bool_var("") for _ in range(sets.n_sources)]
    inverse = sets.inverse
    for t in range(sets.n_targets):
        first, last = inverse.offsets[t], inverse.offsets[t + 1]
        runs = zip(
            inverse.starts[first:last].tolist(),
            inverse.stops[first:last].tolist(),
            strict=True,
        )
        able = [x for a, b in runs for x in chosen[a:b]]
        model.add_bool_or(able)
    for selection in question.forbidden:
        model.add_bool_or([~chosen[s] for s in selection.tolist()])
    costs = question.units.tolist()
    model.minimize(cp_model.LinearExpr.weighted_sum(chosen, costs))
    answer = run_cp_sat(
        model,
        chosen,
        start=question.start,
        clock=question.clock,
        work=question.work,
        seed=question.seed,
        linear=question.linear,
        on_bound=question.on_bound,
    )
    if answer.values is not None:
        chosen = np.flatnonzero(answer.values)
        return BranchResult(chosen, answer.bound, answer.is_closed, answer.is_closed)
    # Closed without a solution: all covers are forbidden.
    bound = sum(costs) + 1 if answer.is_closed else answer.bound
    return BranchResult(None, bound, answer.is_closed, answer.is_closed)


# Branch and bound on certified prices: a proof in integers without OR-tools. Every
# node solves the covering LP of what is left in floats (HiGHS), but is closed only by
# its dual prices, rounded to integers and checked as in `prices`. So nothing rests on
# the tolerances of the LP solver: they cost nodes, not truth.


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
