r"""Bounds and optima of the problems of `location`: prices, and a tree on them.

For any prices $\lambda_t$ of at most the cap, with
$\rho_s = \sum_t \max(0, \lambda_t - a_{st})$, every selection costs at least
$\sum_t \lambda_t$ minus the k largest $\rho_s$ (a Lagrangian bound; docs/theory.md,
"Shares and means"). The volume algorithm (Barahona & Anbil, Mathematical Programming
87, 2000) raises it in floats: prices move from the best ones so far along an average
of subgradients, and the average of the selections tells which source to branch on.
What a bound claims is computed in integers.

A node of the tree decides some sources. By its prices, sources whose other decision
could not beat the best selection are decided too. A node is closed when its bound is
not below the best selection, when everything is decided, or when what is left cannot
serve enough. The prices of the root are kept with the cover.
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
from taskspace.cover.cover import PriceProof
from taskspace.cover.location import Location

_ROOT_STEPS, _NODE_STEPS = 400, 120
_ROOT_ROUNDS = 12
_LEAST_PART = 0.02  # of the gap that a round must close for another one
FREE, IN, OUT = 0, 1, 2
"""The states of a source in a node."""

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
    average: NDArray[np.float64] | None = None


class Branching:
    """The best selection and the best bound of one problem, improved in turns.

    Args:
        problem: the problem.
        cost_of: gives the cost of a selection.
        round_: makes a selection of how often each source was selected.
        enough: stop as soon as it is known whether a selection costs at most this.
    """

    def __init__(
        self,
        problem: Location,
        cost_of: CostOf,
        round_: Rounding,
        enough: int | None = None,
    ):
        self.problem, self._cost_of, self._round = problem, cost_of, round_
        self._enough = enough
        self.best: NDArray[np.int64] | None = None
        self.best_cost: Exact | None = None
        # Prices that need no search: the least that each target pays.
        offsets, units = problem.lists.offsets, problem.cap_units.copy()
        some = np.diff(offsets) > 0
        nearest = problem.loss_units[offsets[:-1][some]]
        units[some] = np.minimum(units[some], nearest)
        state = np.zeros(problem.n_sources, np.int8)
        root = _Node(state, problem.caps / 2, int(units.sum()), units)
        self._kept = root.bound, units  # the best prices of the root
        self._lean = problem  # without sources that the root leaves out
        self._heap: list[tuple[int, int, _Node]] = [(root.bound, 0, root)]
        self._count = 0

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
    def _aim(self) -> Exact | None:
        """No bound need be higher: the cost of the best, or just more than enough."""
        if self._enough is None or self.best_cost is None:
            return self.best_cost
        return min(self.best_cost, self._enough + 1)

    @property
    def _goal(self) -> int | None:
        """The least integer bound that nothing worth a search is below."""
        if self._aim is None:
            return None
        exact, scale = Fraction(self._aim), Fraction(2) ** self.problem.shift
        if self.problem.is_whole:  # a bound above the next smaller integer
            return int((exact - 1) * scale // 1) + 1
        return int(-(-exact * scale // 1))

    @property
    def lower(self) -> Exact:
        """No selection costs less."""
        aim, bounds = self._aim, [node.bound for _, _, node in self._heap]
        if not bounds:
            return 0 if aim is None else aim
        exact = self._cost(min(bounds))
        return exact if aim is None else min(exact, aim)

    def _cost(self, bound: int) -> Exact:
        """Return a bound in integers as a cost, rounded up where costs are whole."""
        low = Fraction(bound) / Fraction(2) ** self.problem.shift
        return -(-low // 1) if self.problem.is_whole else low

    @property
    def kind(self) -> str:
        """Where the bound comes from: the prices of the root, or exact search."""
        return "prices" if self.lower <= self._cost(self._kept[0]) else "exact"

    def run(self, clock: Clock, report: Callable[[], object] = lambda: None) -> None:
        """Search until solved or out of time.

        Args:
            clock: whose time limit counts.
            report: called after every node.
        """
        while self._heap and clock.left > 0:
            if self._enough is not None and (self.best_cost or 0) <= self._enough:
                break
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

    def _bound(self, node: _Node, clock: Clock, is_root: bool) -> bool:
        """Raise the bound of a node; return True if the node is closed."""
        scale = Fraction(2) ** self.problem.shift
        value = -np.inf
        for _ in range(_ROOT_ROUNDS if is_root else 1):
            goal = self._goal
            aim = np.inf if goal is None else float(goal / scale)
            steps = _ROOT_STEPS if is_root else _NODE_STEPS
            node.prices, now, node.average = _ascend(
                *self._lean.lists,
                self.problem.caps,
                self.problem.budget,
                node.state,
                node.prices,
                aim,
                steps,
            )
            self._keep(node)
            if is_root:
                self._kept = node.bound, node.units
            self.offer(self._round(node.average))
            goal = self._goal
            if goal is not None and node.bound >= goal:
                return True
            gain, value = now - value, now
            if gain < max(1e-5 * abs(value), _LEAST_PART * (aim - value)):
                break
            if clock.left <= 0:
                break
        return False

    def _keep(self, node: _Node) -> None:
        """Keep integer prices of a node if they prove more than the ones before."""
        problem = self.problem
        units = np.minimum(problem.units(node.prices), problem.cap_units)
        loads = self._loads(units)
        bound = forced_bounds(int(units.sum()), loads, node.state, problem.budget)[0]
        if bound > node.bound:
            node.bound, node.units = bound, units
        room = problem.budget - int((node.state == IN).sum())
        free = np.flatnonzero((node.state == FREE) & (loads > 0))
        top = free[np.argsort(-loads[free], kind="stable")[: max(0, room)]]
        self.offer(np.append(np.flatnonzero(node.state == IN), top))

    def _loads(self, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what each source saves at some prices, in integers."""
        offsets, members, _ = self.problem.lists
        loads = np.zeros(self.problem.n_sources, np.int64)
        return _add_loads(offsets, members, self.problem.loss_units, units, loads)

    def _decide(self, node: _Node) -> bool:
        """Fix sources by reduced cost; return True if the node is closed."""
        problem, goal = self.problem, self._goal
        total, loads = int(node.units.sum()), self._loads(node.units)
        while goal is not None:
            state = node.state
            bound, with_it, without = forced_bounds(total, loads, state, problem.budget)
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
        """Branch on the source about which the subproblems agreed least."""
        free = np.flatnonzero(node.state == FREE)
        assert node.average is not None
        source = int(free[np.argmin(np.abs(node.average[free] - 0.5))])
        for decision in (IN, OUT):
            state = node.state.copy()
            state[source] = decision
            self._push(_Node(state, node.prices, node.bound, node.units))

    def excluded_budget(self, most: int) -> int:
        """Return a number of sources of which every selection costs more than `most`.

        The prices of the root prove it; -1 where they prove nothing.

        Args:
            most: in costs of the problem, an integer.
        """
        units = self._kept[1]
        saved = np.sort(self._loads(units))[::-1]
        left = int(units.sum()) - np.append(0, np.cumsum(saved))
        return int((left > most * 2**self.problem.shift).sum()) - 1

    def proof(self, targets: NDArray[np.int64]) -> PriceProof:
        """Return the prices of the root, which prove its bound.

        Args:
            targets: what the verifier calls each target.
        """
        units = self._kept[1]
        some, problem = units != 0, self.problem
        one = Fraction(1)
        return PriceProof(
            one, problem.shift, problem.is_whole, targets[some], units[some]
        )


