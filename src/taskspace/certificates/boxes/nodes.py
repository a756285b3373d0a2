"""The search on the cells or nodes of a grid: from large boxes down to single ones.

Written once, for any number of axes and any enclosure. Large boxes decide many cells
with one bound; what stays undecided is cut along the axis with the most cells. All
sources go down together, a level at a time, so that compiled bounds of pairs share
the processors.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace.certificates.boxes.boxes import Boxes, Enclosure
from taskspace.certificates.boxes.measured import MeasuredEnclosure

# A cell that its own bound leaves open is cut this many times before giving up.
CUTS_IN_CELL = 2
# Cells of all sources that are decided together: a byte each.
BLOCK_CELLS = 2**25


class Limit:
    """When a search ends: after a number of pairs, or when its time is up.

    Args:
        clock: the time; without one there is no time limit.
        n_pairs: bounds of a source on a box, at most.
    """

    def __init__(self, clock: Clock | None = None, n_pairs: float = math.inf):
        self._clock, self._most = clock or Clock(), n_pairs
        self.n_pairs = 0
        self.was_cut = False
        """Whether it ended a search."""

    def is_over(self, n_pairs: int) -> bool:
        """Count pairs that come next; return whether they are too many.

        Args:
            n_pairs: how many.
        """
        self.n_pairs += n_pairs
        is_over = self.n_pairs > self._most or self._clock.left <= 0
        self.was_cut |= is_over
        return is_over


def serves_cells(
    enclosure: Enclosure,
    edges: Sequence[Array],
    epsilon: float,
    *,
    limit: Limit | None = None,
    nodes: bool = False,
    undecided: bool = False,
) -> Iterator[NDArray[np.bool_]]:
    """Yield which sources are certainly within `epsilon` on which cells of a grid.

    Args:
        enclosure: bounds on the losses.
        edges: ascending edges of each axis; a single one for a fixed value.
        epsilon: tolerance.
        limit: when to stop.
        nodes: ask of the nodes of the grid instead, which sources are not shown to
            exceed `epsilon` there: what a lower bound needs.
        undecided: what to say of what is not decided by then.

    Yields:
        Blocks of rows with dims `(source, cell)`, cells in C order.
    """
    limit = limit or Limit()
    if isinstance(enclosure, MeasuredEnclosure):
        # What is measured is served where all is served that may be true.
        windows = enclosure.windows(edges, nodes=nodes)
        inner = enclosure.true_bounds()
        for block in serves_cells(
            inner, edges, epsilon, limit=limit, nodes=nodes, undecided=undecided
        ):
            yield windows.erode(block)
        return
    grid = [np.ascontiguousarray(e, dtype=np.float64) for e in edges]
    counts = np.array([len(e) if nodes or len(e) == 1 else len(e) - 1 for e in grid])
    step = max(1, BLOCK_CELLS // int(np.prod(counts)))
    for first in range(0, enclosure.n_sources, step):
        rows = np.arange(first, min(first + step, enclosure.n_sources))
        yield _descend(enclosure, rows, grid, counts, epsilon, limit, undecided, nodes)


def _descend(
    enclosure: Enclosure,
    rows: NDArray[np.int64],
    edges: Sequence[Array],
    counts: NDArray[np.int64],
    epsilon: float,
    limit: Limit,
    undecided: bool,
    nodes: bool,
) -> NDArray[np.bool_]:
    """Decide all items of some sources, the whole grid as the first box."""
    served = np.zeros((len(rows), int(np.prod(counts))), np.bool_)
    n_axes = len(counts)
    row = np.arange(len(rows))
    first = np.zeros((len(rows), n_axes), np.int64)
    stop = np.repeat(counts[None], len(rows), axis=0)
    ahead = np.array(
        [0 if len(e) == n else 1 for e, n in zip(edges, counts, strict=True)]
    )
    while len(row):
        if limit.is_over(len(row)):
            if undecided:
                _mark(served, counts, row, first, stop)
            break
        # The hull of cells first .. stop − 1, or of nodes with these numbers.
        low = np.stack([edges[i][first[:, i]] for i in range(n_axes)], -1)
        high = np.stack(
            [edges[i][stop[:, i] - 1 + ahead[i]] for i in range(n_axes)], -1
        )
        low_bound, high_bound = enclosure.pair_bounds(
            Boxes(low, high), rows[row], epsilon=epsilon
        )
        single = (stop - first == 1).all(1)
        inside = high_bound <= epsilon
        may_go_on = ~(low_bound > epsilon) & ~inside
        if nodes:
            inside |= single & may_go_on
        _mark(served, counts, row[inside], first[inside], stop[inside])
        alone = np.flatnonzero(single & may_go_on & (not nodes))
        if len(alone):
            held = _cut_cells(
                enclosure, Boxes(low[alone], high[alone]), rows[row[alone]], epsilon
            )
            alone = alone[held]
            _mark(served, counts, row[alone], first[alone], stop[alone])
        again = np.flatnonzero(may_go_on & ~single)
        row, first, stop = row[again], first[again], stop[again]
        axis = (stop - first).argmax(1)
        at = np.arange(len(row))
        middle = (first[at, axis] + stop[at, axis]) // 2
        left_stop, right_first = stop.copy(), first.copy()
        left_stop[at, axis] = middle
        right_first[at, axis] = middle
        row = np.concatenate([row, row])
        first = np.concatenate([first, right_first])
        stop = np.concatenate([left_stop, stop])
    return served


@njit(cache=True)
def _mark(served, counts, row, first, stop):
    """Set all items of the boxes `first .. stop − 1` of some rows, in C order."""
    last = len(counts) - 1
    index = np.empty(last + 1, np.int64)
    for b in range(len(row)):
        for a in range(last + 1):
            index[a] = first[b, a]
        going = True
        while going:
            item = 0
            for a in range(last):
                item = (item + index[a]) * counts[a + 1]
            # Not a slice: its check of shapes takes longer to compile than all else.
            for i in range(item + first[b, last], item + stop[b, last]):
                served[row[b], i] = True
            # The next line of items: count up over all axes but the last.
            a = last - 1
            while a >= 0:
                index[a] += 1
                if index[a] < stop[b, a]:
                    break
                index[a] = first[b, a]
                a -= 1
            going = a >= 0


def _cut_cells(
    enclosure: Enclosure, cells: Boxes, sources: NDArray[np.int64], epsilon: float
) -> NDArray[np.bool_]:
    """Return whether each source is within epsilon on all parts of its cell."""
    failed = np.zeros(len(cells), np.bool_)
    owner = np.arange(len(cells))
    parts = cells
    extent = cells.extent
    for _ in range(CUTS_IN_CELL):
        # One context that may exceed epsilon ends it: no cut will help.
        centres = Boxes.points(parts.centre)
        at_centre = enclosure.pair_bounds(centres, sources[owner], epsilon=epsilon)[1]
        failed[owner[~(at_centre <= epsilon)]] = True
        keep = np.flatnonzero(~failed[owner])
        parts, owner = parts[keep], owner[keep]
        if not len(owner):
            break
        axis = enclosure.widths(parts, extent).argmax(1)
        children, parent = parts.split(axis)
        owner = owner[parent]
        low, high = enclosure.pair_bounds(children, sources[owner], epsilon=epsilon)
        failed[owner[low > epsilon]] = True
        keep = np.flatnonzero(~(high <= epsilon) & ~failed[owner])
        parts, owner = children[keep], owner[keep]
        if not len(owner):
            break
    failed[owner] = True
    return ~failed
