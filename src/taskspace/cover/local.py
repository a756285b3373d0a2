"""Local search: improve a cover by swapping sources, guided by target weights.

Row-weighting local search (Gao, Weise & Li, European Journal of Operational Research
246, 2015). A target that stays unserved gains weight until some source for it is
worth its place. The kernel works on runs of consecutive indices in both directions,
source to targets and target to sources, so that on grids its inner loops are
contiguous.
"""

from dataclasses import replace
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.clock import Clock
from taskspace.cover.costs import total_cost
from taskspace.cover.cover import Cover
from taskspace.cover.greedy import cover_greedily, greedy_sources
from taskspace.cover.prices import join_prices, quick_bound
from taskspace.cover.problem import CoverProblem
from taskspace.cover.reductions import reduce_problem
from taskspace.cover.registry import cover_method
from taskspace.performance.study import Study
from taskspace.progress import Progress, silent
from taskspace.questions import Question
from taskspace.sets import TargetSets

DEFAULT_SECONDS = 10.0
# Beyond this many (source, target) pairs even the inverse sets take minutes.
MAX_PAIRS = 2_000_000_000


@cover_method("local", colour="#CC79A7")
def local_cover(
    problem: Study | TargetSets,
    question: Question | str | None = None,
    *,
    costs: ArrayLike | None = None,
    time_limit: float | None = None,
    max_steps: int | None = None,
    seed: int = 0,
    include: ArrayLike = (),
    exclude: ArrayLike = (),
    progress: Progress | None = None,
) -> Cover:
    """Cover found by row-weighting local search.

    With `max_steps` and no `time_limit` the result depends on the arguments alone.

    Args:
        problem: a study, or the targets that each source serves.
        question: what is asked of a study.
        costs: cost of each source, `> 0`; all 1 where not given.
        time_limit: processor seconds; 10 where neither this nor `max_steps` is given.
        max_steps: number of swaps.
        seed: of the random choices.
        include: sources that must be selected.
        exclude: sources that must not be selected.
        progress: called now and then with where the search stands.

    Returns:
        The best cover found; never worse than greedy's.
    """
    if time_limit is None and max_steps is None:
        time_limit = DEFAULT_SECONDS
    clock, report = Clock(time_limit), progress or silent
    instance = CoverProblem(
        problem, question, costs=costs, include=include, exclude=exclude
    )
    _ = instance.sets  # made before the time counts
    clock.restart()
    if is_too_large(instance.sets):
        return greedy_instead(instance, "local")
    cost, whole = instance.scaled_costs, instance.core
    reduced = reduce_problem(whole, clock)
    core, spent = reduced.core, instance.included_cost + reduced.spent
    bound = quick_bound(core.sets, core.costs)
    search = LocalSearch(core.sets, core.costs, seed=seed)

    def on_chunk() -> None:
        best = cost.in_unit(spent + total_cost(core.costs, search.best))
        report("search", cost.in_unit(spent + bound.value), best, "local search")

    reason = search.run(
        clock, max_steps=max_steps, target=float(bound.value), on_chunk=on_chunk
    )
    chosen = np.sort(reduced.selection(search.best))
    greedy = whole.sources[greedy_sources(whole.sets, whole.costs)]
    if total_cost(cost.values, greedy) < total_cost(cost.values, chosen):
        chosen = greedy
    cover = instance.cover(
        "local",
        np.append(instance.include, chosen),
        lower_bound=spent + bound.value,
        lower_bound_kind=bound.kind,
        stop_reason=reason,
        clock=clock,
        prices=join_prices(cost, [(bound, core.targets)], reduced.prices),
    )
    return replace(cover, stop_reason="proven optimal") if cover.optimal else cover


def is_too_large(sets: TargetSets) -> bool:
    """Whether a search, which walks through every pair, would take too long.

    Args:
        sets: the targets that each source serves.
    """
    return int(sets.sizes.sum()) > MAX_PAIRS


