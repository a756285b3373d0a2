"""The question that a cover answers: by which criterion, judged how, within what.

It travels whole. Losses and tolerance sets are what a question makes of a study; the
criterion and the judge are looked up here and nowhere else.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
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
from taskspace.sets import PackedSets, TargetSets, pack
from taskspace.sets.erosion import Windows, windows_of
from taskspace.systems.base import Provenance


@dataclass(frozen=True)
class Question:
    """Criterion, judge, tolerance and error; they travel together, always.

    Args:
        criterion: name of a criterion, see `taskspace.criteria.CRITERIA`, with its
            parameters if it takes some: `"ratio:floor=0.1"`; or a criterion itself.
        judge: which policy of a family counts, `"worst"` or `"best"`.
        epsilon: tolerance, in the unit of the criterion.
        error: how far the true context may lie from the measured one, by axis: a
            number in its unit, or a percentage as text. A source then serves a target
            that is measured if it serves every target within the error of it. Kept
            as `ErrorBounds`, or None where nothing errs.
        measure: the score that counts, where it is not the criterion's own: with
            `floor` any of `taskspace.systems.base.MEASURES`, e.g. `"disk_margin"`.
        also: further demands. A source serves a target if it meets all of them; the
            loss is that of the question itself, and infinite where another demand is
            not met.
        all_of: all demands at once; the first is the question, the others are `also`.

    Examples:
        >>> question = Question("regret", epsilon=0.2)
        >>> question.statement
        'regret ≤ 0.2 by the worst policy of each source'
        >>> question.to_dict()
        {'criterion': 'regret', 'judge': 'worst', 'epsilon': 0.2}
    """

    criterion: Any = "regret"
    judge: str = "worst"
    epsilon: float = field(kw_only=True, default=None)  # pyright: ignore
    error: Any = field(default=None, kw_only=True)
    measure: str = field(default="", kw_only=True)
    also: tuple["Question", ...] = field(default=(), kw_only=True)
    all_of: InitVar[Sequence["Question"] | None] = field(default=None, kw_only=True)

    def __post_init__(self, all_of: Sequence["Question"] | None):
        if all_of is not None:
            self._take(all_of)
        rule = self.criterion
        if isinstance(rule, Criterion):
            object.__setattr__(self, "measure", rule.measure)
            rule = rule.text
        object.__setattr__(self, "criterion", criterion_named(rule).text)
        if self.judge not in JUDGES:
            raise UnknownNameError("judge", self.judge, JUDGES)
        if isinstance(self.epsilon, bool) or not isinstance(
            self.epsilon, int | float | np.number
        ):
            raise InvalidInputError(
                f"epsilon must be a number, but got {self.epsilon!r}."
            )
        object.__setattr__(self, "epsilon", float(self.epsilon))
        object.__setattr__(self, "measure", self.rule.measure)
        self.rule.check_epsilon(self.epsilon)
        object.__setattr__(self, "error", ErrorBounds.of(self.error))
        object.__setattr__(self, "also", tuple(map(as_question, self.also)))
        for demand in self.also:
            if demand.also or demand.error is not None:
                raise InvalidInputError(
                    "A further demand is a criterion, a judge and a tolerance, but got "
                    f"'{demand.statement}'. State an error in the first demand; it is "
                    "about all of them."
                )

    def _take(self, demands: Sequence["Question"]) -> None:
        """Become the first of several demands, with the others beside it."""
        if self.epsilon is not None or self.also or not demands:
            raise InvalidInputError(
                "all_of=[...] names at least one question, and nothing else stands "
                "beside it but the error."
            )
        first, *others = map(as_question, demands)
        for name in ("criterion", "judge", "epsilon", "measure"):
            object.__setattr__(self, name, getattr(first, name))
        if first.error is not None:
            object.__setattr__(self, "error", first.error)
        object.__setattr__(self, "also", (*first.also, *others))

    @property
    def demands(self) -> tuple["Question", ...]:
        """Every demand as a question of its own, the first one first."""
        return (replace(self, also=(), error=None), *self.also)

    @property
    def rule(self) -> Criterion:
        """The criterion itself."""
        return criterion_named(self.criterion, self.measure)

    @property
    def statement(self) -> str:
        """The question as one clause, for tables, figures and certificates."""
        said = [
            f"{demand.rule.sentence(demand.epsilon)} by the {demand.judge} policy of "
            "each source"
            for demand in self.demands
        ]
        return f"{' and '.join(said)}{self._error_words}"

    @property
    def clause(self) -> str:
        """What is true of a context that is served, as the end of a sentence."""
        return " and ".join(d.rule.clause(d.epsilon) for d in self.demands)

    @property
    def label(self) -> str:
        """The question in a few words, for the title of a picture."""
        measured = f", {self.error.words}" if self.error else ""
        said = " and ".join(d.rule.short(d.epsilon) for d in self.demands)
        return f"{said}, {self.judge} policy{measured}"

    @property
    def _error_words(self) -> str:
        if self.error is None:
            return ""
        return f", where contexts are measured with {self.error.words}"

    @property
    def key(self) -> str:
        """A short name of all but the first tolerance and the error."""
        first, *others = self.demands
        own = first.measure not in ("performance", first.criterion)
        names = [f"{first.criterion}.{first.judge}{'.' * own}{first.measure * own}"]
        return "+".join([*names, *(f"{d.key}.{d.epsilon:g}" for d in others)])

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

    def check_single(self, what: str) -> None:
        """Refuse further demands in words.

        Args:
            what: what knows one demand only.
        """
        if self.also:
            raise InvalidInputError(
                f"{what} answers one demand, but the question states "
                f"{len(self.demands)}: {self.statement}. Ask for them one by one; "
                "covers, profiles, proofs over boxes and libraries take all at once."
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
        scored = as_study(study)
        for demand in self.demands:
            scored = scored.scored(demand.measure, demand.judge)
        return scored.table

    def provenance_of(self, study: Study | xr.Dataset) -> Provenance:
        """Return where the numbers come from that the question reads.

        Args:
            study: what is known, or a performance table.
        """
        measures = {d.measure for d in self.demands} - {"performance"}
        return provenance_of(self.table_of(study), measures)

    def asks_one_member(self, n_policies: int) -> bool:
        """Return whether one policy of a family must meet several demands.

        Args:
            n_policies: members of each family.
        """
        best = "best" in {demand.judge for demand in self.demands}
        return bool(self.also) and best and n_policies > 1

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
                "measure": self.measure,
                "provenance": self.provenance_of(table),
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
        table, losses = self._asked_of(study)
        for rows in row_blocks(table):
            yield rows, losses(rows)

    def rows(self, study: Study | xr.Dataset, rows: slice) -> NDArray[np.float64]:
        """Return the losses of one stretch of sources.

        Args:
            study: what is known, or a performance table.
            rows: the sources.
        """
        return self._asked_of(study)[1](rows)

    def losses_of(
        self, study: Study | xr.Dataset, sources: Iterable[int] | NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """Return the losses of some sources, dims `(source, target)`.

        Args:
            study: what is known, or a performance table.
            sources: numbers of the sources.
        """
        table, losses = self._asked_of(study)
        rows = [losses(slice(int(s), int(s) + 1)) for s in sources]
        return np.concatenate([np.empty((0, table.sizes["target"])), *rows])

    def assign(
        self, study: Study | xr.Dataset, sources: NDArray[np.integer]
    ) -> NDArray[np.int64]:
        """Return the source of least loss at each target, −1 where none serves.

        Args:
            study: what is known, or a performance table.
            sources: numbers of the selected sources, at least one.
        """
        chosen = np.sort(np.asarray(sources, np.int64))
        losses = self.losses_of(study, chosen)
        served = losses.min(0) <= self.epsilon
        return np.where(served, chosen[losses.argmin(0)], -1)

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

    def _asked_of(
        self, study: Study | xr.Dataset
    ) -> tuple[xr.Dataset, Callable[[slice], NDArray[np.float64]]]:
        """Return the table of a study, and what gives losses of some sources."""
        table, windows = self.table_of(study), self._windows(study)

        def losses(rows: slice) -> NDArray[np.float64]:
            exact = self._true_rows(table, rows)
            return exact if windows is None else windows.worst(exact)

        return table, losses

    def _true_rows(self, table: xr.Dataset, rows: slice) -> NDArray[np.float64]:
        """Return the losses at the targets themselves, of one stretch of sources."""
        if self.asks_one_member(table.sizes.get("policy", 1)):
            return self.member_rows(table, rows).min(1)
        return self._joined(lambda demand: demand._own_rows(table, rows))

    def _joined(
        self, losses_by: Callable[["Question"], NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Return the losses by this demand, infinite where another one is not met."""
        losses = losses_by(self)
        for demand in self.also:
            losses = np.where(losses_by(demand) <= demand.epsilon, losses, np.inf)
        return losses

    def member_rows(self, table: xr.Dataset, rows: slice) -> NDArray[np.float64]:
        """Return the losses of single policies, infinite where a demand is not met.

        Args:
            table: a performance table that holds scores of single policies.
            rows: the sources.

        Returns:
            Dims `(source, policy, target)`.
        """
        return self._joined(lambda demand: demand._of_members(table, rows))

    def _of_members(self, table: xr.Dataset, rows: slice) -> NDArray[np.float64]:
        """Return the losses of one demand by policy; of the worst for `worst`."""
        rule = self.rule
        if self.judge == "worst":
            return self._own_rows(table, rows)[:, None]
        if rule.measure not in table:
            raise InvalidInputError(
                "With several demands and judge='best' one policy must meet "
                f"all of them, but this table holds {rule.measure} of the best policy "
                "only. Use judge='worst', one policy per source, or a table small "
                "enough to keep all scores."
            )
        scores = table[rule.measure][rows].values
        if rule.reference == "home":
            home = table["home_performance"][rows].values
            return rule.loss(scores, home[..., None])
        return self._against_best(table, scores)

    def _own_rows(self, table: xr.Dataset, rows: slice) -> NDArray[np.float64]:
        """Return the losses of the first demand alone."""
        rule = self.rule
        if rule.reference == "home":
            # The reduction over the family must know each policy's own score, so the
            # table keeps the gap itself, reduced: J(home) − J(target).
            return family_rows(table, REDUCTIONS[self.judge][1], rows)
        scores = family_rows(table, reduced_name(rule.measure, self.judge), rows)
        return self._against_best(table, scores)

    def _against_best(
        self, table: xr.Dataset, scores: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the losses of scores, against the best known ones if these count."""
        reference = np.zeros(1)
        if self.rule.reference == "best known":
            reference = table["best_known"].values
            self.rule.check_reference(reference)
        return self.rule.loss(scores, reference)

    def sets(self, study: Study | xr.Dataset) -> TargetSets:
        """Return the targets that each source serves, never holding all losses.

        Args:
            study: what is known, or a performance table, in memory or in a store.
        """
        (table, losses), windows = self._asked_of(study), self._windows(study)

        def served(rows: slice) -> NDArray[np.bool_]:
            within = self._true_rows(table, rows) <= self.epsilon
            return within if windows is None else windows.erode(within)

        n_targets = table.sizes["target"]
        facts: dict[str, Any] = {
            "n_targets": n_targets,
            "losses": lambda source: losses(slice(source, source + 1))[0],
            "question": self,
        }
        if windows is None and self.criterion == "regret":
            words = as_study(study).words_within_regret(self.epsilon)
            if words is not None:
                packed = (PackedSets(block, n_targets) for block in words)
                return pack(packed, encoding="runs", **facts)
        return pack((served(rows) for rows in row_blocks(table)), **facts)

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
        rows, losses = self._asked_of(study)[1], np.full(len(assignment), np.inf)
        for source in np.unique(assignment[assignment >= 0]).tolist():
            served = assignment == source
            losses[served] = rows(slice(source, source + 1))[0, served]
        return losses

    def without_reference(self, study: Study | xr.Dataset) -> NDArray[np.int64]:
        """Return the targets at which the loss has no reference; none serves them.

        What a policy trained there would reach is not known, so nothing can be said
        about a regret or a ratio.

        Args:
            study: what is known, or a performance table.
        """
        if all(demand.rule.reference != "best known" for demand in self.demands):
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
        if self.measure != criterion_named(self.criterion).measure:
            values["measure"] = self.measure
        if self.also:
            values["also"] = [demand.to_dict() for demand in self.also]
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
            values.get("judge", "worst"),
            epsilon=values["epsilon"],
            error=values.get("error"),
            measure=values.get("measure", ""),
            also=tuple(map(cls.from_dict, values.get("also", ()))),
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
    words = ("criterion", "judge", "measure")
    asked = {key: attrs[key] for key in words if key in attrs}
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
