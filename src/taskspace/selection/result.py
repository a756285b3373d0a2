"""What a selection trained, what that covers, and what it took."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from taskspace._util.arrays import Numbers
from taskspace.cover.cover import Cover
from taskspace.performance.study import Study
from taskspace.questions import Question
from taskspace.systems.base import PROVENANCE_WORDS


@dataclass(frozen=True)
class Fewest:
    """How few trainings the table of all candidates allows.

    Args:
        lower_bound: no selector that serves with trained policies needs fewer; 1 where
            the table says nothing about this selection.
        size: of the smallest cover of the table that was found.
        why_no_bound: why the table says nothing about this selection; empty if it does.
        of: what a sentence about the bound must add, ` of the estimated table`: it is
            proven of this table, and of nothing else if these are estimates.
    """

    lower_bound: int
    size: int
    why_no_bound: str = ""
    of: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class SelectResult:
    """What a selection trained, and what that covers.

    Args:
        question: what was asked.
        selector: name of the selector.
        stop_reason: `"covered"`, or why it ended before.
        trainings: sources trained, failed ones included.
        environment_steps: simulated steps of all trainings.
        evaluations: pairs of a policy and a target that were evaluated.
        coverage: share of the targets that some source serves, by evaluation; None
            (not known) where some targets have no reference to judge it by.
        covered_at_least: share of the targets that have a reference, and some source
            that serves them; equal to `coverage` where that is known.
        unserved: indices of the targets that have a reference, and no source that
            serves them.
        without_reference: indices of the targets that have no reference: no optimum
            is known, none is stated, and no policy trained there.
        cover: fewest of the sources in the table that serve as much.
        study: what is known of the sources that exist, with their policies; None if
            no training gave any.
        history: after each training what was spent and covered: `trainings`,
            `coverage` (at least), `environment_steps`, `evaluations`; and
            `against_seen`, the share served in comparison with the best policy seen,
            where proposals are based on that.
        reference: what regret is against.
        failures: trainings that failed or do not work at home: `source`, `context`,
            `seed`, `state` and `reason`.
        fewest: what the table of all candidates allows, where that is known.
        close: indices of the targets that count as served, and would not if every
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
    reference: str
    failures: list[dict[str, Any]] = field(default_factory=list)
    fewest: Fewest | None = None
    close: Numbers = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def table(self) -> xr.Dataset | None:
        """The performance table of the sources that exist."""
        return None if self.study is None else self.study.table

    @property
    def lower_bound_trainings(self) -> int:
        """No selector that trains at these candidates needs fewer; 1 if unknown."""
        return 1 if self.fewest is None else self.fewest.lower_bound

    @property
    def scope(self) -> str:
        """What "covered" must add, e.g. ` on the estimated table`."""
        if self.study is None:
            return ""
        words = PROVENANCE_WORDS[self.question.provenance_of(self.study)]
        return f" {words.scope}" if words.scope else ""

    @property
    def statement(self) -> str:
        """What the coverage is a statement about."""
        return statement(0 if self.study is None else self.study.n_sources)

    @property
    def sentences(self) -> list[str]:
        """What was selected and spent, for people."""
        things = "training" if self.trainings == 1 else "trainings"
        share = f"{100 * self.covered_at_least:.4g} %"
        if self.coverage is None:
            share = f"at least {share}"
        against = f"; against: {self.reference}"
        if all(demand.rule.is_absolute for demand in self.question.demands):
            against = ""
        enough = "" if self.coverage is not None else " for these targets"
        return [
            f"{self.trainings:,} {things} by {self.selector} cover {share} of "
            f"{self.cover.n_targets:,} targets{self.scope}: {self.stop_reason}.",
            f"Asked: {self.question.statement}{against}.",
            f"Spent: {self.environment_steps:,} environment steps, "
            f"{self.evaluations:,} evaluations of a policy at a target.",
            f"{self.cover.size} of the sources are enough{enough}.",
            self._fewest_sentence(),
            self.statement,
        ]

    def _fewest_sentence(self) -> str:
        fewest = self.fewest
        if fewest is None:
            return (
                "Lower bound on trainings: unknown (needs the table of all candidates)."
            )
        if fewest.why_no_bound:
            return f"The full table bounds no selector here: {fewest.why_no_bound}."
        return (
            "No selector that serves with policies trained at these candidates needs "
            f"fewer than {fewest.lower_bound} trainings{fewest.of}. The smallest cover "
            f"found of that table has {fewest.size} sources."
        )

    @property
    def warnings(self) -> list[str]:
        """What a person must not miss."""
        warnings = []
        if len(self.close):
            warnings.append(
                f"{len(self.close)} of these targets meet the question by less than "
                "two standard errors, so fresh episodes may refute some of them: "
                f"{_first_few(self.close)}."
            )
        if len(self.without_reference):
            warnings.append(
                f"Coverage is unknown: {len(self.without_reference):,} of "
                f"{self.cover.n_targets:,} targets have no reference. A "
                f"{self.question.criterion} compares with the best that is possible at "
                "a target, which is not known where no policy was trained, no optimum "
                "is known and none is stated. What to do: state the best performance "
                "(--set select.reference=J), or ask for a level (--ask 'score >= J'), "
                "or train at every context (taskspace run)."
            )
        if len(self.unserved):
            warnings.append(
                f"{len(self.unserved)} targets are served by no source: "
                f"{_first_few(self.unserved)}."
            )
        for failure in self.failures[:5]:
            context = ", ".join(f"{k}={v:.4g}" for k, v in failure["context"].items())
            warnings.append(
                f"The training at {context} with seed {failure['seed']} is "
                f"{failure['state']}: {failure['reason']}."
            )
        return warnings

    def __repr__(self) -> str:
        return "\n".join([*self.sentences, *self.warnings])

    def record(self) -> dict[str, Any]:
        """Return one JSON record."""
        cover = self.cover if self.study is None else self.cover.about(self.study)
        names = (
            "stop_reason selector trainings environment_steps evaluations coverage "
            "covered_at_least unserved without_reference close lower_bound_trainings "
            "reference history failures statement"
        )
        values = {name: getattr(self, name) for name in names.split()}
        return values | {"cover": cover.to_dict()}


def statement(n_trained: int) -> str:
    """Return what the coverage of a selection is a statement about.

    Args:
        n_trained: sources that it trained.
    """
    return (
        f"This speaks of the {n_trained:,} sources that a selection trained, not of "
        "all contexts that could be trained."
    )


def _first_few(targets: Numbers) -> str:
    """Return the first five indices, with dots where there are more."""
    return ", ".join(map(str, targets[:5])) + (", ..." if len(targets) > 5 else "")
