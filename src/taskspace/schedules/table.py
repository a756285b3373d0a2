"""The schedule itself: numbers at breakpoints, interpolated between them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from taskspace._util.arrays import Array
from taskspace._util.decimals import round_to_side
from taskspace._util.files import checksum, plain
from taskspace.certificates.statements import Certificate, context_words
from taskspace.errors import InvalidInputError, TaskspaceError
from taskspace.performance.study import Study
from taskspace.policies import Policy
from taskspace.progress import Progress, silent
from taskspace.questions import Question
from taskspace.schedules.parameters import PI, PID, Structure, gain_structure

Scale = Literal["linear", "log"]
FORMAT = "taskspace-schedule"
VERSION = 1


@dataclass(frozen=True, eq=False)
class Schedule:
    """Numbers of a controller at breakpoints, interpolated multilinearly between them.

    Beyond the first and the last breakpoint of an axis the numbers stay as they are at
    that breakpoint. On an axis with `"log"` the interpolation is linear in log θ.

    Args:
        breakpoints: for each axis its breakpoints, ascending.
        gains: numbers at every vertex, shape `(*shape, len(structure.names))`.
        structure: how a policy is made from these numbers.
        interpolation: for each axis `"linear"` or `"log"`.
        question: what it was made for, None for a table that was given.
        lower_bound: no schedule of the candidates with fewer vertices serves the
            targets.
        optimal: whether the schedule has as few vertices as that.
        bound_of: what the bound is about, e.g. `"16 × 16 candidates on 61 × 61
            targets"`.
        worst: the largest loss at a target.
        worst_context: where that is.
        constant_pieces: lower and upper bound on the number of constant gains, of the
            same candidates, that serve the same targets; None where not counted.
        size_of_candidates: for designed gains the fewest vertices of candidates.
        provenance: where the losses come from.
        notes: what else to know.
        seconds: wall-clock time.
    """

    breakpoints: dict[str, Array]
    gains: Array
    structure: Structure
    interpolation: dict[str, Scale]
    question: Question | None = None
    lower_bound: int = 1
    optimal: bool = False
    bound_of: str = ""
    worst: float = np.nan
    worst_context: dict[str, float] = field(default_factory=dict)
    constant_pieces: tuple[int, int] | None = None
    size_of_candidates: int | None = None
    provenance: str = ""
    notes: tuple[str, ...] = ()
    seconds: float = field(default=0.0, repr=False)

    @classmethod
    def of_gains(
        cls,
        breakpoints: Mapping[str, ArrayLike],
        gains: ArrayLike,
        interpolation: Mapping[str, Scale] | Scale = "linear",
    ) -> "Schedule":
        """Return a table of state feedback gains that is in use somewhere.

        Args:
            breakpoints: for each axis its breakpoints, ascending.
            gains: K at every vertex, shape `(*shape, n_inputs, n_states)`.
            interpolation: `"linear"` or `"log"`, for all axes or for each.

        Examples:
            >>> table = Schedule.of_gains({"speed": [1, 3]}, [[[2.0]], [[4.0]]])
            >>> table(speed=2).gain.tolist()
            [[3.0]]
        """
        axes = {name: np.array(x, np.float64) for name, x in breakpoints.items()}
        table = np.array(gains, np.float64)
        shape = tuple(map(len, axes.values()))
        if table.shape[:-2] != shape or table.ndim != len(shape) + 2:
            raise InvalidInputError(
                f"gains must have shape {(*shape, 'n_inputs', 'n_states')}, one K per "
                f"vertex of the breakpoints, but have {table.shape}."
            )
        structure = gain_structure(table.shape[-2:])
        flat = table.reshape(*shape, -1)
        made = cls(axes, flat, structure, axis_scales(axes, interpolation))
        made.check()
        return made

    def check(self) -> None:
        """Refuse breakpoints and numbers that make no schedule."""
        self.check_breakpoints()
        if not np.isfinite(self.gains).all():
            raise InvalidInputError("Numbers of a schedule must be finite.")
        names, shape = self.structure.names, self.structure.shape
        is_known = names in (PI, PID) and not shape
        if self.structure.is_gain:
            is_known = len(shape) == 2 and prod(shape) == len(names)
        if not is_known:
            raise InvalidInputError(
                "A schedule must have one name per entry of a gain, or those of a PI "
                f"or PID controller, but has {', '.join(names)} for shape {shape}."
            )
        if self.gains.shape != (*self.shape, len(names)):
            raise InvalidInputError(
                f"Numbers of a schedule must have shape {self.shape} with "
                f"{len(names)} each, but have {self.gains.shape}."
            )

    def check_breakpoints(self) -> None:
        """Refuse breakpoints between which nothing can be interpolated."""
        for name, values in self.breakpoints.items():
            is_list = values.ndim == 1 and len(values) and np.isfinite(values).all()
            if not is_list or (np.diff(values) <= 0).any():
                raise InvalidInputError(
                    f"Breakpoints of {name} must be finite numbers that ascend, at "
                    f"least one, but got {values.tolist()}."
                )
            if self.interpolation[name] == "log" and values[0] <= 0:
                raise InvalidInputError(
                    f"Breakpoints of {name} must be positive to interpolate in log, "
                    f"but got {values[0]:g}."
                )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the axes."""
        return tuple(self.breakpoints)

    @property
    def shape(self) -> tuple[int, ...]:
        """Breakpoints per axis."""
        return tuple(map(len, self.breakpoints.values()))

    @property
    def size(self) -> int:
        """Number of vertices: rows of the table."""
        return prod(self.shape)

    @property
    def policies(self) -> Policy:
        """The policies at the vertices, a stack with one leading dim."""
        return self.structure.policies(self.gains.reshape(self.size, -1))

    def __call__(
        self, context: Mapping[str, float] | None = None, /, **values: float
    ) -> Policy:
        """Return the policy at a context.

        Args:
            context: the value of every axis by name; or as keywords.
            values: likewise.
        """
        context = {**(context or {}), **values}
        missing = [name for name in self.names if name not in context]
        if missing:
            raise InvalidInputError(
                f"The context must name {', '.join(self.names)}, but {missing[0]} is "
                "missing."
            )
        row = np.array([[float(context[name]) for name in self.names]])
        return self.structure.policies(self.numbers_at(row)[0])

    def numbers_at(self, rows: Array) -> Array:
        """Return the interpolated numbers, NaN where a coordinate is NaN.

        Args:
            rows: contexts, one column per axis of the schedule.
        """
        places = [
            place(np.asarray(rows[:, i]), values, self.interpolation[name])
            for i, (name, values) in enumerate(self.breakpoints.items())
        ]
        return interpolate(self.gains, places)

    def certificates(
        self,
        study: Study,
        question: Question,
        *,
        time_limit: float = 60,
        progress: Progress = silent,
    ) -> tuple[Certificate, ...]:
        """Return what is proven of the schedule on the box of a study's targets.

        Args:
            study: of the plant.
            question: what is asked.
            time_limit: processor seconds.
            progress: told what is going on.
        """
        from taskspace.schedules.proof import certify_schedule  # compiled kernels

        return (certify_schedule(self, study, question, time_limit, progress),)

    def subject(self, study: Study, question: Question) -> dict[str, str]:
        """Return hashes of what a proof on the box of a study's targets is about.

        Args:
            study: of the plant.
            question: what is asked.
        """
        from taskspace.certificates.identity import (  # compiled kernels
            contexts_of_comparison,
            describe_system,
            digest_of,
        )

        system, targets = study.require_system(), study.targets
        assert targets is not None
        rows = system.contexts(targets)
        low, high = rows.min(0), rows.max(0)
        values = self.to_dict()
        axes = list(values["breakpoints"].items())  # their order matters
        own = [axes, *(values[key] for key in ("gains", "structure", "interpolation"))]
        return {
            "schedule": digest_of(own),
            "question": digest_of(question.to_dict()),
            "box": digest_of([low, high]),
            **describe_system(system, contexts_of_comparison(low, high)),
        }

    # --- sentences and plain values -------------------------------------------------

    def __str__(self) -> str:
        """Return the answer, then the table."""
        return "\n".join([*self.answer, "", *self.rows])

    @property
    def rows(self) -> list[str]:
        """The table, one line per vertex, and how it interpolates."""
        lines = []
        for index in product(*map(range, self.shape)):
            values = zip(self.breakpoints.items(), index, strict=True)
            at = context_words({name: x[i] for (name, x), i in values}, self.names)
            numbers = zip(self.structure.names, self.gains[index], strict=True)
            lines.append(f"{at}: " + ", ".join(f"{n} = {x:.6g}" for n, x in numbers))
        scales = set(self.interpolation.values())
        how = scales.pop()
        if scales:
            how = ", ".join(f"{n} {s}" for n, s in self.interpolation.items())
        return [*lines, f"Interpolated: {how}; constant beyond the ends."]

    def __repr__(self) -> str:
        """Return the schedule in one line."""
        asked = "" if self.question is None else f", {self.question}"
        return f"Schedule({' × '.join(map(str, self.shape))} breakpoints{asked})"

    @property
    def answer(self) -> list[str]:
        """Sentences: how few vertices, what is proven of that, the largest loss."""
        shape = " × ".join(map(str, self.shape))
        count = f"{self.size} vertices ({shape} breakpoints)"
        if len(self.shape) == 1:
            count = f"{self.size} breakpoint{'s' * (self.size != 1)}"
        if self.question is None:
            return [f"A schedule of {count}."]
        kind = "" if self.provenance == "exact" else " on the estimated losses"
        least = "no fewer" if self.optimal else f"at least {self.lower_bound}"
        bound = f"; {least} of {self.bound_of}{kind}"
        if self.lower_bound == 1 < self.size:
            bound = ""  # that is no bound
        worst = round_to_side(self.worst, up=True, digits=4)
        where = context_words(self.worst_context, self.names)
        said = [f"{count}: {self.question}{bound}."]
        said.append(f"The largest loss at a target is {worst}, at {where}.")
        if self.constant_pieces is not None:
            low, high = self.constant_pieces
            pieces = str(low) if low == high else f"{low} to {high}"
            said.append(f"Gains that are constant on pieces: {pieces}.")
        if self.size_of_candidates is not None:
            said.append(f"With the candidates' own gains: {self.size_of_candidates}.")
        return [*said, *self.notes]

    def to_dict(self) -> dict[str, Any]:
        """Return the schedule as plain values, which `from_dict` reads."""
        values = plain(replace(self, question=None))
        del values["question"]
        return {
            "format": FORMAT,
            "version": VERSION,
            "ask": None if self.question is None else str(self.question),
            "size": self.size,
            "shape": list(self.shape),
            **values,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Schedule":
        """Return the schedule that `to_dict` wrote.

        Args:
            values: plain values.
        """
        if values.get("format") != FORMAT or values.get("version") != VERSION:
            raise InvalidInputError(
                f"A schedule must have format {FORMAT!r} and version {VERSION}, but "
                f"got {values.get('format')!r} and {values.get('version')!r}."
            )
        asked, worst = values.get("ask"), values.get("worst")
        given = {**values, "worst": np.nan if worst is None else worst}
        try:
            made = msgspec.convert(
                given, cls, dec_hook=lambda _, x: np.array(x, np.float64)
            )
            axis_scales(made.breakpoints, made.interpolation)
            question = None if asked is None else Question(asked)
            made = replace(made, question=question)
        except (TypeError, ValueError, TaskspaceError) as error:
            raise InvalidInputError(
                f"The file is no whole schedule: {error}"
            ) from error
        made.check()
        return made

    def save(self, path: str | Path) -> None:
        """Write the schedule as JSON.

        Args:
            path: of the file.
        """
        values = self.to_dict()
        values["checksum"] = _checksum(values)
        Path(path).write_text(json.dumps(values, indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> "Schedule":
        """Read what `save` wrote.

        A file that answers a question must have the checksum that it records: its
        numbers are then those that were judged. A table without a question, `ask` null,
        needs none.

        Args:
            path: of the file.
        """
        try:
            values = json.loads(Path(path).read_text())
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"{path} is no schedule: {error}.") from error
        values = values if isinstance(values, dict) else {}
        recorded = values.pop("checksum", None)
        made = cls.from_dict(values)
        if made.question is not None and recorded != _checksum(values):
            raise InvalidInputError(
                f"{path} must have the checksum that it records, but it was changed: "
                "what it says of its gains may not hold. Make the schedule again, or "
                "set ask to null to use it as a table in use."
            )
        return made


def _checksum(values: Mapping[str, Any]) -> str:
    return checksum(json.dumps(values, sort_keys=True).encode())


def axis_scales(
    names: Iterable[str], interpolation: Mapping[str, Scale] | Scale
) -> dict[str, Scale]:
    """Return the interpolation of every axis, checked.

    Args:
        names: of the axes.
        interpolation: `"linear"` or `"log"`, for all axes or for each.
    """
    names = list(names)
    if isinstance(interpolation, str):
        interpolation = dict.fromkeys(names, interpolation)
    is_known = all(scale in ("linear", "log") for scale in interpolation.values())
    if set(interpolation) != set(names) or not is_known:
        raise InvalidInputError(
            f"interpolation must be 'linear' or 'log' for {', '.join(names)}, but got "
            f"{dict(interpolation)!r}."
        )
    return {name: interpolation[name] for name in names}


# Of each context on one axis: the breakpoints on both sides, and how far it is from
# the first to the second.
Place = tuple[Any, Any, Any]


def place(values: Array, breakpoints: Array, scale: Scale) -> Place:
    """Return between which breakpoints values lie, and how far from the first.

    Args:
        values: coordinates.
        breakpoints: ascending.
        scale: of the axis.
    """
    inside = np.clip(values, breakpoints[0], breakpoints[-1])
    low = np.clip(
        np.searchsorted(breakpoints, inside, "right") - 1,
        0,
        max(len(breakpoints) - 2, 0),
    )
    high = np.minimum(low + 1, len(breakpoints) - 1)
    return low, high, share(inside, breakpoints[low], breakpoints[high], scale)


def share(values: Array, low: Array, high: Array, scale: Scale) -> Array:
    """Return how far values are from `low` to `high`, 0 where these are the same.

    Args:
        values: within them.
        low: the breakpoints below.
        high: the breakpoints above.
        scale: of the axis.
    """
    if scale == "log":
        values, low, high = np.log(values), np.log(low), np.log(high)
    apart = high - low
    return np.where(apart > 0, (values - low) / np.where(apart > 0, apart, 1.0), 0.0)


def interpolate(table: Array, places: list[Place]) -> Array:
    """Return the multilinear interpolation of a table, the last axis first.

    Args:
        table: shape `(*shape, number)`.
        places: of each axis.

    Returns:
        Shape `(context, number)`.
    """
    corners = np.stack(
        [
            table[tuple(at[side] for at, side in zip(places, sides, strict=True))]
            for sides in product((0, 1), repeat=len(places))
        ]
    )
    for _, _, t in reversed(places):
        weight = t[:, None]
        corners = (1 - weight) * corners[0::2] + weight * corners[1::2]
    return corners[0]
