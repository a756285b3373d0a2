"""Few sources for a whole box, with bounds on how few could do.

`taskspace.certificates.boxes.search` has the search for them.
"""

from collections.abc import Iterable
from dataclasses import replace

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
from taskspace.certificates.boxes.nodes import Limit, serves_cells
from taskspace.certificates.boxes.search import GROWTH, BoxSearch
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
    at_least: int = 1,
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
        at_least: sources that the box certainly needs: a search that found so few
            is done.
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
        at_least=at_least,
        seed=seed,
        may_grow=candidates is None and len(pool) < enclosure.n_sources,
    )
    search.run(suggestions)
    every = search.bound
    if len(search.pool) < enclosure.n_sources:
        every = max(at_least, _bound_of_all(search))
    cover = search.finish()
    return replace(
        cover,
        lower_bound=every,
        n_candidates=len(search.pool),
        bound_candidates=search.bound,
        uncoverable=_hopeless(enclosure, cover, epsilon),
        is_time_up=clock.left <= 0,
    )


def _bound_of_all(search: BoxSearch) -> int:
    """Return a lower bound over every source, as far as time and memory allow."""
    enclosure, clock = search.enclosure, search.clock
    n_nodes = int(np.prod([len(e) for e in search.edges]))
    if clock.left <= 0 or enclosure.n_sources * n_nodes > MAX_NODE_PAIRS:
        return 1
    limit = Limit(clock, GROWTH * search.max_pairs)
    nodes = serves_cells(
        enclosure, search.edges, search.epsilon, limit=limit, nodes=True, undecided=True
    )
    sets = pack(nodes)
    if limit.was_cut:
        return 1
    quick = lower_bounds(sets, kinds=QUICK_BOUNDS, time_limit=clock.left)
    return max(1, *(int(bound.value) for bound in quick))


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
    """Return a context at which every source certainly exceeds epsilon, if any."""
    centre = cover.boxes[cover.status == UNCOVERED].centre
    centre = centre[:: max(1, len(centre) // 200)]
    if not len(centre):
        return None
    low, _ = enclosure.bounds(Boxes.points(centre), epsilon=epsilon)
    failing = np.flatnonzero((low > epsilon).all(0))
    return centre[failing[0]] if len(failing) else None
