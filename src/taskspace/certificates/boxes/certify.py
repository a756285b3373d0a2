"""What holds between the targets of a table: boxes, or else the margin rule."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from taskspace._util.clock import Clock
from taskspace.certificates.boxes.check import (
    ContinuumCover,
    box_edges,
    certify_cover,
)
from taskspace.certificates.boxes.enclosures import (
    Enclosure,
    LipschitzEnclosure,
    MeasuredEnclosure,
)
from taskspace.certificates.boxes.gate import TableGate
from taskspace.certificates.boxes.search import certified_cover
from taskspace.certificates.case import Case
from taskspace.certificates.lipschitz.certify import certify_margin
from taskspace.certificates.statements.claims import (
    Bound,
    Certificate,
    claim,
)
from taskspace.cover import minimum_cover
from taskspace.spaces import Space
from taskspace.systems.base import System

# For a check of what was found, also when time is up: it says how far that reaches.
LEAST_SECONDS = 1.0
# Of the time, for sources that no cover selects: their losses against their bounds.
GATE_SHARE = 0.05


def certify_continuum(case: Case) -> list[Certificate]:
    """Say how the grid's cover does between its nodes, and cover the whole box.

    Args:
        case: its findings get the cover of the box, if there are bounds over boxes.
    """
    system, targets, cover = case.system, case.targets, case.cover
    enclosure = case.enclosure or _lipschitz(case)
    if enclosure is None or system is None or targets is None:
        return [certify_margin(case)]
    gate = TableGate(case, enclosure)
    gate.compare(cover.sources)
    gate.compare(np.arange(cover.n_sources), Clock(GATE_SHARE * case.clock.left))
    enclosure = _as_measured(case, enclosure, system, targets)
    on_grid, whole = _cover_box(case, enclosure, system, targets)
    for checked in (on_grid, whole):
        gate.check_map(checked)
    whole = whole.with_facts({"n_compared": gate.n_compared})
    case.findings.continuum = whole
    if case.selection is not None:
        return [whole.certificate]
    nodes = int((cover.assignment >= 0).sum()), cover.n_targets
    between = on_grid.with_facts({}, nodes=nodes).certificate
    return [replace(between, name="grid cover, between nodes"), whole.certificate]


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
    is_given = case.selection is not None
    on_grid = certify_cover(
        enclosure,
        cover.sources,
        box_edges(system, targets),
        epsilon,
        axes=tuple(axis.name for axis in system.axes),
        time_limit=max((1.0 if is_given else 0.2) * clock.left, LEAST_SECONDS),
    )
    whole = _with_grid_bound(on_grid, case, n_candidates=cover.n_sources)
    if not (is_given or (on_grid.holds and cover.optimal) or clock.left <= 0):
        # What holds already is where the search for fewer begins.
        continuum = certified_cover(
            enclosure,
            system,
            targets,
            epsilon,
            suggestions=[cover.sources] if on_grid.holds else _slack_covers(case),
            time_limit=clock.left,
            seed=case.seed,
        )
        # Time may be up before anything better was found.
        is_as_good = not on_grid.holds and on_grid.rank == continuum.rank
        if not (on_grid.rank > continuum.rank or is_as_good):
            whole = _with_grid_bound(continuum, case)
    return on_grid, whole.with_facts({}, is_time_up=clock.left <= 0)


def _slack_covers(case: Case) -> Iterator[NDArray[np.int64]]:
    """Yield covers of the nodes for smaller tolerances, the smallest first."""
    cover = case.cover
    n_coverable = cover.n_targets - len(cover.uncoverable)
    for sets in case.sets[1:]:
        if int(sets.coverable.sum()) == n_coverable:
            limit = 0.05 * case.clock.left
            yield minimum_cover(sets, time_limit=limit, seed=case.seed).sources


def _with_grid_bound(
    continuum: ContinuumCover, case: Case, n_candidates: int | None = None
) -> ContinuumCover:
    """Add the table's bound: nodes are in the box, so covering it takes as many."""
    values = continuum.certificate.values
    is_sound = case.provenance == "exact"
    grid_bound = int(case.cover.lower_bound) if is_sound else 1
    every = max(continuum.lower_bound, grid_bound)
    among, n = every, n_candidates
    if n is None:
        n = int(values["n_candidates"])
        among = max(every, values["lower_bound_candidates"])
    bounds = []
    if "uncoverable_context" not in values:
        bounds.append(Bound("lower", every, "box", "table"))
    more = {"grid_lower_bound": case.cover.lower_bound}
    return continuum.with_bounds(every, among, n, more, bounds, bound=every)


def _lipschitz(case: Case) -> Enclosure | None:
    """Return bounds from constants that the user knows, where J can be evaluated."""
    system, policies, sources = case.system, case.policies, case.sources
    check, rates = case.rate_check, case.rates
    question = case.question.measured_with(None)
    if not check or rates is None or system is None or system.provenance == "sampled":
        return None
    if policies is None or sources is None:
        return None
    contexts = system.contexts(sources)
    if question.rule.compares_with_best and system.optimum(contexts[:1]) is None:
        return None
    return LipschitzEnclosure(
        system,
        policies,
        contexts,
        question,
        rates=rates,
        kind=claim(
            case.provenance if system.provenance == "exact" else system.provenance
        ),
        basis=f"the Lipschitz constants that were given, if they hold ({check})",
    )
