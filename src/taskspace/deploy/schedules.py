"""The library of an interpolated schedule: a look-up, and what is known of it.

It has no regions and no policies to choose from: numbers at breakpoints, interpolated
between them. `select` gives the numbers and the status of any context, `act` runs a
gain. A whole proof makes every context of the range `GUARANTEED`; without one every
context is `INSIDE`. All of this is about a context that stays as it is: nothing is
proven about one that changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taskspace._util.arrays import Array
from taskspace.certificates import CertifyResult
from taskspace.deploy.base import (
    Guarantee,
    Library,
    Outside,
    Status,
    check_observation,
    gain_action,
)
from taskspace.errors import InvalidInputError
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
class ScheduleLibrary(Library):
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
        self.schedule.check()
        self.check()

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the context axes."""
        return self.schedule.names

    @property
    def size(self) -> int:
        """Number of vertices."""
        return self.schedule.size

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of the numbers, e.g. `("K[1,1]", "K[1,2]")` or `("kp", "ki")`."""
        return self.schedule.structure.names

    @property
    def vertices(self) -> Array:
        """Contexts of the breakpoints, `(vertex, axis)`."""
        mesh = np.meshgrid(*self.schedule.breakpoints.values(), indexing="ij")
        return np.stack([x.reshape(-1) for x in mesh], 1)

    @property
    def signal_sizes(self) -> tuple[int, int] | None:
        """Numbers of an observation and of an action; None for PI and PID."""
        structure = self.schedule.structure
        if structure.names in (PI, PID):
            return None
        return structure.shape[1], structure.shape[0]

    def select(self, context: Any) -> Lookup:
        """Return the numbers at a context, and what is known there.

        Args:
            context: one context, a mapping by name or a row; or many, an array
                `(context, axis)`.
        """
        given = self.rows(context)
        rows = given.reshape(-1, len(self.names))
        finite, inside = self.finite_inside(rows)
        numbers = self.schedule.numbers_at(np.clip(rows, *self.measured_range))
        status = np.where(inside, self.guarantee.status, Status.OUTSIDE)
        refused = ~finite if self.outside == "clamp" else ~inside
        numbers[refused], status[refused] = np.nan, Status.REFUSED
        if given.ndim == 1:
            return Lookup(numbers[0], Status(int(status[0])))
        shape = given.shape[:-1]
        return Lookup(numbers.reshape(*shape, -1), status.reshape(shape))

    def act(self, context: Any, observation: ArrayLike) -> Array:
        """Return the action u = −K(θ) x.

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
        check_observation(seen, sizes[0])
        chosen = self.select(context)
        self.check_served(chosen.status, context)
        gains = chosen.numbers.reshape(*chosen.numbers.shape[:-1], *sizes[::-1])
        return gain_action(gains, seen)

    def terms(self) -> dict[str, Any]:
        """Return the parts of the contract that a schedule has."""
        breakpoints = self.schedule.breakpoints.items()
        return {
            "inputs": {},
            "outputs": {"numbers": list(self.numbers)},
            "selection": {
                "law": "multilinear between breakpoints, the last axis first; constant "
                "beyond the first and the last breakpoint",
                "kind": "schedule",
                "interpolation": dict(self.schedule.interpolation),
                "breakpoints": {name: x.tolist() for name, x in breakpoints},
            },
            "drift": DRIFT,
        }

    def __repr__(self) -> str:
        return f"ScheduleLibrary({self.schedule!r}, {self.span})"


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
    question = question or (proof.question if proof else schedule.question)
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