def greedy_instead(instance: CoverProblem, method: str) -> Cover:
    """Greedy's cover for data that are too large to search.

    Args:
        instance: what is asked.
        method: name of the method that asked.
    """
    reason = "too large to search: this is greedy's cover"
    return replace(cover_greedily(instance), method=method, stop_reason=reason)


class _Graph(NamedTuple):
    """Who serves whom, as runs in both directions, and what sources cost."""

    s_off: NDArray[np.int64]
    s_sta: NDArray[np.int32]
    s_sto: NDArray[np.int32]
    t_off: NDArray[np.int64]
    t_sta: NDArray[np.int32]
    t_sto: NDArray[np.int32]
    costs: NDArray[np.float64]


class _State(NamedTuple):
    """Where a search stands; its kernels change these arrays in place."""

    fixed: NDArray[np.bool_]  # sources that alone serve some target: never removed
    place: NDArray[np.int64]  # position among the members, -1 outside
    members: NDArray[np.int64]
    n_serving: NDArray[np.int64]  # members that serve a target
    owner: NDArray[np.int64]  # xor of these members
    weight: NDArray[np.int64]
    score: NDArray[np.int64]  # gain outside, loss inside
    stamp: NDArray[np.int64]  # step of the last change
    may_enter: NDArray[np.bool_]
    open: NDArray[np.int64]  # unserved targets
    open_place: NDArray[np.int64]  # position among them, -1 if served
    best: NDArray[np.int64]  # members of the best cover
    counters: NDArray[np.int64]  # members, unserved, best members, steps, random state
    cost: NDArray[np.float64]  # of the members, of the best


class LocalSearch:
    """A row-weighting local search that can be stopped and continued.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source.
        seed: of the random choices.
        start: sources to begin with; missing targets are completed greedily.
    """

    def __init__(
        self,
        sets: TargetSets,
        costs: NDArray[np.float64],
        *,
        seed: int = 0,
        start: ArrayLike | None = None,
    ):
        runs = sets
        if not sets.coverable.all():
            runs = runs.keep_targets(sets.coverable)
        self._graph = _Graph(*runs.arrays, *runs.inverse.arrays, costs)
        n, m = runs.n_sources, runs.n_targets
        fixed = np.zeros(n, bool)
        alone = np.flatnonzero(runs.inverse.sizes == 1)
        fixed[runs.inverse.starts[runs.inverse.offsets[alone]]] = True
        random_state = int(np.random.default_rng(seed).integers(1, 2**62))
        self._state = _State(
            fixed=fixed,
            place=np.full(n, -1, np.int64),
            members=np.zeros(n, np.int64),
            n_serving=np.zeros(m, np.int64),
            owner=np.zeros(m, np.int64),
            weight=np.ones(m, np.int64),
            score=runs.sizes.copy(),
            stamp=np.zeros(n, np.int64),
            may_enter=np.ones(n, np.bool_),
            open=np.arange(m),
            open_place=np.arange(m),
            best=np.zeros(n, np.int64),
            counters=np.array([0, m, 0, 0, random_state], np.int64),
            cost=np.array([0.0, np.inf]),
        )
        self._steps_per_chunk = 16
        self._begin(sets, start)

    @property
    def best(self) -> NDArray[np.int64]:
        """Sources of the best cover so far, ascending."""
        return np.sort(self._state.best[: self._state.counters[2]])

    @property
    def best_cost(self) -> float:
        """Cost of the best cover so far."""
        return float(self._state.cost[1])

    @property
    def n_steps(self) -> int:
        """Swaps made so far."""
        return int(self._state.counters[3])

    def run(
        self,
        clock: Clock,
        *,
        max_steps: int | None = None,
        target: float = 0.0,
        on_chunk=None,
    ) -> str:
        """Search until the clock, the steps or the target is reached.

        Args:
            clock: whose time limit counts.
            max_steps: swaps to make at most.
            target: stop at a cover that costs no more than this.
            on_chunk: called every now and then.

        Returns:
            Why it stopped.
        """
        last = None if max_steps is None else self.n_steps + max_steps
        # Sums of floats decide when to stop, and only that: what is proven is decided
        # without rounding, by who calls this.
        goal = target * (1 + 1e-12)
        while self.best_cost > goal:
            steps = self._steps_per_chunk
            if last is not None:
                steps = min(steps, last - self.n_steps)
                if steps <= 0:
                    return "step limit"
            if clock.left <= 0:
                return "time limit"
            before = clock.seconds
            if not _search(self._graph, self._state, steps, goal):
                return "every source is needed"
            spent = max(clock.seconds - before, 1e-6)
            wanted = min(0.05, max(clock.left, 1e-3))
            growth = min(4.0, max(0.25, wanted / spent))
            self._steps_per_chunk = max(1, int(self._steps_per_chunk * growth))
            if on_chunk is not None:
                on_chunk()
        return "target reached"

    def _begin(self, sets: TargetSets, start: ArrayLike | None) -> None:
        order = greedy_sources(sets, self._graph.costs)
        if start is not None:
            given = np.unique(np.asarray(start, np.int64))
            complete = np.array_equal(sets.union(given), sets.coverable)
            costs = self._graph.costs
            if complete and costs[given].sum() <= costs[order].sum():
                order = given
        _install(self._graph, self._state, order)


