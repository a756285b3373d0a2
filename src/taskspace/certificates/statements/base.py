"""What every certificate says: whether it holds, how strongly, and why."""

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from taskspace._util.files import plain
from taskspace.errors import UnknownNameError

CertificateKind = Literal["proof", "confidence", "estimate", "vacuous"]


@dataclass(frozen=True)
class Bound:
    """A bound on how many sources a cover takes, and what it ranges over.

    Args:
        side: `"lower"` or `"upper"`.
        value: how many sources.
        targets: what is covered: the `"nodes"` of the table that some source serves,
            or every context of the `"box"`.
        sources: which sources may be chosen: the `"candidates"` of a search, those
            of the `"table"`, or `"any"` context.
    """

    side: Literal["lower", "upper"]
    value: float
    targets: Literal["nodes", "box"]
    sources: Literal["candidates", "table", "any"]


@dataclass(frozen=True)
class Certificate:
    """One statement about a space of tasks, and what it rests on.

    Args:
        name: what the statement is about, e.g. `"continuum cover"`.
        holds: whether the statement is established. A certificate that does not
            hold is not refuted: `why` says what is missing.
        kind: `"proof"` if it follows from exact numbers by rigorous arithmetic;
            `"confidence"` if it holds with the probability that it states, on fresh
            samples; `"estimate"` if its numbers are samples or a user's word, or a
            constant in it was estimated; `"vacuous"` if its hypotheses fail or it
            says nothing, whatever the numbers are.
        why: one sentence for people.
        values: the numbers, as plain JSON values.
        scope: what it ranges over, e.g. `"every context of the box"` or `"the
            estimated table"`.
        bounds: bounds on the number of sources that follow rigorously from the
            numbers it uses.

    Examples:
        >>> Certificate("inner balls", True, "proof", "rates are exact.").holds
        True
    """

    name: str
    holds: bool
    kind: CertificateKind
    why: str
    values: dict[str, Any] = field(default_factory=dict)
    scope: str = ""
    bounds: tuple[Bound, ...] = ()

    def __post_init__(self):
        if self.kind not in get_args(CertificateKind):
            raise UnknownNameError(
                "kind of a certificate", self.kind, get_args(CertificateKind)
            )
        object.__setattr__(self, "holds", bool(self.holds))
        object.__setattr__(self, "values", plain(self.values))

    def __str__(self) -> str:
        holds = "holds" if self.holds else "does not hold"
        numbers = "".join(
            f" {'at least' if bound.side == 'lower' else 'at most'} {bound.value:g}."
            for bound in self.bounds
        )
        return f"{self.name} | {self.kind}, {holds}:{numbers} {self.why}"

    def to_dict(self) -> dict[str, Any]:
        """Return name, holds, kind, scope, why and values, ready for JSON."""
        return {
            "name": self.name,
            "holds": self.holds,
            "kind": self.kind,
            "scope": self.scope,
            "why": self.why,
            "values": self.values,
        }
