"""What holds between the targets of a table: boxes, or the margin rule."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from taskspace.certificates.boxes.check import (
    CERTIFIED,
    ContinuumCover,
    box_edges,
    certify_cover,
)
from taskspace.certificates.boxes.enclosures import (
    Enclosure,
    LipschitzEnclosure,
    MeasuredEnclosure,
    no_enclosure_reason,
)
from taskspace.certificates.boxes.gate import TableGate
from taskspace.certificates.boxes.search import certified_cover
from taskspace.certificates.lipschitz.constants import RateCheck
from taskspace.certificates.lipschitz.grid import (
    axis_values,
    estimate_rates,
    margin_rule,
)
from taskspace.certificates.setting import Setting, target_rates
from taskspace.certificates.statements.base import Bound, Certificate
from taskspace.certificates.statements.claims import claim
from taskspace.certificates.statements.words import margin_sentence
from taskspace.cover import Cover, minimum_cover
from taskspace.cover.base import Clock
from taskspace.questions import Question
from taskspace.sets import TargetSets
from taskspace.spaces import Space
from taskspace.systems.base import PROVENANCE_WORDS, System

__all__ = ["certify_continuum"]

# For a check of what was found, also when time is up: it says how far that reaches.
LEAST_SECONDS = 1.0
# Of the time, for sources that no cover selects: their losses against their bounds.
GATE_SHARE = 0.05


def certify_continuum(
    setting: Setting,
    cover: Cover,
    tighter: Sequence[TargetSets] | None,
    given: RateCheck | None,
) -> tuple[ContinuumCover | None, list[Certificate]]:
    """How the grid's cover does between its nodes, and a cover of the whole box.

    Args:
        setting: what there is to certify with.
        cover: of the table's targets.
        tighter: tolerance sets for smaller tolerances, the smallest first, whose
            covers are tried too; None where no other sources are to be tried.
        given: how constants that the user knows were checked, if there are any.

    Returns:
        The cover of the box, if there are bounds over boxes; and the certificates.
    """
    system, targets = setting.system, setting.targets
    enclosure = setting.enclosure
    if enclosure is None:
        enclosure = _lipschitz(setting, given)
    if enclosure is None or system is None or targets is None:
        reason = ""
        if system is not None and setting.sources is not None:
            reason = no_enclosure_reason(
                system,
                setting.policies,
                system.contexts(setting.sources),
                setting.question,
            )
        return None, [_margin(setting, cover, given, reason)]
    gate = TableGate(setting, enclosure)
    gate.compare(cover.sources)
    gate.compare(np.arange(cover.n_sources), Clock(GATE_SHARE * setting.clock.left))
    enclosure = _as_measured(setting, enclosure, system, targets)
    on_grid, whole = _cover_box(setting, enclosure, system, targets, cover, tighter)
    for checked in (on_grid, whole):
        gate.check_map(checked)
    whole = whole.with_facts({"n_compared": gate.n_compared})
    if tighter is None:
        return whole, [whole.certificate]
    nodes = int((cover.assignment >= 0).sum()), cover.n_targets
    between = on_grid.with_facts({}, nodes=nodes).certificate
    between = replace(between, name="grid cover, between nodes")
    return whole, [between, whole.certificate]


def _as_measured(
    setting: Setting, enclosure: Enclosure, system: System, targets: Space
) -> Enclosure:
    """Return bounds where contexts are measured, as the question states."""
    error = setting.question.error
    if error is None:
        return enclosure
    edges = box_edges(system, targets)
    low, high = (np.array([edge[end] for edge in edges]) for end in (0, -1))
    names = [axis.name for axis in system.axes]
    epsilon = setting.question.epsilon
    clock = Clock(max(setting.clock.left, LEAST_SECONDS))
    return MeasuredEnclosure(enclosure, error, names, (low, high), epsilon, clock)


def _cover_box(
    setting: Setting,
    enclosure: Enclosure,
    system: System,
    targets: Space,
    cover: Cover,
    tighter: Sequence[TargetSets] | None,
) -> tuple[ContinuumCover, ContinuumCover]:
    """What the grid's cover serves of the box, and the best cover of the box."""
    axes = tuple(axis.name for axis in system.axes)
    epsilon, clock = setting.question.epsilon, setting.clock
    share = 1.0 if tighter is None else 0.2
    on_grid = certify_cover(
        enclosure,
        cover.sources,
        box_edges(system, targets),
        epsilon,
        axes=axes,
        time_limit=max(share * clock.left, LEAST_SECONDS),
    )
    n = cover.n_sources
    done = on_grid.certificate.holds and cover.optimal
    if done or tighter is None or clock.left <= 0:
        whole = _with_grid_bound(on_grid, setting, cover, n_candidates=n)
        return on_grid, whole.with_facts({}, is_time_up=clock.left <= 0)
    # What holds already is where the search for fewer begins.
    slack = _slack_covers(setting, cover, tighter)
    continuum = certified_cover(
        enclosure,
        system,
        targets,
        epsilon,
        suggestions=[cover.sources] if on_grid.certificate.holds else slack,
        time_limit=clock.left,
        seed=setting.seed,
    )
    whole = _with_grid_bound(continuum, setting, cover)
    if _is_better(on_grid, continuum):
        # Time was up before anything better was found.
        whole = _with_grid_bound(on_grid, setting, cover, n_candidates=n)
    return on_grid, whole.with_facts({}, is_time_up=clock.left <= 0)


