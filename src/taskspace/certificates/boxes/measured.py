"""Bounds on the loss where contexts are measured: over all that may be true.

The loss of a source at a measured context is the largest one at any true context within
the error of it. Whatever bounds losses over boxes bounds this one too, over dilated
boxes. These overlap, so each source gets one paving: boxes that together are the whole
range, fine where the loss passes the tolerance. The bound on a dilated box is the
largest of the pieces that it meets.
"""

from collections.abc import Sequence
from copy import copy
from typing import Self, final

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace._util.threads import over_rows
from taskspace.certificates.boxes.boxes import Bounds, Boxes, Enclosure
from taskspace.measured import ErrorBounds, Windows

# Pieces of a paving: on each axis that varies to begin with, and at most in all.
FIRST_PIECES = {0: 1, 1: 128, 2: 12, 3: 6}
MAX_PIECES = 4096
# Pairs of a piece and a source that are bounded before a paving looks at the clock.
PAIRS_AT_ONCE = 2**14
# Pairs of a box and a source below which a thread costs more than it gives.
MIN_THREADED_PAIRS = 64


@final
class MeasuredEnclosure(Enclosure):
    """Bounds on the largest loss within the error of what is measured.

    Args:
        inner: bounds on the losses at true contexts.
        error: of the measured contexts.
        names: of the columns of a full context row.
        ends: lower and upper corner of the range; true contexts lie in it.
        epsilon: tolerance near which bounds are to be good.
        clock: pavings that are begun when it has run out say nothing.
    """

    is_paved = True

    def __init__(
        self,
        inner: Enclosure,
        error: ErrorBounds,
        names: Sequence[str],
        ends: tuple[Array, Array],
        epsilon: float,
        clock: Clock,
    ):
        self.inner, self.error, self.names = inner, error, tuple(names)
        self.ends, self.epsilon, self.clock = ends, epsilon, clock
        self.kind, self.assumption = inner.kind, inner.assumption
        self.basis, self.pair_work = inner.basis, inner.pair_work
        self.question = inner.question.measured_with(error)
        self.system, self.policies = inner.system, inner.policies
        self._numbers = np.arange(inner.n_sources)
        n_pieces = FIRST_PIECES.get(int((ends[1] > ends[0]).sum()), 4)
        # The boxes that every paving begins with, and of each source's paving: pieces
        # of each cell, corners and bounds of the pieces. Parts share them.
        self._cells = Boxes.evenly(*ends, n_pieces)
        self._pavings: dict[int, tuple[NDArray, ...]] = {}

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return len(self._numbers)

    @property
    def n_policies(self) -> int:
        """Members of each source's family."""
        return self.inner.n_policies

    def subset(self, sources: ArrayLike) -> Self:
        """Return the same bounds for only these sources; pavings are shared.

        Args:
            sources: numbers of the sources.
        """
        rows = np.asarray(sources, np.int64)
        part = copy(self)
        part._numbers = self._numbers[rows]
        if self.policies is not None:
            part.policies = self.policies[rows]
        return part

    def true_bounds(self) -> Enclosure:
        """Return the bounds of the same sources at true contexts."""
        return self.inner.subset(self._numbers)

    def windows(self, edges: Sequence[Array], *, nodes: bool) -> Windows:
        """Return what may be true where a cell or a node of a grid is measured.

        Args:
            edges: ascending edges of each axis; a single one for a fixed value.
            nodes: whether the edges themselves are measured: their windows then hold
                no node that is not surely within the error; otherwise the cells
                between them, whose windows hold every true context.
        """
        axes, inner = [], 1
        columns = zip(edges, self.error.columns(self.names), strict=True)
        for edge, error in reversed(list(columns)):
            below, above = edge, edge
            if not nodes and len(edge) > 1:
                below, above = edge[:-1], edge[1:]
            if error is not None:
                rounded = -1.0 if nodes else 1.0
                low = below - error.reach(below, rounded=rounded)
                high = above + error.reach(above, rounded=rounded)
                # A cell that only touches what may be true is not needed.
                first = np.searchsorted(above, low, side="left" if nodes else "right")
                last = np.searchsorted(below, high, side="right" if nodes else "left")
                axes.append((inner, first, last - 1))
            inner *= len(below)
        return Windows(tuple(reversed(axes)))

    def widths(self, boxes: Boxes, extent: Array) -> Array:
        """Return how wide boxes are for the inner bounds.

        Args:
            boxes: boxes to be cut.
            extent: width of the whole box on each axis.
        """
        return self.inner.widths(boxes, extent)

    def bounds(
        self, boxes: Boxes, sources: ArrayLike | None = None, *, epsilon: float = np.nan
    ) -> Bounds:
        """Return low and high bound, each with dims `(source, box)`.

        Args:
            boxes: of measured contexts.
            sources: whose, all if left out.
            epsilon: not needed.
        """
        return self._bounds_by_source(boxes, sources, epsilon)

    def pair_bounds(
        self, boxes: Boxes, sources: NDArray[np.integer], *, epsilon: float = np.nan
    ) -> Bounds:
        """Return bounds of source `sources[i]` on `boxes[i]`, one number each.

        Args:
            boxes: of measured contexts.
            sources: whose, one per box.
            epsilon: not needed.
        """
        del epsilon
        numbers = self._numbers[np.asarray(sources, np.int64)]
        self._pave(np.unique(numbers))
        low, high = np.empty((2, len(boxes)))
        if not len(boxes):
            return low, high
        asked, place = np.unique(numbers, return_inverse=True)
        parts = zip(*(self._pavings[int(source)] for source in asked), strict=True)
        counts, *columns = map(np.concatenate, parts)
        reach = self.error.dilate(self.names, boxes.low, boxes.high)
        core = self.error.core(self.names, boxes.low, boxes.high)
        ends = np.cumsum(np.concatenate([[0], counts]))
        pieces = (self._cells.low, self._cells.high, ends, *columns)

        def kernel(a: int, b: int) -> None:
            inside = (x[a:b] for x in (place, *reach, *core, low, high))
            _worst_piece(*pieces, *inside)

        over_rows(kernel, len(boxes), in_threads=len(boxes) >= MIN_THREADED_PAIRS)
        return low, high

    def _pave(self, sources: NDArray[np.int64]) -> None:
        """Make pavings for sources that have none, all of them together."""
        missing = [int(s) for s in sources if int(s) not in self._pavings]
        if not missing:
            return
        n, extent = len(self._cells), self._cells.extent
        work = Boxes.concatenate([self._cells] * len(missing))
        owner, cell = np.divmod(np.arange(len(work)), n)
        counts = np.full(len(missing), n)
        pieces: list[Boxes] = []
        facts: list[tuple[NDArray, NDArray, NDArray, NDArray]] = []
        while True:
            low, high = self._inner_bounds(work, np.array(missing)[owner])
            is_open = (low <= self.epsilon) & (high > self.epsilon)
            counts += np.bincount(owner[is_open], minlength=len(missing))
            cut = is_open & (counts[owner] <= MAX_PIECES) & (self.clock.left > 0)
            pieces.append(work[~cut])
            facts.append((owner[~cut], cell[~cut], low[~cut], high[~cut]))
            if not cut.any():
                break
            rest = np.flatnonzero(cut)
            axis = self.inner.widths(work[rest], extent).argmax(1)
            work, parent = work[rest].split(axis)
            owner, cell = owner[rest[parent]], cell[rest[parent]]
        boxes = Boxes.concatenate(pieces)
        owner, cell, low, high = map(np.concatenate, zip(*facts, strict=True))
        for number, source in enumerate(missing):
            own = np.flatnonzero(owner == number)
            own = own[np.argsort(cell[own], kind="stable")]
            counts = np.bincount(cell[own], minlength=n)
            columns = (boxes.low, boxes.high, low, high)
            self._pavings[source] = (counts, *(column[own] for column in columns))

    def _inner_bounds(self, boxes: Boxes, sources: NDArray[np.int64]) -> Bounds:
        """Return bounds of pairs at true contexts; none once the time is up."""
        low, high = np.full(len(boxes), -np.inf), np.full(len(boxes), np.inf)
        for first in range(0, len(boxes), PAIRS_AT_ONCE):
            if self.clock.left <= 0:
                break
            rows = np.arange(first, min(first + PAIRS_AT_ONCE, len(boxes)))
            low[rows], high[rows] = self.inner.pair_bounds(
                boxes[rows], sources[rows], epsilon=self.epsilon
            )
        return low, high


