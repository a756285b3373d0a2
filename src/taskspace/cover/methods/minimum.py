"""Minimum cover: search from above, bounds from below, until they meet.

Reductions first; then, for each component of what is left, local search and
primal-dual bounds in turns; then sources that no better cover can hold are fixed by
their reduced costs, and an exact solver gets the rest. Up to the exact solver the
work is counted in steps, not in seconds, so that a proven result repeats.
"""

import math
import threading
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.cover.base import Clock, Cover
from taskspace.cover.bounds.dual import polished_bound, quick_bound
from taskspace.cover.bounds.prices import (
    PriceBound,
    cost_units,
    join_prices,
    run_loads,
)
from taskspace.cover.bounds.primal_dual import PrimalDual
from taskspace.cover.costs import Exact, has_whole_costs, total_cost
from taskspace.cover.exact.reductions import Core, components, reduce_problem
from taskspace.cover.exact.solver import MAX_EXACT_PAIRS, solve_exact
from taskspace.cover.methods.local import LocalSearch, greedy_instead, is_too_large
from taskspace.cover.methods.part import part_cover
from taskspace.cover.problem import Instance
from taskspace.cover.solvers import StopSignal, has_cp_sat, search_milp
from taskspace.cover.verify.verify import verify_cover
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.progress import Progress, silent
from taskspace.questions import Question
from taskspace.sets import TargetSets

_FIRST_STEPS, _FIRST_ITERATIONS, _N_ROUNDS = 1000, 400, 6
_SECONDS_ALONE = 3.0  # the exact solver's, before another search runs beside it
_FEW_SOURCES = 300  # up to here CP-SAT without LP runs beside CP-SAT with LP
_CHEAP_PAIRS = 100_000  # up to here several short searches beat a long one
_MAX_REFUTED = 1_000_000  # pairs up to which the verifier attacks the bound
_MANY_SOURCES, _PROMISING = 4, 3  # sources per target: too many, and worth a look


def minimum_cover(
    problem: Study | TargetSets,
    question: Question | None = None,
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

    With a share it is the cheapest that serves so much, with a budget the one of so
    many sources that serves most.

    Args:
        problem: a study, or the targets that each source serves.
        question: what is asked of a study.
        time_limit: seconds; compiling the kernels, once per installation, comes on
            top.
        costs: cost of each source, `> 0`; all 1 where not given.
        share: share of all targets (of all target weight) that is enough.
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
            "either budget, or costs and share."
        )
    instance = Instance.of(
        problem,
        question,
        costs=costs,
        share=share,
        target_weights=target_weights,
        budget=budget,
        include=include,
        exclude=exclude,
    )
    sets = instance.sets
    is_part = any(asked is not None for asked in (share, budget, target_weights))
    if is_part:
        cover = part_cover(instance, clock, report)
    elif is_too_large(sets):
        return greedy_instead(instance, "minimum")
    else:
        cover = _full_cover(instance, clock, seed, report)
    # To look for cheaper covers again would take longer than the search on large data.
    small = sets.n_sources * sets.n_targets <= _MAX_REFUTED
    verify_cover(
        cover,
        sets,
        costs,
        target_weights=target_weights,
        raise_on_failure=True,
        refute_bound=small and not is_part,
        effort=0,
    )
    return cover


