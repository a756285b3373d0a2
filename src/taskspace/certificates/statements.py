"""Certificates, the word that each may use of itself, and the words they share.

A statement has two legs: the numbers it uses (`exact` or weaker, see
`taskspace.systems.base.Provenance`) and the argument that leads from them to it. Exact
numbers and a rigorous argument make a proof. Sampled or given numbers never do,
whatever the argument: a conclusion from them is an estimate, and says which table it
is about. Fresh samples with a stated level make a statement of confidence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import xarray as xr

from taskspace._util.decimals import round_to_side
from taskspace._util.files import plain
from taskspace.errors import ContradictionError, UnknownNameError
from taskspace.questions import Question
from taskspace.systems.base import PROVENANCE_WORDS, Provenance, System

CertificateKind = Literal["proof", "confidence", "estimate", "vacuous"]
# What is on the right holds all that is on its left.
TARGETS = ("nodes", "box")
SOURCES = ("candidates", "table", "any")


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

    def __str__(self) -> str:
        is_upper = self.side == "upper"
        number = round_to_side(self.value, up=is_upper, digits=6)
        return f"at {'most' if is_upper else 'least'} {number}"


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
        numbers = "".join(f" {bound}." for bound in self.bounds)
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


def claim(provenance: Provenance, *, rigorous: bool = True) -> CertificateKind:
    """Return the strongest word that a statement may use of itself.

    Args:
        provenance: where the numbers come from that it uses.
        rigorous: whether the argument allows no exception; a constant that was
            estimated from samples makes it not so.
    """
    return "proof" if provenance == "exact" and rigorous else "estimate"


def claim_on(table: xr.Dataset, question: Question) -> CertificateKind:
    """Return the strongest word for what a table says of targets that are served.

    Args:
        table: the numbers.
        question: what is asked.
    """
    return claim(question.provenance_of(table))


def on_table(provenance: Provenance) -> str:
    """Return a clause for sentences, `""` where the numbers are exact.

    Args:
        provenance: where the table's numbers come from.
    """
    scope = PROVENANCE_WORDS[provenance].scope
    return f" {scope}" if scope else ""


def check_consistent(certificates: Sequence[Certificate]) -> None:
    """Refuse a result that holds an upper bound below a lower bound.

    A cover of more targets, chosen from fewer sources, also covers fewer targets
    and could have been chosen from more sources. So an upper bound contradicts every
    larger lower bound that is about no more targets and no fewer sources.

    Args:
        certificates: all statements about one question.
    """
    stated: list[tuple[Certificate, Bound]] = [
        (certificate, bound)
        for certificate in certificates
        if certificate.kind != "vacuous"
        for bound in certificate.bounds
    ]
    for low_name, low in stated:
        for high_name, high in stated:
            if low.side != "lower" or high.side != "upper":
                continue
            comparable = TARGETS.index(low.targets) <= TARGETS.index(
                high.targets
            ) and SOURCES.index(high.sources) <= SOURCES.index(low.sources)
            if comparable and high.value < low.value:
                raise ContradictionError(
                    f"{low_name.name!r} says that at least {low.value:g} sources are "
                    f"needed for the {low.targets}, and {high_name.name!r} that "
                    f"{high.value:g} suffice for the {high.targets}. One of them is "
                    "wrong, so neither is reported. Please report this with its data."
                )


def count(n: int, noun: str) -> str:
    """Return a count for sentences: `"1 source"`, `"3 sources"`.

    Args:
        n: how many.
        noun: of what, in the singular.
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def percent(share: float) -> str:
    """Return a share for people, never rounded up to all or down to nothing.

    Args:
        share: between 0 and 1.
    """
    if 0 < share < 1:
        share = min(max(share, 1e-4), 0.9999)
    return f"{100 * share:.4g} %"


def context_words(context: Mapping[str, float], names: Sequence[str]) -> str:
    """Return a context for people: `k = 1.5, c = 2`.

    Args:
        context: values by name.
        names: which of them to tell.
    """
    return ", ".join(f"{name} = {context[name]:.6g}" for name in names)


def caution_sentence(system: System | None, question: Question) -> str:
    """Return what costs and the best of them mean, where that needs a word.

    Args:
        system: the tasks, if they are known.
        question: what is asked.
    """
    caution = "" if system is None else system.objective.caution
    if not caution or not question.rule.averages_starts:
        return ""
    return f"{caution[0].upper()}{caution[1:]}."