def _is_better(one: ContinuumCover, other: ContinuumCover) -> bool:
    """Whether one proves more than the other, or as much by fewer sources."""
    if one.certificate.holds != other.certificate.holds:
        return one.certificate.holds
    if one.certificate.holds:
        return one.size < other.size
    return one.share(CERTIFIED) >= other.share(CERTIFIED)


def _slack_covers(
    setting: Setting, cover: Cover, tighter: Sequence[TargetSets]
) -> Iterator[NDArray[np.int64]]:
    """Covers of the nodes for smaller tolerances, the smallest first."""
    n_coverable = cover.n_targets - len(cover.uncoverable)
    for sets in tighter:
        if int(sets.coverable.sum()) == n_coverable:
            limit = 0.05 * setting.clock.left
            yield minimum_cover(sets, time_limit=limit, seed=setting.seed).sources


def _with_grid_bound(
    continuum: ContinuumCover,
    setting: Setting,
    cover: Cover,
    n_candidates: int | None = None,
) -> ContinuumCover:
    """Nodes are in the box: what it takes to cover them, it takes to cover the box."""
    known = continuum.certificate.values
    sound = setting.provenance == "exact"
    grid_bound = int(cover.lower_bound) if sound else 1
    every = max(continuum.lower_bound, grid_bound)
    among = every
    if n_candidates is None:
        n_candidates = known["n_candidates"]
        among = max(every, known["lower_bound_candidates"])
    holds = continuum.certificate.holds
    values = {
        "n_sources": cover.n_sources,
        "grid_lower_bound": cover.lower_bound,
        "lower_bound": every,
        "lower_bound_scope": f"all {cover.n_sources} sources",
        "optimal": holds and every >= continuum.size,
        "n_candidates": n_candidates,
        "lower_bound_candidates": among,
        "optimal_among_candidates": holds and among >= continuum.size,
    }
    bounds = []
    if "uncoverable_context" not in known:
        bounds.append(Bound("lower", every, "box", "table"))
    stated = continuum.with_facts(values, bounds, bound=every)
    return replace(stated, lower_bound=every)


def _lipschitz(setting: Setting, given: RateCheck | None) -> Enclosure | None:
    """Bounds from constants that the user knows, where the system can be evaluated."""
    system, policies, sources = setting.system, setting.policies, setting.sources
    if (
        given is None
        or setting.rates is None
        or system is None
        or policies is None
        or sources is None
        or system.provenance == "sampled"
    ):
        return None
    contexts = system.contexts(sources)
    question = setting.question.measured_with(None)
    if question.also:
        return None  # a constant is about one loss
    if question.rule.reference == "best known" and system.optimum(contexts[:1]) is None:
        return None
    return LipschitzEnclosure(
        system,
        policies,
        contexts,
        question,
        rates=setting.rates,
        kind=claim(system.provenance),
        basis="the Lipschitz constants that were given, if they hold "
        f"({given.sentence})",
    )


def _margin(
    setting: Setting, cover: Cover, given: RateCheck | None, reason: str
) -> Certificate:
    """What the table's nodes say about the space between them.

    Args:
        setting: what there is to certify with.
        cover: of the table's targets.
        given: how constants that the user knows were checked, if there are any.
        reason: why there are no bounds over boxes, if that is known.
    """
    name, scope = "continuum cover", "every context of the box"
    grid = setting.targets
    missing = _missing(grid, cover, setting.question)
    if setting.question.also and not missing:
        missing = "Constants of one loss say nothing of several demands."
    if grid is None or missing:
        return Certificate(name, False, "vacuous", f"{missing} {reason}".strip())
    question, provenance = setting.question, setting.provenance
    losses = np.concatenate(
        [question.rows(setting.table, slice(int(s), int(s) + 1)) for s in cover.sources]
    )
    if given is None:
        rates = estimate_rates(grid, losses)
        basis = "Λ from the largest steps between targets nearby, times 1.5."
    else:
        rates = target_rates(setting)
        basis = f"Λ as given, if it holds ({given.sentence})."
    kind = claim(provenance, rigorous=given is not None)
    rule = margin_rule(grid, losses, question.epsilon, rates, kind=kind, basis=basis)
    values = {
        **question.to_dict(),
        **rule.certificate.values,
        "size": cover.size,
        "share_certified": float(rule.certified.mean()),
    }
    why = margin_sentence(
        int((~rule.certified).sum()),
        basis,
        is_estimate=kind == "estimate",
        provenance=provenance,
        reason=reason,
    )
    holds = rule.certificate.holds
    bounds = (Bound("upper", cover.size, "box", "table"),) if holds and given else ()
    if provenance != "exact":
        scope = f"{scope}, by {PROVENANCE_WORDS[provenance].table}"
    return Certificate(name, holds, kind, why, values, scope, bounds)


def _missing(grid: Space | None, cover: Cover, question: Question) -> str:
    """What a statement about the space between targets lacks, empty if nothing."""
    if question.error is not None:
        return (
            "A statement about contexts that are measured between the targets needs "
            "bounds over boxes, but there are none here. The cover of the targets "
            "holds for the targets within the error."
        )
    if grid is None:
        return (
            "A statement about the space between targets needs their contexts, but "
            "they have none. Give them with contexts=... (--contexts FILE)."
        )
    if axis_values(grid) is None:
        return (
            "Targets must be a grid over a box for a statement about the space between "
            f"them, but these {grid.size} are not all combinations of values of "
            f"{', '.join(grid.names)}."
        )
    return "" if cover.size else "No source serves any target, so nothing is covered."
