"""What the nodes of a table say about the space between them: the margin rule."""

from taskspace.certificates.case import Case
from taskspace.certificates.lipschitz.grid import (
    axis_values,
    estimate_rates,
    margin_rule,
)
from taskspace.certificates.statements.claims import Bound, Certificate, claim
from taskspace.certificates.statements.words import margin_sentence
from taskspace.systems.base import PROVENANCE_WORDS


def certify_margin(case: Case) -> Certificate:
    """Say which cells are served because their nodes are, with a margin.

    Args:
        case: what there is to certify with.
    """
    name, scope = "continuum cover", "every context of the box"
    grid, cover, check = case.targets, case.cover, case.rate_check
    reason = case.no_enclosure_reason
    missing = _missing(case)
    if grid is None or missing:
        return Certificate(name, False, "vacuous", f"{missing} {reason}".strip())
    question, provenance = case.question, case.provenance
    losses = question.losses_of(case.table, cover.sources)
    if not check:
        rates = estimate_rates(grid, losses)
        basis = "Λ from the largest steps between targets nearby, times 1.5."
    else:
        rates = case.target_rates
        basis = f"Λ as given, if it holds ({check})."
    kind = claim(provenance, rigorous=bool(check))
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
    bounds = (Bound("upper", cover.size, "box", "table"),) if holds and check else ()
    if provenance != "exact":
        scope = f"{scope}, by {PROVENANCE_WORDS[provenance].table}"
    return Certificate(name, holds, kind, why, values, scope, bounds)


def _missing(case: Case) -> str:
    """Return what a statement about the space between targets lacks, or nothing."""
    grid = case.targets
    if case.question.error is not None:
        return (
            "A statement about contexts that are measured between the targets needs "
            "bounds over boxes, but there are none here. The cover of the targets "
            "holds for the targets within the error."
        )
    if grid is None:
        return (
            "A statement about the space between targets needs their contexts, but "
            "they have none. Give them with contexts=... (--read 'contexts=\"FILE\"')."
        )
    if axis_values(grid) is None:
        return (
            "Targets must be a grid over a box for a statement about the space between "
            f"them, but these {grid.size} are not all combinations of values of "
            f"{', '.join(grid.names)}."
        )
    if not case.cover.size:
        return "No source serves any target, so nothing is covered."
    if case.question.also:
        return "Constants of one loss say nothing of several demands."
    return ""
