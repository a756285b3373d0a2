"""Covers of graphs: every target has two sources, one of which must be selected.

Then sources are vertices, targets are edges, and a cover is a vertex cover. The LP of
such problems proves little more than half of the vertices. Here a search counts in
integers: it takes one vertex or all of its neighbours, after reductions (a vertex whose
neighbours are all neighbours of one of them leaves that one in). A node is closed by
cliques: of each all vertices but one must be in, and one vertex more for every
disjoint group of cliques that cannot all have a vertex out (unit propagation, as
MaxSAT reasoning does for cliques: Li & Quan, AAAI 2010).

The search is asked for covers of fewer than a number of vertices, and the number rises:
so there is a bound at any time.
"""

from collections.abc import Callable

import numba
import numpy as np
from numpy.typing import NDArray

from taskspace.cover.base import Clock
from taskspace.cover.solvers import cover_matrix
from taskspace.sets import RunSets

__all__ = ["GraphSearch", "is_graph_like"]

MAX_VERTICES = 3000
_LEAST_SHARE = 0.5  # of targets with two sources, for a problem to be like a graph
_STEP = 2  # vertices by which the number rises
_CHUNK = 500  # nodes between two looks at the clock
_TRAIL, _SIZE, _DEPTH, _BEST, _QUEUE = range(5)  # places of counters


def is_graph_like(sets: RunSets) -> bool:
    """Return whether a problem of moderate size has mostly targets of two sources.

    Args:
        sets: the targets that each source serves.
    """
    pairs = int((sets.inverse.sizes == 2).sum())
    return sets.n_sources <= MAX_VERTICES and pairs >= _LEAST_SHARE * sets.n_targets


class GraphSearch:
    """Bounds on covers of the targets that have two sources, each of cost 1.

    Where other targets are left out, covers of all targets need no fewer.

    Args:
        sets: the targets that each source serves.
    """

    def __init__(self, sets: RunSets):
        rows, n = cover_matrix(sets), sets.n_sources
        first = rows.indptr[:-1][np.diff(rows.indptr) == 2]
        pairs = np.stack([rows.indices[first], rows.indices[first + 1]], axis=1)
        joined = np.zeros((n, n), bool)
        joined[pairs[:, 0], pairs[:, 1]] = joined[pairs[:, 1], pairs[:, 0]] = True
        offsets = np.concatenate([[0], np.cumsum(joined.sum(axis=1))])
        self._graph = (offsets, np.nonzero(joined)[1], joined)
        self.best: NDArray[np.int64] | None = None

    def deepen(
        self,
        lower: int,
        upper: Callable[[], int],
        clock: Clock,
        on_bound: Callable[[int], object],
        max_nodes: int | None = None,
    ) -> None:
        """Raise the bound until it meets the best cover, or time or nodes are spent.

        Args:
            lower: no cover has fewer sources.
            upper: gives the size of the best cover known.
            clock: whose time limit counts.
            on_bound: called with each better bound; `best` is then the smallest cover
                of the pairs if one of that size was seen.
            max_nodes: of all searches together; no limit if left out.
        """
        spent = 0
        while lower < upper():
            nodes = None if max_nodes is None else max_nodes - spent
            below = min(lower + _STEP, upper())
            bound, used = self._search(below, clock, nodes)
            spent += used
            if bound is None:
                return
            lower = bound
            on_bound(bound)
            if bound < below:  # as many as the pairs need
                return

    def _search(
        self, below: int, clock: Clock, max_nodes: int | None
    ) -> tuple[int | None, int]:
        """Look for covers of fewer sources; a bound if none is left, and the nodes."""
        offsets, _, _ = self._graph
        n = len(offsets) - 1
        live = np.ones(n, bool), np.diff(offsets), np.zeros(n, bool)
        trail, stack = np.empty(n, np.int64), np.empty((n + 1, 3), np.int64)
        queue = np.arange(n), np.ones(n, bool)
        counters = np.array([0, 0, 0, below, n], np.int64)
        best, work = np.zeros(n, bool), np.empty((9, n + 1), np.int64)
        used, is_done = 0, False
        while (
            not is_done and clock.left > 0 and (max_nodes is None or used < max_nodes)
        ):
            is_done = _branch(
                self._graph, live, trail, stack, queue, counters, best, work, _CHUNK
            )
            used += _CHUNK
        if counters[_BEST] < below:
            self.best = np.flatnonzero(best)
        return (int(counters[_BEST]) if is_done else None), used


