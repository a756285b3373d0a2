"""The result of every cover method, and what the methods share."""

import html
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from taskspace._util.decimals import round_to_side
from taskspace._util.files import plain, read_record
from taskspace.cover.costs import integer_array
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study, as_study
from taskspace.performance.table import source_space
from taskspace.questions import Question
from taskspace.sets import LossRow, TargetSets
from taskspace.systems.base import PROVENANCE_WORDS

if TYPE_CHECKING:
    import pandas as pd

# The prices that are kept with a cover, so that its bound can be proven again. See
# `prices` and `location` for why prices prove a bound, and `verify` for what goes
# through them again.


@dataclass(frozen=True, eq=False)
class PriceProof:
    """Prices on targets; what they sum to bounds every selection.

    A price of `units[i] / 2**shift * unit` lies on target `targets[i]`, and none on
    the others. Where `is_whole`, costs are rounded down to multiples of `unit`, so
    that the sum over targets that share no source with others may be rounded up to
    one.

    Args:
        unit: the unit of cost.
        shift: binary digits of a price after the point, in `unit`s.
        is_whole: whether sums may be rounded up to multiples of `unit`.
        targets: targets with a price, ascending.
        units: their prices, integers (of any size, where 64 bits are too few).
    """

    unit: Fraction
    shift: int
    is_whole: bool
    targets: NDArray[np.int64]
    units: NDArray[Any]

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain JSON values; the unit as text, `"3/10"`."""
        return {
            "unit": str(self.unit),
            "shift": self.shift,
            "whole": self.is_whole,
            "targets": self.targets.tolist(),
            "units": self.units.tolist(),
        }

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """Return the prices that `to_dict` wrote.

        Args:
            values: plain JSON values.
        """
        try:
            shift, targets = int(values["shift"]), values["targets"]
            units = integer_array([int(n) for n in values["units"]])
            if not abs(shift) < 10_000 or len(targets) != len(units):
                raise ValueError("the shift or the number of prices is out of range")
            return cls(
                Fraction(values["unit"]),
                shift,
                bool(values["whole"]),
                np.array(targets, np.int64).reshape(-1),
                units,
            )
        except (
            KeyError, TypeError, ValueError, OverflowError, ZeroDivisionError
        ) as error:  # fmt: skip
            raise InvalidInputError(
                "Prices of a saved cover must be a unit, a shift, targets and as many "
                f"integers, but reading them failed: {error!r}."
            ) from error


FORMAT_VERSION = 5
N_SHOWN = 12
"""Numbers or rows that a notebook shows of a cover, a curve or a profile."""


# What follows from the study. A saved cover does not hold it: verify cannot check it.
_LEFT = (
    "worst_regret", "worst_loss", "provenance", "without_reference", "reference",
    "contexts", "names", "sizes", "standard_error", "unmet",
    "unserved_names", "weight_coverage", "notes",
)  # fmt: skip


def _none() -> NDArray[np.int64]:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class Cover:
    """A selection of sources, who serves whom, and what is proven about it.

    Args:
        method: name of the method that made it.
        sources: selected sources, in order of selection.
        assignment: for each target the selected source of least loss, where losses
            are known, of those that serve it; the one of lowest index among equals,
            and where losses are not known. -1 where none serves it.
        coverage: share of all targets that are served.
        uncoverable: targets that no source at all serves, of those that may be
            selected.
        size: number of selected sources.
        cost: total cost of the selected sources; the size where costs are all 1. A
            float cost is rounded down, to the precision of the costs given.
        lower_bound: no selection that does as much costs less, of those that hold
            `include` and nothing of `exclude`. "As much" is: serves every target that
            can be served; where a share was asked for, reaches that share; where a
            budget ended the search, serves as many targets (as much target weight) as
            this cover. Never above the true minimum.
        lower_bound_kind: where the bound comes from: `"size"`, `"packing"`,
            `"dual ascent"`, `"greedy dual"`, `"primal-dual"`, `"exact"`,
            `"reductions"`, `"lp"`; of a partial cover `"knapsack"`, `"prices"` or
            `"exact"`.
        optimal: whether it is proven that no cover is better: none that does as much
            costs less (cost and lower bound are equal); where a budget ended the
            search, none within the budget serves more (coverage and coverage bound
            are equal), whatever it costs.
        stop_reason: why the method stopped.
        seconds: wall-clock time.
        n_sources: number of sources to choose from.
        n_targets: number of targets.
        coverage_bound: where a budget ended the search, no selection within the
            budget serves a larger share of all targets (of all target weight); None
            elsewhere.
        prices: the prices that prove the lower bound (of a budget the coverage
            bound), or the best known weaker one where an exact search improved it;
            None for partial covers by greedy.
        share: the share of the targets (of target weight) that was asked for, None
            where no minimum cover of a share was.
        missed_share: the share that was asked for, where this cover serves less; None
            where it is reached or none was asked for. Then "as much" above is what
            this cover serves.
        budget: sources that a minimum cover of a budget might hold, None elsewhere.
        mean_loss: mean loss, by weight, over the targets that can be served, where
            the least mean of a budget was asked for; None elsewhere. Then
            `lower_bound` and `optimal` are about it: no selection within the budget
            that serves all these targets has a smaller mean loss.
        include: sources that had to be selected.
        exclude: sources that must not be.
        question: what it answers; None where sets were given alone.
        worst_regret: largest regret over the targets that are served. This and all
            that follows is None, or empty, until `about` was told the study.
        worst_loss: largest loss, in the unit of the question's criterion.
        provenance: where the study's numbers come from.
        without_reference: targets at which the loss has no reference; they are among
            the `uncoverable`.
        reference: what regret is against, where the table says it.
        contexts: context of each selected source, where sources have contexts.
        names: name of each selected source, where sources have names.
        sizes: mean, its standard error, least and most sources over repeats, for
            `random`.
        standard_error: largest standard error of the scores at the targets that are
            served, where the table has some.
        unmet: of several demands, how many of the targets that no source serves fail
            each, see `unmet_targets`.
        unserved_names: names of the `unserved` targets, where targets have names.
        weight_coverage: share of the target weight that is served, where targets
            have weights.
        notes: what a person should know of the table before any number.
    """

    method: str
    sources: NDArray[np.int64]
    assignment: NDArray[np.int64]
    coverage: float
    uncoverable: NDArray[np.int64]
    size: int
    cost: int | float  # a count stays one, also when it is read from a file
    lower_bound: int | float
    lower_bound_kind: str
    optimal: bool
    stop_reason: str
    seconds: float
    n_sources: int
    n_targets: int
    coverage_bound: float | None = None
    prices: PriceProof | None = None
    share: float | None = None
    missed_share: float | None = None
    budget: int | None = None
    mean_loss: float | None = None
    include: NDArray[np.int64] = field(default_factory=_none)
    exclude: NDArray[np.int64] = field(default_factory=_none)
    question: Question | None = None
    worst_regret: float | None = None
    worst_loss: float | None = None
    provenance: str = "given"
    without_reference: tuple[int, ...] = ()
    reference: str | None = None
    contexts: list[dict[str, float]] | None = None
    names: list[str] | None = None
    sizes: Mapping[str, int | float | None] | None = None
    standard_error: float | None = None
    unmet: dict[str, int] | None = None
    unserved_names: list[str] | None = None
    weight_coverage: float | None = None
    notes: tuple[str, ...] | None = None

    def about(
        self,
        study: Study | xr.Dataset,
        sizes: Mapping[str, int | float | None] | None = None,
    ) -> Self:
        """Return the cover with what it leaves of a study: losses, names, contexts.

        Args:
            study: what it covers, or the performance table.
            sizes: mean, its standard error, least and most sources over repeats, for
                `random`.
        """
        question, chosen = self.question, self.sources.tolist()
        assert question is not None
        table = question.table_of(study)

        def worst(asked: Question) -> float | None:
            served = self.assignment >= 0
            served[asked.without_reference(table)] = False
            losses = asked.assigned_losses(table, self.assignment)[served]
            return float(losses.max()) if len(losses) else None

        space, names = source_space(table), names_of(table, "source")
        targets = names_of(table, "target")
        errors = assigned_errors(question, table, self.assignment)
        error = None
        if errors is not None and not np.isnan(errors).all():
            error = float(np.nanmax(errors))
        unmet = None
        if question.also and len(self.uncoverable):
            unmet = unmet_targets(question, study, self.uncoverable)
        found = replace(
            self,
            worst_regret=worst(question.as_regret()),
            worst_loss=worst(question),
            provenance=question.provenance_of(table),
            without_reference=tuple(question.without_reference(table).tolist()),
            reference=table.attrs.get("best_known_kind"),
            contexts=None if space is None else [space.context(s) for s in chosen],
            names=None if names is None else [names[s] for s in chosen],
            sizes=sizes,
            standard_error=error,
            unmet=unmet,
        )
        if targets is None:
            return found
        return replace(found, unserved_names=[targets[t] for t in found.unserved])

    @property
    def misleads(self) -> bool:
        """Whether this is a signed cover that leaves more regret than its tolerance."""
        if self.question is None or self.worst_regret is None:
            return False
        is_signed = self.question.rule.compares_with_home
        return is_signed and self.worst_regret > self.question.epsilon

    @property
    def unserved(self) -> list[int]:
        """Targets that no source serves, though they have a reference."""
        lacking = set(self.without_reference)
        return [t for t in self.uncoverable.tolist() if t not in lacking]

    @property
    def scope(self) -> str:
        """What "proven" is limited to, in words; empty for exact numbers."""
        return "" if self.question is None else PROVENANCE_WORDS[self.provenance].scope

    @property
    def is_full(self) -> bool:
        """Whether every target is served."""
        return self.coverage == 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain JSON values; the question as its text, `ask`."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        question = values.pop("question")
        if self.prices is not None:
            values["prices"] = self.prices.to_dict()
        for name in _LEFT[5:]:
            if values[name] is None:
                del values[name]
        values["ask"] = None if question is None else str(question)
        return plain(values, nonfinite="keep")

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Return the cover that `to_dict` wrote; keys that are not ours are ignored.

        Args:
            values: plain JSON values.
        """
        prices = values.get("prices")
        return read_record(
            {"seconds": 0.0, **values},
            cls,
            "A saved cover",
            prices=None if prices is None else PriceProof.from_dict(prices),
            question=_question(values.get("question", values)),
        )

    def save(self, path: str | Path, question: dict[str, Any] | None = None) -> None:
        """Write the cover as JSON.

        Args:
            path: the file.
            question: what the cover answers (criterion, tolerance, ...), plain values
                kept beside it so that the sets can be made again.
        """
        record: dict[str, Any] = {
            "format": "taskspace-cover",
            "version": FORMAT_VERSION,
            "question": (self.question.to_dict() if self.question else {})
            | (question or {}),
        }
        claims = self.to_dict()
        for name in ("ask", *_LEFT):
            claims.pop(name, None)
        Path(path).write_text(json.dumps(record | claims, indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote, in this format version.

        Args:
            path: the file.
        """
        try:
            record = json.loads(Path(path).read_text())
        except (OSError, ValueError, RecursionError) as error:
            raise InvalidInputError(
                f"{path} must be a cover saved as JSON, but reading it failed: {error}."
            ) from error
        if not isinstance(record, dict) or record.get("format") != "taskspace-cover":
            raise InvalidInputError(
                f"{path} must be a cover saved by taskspace (format "
                "'taskspace-cover'), but it is something else."
            )
        if record.get("version") != FORMAT_VERSION:
            raise InvalidInputError(
                f"{path} must be a cover of format version {FORMAT_VERSION}, but got "
                f"{record.get('version')!r}. Make the cover again."
            )
        return cls.from_dict(record)

    def to_frame(self, by: str = "target") -> "pd.DataFrame":
        """Return who serves each target, or what is selected.

        Args:
            by: `"target"`, a row for each target with its `source`, missing where none
                serves it; or `"source"`, a row for each selected source: its name, its
                context, and how many targets it serves.
        """
        import pandas as pd  # loads slowly

        if by == "source":
            columns: dict[str, Any] = {"source": self.sources}
            if self.names is not None:
                columns["name"] = self.names
            counts = [int((self.assignment == s).sum()) for s in self.sources]
            columns["n_served"] = counts
            for axis in self.contexts[0] if self.contexts else ():
                name = axis if axis not in columns else f"context {axis}"
                columns[name] = [context[axis] for context in self.contexts or ()]
            return pd.DataFrame(columns)
        source = pd.array(self.assignment, "Int64")
        source[self.assignment < 0] = pd.NA
        return pd.DataFrame({"target": range(self.n_targets), "source": source})

    @property
    def claim(self) -> str:
        """What is proven of the cover, in words."""
        scope = f" {self.scope}" if self.scope else ""
        if self.mean_loss is not None:
            mean = f"mean loss {self.mean_loss:.6g}"
            if n_unserved := len(self.uncoverable):
                mean += f" over the {self.n_targets - n_unserved:,} that can be served"
            if self.optimal:
                return f"{mean}, proven that no {self.budget} have less{scope}"
            low = round_to_side(self.lower_bound, up=False, digits=6)
            return f"{mean}, and no {self.budget} have less than {low}{scope}"
        if self.coverage_bound is not None:
            things = "source serves" if self.size == 1 else f"{self.size} sources serve"
            if self.optimal:
                return f"proven that no {things} more{scope}"
            most = round_to_side(100 * self.coverage_bound, up=True, digits=4)
            unit = "" if self.weight_coverage is None else " of the weight"
            return f"no {things} more than {most} %{unit}{scope}"
        n_unserved = int((self.assignment < 0).sum())
        if self.optimal and 0 < n_unserved == len(self.uncoverable):
            return f"all that can be served, proven that none cheaper do so{scope}"
        if self.optimal:
            return f"proven optimal of these {self.n_sources:,} sources{scope}"
        low = round_to_side(self.lower_bound, up=False, digits=4)
        high = round_to_side(self.cost, up=True, digits=4)
        return f"[{low}, {high}] by the {self.lower_bound_kind} bound{scope}"

    def __repr__(self) -> str:
        lines = self._lines()
        if self.names or self.contexts:
            few = self.to_frame("source").head(N_SHOWN)
            lines[-1:-1] = few.to_string(index=False).split("\n")
            if self.size > N_SHOWN:
                lines[-1:-1] = [f"... and {self.size - N_SHOWN:,} more"]
        else:
            lines[-1:-1] = [f"  sources: {listed(self.sources.tolist())}"]
        return "\n".join(lines)

    def _lines(self) -> list[str]:
        """Return what is printed, without the sources."""
        serve = "serves" if self.size == 1 else "serve"
        lines = [
            f"{self.size:,} of {self.n_sources:,} sources {serve} "
            f"{100 * self.coverage:.4g} % of {self.n_targets:,} targets: {self.claim}."
        ]
        if self.question is not None:
            against = ""
            if self.question.rule.compares_with_best and self.reference:
                against = f"; against: {self.reference}"
            lines.append(f"Asked: {self.question.statement}{against}.")
        if self.missed_share is not None:
            why = "no selection of these sources serves more"
            if self.stop_reason == "budget spent":
                why = f"{self.size} sources were allowed"
            share = f"{100 * self.missed_share:g} %"
            lines.append(f"! The share of {share} that was asked for is missed: {why}.")
        if self.weight_coverage is not None:
            share = 100 * self.weight_coverage
            lines.append(f"{share:.4g} % of the weight is served.")
        if self.cost != self.size:
            lines.append(f"Total cost {self.cost:.8g}.")
        lines += [f"Note: {note}" for note in self.notes or ()]
        if self.unserved:
            names = self.unserved_names or self.unserved
            lines.append(f"! served by no source: {listed(names)}")
        if self.without_reference:
            lines.append(f"! {no_reference_words(len(self.without_reference))}")
        if self.unmet:
            lines.append(f"  {unmet_words(self.unmet)}")
        lines += [
            f"  {name}: {listed(getattr(self, name).tolist())}"
            for name in ("include", "exclude")
            if len(getattr(self, name))
        ]
        if self.question is not None and self.worst_loss is not None:
            error = f", standard error up to {self.standard_error or 0:.4g}"
            losses = {self.question.criterion: self.worst_loss}
            losses["regret"] = self.worst_regret or 0.0
            worst = [f"worst {name} {loss:.4g}" for name, loss in losses.items()]
            lines.append(
                f"  served with {', '.join(worst)}; {self.provenance} numbers"
                + (error if self.standard_error is not None else "")
            )
        if self.misleads:
            lines.append(
                "! That regret exceeds the tolerance: the signed criterion compares "
                "each policy with its own score at home. Use regret to deploy."
            )
        ended = "" if self.stop_reason == "proven optimal" else f"{self.stop_reason}, "
        return [*lines, f"  {self.method}, {ended}{self.seconds:.2f} s"]

    def _repr_html_(self) -> str:
        by = "target" if self.names is None and self.contexts is None else "source"
        return html_view("\n".join(self._lines()), self.to_frame(by))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cover):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]


def assign(sets: TargetSets, sources: ArrayLike) -> NDArray[np.int64]:
    """Return for each target the selected source that serves it best, -1 if none does.

    The source of least loss where the sets know losses; the lowest index among
    equals, and where they do not.

    Args:
        sets: the targets that each source serves.
        sources: the selection.
    """
    return assign_rows(sources, sets.row, sets.losses, sets.n_targets)


def assign_rows(
    sources: ArrayLike,
    served: Callable[[int], NDArray[np.bool_]],
    losses: LossRow | None,
    n_targets: int,
) -> NDArray[np.int64]:
    """Return for each target the selected source that serves it best, as `assign`.

    Args:
        sources: the selection.
        served: gives the targets that one source serves.
        losses: gives the losses of one source at every target, if they are known.
        n_targets: number of targets.
    """
    assignment = np.full(n_targets, -1, np.int64)
    least = np.full(n_targets, np.inf)
    for source in np.sort(np.asarray(sources, np.int64).reshape(-1)).tolist():
        row = served(source)
        better = row & (assignment < 0)
        if losses is not None:
            loss = np.asarray(losses(source), np.float64)
            better |= row & (loss < least)
            least[better] = loss[better]
        assignment[better] = source
    return assignment


def listed(things: Iterable[object], n_shown: int = N_SHOWN) -> str:
    """Return the first few of some things, and how many more there are.

    Args:
        things: numbers or names.
        n_shown: how many to show.
    """
    words = [repr(str(thing))[1:-1] for thing in things]  # no control characters
    rest = len(words) - n_shown
    more = f", ... and {rest:,} more" if rest > 0 else ""
    return ", ".join(words[:n_shown]) + more


def html_view(text: str, frame: "pd.DataFrame") -> str:
    """Lines of text above a table of which the middle may be left out.

    Args:
        text: shown as it is, line by line.
        frame: the table.
    """
    lines = "<br>".join(html.escape(line) for line in text.splitlines())
    return f"<p>{lines}</p>{frame.to_html(max_rows=N_SHOWN, index=False, na_rep='')}"


def _question(values: Any) -> Question | None:
    """Return the question beside a saved cover, None where it has none."""
    if not isinstance(values, dict) or not (values.get("ask") or "criterion" in values):
        return None
    return Question.from_dict(values)


def names_of(table: xr.Dataset, dim: str) -> list[str] | None:
    """Return names of the sources or the targets, None where they have none.

    Args:
        table: a performance table.
        dim: `"source"` or `"target"`.
    """
    if dim not in table.coords:
        return None
    return [str(name) for name in np.asarray(table.coords[dim].values)]


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
