"""Covers of a part, with proofs: the cheapest that reach a share, the best of k.

Both are problems of `taskspace.cover.location`: selections from greedy, swaps and
prices; bounds from prices, node by node; and CP-SAT, where it is installed, for what
these leave open.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.cover.base import Clock, Cover, make_cover
from taskspace.cover.bounds.partial import exact_weights, knapsack_bound
from taskspace.cover.costs import Costs, Exact, round_down, scale_costs, total_cost
from taskspace.cover.location.branch import Branching
from taskspace.cover.location.cp_sat import can_solve, solve_location
from taskspace.cover.location.problem import (
    maximum_coverage,
    partial_cover,
)
from taskspace.cover.location.search import begin_greedily, completed, swapped
from taskspace.cover.methods.greedy import missed_share, needed_weight
from taskspace.cover.restrictions import Rest, Restrictions
from taskspace.cover.verify.tree import TreeProof
from taskspace.errors import InvalidInputError
from taskspace.progress import Progress
from taskspace.sets import TargetSets

__all__ = ["kept_proof", "most_wanted", "part_cover", "weights_of"]

MAX_KEPT_PRICES = 2_000_000
"""Prices of a tree that are kept with a cover; a larger proof is not."""
_OWN_PART = 0.6  # of the time, before CP-SAT takes over


@dataclass(frozen=True, eq=False)
class _Part:
    """A problem after restrictions: weights of what is still to be served.

    Args:
        sets: the targets that each source serves.
        limits: sources that must be in or out.
        target_weights: weight of each target, as given.
        clock: whose time limit counts.
        seed: of the random choices.
        progress: called now and then with where the search stands.
    """

    sets: TargetSets
    limits: Restrictions
    target_weights: ArrayLike | None
    clock: Clock
    seed: int
    progress: Progress | None

    @cached_property
    def rest(self) -> Rest:
        """What is left to decide."""
        return self.limits.leave(self.sets)

    @cached_property
    def weights(self) -> NDArray[Any]:
        """Weights of all targets, integers."""
        return exact_weights(self.target_weights, self.sets.n_targets)

    @cached_property
    def left(self) -> NDArray[Any]:
        """Weights of what no source serves that must be in."""
        return np.where(self.sets.union(self.limits.include), 0, self.weights)

    @property
    def total(self) -> int:
        """Weight of all targets."""
        return int(self.weights.sum())

    @property
    def already(self) -> int:
        """Weight that sources serve that must be in."""
        return self.total - int(self.left.sum())

    @cached_property
    def servable(self) -> int:
        """Weight that free sources can serve."""
        return int(self.left[self.rest.sets.coverable].sum())

    def served(self, sources: NDArray[np.int64]) -> int:
        """Weight that free sources serve, by their places among these."""
        return int(self.left[self.rest.sets.union(sources)].sum())

    def selection(self, sources: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the whole selection, of free sources by their places."""
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
    part = _Part(sets, limits, target_weights, clock, seed, progress)
    if budget is None:
        return _share_cover(part, share, scale_costs(costs, sets.n_sources))
    if share is not None or costs is not None:
        raise InvalidInputError(
            "A budget counts sources, and asks for as many targets as they serve: give "
            "either budget, or costs and share."
        )
    return _budget_cover(part, budget)


