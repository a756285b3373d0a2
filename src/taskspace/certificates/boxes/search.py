"""Few sources for a whole box: a proof first, then fewer.

A selection that serves some points of the box with slack often serves all of it. So
covers for smaller tolerances are checked first, those with the most slack before the
others, until one is proven. Then fewer sources are looked for: of each size the
selection that loses least at the points, and covers of points with the points where
the check fails added. Where nothing else holds, cells become targets: a source serves
a cell if its loss is certainly within epsilon on all of it, so a cover of the cells is
a cover of the box by construction. Whatever comes out is checked by `certify_cover`,
which does not know how it was made, and what is proven is never given up.

All of it goes in rounds, until a cover holds. Each step of a round is cut by counted
work, four times as much as in the round before; the time limit only ends the search. So
a search that closes in time gives the same answer on any machine.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace.certificates.boxes.check import (
    CERTIFIED,
    MAX_BOXES,
    OPEN,
    ContinuumCover,
    certify_cover,
    cut_evenly,
)
from taskspace.certificates.boxes.enclosures import (
    Boxes,
    Enclosure,
    MeasuredEnclosure,
)
from taskspace.certificates.boxes.nodes import Limit, serves_cells
from taskspace.cover import Cover, CoverProblem, smallest_epsilon
from taskspace.cover.minimum import full_cover
from taskspace.measured import AxisError
from taskspace.sets import TargetSets, pack

SLACKS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02)
"""Shares of epsilon by which a cover of points is better than asked, most first."""

# Work of a step in the first round, in the unit of `Enclosure.pair_work`; how much it
# grows from round to round; and rounds at most.
FIRST_WORK, GROWTH, N_ROUNDS = 2e6, 4, 4
# Stages of counted work of a cover in the first round; one more in each later one.
N_STAGES = 8
# Share of a step's work for points at which losses are known, and pairs of a point and
# a candidate at most.
POINTS_SHARE = 0.5
MAX_POINT_PAIRS = 2**16
POINT_PAIRS_AT_ONCE = 2**12
# Pairs of a source and a part of a cell that a search looks at, at each depth.
MAX_CUT_PAIRS = 2**23
# Points are covered for a tolerance smaller by this share, so that gaps stay small.
TIGHTEN = 1e-3
MAX_EXCHANGES = 40
# Cells of measured contexts for each cell that is cut where it is needed: at first,
# when a cover of them is soon found, and then.
COARSE_CELLS, FINE_CELLS = 1, 3
MAX_GAPS = 100
# How often a cell that no source serves whole is cut along each axis.
CELL_CUTS = 4


def counted_cover(
    sets: TargetSets, clock: Clock, seed: int = 0, n_stages: int = N_STAGES
) -> Cover:
    """Return the best cover that some stages of counted work find.

    Args:
        sets: the targets that each source serves.
        clock: when to stop in any case.
        seed: of the random choices.
        n_stages: how many stages.
    """
    return full_cover(CoverProblem(sets), clock, seed=seed, n_stages=n_stages)


class BoxSearch:
    """The best cover so far, and a bound from all points that were looked at.

    Args:
        enclosure: bounds on the losses of all sources.
        pool: the candidates.
        edges: of the cells.
        axes: names of the columns.
        epsilon: tolerance.
        clock: of the whole search.
        at_least: no fewer sources cover the box.
        seed: of the cover engine.
        may_grow: all sources become candidates if these leave a cell that no single
            one serves.
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
        at_least: int = 1,
        seed: int,
        may_grow: bool = False,
    ):
        self.enclosure, self.pool = enclosure, pool
        self.edges, self.axes, self.epsilon = edges, axes, epsilon
        self.clock, self.seed, self.may_grow = clock, seed, may_grow
        self.part = enclosure.subset(pool)
        self.found: ContinuumCover | None = None
        self.bound = self.at_least = at_least
        # Losses of the candidates at some points, from above.
        self.losses = np.empty((len(pool), 0))
        # Which candidate may serve which point within epsilon, and a little better.
        self.points: NDArray[np.bool_] | None = None
        self.wanted: NDArray[np.bool_] | None = None
        self.is_closed = False
        self.round = 0
        # Whether counted work ended a check or a look at nodes in this round before it
        # was done; and whether it ended a search for a cover.
        self.was_cut = self.was_short = False
        # Pairs bounded by checks so far, and for each selection that was checked the
        # boxes that a check must be allowed to find out more; inf for a refuted one.
        self.n_pairs = 0
        self._boxes_for_more: dict[tuple[int, ...], float] = {}

    @property
    def holds(self) -> bool:
        """Whether a cover of the whole box is known."""
        return self.found is not None and self.found.holds

    @property
    def is_optimal(self) -> bool:
        """Whether no smaller cover can be found among the candidates."""
        cover = self.found
        return cover is not None and self.holds and self.bound >= cover.size

    @property
    def is_hopeless(self) -> bool:
        """Whether some point is served by no source, so that no cover exists."""
        if self.points is None or len(self.pool) < self.enclosure.n_sources:
            return False
        return not self.points.any(0).all()

    @property
    def max_pairs(self) -> float:
        """Pairs of a source and a box that a step of this round may bound."""
        return FIRST_WORK * GROWTH**self.round / self.enclosure.pair_work

    def run(self, suggestions: Iterable[ArrayLike]) -> None:
        """Search, in rounds of growing work, until a cover holds or time is up.

        Args:
            suggestions: selections to try first, those with the most slack before
                the others; their sources become candidates.
        """
        tried: list[NDArray[np.int64]] = []
        asked = iter(suggestions)
        for self.round in range(N_ROUNDS):
            self.was_cut = self.was_short = False
            if self.enclosure.is_paved:
                self._bound_at_nodes()
                self._cover_cells(COARSE_CELLS)
                if not self.is_optimal:
                    self._cover_cells(FINE_CELLS)
            self._prove_first(asked, tried)
            if self.is_optimal:
                break
            if not self.enclosure.is_paved:
                self._look_at_points()
                self._prove_slack_covers()
                self._shrink()
                self._bound_at_nodes()
                if not self.holds:
                    self._close_gaps()
                if not self.holds:
                    self._cover_cells(COARSE_CELLS)
                self._close_gaps()
            is_left = self.was_cut or (self.was_short and not self.holds)
            if self.is_optimal or self.is_hopeless or not is_left:
                break
            if self.clock.left <= 0:
                break

    def check(
        self, sources: NDArray[np.int64], *, whole: bool = False
    ) -> ContinuumCover:
        """Return what a selection serves; the best cover so far is kept.

        Args:
            sources: the selection.
            whole: look at all of the box, whatever it takes; by default until it
                fails, or the work of a step is done.
        """
        checked = certify_cover(
            self.enclosure,
            sources,
            self.edges,
            self.epsilon,
            axes=self.axes,
            time_limit=self.clock.left,
            until_failure=not whole,
            max_boxes=MAX_BOXES if whole else self._max_boxes(sources),
        )
        self.n_pairs += checked.n_pairs
        if self.found is None or checked.rank > self.found.rank:
            self.found = checked
        n_open = int((checked.status == OPEN).sum())
        n_seen = checked.n_pairs // max(1, len(sources))
        more = np.inf if checked.witnesses else n_seen + 2 * n_open
        self._boxes_for_more[tuple(sources.tolist())] = more
        self.was_cut |= not checked.witnesses and not checked.holds
        return checked

    def _max_boxes(self, sources: NDArray[np.int64]) -> int:
        """Return how many boxes a check of this round may look at."""
        return int(min(self.max_pairs / max(1, len(sources)), MAX_BOXES))

    def _is_known(self, sources: NDArray[np.int64]) -> bool:
        """Whether a check in this round would end where an earlier one ended."""
        more = self._boxes_for_more.get(tuple(sources.tolist()), 0)
        self.was_cut |= self._max_boxes(sources) < more < np.inf
        return more > self._max_boxes(sources)

    def _cover(self, sets: TargetSets) -> Cover:
        """Return the best cover that the work of a step finds."""
        cover = counted_cover(sets, self.clock, self.seed, N_STAGES + self.round)
        self.was_short |= cover.stop_reason == "step limit"
        return cover

    def _prove_first(
        self, suggestions: Iterator[ArrayLike], tried: list[NDArray[np.int64]]
    ) -> None:
        """Prove some suggestion: those with the most slack first, then less.

        Args:
            suggestions: those that no round has tried.
            tried: those that rounds before have tried.
        """
        for sources in tried:
            if self.holds or self.clock.left <= 0:
                break
            self._has_enough(sources)
        for chosen in suggestions if not (tried and self.holds) else ():
            sources = np.unique(np.asarray(chosen, np.int64).reshape(-1))
            tried.append(sources)
            self.pool = np.union1d(self.pool, sources)
            if self.clock.left <= 0 or self._has_enough(sources) or self.is_optimal:
                break
        self.part = self.enclosure.subset(self.pool)

    def _has_enough(self, sources: NDArray[np.int64]) -> bool:
        """Check a selection; whether one holds and this one does not.

        With less slack the next one would hardly do better.
        """
        held = self.found is not None and self.holds
        if held and self.found is not None and len(sources) >= self.found.size:
            return False
        if self._is_known(sources):
            return held
        return not self.check(sources).holds and held

    def _look_at_points(self) -> None:
        """Bound the losses of all candidates at points that are spread over the box."""
        n_axes = len(self.edges)
        most = min(MAX_POINT_PAIRS, POINTS_SHARE * self.max_pairs) / len(self.pool)
        n_points = max(2, int(most))
        if len(self.losses) == len(self.pool) and self.losses.shape[1] >= n_points:
            return
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
            if parts and self.clock.left <= 0:
                break
            some = Boxes.points(points[first : first + step])
            parts.append(self.part.bounds(some)[1])
        self.losses = np.concatenate(parts, axis=1)

    def _prove_slack_covers(self) -> None:
        """Prove a cover of the points for a smaller tolerance, if nothing holds yet."""
        if self.holds:
            return
        for slack in SLACKS:
            served = self.losses <= self.epsilon - slack * abs(self.epsilon)
            if not served.any(0).all():
                continue
            cover = self._cover(pack(served))
            chosen = self.pool[np.sort(cover.sources)]
            if self.clock.left <= 0 or self._has_enough(chosen):
                break

    def _shrink(self) -> None:
        """Find fewer sources: of a size those that lose least at the points.

        Halves the sizes between one that is too small for the points and that of the
        cover that holds.
        """
        too_small = 0
        while (
            self.found is not None
            and self.holds
            and too_small < self.found.size - 1
            and self.clock.left > 0
        ):
            size = (too_small + self.found.size) // 2
            least = smallest_epsilon(
                self.losses,
                size,
                time_limit=self.clock.left,
                seed=self.seed,
                max_stages=N_STAGES + self.round,
            )
            self.was_short |= not least.optimal
            held = False
            if least.upper <= self.epsilon:
                chosen = self.pool[np.array(least.sources, np.int64)]
                if not self._is_known(chosen):
                    held = self.check(chosen).holds
            if not held:
                too_small = size

    def _bound_at_nodes(self) -> None:
        """Bound the size from below: no fewer candidates serve the nodes."""
        tight = self.epsilon - TIGHTEN * abs(self.epsilon)
        sides = []
        for epsilon, undecided in ((self.epsilon, True), (tight, False)):
            limit = Limit(self.clock, self.max_pairs)
            blocks = serves_cells(
                self.part,
                self.edges,
                epsilon,
                limit=limit,
                nodes=True,
                undecided=undecided,
            )
            sides.append(np.concatenate(list(blocks)))
            self.was_cut |= limit.was_cut
        self.points, self.wanted = sides
        self.is_closed = False
        self._raise_bound()

    def _raise_bound(self) -> None:
        assert self.points is not None
        if not self.is_optimal:
            cover = self._cover(pack(self.points))
            self.bound = max(self.bound, int(cover.lower_bound))

    def _close_gaps(self) -> None:
        """Cover points only; where the check fails, its gaps become points too.

        A cell must be served by one source, which a small cover of the box need not
        do. So cover points, a little better than needed, until a cover holds or is
        no smaller than the one that is known.
        """
        if self.points is None or self.wanted is None:
            return
        tight = self.epsilon - TIGHTEN * abs(self.epsilon)
        most = self.n_pairs + self.max_pairs
        for _ in range(MAX_EXCHANGES):
            if self.clock.left <= 0 or self.is_optimal or self.is_closed:
                break
            if self.n_pairs > most:
                self.was_cut = True
                break
            cover = self._cover(pack(self.wanted))
            if self.found is not None and self.holds and cover.size >= self.found.size:
                self.is_closed = True
                break
            chosen = self.pool[cover.sources]
            if self._is_known(chosen):
                break
            checked = self.check(chosen)
            if checked.holds:
                continue
            gaps = checked.boxes[checked.status != CERTIFIED].centre
            gaps = gaps[:: max(1, len(gaps) // MAX_GAPS)]
            low, _ = self.part.bounds(Boxes.points(gaps))
            if not (low <= tight).any():
                self.is_closed = True  # gaps that no candidate closes
                break
            wanted, points = low <= tight, low <= self.epsilon
            self.wanted = np.concatenate((self.wanted, wanted), axis=1)
            self.points = np.concatenate((self.points, points), axis=1)
        if self.holds and self.clock.left > 0:
            self._raise_bound()

    def _cover_cells(self, finer: int) -> None:
        """Cover the cells that single sources certainly serve, cut where needed.

        Args:
            finer: cells of measured contexts for each cell of others.
        """
        limit = Limit(self.clock, self.max_pairs)
        sets, n_left = _cell_sets(self.part, self.edges, self.epsilon, limit, finer)
        n_all = self.enclosure.n_sources
        if n_left and self.may_grow and not (limit.was_cut and self.clock.left <= 0):
            if limit.n_pairs * n_all / len(self.pool) > self.max_pairs:
                self.was_cut = True
            else:
                self.pool, self.part = np.arange(n_all), self.enclosure
                self.may_grow = False
                limit = Limit(self.clock, self.max_pairs)
                sets, n_left = _cell_sets(
                    self.part, self.edges, self.epsilon, limit, finer
                )
                # The points were about the candidates of before.
                self.losses = np.empty((n_all, 0))
                self.bound = self.at_least
                self._bound_at_nodes()
        self.was_cut |= limit.was_cut
        if n_left and limit.was_cut and self.found is not None:
            return  # cells that were not looked at are missing in the sets
        cover = self._cover(sets)
        if cover.size and not self._is_known(self.pool[cover.sources]):
            self.check(self.pool[cover.sources])

    def finish(self) -> ContinuumCover:
        """Return the cover; where it does not hold, with all that it surely serves."""
        if self.found is None:
            self.check(self.pool[:1], whole=True)
        assert self.found is not None
        if not self.holds and self.clock.left > 0:
            self.check(self.found.sources, whole=True)
        return self.found


def _fine_edges(edges: Array, error: AxisError | None, finer: int) -> Array:
    """Return finer edges such that the error spans a whole number of cells.

    Otherwise rounding adds one cell per side.
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
    limit: Limit,
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
    sets = pack(serves_cells(enclosure, edges, epsilon, limit=limit))
    if sets.coverable.all() or enclosure.is_paved:
        return sets, int((~sets.coverable).sum())
    parts = [sets.to_bool()[:, sets.coverable]]
    cells = Boxes.from_edges(edges)
    extent = cells.extent
    cells = cells[~sets.coverable]
    n_hopeless = 0
    for _ in range(CELL_CUTS * max(1, int((extent > 0).sum()))):
        too_many = len(cells) * 2 * enclosure.n_sources > MAX_CUT_PAIRS
        if not len(cells) or too_many or limit.is_over(2 * len(cells)):
            break
        cells, _ = cells.split(enclosure.widths(cells, extent).argmax(1))
        served = enclosure.bounds(cells, epsilon=epsilon)[1] <= epsilon
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
