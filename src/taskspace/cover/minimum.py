"""Minimum cover: search from above, bounds from below, until they meet."""

import numpy as np
from numpy.typing import ArrayLike

from taskspace.cover.base import (
    Clock,
    Cover,
    ProgressCallback,
    check_costs,
    make_cover,
)
from taskspace.cover.exact import solve_exact
from taskspace.cover.greedy import greedy_cover
from taskspace.sets import TargetSets


def minimum_cover(
    sets: TargetSets,
    *,
    time_limit: float = 60,
    costs: ArrayLike | None = None,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> Cover:
    """The cheapest cover that can be found, with a proof of how good it is.

    Args:
        sets: the targets that each source serves.
        time_limit: seconds.
        costs: cost of each source, `> 0`; all 1 where not given.
        seed: of the random choices.
        progress: called now and then with where the search stands.

    Returns:
        The best cover found and the best lower bound proven.
    """
    clock = Clock(time_limit)
    cost = check_costs(costs, sets.n_sources)
    greedy = greedy_cover(sets, costs=costs)
    best, bound, kind = greedy.sources, greedy.lower_bound, greedy.lower_bound_kind
    core = sets.to_runs().keep_targets(sets.coverable)
    if not greedy.optimal and clock.left > 0:
        found = solve_exact(
            core, cost, time_limit=clock.left, seed=seed, start=best, lower_bound=bound
        )
        if found.sources is not None and cost[found.sources].sum() < cost[best].sum():
            best = found.sources
        if found.lower_bound > bound:
            bound, kind = found.lower_bound, "exact"
    optimal = bound >= cost[best].sum()
    return make_cover(
        "minimum",
        sets,
        np.asarray(best),
        costs=cost,
        lower_bound=bound,
        lower_bound_kind=kind,
        stop_reason="proven optimal" if optimal else "time limit",
        clock=clock,
    )