@njit(cache=True, nogil=True)
def _worst_piece(
    cell_low, cell_high, ends, box_low, box_high, under, over,
    place, reach_low, reach_high, core_first, core_last, low, high
):  # fmt: skip  # pragma: no cover
    """Fill the largest bounds of the pieces that each dilated box meets.

    A piece counts for the bound above if it meets the dilated box; for the one below
    if it holds a true context of every measured one.
    """
    n_cells = len(cell_low)
    for b in range(len(place)):
        least, most = -np.inf, -np.inf
        near, far = reach_low[b], reach_high[b]
        for c in range(n_cells):
            if not _meets(cell_low[c], cell_high[c], near, far):
                continue
            first = place[b] * n_cells + c
            for p in range(ends[first], ends[first + 1]):
                if _meets(box_low[p], box_high[p], near, far):
                    most = max(most, over[p])
                    holds = True
                    for k in range(len(near)):
                        holds = holds and box_low[p, k] <= core_last[b, k]
                        holds = holds and box_high[p, k] >= core_first[b, k]
                    if holds:
                        least = max(least, under[p])
        low[b] = least
        high[b] = most if most > -np.inf else np.inf


@njit(cache=True, nogil=True)
def _meets(x, y, near, far):  # pragma: no cover
    """Return whether a box [x, y] meets [near, far].

    Where both have a width on an axis, by more than a face: boxes that do so hold the
    faces too.
    """
    for k in range(len(x)):
        if near[k] < far[k] and x[k] < y[k]:
            if x[k] >= far[k] or y[k] <= near[k]:
                return False
        elif x[k] > far[k] or y[k] < near[k]:
            return False
    return True
