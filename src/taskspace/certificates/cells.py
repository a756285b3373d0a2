"""Few sources for a whole box: cells as the targets of the cover engine.

A source serves a cell if its loss is certainly within epsilon on all of it, so a
cover of the cells is a cover of the box by construction. A smaller one is then looked
for among covers of points, with the points where the check fails added. Whatever comes
out is checked by `certify_cover`, which does not know how it was made.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.certificates.base import Bound
from taskspace.certificates.continuum import (
    CERTIFIED,
    UNCOVERED,
    ContinuumCover,
    box_edges,
    certify_cover,
)
from taskspace.certificates.enclosures import Boxes, Enclosure
from taskspace.certificates.enclosures.search import may_serve_nodes, serves_cells
from taskspace.certificates.sentences import few_sentence, hopeless_sentence
from taskspace.cover import lower_bounds, minimum_cover
from taskspace.cover.base import Clock
from taskspace.errors import InvalidInputError
from taskspace.sets import PackedSets, TargetSets, pack
from taskspace.spaces import Space
from taskspace.systems.base import System

__all__ = ["MAX_CANDIDATES", "certified_cover"]

# Pairs of a source and a part of a cell that a search looks at, at each depth.
MAX_CUT_PAIRS = 2**23
# Pairs of a source and a node that fit into memory as bits.
MAX_NODE_PAIRS = 2**28
QUICK_BOUNDS = ("size", "packing", "dual ascent")
# Points are covered for a tolerance smaller by this share, so that gaps stay small.
TIGHTEN = 1e-3
MAX_ROUNDS = 40
GAPS_A_ROUND = 100
MAX_CANDIDATES = 1000
"""Sources among which `certified_cover` chooses by default, at most."""


def certified_cover(
    enclosure: Enclosure,
    system: System,
    space: Space,
    epsilon: float,
    *,
    time_limit: float = 20.0,
    n_cells: int | None = None,
    max_boxes: int = 200_000,
    max_depth: int = 12,
    candidates: ArrayLike | None = None,
    suggestions: Sequence[ArrayLike] = (),
    seed: int = 0,
) -> ContinuumCover:
    """Few sources whose tolerance sets certainly cover the whole box of a space.

    Cells take the place of nodes: a source serves a cell if its loss is certainly
    within `epsilon` on all of it. Cells that no source serves whole are cut.

    Args:
        enclosure: bounds on the losses of all sources.
        system: the tasks.
        space: its box is what gets covered.
        epsilon: tolerance.
        time_limit: seconds for all of it; what is decided late stays open.
        n_cells: see `box_edges`.
        max_boxes: see `certify_cover`.
        max_depth: see `certify_cover`.
        candidates: sources to choose from. By default all of them up to
            `MAX_CANDIDATES`, beyond that as many, evenly spread, unless these leave
            a cell that no single one serves.
        suggestions: selections to try as well, such as covers of the grid for a
            smaller tolerance; their sources become candidates too.
        seed: of the cover engine.

    Returns:
        The cover, checked by `certify_cover`. Its values tell two lower bounds apart:
        `lower_bound` holds for all sources of the enclosure,
        `lower_bound_candidates` for those among which this search chose.
    """
    enclosure.question(epsilon)  # refuses a tolerance without meaning
    clock = Clock(time_limit)
    if enclosure.n_sources == 0:
        raise InvalidInputError("There must be at least one source, but got none.")
    tries = [np.asarray(t, np.int64).reshape(-1) for t in suggestions]
    pool = np.unique(np.concatenate([_candidates(enclosure, candidates), *tries]))
    search = _Search(
        enclosure,
        pool,
        box_edges(system, space, n_cells),
        tuple(axis.name for axis in system.axes),
        epsilon,
        clock,
        max_boxes=max_boxes,
        max_depth=max_depth,
        seed=seed,
    )
    search.try_out(tries)
    search.bound_at_nodes(Clock(0.2 * clock.left))
    if not search.holds:
        search.close_gaps(Clock(0.4 * clock.left))
    if not search.holds:
        may_grow = candidates is None and len(pool) < enclosure.n_sources
        search.cover_cells(Clock(0.6 * clock.left), may_grow=may_grow)
    search.close_gaps(clock)
    found = search.finish()
    every = search.bound
    if len(search.pool) < enclosure.n_sources:
        every = _bound_of_all(enclosure, search.edges, epsilon, clock)
    return _with_bounds(enclosure, found, search.pool, search.bound, every, epsilon)


class _Search:
    """The best cover so far, and a bound from all points that were looked at.

    Args:
        enclosure: bounds on the losses of all sources.
        pool: the candidates.
        edges: of the cells.
        axes: names of the columns.
        epsilon: tolerance.
        clock: of the whole search.
        max_boxes: see `certify_cover`.
        max_depth: see `certify_cover`.
        seed: of the cover engine.
    """

    def __init__(
        self,
        enclosure: Enclosure,
        pool: NDArray[np.int64],
        edges: Sequence[NDArray[np.float64]],
        axes: tuple[str, ...],
        epsilon: float,
        clock: Clock,
        *,
        max_boxes: int,
        max_depth: int,
        seed: int,
    ):
        self.enclosure, self.pool = enclosure, pool
        self.edges, self.axes, self.epsilon = edges, axes, epsilon
        self.clock, self.seed = clock, seed
        self.max_boxes, self.max_depth = max_boxes, max_depth
        self.part = enclosure.subset(pool)
        self.found: ContinuumCover | None = None
        self.bound = 1
        # Which candidate may serve which point within epsilon, and a little better.
        self.points: NDArray[np.bool_] | None = None
        self.wanted: NDArray[np.bool_] | None = None
        self.is_closed = False

    @property
    def holds(self) -> bool:
        """Whether a cover of the whole box is known."""
        return self.found is not None and self.found.certificate.holds

    @property
    def is_optimal(self) -> bool:
        """Whether no smaller cover can be found among the candidates."""
        found = self.found
        return found is not None and self.holds and self.bound >= found.size

    def check(
        self, sources: NDArray[np.int64], clock: Clock, *, whole: bool = False
    ) -> ContinuumCover:
        """What a selection serves; only until it fails, unless `whole`."""
        checked = certify_cover(
            self.enclosure,
            sources,
            self.edges,
            self.epsilon,
            axes=self.axes,
            max_boxes=self.max_boxes,
            max_depth=self.max_depth,
            time_limit=clock.left,
            until_failure=not whole,
        )
        self.found = _better(self.found, checked)
        return checked

    def try_out(self, selections: Sequence[NDArray[np.int64]]) -> None:
        """Check selections, small ones first, until one holds."""
        for chosen in sorted(selections, key=len):
            if self.holds or self.clock.left <= 0:
                break
            self.check(chosen, Clock(0.3 * self.clock.left))

    def bound_at_nodes(self, clock: Clock) -> None:
        """A bound from the nodes: no fewer candidates serve them."""
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
        sets = PackedSets.from_bool(self.points)
        cover = minimum_cover(sets, time_limit=clock.left, seed=self.seed)
        self.bound = max(self.bound, int(cover.lower_bound))

    def close_gaps(self, clock: Clock) -> None:
        """Cover points only; where the check fails, its gaps become points too.

        A cell must be served by one source, which a small cover of the box need not
        do. So cover points, a little better than needed, until a cover holds or is
        no smaller than the one that is known.
        """
        if self.points is None or self.wanted is None:
            return
        stop = 0.2 * clock.left  # what is kept for the bound at the end
        tight = self.epsilon - TIGHTEN * abs(self.epsilon)
        for _ in range(MAX_ROUNDS):
            left = clock.left - stop
            if left <= 0 or self.is_optimal or self.is_closed:
                break
            sets = PackedSets.from_bool(self.wanted)
            cover = minimum_cover(sets, time_limit=left / 8, seed=self.seed)
            if self.found is not None and self.holds and cover.size >= self.found.size:
                self.is_closed = True
                break
            checked = self.check(self.pool[cover.sources], Clock(left / 2))
            if checked.certificate.holds:
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

    def cover_cells(self, clock: Clock, *, may_grow: bool) -> None:
        """A cover of the cells that single sources certainly serve, cut where needed.

        Args:
            clock: when to stop.
            may_grow: all sources become candidates if these leave a cell that no
                single one serves, and there is time for them.
        """
        share = Clock(0.5 * clock.left)
        sets, n_left = _cell_sets(self.part, self.edges, self.epsilon, 4, share)
        if n_left and may_grow:
            n_all = self.enclosure.n_sources
            if 0.5 * clock.left > share.seconds * n_all / len(self.pool):
                self.pool, self.part = np.arange(n_all), self.enclosure
                sets, _ = _cell_sets(self.part, self.edges, self.epsilon, 4, clock)
                # The points were about the candidates of before.
                self.bound, self.is_closed = 1, False
                self.bound_at_nodes(clock)
        if n_left and share.left <= 0 and self.found is not None:
            return  # cells that were not looked at are missing in the sets
        cover = minimum_cover(sets, time_limit=0.4 * clock.left, seed=self.seed)
        self.check(self.pool[cover.sources], Clock(0.5 * clock.left))

    def finish(self) -> ContinuumCover:
        """The cover; where it does not hold, with all that it certainly serves."""
        if self.found is None:
            self.check(self.pool[:1], self.clock, whole=True)
        assert self.found is not None
        if not self.holds and self.clock.left > 0:
            part = Clock(0.5 * self.clock.left)
            self.check(self.found.sources, part, whole=True)
        return self.found


def _bound_of_all(
    enclosure: Enclosure,
    edges: Sequence[NDArray[np.float64]],
    epsilon: float,
    clock: Clock,
) -> int:
    """A lower bound over every source, as far as there is time and memory for it."""
    n_nodes = int(np.prod([len(e) for e in edges]))
    if clock.left <= 0 or enclosure.n_sources * n_nodes > MAX_NODE_PAIRS:
        return 1
    sets = pack(may_serve_nodes(enclosure, edges, epsilon, clock=clock))
    if clock.left <= 0:
        return 1
    quick = lower_bounds(sets, kinds=QUICK_BOUNDS, time_limit=clock.left)
    return max(1, *(int(found.value) for found in quick))


def _with_bounds(
    enclosure: Enclosure,
    found: ContinuumCover,
    pool: NDArray[np.int64],
    bound: int,
    every: int,
    epsilon: float,
) -> ContinuumCover:
    """The cover with its bounds, each with what it ranges over."""
    holds = found.certificate.holds
    n_sources = enclosure.n_sources
    values = found.certificate.values | {
        "n_sources": n_sources,
        "lower_bound": every,
        "lower_bound_scope": f"all {n_sources} sources",
        "optimal": holds and every >= found.size,
        "n_candidates": len(pool),
        "lower_bound_candidates": bound,
        "optimal_among_candidates": holds and bound >= found.size,
    }
    why = found.certificate.why
    if holds and bound >= found.size:
        why = f"{why} {few_sentence(found.size, bound, len(pool), n_sources)}"
    hopeless = _hopeless(enclosure, found, epsilon)
    bounds = [*found.certificate.bounds]
    if hopeless is not None:
        context = dict(zip(found.axes, hopeless.tolist(), strict=True))
        values["uncoverable_context"] = context
        live = [found.axes[i] for i in np.flatnonzero(found.boxes.extent > 0)]
        why = hopeless_sentence(
            n_sources, found.size, found.share(CERTIFIED), context, live or found.axes
        )
    else:
        # Where some part of the box has no source, bounds are about the rest alone.
        bounds += [
            Bound("lower", bound, "box", "candidates"),
            Bound("lower", every, "box", "table"),
        ]
        if holds:
            bounds.append(Bound("upper", found.size, "box", "candidates"))
    certificate = replace(
        found.certificate, why=why, values=values, bounds=tuple(bounds)
    )
    return replace(found, certificate=certificate, lower_bound=every)


def _better(old: ContinuumCover | None, new: ContinuumCover) -> ContinuumCover:
    """The smaller one that holds, or else the one that certifies more."""
    if old is None:
        return new
    if old.certificate.holds and new.certificate.holds:
        return new if new.size < old.size else old
    return max(old, new, key=lambda cover: cover.share(CERTIFIED))


def _candidates(enclosure: Enclosure, given: ArrayLike | None) -> NDArray[np.int64]:
    if given is not None:
        return np.unique(np.asarray(given, np.int64))
    n = enclosure.n_sources
    if n <= MAX_CANDIDATES:
        return np.arange(n)
    # An irrational step spreads over both axes of a grid; a whole one need not.
    places = np.arange(MAX_CANDIDATES) * (n / MAX_CANDIDATES)
    jitter = (np.arange(MAX_CANDIDATES) * 0.6180339887498949) % 1.0
    return np.unique((places + jitter * (n / MAX_CANDIDATES)).astype(np.int64))


def _hopeless(
    enclosure: Enclosure, found: ContinuumCover, epsilon: float
) -> NDArray[np.float64] | None:
    """A context at which every candidate certainly exceeds epsilon, if one is known."""
    centre = found.boxes[found.status == UNCOVERED].centre
    centre = centre[:: max(1, len(centre) // 200)]
    if not len(centre):
        return None
    low, _ = enclosure.bounds(Boxes.points(centre), epsilon=epsilon)
    failing = np.flatnonzero((low > epsilon).all(0))
    return centre[failing[0]] if len(failing) else None


def _cell_sets(
    enclosure: Enclosure,
    edges: Sequence[NDArray[np.float64]],
    epsilon: float,
    max_depth: int,
    clock: Clock,
) -> tuple[TargetSets, int]:
    """Which source serves which cell; cells that none serves whole are cut.

    Returns:
        The sets over all cells and parts of cells that some source serves, and how
        many are left that none does.
    """
    sets = pack(serves_cells(enclosure, edges, epsilon, clock=clock))
    if sets.coverable.all():
        return sets, 0
    parts = [sets.to_bool()[:, sets.coverable]]
    left = Boxes.from_edges(edges)
    extent = left.extent
    left = left[~sets.coverable]
    n_hopeless = 0
    for _ in range(max_depth * max(1, int((extent > 0).sum()))):
        too_many = len(left) * 2 * enclosure.n_sources > MAX_CUT_PAIRS
        if not len(left) or too_many or clock.left <= 0:
            break
        left, _ = left.split(enclosure.widths(left, extent).argmax(1))
        served = enclosure.serves(left, epsilon)
        coverable = served.any(0)
        parts.append(served[:, coverable])
        left = left[~coverable]
        # A part whose centre no source serves will never be served.
        centre = left.centre
        low, _ = enclosure.bounds(Boxes.points(centre), epsilon=epsilon)
        hopeless = (low > epsilon).all(0)
        n_hopeless += int(hopeless.sum())
        left = left[~hopeless]
    return PackedSets.from_bool(np.concatenate(parts, axis=1)), len(left) + n_hopeless
