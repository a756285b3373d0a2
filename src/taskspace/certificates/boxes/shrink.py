"""Few sources for a whole box: a proof first, then fewer.

A selection that serves some points of the box with slack often serves all of it. So
covers for smaller tolerances are checked first, those with the most slack before the
others, until one is proven. Then fewer sources are looked for: of each size the
selection that loses least at the points, and covers of points with the points where
the check fails added. Where nothing else holds, cells become targets: a source serves
a cell if its loss is certainly within epsilon on all of it, so a cover of the cells is
a cover of the box by construction. Whatever comes out is checked by `certify_cover`,
which does not know how it was made, and what is proven is never given up.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace.certificates.boxes.check import (
    CERTIFIED,
    ContinuumCover,
    certify_cover,
    cut_evenly,
)
from taskspace.certificates.boxes.enclosures import (
    Boxes,
    Enclosure,
    MeasuredEnclosure,
)
from taskspace.certificates.boxes.enclosures.search import may_serve_nodes, serves_cells
from taskspace.cover import minimum_cover, smallest_epsilon
from taskspace.measured import AxisError
from taskspace.sets import TargetSets, pack

SLACKS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02)
"""Shares of epsilon by which a cover of points is better than asked, most first."""

# Pairs of a source and a part of a cell that a search looks at, at each depth.
MAX_CUT_PAIRS = 2**23
# Points at which losses are known: as many as this share of the time allows, and at
# most so many pairs with a candidate.
POINTS_SHARE = 0.05
MAX_POINT_PAIRS = 2**16
POINT_PAIRS_AT_ONCE = 2**12
# Points are covered for a tolerance smaller by this share, so that gaps stay small.
TIGHTEN = 1e-3
MAX_ROUNDS = 40
# Cells of measured contexts for each cell that is cut where it is needed: at first,
# when a cover of them is soon found, and then.
COARSE_CELLS, FINE_CELLS = 1, 3
GAPS_A_ROUND = 100
# How often a cell that no source serves whole is cut along each axis.
CELL_CUTS = 4


class BoxSearch:
    """The best cover so far, and a bound from all points that were looked at.

    Args:
        enclosure: bounds on the losses of all sources.
        pool: the candidates.
        edges: of the cells.
        axes: names of the columns.
        epsilon: tolerance.
        clock: of the whole search.
        seed: of the cover engine.
    """

    def __init__(
        self,
        enclosure: Enclosure,
        pool: NDArray[np.int64],
        edges: Sequence[Array],
        axes: tuple[str, ...],
        epsilon: float,
        clock: Clock,
        *,
        seed: int,
    ):
        self.enclosure, self.pool = enclosure, pool
        self.edges, self.axes, self.epsilon = edges, axes, epsilon
        self.clock, self.seed = clock, seed
        self.part = enclosure.subset(pool)
        # Losses of the candidates at some points, from above.
        self.losses = np.empty((len(pool), 0))
        self.found: ContinuumCover | None = None
        self.bound = 1
        # Which candidate may serve which point within epsilon, and a little better.
        self.points: NDArray[np.bool_] | None = None
        self.wanted: NDArray[np.bool_] | None = None
        self.is_closed = False
        # What the last check that held took: less time is too little for another.
        self.seconds = 0.0

    @property
    def holds(self) -> bool:
        """Whether a cover of the whole box is known."""
        return self.found is not None and self.found.holds

    @property
    def is_optimal(self) -> bool:
        """Whether no smaller cover can be found among the candidates."""
        cover = self.found
        return cover is not None and self.holds and self.bound >= cover.size

    def check(
        self, sources: NDArray[np.int64], clock: Clock, *, whole: bool = False
    ) -> ContinuumCover:
        """Return what a selection serves; the best cover so far is kept.

        Args:
            sources: the selection.
            clock: when to stop.
            whole: look at all of the box; by default only until it fails.
        """
        checked = certify_cover(
            self.enclosure,
            sources,
            self.edges,
            self.epsilon,
            axes=self.axes,
            time_limit=clock.left,
            until_failure=not whole,
        )
        if self.found is None or checked.rank > self.found.rank:
            self.found = checked
        if checked.holds:
            self.seconds = clock.seconds
        return checked

    def prove_first(self, suggestions: Iterable[ArrayLike]) -> None:
        """Prove some selection: those with the most slack first, then less.

        Args:
            suggestions: selections of the caller, in this order; covers of points
                follow if none of them holds.
        """
        for chosen in suggestions:
            sources = np.unique(np.asarray(chosen, np.int64).reshape(-1))
            self.pool = np.union1d(self.pool, sources)
            if self.clock.left <= 0 or self._has_enough(sources):
                break
        self.part = self.enclosure.subset(self.pool)
        if self.enclosure.is_paved:
            return
        self._look_at_points(Clock(POINTS_SHARE * self.clock.left))
        if not self.holds:
            for chosen in self._slack_covers():
                if self.clock.left <= 0 or self._has_enough(chosen):
                    break

    def _has_enough(self, sources: NDArray[np.int64]) -> bool:
        """Check a selection; whether one holds and this one does not.

        With less slack the next one would hardly do better.
        """
        if self.found is not None and self.holds and len(sources) >= self.found.size:
            return False
        held = self.holds
        checked = self.check(sources, Clock(0.3 * self.clock.left))
        return held and not checked.holds

    def _look_at_points(self, clock: Clock) -> None:
        """Bound the losses of all candidates at points that are spread over the box."""
        n_axes = len(self.edges)
        n_points = max(2, MAX_POINT_PAIRS // len(self.pool))
        # Corners first, then a sequence without gaps or lines (Roberts' R_d).
        root = 2.0
        for _ in range(30):
            root = (1 + root) ** (1 / (n_axes + 1))
        share = np.arange(1, n_points)[:, None] * root ** -np.arange(1, n_axes + 1)
        ends = np.array([[e[0], e[-1]] for e in self.edges])
        corners = np.stack([x.ravel() for x in np.meshgrid(*ends)], -1)
        inside = ends[:, 0] + (0.5 + share) % 1.0 * (ends[:, 1] - ends[:, 0])
        points = np.unique(corners, axis=0)
        points = np.concatenate([points, np.clip(inside, ends[:, 0], ends[:, 1])])
        step = max(1, POINT_PAIRS_AT_ONCE // len(self.pool))
        parts = []
        for first in range(0, min(len(points), n_points), step):
            if parts and clock.left <= 0:
                break
            some = Boxes.points(points[first : first + step])
            parts.append(self.part.bounds(some)[1])
        self.losses = np.concatenate(parts, axis=1)

    def _slack_covers(self) -> Iterator[NDArray[np.int64]]:
        """Yield covers of the points for smaller tolerances, the smallest first."""
        for slack in SLACKS:
            served = self.losses <= self.epsilon - slack * abs(self.epsilon)
            if served.any(0).all():
                sets = pack(served)
                limit = 0.05 * self.clock.left
                cover = minimum_cover(sets, time_limit=limit, seed=self.seed)
                yield self.pool[np.sort(cover.sources)]

    def shrink(self, clock: Clock) -> None:
        """Find fewer sources: of a size those that lose least at the points.

        Halves the sizes between one that is too small for the points and that of the
        cover that holds.

        Args:
            clock: when to stop.
        """
        if self.found is None or not self.holds or self.enclosure.is_paved:
            return
        too_small = 0
        while too_small < self.found.size - 1 and 0.5 * clock.left > self.seconds:
            size = (too_small + self.found.size) // 2
            least = smallest_epsilon(
                self.losses, size, time_limit=0.1 * clock.left, seed=self.seed
            )
            held = False
            if least.upper <= self.epsilon:
                chosen = self.pool[np.array(least.sources, np.int64)]
                held = self.check(chosen, Clock(0.6 * clock.left)).holds
            if not held:
                too_small = size

    def bound_at_nodes(self, clock: Clock) -> None:
        """Bound the size from below: no fewer candidates serve the nodes.

        Args:
            clock: when to stop.
        """
        tight = self.epsilon - TIGHTEN * abs(self.epsilon)
        half = Clock(0.5 * clock.left)
        self.points = np.concatenate(
            list(may_serve_nodes(self.part, self.edges, self.epsilon, clock=half))
        )
        self.wanted = np.concatenate(
            list(
                may_serve_nodes(
                    self.part, self.edges, tight, clock=clock, undecided=False
                )
            )
        )
        self._raise_bound(clock)

    def _raise_bound(self, clock: Clock) -> None:
        assert self.points is not None
        sets = pack(self.points)
        cover = minimum_cover(sets, time_limit=clock.left, seed=self.seed)
        self.bound = max(self.bound, int(cover.lower_bound))

    def close_gaps(self, clock: Clock) -> None:
        """Cover points only; where the check fails, its gaps become points too.

        A cell must be served by one source, which a small cover of the box need not
        do. So cover points, a little better than needed, until a cover holds or is
        no smaller than the one that is known.

        Args:
            clock: when to stop.
        """
        if self.points is None or self.wanted is None or self.enclosure.is_paved:
            return
        stop = 0.2 * clock.left  # what is kept for the bound at the end
        tight = self.epsilon - TIGHTEN * abs(self.epsilon)
        for _ in range(MAX_ROUNDS):
            seconds = clock.left - stop
            if seconds <= 0 or self.is_optimal or self.is_closed:
                break
            sets = pack(self.wanted)
            cover = minimum_cover(sets, time_limit=seconds / 8, seed=self.seed)
            if self.found is not None and self.holds and cover.size >= self.found.size:
                self.is_closed = True
                break
            checked = self.check(self.pool[cover.sources], Clock(seconds / 2))
            if checked.holds:
                continue
            gaps = checked.boxes[checked.status != CERTIFIED].centre
            gaps = gaps[:: max(1, len(gaps) // GAPS_A_ROUND)]
            low, _ = self.part.bounds(Boxes.points(gaps))
            if not (low <= tight).any():
                self.is_closed = True  # gaps that no candidate closes
                break
            wanted, points = low <= tight, low <= self.epsilon
            self.wanted = np.concatenate((self.wanted, wanted), axis=1)
            self.points = np.concatenate((self.points, points), axis=1)
        if self.holds and not self.is_optimal and clock.left > 0:
            self._raise_bound(clock)

    def cover_cells(
        self, clock: Clock, *, may_grow: bool, finer: int = COARSE_CELLS
    ) -> None:
        """Cover the cells that single sources certainly serve, cut where needed.

        Args:
            clock: when to stop.
            may_grow: all sources become candidates if these leave a cell that no
                single one serves, and there is time for them.
            finer: cells of measured contexts for each cell of others.
        """
        share = Clock(0.5 * clock.left)
        sets, n_left = _cell_sets(self.part, self.edges, self.epsilon, share, finer)
        if n_left and may_grow:
            n_all = self.enclosure.n_sources
            if 0.5 * clock.left > share.seconds * n_all / len(self.pool):
                self.pool, self.part = np.arange(n_all), self.enclosure
                sets, _ = _cell_sets(self.part, self.edges, self.epsilon, clock, finer)
                # The points were about the candidates of before.
                self.bound, self.is_closed = 1, False
                self.bound_at_nodes(clock)
        if n_left and share.left <= 0 and self.found is not None:
            return  # cells that were not looked at are missing in the sets
        cover = minimum_cover(sets, time_limit=0.4 * clock.left, seed=self.seed)
        if cover.size:
            self.check(self.pool[cover.sources], Clock(0.5 * clock.left))

    def finish(self) -> ContinuumCover:
        """Return the cover; where it does not hold, with all that it surely serves."""
        if self.found is None:
            self.check(self.pool[:1], self.clock, whole=True)
        assert self.found is not None
        if not self.holds and self.clock.left > 0:
            part = Clock(0.5 * self.clock.left)
            self.check(self.found.sources, part, whole=True)
        return self.found


def _fine_edges(edges: Array, error: AxisError | None, finer: int) -> Array:
    """Return edges of fine cells, of which the error spans no hair more than so many.

    A cell counts as true wherever a hair of it may be: where the error is a whole
    number of cells, as a step of the grid is, rounding would cost one more per side.
    """
    n_cells, steps = finer * (len(edges) - 1), np.diff(edges)
    fine = cut_evenly(edges, n_cells)
    if error is None or error.is_relative or not len(steps):
        return fine
    width = edges[-1] - edges[0]
    n_within = round(n_cells * error.amount / width)
    if n_within < 1 or np.ptp(steps) > 1e-6 * width:
        return fine
    n_fitting = int(width * n_within / error.amount * (1 - 1e-6))
    return np.linspace(edges[0], edges[-1], max(1, n_fitting) + 1)


def _cell_sets(
    enclosure: Enclosure,
    edges: Sequence[Array],
    epsilon: float,
    clock: Clock,
    finer: int,
) -> tuple[TargetSets, int]:
    """Return which source serves which cell; cells that none serves whole are cut.

    Returns:
        The sets over all cells and parts of cells that some source serves, and how
        many are left that none does.
    """
    if isinstance(enclosure, MeasuredEnclosure):
        # Dilated cells overlap: fine ones lose less, and are not cut one by one.
        columns = enclosure.error.columns(enclosure.names)
        pairs = zip(edges, columns, strict=True)
        edges = [_fine_edges(edge, error, finer) for edge, error in pairs]
    sets = pack(serves_cells(enclosure, edges, epsilon, clock=clock))
    if sets.coverable.all() or enclosure.is_paved:
        return sets, int((~sets.coverable).sum())
    parts = [sets.to_bool()[:, sets.coverable]]
    cells = Boxes.from_edges(edges)
    extent = cells.extent
    cells = cells[~sets.coverable]
    n_hopeless = 0
    for _ in range(CELL_CUTS * max(1, int((extent > 0).sum()))):
        too_many = len(cells) * 2 * enclosure.n_sources > MAX_CUT_PAIRS
        if not len(cells) or too_many or clock.left <= 0:
            break
        cells, _ = cells.split(enclosure.widths(cells, extent).argmax(1))
        served = enclosure.serves(cells, epsilon)
        coverable = served.any(0)
        parts.append(served[:, coverable])
        cells = cells[~coverable]
        # A part whose centre no source serves will never be served.
        centre = cells.centre
        low, _ = enclosure.bounds(Boxes.points(centre), epsilon=epsilon)
        hopeless = (low > epsilon).all(0)
        n_hopeless += int(hopeless.sum())
        cells = cells[~hopeless]
    return pack(np.concatenate(parts, axis=1)), len(cells) + n_hopeless
