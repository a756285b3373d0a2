r"""Choose at most k sources; each target pays the least loss of them: the selections.

| question | losses | cap |
|---|---|---|
| most weight served by a budget | 0 where served | weight of the target |
| least mean loss of a budget | weight × loss | none, or by a source that must be in |

A target pays the least loss $a_{st}$ of the selected sources, or its cap $d_t$ where
none of its list is selected. `branching` bounds what they pay.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from taskspace._util.clock import Clock
from taskspace.cover.lp import cover_matrix
from taskspace.sets import TargetSets

_ROOM = 60  # bits that sums of prices may take
_MAX_ENTRIES, _NEAR = 30_000_000, 6  # of all lists; times a fair share of the sources
_BLOCK = 256


class Lists(NamedTuple):
    """Entries `(member, value)` of each owner, one owner after the other.

    Args:
        offsets: where the entries of each owner begin, and where the last ones end.
        members: what the entries are about.
        values: a number for each.
    """

    offsets: NDArray[np.int64]
    members: NDArray[np.int32]
    values: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Location:
    """A problem as the search sees it: floats that guide, integers that prove.

    Args:
        lists: for each target the sources that matter to it and their losses,
            ascending.
        caps: the price of each target is at most this.
        n_sources: number of sources.
        budget: sources at most.
        is_whole: every selection costs an integer, so that bounds may be rounded up.
        shift: proofs are in integers of `2**-shift`.
    """

    lists: Lists
    caps: NDArray[np.float64]
    n_sources: int
    budget: int
    is_whole: bool
    shift: int

    @cached_property
    def by_source(self) -> Lists:
        """The targets of each source and its losses there."""
        offsets, members, values = self.lists
        order = np.argsort(members, kind="stable")
        counts = np.bincount(members, minlength=self.n_sources)
        owners = np.repeat(np.arange(len(self.caps)), np.diff(offsets))
        ends = np.concatenate([[0], np.cumsum(counts)])
        return Lists(ends, owners[order].astype(np.int32), values[order])

    def without(self, sources: NDArray[np.bool_]) -> "Location":
        """Return the problem with shorter lists; the sources keep their numbers.

        Args:
            sources: True for each source that no selection may hold.
        """
        offsets, members, values = self.lists
        kept = ~sources[members]
        ends = np.concatenate([[0], np.cumsum(kept)])[offsets]
        return replace(self, lists=Lists(ends, members[kept], values[kept]))

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
    def cap_units(self) -> NDArray[np.int64]:
        """Caps of targets in integers, rounded down."""
        return self.units(self.caps)


def _finest_shift(total: float) -> int:
    """Return the finest unit in which sums up to a total stay within 60 bits."""
    return _ROOM - 1 - int(np.frexp(max(total, 1e-300))[1])


def maximum_coverage(sets: TargetSets, weights: NDArray[Any], budget: int) -> Location:
    """Return the problem of the sources that leave the least weight unserved.

    Args:
        sets: the targets that each source serves.
        weights: weight of each target, integers.
        budget: sources at most.
    """
    counts = (weights > 0) & sets.coverable
    caps = weights[counts].astype(np.float64)
    caps = np.where(caps > 2.0**53, np.nextafter(caps, 0.0), caps)  # never above
    matrix = cover_matrix(sets.keep_targets(counts))
    lists = Lists(
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int32),
        np.zeros(len(matrix.indices)),
    )
    shift = min(46, _finest_shift(2.0 * float(caps.sum())))
    n = sets.n_sources
    return Location(lists, caps, n, min(budget, n), True, shift)


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
    shift = _finest_shift(2.0 * float(total))
    return Location(lists, limits, n_sources, min(budget, n_sources), False, shift)


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
    lists = Lists(
        np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int64),
        np.concatenate(members),
        np.concatenate(values),
    )
    return lists, beyond


# Selections: greedy beginnings and swaps, compiled. Swaps as in k-median search
# (Whitaker 1983; Resende & Werneck 2007): with the nearest and the second nearest
# selected source of every target, one pass over the targets of a source prices its
# exchange with every selected one.

_CHUNK = 200_000  # entries between two looks at the clock


def begin_greedily(problem: Location) -> NDArray[np.int64]:
    """Return a selection of the whole budget, grown by the source that saves most.

    Args:
        problem: with a budget.
    """
    return _grow(*problem.by_source, problem.caps, problem.budget)


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
    per_source = max(1, len(problem.lists.members) // problem.n_sources)
    chunk = max(1, _CHUNK // per_source)
    at, idle, best = 0, 0, np.inf
    while idle < problem.n_sources and clock.left > 0:
        n = min(chunk, problem.n_sources - idle)
        trial, total, last = _swap(
            *problem.lists, *problem.by_source, problem.caps, chosen.copy(), at, n
        )
        idle = idle + n if last < 0 else n - 1 - last
        if last >= 0 and not total < best:  # roundings that go in a circle
            break
        if last >= 0:
            chosen, best = trial, total
        at = (at + n) % problem.n_sources
    return np.sort(chosen)


@numba.njit(cache=True, nogil=True)
def _grow(offsets, targets, losses, caps, budget):
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
