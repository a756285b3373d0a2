r"""One problem behind shares, budgets and means: choose sources, serve targets.

Choose at most `budget` sources. Each costs $c_s$; a target pays the least loss
$a_{st}$ of the selected sources, or its cap $d_t$ where none of its list is selected.

| question | source costs | losses | cap | budget | may stay unserved |
|---|---|---|---|---|---|
| partial cover | costs | 0 where served | none | all | weight `slack` in total |
| maximum coverage | 0 | 0 where served | weight of target | k | all, at its weight |
| least mean | 0 | weight × loss | none, or by a source that must be in | k | none |

For any prices $\lambda_t$ (at most the cap; for a share at most `rate` × weight), with
$\rho_s = \sum_t \max(0, \lambda_t - a_{st}) - c_s$, every selection costs at least
$\sum_t \lambda_t - \mathrm{rate} \cdot \mathrm{slack}$ minus the `budget` largest
positive $\rho_s$ (a Lagrangian bound; docs/theory.md, "Shares and means").
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from taskspace._util.clock import Clock
from taskspace.cover.costs import Exact
from taskspace.cover.cover import PriceProof
from taskspace.cover.solvers import cover_matrix
from taskspace.sets import TargetSets

_ROOM = 60  # bits that sums of prices may take
_MAX_ENTRIES, _NEAR = 30_000_000, 6  # of all lists; times a fair share of the sources
_BLOCK = 256


@dataclass(frozen=True, eq=False)
class Lists:
    """Entries `(member, value)` of each owner, one owner after the other.

    Args:
        offsets: where the entries of each owner begin, and where the last ones end.
        members: what the entries are about.
        values: a number for each.
    """

    offsets: NDArray[np.int64]
    members: NDArray[np.int32]
    values: NDArray[Any]

    @property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]:
        """All three, as the compiled kernels take them."""
        return self.offsets, self.members, self.values

    def turned(self, n_members: int) -> "Lists":
        """Return the entries of each member instead of each owner.

        Args:
            n_members: how many members there are.
        """
        order = np.argsort(self.members, kind="stable")
        counts = np.bincount(self.members, minlength=n_members)
        owners = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        return Lists(
            np.concatenate([[0], np.cumsum(counts)]),
            owners[order].astype(np.int32),
            self.values[order],
        )


@dataclass(frozen=True, eq=False)
class Location:
    """A problem as the search sees it: floats that guide, integers that prove.

    Args:
        lists: for each target the sources that matter to it and their losses,
            ascending.
        caps: the price of each target is at most this; inf for no limit.
        costs: cost of each source.
        budget: sources at most.
        weights: for a share the weight of each target, integers; None elsewhere.
        slack: for a share the weight that may stay unserved.
        shift: proofs are in integers of `2**-shift`.
        is_whole: every selection costs an integer, so that bounds may be rounded up.
    """

    lists: Lists
    caps: NDArray[np.float64]
    costs: NDArray[np.float64]
    budget: int
    weights: NDArray[Any] | None
    slack: int
    shift: int
    is_whole: bool

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return len(self.costs)

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return len(self.caps)

    @cached_property
    def by_source(self) -> Lists:
        """The targets of each source and its losses there."""
        return self.lists.turned(self.n_sources)

    def without(self, sources: NDArray[np.bool_]) -> "Location":
        """Return the problem with shorter lists; the sources keep their numbers.

        Args:
            sources: True for each source that no selection may hold.
        """
        kept = ~sources[self.lists.members]
        ends = np.concatenate([[0], np.cumsum(kept)])[self.lists.offsets]
        lists = Lists(ends, self.lists.members[kept], self.lists.values[kept])
        return replace(self, lists=lists)

    @cached_property
    def float_weights(self) -> NDArray[np.float64]:
        """Weights of targets for a share, rounded; none elsewhere."""
        if self.weights is None:
            return np.zeros(0)
        return self.weights.astype(np.float64)

    def units(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return numbers in integers of `2**-shift`, rounded down; inf is the largest.

        Args:
            values: the numbers.
        """
        top = 2.0**_ROOM
        with np.errstate(over="ignore"):
            scaled = np.floor(np.ldexp(values, self.shift))
        return np.clip(scaled, -top, top).astype(np.int64)

    @cached_property
    def loss_units(self) -> NDArray[np.int64]:
        """Losses of the lists in integers, rounded down."""
        return self.units(self.lists.values)

    @cached_property
    def cost_units(self) -> NDArray[np.int64]:
        """Costs of sources in integers, rounded down."""
        return self.units(self.costs)

    @cached_property
    def cap_units(self) -> NDArray[np.int64]:
        """Caps of targets in integers, rounded down."""
        return self.units(self.caps)


