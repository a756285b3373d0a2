"""Branch and bound on prices in integers, for shares, budgets and means.

A node decides some sources. Its prices, rounded to integers, bound every selection
that agrees; by them, sources whose other decision could not beat the best selection
are decided too. A node is closed when its bound is not below the best selection, when
everything is decided, or when what is left cannot serve enough. The prices of the root
are kept with the cover: `verify` proves their bound again.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numba
import numpy as np
from numpy.typing import NDArray

from taskspace._util.clock import Clock
from taskspace.cover.costs import Exact
from taskspace.cover.location.prices import FREE, IN, OUT, raise_prices
from taskspace.cover.location.problem import Location
from taskspace.cover.verify.proof import PriceProof

__all__ = ["Branching"]

_ROOT_STEPS, _NODE_STEPS = 400, 120
_ROOT_ROUNDS = 12
_LEAST_PART = 0.02  # of the gap that a round must close for another one

CostOf = Callable[[NDArray[np.int64]], "Exact | None"]
"""Cost of a selection without rounding, None for one that does not serve enough."""
Rounding = Callable[[NDArray[np.float64]], NDArray[np.int64]]
"""A selection from how much each source was wanted."""


@dataclass(eq=False)
class _Node:
    """Decisions, prices in floats and in integers, and the bound of these."""

    state: NDArray[np.int8]
    prices: NDArray[np.float64]
    bound: int
    units: NDArray[np.int64]
    rate: Fraction | None
    average: NDArray[np.float64] | None = None


class Branching:
    """The best selection and the best bound of one problem, improved in turns.

    Args:
        problem: the problem.
        cost_of: gives the cost of a selection.
        round_: makes a selection of how often each source was selected.
    """

    def __init__(self, problem: Location, cost_of: CostOf, round_: Rounding):
        self.problem, self._cost_of, self._round = problem, cost_of, round_
        self.best: NDArray[np.int64] | None = None
        self.best_cost: Exact | None = None
        least = _least(problem)
        rate = None if problem.weights is None else Fraction(0)
        state = np.zeros(problem.n_sources, np.int8)
        root = _Node(state, _first_prices(problem), int(least.sum()), least, rate)
        self._kept = root.bound, least, rate  # the best prices of the root
        self._lean = problem  # without sources that the root leaves out
        self._heap: list[tuple[int, int, _Node]] = [(root.bound, 0, root)]
        self._count = 0

    # --- selections ---------------------------------------------------------------

    def offer(self, sources: NDArray[np.int64]) -> None:
        """Take a selection if it is the best so far.

        Args:
            sources: the selection.
        """
        cost = self._cost_of(sources)
        if cost is None:
            return
        if self.best_cost is None or cost < self.best_cost:
            self.best, self.best_cost = np.sort(sources), cost

    @property
    def _goal(self) -> int | None:
        """The least integer bound that no better selection is below."""
        if self.best_cost is None:
            return None
        return goal_units(self.best_cost, self.problem.shift, self.problem.is_whole)

    @property
    def lower(self) -> Exact:
        """No selection costs less."""
        bounds = [node.bound for _, _, node in self._heap]
        if not bounds:
            return 0 if self.best_cost is None else self.best_cost
        exact = self._cost(min(bounds))
        return exact if self.best_cost is None else min(exact, self.best_cost)

    def _cost(self, bound: int) -> Exact:
        """Return a bound in integers as a cost, rounded up where costs are whole."""
        low = Fraction(bound) / Fraction(2) ** self.problem.shift
        return -(-low // 1) if self.problem.is_whole else low

    @property
    def kind(self) -> str:
        """Where the bound comes from: the prices of the root, or exact search."""
        return "prices" if self.lower <= self._cost(self._kept[0]) else "exact"

    @property
    def is_solved(self) -> bool:
        """Whether every node is closed."""
        return not self._heap

    # --- the search -----------------------------------------------------------------

    def run(self, clock: Clock, report: Callable[[], object] = lambda: None) -> None:
        """Search until solved or out of time.

        Args:
            clock: whose time limit counts.
            report: called after every node.
        """
        while self._heap and clock.left > 0:
            _, _, node = heapq.heappop(self._heap)
            is_root = self._count == 0
            if self._bound(node, clock, is_root) or self._decide(node):
                report()
                continue
            if clock.left <= 0:
                self._push(node)
                break
            if is_root:
                self._lean = self.problem.without(node.state == OUT)
            self._split(node)
            report()

    def _push(self, node: _Node) -> None:
        self._count += 1
        heapq.heappush(self._heap, (node.bound, self._count, node))

    def _is_closed(self, node: _Node) -> bool:
        goal = self._goal
        return goal is not None and node.bound >= goal

    def _bound(self, node: _Node, clock: Clock, is_root: bool) -> bool:
        """Raise the bound of a node; whether that closes it."""
        problem = self.problem
        rounds = _ROOT_ROUNDS if is_root else 1
        scale = Fraction(2) ** problem.shift
        value = -np.inf
        for _ in range(rounds):
            goal = self._goal
            aim = np.inf if goal is None else float(goal / scale)
            steps = _ROOT_STEPS if is_root else _NODE_STEPS
            ascent = raise_prices(self._lean, node.prices, node.state, aim, steps)
            node.prices, node.average = ascent.prices, ascent.average
            self._keep(node)
            if is_root:
                self._kept = node.bound, node.units, node.rate
            self.offer(self._round(ascent.average))
            if self._is_closed(node):
                return True
            gain, value = ascent.value - value, ascent.value
            if gain < max(1e-5 * abs(value), _LEAST_PART * (aim - value)):
                break
            if clock.left <= 0:
                break
        return False

    def _keep(self, node: _Node) -> None:
        """Take the prices of a node in integers, if they prove more than before."""
        problem = self.problem
        units, rate = integer_prices(problem, node.prices)
        total, values = self._values(units, rate)
        bound = forced_bounds(total, values, node.state, problem.budget)[0]
        if bound > node.bound:
            node.bound, node.units, node.rate = bound, units, rate
        room = problem.budget - int((node.state == IN).sum())
        free = np.flatnonzero((node.state == FREE) & (values > 0))
        top = free[np.argsort(-values[free], kind="stable")[: max(0, room)]]
        self.offer(np.append(np.flatnonzero(node.state == IN), top))

    def _values(
        self, units: NDArray[np.int64], rate: Fraction | None
    ) -> tuple[int, NDArray[np.int64]]:
        """Return the sum of prices, and what each source saves less its cost."""
        problem = self.problem
        offsets, members, _ = problem.lists.arrays
        loads = np.zeros(problem.n_sources, np.int64)
        loads = _loads(offsets, members, problem.loss_units, units, loads)
        total = int(units.sum())
        if rate is not None:
            total -= -(-rate.numerator * problem.slack // rate.denominator)
        return total, loads - problem.cost_units

    def _decide(self, node: _Node) -> bool:
        """Decide what the prices of a node decide; whether nothing is left of it."""
        problem, goal = self.problem, self._goal
        total, values = self._values(node.units, node.rate)
        while goal is not None:
            state = node.state
            bound, with_it, without = forced_bounds(
                total, values, state, problem.budget
            )
            node.bound = max(node.bound, bound)
            out = (state == FREE) & (with_it >= goal)
            must = (state == FREE) & (without >= goal)
            if node.bound >= goal or (out & must).any():
                return True
            if not (out | must).any():
                break
            node.state = np.where(out, OUT, np.where(must, IN, state)).astype(np.int8)
            if (node.state == IN).sum() >= problem.budget:
                break
        chosen = np.flatnonzero(node.state == IN)
        if len(chosen) > problem.budget:
            return True
        if len(chosen) == problem.budget or not (node.state == FREE).any():
            self.offer(chosen)
            return True
        able = np.flatnonzero(node.state != OUT)
        return self._cost_of(able) is None  # all of them together serve too little

    def _split(self, node: _Node) -> None:
        """Decide the source about which the subproblems agreed least."""
        free = np.flatnonzero(node.state == FREE)
        assert node.average is not None
        source = int(free[np.argmin(np.abs(node.average[free] - 0.5))])
        for decision in (IN, OUT):
            state = node.state.copy()
            state[source] = decision
            self._push(_Node(state, node.prices, node.bound, node.units, node.rate))

    def proof(self, unit: Fraction, targets: NDArray[np.int64]) -> PriceProof:
        """Return the prices of the root, which prove its bound.

        Args:
            unit: what a cost of 1 in the problem is worth to the user.
            targets: what the verifier calls each target.
        """
        _, units, rate = self._kept
        some = units != 0
        scale = unit, self.problem.shift, self.problem.is_whole
        return PriceProof(*scale, targets[some], units[some], rate)


def goal_units(cost: Exact, shift: int, is_whole: bool) -> int:
    """Return the least integer bound that proves that no selection costs less.

    Args:
        cost: of the best selection.
        shift: bounds are in integers of `2**-shift`.
        is_whole: bounds may be rounded up to integer costs.
    """
    exact = Fraction(cost)
    scale = Fraction(2) ** shift
    if is_whole:  # a bound above the next smaller integer
        return int((exact - 1) * scale // 1) + 1
    return int(-(-exact * scale // 1))


def forced_bounds(
    total: int, values: NDArray[np.int64], state: NDArray[np.int8], budget: int
) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
    """Return the bound of a node, and with each free source forced in, and out.

    Args:
        total: sum of the prices, less what may stay unserved.
        values: what each source saves at these prices, less its cost.
        state: what is decided about each source.
        budget: sources at most.
    """
    chosen = state == IN
    room = budget - int(chosen.sum())
    base = total - int(values[chosen].sum())
    free = state == FREE
    gains = np.where(free, np.maximum(values, 0), 0)
    ranked = np.sort(gains)[::-1]
    padded = np.append(ranked, 0)
    room = max(0, min(room, len(ranked)))
    bound = base - int(ranked[:room].sum())
    last = int(padded[room - 1]) if room else 0
    following = int(padded[room])
    inside = gains >= last if room else np.zeros(len(gains), bool)
    forced_in = np.where(inside & (values >= 0), bound, bound + last - values)
    forced_out = np.where(inside, bound + gains - following, bound)
    return bound, forced_in, np.maximum(forced_out, bound)


def integer_prices(
    problem: Location, prices: NDArray[np.float64]
) -> tuple[NDArray[np.int64], Fraction | None]:
    """Return prices in integers that keep to their caps, and the rate of a share.

    Args:
        problem: the problem.
        prices: any numbers.
    """
    units = np.minimum(problem.units(prices), problem.cap_units)
    if problem.weights is None or problem.slack == 0:
        return units, None
    ratios = units / problem.float_weights
    order = np.argsort(-ratios, kind="stable")
    until = np.cumsum(problem.weights[order])
    at = int(np.searchsorted(until, problem.slack, side="left"))
    if at >= len(order):
        return np.zeros_like(units), Fraction(0)
    last = int(order[at])
    rate = Fraction(int(units[last]), int(problem.weights[last]))
    limits = problem.weights.astype(object) * rate.numerator // rate.denominator
    return np.minimum(units, limits).astype(np.int64), rate


def _first_prices(problem: Location) -> NDArray[np.float64]:
    """Begin the price of a target at the loss of one of its nearer sources."""
    offsets, _, losses = problem.lists.arrays
    lengths = np.diff(offsets)
    if problem.weights is not None:  # of a share: cost per target of its sources
        per_target = problem.costs / np.maximum(1, np.diff(problem.by_source.offsets))
        prices = np.full(problem.n_targets, np.inf)
        np.minimum.at(
            prices,
            np.repeat(np.arange(problem.n_targets), lengths),
            per_target[problem.lists.members],
        )
        return np.minimum(prices, problem.caps)
    if np.isfinite(problem.caps).all():
        return problem.caps / 2
    share = 2.0 / max(1, problem.budget)
    at = offsets[:-1] + np.minimum(lengths - 1, (lengths * share).astype(np.int64))
    return np.minimum(losses[at], problem.caps)


def _least(problem: Location) -> NDArray[np.int64]:
    """Prices that need no search: the least that each target pays."""
    if problem.weights is not None:
        return np.zeros(problem.n_targets, np.int64)
    offsets = problem.lists.offsets
    some = np.diff(offsets) > 0
    first = problem.cap_units.copy()
    first[some] = np.minimum(first[some], problem.loss_units[offsets[:-1][some]])
    return first


@numba.njit(cache=True, nogil=True)
def _loads(offsets, members, losses, prices, loads):
    """For each source what its losses are below the prices, in integers."""
    for t in range(len(prices)):
        for j in range(offsets[t], offsets[t + 1]):
            if losses[j] >= prices[t]:
                break
            loads[members[j]] += prices[t] - losses[j]
    return loads
