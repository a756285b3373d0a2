"""Few sources for a whole box: cells as the targets of the cover engine.

A source serves a cell if its loss is certainly within epsilon on all of it, so a
cover of the cells is a cover of the box by construction. A smaller one is then looked
for among covers of points, with the points where the check fails added. Whatever comes
out is checked by `certify_cover`, which does not know how it was made.
"""

from collections.abc import Callable, Sequence
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
    axes = tuple(axis.name for axis in system.axes)
    tries = [np.asarray(t, np.int64).reshape(-1) for t in suggestions]
    pool = np.unique(np.concatenate([_candidates(enclosure, candidates), *tries]))
    edges = box_edges(system, space, n_cells)
    sets, n_left = _cell_sets(enclosure.subset(pool), edges, epsilon, 4, clock)
    if n_left and candidates is None and len(pool) < enclosure.n_sources:
        everyone = np.arange(enclosure.n_sources)
        if clock.left > clock.seconds * len(everyone) / len(pool):
            pool = everyone
            sets, _ = _cell_sets(enclosure, edges, epsilon, 4, clock)

    def check(sources: NDArray[np.int64], share: float) -> ContinuumCover:
        return certify_cover(
            enclosure,
            sources,
            edges,
            epsilon,
            axes=axes,
            max_boxes=max_boxes,
            max_depth=max_depth,
            time_limit=share * clock.left,
        )

    cover = minimum_cover(sets, time_limit=0.4 * clock.left, seed=seed)
    found: ContinuumCover | None = None
    for chosen in sorted([pool[cover.sources], *tries], key=len):
        if found is not None and clock.left <= 0:
            break
        found = _better(found, check(chosen, 0.5))
        if found.certificate.holds:
            break
    assert found is not None
    part = enclosure.subset(pool)
    bound = 1
    if clock.left > 0:
        nodes = np.concatenate(list(may_serve_nodes(part, edges, epsilon)))
        at_nodes = minimum_cover(
            PackedSets.from_bool(nodes), time_limit=0.3 * clock.left, seed=seed
        )
        bound = max(bound, int(at_nodes.lower_bound))
        if found.certificate.holds and found.size > bound:
            found, bound = _close_gaps(
                found, bound, part, pool, edges, nodes, epsilon, check, clock, seed
            )
    every = bound
    if len(pool) < enclosure.n_sources:
        every = _bound_of_all(enclosure, edges, epsilon, clock)
    return _with_bounds(enclosure, found, pool, bound, every, epsilon)


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
    sets = pack(may_serve_nodes(enclosure, edges, epsilon))
    quick = lower_bounds(sets, kinds=QUICK_BOUNDS, time_limit=max(0.1, clock.left))
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


def _close_gaps(
    found: ContinuumCover,
    bound: int,
    part: Enclosure,
    pool: NDArray[np.int64],
    edges: Sequence[NDArray[np.float64]],
    nodes: NDArray[np.bool_],
    epsilon: float,
    check: Callable[[NDArray[np.int64], float], ContinuumCover],
    clock: Clock,
    seed: int,
) -> tuple[ContinuumCover, int]:
    """Smaller covers and a larger bound, by covering points and adding what fails.

    A cell must be served by one source, which a smaller cover of the box need not
    do. So cover points only, a little better than needed; where the check finds a gap,
    its centres become points too, until a cover holds or is no smaller.

    Returns:
        The smallest cover that holds, and a bound from all points gathered.
    """
    tight = epsilon - TIGHTEN * abs(epsilon)
    wanted = np.concatenate(list(may_serve_nodes(part, edges, tight)))
    stop = 0.15 * clock.left  # what is kept for the bound at the end
    for _ in range(MAX_ROUNDS):
        if clock.left <= stop:
            break
        cover = minimum_cover(
            PackedSets.from_bool(wanted), time_limit=(clock.left - stop) / 2, seed=seed
        )
        if cover.size >= found.size:
            break
        checked = check(pool[cover.sources], 0.5)
        if checked.certificate.holds:
            found = checked
            if bound >= found.size:
                break
            continue
        gaps = checked.boxes[checked.status != CERTIFIED].centre
        gaps = gaps[:: max(1, len(gaps) // GAPS_A_ROUND)]
        low, _ = part.bounds(Boxes.points(gaps))
        wanted = np.concatenate([wanted, low <= tight], axis=1)
        nodes = np.concatenate([nodes, low <= epsilon], axis=1)
    if bound < found.size:
        again = minimum_cover(
            PackedSets.from_bool(nodes), time_limit=clock.left, seed=seed
        )
        bound = max(bound, int(again.lower_bound))
    return found, bound


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
    sets = pack(serves_cells(enclosure, edges, epsilon))
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
        left = left.split(enclosure.widths(left, extent).argmax(1))
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
