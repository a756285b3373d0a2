"""What a selection may spend, what it found, and what that took."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from taskspace._util.arrays import Numbers
from taskspace.cover.cover import Cover
from taskspace.errors import ContradictionError, InvalidInputError
from taskspace.performance.study import Study
from taskspace.questions import Question
from taskspace.systems.base import PROVENANCE_WORDS, Provenance

COVERED = "covered"
"""The stop reason when every target is served, by evaluation."""

UNKNOWN = "no reference to judge coverage by"
"""The stop reason when nothing trained is better than the best policy seen, and some
targets have no other reference: whether they are covered is not known."""


@dataclass(frozen=True)
class Budget:
    """What a selection may spend; None is no limit.

    Args:
        trainings: sources trained, failed ones and retries included.
        environment_steps: simulated steps of all trainings. A training is begun only
            if its steps still fit: as many as the trainer says, or as the longest one
            so far took.
        hours: wall-clock time; what runs when it is up is finished.
    """

    trainings: int | None = None
    environment_steps: int | None = None
    hours: float | None = None

    def __post_init__(self):
        for name in ("trainings", "environment_steps", "hours"):
            value = getattr(self, name)
            if value is None:
                continue
            kinds = (int, np.integer) if name != "hours" else (int, float, np.number)
            if isinstance(value, bool) or not isinstance(value, kinds) or value < 0:
                raise InvalidInputError(
                    f"The budget of {name.replace('_', ' ')} must be "
                    f"{'a number' if name == 'hours' else 'an integer'} >= 0, but got "
                    f"{value!r}."
                )


@dataclass(frozen=True)
class Options:
    """How a selection proceeds.

    Args:
        budget: what it may spend.
        n_parallel: trainings under way at a time.
        deterministic: results count in the order of their proposals, so the
            sequence does not depend on who finishes first.
        retries: trainings with another seed after one that is bad at home.
        patience: trainings without any newly covered target, once every uncovered
            target's own context was tried, after which no candidate is expected to
            help.
        evaluate_uncovered_only: evaluate a new policy only at targets that nothing
            serves yet; where regret is against the best policy seen, everywhere all
            the same.
    """

    budget: Budget = field(default_factory=Budget)
    n_parallel: int = 1
    deterministic: bool = True
    retries: int = 0
    patience: int = 5
    evaluate_uncovered_only: bool = False

    def __post_init__(self):
        for name, least in (("n_parallel", 1), ("retries", 0), ("patience", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InvalidInputError(
                    f"{name} must be an integer >= {least}, but got {value!r}."
                )


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

    def check(self, trainings: int) -> None:
        """Refuse a selection that covers all with fewer trainings than are needed.

        Args:
            trainings: what the selection took to cover every target.
        """
        if trainings < self.lower_bound:
            raise ContradictionError(
                f"The table of all candidates says that at least {self.lower_bound} "
                f"trainings are needed, and the selection that {trainings} cover every "
                "target. One of them is wrong, so neither is reported. Please report "
                "this with its data."
            )


@dataclass(frozen=True, eq=False, repr=False)
class SelectResult:
    """What a selection trained, and what that covers.

    Args:
        question: what was asked.
        selector: name of the selector.
        stop_reason: `"covered"`, or why it ended before.
        trainings: sources trained, failed ones and retries included.
        environment_steps: simulated steps of all trainings.
        evaluations: pairs of a policy and a target that were evaluated.
        coverage: share of the targets that some source serves, by evaluation; None
            (not known) where some targets have no reference to judge it by.
        covered_at_least: share of the targets that have a reference, and some source
            that serves them; equal to `coverage` where that is known.
        unserved: numbers of the targets that have a reference, and no source that
            serves them.
        without_reference: numbers of the targets that have no reference: no optimum
            is known, none is stated, and no policy trained there.
        cover: fewest of the sources in the table that serve as much.
        study: what is known of the sources that exist, with their policies; None if
            no training gave any.
        history: after each training what was spent and covered: `trainings`,
            `coverage` (at least), `environment_steps`, `evaluations`; and
            `against_seen`, the share served by the measure of the best policy seen,
            where that is what proposals are based on.
        lower_bound_trainings: no selector that serves with policies trained at these
            candidates needs fewer trainings; 1 where the table of all candidates is
            not known, or says nothing about this selection.
        reference: what regret is against.
        failures: trainings that failed or are bad at home: `source`, `context`,
            `seed`, `state` and `reason`.
        statement: what the coverage is a statement about.
        fewest: what the table of all candidates allows, where that is known.
        close: numbers of the targets that count as served, and would not if every
            score were two standard errors lower.
    """

    question: Question
    selector: str
    stop_reason: str
    trainings: int
    environment_steps: int
    evaluations: int
    coverage: float | None
    covered_at_least: float
    unserved: Numbers
    without_reference: Numbers
    cover: Cover
    study: Study | None
    history: list[dict[str, Any]]
    lower_bound_trainings: int
    reference: str
    failures: list[dict[str, Any]] = field(default_factory=list)
    statement: str = ""
    fewest: Fewest | None = None
    close: Numbers = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def scope(self) -> str:
        """What "covered" must say beside it, e.g. ` on the estimated table`."""
        if self.study is None:
            return ""
        words = PROVENANCE_WORDS[self.question.provenance_of(self.study)]
        return f" {words.scope}" if words.scope else ""

    def __repr__(self) -> str:
        share = f"{100 * self.covered_at_least:.4g} %"
        if self.coverage is None:
            share = f"at least {share}"
        lines = [
            f"Selection by {self.selector}: {self.trainings:,} trainings, "
            f"{self.environment_steps:,} environment steps; {self.stop_reason}",
            f"  serves {share} of the targets{self.scope}: {self.question.statement}",
            f"  {self.cover}".replace("\n", "\n  "),
        ]
        if len(self.close):
            lines.append(f"  {len(self.close)} of them by less than 2 standard errors")
        if self.fewest is not None and (least := self.lower_bound_trainings) > 1:
            lines.append(
                f"  no selector of these candidates needs fewer than {least}"
                f"{self.fewest.of}"
            )
        if self.failures:
            lines.append(f"  {len(self.failures)} trainings failed: see .failures")
        return "\n".join(lines)

    @property
    def table(self) -> xr.Dataset | None:
        """The performance table of the sources that exist."""
        return None if self.study is None else self.study.table

    def record(self) -> dict[str, Any]:
        """One JSON record."""
        cover = self.cover if self.study is None else self.cover.about(self.study)
        return {
            "stop_reason": self.stop_reason,
            "selector": self.selector,
            "trainings": self.trainings,
            "environment_steps": self.environment_steps,
            "evaluations": self.evaluations,
            "coverage": self.coverage,
            "covered_at_least": self.covered_at_least,
            "unserved": self.unserved,
            "without_reference": self.without_reference,
            "close": self.close,
            "lower_bound_trainings": self.lower_bound_trainings,
            "reference": self.reference,
            "history": self.history,
            "failures": self.failures,
            "statement": self.statement,
            "cover": cover.to_dict(),
        }