def _full_cover(instance: Instance, clock: Clock, seed: int, report: Progress) -> Cover:
    """Search and bounds in turns, component by component, of what is free."""
    cost = instance.costs
    reduced = reduce_problem(instance.core, Clock(0.3 * clock.left))
    parts = sorted(components(reduced.core), key=lambda part: part.sets.n_sources)
    searches = [CoreSearch(part, seed) for part in parts]
    bound = spent = instance.spent + reduced.spent
    chosen, kinds = reduced.forced.tolist(), []
    for k, search in enumerate(searches):
        low_before = bound + sum(later.lower for later in searches[k + 1 :])
        best_before = spent + sum(later.best_cost for later in searches[k + 1 :])

        def tell(phase: str, search=search, low=low_before, best=best_before) -> None:
            ends = (
                cost.in_unit(low + search.lower),
                cost.in_unit(best + search.best_cost),
            )
            report("search", *ends, phase)

        search.solve(Clock(clock.left / (len(parts) - k)), tell)
        chosen += search.core.sources[search.best].tolist()
        bound, spent = bound + search.lower, spent + search.best_cost
        kinds.append((search.kind == "exact", search.lower, search.kind))
    priced = [(search.prices, search.core.targets) for search in searches]
    cover = instance.cover(
        "minimum",
        np.sort(np.append(instance.include, chosen)),
        lower_bound=bound,
        lower_bound_kind=max(kinds)[2] if kinds else "reductions",
        stop_reason="time limit",
        clock=clock,
        prices=join_prices(cost, priced, reduced.prices),
    )
    return replace(cover, stop_reason="proven optimal") if cover.optimal else cover


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
        self.prices = quick_bound(core.sets, core.costs)
        self.lower, self.kind = self.prices.value, self.prices.kind
        self.local = LocalSearch(core.sets, core.costs, seed=seed)
        self.dual = PrimalDual(core.sets, core.costs)
        self._found: tuple[Exact | float, NDArray[np.int64]] = (
            math.inf,
            np.zeros(0, np.int64),
        )

    def _best(self) -> tuple[Exact | float, NDArray[np.int64]]:
        """Cost of the best cover, without rounding, and its sources."""
        sources = self.local.best
        cost = total_cost(self.core.costs, sources)
        return (cost, sources) if cost <= self._found[0] else self._found

    @property
    def best(self) -> NDArray[np.int64]:
        """Sources of the best cover, as indices into the core."""
        return self._best()[1]

    @property
    def best_cost(self) -> Any:
        """Cost of the best cover, without rounding."""
        return self._best()[0]

    def offer(self, sources: NDArray[np.int64]) -> None:
        """Take a cover if it is the best.

        Args:
            sources: the cover, as indices into the core.
        """
        cost = total_cost(self.core.costs, sources)
        if cost < self._found[0]:
            self._found = cost, sources

    @property
    def is_solved(self) -> bool:
        """Whether bound and cover meet."""
        return self.lower >= self.best_cost

    def solve(self, clock: Clock, report) -> None:
        """Search until solved or out of time.

        Args:
            clock: whose time limit counts.
            report: called with the name of the phase.
        """
        n_pairs = int(self.core.sets.sizes.sum())
        small = n_pairs <= MAX_EXACT_PAIRS
        # Steps are cheap on small cores: make more of them there.
        first_steps = max(_FIRST_STEPS, min(10_000, _CHEAP_PAIRS * 500 // n_pairs))
        early = Clock(clock.left * (0.4 if small else 0.5))
        # Where costs are no integers, prices nearly never meet the optimum exactly.
        n_rounds = (_N_ROUNDS if self.is_whole else 2) if small else 30
        for k in range(n_rounds):
            if self.is_solved or early.left <= 0:
                break
            report("local search")
            if k and n_pairs <= _CHEAP_PAIRS:
                self._begin_again(k)
            self.local.run(early, max_steps=first_steps << k, target=float(self.lower))
            if not self.is_solved and not self._is_lp_done():
                report("lower bounds")
                self._raise_bound(early, _FIRST_ITERATIONS << k)
        if self.is_solved or clock.left <= 0:
            return
        if small:
            self._solve_exactly(clock, report)
        else:
            self._search_beside(clock, report)

    def _begin_again(self, k: int) -> None:
        """Leave the local search where it is stuck and begin another one."""
        self.offer(self.local.best)
        sets, costs = self.core.sets, self.core.costs
        self.local = LocalSearch(sets, costs, seed=self.seed + k)

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

    def useful_sources(self) -> NDArray[np.bool_]:
        """Return sources that a cover better than the best so far may hold.

        With feasible prices y, a cover that holds source s costs at least
        sum(y) + c_s - load_s; if that is no improvement, s is not needed.
        """
        _, _, units, shift = self._polished()
        sets, costs = self.core.sets, self.core.costs
        reduced_cost = cost_units(costs, shift) - run_loads(sets, units)
        goal = self.best_cost - 1 if self.is_whole else self.best_cost
        room = math.floor(goal * Fraction(2) ** shift) - int(units.sum())
        return reduced_cost <= room

    def _solve_exactly(self, clock: Clock, report) -> None:
        useful = self.useful_sources()
        if useful.sum() > _MANY_SOURCES * self.core.sets.n_targets:
            self._solve_promising(Clock(0.5 * clock.left), report)
            useful = self.useful_sources()
        report("exact solver")
        rest = self.core.keep(useful)
        if rest.sets.coverable.all():
            _ExactPhase(self, rest, clock, report).run()
        else:
            self.claim(self.best_cost)

    def _solve_promising(self, clock: Clock, report) -> None:
        """Look for a better cover among the sources of least reduced cost."""
        report("promising sources")
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
        local.run(Clock(0.2 * clock.left), max_steps=500_000, target=float(self.lower))
        self.offer(self.core.places(part.sources[local.best]))
        if self.is_solved:
            return
        report("promising sources")
        reduced = reduce_problem(part)
        sources = search_milp(reduced.core.sets, reduced.core.costs, clock.left)
        if sources is not None:
            self.offer(self.core.places(reduced.selection(sources)))

    def claim(self, bound: Exact) -> None:
        """Take a bound of an exact search if it is the best.

        Args:
            bound: no cover of the core costs less.
        """
        if bound > self.lower:
            self.lower, self.kind = bound, "exact"

    def _search_beside(self, clock: Clock, report) -> None:
        """Local search in a second thread while this one raises the bound."""
        with _Beside(self.local.run, Clock(clock.left)) as search:
            while clock.left > 0 and not self.is_solved and not self._is_lp_done():
                report("lower bounds")
                self._raise_bound(clock, _FIRST_ITERATIONS)
            while clock.left > 0 and not self.is_solved:
                report("local search")
                search.wait(min(0.2, clock.left))


class _ExactPhase:
    """Exact searches of what no cover better than the best so far can do without."""

    def __init__(self, core: CoreSearch, rest: Core, clock: Clock, report):
        self.core, self.clock, self.report = core, clock, report
        self.incumbent = core.best_cost
        self.reduced = reduce_problem(rest, Clock(0.1 * clock.left))
        self.forced = self.reduced.spent
        self.sets, self.costs = self.reduced.core.sets, self.reduced.core.costs
        self.stop, self.stop_other = StopSignal(), StopSignal()

    def run(self) -> None:
        """Search until solved or out of time."""
        core, clock = self.core, self.clock
        tiny = self.sets.n_sources <= _FEW_SOURCES and has_cp_sat() and core.is_whole
        other = self._prove if tiny else self._search
        with _Beside(other, Clock(clock.left), _SECONDS_ALONE, self.stop_other):
            limit = max(0.0, clock.left - 0.05)
            self._solve(limit, on_bound=self._on_bound, stop=self.stop)

    def _on_bound(self, bound: Exact) -> bool:
        self.core.claim(min(bound + self.forced, self.incumbent))
        self.report("exact solver")
        return self.core.is_solved

    def _offer(self, sources: NDArray[np.int64] | None) -> None:
        """Take a cover of the reduced problem, if it is one."""
        if sources is not None and self.sets.union(sources).all():
            names = self.reduced.selection(sources)
            self.core.offer(self.core.core.places(names))

    def _solve(self, seconds: float, **options: Any) -> None:
        answer = solve_exact(
            self.sets, self.costs, time_limit=seconds, seed=self.core.seed, **options
        )
        self._offer(answer.sources)
        self.core.claim(min(answer.lower_bound + self.forced, self.incumbent))

    def _prove(self, own: Clock) -> None:
        self._solve(own.left, stop=self.stop_other, linear=False)
        if self.core.is_solved:
            self.stop()

    def _search(self, own: Clock) -> None:
        core = self.core
        core.local.run(own, on_chunk=lambda: self.stop() if core.is_solved else None)


class _Beside:
    """Work in a thread of its own, begun after a while, ended with the block.

    Args:
        work: called with the clock, which ends it.
        clock: whose time limit counts.
        delay: seconds before it begins.
        stop: asks the work to end, where the clock does not.
    """

    def __init__(
        self,
        work: Callable[[Clock], object],
        clock: Clock,
        delay: float = 0.0,
        stop: Callable[[], object] = lambda: None,
    ):
        self._clock, self._stop = clock, stop
        self._end = threading.Event()

        def run() -> None:
            if not self._end.wait(min(delay, clock.left)):
                work(clock)

        self._thread = threading.Thread(target=run, daemon=True)

    def __enter__(self) -> "_Beside":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._clock.stop()
        self._stop()
        self._thread.join()

    def wait(self, seconds: float) -> None:
        """Wait for the work to be done.

        Args:
            seconds: at most so long.
        """
        self._thread.join(seconds)
