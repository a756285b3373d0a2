"""A cover together with the question that it answers, and what it leaves."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace._util.files import plain
from taskspace.cover.baselines import subgrid_counts
from taskspace.cover.cover import Cover, html_view, listed
from taskspace.cover.problem import source_names, target_names
from taskspace.performance.study import Study, as_study
from taskspace.performance.table import source_space
from taskspace.questions import Question
from taskspace.spaces import Grid
from taskspace.systems.base import PROVENANCE_WORDS

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "CoverAnswer",
    "assigned_errors",
    "error_words",
    "no_reference_words",
    "source_names",
    "target_names",
]


def error_words(error: float | None, words: str) -> str:
    """Return words about a standard error, none where it is not known.

    Args:
        error: largest standard error of some scores.
        words: with a place for the number.
    """
    return "" if error is None else words.format(f"{error:.4g}")


def no_reference_words(n_targets: int) -> str:
    """Return what targets without a reference mean for a cover.

    Args:
        n_targets: how many there are.
    """
    some = "1 target has" if n_targets == 1 else f"{n_targets:,} targets have"
    return (
        f"{some} no reference: no policy was trained there, no optimum is known and "
        "none is stated. Whether they are served is not known."
    )


@dataclass(frozen=True, eq=False, repr=False)
class CoverAnswer:
    """What a cover says about a table, for programs and for people.

    Args:
        cover: the cover.
        worst_regret: largest regret over the targets that are served, NaN without
            a table.
        worst_loss: largest loss, in the unit of the question's criterion.
        provenance: where the table's numbers come from.
        contexts: context of each selected source, where sources have contexts.
        names: name of each selected source, where sources have names.
        sizes: mean, its standard error, least and most sources over repeats, for
            `random`.
        subgrid: points on each axis, for `uniform`; at the middles of equal cells.
        standard_error: largest standard error of the scores at the targets that are
            served, where the table has some.
        without_reference: numbers of the targets at which the loss has no reference;
            they are among the cover's `uncoverable`.
        reference: what regret is against, where the table says it.
        unmet: of several demands, how many of the targets that no source serves fail
            each, see `Question.unmet`.
    """

    cover: Cover
    worst_regret: float = math.nan
    worst_loss: float = math.nan
    provenance: str = "given"
    contexts: list[dict[str, float]] | None = None
    names: list[str] | None = None
    sizes: dict[str, float] | None = None
    subgrid: list[int] | None = None
    standard_error: float | None = None
    without_reference: tuple[int, ...] = ()
    reference: str | None = None
    unmet: dict[str, int] | None = None

    @classmethod
    def of(
        cls,
        cover: Cover,
        study: Study | xr.Dataset,
        sizes: dict[str, float] | None = None,
    ) -> Self:
        """Return what a cover of a study leaves.

        Args:
            cover: the cover, with its question.
            study: what it covers, or the performance table.
            sizes: mean, its standard error, least and most sources over repeats, for
                `random`.
        """
        question = cover.question
        assert question is not None
        table = question.table_of(study)

        def worst(asked: Question) -> float:
            served = cover.assignment >= 0
            served[asked.without_reference(table)] = False
            losses = asked.assigned_losses(table, cover.assignment)[served]
            return float(losses.max()) if len(losses) else math.nan

        space, names = source_space(table), source_names(table)
        chosen = [int(source) for source in cover.sources]
        regret = question.as_regret()
        errors = assigned_errors(question, table, cover.assignment)
        stated = None if errors is None or np.isnan(errors).all() else errors
        unmet = None
        if question.also and len(cover.uncoverable):
            unmet = unmet_targets(question, study, cover.uncoverable)
        subgrid = None
        if cover.method == "uniform" and isinstance(space, Grid):
            subgrid = subgrid_counts(cover.sources, space.shape)
        return cls(
            cover=cover,
            worst_regret=worst(regret),
            worst_loss=worst(question),
            provenance=question.provenance_of(table),
            contexts=None if space is None else [space.context(s) for s in chosen],
            names=None if names is None else [names[s] for s in chosen],
            sizes=sizes,
            subgrid=subgrid,
            standard_error=None if stated is None else float(np.nanmax(stated)),
            without_reference=tuple(question.without_reference(table).tolist()),
            reference=table.attrs.get("best_known_kind"),
            unmet=unmet,
        )

    @property
    def question(self) -> Question | None:
        """What the cover answers; None where sets were given alone."""
        return self.cover.question

    @property
    def misleads(self) -> bool:
        """A signed cover that leaves more regret than its tolerance."""
        if self.question is None or not self.question.rule.compares_with_home:
            return False
        return not self.worst_regret <= self.question.epsilon

    @property
    def unserved(self) -> list[int]:
        """Targets that no source serves, though they have a reference."""
        lacking = set(self.without_reference)
        return [t for t in self.cover.uncoverable.tolist() if t not in lacking]

    @property
    def scope(self) -> str:
        """What must be said beside "proven": nothing for exact numbers."""
        return "" if self.question is None else PROVENANCE_WORDS[self.provenance].scope

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per selected source: name, context, how many it serves.

        Who serves each target is `cover.to_frame()`.
        """
        import pandas as pd  # loads slowly

        columns: dict[str, Any] = {"source": self.cover.sources}
        if self.names is not None:
            columns["name"] = self.names
        columns["n_served"] = [
            int((self.cover.assignment == s).sum()) for s in self.cover.sources
        ]
        for axis in self.contexts[0] if self.contexts else ():
            name = axis if axis not in columns else f"context {axis}"
            columns[name] = [context[axis] for context in self.contexts or ()]
        return pd.DataFrame(columns)

    def __repr__(self) -> str:
        lines = []
        if self.question is not None:
            lines.append(f"Asked: {self.question.statement}")
        lines.append(repr(self.cover))
        if self.names is not None:
            lines.append(f"  named: {listed(self.names)}")
        if self.question is not None:
            lines.append(
                f"  worst {self.question.criterion} served "
                f"{self.worst_loss:.4g}, worst regret {self.worst_regret:.4g}, "
                f"{self.provenance} numbers"
                + error_words(self.standard_error, ", standard error up to {}")
            )
        if self.without_reference:
            lines.append(f"  {no_reference_words(len(self.without_reference))}")
        if self.unmet:
            lines.append(f"  {unmet_words(self.unmet)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_view(repr(self), self.to_frame())

    def record(self) -> dict[str, Any]:
        """Return one flat JSON record: the cover, its question, and what it leaves."""
        question = {"ask": None if self.question is None else str(self.question)}
        record = self.cover.to_dict() | question
        record |= {
            "worst_regret": self.worst_regret,
            "worst_loss": self.worst_loss,
            "provenance": self.provenance,
            "without_reference": list(self.without_reference),
            "reference": self.reference,
        }
        optional = ("contexts", "names", "sizes", "subgrid", "standard_error", "unmet")
        for name in optional:
            if getattr(self, name) is not None:
                record[name] = getattr(self, name)
        return plain(record)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return the answer that `record` wrote.

        Args:
            record: plain values; `seconds` may be missing.
        """

        def number(name: str) -> float:
            value = record.get(name)
            return math.nan if value is None else float(value)

        return cls(
            cover=Cover.from_dict({"seconds": 0.0, **record, "question": record}),
            worst_regret=number("worst_regret"),
            worst_loss=number("worst_loss"),
            provenance=record.get("provenance", "given"),
            contexts=record.get("contexts"),
            names=record.get("names"),
            standard_error=record.get("standard_error"),
            sizes=record.get("sizes"),
            without_reference=tuple(record.get("without_reference", ())),
            reference=record.get("reference"),
            subgrid=record.get("subgrid"),
            unmet=record.get("unmet"),
        )


def unmet_words(unmet: Mapping[str, int]) -> str:
    """Return which of several demands the targets fail that no source serves.

    Args:
        unmet: of `Question.unmet`.
    """
    parts = [f"{n:,} fail '{name}'" for name, n in unmet.items() if name != "together"]
    return (
        f"Of the targets that no source serves, {', '.join(parts)} with every source; "
        f"{unmet['together']:,} fail only the demands together."
    )


def assigned_errors(
    question: Question,
    study: Study | xr.Dataset,
    assignment: NDArray[np.integer],
) -> NDArray[np.float64] | None:
    """Return the standard error of the score that counts at each target.

    Args:
        question: whose judge chooses the policy of a family.
        study: what is known, or a performance table.
        assignment: source of each target, −1 for none.

    Returns:
        One number per target, NaN where none serves it or it is not known; None
        for a table without standard errors.
    """
    table = as_study(study).table
    if "standard_error" not in table or "performance" not in table:
        return None
    pick = np.argmin if question.judge == "worst" else np.argmax
    errors = np.full(len(assignment), np.nan)
    for source in np.unique(assignment[assignment >= 0]):
        served = np.flatnonzero(assignment == source)
        policy = pick(table["performance"][int(source)].values[:, served], axis=0)
        errors[served] = table["standard_error"][int(source)].values[policy, served]
    return errors


def unmet_targets(
    question: Question, study: Study | xr.Dataset, targets: NDArray[np.integer]
) -> dict[str, int]:
    """Return how many of some targets no source serves by each demand alone.

    Args:
        question: what is asked.
        study: what is known, or a performance table.
        targets: numbers of targets, e.g. those that a cover cannot serve.

    Returns:
        For each demand's `label` how many of the targets no source serves even by
        it alone; under `"together"` those that sources serve by each demand, but
        none by all of them.
    """
    served: dict[str, NDArray[np.bool_]] = {}
    for demand in question.demands:
        blocks = demand.measured_with(question.error).blocks(study)
        hits = [(b[:, targets] <= demand.epsilon).any(0) for _, b in blocks]
        served[demand.label] = np.any(hits, axis=0)
    counts = {label: int((~hit).sum()) for label, hit in served.items()}
    together = np.all(list(served.values()), axis=0)
    return counts | ({"together": int(together.sum())} if question.also else {})
