"""Selections for shares, budgets and means: greedy beginnings and swaps, compiled.

Swaps as in k-median search (Whitaker 1983; Resende & Werneck 2007): with the nearest
and the second nearest selected source of every target, one pass over the targets of a
source prices its exchange with every selected one.
"""

import numba
import numpy as np
from numpy.typing import NDArray

from taskspace._util.clock import Clock
from taskspace.cover.location.problem import Location

__all__ = ["begin_greedily", "completed", "swapped"]

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