def forced_bounds(
    total: int, values: NDArray[np.int64], state: NDArray[np.int8], budget: int
) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
    """Return the bound of a node, and with each free source forced in, and out.

    Args:
        total: sum of the prices.
        values: what each source saves at these prices, `>= 0`.
        state: what is decided about each source.
        budget: sources at most.
    """
    chosen = state == IN
    room = budget - int(chosen.sum())
    base = total - int(values[chosen].sum())
    free = state == FREE
    gains = np.where(free, values, 0)
    ranked = np.sort(gains)[::-1]
    padded = np.append(ranked, 0)
    room = max(0, min(room, len(ranked)))
    bound = base - int(ranked[:room].sum())
    last = int(padded[room - 1]) if room else 0
    following = int(padded[room])
    inside = gains >= last if room else np.zeros(len(gains), bool)
    forced_in = np.where(inside, bound, bound + last - values)
    forced_out = np.where(inside, bound + gains - following, bound)
    return bound, forced_in, np.maximum(forced_out, bound)


# --- compiled kernels -------------------------------------------------------------


@numba.njit(cache=True, nogil=True)
def _evaluate(offsets, members, losses, budget, state, prices, g, x):
    """Value of the Lagrangian at some prices, its subgradient and its selection."""
    n, m = len(state), len(prices)
    rho = np.zeros(n)
    value = 0.0
    for t in range(m):
        price = prices[t]
        value += price
        for j in range(offsets[t], offsets[t + 1]):
            if losses[j] >= price:
                break
            rho[members[j]] += price - losses[j]
    room = budget
    x[:] = 0.0
    gains = np.empty(n)
    n_gains = 0
    for s in range(n):
        if state[s] == IN:
            x[s] = 1.0
            value -= rho[s]
            room -= 1
        elif state[s] == FREE and rho[s] > 0:
            gains[n_gains] = rho[s]
            n_gains += 1
    least = 0.0
    n_equal = n_gains
    if room < n_gains and room > 0:
        ranked = np.sort(gains[:n_gains])
        least = ranked[n_gains - room]
        n_equal = 0
        for k in range(n_gains - room, n_gains):
            n_equal += ranked[k] == least
    if room > 0:
        for s in range(n):
            if state[s] == FREE and rho[s] > 0 and rho[s] >= least:
                if rho[s] == least and room < n_gains:
                    if n_equal == 0:
                        continue
                    n_equal -= 1
                x[s] = 1.0
                value -= rho[s]
    g[:] = 1.0
    for t in range(m):
        price = prices[t]
        for j in range(offsets[t], offsets[t + 1]):
            if losses[j] >= price:
                break
            g[t] -= x[members[j]]
    return value


