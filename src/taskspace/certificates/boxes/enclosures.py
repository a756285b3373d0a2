"""Enclosures: bounds on the loss of a source over whole boxes of contexts.

One file per kind of system, and one line in `ENCLOSURES`. What has no line is certified
by a Lipschitz constant that the user knows, or estimated.
"""

from collections.abc import Callable

from taskspace._util.arrays import Array
from taskspace.certificates.boxes.boxes import (
    AllOf,
    Boxes,
    Enclosure,
    NoEnclosureError,
)
from taskspace.certificates.boxes.linear import LinearEnclosure
from taskspace.certificates.boxes.loops import LoopEnclosure
from taskspace.certificates.boxes.measured import MeasuredEnclosure
from taskspace.certificates.boxes.msd import MsdEnclosure
from taskspace.policies import Policy
from taskspace.questions import Question
from taskspace.systems.base import System, overridden
from taskspace.systems.linear import LinearSystem
from taskspace.systems.linear.msd import MassSpringDamper
from taskspace.systems.linear.tracing.traced import UntraceableError

__all__ = [
    "ENCLOSURES",
    "AllOf",
    "Boxes",
    "Enclosure",
    "LinearEnclosure",
    "LoopEnclosure",
    "MeasuredEnclosure",
    "MsdEnclosure",
    "NoEnclosureError",
    "enclosure_for",
    "find_enclosure",
]

Factory = Callable[..., Enclosure]
"""Of system, policies, full context rows of the sources, and question."""

ENCLOSURES: list[tuple[type[System], Factory]] = [
    (MassSpringDamper, MsdEnclosure),
    # Its closed forms are about the J of its matrices.
    (MassSpringDamper, LinearEnclosure),
    (MassSpringDamper, LoopEnclosure),
    (LinearSystem, LinearEnclosure),
    (LinearSystem, LoopEnclosure),
]
"""Systems and who bounds their losses; the first that does not refuse the policies and
the question is used. Bounds are about a class and those derived from it that override
nothing."""


def enclosure_for(
    system: System | None, policies: Policy | None, sources: Array, question: Question
) -> Enclosure:
    """Return bounds over boxes; `NoEnclosureError` says why there are none.

    Args:
        system: the tasks.
        policies: a stack with leading dims `(source, policy)`.
        sources: full context rows of the sources.
        question: criterion and judge; its tolerance does not matter here.
    """
    enclosure, reason = find_enclosure(system, policies, sources, question)
    if enclosure is None:
        raise NoEnclosureError(reason or _nobody(system, policies))
    return enclosure


def _nobody(system: System | None, policies: Policy | None) -> str:
    if system is None or policies is None:
        missing = "the system" if system is None else "the stack of policies"
        return (
            f"Bounds over boxes need a system and policies, but {missing} is missing."
        )
    names = ", ".join(dict.fromkeys(kind.__name__ for kind, _ in ENCLOSURES))
    return (
        f"Bounds over boxes are there for {names} with linear policies, but got "
        f"{type(system).__name__} with {type(policies).__name__}. Give a Lipschitz "
        "constant that you know (certify(..., rates=...)), or certify by sampling "
        "(distribution=...)."
    )


def find_enclosure(
    system: System | None, policies: Policy | None, sources: Array, question: Question
) -> tuple[Enclosure | None, str]:
    """Return bounds over boxes for a system, or None and why.

    Args:
        system: the tasks.
        policies: a stack with leading dims `(source, policy)`.
        sources: full context rows of the sources.
        question: criterion and judge; its tolerance does not matter here.
    """
    reason = ""
    if not question.rule.has_box_bounds:
        return None, f"Bounds over boxes do not know criterion={question.criterion!r}."
    if system is None or policies is None:
        return None, reason
    if question.also:
        parts = []
        for demand in question.demands:
            part, reason = find_enclosure(system, policies, sources, demand)
            if part is None:
                return None, reason or _nobody(system, policies)
            parts.append(part)
        if question.asks_one_member(parts[0].n_policies):
            return None, (
                "Bounds over boxes for several demands with judge='best' are for one "
                f"policy per source, but families have {parts[0].n_policies} here. Use "
                "judge='worst', or give each policy as a source of its own."
            )
        return AllOf(parts, question), ""
    for kind, make in ENCLOSURES:
        if not isinstance(system, kind):
            continue
        if (other := overridden(type(system), kind)) is not None:
            reason = reason or (
                f"Bounds over boxes of {kind.__name__} are not about {other}, which "
                "computes J in its own way: hand its own bounds to "
                "certify(..., bounds=...), or add them to ENCLOSURES."
            )
            continue
        try:
            return make(system, policies, sources, question), ""
        except (NoEnclosureError, UntraceableError) as error:
            reason = str(error)
    return None, reason
