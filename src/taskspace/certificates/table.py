"""What a table says of its own targets: a cover, and how few sources could do."""

import numpy as np

from taskspace.certificates.case import Case
from taskspace.certificates.statements.claims import (
    Bound,
    Certificate,
    claim,
    claim_on,
    on_table,
)
from taskspace.certificates.statements.words import caution_sentence, grid_sentence
from taskspace.cover import lower_bounds
from taskspace.cover.answer import assigned_errors
from taskspace.sets.erosion import coarse_sentence
from taskspace.systems.base import PROVENANCE_WORDS

QUICK_BOUNDS = ("size", "packing", "dual ascent")
MAX_LP_PAIRS = 10**6
"""Pairs up to which the slower bounds are computed too."""


def certify_grid(case: Case) -> list[Certificate]:
    """Say what a cover of the table's targets is worth.

    Args:
        case: what there is to certify with.
    """
    cover = case.cover
    question = case.question
    regret = question.as_regret().assigned_losses(case.table, cover.assignment)
    compared = ~np.isnan(case.table["best_known"].values)
    worst = float(regret[(cover.assignment >= 0) & compared].max(initial=0.0))
    n_lacking = len(question.without_reference(case.table))
    errors = assigned_errors(question, case.table, cover.assignment)
    values = {
        **question.to_dict(),
        "size": cover.size,
        "lower_bound": cover.lower_bound,
        "optimal": cover.optimal,
        "sources": cover.sources,
        "coverage": cover.coverage,
        "n_sources": cover.n_sources,
        "n_targets": cover.n_targets,
        "n_uncoverable": len(cover.uncoverable),
        "n_without_reference": n_lacking,
        "worst_regret": worst,
    }
    error = None
    if errors is not None and not np.isnan(errors).all():
        error = values["standard_error"] = float(np.nanmax(errors))
    why = grid_sentence(
        cover,
        question,
        worst,
        case.provenance,
        n_lacking,
        caution_sentence(case.system, question),
        error,
    )
    coarse = coarse_sentence(question.error, case.study.targets)
    why = f"{why} {coarse}".rstrip()
    certificate = Certificate(
        "grid cover",
        bool((cover.assignment >= 0).all()),
        claim_on(case.table, question),
        why,
        values,
        PROVENANCE_WORDS[case.provenance].table,
        (
            Bound("lower", cover.lower_bound, "nodes", "table"),
            Bound("upper", cover.size, "nodes", "table"),
        )
        if len(cover.uncoverable) + (cover.assignment >= 0).sum() == cover.n_targets
        else (),
    )
    return [certificate]


def certify_bounds(case: Case) -> list[Certificate]:
    """Certify the cover engine's lower bounds on the table's targets.

    They hold for the continuum too, with the same sources: a cover of the box covers
    the nodes in it.

    Args:
        case: what there is to certify with.
    """
    sets, provenance = case.sets[0], case.provenance
    small = case.study.n_sources * case.study.n_targets <= MAX_LP_PAIRS
    kinds = (*QUICK_BOUNDS, "primal-dual", "lp") if small else QUICK_BOUNDS
    missing = int((~sets.coverable).sum())
    note = f" ({missing} targets that no source serves left out)" if missing else ""
    note += on_table(provenance)
    limit = 0.2 * case.clock.left / len(kinds)
    return [
        Certificate(
            f"cover: {bound.kind}",
            bound.value > 0,
            claim(provenance) if bound.value > 0 else "vacuous",
            f"Dual prices, checked in integers{note}."
            if bound.value > 0
            else "No bound was found in the time given.",
            {"side": "lower", "value": bound.value, "seconds": bound.seconds},
            PROVENANCE_WORDS[provenance].table,
            (Bound("lower", bound.value, "nodes", "table"),),
        )
        for bound in lower_bounds(sets, kinds=kinds, time_limit=limit)
    ]
