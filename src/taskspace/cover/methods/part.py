"""Covers of a part, with proofs: the cheapest that reach a share, the best of k.

Both are problems of `taskspace.cover.location`: selections from greedy, swaps and
prices; bounds from prices, node by node; and CP-SAT, where it is installed, for what
these leave open.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.cover.base import Clock, Cover, make_cover
from taskspace.cover.bounds.partial import exact_weights, knapsack_bound
from taskspace.cover.costs import Exact, round_down, scale_costs, total_cost
from taskspace.cover.location.branch import Branching
from taskspace.cover.location.cp_sat import can_solve, solve_location
from taskspace.cover.location.problem import (
    maximum_coverage,
    partial_cover,
)
from taskspace.cover.location.search import begin_greedily, completed, swapped
from taskspace.cover.methods.greedy import needed_weight
from taskspace.cover.restrictions import Rest, Restrictions
from taskspace.cover.verify.tree import TreeProof
from taskspace.errors import InvalidInputError
from taskspace.progress import Progress
from taskspace.sets import TargetSets

__all__ = [
    "budget_cover",
    "kept_proof",
    "most_wanted",
    "part_cover",
    "share_cover",
    "weights_of",
]

MAX_KEPT_PRICES = 2_000_000
"""Prices of a tree that are kept with a cover; a larger proof is not."""
_OWN_PART = 0.6  # of the time, before CP-SAT takes over


class _Part:
    """A problem after restrictions: weights of what is still to be served."""

    def __init__(
        self, sets: TargetSets, limits: Restrictions, weights: ArrayLike | None
    ):
        self.sets, self.limits = sets, limits
        self.rest: Rest = limits.leave(sets)
        self.weights = exact_weights(weights, sets.n_targets)
        taken = sets.union(limits.include)
        self.already = int(self.weights[taken].sum())
        self.total = int(self.weights.sum())
        self.left = np.where(taken, 0, self.weights)

    @property
    def servable(self) -> int:
        """Weight that free sources can serve."""
        return int(self.left[self.rest.sets.coverable].sum())

    def served(self, sources: NDArray[np.int64]) -> int:
        """Weight that free sources serve, by their places among these."""
        return int(self.left[self.rest.sets.union(sources)].sum())

    def selection(self, sources: NDArray[np.int64]) -> NDArray[np.int64]:
        """The whole selection, of free sources by their places."""
        return np.sort(np.append(self.limits.include, self.rest.sources[sources]))


def part_cover(
    sets: TargetSets,
    share: float | None,
    budget: int | None,
    *,
    costs: ArrayLike | None,
    target_weights: ArrayLike | None,
    limits: Restrictions,
    clock: Clock,
    seed: int,
    progress: Progress | None,
) -> Cover:
    """Return the cheapest cover of a share, or the best of a budget.

    Args:
        sets: the targets that each source serves.
        share: of all target weight; everything that can be served if left out.
        budget: sources at most; not with costs or a share.
        costs: cost of each source, `> 0`; all 1 where not given.
        target_weights: weight of each target, `>= 0`; all 1 where not given.
        limits: sources that must be in or out.
        clock: whose time limit counts.
        seed: of the random choices.
        progress: called now and then with where the search stands.
    """
    if share is not None and not 0 <= share <= 1:
        raise InvalidInputError(f"0 <= share <= 1 must hold, but got share={share}.")
    asked = {
        "target_weights": target_weights,
        "limits": limits,
        "clock": clock,
        "seed": seed,
        "progress": progress,
    }
    if budget is None:
        return share_cover(sets, 1.0 if share is None else share, costs=costs, **asked)
    if share is not None or costs is not None:
        raise InvalidInputError(
            "A budget counts sources, and asks for as many targets as they serve: give "
            "either budget, or costs and share."
        )
    return budget_cover(sets, budget, **asked)


def share_cover(
    sets: TargetSets,
    share: float,
    *,
    costs: ArrayLike | None,
    target_weights: ArrayLike | None,
    limits: Restrictions,
    clock: Clock,
    seed: int,
    progress: Progress | None,
) -> Cover:
    """Return the cheapest sources that serve a share of the target weight.

    Args:
        sets: the targets that each source serves.
        share: of all target weight, `0 <= share <= 1`.
        costs: cost of each source, `> 0`; all 1 where not given.
        target_weights: weight of each target, `>= 0`; all 1 where not given.
        limits: sources that must be in or out.
        clock: whose time limit counts.
        seed: of the random choices.
        progress: called now and then with where the search stands.
    """
    cost = scale_costs(costs, sets.n_sources)
    part = _Part(sets, limits, target_weights)
    asked = needed_weight(share, part.total) - part.already
    needed = min(max(0, asked), part.servable)
    free = cost.values[part.rest.sources]
    spent = total_cost(cost.values, limits.include)
    problem = partial_cover(part.rest.sets, free, part.left, needed)

    def cost_of(sources: NDArray[np.int64]) -> Exact | None:
        return total_cost(free, sources) if part.served(sources) >= needed else None

    goal = float(needed) * (1 - 1e-12)
    search = Branching(problem, cost_of, lambda x: completed(problem, x, goal))
    search.offer(np.arange(problem.n_sources))
    search.offer(completed(problem, np.ones(problem.n_sources), goal))
    if (free == 1).all():
        _fewer(search, part, needed, Clock(0.3 * clock.left))
    lower, kind = _solve(
        search, clock, seed, _teller(progress, lambda n: cost.in_unit(spent + n))
    )
    assert search.best is not None
    cover = make_cover(
        "minimum",
        sets,
        part.selection(search.best),
        costs=cost,
        lower_bound=spent + lower,
        lower_bound_kind=kind,
        stop_reason="time limit",
        clock=clock,
        restrictions=limits,
    )
    return replace(
        cover,
        share=float(share),
        proof=kept_proof(search.proof(cost.unit)),
        stop_reason="proven optimal" if cover.optimal else "time limit",
    )


def budget_cover(
    sets: TargetSets,
    budget: int,
    *,
    target_weights: ArrayLike | None,
    limits: Restrictions,
    clock: Clock,
    seed: int,
    progress: Progress | None,
) -> Cover:
    """Return the sources of a budget that serve the most target weight.

    Args:
        sets: the targets that each source serves.
        budget: sources at most.
        target_weights: weight of each target, `>= 0`; all 1 where not given.
        limits: sources that must be in or out.
        clock: whose time limit counts.
        seed: of the random choices.
        progress: called now and then with where the search stands.
    """
    room = budget - len(limits.include)
    if budget < 0 or room < 0:
        raise InvalidInputError(
            "budget >= 0 must hold and include must fit into it, but got "
            f"budget={budget} and {len(limits.include)} sources that must be in."
        )
    part = _Part(sets, limits, target_weights)
    problem = maximum_coverage(part.rest.sets, part.left, room)
    servable = part.servable

    def cost_of(sources: NDArray[np.int64]) -> Exact | None:
        return servable - part.served(sources)

    search = Branching(problem, cost_of, lambda x: most_wanted(x, problem.budget))
    none = np.zeros(0, np.int64)
    search.offer(none)
    search.offer(swapped(problem, begin_greedily(problem, none), clock))
    total = part.total or 1

    def as_share(unserved: Exact) -> float:
        return float(Fraction(servable + part.already - unserved, total))

    lower, kind = _solve(search, clock, seed, _teller(progress, as_share))
    assert search.best is not None
    assert search.best_cost is not None
    is_best = lower >= search.best_cost
    most = Fraction(1)
    if part.total:
        most = (servable + part.already - Fraction(lower)) / part.total
    cost = scale_costs(None, sets.n_sources)
    cover = make_cover(
        "minimum",
        sets,
        part.selection(_needed_only(search.best, part)),
        costs=cost,
        lower_bound=_least_size(part, search.best),
        lower_bound_kind=kind,
        stop_reason="proven optimal" if is_best else "time limit",
        clock=clock,
        restrictions=limits,
    )
    return replace(
        cover,
        optimal=is_best,
        budget=budget,
        coverage_bound=cover.coverage
        if target_weights is None and is_best
        else abs(round_down(-most)),
        proof=kept_proof(search.proof(Fraction(1, total))),
    )


def _least_size(part: _Part, sources: NDArray[np.int64]) -> Exact:
    """A bound on how many sources serve as much as these."""
    ones = np.ones(part.rest.sets.n_sources)
    needed = part.served(sources)
    bound = knapsack_bound(part.rest.sets, ones, part.left, needed)
    return len(part.limits.include) + bound


def _needed_only(sources: NDArray[np.int64], part: _Part) -> NDArray[np.int64]:
    """The sources without which less is served, one after the other."""
    kept = sources.tolist()
    served = part.served(sources)
    for source in sorted(kept, reverse=True):
        fewer = [s for s in kept if s != source]
        if part.served(np.array(fewer, np.int64)) == served:
            kept = fewer
    return np.array(kept, np.int64)


def most_wanted(wanted: NDArray[np.float64], budget: int) -> NDArray[np.int64]:
    """Return the sources that were wanted most, as many as the budget.

    Args:
        wanted: how much each source is wanted.
        budget: how many.
    """
    return np.argsort(-wanted, kind="stable")[:budget]


def _fewer(search: Branching, part: _Part, needed: int, clock: Clock) -> None:
    """Look for one source fewer, as long as swaps find enough weight."""
    while clock.left > 0 and search.best is not None and len(search.best) > 1:
        k = len(search.best) - 1
        smaller = maximum_coverage(part.rest.sets, part.left, k)
        found = swapped(smaller, begin_greedily(smaller, search.best[:0]), clock)
        if part.served(found) < needed:
            return
        search.offer(found)


def _teller(
    progress: Progress | None, value: Callable[[Exact], float]
) -> Callable[[Branching], None]:
    def tell(search: Branching) -> None:
        if progress is not None and search.best_cost is not None:
            low, high = sorted((value(search.lower), value(search.best_cost)))
            progress("search", low, high, "branching")

    return tell


def _solve(
    search: Branching, clock: Clock, seed: int, tell: Callable[[Branching], None]
) -> tuple[Exact, str]:
    """Search until solved or out of time; the best bound and where it comes from."""
    beyond = can_solve(search.problem)
    own = Clock(clock.left * (_OWN_PART if beyond else 1.0))
    search.run(own, lambda: tell(search))
    if search.is_solved or not beyond or clock.left <= 0:
        return search.lower, "tree"
    assert search.best is not None
    sources, bound = solve_location(search.problem, search.best, clock.left, seed)
    if sources is not None:
        search.offer(sources)
    if bound > search.lower:
        assert search.best_cost is not None
        return min(bound, search.best_cost), "exact"
    return search.lower, "tree"


def kept_proof(proof: TreeProof) -> TreeProof | None:
    """Return a proof, None if it is too large to be kept with a cover.

    Args:
        proof: the tree of a search.
    """
    n_kept = sum(0 if node.units is None else len(node.units) for node in proof.nodes)
    return proof if n_kept <= MAX_KEPT_PRICES else None


def weights_of(weights: ArrayLike | None, n_targets: int) -> NDArray[np.float64]:
    """Return weights of targets as floats, checked; 1 for each where none are given.

    Args:
        weights: finite numbers `>= 0`, one for each target.
        n_targets: number of targets.
    """
    exact_weights(weights, n_targets)  # refuses what are no weights
    return np.ones(n_targets) if weights is None else np.asarray(weights, np.float64)
