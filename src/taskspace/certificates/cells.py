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

from taskspace.certificates._old import check_epsilon
from taskspace.certificates.continuum import (
    CERTIFIED,
    UNCOVERED,
    ContinuumCover,
    box_edges,
    certify_cover,
    name_context,
)
from taskspace.certificates.enclosures import Boxes, Enclosure
from taskspace.cover import minimum_cover
from taskspace.cover.base import Clock
from taskspace.errors import InvalidInputError
from taskspace.sets import PackedSets, TargetSets, pack
from taskspace.spaces import Space
from taskspace.systems.base import System

__all__ = ["MAX_CANDIDATES", "certified_cover"]

# Pairs of a source and a part of a cell that a search looks at, at each depth.
MAX_CUT_PAIRS = 2**23
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
        enclosure: bounds on the losses of all candidate sources.
        system: the tasks.
        space: its box is what gets covered.
        epsilon: tolerance.
        time_limit: seconds for the search of a smallest cover.
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
        The cover, checked by `certify_cover`, with a lower bound that holds for
        every cover of the box by these candidates: no fewer cover its nodes and the
        corners of its cells.
    """
    check_epsilon(epsilon, enclosure.criterion)
    if enclosure.n_sources == 0:
        raise InvalidInputError("There must be at least one source, but got none.")
    axes = tuple(axis.name for axis in system.axes)
    tries = [np.asarray(t, np.int64).reshape(-1) for t in suggestions]
    pool = np.unique(np.concatenate([_candidates(enclosure, candidates), *tries]))
    found: ContinuumCover | None = None
    edges = box_edges(system, space, n_cells)
    sets, n_left = _cell_sets(enclosure.subset(pool), edges, epsilon, max_depth=4)
    if n_left and candidates is None and len(pool) < enclosure.n_sources:
        pool = np.arange(enclosure.n_sources)
        sets, _ = _cell_sets(enclosure, edges, epsilon, max_depth=4)

    def check(sources: NDArray[np.int64]) -> ContinuumCover:
        return certify_cover(
            enclosure,
            sources,
            edges,
            epsilon,
            axes=axes,
            max_boxes=max_boxes,
            max_depth=max_depth,
        )

    cover = minimum_cover(sets, time_limit=0.4 * time_limit, seed=seed)
    found: ContinuumCover | None = None
    for chosen in sorted([pool[cover.sources], *tries], key=len):
        found = _better(found, check(chosen))
        if found.certificate.holds:
            break
    assert found is not None
    part = enclosure.subset(pool)
    nodes = np.concatenate(list(part.may_serve_nodes(edges, epsilon)))
    at_nodes = minimum_cover(
        PackedSets.from_bool(nodes), time_limit=0.2 * time_limit, seed=seed
    )
    bound = int(at_nodes.lower_bound)
    if found.certificate.holds and found.size > bound:
        found, bound = _close_gaps(
            found,
            bound,
            part,
            pool,
            edges,
            nodes,
            epsilon,
            check,
            Clock(0.4 * time_limit),
            seed,
        )
    optimal = found.certificate.holds and bound >= found.size
    values = found.certificate.values | {
        "n_sources": enclosure.n_sources,
        "n_candidates": len(pool),
        "lower_bound": bound,
        "optimal": optimal,
    }
    why = found.certificate.why
    if optimal and len(pool) < enclosure.n_sources:
        why += f" No fewer of {len(pool)} candidates do."
    elif optimal:
        why += f" No fewer of the {len(pool)} sources do."
    hopeless = _hopeless(enclosure, found, epsilon)
    live = [i for i, e in enumerate(edges) if len(e) > 1]
    if hopeless is not None:
        values["uncoverable_context"] = dict(zip(axes, hopeless.tolist(), strict=True))
        why = (
            f"No cover of the whole box exists: none of the {enclosure.n_sources} "
            f"sources manages {name_context(axes, live, hopeless)}. These {found.size} "
            f"certainly serve {found.share(CERTIFIED):.2%} of it."
        )
    certificate = replace(found.certificate, why=why, values=values)
    return replace(found, certificate=certificate, lower_bound=bound)


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
    check: Callable[[NDArray[np.int64]], ContinuumCover],
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
    wanted = np.concatenate(list(part.may_serve_nodes(edges, tight)))
    for _ in range(MAX_ROUNDS):
        if clock.left <= 0:
            break
        cover = minimum_cover(
            PackedSets.from_bool(wanted), time_limit=clock.left / 2, seed=seed
        )
        if cover.size >= found.size:
            break
        checked = check(pool[cover.sources])
        if checked.certificate.holds:
            found = checked
            if bound >= found.size:
                break
            continue
        gaps = checked.boxes[checked.status != CERTIFIED].centre
        gaps = gaps[:: max(1, len(gaps) // GAPS_A_ROUND)]
        low, _ = part.bounds(Boxes(gaps, gaps))
        wanted = np.concatenate([wanted, low <= tight], axis=1)
        nodes = np.concatenate([nodes, low <= epsilon], axis=1)
    if bound < found.size:
        again = minimum_cover(
            PackedSets.from_bool(nodes), time_limit=max(1.0, clock.left), seed=seed
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
    low, _ = enclosure.bounds(Boxes(centre, centre), epsilon=epsilon)
    failing = np.flatnonzero((low > epsilon).all(0))
    return centre[failing[0]] if len(failing) else None


def _cell_sets(
    enclosure: Enclosure,
    edges: Sequence[NDArray[np.float64]],
    epsilon: float,
    max_depth: int,
) -> tuple[TargetSets, int]:
    """Which source serves which cell; cells that none serves whole are cut.

    Returns:
        The sets over all cells and parts of cells that some source serves, and how
        many are left that none does.
    """
    sets = pack(enclosure.serves_cells(edges, epsilon))
    if sets.coverable.all():
        return sets, 0
    parts = [sets.to_bool()[:, sets.coverable]]
    left = Boxes.from_edges(edges)[~sets.coverable]
    n_hopeless = 0
    for _ in range(max_depth):
        if not len(left) or len(left) * 4 * enclosure.n_sources > MAX_CUT_PAIRS:
            break
        left = left.split()
        served = enclosure.serves(left, epsilon)
        coverable = served.any(0)
        parts.append(served[:, coverable])
        left = left[~coverable]
        # A part whose centre no source serves will never be served.
        centre = left.centre
        low, _ = enclosure.bounds(Boxes(centre, centre), epsilon=epsilon)
        hopeless = (low > epsilon).all(0)
        n_hopeless += int(hopeless.sum())
        left = left[~hopeless]
    return PackedSets.from_bool(np.concatenate(parts, axis=1)), len(left) + n_hopeless