@numba.njit(cache=True, nogil=True)
def _ascend(offsets, members, losses, caps, budget, state, start, goal, n_steps):
    """Raise the bound of prices for some steps, or until it reaches the goal."""
    n, m = len(state), len(start)
    best = start.copy()
    trial, g, x = np.empty(m), np.empty(m), np.empty(n)
    args = (offsets, members, losses, budget, state)
    value = _evaluate(*args, best, g, x)
    v, average = g.copy(), x.copy()
    step, weight, n_red, since = 0.1, 0.1, 0, 0
    for _ in range(n_steps):
        norm = np.sum(v * v)
        if value >= goal or norm < 1e-12 * m:
            break
        aim = goal if goal < np.inf else value + 0.05 * abs(value) + 1e-9
        length = step * max(aim - value, 1e-12 * abs(aim)) / norm
        for t in range(m):
            first = offsets[t]
            least = losses[first] if first < offsets[t + 1] else caps[t]
            trial[t] = min(max(best[t] + length * v[t], least), caps[t])
        now = _evaluate(*args, trial, g, x)
        along = np.sum(v * g)
        # The mix of both directions that is shortest, within limits.
        gap = np.sum(g * g) - 2 * along + norm
        mix = weight
        if gap > 0:
            mix = min(weight, max(weight / 10, (norm - along) / gap))
        v = mix * g + (1 - mix) * v
        average = mix * x + (1 - mix) * average
        if now > value:
            value = now
            best[:] = trial
            n_red, since = 0, 0
            if along > 0:
                step = min(2.0, 1.1 * step)
        else:
            n_red += 1
            since += 1
            if n_red >= 20:
                step = max(1e-4, 0.66 * step)
                n_red = 0
            if since >= 100:
                weight = max(1e-4, weight / 2)
                since = 0
    return best, value, average


@numba.njit(cache=True, nogil=True)
def _add_loads(offsets, members, losses, prices, loads):
    """For each source what its losses are below the prices, in integers."""
    for t in range(len(prices)):
        for j in range(offsets[t], offsets[t + 1]):
            if losses[j] >= prices[t]:
                break
            loads[members[j]] += prices[t] - losses[j]
    return loads
