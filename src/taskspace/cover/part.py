"""Covers of a part, with proofs: the cheapest that reach a share, the best of k.

Both are problems of `taskspace.cover.location`: selections from greedy, swaps and
prices; bounds from prices, node by node.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from taskspace._util.clock import Clock
from taskspace.cover.costs import Exact, total_cost
from taskspace.cover.cover import Cover
from taskspace.cover.location import (
    Branching,
    begin_greedily,
    completed,
    maximum_coverage,
    partial_cover,
    swapped,
)
from taskspace.cover.prices import knapsack_bound
from taskspace.cover.problem import Instance
from taskspace.progress import Progress


def part_cover(instance: Instance, clock: Clock, report: Progress) -> Cover:
    """Return the cheapest cover of a share, or the best of a budget.

    Args:
        instance: what is asked; a budget goes with no costs and no share.
        clock: whose time limit counts.
        report: called now and then with where the search stands.
    """
    solve = _share_cover if instance.budget is None else _budget_cover
    return solve(instance, clock, report)


def _share_cover(instance: Instance, clock: Clock, report: Progress) -> Cover:
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
        _fewer(search, instance, needed, clock)
    _solve(search, clock, report, lambda n: cost.in_unit(spent + n))
    assert search.best is not None
    cover = instance.cover(
        "minimum",
        instance.selection(search.best),
        lower_bound=spent + search.lower,
        lower_bound_kind=search.kind,
        stop_reason="time limit",
        clock=clock,
        share=1.0 if instance.share is None else float(instance.share),
        missed_share=instance.missed_share(
            instance.served(search.best) + instance.already
        ),
        prices=search.proof(cost.unit, _priced(instance)),
    )
    return replace(cover, stop_reason="proven optimal") if cover.optimal else cover


def _budget_cover(instance: Instance, clock: Clock, report: Progress) -> Cover:
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

    _solve(search, clock, report, lambda n: float(as_share(n)))
    assert search.best is not None
    assert search.best_cost is not None
    is_best = search.lower >= search.best_cost
    # How many sources serve as much as these, at least.
    ones, served = np.ones(sets.n_sources), instance.served(search.best)
    fewest = len(instance.include) + knapsack_bound(sets, ones, weights, served)
    return instance.cover(
        "minimum",
        instance.selection(_needed_only(search.best, instance)),
        lower_bound=fewest,
        lower_bound_kind=search.kind,
        stop_reason="proven optimal" if is_best else "time limit",
        clock=clock,
        optimal=is_best,
        budget=instance.budget,
        most=as_share(search.lower),
        prices=search.proof(Fraction(1), _priced(instance)),
    )


def _priced(instance: Instance) -> NDArray[np.int64]:
    """Return the targets that have a price: they count and can be served."""
    return np.flatnonzero((instance.open_weights > 0) & instance.free_sets.coverable)


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
    report: Progress,
    value: Callable[[Exact], float],
) -> None:
    """Search until solved or out of time, and tell where the search stands."""

    def tell() -> None:
        if search.best_cost is not None:
            low, high = sorted((value(search.lower), value(search.best_cost)))
            report("search", low, high, "branching")

    search.run(clock, tell)
