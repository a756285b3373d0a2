"""What a library says: where policies come from, what is guaranteed and chosen."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any, Literal, get_args

from taskspace.certificates.statements.claims import CertificateKind
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.questions import Question

Scope = Literal["nodes", "box", "law", "none"]
Outside = Literal["refuse", "clamp"]


class Status(IntEnum):
    """What a selection may rely on."""

    GUARANTEED = 0
    """A proof or a statement of confidence speaks of this context."""
    INSIDE = 1
    """Within the range, where nothing is known (between nodes, say)."""
    OUTSIDE = 2
    """Outside the range; the policy of the nearest context inside is used."""
    REFUSED = 3
    """No policy: outside of a library that refuses, not a number, or not served."""
    ESTIMATED = 4
    """An estimate says that the policy serves this context: the numbers are
    means of episodes, or a user's word. Nothing is guaranteed."""
    FAILING = 5
    """What is known says that no policy of the library serves this context; the one
    that loses least is used."""


class OutsideError(InvalidInputError):
    """A context has no policy.

    Args:
        message: what must hold, what arrived, what to do.
        selection: the selection that was refused.
    """

    def __init__(self, message: str, selection: "Selection"):
        super().__init__(message)
        self.selection = selection


@dataclass(frozen=True)
class Guarantee:
    """What is known of a library, where, and how surely.

    Args:
        question: criterion, judge and ε; None where nothing was asked.
        scope: `"nodes"` (the targets of the table), `"box"` (every context of the
            certified boxes), `"law"` (a random context of a stated law), `"none"`.
        kind: `"proof"`, `"confidence"`, `"estimate"` or `"vacuous"`.
        statement: one sentence for people.
        values: further numbers, plain JSON values.
    """

    question: Question | None
    scope: Scope
    kind: CertificateKind
    statement: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        if self.scope not in get_args(Scope):
            raise UnknownNameError("scope", self.scope, get_args(Scope))
        if self.kind not in get_args(CertificateKind):
            raise UnknownNameError(
                "kind of a guarantee", self.kind, get_args(CertificateKind)
            )

    @property
    def speaks(self) -> bool:
        """Whether something is known of single contexts, if only by an estimate."""
        return self.scope in ("nodes", "box") and self.kind != "vacuous"

    @property
    def status(self) -> Status:
        """What a selection may rely on where the policy is known to serve."""
        if not self.speaks:
            return Status.INSIDE
        return Status.ESTIMATED if self.kind == "estimate" else Status.GUARANTEED

    def to_dict(self) -> dict[str, Any]:
        """Plain values, which `from_dict` reads."""
        question = None if self.question is None else self.question.to_dict()
        return {
            "question": question,
            "scope": self.scope,
            "kind": self.kind,
            "statement": self.statement,
            "values": dict(self.values),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Guarantee":
        """Return the guarantee that `to_dict` wrote.

        Args:
            values: plain values.
        """
        asked = values["question"]
        question = None if asked is None else Question.from_dict(asked)
        rest = {k: values[k] for k in ("scope", "kind", "statement", "values")}
        return cls(question, **rest)


@dataclass(frozen=True)
class Entry:
    """One policy of a library: where it comes from.

    Args:
        name: what to call it.
        source: number of its source in the table, −1 if it has none.
        member: number in the family of that source.
        context: its source's context by name, empty if it has none.
    """

    name: str
    source: int = -1
    member: int = 0
    context: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"context": dict(self.context)}


@dataclass(frozen=True, eq=False)
class Selection:
    """What `select` answers: scalars for one context, arrays for many.

    Args:
        policy: number of the policy in the library, −1 where it is refused.
        status: a `Status`.
        margin: ε minus the loss known for the region; a statement about this context
            only where it is guaranteed or estimated.
        region: number of the region, −1 where there is none.
        held: whether hysteresis held another policy than the map's.
    """

    policy: Any
    status: Any
    margin: Any
    region: Any
    held: Any = False

    @property
    def guaranteed(self) -> Any:
        """Whether a proof or a statement of confidence speaks of the context."""
        return self.status == Status.GUARANTEED

    @property
    def estimated(self) -> Any:
        """Whether an estimate says that the policy serves the context."""
        return self.status == Status.ESTIMATED

    @property
    def inside(self) -> Any:
        """Whether the context lies within the range of the library."""
        return (self.status != Status.OUTSIDE) & (self.status != Status.REFUSED)