# --- compiled kernels -------------------------------------------------------------
# s_: targets of a source, t_: sources of a target (offsets, starts, stops).
# Arrays are taken out of their tuples first: loops run as fast as over plain arguments.


@numba.njit(cache=True, nogil=True)
def _shift_scores(t_off, t_sta, t_sto, target, amount, score, may_enter):
    for r in range(t_off[target], t_off[target + 1]):
        for i in range(t_sta[r], t_sto[r]):
            score[i] += amount
        for i in range(t_sta[r], t_sto[r]):
            may_enter[i] = True


@numba.njit(cache=True, nogil=True)
def _add(graph, state, j):
    s_off, s_sta, s_sto = graph.s_off, graph.s_sta, graph.s_sto
    t_off, t_sta, t_sto = graph.t_off, graph.t_sta, graph.t_sto
    place, members, count, owner = (
        state.place,
        state.members,
        state.n_serving,
        state.owner,
    )
    weight, score, may_enter = state.weight, state.score, state.may_enter
    open_, open_place, counters = state.open, state.open_place, state.counters
    gain = score[j]
    place[j] = counters[0]
    members[counters[0]] = j
    counters[0] += 1
    state.cost[0] += graph.costs[j]
    for r in range(s_off[j], s_off[j + 1]):
        for t in range(s_sta[r], s_sto[r]):
            count[t] += 1
            if count[t] == 1:
                counters[1] -= 1
                last = open_[counters[1]]
                open_[open_place[t]] = last
                open_place[last] = open_place[t]
                open_place[t] = -1
                _shift_scores(t_off, t_sta, t_sto, t, -weight[t], score, may_enter)
            elif count[t] == 2:
                score[owner[t]] -= weight[t]
            owner[t] ^= j
    score[j] = gain
    state.stamp[j] = counters[3]


@numba.njit(cache=True, nogil=True)
def _remove(graph, state, j):
    s_off, s_sta, s_sto = graph.s_off, graph.s_sta, graph.s_sto
    t_off, t_sta, t_sto = graph.t_off, graph.t_sta, graph.t_sto
    place, members, count, owner = (
        state.place,
        state.members,
        state.n_serving,
        state.owner,
    )
    weight, score, may_enter = state.weight, state.score, state.may_enter
    open_, open_place, counters = state.open, state.open_place, state.counters
    loss = score[j]
    counters[0] -= 1
    last = members[counters[0]]
    members[place[j]] = last
    place[last] = place[j]
    place[j] = -1
    state.cost[0] -= graph.costs[j]
    for r in range(s_off[j], s_off[j + 1]):
        for t in range(s_sta[r], s_sto[r]):
            count[t] -= 1
            owner[t] ^= j
            if count[t] == 0:
                open_place[t] = counters[1]
                open_[counters[1]] = t
                counters[1] += 1
                _shift_scores(t_off, t_sta, t_sto, t, weight[t], score, may_enter)
            elif count[t] == 1:
                score[owner[t]] += weight[t]
    score[j] = loss
    state.stamp[j] = counters[3]
    may_enter[j] = False


