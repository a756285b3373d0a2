"""Covers of a part, with proofs: the cheapest that reach a share, the best of k.

Both are problems of `taskspace.cover.location`: selections from greedy, swaps and
prices; bounds from prices, node by node; and CP-SAT, where it is installed, for what
these leave open.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.cover.base import Clock, Cover
from taskspace.cover.bounds.prices import knapsack_bound
from taskspace.cover.costs import Exact, total_cost
from taskspace.cover.location.branch import Branching
from taskspace.cover.location.problem import (
    Location,
    maximum_coverage,
    partial_cover,
)
from taskspace.cover.location.search import begin_greedily, completed, swapped
from taskspace.cover.problem import Instance
from taskspace.cover.solvers import has_cp_sat, run_cp_sat
from taskspace.progress import Progress

__all__ = ["most_wanted", "part_cover"]

_OWN_PART = 0.6  # of the time, before CP-SAT takes over
_MAX_SUM, _MAX_PAIRS = 2**50, 1_500_000  # for CP-SAT, whose bounds are floats


def part_cover(instance: Instance, clock: Clock, seed: int, report: Progress) -> Cover:
    """Return the cheapest cover of a share, or the best of a budget.

    Args:
        instance: what is asked; a budget goes with no costs and no share.
        clock: whose time limit counts.
        seed: of the random choices.
        report: called now and then with where the search stands.
    """
    solve = _share_cover if instance.budget is None else _budget_cover
    return solve(instance, clock, seed, report)


def _share_cover(
    instance: Instance, clock: Clock, seed: int, report: Progress
) -> Cover:
    """Return the cheapest sources that serve a share of the target weight."""
    needed = min(max(0, instance.asked - instance.already), instance.servable)
    costs, spent, cost = instance.free_costs, instance.spent, instance.costs
    problem = partial_cover(instance.free_sets, costs, instance.open_weights, needed)

    def cost_of(sources: NDArray[np.int64]) -> Exact | None:
        return (
            total_cost(costs, sources) if instance.served(sources) >= needed else None
        )

    enough = float(needed) * (1 - 1e-12)
    search = Branching(problem, cost_of, lambda x: completed(problem, x, enough))
    search.offer(np.arange(problem.n_sources))
    search.offer(completed(problem, np.ones(problem.n_sources), enough))
    if (costs == 1).all():
        _fewer(search, instance, needed, Clock(0.3 * clock.left))
    lower, kind = _solve(search, clock, seed, report, lambda n: cost.in_unit(spent + n))
    assert search.best is not None
    cover = instance.cover(
        "minimum",
        instance.selection(search.best),
        lower_bound=spent + lower,
        lower_bound_kind=kind,
        stop_reason="time limit",
        clock=clock,
        share=1.0 if instance.share is None else float(instance.share),
        missed_share=instance.missed_share(
            instance.served(search.best) + instance.already
        ),
        proof=search.proof(cost.unit),
    )
    return replace(cover, stop_reason="proven optimal") if cover.optimal else cover


def _budget_cover(
    instance: Instance, clock: Clock, seed: int, report: Progress
) -> Cover:
    """Return the sources of a budget that serve the most target weight."""
    assert instance.budget is not None
    room = instance.budget - len(instance.include)
    sets, weights = instance.free_sets, instance.open_weights
    problem = maximum_coverage(sets, weights, room)
    servable, total = instance.servable, instance.total

    def cost_of(sources: NDArray[np.int64]) -> Exact | None:
        return servable - instance.served(sources)

    search = Branching(problem, cost_of, lambda x: most_wanted(x, problem.budget))
    none = np.zeros(0, np.int64)
    search.offer(none)
    search.offer(swapped(problem, begin_greedily(problem, none), clock))

    def as_share(unserved: Exact) -> Fraction:
        if not total:
            return Fraction(1)
        return Fraction(servable + instance.already - unserved, total)

    lower, kind = _solve(search, clock, seed, report, lambda n: float(as_share(n)))
    assert search.best is not None
    assert search.best_cost is not None
    is_best = lower >= search.best_cost
    # How many sources serve as much as these, at least.
    ones, served = np.ones(sets.n_sources), instance.served(search.best)
    fewest = len(instance.include) + knapsack_bound(sets, ones, weights, served)
    return instance.cover(
        "minimum",
        instance.selection(_needed_only(search.best, instance)),
        lower_bound=fewest,
        lower_bound_kind=kind,
        stop_reason="proven optimal" if is_best else "time limit",
        clock=clock,
        optimal=is_best,
        budget=instance.budget,
        most=as_share(lower),
        proof=search.proof(Fraction(1, total or 1)),
    )


def _needed_only(sources: NDArray[np.int64], instance: Instance) -> NDArray[np.int64]:
    """Return the sources without which less is served, one after the other."""
    needed, served = sources.tolist(), instance.served(sources)
    for source in sorted(needed, reverse=True):
        fewer = [s for s in needed if s != source]
        if instance.served(np.array(fewer, np.int64)) == served:
            needed = fewer
    return np.array(needed, np.int64)


def most_wanted(wanted: NDArray[np.float64], budget: int) -> NDArray[np.int64]:
    """Return the sources that were wanted most, as many as the budget.

    Args:
        wanted: how much each source is wanted.
        budget: how many.
    """
    return np.argsort(-wanted, kind="stable")[:budget]


def _fewer(search: Branching, instance: Instance, needed: int, clock: Clock) -> None:
    """Look for one source fewer, as long as swaps find enough weight."""
    while clock.left > 0 and search.best is not None and len(search.best) > 1:
        k = len(search.best) - 1
        smaller = maximum_coverage(instance.free_sets, instance.open_weights, k)
        fewer = swapped(smaller, begin_greedily(smaller, search.best[:0]), clock)
        if instance.served(fewer) < needed:
            return
        search.offer(fewer)


def _solve(
    search: Branching,
    clock: Clock,
    seed: int,
    report: Progress,
    value: Callable[[Exact], float],
) -> tuple[Exact, str]:
    """Search until solved or out of time; the best bound and where it comes from."""

    def tell() -> None:
        if search.best_cost is not None:
            low, high = sorted((value(search.lower), value(search.best_cost)))
            report("search", low, high, "branching")

    beyond = _can_solve(search.problem)
    search.run(Clock(clock.left * (_OWN_PART if beyond else 1.0)), tell)
    if search.is_solved or not beyond or clock.left <= 0:
        return search.lower, "tree"
    assert search.best is not None
    sources, bound = _solve_by_cp_sat(search.problem, search.best, clock.left, seed)
    if sources is not None:
        search.offer(sources)
    if bound > search.lower:
        assert search.best_cost is not None
        return min(bound, search.best_cost), "exact"
    return search.lower, "tree"


def _can_solve(problem: Location) -> bool:
    """Return whether CP-SAT is there and the problem is one in moderate integers."""
    sums = [problem.costs.sum(), problem.float_weights.sum()]
    if problem.weights is None:
        sums.append(problem.caps.sum())
    fits = problem.is_whole and max(sums) < _MAX_SUM
    return fits and len(problem.lists.members) <= _MAX_PAIRS and has_cp_sat()


def _solve_by_cp_sat(
    problem: Location, start: NDArray[np.int64], seconds: float, seed: int
) -> tuple[NDArray[np.int64] | None, int]:
    """Return the best selection found, None for none, and a lower bound of all."""
    from ortools.sat.python import cp_model

    model: Any = cp_model.CpModel()
    x = [model.new_bool_var("") for _ in range(problem.n_sources)]
    left_out = [model.new_bool_var("") for _ in range(problem.n_targets)]
    offsets, members, _ = problem.lists.arrays
    for t, skipped in enumerate(left_out):
        able = [x[s] for s in members[offsets[t] : offsets[t + 1]].tolist()]
        model.add_bool_or([*able, skipped])
    total = cp_model.LinearExpr.weighted_sum
    if problem.weights is not None:
        model.add(total(left_out, problem.weights.tolist()) <= problem.slack)
        model.minimize(total(x, problem.costs.astype(np.int64).tolist()))
    else:
        model.add(sum(x) <= problem.budget)
        model.minimize(total(left_out, problem.caps.astype(np.int64).tolist()))
    answer = run_cp_sat(model, x, start=start, seconds=seconds, seed=seed)
    sources = None if answer.values is None else np.flatnonzero(answer.values)
    return sources, answer.bound
