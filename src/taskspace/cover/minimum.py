"""Minimum cover: search from above, bounds from below, until they meet.

Reductions first; then, for each component of what is left, local search and
primal-dual bounds in turns; then sources that no better cover can hold are fixed by
their reduced costs, and exact and local search get the rest in turns. All of it is cut
into stages of counted work, in the same order for every time limit: the limit only
ends the search. So a search that closes in time gives the same answer on any machine.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.clock import Clock
from taskspace.cover.costs import Exact, has_whole_costs, total_cost
from taskspace.cover.cover import Cover
from taskspace.cover.exact import MAX_EXACT_PAIRS, solve_exact
from taskspace.cover.local import LocalSearch, greedy_instead, is_too_large
from taskspace.cover.lp import PrimalDual, search_milp
from taskspace.cover.part import budget_cover, share_cover
from taskspace.cover.prices import (
    PriceBound,
    join_prices,
    polished_bound,
    quick_bound,
    run_loads,
    useful_sources,
)
from taskspace.cover.problem import CoverProblem
from taskspace.cover.reductions import Core, Reduced, components, reduce_problem
from taskspace.cover.registry import cover_method
from taskspace.cover.verify import verify_cover
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.progress import Progress, silent
from taskspace.questions import Question
from taskspace.sets import TargetSets

_FIRST_STEPS, _FIRST_ITERATIONS = 1000, 400  # of stage 0; each later one twice that
N_ROUNDS = 6
"""Stages before exact search begins, where costs are integers."""
_GROWTH = 4  # work of an exact stage over that of the one before
_BESIDE_STEPS = 20_000  # swaps of the local search after the first one
_PROMISING_STEPS, _PROMISING_NODES = 125_000, 50  # likewise, among promising sources
_CHEAP_PAIRS = 100_000  # up to here several short searches beat a long one
_MANY_SOURCES, _PROMISING = 4, 3  # sources per target: too many, and worth a look


@cover_method("minimum", colour="#E69F00")
def minimum_cover(
    problem: Study | TargetSets,
    question: Question | str | None = None,
    *,
    time_limit: float = 60,
    costs: ArrayLike | None = None,
    share: float | None = None,
    target_weights: ArrayLike | None = None,
    budget: int | None = None,
    seed: int = 0,
    include: ArrayLike = (),
    exclude: ArrayLike = (),
    progress: Progress | None = None,
) -> Cover:
    """Find the cheapest cover, with a proof of how good it is.

    With a share it is the one of fewest sources that reach it, with a budget the one
    that serves most.

    Args:
        problem: a study, or the targets that each source serves.
        question: what is asked of a study.
        time_limit: processor seconds of the search; tolerance sets are made before,
            and kernels compiled, once per installation, on top.
        costs: cost of each source, `> 0`; all 1 where not given.
        share: share of all targets (of all target weight) that is enough; not with
            costs, unless it is 1.
        target_weights: weight of each target, `>= 0`; all 1 where not given.
        budget: sources at most; not with costs or a share.
        seed: of the random choices.
        include: sources that must be selected.
        exclude: sources that must not be selected.
        progress: called now and then with where the search stands.

    Returns:
        The best cover found and the best lower bound proven; verified.
    """
    clock, report = Clock(time_limit), progress or silent
    if budget is not None and (share is not None or costs is not None):
        raise InvalidInputError(
            "A budget counts sources, and asks for as many targets as they serve: give "
            "either budget, or costs, or share."
        )
    if share is not None and share < 1 and costs is not None:
        raise InvalidInputError(
            "A minimum cover of a share counts sources: give either share or costs, or "
            "use greedy, which takes both."
        )
    instance = CoverProblem(
        problem,
        question,
        costs=costs,
        share=share,
        target_weights=target_weights,
        budget=budget,
        include=include,
        exclude=exclude,
    )
    _ = instance.sets  # made before the time counts
    clock.restart()
    needed = max(0, instance.required_weight - instance.included_weight)
    if budget is not None:
        cover = budget_cover(instance, clock, report)
    elif share is not None and needed < instance.servable:
        cover = share_cover(instance, needed, clock, report)
    else:
        return full_cover(instance, clock, seed=seed, report=report)
    _verify(cover, instance)
    return cover


def _verify(cover: Cover, instance: CoverProblem) -> None:
    """Raise an error if a cover claims what its sets do not bear out."""
    verify_cover(
        cover,
        instance.sets,
        instance.costs,
        target_weights=instance.target_weights,
        raise_on_failure=True,
        effort=0,
    )


def full_cover(
    instance: CoverProblem,
    clock: Clock,
    *,
    seed: int = 0,
    report: Progress = silent,
    n_stages: int | None = None,
) -> Cover:
    """Return the best cover of all that can be served, with its bound; verified.

    Args:
        instance: what is asked, without a share and a budget.
        clock: whose time limit counts.
        seed: of the random choices.
        report: called now and then with where the search stands.
        n_stages: stages of counted work at most; None for as many as time allows.
    """
    sets = instance.sets
    if is_too_large(sets):
        return greedy_instead(instance, "minimum")
    cost = instance.scaled_costs
    reduced = reduce_problem(instance.core, clock)
    searches = [CoreSearch(part, seed) for part in components(reduced.core)]
    spent = instance.included_cost + reduced.spent

    def lower() -> Exact:
        return spent + sum(search.lower for search in searches)

    def tell(phase: str) -> None:
        best = spent + sum(search.best_cost for search in searches)
        report("search", cost.in_unit(lower()), cost.in_unit(best), phase)

    stage, reason = 0, "proven optimal"
    while open_ := [s for s in searches if not (s.is_solved or s.is_final)]:
        if clock.left <= 0 or stage == n_stages:
            reason = "time limit" if clock.left <= 0 else "step limit"
            break
        for search in open_:
            search.improve(stage, clock, tell)
        stage += 1
    if reason == "proven optimal" and any(s.is_final for s in searches):
        reason = "nothing is left to search"
    chosen = [search.core.sources[search.best] for search in searches]
    priced = [(search.prices, search.core.targets) for search in searches]
    kinds = [(s.kind == "exact", s.lower, s.kind) for s in searches]
    cover = instance.cover(
        "minimum",
        np.sort(np.concatenate([instance.include, reduced.forced, *chosen])),
        lower_bound=lower(),
        lower_bound_kind=max(kinds)[2] if kinds else "reductions",
        stop_reason=reason,
        clock=clock,
        prices=join_prices(cost, priced, reduced.prices),
        share=instance.share,
        missed_share=instance.missed_share(
            instance.included_weight + instance.servable
        ),
    )
    _verify(cover, instance)
    return cover


class CoreSearch:
    """The best cover and the best bound of one component, improved in turns.

    Args:
        core: the component.
        seed: of the random choices.
    """

    def __init__(self, core: Core, seed: int):
        self.core = core
        self.seed = seed
        self.is_whole = has_whole_costs(core.costs)
        self.is_final = False  # an exact search ended, and left a gap
        self._n_pairs = int(core.sets.sizes.sum())
        self.prices = quick_bound(core.sets, core.costs)
        self.lower, self.kind = self.prices.value, self.prices.kind
        self.local = LocalSearch(core.sets, core.costs, seed=seed)
        self.dual = PrimalDual(core.sets, core.costs)
        self.best = self.local.best  # indices into the core
        self.best_cost = total_cost(core.costs, self.best)

    def offer(self, sources: NDArray[np.int64], *, is_local: bool = False) -> None:
        """Take a cover if it is the best; one of the local search also if it is equal.

        Args:
            sources: the cover, as indices into the core.
            is_local: whether the local search found it.
        """
        cost = total_cost(self.core.costs, sources)
        if cost < self.best_cost or (is_local and cost == self.best_cost):
            self.best, self.best_cost = sources, cost

    def _swap(self, clock: Clock, n_steps: int) -> None:
        """Continue the local search."""
        self.local.run(clock, max_steps=n_steps, target=float(self.lower))
        self.offer(self.local.best, is_local=True)

    @property
    def is_solved(self) -> bool:
        """Whether bound and cover meet."""
        return self.lower >= self.best_cost

    def improve(self, stage: int, clock: Clock, tell: Callable[[str], None]) -> None:
        """Do the work of one stage, unless the time is up.

        Args:
            stage: how many stages were there before.
            clock: whose time limit counts.
            tell: called with the name of the phase.
        """
        n_rounds: float = math.inf
        if self._n_pairs <= MAX_EXACT_PAIRS:
            # Where costs are no integers, prices nearly never meet the optimum exactly.
            n_rounds = N_ROUNDS if self.is_whole else 2
        if stage < n_rounds:
            self._search_and_bound(stage, clock, tell)
        else:
            self._solve_exactly(stage - int(n_rounds), clock, tell)

    def _search_and_bound(self, k: int, clock: Clock, tell) -> None:
        # Steps are cheap on small cores: make more of them there.
        steps = max(_FIRST_STEPS, min(10_000, _CHEAP_PAIRS * 500 // self._n_pairs))
        tell("local search")
        if k and self._n_pairs <= _CHEAP_PAIRS:  # leave where it is stuck
            sets, costs = self.core.sets, self.core.costs
            self.local = LocalSearch(sets, costs, seed=self.seed + k)
        self._swap(clock, steps << k)
        if not self.is_solved and not self._is_lp_done():
            tell("lower bounds")
            self._raise_bound(clock, _FIRST_ITERATIONS << k)

    def _is_lp_done(self) -> bool:
        """Whether even the exact LP value could not raise the bound.

        A guess in floats about where to spend time; nothing is claimed from it.
        """
        if not self.is_whole or math.isinf(self.dual.upper):
            return self.dual.lower >= (1 - 1e-7) * self.dual.upper
        return self.lower >= math.ceil(self.dual.upper * (1 - 1e-9))

    def _is_enough(self, lower: float, upper: float) -> bool:
        if not self.is_whole or math.isinf(upper):
            return False
        # The rounded bound is reached, or can be no higher.
        return math.ceil(lower - 1e-9) >= math.ceil(upper * (1 - 1e-9))

    def _raise_bound(self, clock: Clock, n_iterations: int) -> None:
        self.dual.run(clock, max_iterations=n_iterations, is_enough=self._is_enough)
        bound = self._polished()
        if bound.value > self.prices.value:
            self.prices = bound
        if bound.value > self.lower:
            self.lower, self.kind = bound.value, bound.kind

    def _polished(self) -> PriceBound:
        sets, costs = self.core.sets, self.core.costs
        return polished_bound(sets, costs, self.dual.prices, "primal-dual")

    def _useful_sources(self) -> NDArray[np.bool_]:
        """Return sources that a cover better than the best so far may hold."""
        goal = self.best_cost - 1 if self.is_whole else self.best_cost
        sets, costs = self.core.sets, self.core.costs
        return useful_sources(sets, costs, self._polished(), goal)

    def _solve_exactly(self, k: int, clock: Clock, tell) -> None:
        growth = _GROWTH**k
        useful = self._useful_sources()
        if useful.sum() > _MANY_SOURCES * self.core.sets.n_targets:
            self._search_promising(growth, clock, tell)
            useful = self._useful_sources()
        rest = self.core.keep(useful)
        if not rest.sets.coverable.all():
            self.claim(self.best_cost)
        if self.is_solved or clock.left <= 0:
            return
        reduced = reduce_problem(rest, clock)
        self._solve(reduced, growth, clock, tell)
        if self.is_solved or clock.left <= 0:
            return
        tell("local search")
        self._swap(clock, _BESIDE_STEPS * growth)

    def _solve(self, reduced: Reduced, growth: int, clock: Clock, tell) -> None:
        """Search exactly through what no better cover can do without."""
        tell("exact search")
        incumbent, sets = self.best_cost, reduced.core.sets
        goal = incumbent - reduced.spent
        answer = solve_exact(
            sets, reduced.core.costs, clock=clock, work=growth, goal=goal
        )
        if answer.sources is not None and sets.union(answer.sources).all():
            self.offer(self.core.places(reduced.selection(answer.sources)))
        self.claim(min(answer.bound + reduced.spent, incumbent))
        self.is_final = answer.is_closed and not self.is_solved

    def _search_promising(self, growth: int, clock: Clock, tell) -> None:
        """Look for a better cover among the sources of least reduced cost."""
        tell("promising sources")
        sets, costs = self.core.sets, self.core.costs
        reduced_cost = costs - run_loads(sets, self.dual.prices)
        n_promising = min(len(costs), _PROMISING * sets.n_targets)
        is_promising = (
            reduced_cost <= np.partition(reduced_cost, n_promising - 1)[n_promising - 1]
        )
        is_promising[self.best] = True
        part = self.core.keep(is_promising)
        start = part.places(self.core.sources[self.best])
        local = LocalSearch(part.sets, part.costs, seed=self.seed, start=start)
        steps = _PROMISING_STEPS * growth
        local.run(clock, max_steps=steps, target=float(self.lower))
        self.offer(self.core.places(part.sources[local.best]))
        if self.is_solved or clock.left <= 0:
            return
        tell("promising sources")
        reduced = reduce_problem(part, clock)
        nodes = _PROMISING_NODES * growth
        sources = search_milp(reduced.core.sets, reduced.core.costs, clock, nodes)
        if sources is not None:
            self.offer(self.core.places(reduced.selection(sources)))

    def claim(self, bound: Exact) -> None:
        """Take a bound of an exact search if it is the best.

        Args:
            bound: no cover of the core costs less.
        """
        if bound > self.lower:
            self.lower, self.kind = bound, "exact"
