"""The result of every cover method, and what the methods share."""

import html
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.files import plain
from taskspace._util.records import read_record
from taskspace.cover.costs import integer_array
from taskspace.errors import InvalidInputError
from taskspace.questions import Question
from taskspace.sets import LossRow, TargetSets

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
        rate: what a unit of unserved weight costs, in the unit of prices, where a
            share was asked for.
    """

    unit: Fraction
    shift: int
    is_whole: bool
    targets: NDArray[np.int64]
    units: NDArray[Any]
    rate: Fraction | None = None

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain JSON values; the unit as text, `"3/10"`."""
        return {
            "unit": str(self.unit),
            "shift": self.shift,
            "whole": self.is_whole,
            "targets": self.targets.tolist(),
            "units": self.units.tolist(),
        } | ({} if self.rate is None else {"rate": str(self.rate)})

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """Return the prices that `to_dict` wrote.

        Args:
            values: plain JSON values.
        """
        with _reading(
            "Prices of a saved cover must be a unit, a shift, targets and as many "
            "integers, but reading them failed"
        ):
            proof = cls(
                *_scale(values),
                np.array(values["targets"], np.int64).reshape(-1),
                integer_array([int(n) for n in values["units"]]),
                None if "rate" not in values else Fraction(values["rate"]),
            )
            if len(proof.targets) != len(proof.units):
                raise ValueError("targets and units differ in length")
            return proof


@contextmanager
def _reading(sentence: str) -> Iterator[None]:
    """End a sentence with the reason, where reading fails."""
    try:
        yield
    except (
        KeyError, TypeError, ValueError, OverflowError, ZeroDivisionError
    ) as error:  # fmt: skip
        raise InvalidInputError(f"{sentence}: {error!r}.") from error


def _scale(values: Any) -> tuple[Fraction, int, bool]:
    """Return the unit, the shift and whether costs are whole."""
    shift = int(values["shift"])
    if not abs(shift) < 10_000:
        raise ValueError("the shift is out of range")
    return Fraction(values["unit"]), shift, bool(values["whole"])


FORMAT_VERSION = 5
N_SHOWN = 12
"""Numbers or rows that a notebook shows of a cover, a curve or a profile."""


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

    @property
    def is_full(self) -> bool:
        """Whether every target is served."""
        return self.coverage == 1.0

    @property
    def shortfall(self) -> str:
        """Say that the share asked for is missed, and why; empty where it is not."""
        if self.missed_share is None:
            return ""
        why = "no selection of these sources serves more"
        if self.stop_reason == "budget spent":
            why = f"{self.size} sources were allowed"
        return (
            f"The share of {100 * self.missed_share:g} % that was asked for is missed: "
            f"{why}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all fields but the question as plain JSON values."""
        names = [f.name for f in fields(self) if f.name != "question"]
        values = {name: getattr(self, name) for name in names}
        if self.prices is not None:
            values["prices"] = self.prices.to_dict()
        return plain(values, nonfinite="keep")

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Return the cover that `to_dict` wrote; keys that are not ours are ignored.

        Args:
            values: plain JSON values.
        """
        prices = values.get("prices")
        return read_record(
            values,
            cls,
            "A saved cover",
            prices=None if prices is None else PriceProof.from_dict(prices),
            question=_question(values.get("question")),
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
        Path(path).write_text(json.dumps(record | self.to_dict(), indent=1) + "\n")

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

    def to_frame(self) -> "pd.DataFrame":
        """One row per target: `target`, and `source`, missing where none serves it."""
        import pandas as pd  # loads slowly

        source = pd.array(self.assignment, "Int64")
        source[self.assignment < 0] = pd.NA
        return pd.DataFrame({"target": range(self.n_targets), "source": source})

    def __repr__(self) -> str:
        proven = "proven optimal" if self.optimal else "not proven optimal"
        cost = "" if self.cost == self.size else f", cost {self.cost:.8g}"
        mean = "" if self.mean_loss is None else f", mean loss {self.mean_loss:.8g}"
        ended = "" if self.stop_reason == proven else f"{self.stop_reason}, "
        lines = [
            f"Cover by {self.method}: {self.size:,} of {self.n_sources:,} sources "
            f"serve {100 * self.coverage:.4g} % of {self.n_targets:,} targets"
            f"{cost}{mean}",
            f"  {proven}, lower bound {self.lower_bound:.8g} "
            f"({self.lower_bound_kind}); {ended}{self.seconds:.3g} s",
            f"  sources: {listed(self.sources.tolist())}",
        ]
        if self.missed_share is not None:
            lines.append(f"  {self.shortfall}")
        if len(self.uncoverable):
            lines.append(f"  served by no source: {listed(self.uncoverable.tolist())}")
        lines += [
            f"  {name}: {listed(getattr(self, name).tolist())}"
            for name in ("include", "exclude")
            if len(getattr(self, name))
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_view(repr(self), self.to_frame())

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
    words = [str(thing) for thing in things]
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
    if not isinstance(values, dict) or not {"ask", "criterion"} & set(values):
        return None
    return Question.from_dict(values)
