"""What a table says of its own targets: a cover, and how few sources could do."""

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace.certificates.case import Case
from taskspace.certificates.statements import (
    Bound,
    Certificate,
    caution_sentence,
    claim,
    claim_on,
    count,
    on_table,
)
from taskspace.cover import lower_bounds
from taskspace.cover.cover import assigned_errors, no_reference_words
from taskspace.measured import coarse_sentence
from taskspace.questions import Question
from taskspace.systems.base import PROVENANCE_WORDS

# Losses and evaluations of J err by this share of the scores, far above rounding.
EVALUATION_SLACK = 1e-9
QUICK_BOUNDS = ("size", "packing", "dual ascent")
BOUND_SECONDS = 0.8
"""For each bound that takes its time."""
MAX_LP_PAIRS = 10**6
"""Pairs up to which the slower bounds are computed too."""


def losses_and_slack(
    table: xr.Dataset, question: Question, sources: NDArray[np.integer]
) -> tuple[Array, Array]:
    """Return losses of some sources, and what rounding may have done to them.

    Args:
        table: a performance table.
        question: which losses.
        sources: rows of the table.
    """
    losses = question.losses_of(table, sources)
    size, rule = np.abs(losses), question.rule
    if rule.is_relative:
        size = size + 2.0
    elif rule.compares_with_best:
        size = size + 2 * np.abs(table["best_known"].values)
    elif rule.compares_with_home:
        home = np.abs(table["home_performance"].values[sources])
        home = np.where(np.isfinite(home), home, 0.0).max(1)
        size = size + 2 * home[:, None]
    return losses, np.where(np.isfinite(size), EVALUATION_SLACK * size, 0.0)


def certify_grid(case: Case) -> list[Certificate]:
    """Say what a cover of the table's targets is worth.

    Args:
        case: what there is to certify with.
    """
    cover, question, where = case.cover, case.question, on_table(case.provenance)
    regret = question.as_regret().assigned_losses(case.table, cover.assignment)
    compared = ~np.isnan(case.table["best_known"].values)
    worst = float(regret[(cover.assignment >= 0) & compared].max(initial=0.0))
    n_lacking = len(question.without_reference(case.table))
    errors = assigned_errors(question, case.table, cover.assignment)
    n_served = int((cover.assignment >= 0).sum())
    n_left = cover.n_targets - n_served - len(cover.uncoverable)
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
    if n_served == cover.n_targets:
        whom = f"every target{'' if where else ' of the table'}"
    else:
        only = "only " if n_left or not len(cover.uncoverable) else ""
        whom = f"{only}{n_served:,} of {count(cover.n_targets, 'target')}"
    if question.error is not None:
        whom += f" measured with {question.error.words} (of the targets within that)"
    few = "the fewest possible" if cover.optimal else f"at least {cover.lower_bound:g}"
    serve = "serves" if cover.size == 1 else "serve"
    parts = [f"{count(cover.size, 'source')} {serve} {whom}{where}, {few}."]
    if cover.stop_reason == "time limit":
        parts.append("The time limit ended the search for fewer.")
    if n_lacking:
        parts.append(no_reference_words(n_lacking))
    if n_missing := len(cover.uncoverable) - n_lacking:
        are = "is" if n_missing == 1 else "are"
        parts.append(f"{count(n_missing, 'target')} {are} served by no source.")
    if question.rule.compares_with_home and worst > question.epsilon:
        parts.append(
            f"They leave a regret of {worst:.4g}, more than epsilon: signed compares "
            "with the source's own score."
        )
    parts.append(caution_sentence(case.study.system, question))
    if errors is not None and not np.isnan(errors).all():
        error = values["standard_error"] = float(np.nanmax(errors))
        parts.append(f"Standard error of its scores: up to {error:.4g}.")
    parts.append(coarse_sentence(question.error, case.study.targets))
    bounds = (
        Bound("lower", cover.lower_bound, "nodes", "table"),
        Bound("upper", cover.size, "nodes", "table"),
    )
    certificate = Certificate(
        "grid cover",
        n_served == cover.n_targets,
        claim_on(case.table, question),
        " ".join(part for part in parts if part),
        values,
        PROVENANCE_WORDS[case.provenance].table,
        () if n_left else bounds,
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
    limit = min(BOUND_SECONDS, case.clock.left)
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
