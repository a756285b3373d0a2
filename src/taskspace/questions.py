"""The question that a cover answers: by which criterion, judged how, within what.

It travels whole. Losses and tolerance sets are what a question makes of a study; the
criterion and the judge are looked up here and nowhere else.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.criteria import JUDGES, Criterion, criterion_named
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.measured import ErrorBounds
from taskspace.performance.study import Study, as_study
from taskspace.performance.table import (
    REDUCTIONS,
    family_rows,
    provenance_of,
    reduced_name,
    row_blocks,
)
from taskspace.sets import TargetSets, pack
from taskspace.sets.erosion import Windows, windows_of

__all__ = ["Question", "as_question", "loss", "tolerance_sets"]


@dataclass(frozen=True)
class Question:
    """Criterion, judge, tolerance and error; they travel together, always.

    Args:
        criterion: name of a criterion, see `taskspace.criteria.CRITERIA`.
        judge: which policy of a family counts, `"worst"` or `"best"`.
        epsilon: tolerance, in the unit of the criterion.
        error: how far the true context may lie from the measured one, by axis: a
            number in its unit, or a percentage as text. A source then serves a target
            that is measured if it serves every target within the error of it. Kept
            as `ErrorBounds`, or None where nothing errs.

    Examples:
        >>> question = Question("regret", epsilon=0.2)
        >>> question.statement
        'regret ≤ 0.2 by the worst policy of each source'
        >>> question.to_dict()
        {'criterion': 'regret', 'judge': 'worst', 'epsilon': 0.2}
    """

    criterion: str = "regret"
    judge: str = "worst"
    epsilon: float = field(kw_only=True)
    error: Any = field(default=None, kw_only=True)

    def __post_init__(self):
        if self.judge not in JUDGES:
            raise UnknownNameError("judge", self.judge, JUDGES)
        if isinstance(self.epsilon, bool) or not isinstance(
            self.epsilon, int | float | np.number
        ):
            raise InvalidInputError(
                f"epsilon must be a number, but got {self.epsilon!r}."
            )
        object.__setattr__(self, "epsilon", float(self.epsilon))
        self.rule.check_epsilon(self.epsilon)
        object.__setattr__(self, "error", ErrorBounds.of(self.error))

    @property
    def rule(self) -> Criterion:
        """The criterion itself."""
        return criterion_named(self.criterion)

    @property
    def statement(self) -> str:
        """The question as one clause, for tables, figures and certificates."""
        return (
            f"{self.rule.sentence(self.epsilon)} by the {self.judge} policy of each "
            f"source{self._error_words}"
        )

    @property
    def label(self) -> str:
        """The question in a few words, for the title of a picture."""
        measured = f", {self.error.words}" if self.error else ""
        return f"{self.criterion} ≤ {self.epsilon:g}, {self.judge} policy{measured}"

    @property
    def _error_words(self) -> str:
        if self.error is None:
            return ""
        return f", where contexts are measured with {self.error.words}"

    def at(self, epsilon: float) -> Self:
        """Return the same question with another tolerance.

        Args:
            epsilon: the tolerance.
        """
        return replace(self, epsilon=epsilon)

    def measured_with(self, error: Any) -> Self:
        """Return the same question with another error of the measured context.

        Args:
            error: as in `Question`; None where contexts are known exactly.
        """
        return replace(self, error=error)

    def check_exact(self, what: str) -> None:
        """Refuse an error of the measured context in words.

        Args:
            what: what knows no such error.
        """
        if self.error is not None:
            raise InvalidInputError(
                f"{what} must have contexts that are known exactly, but the question "
                f"states the error {self.error.words}. Leave it out here, and ask for "
                "covers and libraries with it."
            )

    def as_regret(self) -> "Question":
        """Return the question about regret by the same judge, at tolerance 0."""
        return Question("regret", self.judge, epsilon=0.0, error=self.error)

    # --- what it makes of a study -------------------------------------------------

    def table_of(self, study: Study | xr.Dataset) -> xr.Dataset:
        """Return the table of a study, with the score that the criterion reads.

        Args:
            study: what is known, or a performance table.
        """
        return as_study(study).scored(self.rule.measure, self.judge).table

    def losses(self, study: Study | xr.Dataset) -> xr.DataArray:
        """Return the loss of every source at every target, dims `(source, target)`.

        Args:
            study: what is known, or a performance table.
        """
        table = self.table_of(study)
        losses = np.empty((table.sizes["source"], table.sizes["target"]))
        for rows, block in self.blocks(study):
            losses[rows] = block
        return xr.DataArray(
            losses,
            dims=("source", "target"),
            coords={n: c for n, c in table.coords.items() if c.dims != ("policy",)},
            name="loss",
            attrs={
                "criterion": self.criterion,
                "judge": self.judge,
                "provenance": provenance_of(table),
            },
        )

    def blocks(
        self, study: Study | xr.Dataset
    ) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield the rows of `losses`, a stretch of sources at a time.

        With an error these are the losses of measured targets: the largest of those
        within the error.

        Args:
            study: what is known, or a performance table, in memory or in a store.

        Yields:
            The stretch, and its losses with dims `(source, target)`.
        """
        table, windows = self.table_of(study), self._windows(study)
        for rows in row_blocks(table):
            yield rows, self._measured_rows(table, rows, windows)

    def rows(self, study: Study | xr.Dataset, rows: slice) -> NDArray[np.float64]:
        """Return the losses of one stretch of sources.

        Args:
            study: what is known, or a performance table.
            rows: the sources.
        """
        return self._measured_rows(self.table_of(study), rows, self._windows(study))

    def _windows(self, study: Study | xr.Dataset) -> Windows | None:
        """Return the targets within the error of each, None where nothing errs."""
        if self.error is None:
            return None
        targets = as_study(study).targets
        if targets is None:
            raise InvalidInputError(
                "An error is about contexts that are measured, but the targets of this "
                "table have names only. Give their contexts, or leave the error out."
            )
        return windows_of(self.error, targets)

    def _measured_rows(
        self, table: xr.Dataset, rows: slice, windows: Windows | None
    ) -> NDArray[np.float64]:
        losses = self._true_rows(table, rows)
        return losses if windows is None else windows.worst(losses)

    def _true_rows(self, table: xr.Dataset, rows: slice) -> NDArray[np.float64]:
        """Return the losses at the targets themselves, of one stretch of sources."""
        rule = self.rule
        if rule.reference == "home":
            # The reduction over the family must know each policy's own score, so the
            # table keeps the gap itself, reduced: J(home) − J(target).
            return family_rows(table, REDUCTIONS[self.judge][1], rows)
        scores = family_rows(table, reduced_name(rule.measure, self.judge), rows)
        if rule.reference == "none":
            return rule.loss(scores, np.zeros(1))
        reference = table["best_known"].values
        rule.check_reference(reference)
        return rule.loss(scores, reference)

    def sets(self, study: Study | xr.Dataset) -> TargetSets:
        """Return the targets that each source serves, never holding all losses.

        Args:
            study: what is known, or a performance table, in memory or in a store.
        """
        table, windows = self.table_of(study), self._windows(study)

        def served(rows: slice) -> NDArray[np.bool_]:
            within = self._true_rows(table, rows) <= self.epsilon
            return within if windows is None else windows.erode(within)

        def losses(source: int) -> NDArray[np.float64]:
            rows = slice(source, source + 1)
            return self._measured_rows(table, rows, windows)[0]

        blocks = (served(rows) for rows in row_blocks(table))

        n_targets = table.sizes["target"]
        return pack(blocks, n_targets=n_targets, losses=losses, question=self)

    def assigned_losses(
        self, study: Study | xr.Dataset, assignment: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """Return the loss that an assignment leaves at each target.

        Args:
            study: what is known, or a performance table.
            assignment: source of each target, −1 for none.

        Returns:
            Loss of each target, +inf where none serves it.
        """
        table, windows = self.table_of(study), self._windows(study)
        losses = np.full(len(assignment), np.inf)
        for source in np.unique(assignment[assignment >= 0]):
            served = assignment == source
            rows = slice(int(source), int(source) + 1)
            losses[served] = self._measured_rows(table, rows, windows)[0, served]
        return losses

    def assigned_errors(
        self, study: Study | xr.Dataset, assignment: NDArray[np.integer]
    ) -> NDArray[np.float64] | None:
        """Return the standard error of the score that counts at each target.

        Args:
            study: what is known, or a performance table.
            assignment: source of each target, −1 for none.

        Returns:
            One number per target, NaN where none serves it or it is not known; None
            for a table without standard errors.
        """
        table = as_study(study).table
        if "standard_error" not in table or "performance" not in table:
            return None
        pick = np.argmin if self.judge == "worst" else np.argmax
        errors = np.full(len(assignment), np.nan)
        for source in np.unique(assignment[assignment >= 0]):
            served = np.flatnonzero(assignment == source)
            policy = pick(table["performance"][int(source)].values[:, served], axis=0)
            errors[served] = table["standard_error"][int(source)].values[policy, served]
        return errors

    def without_reference(self, study: Study | xr.Dataset) -> NDArray[np.int64]:
        """Return the targets at which the loss has no reference; none serves them.

        Nobody knows what a policy trained there would reach, so nothing can be said
        about a regret or a ratio.

        Args:
            study: what is known, or a performance table.
        """
        if self.rule.reference != "best known":
            return np.empty(0, np.int64)
        return np.flatnonzero(np.isnan(as_study(study).table["best_known"].values))

    # --- plain values -------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, which `from_dict` reads."""
        values: dict[str, Any] = {
            "criterion": self.criterion,
            "judge": self.judge,
            "epsilon": self.epsilon,
        }
        if self.error is not None:
            values["error"] = self.error.to_dict()
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the question that `to_dict` wrote.

        Args:
            values: plain values; other keys are ignored.
        """
        return cls(
            values["criterion"],
            values["judge"],
            epsilon=values["epsilon"],
            error=values.get("error"),
        )


def as_question(asked: Any) -> Question:
    """Return a question as it is; refuse anything else in words.

    Args:
        asked: what a caller gave.
    """
    if isinstance(asked, Question):
        return asked
    raise InvalidInputError(
        "This needs a question, e.g. ts.Question('regret', epsilon=0.1), but got "
        f"{'none' if asked is None else repr(asked)}."
    )


def loss(study: Study | xr.Dataset, question: Question) -> xr.DataArray:
    r"""Return the loss of every source at every target.

    For the criterion `signed` and the judge `worst` this is the paper's signed
    divergence, $D(s; t) = \max_{\pi \in \Pi(s)} J(s, \pi) - J(t, \pi)$, zero on the
    diagonal.

    Args:
        study: what is known, or a performance table.
        question: criterion and judge; its tolerance does not matter.

    Returns:
        Loss with dims `(source, target)`, +inf where a policy fails, and at targets
        without a reference (see `Question.without_reference`).
    """
    return as_question(question).losses(study)


def tolerance_sets(losses: xr.DataArray | NDArray, epsilon: float) -> TargetSets:
    r"""Return the targets that each source serves to within `epsilon`.

    $S_\epsilon(s) = \{t : \mathrm{loss}(s, t) \le \epsilon\}$.

    Args:
        losses: loss of one criterion, dims `(source, target)`.
        epsilon: tolerance in units of the loss, `>= 0` (any number for `floor`).

    Returns:
        The sets as packed bits.
    """
    attrs = getattr(losses, "attrs", {})
    asked = {key: attrs[key] for key in ("criterion", "judge") if key in attrs}
    question = Question(**asked, epsilon=epsilon)
    values = np.asarray(losses)
    if values.ndim != 2:
        raise InvalidInputError(
            f"losses must have dims (source, target), but have shape {values.shape}."
        )
    if np.isnan(values).any():
        row, column = np.argwhere(np.isnan(values))[0].tolist()
        raise InvalidInputError(
            f"Losses must be numbers, but row {row}, column {column} is NaN."
        )
    return pack(
        values <= epsilon,
        losses=lambda source: values[source],
        question=question if asked else None,
    )
