"""Minimum cover: search from above, bounds from below, until they meet.

Reductions first; then, for each component of what is left, local search and
primal-dual bounds in turns; then sources that no better cover can hold are fixed by
their reduced costs, and an exact solver gets the rest. Up to the exact solver the
work is counted in steps, not in seconds, so that a proven result repeats.
"""

import math
import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.cover.base import (
    Clock,
    Cover,
    Progress,
    ProgressCallback,
    check_costs,
    has_whole_costs,
    make_cover,
    total_cost,
)
from taskspace.cover.bounds import ascend, quick_bound
from taskspace.cover.exact import StopSignal, solve_exact
from taskspace.cover.local import LocalSearch
from taskspace.cover.prices import (
    certified_prices,
    cost_units,
    price_total,
    run_loads,
)
from taskspace.cover.primal_dual import PrimalDual
from taskspace.cover.reductions import Core, components, reduce_problem
from taskspace.cover.verify import verify_cover
from taskspace.sets import TargetSets

# An exact solver gains nothing in minutes beyond this many (source, target) pairs.
MAX_EXACT_PAIRS = 1_500_000
_FIRST_STEPS, _FIRST_ITERATIONS, _N_ROUNDS = 1000, 400, 6
_SECONDS_ALONE = 3.0  # the exact solver's, before local search runs beside it


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
        The best cover found and the best lower bound proven; verified.
    """
    clock = Clock(time_limit)
    cost = check_costs(costs, sets.n_sources)
    reduced = reduce_problem(sets, cost, Clock(0.3 * time_limit))
    parts = sorted(components(reduced.core), key=lambda part: part.sets.n_sources)
    chosen = reduced.forced.tolist()
    bound, kinds = float(cost[reduced.forced].sum()), []
    searches = [CoreSearch(part, seed) for part in parts]
    for k, search in enumerate(searches):
        known = bound + sum(later.lower for later in searches[k + 1 :])
        spent = total_cost(cost, np.array(chosen, np.int64))
        spent += sum(later.best_cost for later in searches[k + 1 :])

        def report(phase: str, search=search, spent=spent, known=known) -> None:
            if progress is not None:
                best, low = spent + search.best_cost, known + search.lower
                progress(Progress(clock.seconds, best, low, phase))

        search.solve(Clock(clock.left / (len(parts) - k)), report)
        chosen += parts[k].sources[search.best].tolist()
        bound += search.lower
        kinds.append((search.lower, search.kind))
    if not has_whole_costs(cost):
        bound *= 1 - 1e-12
    kind = max(kinds)[1] if kinds else "reductions"
    total = total_cost(cost, np.array(chosen, np.int64))
    cover = make_cover(
        "minimum",
        sets,
        np.sort(np.array(chosen, np.int64)),
        costs=cost,
        lower_bound=min(bound, total),
        lower_bound_kind=kind,
        stop_reason="proven optimal" if bound >= total * (1 - 1e-9) else "time limit",
        clock=clock,
    )
    if sets.n_sources * sets.n_targets <= _MAX_VERIFIED:
        verify_cover(cover, sets, costs, raise_on_failure=True)
    return cover


# The independent verifier unpacks everything; beyond this it is left to the user.
_MAX_VERIFIED = 4_000_000


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
        self.lower, self.kind = quick_bound(core.sets, core.costs)
        self.local = LocalSearch(core.sets, core.costs, seed=seed)
        self.dual = PrimalDual(core.sets, core.costs)
        self._found: NDArray[np.int64] | None = None

    @property
    def best(self) -> NDArray[np.int64]:
        """Sources of the best cover, as indices into the core."""
        return self.local.best if self._found is None else self._found

    @property
    def best_cost(self) -> float:
        """Cost of the best cover."""
        return total_cost(self.core.costs, self.best)

    @property
    def is_solved(self) -> bool:
        """Whether bound and cover meet."""
        return self.lower >= self.best_cost * (1 - 1e-12)

    def solve(self, clock: Clock, report) -> None:
        """Search until solved or out of time.

        Args:
            clock: whose time limit counts.
            report: called with the name of the phase.
        """
        small = int(self.core.sets.sizes.sum()) <= MAX_EXACT_PAIRS
        early = Clock(clock.left * (0.4 if small else 0.5))
        for k in range(_N_ROUNDS if small else 30):
            if self.is_solved or early.left <= 0:
                break
            report("local search")
            steps = _FIRST_STEPS << k
            self.local.run(early, max_steps=steps, target=self.lower)
            if not self.is_solved and not self._is_lp_done():
                report("lower bounds")
                self._raise_bound(early, _FIRST_ITERATIONS << k)
        if self.is_solved or clock.left <= 0:
            return
        if small:
            self._solve_exactly(clock, report)
        else:
            self._search_beside(clock, report)

    def _is_lp_done(self) -> bool:
        """Whether even the exact LP value could not raise the bound."""
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
        bound = price_total(*self._prices(), self.core.costs)
        if bound > self.lower:
            self.lower, self.kind = bound, "primal-dual"

    def _prices(self) -> tuple[NDArray[np.int64], int]:
        sets, costs = self.core.sets, self.core.costs
        units, shift = certified_prices(sets, costs, self.dual.prices)
        order = np.argsort(sets.inverse.sizes, kind="stable")
        return ascend(sets, costs, units, shift, order), shift

    def useful_sources(self) -> NDArray[np.bool_]:
        """Sources that a cover better than the best so far may hold.

        With feasible prices y, a cover that holds source s costs at least
        sum(y) + c_s - load_s; if that is no improvement, s is not needed.
        """
        units, shift = self._prices()
        sets, costs = self.core.sets, self.core.costs
        reduced_cost = cost_units(costs, shift) - run_loads(sets, units)
        goal = self.best_cost - 1 if self.is_whole else self.best_cost
        room = math.floor(goal * 2**shift) - int(units.sum())
        return reduced_cost <= room

    def _solve_exactly(self, clock: Clock, report) -> None:
        report("exact solver")
        incumbent, incumbent_cost = self.best, self.best_cost
        targets = np.ones(self.core.sets.n_targets, bool)
        rest = self.core.keep(self.useful_sources(), targets)
        if not rest.sets.coverable.all():
            self.lower, self.kind = incumbent_cost, "exact"
            return
        problem = reduce_problem(rest.sets, rest.costs, Clock(0.1 * clock.left))
        forced_cost = total_cost(rest.costs, problem.forced)
        sets = problem.core.sets
        beside = _Beside(self.local, clock)
        stop = StopSignal()

        def on_bound(bound: float) -> bool:
            self._claim(min(bound + forced_cost, incumbent_cost))
            report("exact solver")
            return self.lower >= self.local.best_cost

        beside.start(lambda: self.local.best_cost <= self.lower, stop)
        found = solve_exact(
            sets,
            problem.core.costs,
            time_limit=max(0.0, clock.left - 0.05),
            seed=self.seed,
            lower_bound=max(0.0, self.lower - forced_cost) if self.is_whole else 0.0,
            on_bound=on_bound,
            stop=stop,
        )
        beside.finish()
        self._claim(min(found.lower_bound + forced_cost, incumbent_cost))
        options = [(incumbent_cost, 0, incumbent)]
        if found.sources is not None:
            inner = np.concatenate(
                [problem.forced, problem.core.sources[found.sources]]
            )
            picked = rest_sources(self.core, rest, inner)
            options.append((total_cost(self.core.costs, picked), 1, picked))
        options.append((self.local.best_cost, 2, self.local.best))
        self._found = min(options, key=lambda option: option[:2])[2]

    def _claim(self, bound: float) -> None:
        if bound > self.lower:
            self.lower, self.kind = bound, "exact"

    def _search_beside(self, clock: Clock, report) -> None:
        """Local search in a second thread while this one raises the bound."""
        beside = _Beside(self.local, clock)
        beside.start(lambda: False, StopSignal(), delay=0.0)
        while clock.left > 0 and not self.is_solved and not self._is_lp_done():
            report("lower bounds")
            self._raise_bound(clock, _FIRST_ITERATIONS)
        while clock.left > 0 and not self.is_solved:
            report("local search")
            beside.wait(min(0.2, clock.left))
        beside.finish()


def rest_sources(
    core: Core, rest: Core, picked: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Indices into `core` of sources picked as indices into its part `rest`."""
    return np.searchsorted(core.sources, rest.sources[picked])


@dataclass
class _Beside:
    """A local search that runs in a thread of its own, after a while."""

    local: LocalSearch
    clock: Clock

    def start(self, is_done, stop: StopSignal, delay: float = _SECONDS_ALONE) -> None:
        self._own = Clock(self.clock.left)
        self._end = threading.Event()

        def look() -> None:
            if is_done():
                stop()

        def work() -> None:
            if not self._end.wait(min(delay, self._own.left)):
                self.local.run(self._own, on_chunk=look)

        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> None:
        self._thread.join(seconds)

    def finish(self) -> None:
        self._end.set()
        self._own.stop()
        self._thread.join()