def _share_cover(part: _Part, share: float | None, cost: Costs) -> Cover:
    """Return the cheapest sources that serve a share of the target weight."""
    goal = 1.0 if share is None else share
    asked = needed_weight(goal, part.total) - part.already
    needed = min(max(0, asked), part.servable)
    free = cost.values[part.rest.sources]
    spent = total_cost(cost.values, part.limits.include)
    problem = partial_cover(part.rest.sets, free, part.left, needed)

    def cost_of(sources: NDArray[np.int64]) -> Exact | None:
        return total_cost(free, sources) if part.served(sources) >= needed else None

    enough = float(needed) * (1 - 1e-12)
    search = Branching(problem, cost_of, lambda x: completed(problem, x, enough))
    search.offer(np.arange(problem.n_sources))
    search.offer(completed(problem, np.ones(problem.n_sources), enough))
    if (free == 1).all():
        _fewer(search, part, needed, Clock(0.3 * part.clock.left))
    lower, kind = _solve(search, part, lambda n: cost.in_unit(spent + n))
    assert search.best is not None
    cover = make_cover(
        "minimum",
        part.sets,
        part.selection(search.best),
        costs=cost,
        lower_bound=spent + lower,
        lower_bound_kind=kind,
        stop_reason="time limit",
        clock=part.clock,
        restrictions=part.limits,
    )
    served = part.served(search.best) + part.already
    return replace(
        cover,
        share=float(goal),
        missed_share=missed_share(share, served, part.total),
        proof=kept_proof(search.proof(cost.unit)),
        stop_reason="proven optimal" if cover.optimal else "time limit",
    )


def _budget_cover(part: _Part, budget: int) -> Cover:
    """Return the sources of a budget that serve the most target weight."""
    room = budget - len(part.limits.include)
    if budget < 0 or room < 0:
        raise InvalidInputError(
            "budget >= 0 must hold and include must fit into it, but got "
            f"budget={budget} and {len(part.limits.include)} sources that must be in."
        )
    problem = maximum_coverage(part.rest.sets, part.left, room)
    servable = part.servable

    def cost_of(sources: NDArray[np.int64]) -> Exact | None:
        return servable - part.served(sources)

    search = Branching(problem, cost_of, lambda x: most_wanted(x, problem.budget))
    none = np.zeros(0, np.int64)
    search.offer(none)
    search.offer(swapped(problem, begin_greedily(problem, none), part.clock))
    total = part.total or 1

    def as_share(unserved: Exact) -> float:
        return float(Fraction(servable + part.already - unserved, total))

    lower, kind = _solve(search, part, as_share)
    assert search.best is not None
    assert search.best_cost is not None
    is_best = lower >= search.best_cost
    most = Fraction(1)
    if part.total:
        most = (servable + part.already - Fraction(lower)) / part.total
    cover = make_cover(
        "minimum",
        part.sets,
        part.selection(_needed_only(search.best, part)),
        costs=scale_costs(None, part.sets.n_sources),
        lower_bound=_least_size(part, search.best),
        lower_bound_kind=kind,
        stop_reason="proven optimal" if is_best else "time limit",
        clock=part.clock,
        restrictions=part.limits,
    )
    return replace(
        cover,
        optimal=is_best,
        budget=budget,
        coverage_bound=cover.coverage
        if part.target_weights is None and is_best
        else abs(round_down(-most)),
        proof=kept_proof(search.proof(Fraction(1, total))),
    )


def _least_size(part: _Part, sources: NDArray[np.int64]) -> Exact:
    """Return a bound on how many sources serve as much as these."""
    ones = np.ones(part.rest.sets.n_sources)
    needed = part.served(sources)
    bound = knapsack_bound(part.rest.sets, ones, part.left, needed)
    return len(part.limits.include) + bound


def _needed_only(sources: NDArray[np.int64], part: _Part) -> NDArray[np.int64]:
    """Return the sources without which less is served, one after the other."""
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
        fewer = swapped(smaller, begin_greedily(smaller, search.best[:0]), clock)
        if part.served(fewer) < needed:
            return
        search.offer(fewer)


def _solve(
    search: Branching, part: _Part, value: Callable[[Exact], float]
) -> tuple[Exact, str]:
    """Search until solved or out of time; the best bound and where it comes from."""

    def tell() -> None:
        if part.progress is not None and search.best_cost is not None:
            low, high = sorted((value(search.lower), value(search.best_cost)))
            part.progress("search", low, high, "branching")

    beyond = can_solve(search.problem)
    clock = part.clock
    search.run(Clock(clock.left * (_OWN_PART if beyond else 1.0)), tell)
    if search.is_solved or not beyond or clock.left <= 0:
        return search.lower, "tree"
    assert search.best is not None
    sources, bound = solve_location(search.problem, search.best, clock.left, part.seed)
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