def finest_shift(total: float) -> int:
    """Return the finest unit in which sums up to a total stay within 60 bits.

    Args:
        total: an upper bound of every sum, in floats.
    """
    return _ROOM - 1 - int(np.frexp(max(total, 1e-300))[1])


def _serving(sets: TargetSets) -> Lists:
    """For each target the sources that serve it, at no loss."""
    matrix = cover_matrix(sets)
    return Lists(
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int32),
        np.zeros(len(matrix.indices)),
    )


def partial_cover(
    sets: TargetSets, costs: NDArray[np.float64], weights: NDArray[Any], needed: int
) -> Location:
    """Return the problem of the cheapest sources that serve enough weight.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, scaled.
        weights: weight of each target, integers.
        needed: weight that must be served.
    """
    counts = (weights > 0) & sets.coverable
    runs = sets.keep_targets(counts)
    counted = weights[counts]
    total = float(costs.sum()) * 2
    return Location(
        lists=_serving(runs),
        caps=np.full(len(counted), float(costs.max(initial=0.0))),
        costs=costs,
        budget=len(costs),
        weights=counted,
        slack=int(counted.sum()) - needed,
        shift=min(46, finest_shift(total * max(1, len(counted)))),
        is_whole=bool((costs == np.floor(costs)).all()),
    )


def maximum_coverage(sets: TargetSets, weights: NDArray[Any], budget: int) -> Location:
    """Return the problem of the sources that leave the least weight unserved.

    Args:
        sets: the targets that each source serves.
        weights: weight of each target, integers.
        budget: sources at most.
    """
    counts = (weights > 0) & sets.coverable
    counted = weights[counts].astype(np.float64)
    counted = np.where(
        counted > 2.0**53, np.nextafter(counted, 0.0), counted
    )  # never above
    return Location(
        lists=_serving(sets.keep_targets(counts)),
        caps=counted,
        costs=np.zeros(sets.n_sources),
        budget=min(budget, sets.n_sources),
        weights=None,
        slack=0,
        shift=min(46, finest_shift(2.0 * float(counted.sum()))),
        is_whole=True,
    )


