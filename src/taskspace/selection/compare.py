"""How few trainings any selector needs, where the table of all candidates is known."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from taskspace.cover.methods import find_cover
from taskspace.errors import InvalidInputError
from taskspace.performance import family_rows, source_space, target_space
from taskspace.performance.ledger import Ledger
from taskspace.questions import Question
from taskspace.selection.candidates import Candidates
from taskspace.selection.selectors.base import Selector
from taskspace.spaces import Space
from taskspace.systems.base import PROVENANCE_WORDS, Provenance


@dataclass(frozen=True)
class Fewest:
    """How few trainings the table of all candidates allows.

    Args:
        lower_bound: no selector that serves with trained policies needs fewer; 1 where
            the table says nothing about this selection.
        size: of the smallest cover of the table that was found.
        why_no_bound: why the table says nothing about this selection; empty if it does.
        provenance: where the numbers of the table come from: the bound is proven of
            this table, and of nothing else if these are estimates.
    """

    lower_bound: int
    size: int
    why_no_bound: str = ""
    provenance: Provenance = "exact"

    @property
    def of(self) -> str:
        """What a sentence about the bound must add: ` of the estimated table`."""
        words = PROVENANCE_WORDS[self.provenance]
        return f" of {words.table}" if words.scope else ""


def check_full_table(table: xr.Dataset, space: Space, targets: Space) -> None:
    """Refuse a table that lacks a candidate, or has other targets.

    Args:
        table: the table of all candidates.
        space: contexts that may be trained.
        targets: contexts to cover.
    """
    tried, sources = target_space(table), source_space(table)
    if tried is None or not (
        tuple(tried.names) == tuple(targets.names)
        and np.array_equal(tried.points, targets.points)
    ):
        raise InvalidInputError(
            "The full table must have the targets of the selection, in their order, "
            f"but has {table.sizes['target']} targets over "
            f"{() if tried is None else tuple(tried.names)}, and the selection "
            f"{targets.size} over {tuple(targets.names)}."
        )
    missing = space.size
    if sources is not None and tuple(sources.names) == tuple(space.names):
        missing = int(Candidates(space).left(sources.points).sum())
    if missing:
        raise InvalidInputError(
            "The full table must have a source at every candidate, but "
            f"{missing} of {space.size} candidates are not among its "
            f"{table.sizes['source']} sources. Leave it out, or evaluate them all."
        )


def fewest_trainings(
    ledger: Ledger,
    question: Question,
    selector: Selector,
    full_table: xr.Dataset,
    time_limit: float,
) -> Fewest:
    """Return how few trainings the full table allows.

    Args:
        ledger: what the selection trained and evaluated.
        question: what was covered.
        selector: who chose; its candidates are those of the table.
        full_table: the table of its candidates; see `check_full_table`.
        time_limit: processor seconds for the smallest cover.
    """
    others = _sources_of(full_table).left(selector.candidates.points)
    table = full_table.isel(source=np.flatnonzero(~others))
    table, why = _referred(table, ledger, question)
    least = find_cover(question.sets(table), method="minimum", time_limit=time_limit)
    if selector.anywhere:
        why = why or "any point of the box may be trained, not only those of the table"
    why = why or _differs(table, ledger, question)
    bound = 1 if why else max(1, int(least.lower_bound))
    return Fewest(bound, least.size, why, question.provenance_of(table))


def _sources_of(table: xr.Dataset) -> Candidates:
    """Return the sources of a table, to find them by their contexts."""
    space = source_space(table)
    assert space is not None
    return Candidates(space)


def _referred(
    table: xr.Dataset, ledger: Ledger, question: Question
) -> tuple[xr.Dataset, str]:
    """Return the table against the reference that the selection is judged by.

    What a policy serves only shrinks as the reference rises, so a bound against the
    stated one holds also where a policy beats it.
    """
    if not question.rule.compares_with_best:
        return table, ""
    stated = ledger.reference
    if stated is None:
        stated = ledger.task.system.optimum(ledger.task.targets)
    assert stated is not None  # else the table's own reference was stated
    table = table.assign(best_known=("target", np.asarray(stated, np.float64)))
    if np.isnan(stated).any():
        return table, "some targets have no reference in the table either"
    return table, ""


def _differs(table: xr.Dataset, ledger: Ledger, question: Question) -> str:
    """Return why the table is not that of the selection's policies; empty if it is."""
    if set(ledger.kinds) - {"trained"}:
        return "a policy was trained on a region, not at a candidate"
    if not ledger.n_sources or not ledger.evaluated.any():
        return ""
    where = _sources_of(table)
    # Both against the same reference: then the same scores serve the same targets.
    trained = ledger.table().assign(best_known=("target", table["best_known"].values))
    for row, context in enumerate(ledger.sources.points[ledger.evaluated]):
        places = np.flatnonzero(~where.left(context[None]))
        if not len(places):
            return "a source is trained that is not in the table"
        own, other = slice(row, row + 1), slice(int(places[0]), int(places[0]) + 1)
        scores = family_rows(trained, question.judge, own)
        expected = family_rows(table, question.judge, other)
        works = np.isfinite(scores)
        same = np.allclose(scores[works], expected[works], rtol=1e-6, atol=0)
        served = question.rows(trained, own) <= question.epsilon
        if (
            not same
            or (served & ~(question.rows(table, other) <= question.epsilon)).any()
        ):
            return "its policies are others than those trained here"
    return ""
