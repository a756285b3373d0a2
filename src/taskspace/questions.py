"""The question that a cover answers: by which criterion, judged how, within what.

It travels whole, and has one text. Losses and tolerance sets are what a question makes
of a study.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.criteria import CRITERIA, JUDGES, Criterion, Level, UnknownMeasure
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.measured import ErrorBounds, Windows, windows_of
from taskspace.performance.study import (
    Study,
    as_study,
    bitsets_within_regret,
    with_score,
)
from taskspace.performance.table import (
    BEST_OF_TABLE,
    REDUCTIONS,
    family_rows,
    provenance_of,
    reduced_name,
    row_blocks,
    source_space,
    target_space,
)
from taskspace.question_text import read_question
from taskspace.sets import TargetSets, pack
from taskspace.systems.base import Provenance

ROUNDING = 2.0**-48
"""Share of a score by which rounding may move a loss: 16 units in the last place."""

ROUNDING_CELLS = 10_000_000
"""Cells of the largest table whose losses are compared with the bound once more."""


@dataclass(frozen=True, init=False)
class Question:
    """A question: demands, their tolerances and the error of the measured context.

    A source serves a target if it meets all demands. The loss is that of the first
    one, infinite where another is not met.

    Args:
        criterion: the question as a text, e.g. `"regret <= 0.2"`, `"score >= 475"`,
            `"ratio <= 5 % and disk_margin >= 0.5 with speed=3 %"`; or the name of a
            criterion, or a criterion itself, with its tolerance beside it.
        judge: which policy of a family counts, `"worst"` or `"best"`.
        epsilon: tolerance of the loss. A question without one is for what finds a
            tolerance: profiles, curves, the smallest tolerance.
        error: how far the true context may lie from the measured one, by axis: a
            number in its unit, or a percentage as text. A source then serves a target
            that is measured if it serves every target within the error of it. Kept
            as `ErrorBounds`, or None where nothing errs.
        measure: with the name `floor`, whose loss is minus a score: the score, if it
            is not J.
        also: further demands.
        all_of: all demands at once; the first is the question, the others are `also`.

    Examples:
        >>> question = Question("regret <= 0.2")
        >>> question == Question("regret", epsilon=0.2)
        True
        >>> str(Question("disk_margin ≥ .5 and ratio<=5% best with speed=3%"))
        'disk_margin >= 0.5 and ratio <= 5 % best with speed=3 %'
    """

    rule: Criterion
    judge: str
    epsilon: float
    error: ErrorBounds | None
    also: tuple["Question", ...]

    def __init__(
        self,
        criterion: Any = "regret",
        judge: str = "worst",
        *,
        epsilon: float | None = None,
        error: Any = None,
        measure: str = "",
        also: Sequence["Question"] = (),
        all_of: Sequence["Question | str"] | None = None,
    ):
        if all_of is not None:
            if epsilon is not None or also or not all_of:
                raise InvalidInputError(
                    "all_of needs at least one question and cannot be combined with "
                    "other arguments except error."
                )
            first, *also = map(as_question, all_of)
            error = first.error if first.error is not None else error
            criterion, judge, epsilon = first.rule, first.judge, first.epsilon
            also = [*first.also, *also]
        elif isinstance(criterion, str) and criterion.strip() == "floor":
            low = epsilon is not None and epsilon < 0
            criterion = Level(measure or ("score" if low else "cost"))
        elif isinstance(criterion, str):
            (first, *others), stated = read_question(criterion)
            if isinstance(first.rule, Level) and epsilon is not None:
                raise InvalidInputError(
                    f"A level is asked for in the text, e.g. '{first.rule.demand(-1.0)}"
                    f"', but got {criterion!r} with epsilon={epsilon!r}."
                )
            if first.epsilon is not None or others or stated is not None:
                if epsilon is not None or also or judge != "worst":
                    raise InvalidInputError(
                        "A question is stated in its text or by keywords, but got "
                        f"{criterion!r} with keywords beside it."
                    )
                also = [Question(d.rule, d.judge, epsilon=d.epsilon) for d in others]
                epsilon, judge = first.epsilon, first.judge
                error = error if stated is None else stated
            elif judge == "worst":
                judge = first.judge
            criterion = first.rule
        elif not isinstance(criterion, Criterion):
            raise UnknownNameError("criterion", criterion, CRITERIA)
        if measure not in ("", criterion.measure):
            raise InvalidInputError(
                f"{criterion.text} reads {criterion.measure}, so measure={measure!r} "
                f"means nothing beside it: there is no known best {measure} of a "
                f"target. Ask for a level, as criterion='floor' does: '{measure} <= 2' "
                f"or '{measure} >= 0.5'."
            )
        if judge not in JUDGES:
            raise UnknownNameError("judge", judge, JUDGES)
        if epsilon is not None:
            if isinstance(epsilon, bool) or not isinstance(
                epsilon, int | float | np.number
            ):
                raise InvalidInputError(
                    f"epsilon must be a number, but got {epsilon!r}."
                )
            epsilon = float(epsilon) + 0.0
            criterion.check_epsilon(epsilon)
        values = {
            "rule": criterion,
            "judge": judge,
            "epsilon": epsilon,
            "error": ErrorBounds.of(error),
            "also": tuple(map(as_question, also)),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        for demand in self.also:
            if demand.also or demand.error is not None or not demand.has_bound:
                raise InvalidInputError(
                    "A further demand is a criterion, a judge and a tolerance, but got "
                    f"'{demand}'. State an error in the first demand; it is about all "
                    "of them."
                )

    @property
    def has_bound(self) -> bool:
        """Whether it states a tolerance."""
        return self.epsilon is not None

    @property
    def criterion(self) -> str:
        """The quantity that the first demand is about, with its parameters."""
        return self.rule.text

    @property
    def is_regret(self) -> bool:
        """Whether the loss is the best known J minus J."""
        return self.rule.is_difference and self.rule.compares_with_best

    @property
    def measure(self) -> str:
        """The score that the first demand reads."""
        return self.rule.measure

    @property
    def demands(self) -> tuple["Question", ...]:
        """Every demand as a question of its own, the first one first."""
        return (self._but(also=(), error=None), *self.also)

    def __str__(self) -> str:
        """Return the text, which `Question` reads to an equal question."""
        said = [
            d.rule.demand(d.epsilon) + " best" * (d.judge == "best")
            for d in self.demands
        ]
        error = "" if self.error is None else f" with {self.error.text}"
        return f"{' and '.join(said)}{error}"

    @property
    def statement(self) -> str:
        """The question as one clause, for tables, figures and certificates."""
        by = " by the best policy of each source"
        said = [
            demand.rule.sentence(demand.epsilon) + by * (demand.judge == "best")
            for demand in self.demands
        ]
        if self.error is not None:
            said[-1] += f", where contexts are measured with {self.error.words}"
        return " and ".join(said)

    @property
    def clause(self) -> str:
        """What is true of a context that is served, as the end of a sentence."""
        return " and ".join(d.rule.clause(d.epsilon) for d in self.demands)

    @property
    def label(self) -> str:
        """The question in a few words, for the title of a picture."""
        measured = f", {self.error.words}" if self.error else ""
        by = ", best policy" * (self.judge == "best")
        said = " and ".join(d.rule.short(d.epsilon) for d in self.demands)
        return f"{said}{by}{measured}"

    @property
    def key(self) -> str:
        """A short name of all but the first tolerance and the error."""
        first, *others = self.demands
        names = [f"{first.criterion}.{first.judge}"]
        return "+".join([*names, *(f"{d.key}.{d.epsilon:g}" for d in others)])

    def _but(self, **changes: Any) -> "Question":
        """Return the same question with other parts."""
        parts: dict[str, Any] = {
            "judge": self.judge,
            "epsilon": self.epsilon,
            "error": self.error,
            "also": self.also,
        }
        return Question(self.rule, **(parts | changes))

    def at(self, epsilon: float | None) -> "Question":
        """Return the same question with another tolerance.

        Args:
            epsilon: the tolerance.
        """
        return self._but(epsilon=epsilon)

    @property
    def unused_bound(self) -> str:
        """A note on the bound, for what has every bound; empty where there is none."""
        if not self.has_bound:
            return ""
        return f"Every bound is looked at, so that of '{self}' is not used."

    def measured_with(self, error: Any) -> "Question":
        """Return the same question with another error of the measured context.

        Args:
            error: as in `Question`; None where contexts are known exactly.
        """
        return self._but(error=error)

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
            if isinstance(demand.rule, UnknownMeasure):
                demand.rule.check_known()
            scored = with_score(scored, demand.measure, demand.judge)
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
        if self.judge == "worst":
            return self._own_rows(table, rows)[:, None]
        if self.measure not in table:
            raise InvalidInputError(
                "With several demands and judge='best' one policy must meet "
                f"all of them, but this table holds {self.measure} of the best policy "
                "only. Use judge='worst', one policy per source, or a table small "
                "enough to keep all scores."
            )
        return self.loss_of(table, table[self.measure][rows].values, rows)

    def _own_rows(self, table: xr.Dataset, rows: slice) -> NDArray[np.float64]:
        """Return the losses of the first demand alone."""
        if not self.rule.compares_with_home:
            scores = family_rows(table, reduced_name(self.measure, self.judge), rows)
            return self.loss_of(table, scores, rows)
        # Each policy is compared with its own score, so losses are reduced, not J.
        if "performance" in table and "home_performance" in table:
            losses = self.loss_of(table, table["performance"][rows].values, rows)
            return losses.max(1) if self.judge == "worst" else losses.min(1)
        gap = family_rows(table, REDUCTIONS[self.judge][1], rows)
        if not self.rule.is_difference:
            raise InvalidInputError(
                f"{self.criterion} needs J of every policy, but this table holds J at "
                "home minus J at the targets, reduced over each family. Evaluate fewer "
                "sources, so that all of J is kept."
            )
        return self.rule.loss(-gap, np.zeros(1))

    def loss_of(
        self, table: xr.Dataset, scores: NDArray[np.float64], rows: slice
    ) -> NDArray[np.float64]:
        """Return the losses of scores by the first demand, against a table's reference.

        In a `given` table each float stands for its shortest decimal.

        Args:
            table: a performance table.
            scores: with dims `(source, target)` or `(source, policy, target)`.
            rows: the sources, whose own scores may count.
        """
        reference = self.rule.against(
            best=lambda: table["best_known"].values,
            home=lambda: table["home_performance"][rows].values[..., None],
        )
        is_given = table.attrs.get("provenance", "given") == "given"
        loss = self.rule.decimal_loss if is_given else self.rule.loss
        return loss(scores, reference)

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
        if windows is None and self.is_regret and not self.also:
            words = bitsets_within_regret(as_study(study), self.epsilon)
            if words is not None:
                return pack(words, **facts)
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

    def rounding_note(
        self,
        study: Study | xr.Dataset,
        sources: NDArray[np.integer],
        *,
        is_minimum: bool,
    ) -> str | None:
        """Return how many cells lie within rounding of the bound, and if that matters.

        Numbers of a `given` table are compared as the decimals that they are, and
        sampled ones have larger errors: there is nothing to say of both. Of very large
        tables nothing is said either.

        Args:
            study: what is known, or a performance table.
            sources: the sources of a cover.
            is_minimum: it is a minimum cover of all targets. Only of such a one it can
                be said that a cell does not matter.

        Returns:
            A sentence, None where no cell is so near.
        """
        table = self.table_of(study)
        n_cells = table.sizes["source"] * table.sizes["target"]
        n_cells *= table.sizes.get("policy", 1)
        if self.provenance_of(table) not in ("exact", "computed") or (
            n_cells > ROUNDING_CELLS
        ):
            return None
        n_near, may_change = 0, not is_minimum
        homes, targets = source_space(table), target_space(table)
        at_home = homes is not None and homes == targets
        at_home |= table.attrs.get("best_known_kind") == BEST_OF_TABLE
        for demand in self.demands:
            bound, scale = demand.epsilon, 1.0
            if bound is None:
                continue
            if not demand.rule.is_relative and demand.rule.compares_with_best:
                scale = np.abs(np.nan_to_num(table["best_known"].values, posinf=0.0))
            losses = np.concatenate(
                [demand._own_rows(table, rows) for rows in row_blocks(table)]
            )
            near = np.abs(losses - bound) <= ROUNDING * (scale + abs(bound))
            if bound == 0 and at_home and not demand.rule.is_absolute:
                # A score is compared with itself there, without rounding.
                itself = losses == 0
                near &= ~(itself & (itself.sum(0) == 1))
            n_near += int(near.sum())
            # A set that shrinks leaves a cover of others the smallest.
            may_change |= bool(near[sources].any() or (near & (losses > bound)).any())
        if not n_near:
            return None
        cells = "1 cell lies" if n_near == 1 else f"{n_near:,} cells lie"
        could = "could change" if may_change else "cannot change"
        return f"{cells} within rounding of the bound, which {could} the answer."

    def without_reference(self, study: Study | xr.Dataset) -> NDArray[np.int64]:
        """Return the targets at which the loss has no reference; none serves them.

        What a policy trained there would reach is not known, so nothing can be said
        about a regret or a ratio.

        Args:
            study: what is known, or a performance table.
        """
        if not any(demand.rule.compares_with_best for demand in self.demands):
            return np.empty(0, np.int64)
        return np.flatnonzero(np.isnan(as_study(study).table["best_known"].values))

    # --- plain values -------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, which `from_dict` reads."""
        return {"ask": str(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Question":
        """Return the question that `to_dict` wrote.

        Args:
            values: plain values; all but the text are ignored.
        """
        demands, error = read_question(str(values.get("ask", "")), is_saved=True)
        first, *also = [cls(d.rule, d.judge, epsilon=d.epsilon) for d in demands]
        return first._but(also=also, error=error)


def as_question(asked: Any, *, needs_bound: bool = True) -> Question:
    """Return a question, also from its text; refuse anything else in words.

    Args:
        asked: what a caller gave.
        needs_bound: whether a question without a tolerance is refused.
    """
    if isinstance(asked, str):
        asked = Question(asked)
    if not isinstance(asked, Question):
        raise InvalidInputError(
            "This needs a question, e.g. 'regret <= 0.1', but got "
            f"{'none' if asked is None else repr(asked)}."
        )
    if needs_bound and not asked.has_bound:
        sign = ">= 475" if asked.rule.demand(-1.0).find(">=") > 0 else "<= 0.1"
        raise InvalidInputError(
            f"This needs a question with a bound, e.g. '{asked.criterion} {sign}', but "
            f"got '{asked}'."
        )
    return asked


def loss(study: Study | xr.Dataset, question: Question | str) -> xr.DataArray:
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
    return as_question(question, needs_bound=False).losses(study)


def tolerance_sets(losses: xr.DataArray | NDArray, epsilon: float) -> TargetSets:
    r"""Return the targets that each source serves to within `epsilon`.

    $S_\epsilon(s) = \{t : \mathrm{loss}(s, t) \le \epsilon\}$.

    Args:
        losses: loss of one criterion, dims `(source, target)`.
        epsilon: tolerance in units of the loss, `>= 0` (any number for `floor`).

    Returns:
        The sets, as runs.
    """
    attrs = getattr(losses, "attrs", {})
    words = [attrs.get("criterion", "regret"), attrs.get("judge", "worst")]
    question = Question(" ".join(words)).at(epsilon)
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
        question=question if "criterion" in attrs else None,
    )