# --- compiled kernels -------------------------------------------------------------


@numba.njit(cache=True, nogil=True)
def _take(graph, live, trail, queue, counters, v):
    """Take a vertex into the cover, and mark neighbours that it makes simpler."""
    offsets, neighbours, _ = graph
    alive, degree, taken = live
    waiting, is_waiting = queue
    alive[v], taken[v] = False, True
    trail[counters[_TRAIL]] = v
    counters[_TRAIL] += 1
    counters[_SIZE] += 1
    for j in range(offsets[v], offsets[v + 1]):
        u = neighbours[j]
        if alive[u]:
            degree[u] -= 1
            if degree[u] <= 4 and not is_waiting[u]:
                waiting[counters[_QUEUE]] = u
                counters[_QUEUE] += 1
                is_waiting[u] = True


@numba.njit(cache=True, nogil=True)
def _undo(graph, live, trail, counters, until):
    """Put back what was decided since a place of the trail."""
    offsets, neighbours, _ = graph
    alive, degree, taken = live
    while counters[_TRAIL] > until:
        counters[_TRAIL] -= 1
        v = trail[counters[_TRAIL]]
        alive[v] = True
        if taken[v]:
            taken[v] = False
            counters[_SIZE] -= 1
            for j in range(offsets[v], offsets[v + 1]):
                if alive[neighbours[j]]:
                    degree[neighbours[j]] += 1


@numba.njit(cache=True, nogil=True)
def _dominating(graph, alive, v):
    """Return a neighbour that is joined to all other neighbours, or −1."""
    offsets, neighbours, joined = graph
    for j in range(offsets[v], offsets[v + 1]):
        u = neighbours[j]
        if not alive[u]:
            continue
        is_joined = True
        for i in range(offsets[v], offsets[v + 1]):
            w = neighbours[i]
            if alive[w] and w != u and not joined[u, w]:
                is_joined = False
                break
        if is_joined:
            return u
    return -1


@numba.njit(cache=True, nogil=True)
def _reduce(graph, live, trail, queue, counters):
    """Decide what some smallest cover decides: lone vertices, dominating ones."""
    alive, degree, _ = live
    waiting, is_waiting = queue
    while counters[_QUEUE] > 0:
        counters[_QUEUE] -= 1
        v = waiting[counters[_QUEUE]]
        is_waiting[v] = False
        if not alive[v] or counters[_SIZE] >= counters[_BEST]:
            continue
        if degree[v] == 0:
            alive[v] = False
            trail[counters[_TRAIL]] = v
            counters[_TRAIL] += 1
        elif degree[v] <= 4:
            u = _dominating(graph, alive, v)
            if u >= 0:
                _take(graph, live, trail, queue, counters, u)


@numba.njit(cache=True, nogil=True)
def _order(live, order, count):
    """Vertices in ascending order of degree; how many, and one of largest degree."""
    alive, degree, _ = live
    count[:] = 0
    n, widest = 0, -1
    for v in range(len(alive)):
        if alive[v]:
            n += 1
            count[degree[v] + 1] += 1
            if widest < 0 or degree[v] > degree[widest]:
                widest = v
    for d in range(len(count) - 1):
        count[d + 1] += count[d]
    for v in range(len(alive)):
        if alive[v]:
            order[count[degree[v]]] = v
            count[degree[v]] += 1
    return n, widest


@numba.njit(cache=True, nogil=True)
def _cliques(graph, alive, order, n, clique, size, count):
    """Put each vertex into the largest clique that it fits; how many cliques."""
    offsets, neighbours, _ = graph
    clique[:] = -1
    count[:] = 0
    n_cliques = 0
    for i in range(n):
        v = order[i]
        best = -1
        for j in range(offsets[v], offsets[v + 1]):
            u = neighbours[j]
            c = clique[u] if alive[u] else -1
            if c >= 0:
                count[c] += 1
                if count[c] == size[c] and (best < 0 or size[c] > size[best]):
                    best = c
        for j in range(offsets[v], offsets[v + 1]):
            u = neighbours[j]
            if alive[u] and clique[u] >= 0:
                count[clique[u]] = 0
        if best < 0:
            best, size[n_cliques] = n_cliques, 0
            n_cliques += 1
        clique[v] = best
        size[best] += 1
    return n_cliques


