"""What all libraries share: statuses, the guarantee, contexts, and the contract."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np

import taskspace
from taskspace._util.arrays import Array, Mask
from taskspace.certificates.statements import CertificateKind
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.questions import Question
from taskspace.spaces import Points
from taskspace.systems.base import System

Scope = Literal["nodes", "box", "none"]
Outside = Literal["refuse", "clamp"]


class Status(IntEnum):
    """What a selection may rely on."""

    GUARANTEED = 0
    """A proof or a statement of confidence speaks of this context."""
    INSIDE = 1
    """Within the range, where nothing is known (between nodes, say)."""
    OUTSIDE = 2
    """Outside the range; what the nearest context inside has is used."""
    REFUSED = 3
    """No policy: outside of a library that refuses, not a number, or not served."""
    ESTIMATED = 4
    """An estimate says that the policy serves this context: the numbers are
    means of episodes, or a user's word. Nothing is guaranteed."""
    FAILING = 5
    """What is known says that no policy of the library serves this context; the one
    that loses least is used."""


class OutsideError(InvalidInputError):
    """A context has no policy."""


@dataclass(frozen=True)
class Guarantee:
    """What is known of a library, where, and how surely.

    Args:
        question: criterion, judge and ε; None where nothing was asked.
        scope: `"nodes"` (the targets of the table), `"box"` (every context of the
            certified boxes), `"none"`.
        kind: `"proof"`, `"confidence"`, `"estimate"` or `"vacuous"`.
        statement: one sentence for people.
        values: further numbers, plain JSON values; `operation` has what is proven of
            switching.
    """

    question: Question | None
    scope: Scope
    kind: CertificateKind
    statement: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        for name, words in (("scope", Scope), ("kind", CertificateKind)):
            if getattr(self, name) not in get_args(words):
                raise UnknownNameError(name, getattr(self, name), get_args(words))

    @property
    def status(self) -> Status:
        """What a selection may rely on where the policy is known to serve."""
        if self.scope not in ("nodes", "box") or self.kind == "vacuous":
            return Status.INSIDE
        return Status.ESTIMATED if self.kind == "estimate" else Status.GUARANTEED

    @property
    def operation(self) -> str:
        """What is proven of switching, for people; empty if nothing is."""
        return str(self.values.get("operation", {}).get("statement", ""))

    @property
    def dwell_time(self) -> float:
        """Time between switches that the proof of stability asks for, 0 for none."""
        return float(self.values.get("operation", {}).get("dwell_time") or 0)

    def check_hysteresis(self, hysteresis: float) -> None:
        """Refuse a hysteresis below zero, or beyond that of a proof of switching.

        Args:
            hysteresis: a share of the width of each axis.
        """
        if not 0 <= hysteresis < np.inf:
            raise InvalidInputError(
                f"hysteresis >= 0 must hold, but got hysteresis={hysteresis}."
            )
        proven = self.values.get("operation", {}).get("hysteresis", np.inf)
        if hysteresis > proven:
            raise InvalidInputError(
                f"Switching was proven with hysteresis={proven:g}, which must not be "
                f"exceeded, but got hysteresis={hysteresis:g}. Prove it with that one "
                "by with_operation."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, which `from_dict` reads."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        asked = None if self.question is None else self.question.to_dict()
        return plain | {"question": asked, "values": dict(self.values)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Guarantee":
        """Return the guarantee that `to_dict` wrote.

        Args:
            values: plain values.
        """
        asked = values["question"]
        question = None if asked is None else Question.from_dict(asked)
        proven = dict(values["values"])
        found = cls(**{**values, "question": question, "values": proven})
        _ = found.dwell_time, found.operation  # raise errors where these are no numbers
        found.check_hysteresis(0.0)
        return found


class Library:
    """What libraries of policies and of schedules share."""

    guarantee: Guarantee
    names: tuple[str, ...]
    low: Array
    high: Array
    units: tuple[str, ...]
    outside: Outside
    fixed: Mapping[str, float]
    provenance: Mapping[str, Any]

    def check(self) -> None:
        """Refuse an unknown behaviour outside, and units that are not one per axis."""
        if self.outside not in get_args(Outside):
            raise UnknownNameError("behaviour outside", self.outside, get_args(Outside))
        sizes = {len(x) for x in (self.names, self.low, self.high, self.units)}
        if len(sizes) > 1:
            raise InvalidInputError(
                "Every axis must have a name, two ends and a unit, but got names "
                f"{self.names}, low {self.low}, high {self.high} and units "
                f"{self.units}."
            )

    @property
    def question(self) -> Question | None:
        """What the library answers."""
        return self.guarantee.question

    @property
    def measured_range(self) -> tuple[Array, Array]:
        """Ends of the contexts that may be measured: the range, wider by the error."""
        if self.question is None or self.question.error is None:
            return self.low, self.high
        return self.question.error.measured_range(self.names, self.low, self.high)

    @property
    def span(self) -> str:
        """The range for people."""
        limits = zip(self.names, self.low, self.high, strict=True)
        return ", ".join(f"{n} in [{a:g}, {b:g}]" for n, a, b in limits)

    # --- contexts ---------------------------------------------------------------

    def rows(self, context: Any) -> Array:
        """Return contexts as rows in the order of `names`.

        Args:
            context: a mapping by name, or rows of numbers.
        """
        if isinstance(context, Mapping):
            context = self._columns(context)
        rows = np.asarray(context, np.float64)
        if rows.ndim == 0 or rows.shape[-1] != len(self.names):
            raise InvalidInputError(
                f"A context must have one number each for {', '.join(self.names)}, but "
                f"got shape {rows.shape}."
            )
        return rows

    def _columns(self, context: Mapping[str, Any]) -> Array:
        """Return rows of a context by name; an axis that is fixed may be named."""
        for name, value in context.items():
            if name in self.fixed:
                if not (np.asarray(value) == self.fixed[name]).all():
                    raise InvalidInputError(
                        f"This library holds for {name} = {self.fixed[name]:g} "
                        f"only, but got {name} = {value}."
                    )
            elif name not in self.names:
                raise UnknownNameError("context axis", name, self.names)
        missing = [name for name in self.names if name not in context]
        if missing:
            raise InvalidInputError(
                f"A context must give {', '.join(self.names)}, but "
                f"{', '.join(missing)} is missing."
            )
        columns = [np.asarray(context[name], float) for name in self.names]
        return np.stack(np.broadcast_arrays(*columns), -1)

    def finite_inside(self, rows: Array) -> tuple[Mask, Mask]:
        """Return which contexts are finite, and which lie within the measured range.

        Args:
            rows: contexts, `(context, axis)`.
        """
        finite, inside = np.ones((2, len(rows)), bool)
        for x, low, high in zip(rows.T, *self.measured_range, strict=True):
            finite &= np.isfinite(x)
            inside &= (x >= low) & (x <= high)
        return finite, inside

    def check_served(self, status: Any, context: Any) -> None:
        """Raise an `OutsideError` where a context is refused.

        Args:
            status: of each context.
            context: one context or many, as in `select`.
        """
        refused = np.flatnonzero(np.atleast_1d(status == Status.REFUSED))
        if len(refused):
            row = self.rows(context).reshape(-1, len(self.names))[refused[0]]
            pairs = zip(self.names, row.tolist(), strict=True)
            what = ", ".join(f"{n} = {x:g}" for n, x in pairs)
            more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
            raise OutsideError(
                f"A context must be served by a policy, which {what}{more} is not: the "
                f"library holds for {self.span}. A library with outside='clamp' uses "
                "the nearest policy and says so."
            )

    def full_contexts(self, system: System, rows: Array) -> Array:
        """Return full context rows of a system, with the library's fixed values.

        Args:
            system: the tasks.
            rows: contexts in the order of the library's names, `(context, axis)`.
        """
        fixed = np.tile(list(self.fixed.values()), (len(rows), 1))
        columns = [rows, fixed.reshape(len(rows), -1)]
        names = [*self.names, *self.fixed]
        return system.contexts(Points(names, np.concatenate(columns, axis=1)))

    # --- contract and files -----------------------------------------------------

    def terms(self) -> dict[str, Any]:
        """Return the parts of the contract that depend on the kind of library.

        `inputs` and `outputs` beside context and status, `selection`, and other keys.
        """
        raise NotImplementedError

    def contract(
        self,
        *,
        command: str | None = None,
        arithmetic: str = "double",
        notes: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Return what the library takes, gives and promises, as plain JSON values.

        Args:
            command: what was typed to make it.
            arithmetic: precision of the export that the contract lies beside.
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
        terms, status = self.terms(), self.guarantee.status
        applies = f"where the status is {status.name.lower()}, and nowhere else"
        nothing = "nothing is given (status refused)"
        outside = "as at the nearest context inside (status outside)"
        ends = {
            "outside": outside if self.outside == "clamp" else nothing,
            "not_finite": nothing,
        }
        statuses = {s.name.lower(): int(s) for s in Status}
        return {
            "format": "taskspace-contract",
            "version": 2,
            **terms,
            "inputs": {"context": context, "fixed": dict(self.fixed)} | terms["inputs"],
            "outputs": {"status": statuses} | terms["outputs"],
            "selection": terms["selection"] | ends,
            "guarantee": self.guarantee.to_dict()
            | {"applies": "nowhere" if status == Status.INSIDE else applies},
            "arithmetic": arithmetic,
            "notes": list(notes),
            "made": {
                "command": command,
                "version": taskspace.__version__,
                "provenance": dict(self.provenance),
            },
        }

    def save(self, folder: str | Path, *, command: str | None = None) -> Path:
        """Write the library as a folder, see `taskspace.deploy.files`.

        Args:
            folder: a folder that does not exist or is empty.
            command: what was typed to make it, kept in the contract.
        """
        from taskspace.deploy.files import save_library

        return save_library(self, folder, command)  # type: ignore[arg-type]

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Load the library that `save` wrote; refuse one that was changed.

        Args:
            folder: the folder.
        """
        from taskspace.deploy.files import load_library

        library = load_library(folder)
        if not isinstance(library, cls):
            raise InvalidInputError(
                f"{folder} must hold a {cls.__name__}, but holds another kind. Use "
                f"{type(library).__name__}.load."
            )
        return library


def gain_action(gain: Array, observation: Array) -> Array:
    """Return u = −K x, added up in the order of the exported C, so of the same bits.

    Args:
        gain: K, `(…, n_inputs, n_states)`.
        observation: x, `(…, n_states)`.
    """
    action = -gain[..., 0] * observation[..., :1]
    for j in range(1, gain.shape[-1]):
        action = action + -gain[..., j] * observation[..., j : j + 1]
    return action


def check_observation(observation: Array, n_seen: int) -> None:
    """Refuse an observation of another size.

    Args:
        observation: one, or one per context.
        n_seen: numbers that it must have.
    """
    if observation.shape[-1:] != (n_seen,):
        raise InvalidInputError(
            f"An observation must have {n_seen} numbers, but got shape "
            f"{observation.shape}."
        )