@numba.njit(cache=True, nogil=True)
def _cheapest_member(graph, state, newer_than):
    """Member whose removal loses least weight per cost; oldest first on ties."""
    fixed, members, costs = state.fixed, state.members, graph.costs
    score, stamp = state.score, state.stamp
    best = -1
    for k in range(state.counters[0]):
        j = members[k]
        if fixed[j] or stamp[j] >= newer_than:
            continue
        if best >= 0:
            mine, other = score[j] * costs[best], score[best] * costs[j]
            if mine > other:
                continue
            if mine == other and (stamp[j], j) > (stamp[best], best):
                continue
        best = j
    return best


@numba.njit(cache=True, nogil=True)
def _best_entrant(graph, state, target, limit):
    """Source for a target with the largest gain per cost; oldest first on ties."""
    t_off, t_sta, t_sto = graph.t_off, graph.t_sta, graph.t_sto
    costs, score, stamp = graph.costs, state.score, state.stamp
    may_enter = state.may_enter
    best = -1
    for r in range(t_off[target], t_off[target + 1]):
        for j in range(t_sta[r], t_sto[r]):
            if not may_enter[j] or costs[j] >= limit:
                continue
            if best >= 0:
                mine, other = score[j] * costs[best], score[best] * costs[j]
                if mine < other or (mine == other and stamp[j] >= stamp[best]):
                    continue
            best = j
    return best


@numba.njit(cache=True, nogil=True)
def _keep_best(graph, state):
    members, counters, cost = state.members, state.counters, state.cost
    best = state.best
    counters[2] = counters[0]
    # Summed afresh, so that differences of floats do not pile up.
    cost[0] = 0.0
    for k in range(counters[0]):
        best[k] = members[k]
        cost[0] += graph.costs[members[k]]
    cost[1] = cost[0]


@numba.njit(cache=True, nogil=True)
def _install(graph, state, order):
    for j in order:
        _add(graph, state, j)
    _keep_best(graph, state)


@numba.njit(cache=True, nogil=True)
def _search(graph, state, n_steps, goal):
    """Make swaps; False if nothing can be removed at all."""
    t_off, t_sta, t_sto = graph.t_off, graph.t_sta, graph.t_sto
    weight, score, open_ = state.weight, state.score, state.open
    counters, cost = state.counters, state.cost
    # 1e-12, relative: less than what sums of floats may be off by is no gain.
    for _ in range(n_steps):
        counters[3] += 1
        step = counters[3]
        while counters[1] == 0:
            # A first visit here in a step always has a cheaper cover than the best.
            if cost[0] < cost[1] * (1 - 1e-12) or counters[0] < counters[2]:
                _keep_best(graph, state)
                if cost[1] <= goal:
                    return True
            j = _cheapest_member(graph, state, step + 1)
            if j < 0:
                return False
            _remove(graph, state, j)
        j = _cheapest_member(graph, state, step - 1)
        if j >= 0:
            _remove(graph, state, j)
        while counters[1] > 0:
            # xorshift64 on a positive int64 kept in the counters
            x = np.uint64(counters[4])
            x ^= x << np.uint64(13)
            x ^= x >> np.uint64(7)
            x ^= x << np.uint64(17)
            counters[4] = np.int64(x)
            t = open_[np.int64((x >> np.uint64(11)) % np.uint64(counters[1]))]
            limit = cost[1] * (1 - 1e-12) - cost[0]
            j = _best_entrant(graph, state, t, limit)
            if j < 0:
                break
            _add(graph, state, j)
            for k in range(counters[1]):
                weight[open_[k]] += 1
                t = open_[k]
                for r in range(t_off[t], t_off[t + 1]):
                    for i in range(t_sta[r], t_sto[r]):
                        score[i] += 1
    return True
