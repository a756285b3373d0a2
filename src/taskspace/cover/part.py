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
from taskspace.cover.problem import CoverProblem
from taskspace.progress import Progress


def part_cover(asked: CoverProblem, clock: Clock, report: Progress) -> Cover:
    """Return the cheapest cover of a share, or the best of a budget.

    Args:
        asked: the problem; a budget goes with no costs and no share.
        clock: whose time limit counts.
        report: called now and then with where the search stands.
    """
    solve = _share_cover if asked.budget is None else _budget_cover
    return solve(asked, clock, report)


def _share_cover(asked: CoverProblem, clock: Clock, report: Progress) -> Cover:
    """Return the cheapest sources that serve a share of the target weight."""
    needed = min(max(0, asked.required_weight - asked.included_weight), asked.servable)
    costs, spent, cost = (
        asked.free_costs,
        asked.included_cost,
        asked.scaled_costs,
    )
    problem = partial_cover(asked.free_sets, costs, asked.open_weights, needed)

    def cost_of(sources: NDArray[np.int64]) -> Exact | None:
        return total_cost(costs, sources) if asked.served(sources) >= needed else None

    enough = float(needed) * (1 - 1e-12)
    search = Branching(problem, cost_of, lambda x: completed(problem, x, enough))
    search.offer(np.arange(problem.n_sources))
    search.offer(completed(problem, np.ones(problem.n_sources), enough))
    if (costs == 1).all():
        _fewer(search, asked, needed, clock)
    _solve(search, clock, report, lambda n: cost.in_unit(spent + n))
    assert search.best is not None
    cover = asked.cover(
        "minimum",
        asked.selection(search.best),
        lower_bound=spent + search.lower,
        lower_bound_kind=search.kind,
        stop_reason="time limit",
        clock=clock,
        share=1.0 if asked.share is None else float(asked.share),
        missed_share=asked.missed_share(
            asked.served(search.best) + asked.included_weight
        ),
        prices=search.proof(cost.unit, _priced(asked)),
    )
    return replace(cover, stop_reason="proven optimal") if cover.optimal else cover


def _budget_cover(asked: CoverProblem, clock: Clock, report: Progress) -> Cover:
    """Return the sources of a budget that serve the most target weight."""
    assert asked.budget is not None
    room = asked.budget - len(asked.include)
    sets, weights = asked.free_sets, asked.open_weights
    problem = maximum_coverage(sets, weights, room)
    servable, total = asked.servable, asked.total

    def cost_of(sources: NDArray[np.int64]) -> Exact | None:
        return servable - asked.served(sources)

    search = Branching(problem, cost_of, lambda x: most_wanted(x, problem.budget))
    none = np.zeros(0, np.int64)
    search.offer(none)
    search.offer(swapped(problem, begin_greedily(problem, none), clock))

    def as_share(unserved: Exact) -> Fraction:
        if not total:
            return Fraction(1)
        return Fraction(servable + asked.included_weight - unserved, total)

    _solve(search, clock, report, lambda n: float(as_share(n)))
    assert search.best is not None
    assert search.best_cost is not None
    is_best = search.lower >= search.best_cost
    # How many sources serve as much as these, at least.
    ones, served = np.ones(sets.n_sources), asked.served(search.best)
    fewest = len(asked.include) + knapsack_bound(sets, ones, weights, served)
    return asked.cover(
        "minimum",
        asked.selection(_needed_only(search.best, asked)),
        lower_bound=fewest,
        lower_bound_kind=search.kind,
        stop_reason="proven optimal" if is_best else "time limit",
        clock=clock,
        optimal=is_best,
        budget=asked.budget,
        most=as_share(search.lower),
        prices=search.proof(Fraction(1), _priced(asked)),
    )


def _priced(asked: CoverProblem) -> NDArray[np.int64]:
    """Return the targets that have a price: they count and can be served."""
    return np.flatnonzero((asked.open_weights > 0) & asked.free_sets.coverable)


def _needed_only(sources: NDArray[np.int64], asked: CoverProblem) -> NDArray[np.int64]:
    """Return the sources without which less is served, one after the other."""
    needed, served = sources.tolist(), asked.served(sources)
    for source in sorted(needed, reverse=True):
        fewer = [s for s in needed if s != source]
        if asked.served(np.array(fewer, np.int64)) == served:
            needed = fewer
    return np.array(needed, np.int64)


def most_wanted(wanted: NDArray[np.float64], budget: int) -> NDArray[np.int64]:
    """Return the sources that were wanted most, as many as the budget.

    Args:
        wanted: how much each source is wanted.
        budget: how many.
    """
    return np.argsort(-wanted, kind="stable")[:budget]


def _fewer(search: Branching, asked: CoverProblem, needed: int, clock: Clock) -> None:
    """Look for one source fewer, as long as swaps find enough weight."""
    while clock.left > 0 and search.best is not None and len(search.best) > 1:
        k = len(search.best) - 1
        smaller = maximum_coverage(asked.free_sets, asked.open_weights, k)
        fewer = swapped(smaller, begin_greedily(smaller, search.best[:0]), clock)
        if asked.served(fewer) < needed:
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
