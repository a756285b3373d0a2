"""The library of an interpolated schedule: a look-up, and what is known of it.

It has no regions and no policies to choose from: numbers at breakpoints, interpolated
between them. `select` gives the numbers and the status of any context, `act` runs a
gain. A whole proof makes every context of the range `GUARANTEED`; without one every
context is `INSIDE`. All of this is about a context that stays as it is: nothing is
proven about one that changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from taskspace._util.arrays import Array
from taskspace._util.words import round_to_side
from taskspace.certificates import CertifyResult
from taskspace.deploy.base import (
    Guarantee,
    Outside,
    Status,
    check_served,
    context_rows,
    measured_range,
    span,
)
from taskspace.deploy.files import (
    FORMAT_VERSION,
    OUTSIDE_WORDS,
    SCHEDULE_FORMAT,
    checked_files,
    csv_text,
    json_bytes,
    read_manifest,
    versions,
    write_library,
)
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance.study import Study
from taskspace.questions import Question
from taskspace.schedules.parameters import PI, PID
from taskspace.schedules.table import Schedule
from taskspace.systems.linear import LinearSystem

DRIFT = (
    "All of this is for a context that stays as it is; nothing is proven about one "
    "that changes."
)


@dataclass(frozen=True, eq=False)
class Lookup:
    """What `select` answers: one row of numbers and a status, or many.

    Args:
        numbers: the interpolated numbers, NaN where refused.
        status: a `Status`.
    """

    numbers: Array
    status: Any

    @property
    def guaranteed(self) -> Any:
        """Whether the proof speaks of the context."""
        return self.status == Status.GUARANTEED


@dataclass(frozen=True, eq=False)
class ScheduleLibrary:
    """An interpolated schedule to deploy, and what is known of it.

    Args:
        schedule: numbers at breakpoints.
        low: lower corner of the range, in the order of the schedule's axes.
        high: upper corner.
        guarantee: what is known of the whole range.
        units: unit of each axis, `""` for a pure number.
        outside: `"refuse"` gives no numbers outside the range; `"clamp"` those of the
            nearest context inside, and says so.
        fixed: context axes that the range does not vary, and their values.
        provenance: where it comes from, plain JSON values.
    """

    schedule: Schedule
    low: Array
    high: Array
    guarantee: Guarantee
    units: tuple[str, ...]
    outside: Outside = "refuse"
    fixed: Mapping[str, float] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        if self.outside not in get_args(Outside):
            raise UnknownNameError("behaviour outside", self.outside, get_args(Outside))
        self.schedule.check()
        if {len(self.low), len(self.high), len(self.units)} != {len(self.names)}:
            raise InvalidInputError(
                f"There must be one end and one unit for each of {len(self.names)} "
                f"axes, but got {self.low}, {self.high} and {self.units}."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the context axes."""
        return self.schedule.names

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of the numbers, e.g. `("K[1,1]", "K[1,2]")` or `("kp", "ki")`."""
        return self.schedule.structure.names

    @property
    def question(self) -> Question | None:
        """What the library answers."""
        return self.guarantee.question

    @property
    def measured_range(self) -> tuple[Array, Array]:
        """Ends of the contexts that may be measured: the range, wider by the error."""
        return measured_range(self.question, self.names, self.low, self.high)

    @property
    def signal_sizes(self) -> tuple[int, int] | None:
        """Numbers of an observation and of an action; None for PI and PID."""
        structure = self.schedule.structure
        if structure.names in (PI, PID):
            return None
        return structure.shape[1], structure.shape[0]

    def rows(self, context: Any) -> Array:
        """Return contexts as rows in the order of `names`.

        Args:
            context: see `select`.
        """
        return context_rows(self.names, self.fixed, context)

    def select(self, context: Any) -> Lookup:
        """Return the numbers at a context, and what is known there.

        Args:
            context: one context, a mapping by name or a row; or many, an array
                `(context, axis)`.
        """
        rows = self.rows(context)
        flat = rows.reshape(-1, len(self.names))
        low, high = self.measured_range
        finite = np.isfinite(flat).all(1)
        inside = finite & ((flat >= low) & (flat <= high)).all(1)
        numbers = self.schedule.numbers_at(np.clip(flat, low, high))
        known = np.int64(self.guarantee.status)
        status = np.where(inside, known, np.int64(Status.OUTSIDE))
        refused = ~finite if self.outside == "clamp" else ~inside
        numbers[refused], status[refused] = np.nan, Status.REFUSED
        if rows.ndim == 1:
            return Lookup(numbers[0], Status(int(status[0])))
        return Lookup(
            numbers.reshape(*rows.shape[:-1], -1), status.reshape(rows.shape[:-1])
        )

    def act(self, context: Any, observation: ArrayLike) -> Array:
        """Return the action u = −K(θ) x, added up in the order of the exported C.

        Args:
            context: one context or many, as in `select`.
            observation: one observation, or one per context.

        Returns:
            The action, or one per context. `OutsideError` where a context is refused.
        """
        sizes, seen = self.signal_sizes, np.asarray(observation, np.float64)
        if sizes is None:
            raise InvalidInputError(
                "PI and PID controllers have states, so one observation gives no "
                f"action. select gives {', '.join(self.numbers)} for your own step."
            )
        if seen.shape[-1:] != sizes[:1]:
            raise InvalidInputError(
                f"An observation must have {sizes[0]} numbers, but got shape "
                f"{seen.shape}."
            )
        chosen = self.select(context)
        check_served(self, chosen, context)
        gain = -chosen.numbers.reshape(*chosen.numbers.shape[:-1], *sizes[::-1])
        action = gain[..., 0] * seen[..., :1]
        for j in range(1, sizes[0]):
            action = action + gain[..., j] * seen[..., j : j + 1]
        return action

    def contract(
        self, *, command: str | None = None, notes: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return what the library takes, gives and promises, as plain JSON values.

        Args:
            command: what was typed to make it.
            notes: what else its users must know.
        """
        axes = zip(self.names, self.units, self.low, self.high, strict=True)
        context: list[dict[str, Any]] = [
            {"name": n, "unit": u, "low": float(a), "high": float(b)}
            for n, u, a, b in axes
        ]
        if self.question is not None and self.question.error is not None:
            errors = self.question.error.to_dict()
            for axis in context:
                axis["error"] = errors.get(axis["name"], 0.0)
        is_proven = self.guarantee.status == Status.GUARANTEED
        word = "where the status is guaranteed, and nowhere else"
        return {
            "format": "taskspace-contract",
            "version": 1,
            "inputs": {"context": context, "fixed": dict(self.fixed)},
            "outputs": {
                "numbers": list(self.numbers),
                "status": {s.name.lower(): int(s) for s in Status},
            },
            "look_up": {
                "law": "multilinear between breakpoints, the last axis first; constant "
                "beyond the first and the last breakpoint",
                "interpolation": dict(self.schedule.interpolation),
                "breakpoints": {
                    n: x.tolist() for n, x in self.schedule.breakpoints.items()
                },
                "outside": OUTSIDE_WORDS[self.outside].replace("policy", "numbers"),
                "not_finite": "no numbers (status refused)",
            },
            "guarantee": self.guarantee.to_dict()
            | {"applies": word if is_proven else "to no single context"},
            "drift": DRIFT,
            "arithmetic": "double",
            "notes": list(notes),
            "made": {
                "command": command,
                "versions": versions(),
                "provenance": dict(self.provenance),
            },
        }

    def table(self) -> tuple[list[str], list[list[float]]]:
        """Return the vertices as a header and rows: breakpoints, then numbers."""
        mesh = np.meshgrid(*self.schedule.breakpoints.values(), indexing="ij")
        numbers = self.schedule.gains.reshape(self.schedule.size, -1)
        rows = np.column_stack([*(x.reshape(-1) for x in mesh), numbers])
        return [*self.names, *self.numbers], rows.tolist()

    def save(self, folder: str | Path, *, command: str | None = None) -> Path:
        """Write the library as a folder: `library.json`, the contract and a CSV.

        Args:
            folder: a folder that does not exist or is empty.
            command: what was typed to make it, kept in the contract.
        """
        files = {
            "contract.json": json_bytes(self.contract(command=command)),
            "schedule.csv": csv_text(*self.table()).encode(),
        }
        record = {
            "format": SCHEDULE_FORMAT,
            "version": FORMAT_VERSION,
            "schedule": self.schedule.to_dict(),
            "low": self.low.tolist(),
            "high": self.high.tolist(),
            "units": list(self.units),
            "outside": self.outside,
            "fixed": dict(self.fixed),
            "guarantee": self.guarantee.to_dict(),
            "provenance": dict(self.provenance),
        }
        return write_library(folder, record, files)

    @staticmethod
    def load(folder: str | Path) -> "ScheduleLibrary":
        """Load the library that `save` wrote; refuse one that was changed.

        Args:
            folder: the folder.
        """
        folder = Path(folder)
        record = read_manifest(folder, SCHEDULE_FORMAT)
        try:
            checked_files(folder, record["files"])
            return ScheduleLibrary(
                Schedule.from_dict(record["schedule"]),
                np.array(record["low"], np.float64),
                np.array(record["high"], np.float64),
                Guarantee.from_dict(record["guarantee"]),
                tuple(record["units"]),
                record["outside"],
                record["fixed"],
                record["provenance"],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidInputError(
                f"{folder} must be a library written by taskspace, but it cannot be "
                f"read: {error!r}."
            ) from error

    def __repr__(self) -> str:
        return f"ScheduleLibrary({self.schedule!r}, {span(self)})"


def schedule_library(
    study: Study,
    schedule: Schedule,
    question: Question | None,
    proof: CertifyResult | None,
    outside: Outside,
    provenance: Mapping[str, Any],
) -> ScheduleLibrary:
    """Return the library of a schedule on the box of a study's targets.

    Args:
        study: of the plant.
        schedule: numbers at breakpoints.
        question: what is asked; None for that of the proof or of the schedule.
        proof: what `certify(study, question, schedule=schedule)` gave, None for none.
        outside: `"refuse"` or `"clamp"`.
        provenance: where the study comes from.
    """
    if proof is not None:
        question = question or proof.question
    question = question or schedule.question
    if question is None:
        raise InvalidInputError(
            "A library must know what its schedule answers, e.g. "
            "question='regret <= 0.1', but got none."
        )
    targets = study.targets
    if targets is None or set(targets.names) != set(schedule.names):
        known = "none" if targets is None else ", ".join(targets.names)
        raise InvalidInputError(
            f"The targets of the study must vary {', '.join(schedule.names)} as the "
            f"schedule does, but they vary {known}."
        )
    if isinstance(study.system, LinearSystem):
        study.system.stacked(schedule.policies)  # refuses what does not fit the plant
    order = [targets.names.index(name) for name in schedule.names]
    others = [name for name in study.axes if name not in targets.names]
    return ScheduleLibrary(
        schedule,
        targets.points.min(0)[order],
        targets.points.max(0)[order],
        _guarantee(study, schedule, question, proof),
        tuple(study.axes[n].unit if n in study.axes else "" for n in schedule.names),
        outside,
        {name: study.axes[name].default for name in others},
        provenance,
    )


def _guarantee(
    study: Study, schedule: Schedule, question: Question, proof: CertifyResult | None
) -> Guarantee:
    """Return what is known of a schedule; refuse a proof of something else."""
    if proof is None:
        said = f"Nothing is proven of this schedule for '{question}'."
        if schedule.question == question and not np.isnan(schedule.worst):
            worst = round_to_side(schedule.worst, up=True, digits=4)
            said += (
                f" At the targets its largest loss is {worst}; between targets nothing "
                "is known."
            )
        return Guarantee(question, "none", "vacuous", said)
    certificate = next((c for c in proof if c.name == "schedule"), None)
    if certificate is None:
        raise InvalidInputError(
            "proof must be that of a schedule, ts.certify(study, question, "
            "schedule=schedule), but this one is about a cover."
        )
    if not (certificate.holds and certificate.kind == "proof"):
        return Guarantee(question, "none", "vacuous", certificate.why)
    now, proven = schedule.subject(study, question), certificate.values["subject"]
    changed = [k for k in {**proven, **now} if proven.get(k) != now.get(k)]
    if changed:
        raise InvalidInputError(
            "A certificate holds for what it was proven for, but here something "
            f"differs: the {' and the '.join(changed)}. Certify anew: "
            "ts.certify(study, question, schedule=schedule)."
        )
    return Guarantee(question, "box", "proof", certificate.why, certificate.values)
