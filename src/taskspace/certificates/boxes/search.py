"""Few sources for a whole box, with bounds on how few could do.

How the sources are found is in `taskspace.certificates.boxes.shrink`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace.certificates.boxes.check import (
    UNCOVERED,
    ContinuumCover,
    box_edges,
)
from taskspace.certificates.boxes.enclosures import Boxes, Enclosure
from taskspace.certificates.boxes.enclosures.search import may_serve_nodes
from taskspace.certificates.boxes.shrink import FINE_CELLS, BoxSearch
from taskspace.certificates.statements.claims import Bound
from taskspace.cover import lower_bounds
from taskspace.errors import InvalidInputError
from taskspace.sets import pack
from taskspace.spaces import Space
from taskspace.systems.base import System

# Pairs of a source and a node that fit into memory as bits.
MAX_NODE_PAIRS = 2**28
QUICK_BOUNDS = ("size", "packing", "dual ascent")
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
    candidates: ArrayLike | None = None,
    suggestions: Iterable[ArrayLike] = (),
    seed: int = 0,
) -> ContinuumCover:
    """Return few sources whose tolerance sets certainly cover the whole box of a space.

    Some selection is proven first, if need be a larger one with slack; then fewer
    sources are looked for while there is time.

    Args:
        enclosure: bounds on the losses of all sources.
        system: the tasks.
        space: its box is what gets covered.
        epsilon: tolerance.
        time_limit: processor seconds for all of it; what is decided late stays open.
        n_cells: see `box_edges`.
        candidates: sources to choose from. By default all of them up to
            `MAX_CANDIDATES`, beyond that as many, evenly spread, unless these leave
            a cell that no single one serves.
        suggestions: selections to try as well, such as covers of the grid for
            smaller tolerances, those with the most slack first; their sources become
            candidates too. Each is asked for when it is needed.
        seed: of the cover engine.

    Returns:
        The cover, checked by `certify_cover`. Its values tell two lower bounds apart:
        `lower_bound` holds for all sources of the enclosure,
        `lower_bound_candidates` for those among which this search chose.
    """
    enclosure.question.at(epsilon)  # refuses a tolerance without meaning
    clock = Clock(time_limit)
    if enclosure.n_sources == 0:
        raise InvalidInputError("There must be at least one source, but got none.")
    pool = _candidates(enclosure, candidates)
    search = BoxSearch(
        enclosure,
        pool,
        box_edges(system, space, n_cells),
        tuple(axis.name for axis in system.axes),
        epsilon,
        clock,
        seed=seed,
    )
    may_grow = candidates is None and len(pool) < enclosure.n_sources
    if enclosure.is_paved:
        search.bound_at_nodes(Clock(0.1 * clock.left))
        search.cover_cells(Clock(0.3 * clock.left), may_grow=False)
        if not search.is_optimal:
            some = Clock(0.6 * clock.left)
            search.cover_cells(some, may_grow=may_grow, finer=FINE_CELLS)
    search.prove_first(suggestions)
    search.shrink(Clock(0.3 * clock.left))
    if not enclosure.is_paved:
        search.bound_at_nodes(Clock(0.2 * clock.left))
    if not search.holds:
        search.close_gaps(Clock(0.4 * clock.left))
    if not search.holds and not enclosure.is_paved:
        search.cover_cells(Clock(0.6 * clock.left), may_grow=may_grow)
    search.close_gaps(clock)
    cover = search.finish()
    every = search.bound
    if len(search.pool) < enclosure.n_sources:
        every = _bound_of_all(enclosure, search.edges, epsilon, clock)
    n_pool = len(search.pool)
    return _with_bounds(enclosure, cover, n_pool, search.bound, every, epsilon)


def _bound_of_all(
    enclosure: Enclosure, edges: Sequence[Array], epsilon: float, clock: Clock
) -> int:
    """Return a lower bound over every source, as far as time and memory allow."""
    n_nodes = int(np.prod([len(e) for e in edges]))
    if clock.left <= 0 or enclosure.n_sources * n_nodes > MAX_NODE_PAIRS:
        return 1
    sets = pack(may_serve_nodes(enclosure, edges, epsilon, clock=clock))
    if clock.left <= 0:
        return 1
    quick = lower_bounds(sets, kinds=QUICK_BOUNDS, time_limit=clock.left)
    return max(1, *(int(bound.value) for bound in quick))


def _with_bounds(
    enclosure: Enclosure,
    cover: ContinuumCover,
    n_candidates: int,
    among: int,
    every: int,
    epsilon: float,
) -> ContinuumCover:
    """Return the cover with its bounds, each with what it ranges over."""
    values: dict[str, Any] = {}
    bounds: list[Bound] = []
    context = None
    hopeless = _hopeless(enclosure, cover, epsilon)
    if hopeless is not None:
        context = dict(zip(cover.axes, hopeless.tolist(), strict=True))
        values["uncoverable_context"] = context
    else:
        # Where some part of the box has no source, bounds are about the rest alone.
        bounds += [
            Bound("lower", among, "box", "candidates"),
            Bound("lower", every, "box", "table"),
        ]
        if cover.holds:
            bounds.append(Bound("upper", cover.size, "box", "candidates"))
    return cover.with_bounds(
        every,
        among,
        n_candidates,
        values,
        bounds,
        bound_candidates=among,
        uncoverable=context,
    )


def _candidates(enclosure: Enclosure, sources: ArrayLike | None) -> NDArray[np.int64]:
    if sources is not None:
        return np.unique(np.asarray(sources, np.int64))
    n = enclosure.n_sources
    if n <= MAX_CANDIDATES:
        return np.arange(n)
    # An irrational step spreads over both axes of a grid; a whole one need not.
    places = np.arange(MAX_CANDIDATES) * (n / MAX_CANDIDATES)
    jitter = (np.arange(MAX_CANDIDATES) * 0.6180339887498949) % 1.0
    return np.unique((places + jitter * (n / MAX_CANDIDATES)).astype(np.int64))


def _hopeless(
    enclosure: Enclosure, cover: ContinuumCover, epsilon: float
) -> Array | None:
    """Return a context at which every candidate certainly exceeds epsilon, if any."""
    centre = cover.boxes[cover.status == UNCOVERED].centre
    centre = centre[:: max(1, len(centre) // 200)]
    if not len(centre):
        return None
    low, _ = enclosure.bounds(Boxes.points(centre), epsilon=epsilon)
    failing = np.flatnonzero((low > epsilon).all(0))
    return centre[failing[0]] if len(failing) else None
