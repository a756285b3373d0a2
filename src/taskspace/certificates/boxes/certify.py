"""What holds between the targets of a table: boxes, or else the margin rule."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from taskspace._util.clock import Clock
from taskspace.certificates.boxes.box_search import FIRST_WORK, counted_cover
from taskspace.certificates.boxes.certified_cover import certified_cover
from taskspace.certificates.boxes.check import (
    MAX_BOXES,
    ContinuumCover,
    box_edges,
    certify_cover,
)
from taskspace.certificates.boxes.consistency import TableCheck
from taskspace.certificates.boxes.enclosures import Enclosure, MeasuredEnclosure
from taskspace.certificates.case import Case, certifier
from taskspace.certificates.lipschitz import certify_margin
from taskspace.certificates.statements import Certificate
from taskspace.spaces import Space
from taskspace.systems.base import System

# For a check of what was found, also when time is up: it says how far that reaches.
LEAST_SECONDS = 1.0
# Work of the check of the grid's cover, as multiples of a step of the search.
GRID_STEPS = 2
# Stages of work on a cover of the nodes for a smaller tolerance. A good cover is all
# that is asked: to prove that it is minimal takes most of the time on a large grid.
SLACK_STAGES = 2


@certifier("continuum", before="fresh episodes")
def certify_continuum(case: Case) -> list[Certificate]:
    """Say how the grid's cover does between its nodes, and cover the whole box.

    Args:
        case: gets the cover of the box, if there are bounds over boxes.
    """
    system, targets, cover = case.study.system, case.study.targets, case.cover
    enclosure = case.enclosure[0]
    if enclosure is None or system is None or targets is None:
        return [certify_margin(case)]
    check = TableCheck(case, enclosure)
    check.compare(cover.sources)
    check.compare(np.arange(cover.n_sources), FIRST_WORK / enclosure.pair_work)
    enclosure = _as_measured(case, enclosure, system, targets)
    on_grid, whole = _cover_box(case, enclosure, system, targets)
    for checked in (on_grid, whole):
        check.check_map(checked)
    case.found["continuum"] = whole = replace(whole, n_compared=check.n_compared)
    if case.selection is not None:
        return [whole.certificate]
    return [on_grid.statement("grid cover, between nodes"), whole.certificate]


def _as_measured(
    case: Case, enclosure: Enclosure, system: System, targets: Space
) -> Enclosure:
    """Return bounds where contexts are measured, as the question states."""
    error, epsilon = case.question.error, case.question.epsilon
    if error is None:
        return enclosure
    edges = box_edges(system, targets)
    low, high = (np.array([edge[end] for edge in edges]) for end in (0, -1))
    names = [axis.name for axis in system.axes]
    clock = Clock(max(case.clock.left, LEAST_SECONDS))
    return MeasuredEnclosure(enclosure, error, names, (low, high), epsilon, clock)


def _cover_box(
    case: Case, enclosure: Enclosure, system: System, targets: Space
) -> tuple[ContinuumCover, ContinuumCover]:
    """Return what the grid's cover serves of the box, and the best cover of the box."""
    cover, clock, epsilon = case.cover, case.clock, case.question.epsilon
    is_given, n_served = case.selection is not None, int((cover.assignment >= 0).sum())
    # Nodes are in the box, so covering it takes as many sources.
    grid_bound = int(cover.lower_bound) if case.provenance == "exact" else 1
    of_grid = (cover.lower_bound, n_served, cover.n_targets)
    n_boxes = GRID_STEPS * FIRST_WORK / enclosure.pair_work / max(1, cover.size)
    on_grid = certify_cover(
        enclosure,
        cover.sources,
        box_edges(system, targets),
        epsilon,
        axes=tuple(axis.name for axis in system.axes),
        time_limit=max(clock.left, LEAST_SECONDS),
        max_boxes=MAX_BOXES if is_given else int(min(MAX_BOXES, n_boxes)),
    )
    whole = replace(
        on_grid,
        lower_bound=grid_bound,
        n_candidates=cover.n_sources,
        of_grid=(cover.lower_bound, 0, 0),
        is_time_up=clock.left <= 0,
    )
    on_grid = replace(on_grid, of_grid=of_grid)
    if is_given or (on_grid.holds and cover.optimal) or clock.left <= 0:
        return on_grid, whole
    # What holds already is where the search for fewer begins.
    found = certified_cover(
        enclosure,
        system,
        targets,
        epsilon,
        suggestions=[cover.sources] if on_grid.holds else _slack_covers(case),
        at_least=grid_bound,
        time_limit=clock.left,
        seed=case.seed,
    )
    # Time may be up before anything better was found.
    is_as_good = not on_grid.holds and on_grid.rank == found.rank
    if on_grid.rank > found.rank or is_as_good:
        found = replace(whole, uncoverable=found.uncoverable)
    whole = replace(
        found,
        of_grid=(cover.lower_bound, 0, 0),
        is_time_up=clock.left <= 0,
    )
    return on_grid, whole


def _slack_covers(case: Case) -> Iterator[NDArray[np.int64]]:
    """Yield covers of the nodes for smaller tolerances, the smallest first."""
    cover = case.cover
    n_coverable = cover.n_targets - len(cover.uncoverable)
    for sets in case.sets[1:]:
        if int(sets.coverable.sum()) == n_coverable:
            yield counted_cover(sets, case.clock, case.seed, SLACK_STAGES).sources