@numba.njit(cache=True, nogil=True)
def _conflicts(graph, alive, work, n, n_cliques, enough):
    """Disjoint groups of cliques that cannot all have a vertex out, until enough.

    A clique of one vertex has that one out, so its neighbours are in; a clique of
    which one vertex is left has that one out, and so on. Where none is left, the
    cliques that led to it are a group.
    """
    offsets, neighbours, _ = graph
    order, clique, size, head, after = work[0], work[1], work[2], work[3], work[4]
    cause, room, pending, used = work[5], work[6], work[7], work[8]
    head[:n_cliques] = -1
    used[:n_cliques] = 0
    for i in range(n):
        v = order[i]
        after[v], head[clique[v]] = head[clique[v]], v
    n_groups = 0
    for first in range(n_cliques):
        if size[first] != 1 or used[first]:
            continue
        for i in range(n):
            cause[order[i]] = -1
        room[:n_cliques] = size[:n_cliques]
        pending[0] = head[first]
        n_pending, at, empty = 1, 0, -1
        while at < n_pending and empty < 0:
            v = pending[at]
            at += 1
            for j in range(offsets[v], offsets[v + 1]):
                u = neighbours[j]
                if not alive[u] or cause[u] >= 0:
                    continue
                c = clique[u]
                if used[c] or c == clique[v]:
                    continue
                cause[u] = v
                room[c] -= 1
                if room[c] == 0:
                    empty = c
                    break
                if room[c] == 1:
                    w = head[c]
                    while cause[w] >= 0:
                        w = after[w]
                    pending[n_pending] = w
                    n_pending += 1
        if empty < 0:
            continue
        n_groups += 1
        if n_groups >= enough:
            break
        used[empty] = 1
        pending[0] = empty  # from here on cliques, not vertices
        n_pending, at = 1, 0
        while at < n_pending:
            w = head[pending[at]]
            at += 1
            while w >= 0:
                if cause[w] >= 0 and not used[clique[cause[w]]]:
                    used[clique[cause[w]]] = 1
                    pending[n_pending] = clique[cause[w]]
                    n_pending += 1
                w = after[w]
    return n_groups


@numba.njit(cache=True, nogil=True)
def _branch(graph, live, trail, stack, queue, counters, best, work, n_nodes):
    """Go through so many nodes; whether no node is left."""
    alive, _, taken = live
    offsets, neighbours, _ = graph
    for _ in range(n_nodes):
        _reduce(graph, live, trail, queue, counters)
        is_closed = counters[_SIZE] >= counters[_BEST]
        widest = -1
        if not is_closed:
            n, widest = _order(live, work[0], work[3])
            if n == 0:
                counters[_BEST] = counters[_SIZE]
                best[:] = taken
                is_closed = True
            else:
                n_cliques = _cliques(
                    graph, alive, work[0], n, work[1], work[2], work[3]
                )
                missing = counters[_BEST] - (counters[_SIZE] + n - n_cliques)
                is_closed = missing <= 0
                # A group has three cliques at least.
                if not is_closed and missing <= n_cliques // 3:
                    groups = _conflicts(graph, alive, work, n, n_cliques, missing)
                    is_closed = groups >= missing
        if not is_closed:
            depth = counters[_DEPTH]
            stack[depth, 0], stack[depth, 1] = counters[_TRAIL], widest
            stack[depth, 2] = 0
            counters[_DEPTH] += 1
            _take(graph, live, trail, queue, counters, widest)
            continue
        while counters[_DEPTH] > 0 and stack[counters[_DEPTH] - 1, 2] == 1:
            counters[_DEPTH] -= 1
            _undo(graph, live, trail, counters, stack[counters[_DEPTH], 0])
        if counters[_DEPTH] == 0:
            return True
        at = counters[_DEPTH] - 1
        _undo(graph, live, trail, counters, stack[at, 0])
        stack[at, 2] = 1
        for j in range(offsets[stack[at, 1]], offsets[stack[at, 1] + 1]):
            if alive[neighbours[j]]:
                _take(graph, live, trail, queue, counters, neighbours[j])
    return False