def least_mean(
    losses: NDArray[np.float64],
    weights: NDArray[np.float64],
    budget: int,
    caps: NDArray[np.float64],
) -> Location:
    """Return the problem of the sources of least weighted loss.

    Args:
        losses: loss of each source at each target; inf where it may not be used.
        weights: weight of each target, `>= 0`.
        budget: sources at most, `>= 1`.
        caps: what each target pays if no source is selected; inf for no limit.
    """
    n_sources, n_targets = losses.shape
    room = _MAX_ENTRIES // max(1, n_targets)
    length = min(n_sources, max(min(_NEAR * n_sources // budget, room), 1))
    lists, beyond = _nearest(losses, weights, caps, length)
    finite = np.where(np.isfinite(lists.values), np.abs(lists.values), 0.0)
    dearest = float(finite.max(initial=0.0))
    limits = np.minimum(_product(caps, weights), beyond)
    # Where some selection serves a target not at all, it may cost more than all do.
    penalty = 2 * (dearest * n_targets + np.finfo(float).tiny)
    limits = np.where(np.isfinite(limits), limits, penalty)
    total = np.abs(limits).sum() + dearest * n_targets
    return Location(
        lists=lists,
        caps=limits,
        costs=np.zeros(n_sources),
        budget=min(budget, n_sources),
        weights=None,
        slack=0,
        shift=finest_shift(2.0 * float(total)),
        is_whole=False,
    )


def _product(
    losses: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Loss times weight, never above the exact product."""
    with np.errstate(invalid="ignore", over="ignore"):
        product = np.where(weights == 0, 0.0, losses * weights)
    exact = (weights == 1) | (product == 0) & (losses >= 0) | np.isinf(product)
    return np.where(exact, product, np.nextafter(product, -np.inf))


def _nearest(
    losses: NDArray[np.float64],
    weights: NDArray[np.float64],
    caps: NDArray[np.float64],
    length: int,
) -> tuple[Lists, NDArray[np.float64]]:
    """Return the nearest sources of each target, and what all others cost at least."""
    n_sources, n_targets = losses.shape
    members, values, counts = [], [], []
    beyond = np.empty(n_targets)
    for start in range(0, n_targets, _BLOCK):
        block = slice(start, start + _BLOCK)
        rows = np.ascontiguousarray(losses[:, block].T)
        if length < n_sources:
            order = np.argpartition(rows, length - 1, axis=1)
            rest = np.take_along_axis(rows, order[:, length:], 1).min(axis=1)
            order = order[:, :length]
        else:
            order = np.broadcast_to(np.arange(n_sources), rows.shape)
            rest = np.max(rows, axis=1, initial=0.0)  # more is never of use
        near = np.take_along_axis(rows, order, 1)
        ranked = np.argsort(near, axis=1, kind="stable")
        order = np.take_along_axis(order, ranked, 1)
        near = np.take_along_axis(near, ranked, 1)
        is_near = (near < np.inf) & (near < caps[block, None])
        priced = _product(near, weights[block, None])
        beyond[block] = _product(rest, weights[block])
        members.append(order[is_near].astype(np.int32))
        values.append(priced[is_near])
        counts.append(is_near.sum(axis=1))
    lengths = np.concatenate(counts) if counts else np.zeros(0, np.int64)
    lists = Lists(
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.concatenate(members) if members else np.zeros(0, np.int32),
        np.concatenate(values) if values else np.zeros(0),
    )
    return lists, beyond


def exact_sum(values: NDArray[np.float64], weights: NDArray[np.float64]) -> Fraction:
    """Return the sum of products of floats, without rounding.

    Args:
        values: finite numbers.
        weights: finite numbers, as many.
    """
    parts = [np.frexp(array) for array in (values, weights)]
    first, second = (np.ldexp(m, 53).astype(np.int64).tolist() for m, _ in parts)
    powers = (parts[0][1] + parts[1][1]).tolist()
    low = min(powers, default=0)
    total = sum(
        a * b << (power - low)
        for a, b, power in zip(first, second, powers, strict=True)
    )
    return total * Fraction(2) ** (low - 106)


# Selections for shares, budgets and means: greedy beginnings and swaps, compiled.
# Swaps as in k-median search (Whitaker 1983; Resende & Werneck 2007): with the
# nearest and the second nearest selected source of every target, one pass over the
# targets of a source prices its exchange with every selected one.


_CHUNK = 200_000  # entries between two looks at the clock


def begin_greedily(problem: Location, first: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a selection of the whole budget, grown by the source that saves most.

    Args:
        problem: with a budget.
        first: sources to begin with.
    """
    return _grow(*problem.by_source.arrays, problem.caps, problem.budget, first)


def swapped(
    problem: Location, sources: NDArray[np.int64], clock: Clock
) -> NDArray[np.int64]:
    """Return a selection that no exchange of one source improves, if time allows.

    Args:
        problem: with a budget.
        sources: where to begin.
        clock: whose time limit counts.
    """
    chosen = np.array(sources, np.int64)
    if not len(chosen) or problem.n_sources == len(chosen):
        return chosen
    lists, by_source = problem.lists.arrays, problem.by_source.arrays
    per_source = max(1, len(problem.lists.members) // problem.n_sources)
    chunk = max(1, _CHUNK // per_source)
    at, idle, best = 0, 0, np.inf
    while idle < problem.n_sources and clock.left > 0:
        n = min(chunk, problem.n_sources - idle)
        trial, total, last = _swap(
            *lists, *by_source, problem.caps, chosen.copy(), at, n
        )
        idle = idle + n if last < 0 else n - 1 - last
        if last >= 0 and not total < best:  # roundings that go in a circle
            break
        if last >= 0:
            chosen, best = trial, total
        at = (at + n) % problem.n_sources
    return np.sort(chosen)


def completed(
    problem: Location, order: NDArray[np.float64], needed: float
) -> NDArray[np.int64]:
    """Return sources that serve enough weight, without any that is not needed.

    Args:
        problem: of a share.
        order: sources of larger numbers are preferred; 0 leaves it to greedy.
        needed: weight that must be served.
    """
    return _complete(
        *problem.by_source.arrays[:2],
        problem.costs,
        problem.float_weights,
        order,
        needed,
    )


@numba.njit(cache=True, nogil=True)
def _grow(offsets, targets, losses, caps, budget, first):
    n = len(offsets) - 1
    top = 0.0
    for j in range(len(losses)):
        top = max(top, abs(losses[j]))
    # A target that no source serves yet pays more than any loss.
    pays = np.minimum(caps, (top + 1.0) * (len(caps) + 1))
    taken = np.zeros(n, np.bool_)
    chosen = np.empty(min(budget, n), np.int64)
    bound = np.full(n, np.inf)
    for k in range(len(chosen)):
        best, at = -1.0, -1
        if k < len(first):
            at = first[k]
        else:
            for s in range(n):
                if taken[s] or bound[s] <= best:  # gains only shrink
                    continue
                gain = 0.0
                for j in range(offsets[s], offsets[s + 1]):
                    gain += max(0.0, pays[targets[j]] - losses[j])
                bound[s] = gain
                if gain > best:
                    best, at = gain, s
        chosen[k] = at
        taken[at] = True
        for j in range(offsets[at], offsets[at + 1]):
            pays[targets[j]] = min(pays[targets[j]], losses[j])
    return chosen


@numba.njit(cache=True, nogil=True)
def _two_nearest(offsets, members, losses, caps, place, t):
    """Return the two nearest selected sources of a target: positions and losses."""
    p1, d1, d2 = -1, caps[t], caps[t]
    for j in range(offsets[t], offsets[t + 1]):
        at = place[members[j]]
        if at < 0 or losses[j] >= caps[t]:
            continue
        if p1 < 0:
            p1, d1 = at, losses[j]
        else:
            d2 = losses[j]
            break
    return p1, d1, d2


@numba.njit(cache=True, nogil=True)
def _swap(
    t_offsets, t_members, t_losses, offsets, targets, losses, caps, chosen, begin, n_try
):
    """Try sources in turn; exchange each with the selected one for which it pays."""
    n, m, k = len(offsets) - 1, len(caps), len(chosen)
    place = np.full(n, -1, np.int64)
    for i in range(k):
        place[chosen[i]] = i
    top = 0.0
    for j in range(len(losses)):
        top = max(top, abs(losses[j]))
    caps = np.minimum(caps, (top + 1.0) * (m + 1))
    p1, d1, d2 = np.empty(m, np.int64), np.empty(m), np.empty(m)
    drop = np.zeros(k)
    for t in range(m):
        p1[t], d1[t], d2[t] = _two_nearest(
            t_offsets, t_members, t_losses, caps, place, t
        )
        if p1[t] >= 0:
            drop[p1[t]] += d2[t] - d1[t]
    last = -1
    delta = np.empty(k)
    for i in range(n_try):
        s = (begin + i) % n
        if place[s] >= 0:
            continue
        delta[:] = drop
        gain = 0.0
        for j in range(offsets[s], offsets[s + 1]):
            t, a = targets[j], losses[j]
            if a < d1[t]:
                gain += d1[t] - a
                if p1[t] >= 0:
                    delta[p1[t]] -= d2[t] - d1[t]
            elif a < d2[t] and p1[t] >= 0:
                delta[p1[t]] -= d2[t] - a
        r = np.argmin(delta)
        if gain - delta[r] <= 1e-12 * (gain + abs(delta[r])):
            continue
        last = i
        out = chosen[r]
        chosen[r] = s
        place[out], place[s] = -1, r
        for side in range(2):
            source = out if side == 0 else s
            for j in range(offsets[source], offsets[source + 1]):
                t = targets[j]
                if p1[t] >= 0:
                    drop[p1[t]] -= d2[t] - d1[t]
                p1[t], d1[t], d2[t] = _two_nearest(
                    t_offsets, t_members, t_losses, caps, place, t
                )
                if p1[t] >= 0:
                    drop[p1[t]] += d2[t] - d1[t]
    return chosen, d1.sum(), last


@numba.njit(cache=True, nogil=True)
def _complete(offsets, targets, costs, weights, order, needed):
    n = len(offsets) - 1
    times = np.zeros(len(weights), np.int64)
    chosen = np.zeros(n, np.bool_)
    served = 0.0
    while served < needed:
        best, at = 0.0, -1
        for s in range(n):
            if chosen[s]:
                continue
            gain = 0.0
            for j in range(offsets[s], offsets[s + 1]):
                if times[targets[j]] == 0:
                    gain += weights[targets[j]]
            gain = min(gain, needed - served) * (1e-3 + order[s]) / costs[s]
            if gain > best:
                best, at = gain, s
        if at < 0:
            break
        chosen[at] = True
        for j in range(offsets[at], offsets[at + 1]):
            if times[targets[j]] == 0:
                served += weights[targets[j]]
            times[targets[j]] += 1
    for s in np.argsort(-costs):  # dearest first
        if not chosen[s]:
            continue
        lost = 0.0
        for j in range(offsets[s], offsets[s + 1]):
            if times[targets[j]] == 1:
                lost += weights[targets[j]]
        if served - lost >= needed:
            served -= lost
            chosen[s] = False
            for j in range(offsets[s], offsets[s + 1]):
                times[targets[j]] -= 1
    return np.flatnonzero(chosen)


# Prices on targets that raise the Lagrangian bound: the volume algorithm, compiled.
# Barahona & Anbil, Mathematical Programming 87 (2000). Prices move from the best ones
# so far along an average of subgradients; the average of the subproblems' selections
# tells which sources a branching should decide. Everything here is floats, and only
# proposes: what a bound may claim is recomputed in integers, see `branch`.


FREE, IN, OUT = 0, 1, 2
"""What is decided about a source."""


class Ascent(NamedTuple):
    """Best prices, their bound, and how often each source was selected on the way."""

    prices: NDArray[np.float64]
    value: float
    average: NDArray[np.float64]


def raise_prices(
    problem: Location,
    prices: NDArray[np.float64],
    state: NDArray[np.int8],
    goal: float,
    n_steps: int,
) -> Ascent:
    """Raise the bound of prices for so many steps, or until it reaches the goal.

    Args:
        problem: the problem.
        prices: where to begin.
        state: what is decided about each source.
        goal: cost of the best selection so far; no bound need be higher.
        n_steps: steps at most.
    """
    return Ascent(
        *_ascend(
            *problem.lists.arrays,
            problem.caps,
            problem.costs,
            problem.budget,
            problem.float_weights,
            float(problem.slack),
            state,
            prices,
            goal,
            n_steps,
        )
    )


@numba.njit(cache=True, nogil=True)
def _unserved(prices, weights, slack, z):
    """Fill in which share of each target stays unserved at the highest prices."""
    order = np.argsort(-prices / weights)
    room, worth = slack, 0.0
    z[:] = 0.0
    for t in order:
        if room <= 0 or prices[t] <= 0:
            break
        z[t] = min(1.0, room / weights[t])
        room -= weights[t]
        worth += z[t] * prices[t]
    return worth


@numba.njit(cache=True, nogil=True)
def _evaluate(
    offsets, members, losses, costs, budget, weights, slack, state, prices, g, x
):
    """Value of the Lagrangian at some prices, its subgradient and its selection."""
    n, m = len(costs), len(prices)
    rho = -costs
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
    if slack > 0:
        value -= _unserved(prices, weights, slack, g)
        g[:] = 1.0 - g
    for t in range(m):
        price = prices[t]
        for j in range(offsets[t], offsets[t + 1]):
            if losses[j] >= price:
                break
            g[t] -= x[members[j]]
    return value


@numba.njit(cache=True, nogil=True)
def _ascend(
    offsets, members, losses, caps, costs, budget, weights, slack, state, start,
    goal, n_steps,
):  # fmt: skip
    n, m = len(costs), len(start)
    best = start.copy()
    trial, g, x = np.empty(m), np.empty(m), np.empty(n)
    args = (offsets, members, losses, costs, budget, weights, slack, state)
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


# Branch and bound on prices in integers, for shares, budgets and means. A node
# decides some sources. Its prices, rounded to integers, bound every selection that
# agrees; by them, sources whose other decision could not beat the best selection are
# decided too. A node is closed when its bound is not below the best selection, when
# everything is decided, or when what is left cannot serve enough. The prices of the
# root are kept with the cover: `verify` proves their bound again.


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
