"""What a cover of a box is about: its policies, its system and its question.

A proof about some gains says nothing about others. So a cover of a box carries hashes
of all that it was proven for, and whoever deploys it compares.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.certificates.boxes.enclosures import Boxes, Enclosure
from taskspace.certificates.identity import digest_of, plain_settings
from taskspace.policies import Policy
from taskspace.questions import Question
from taskspace.systems.base import System
from taskspace.systems.linear import LinearSystem

__all__ = ["Subject", "subject_of"]

# Contexts of the box, beside its ends and its middle, at which systems are compared.
N_DRAWN = 5


@dataclass(frozen=True, eq=False)
class Subject:
    """What a cover of a box is about.

    Args:
        question: what it answers.
        n_sources: how many sources its numbers count.
        sources: the selected sources.
        policies: hash of the policies of each of them.
        system: hashes of what makes up the system, by name.
        contexts: full context rows at which the matrices of the system were hashed.
        stack: the policies themselves; Python objects are compared by identity.
    """

    question: Question
    n_sources: int
    sources: tuple[int, ...]
    policies: tuple[str, ...]
    system: Mapping[str, str]
    contexts: NDArray[np.float64]
    stack: Policy

    def difference(
        self, question: Question, system: System, policies: Policy, n_sources: int
    ) -> str:
        """Return what is not as it was proven, as the end of a sentence, or nothing.

        Args:
            question: what is asked now.
            system: the tasks that it is used for.
            policies: a stack with leading dims `(source, policy)`, of all sources.
            n_sources: how many sources there are now.
        """
        if question != self.question:
            return f"the question was '{self.question.statement}'"
        now = _describe_system(system, self.contexts)
        changed = [
            name for name in {**self.system, **now}
            if self.system.get(name) != now.get(name)
        ]  # fmt: skip
        if changed:
            return f"the system had other {' and '.join(changed)}"
        if n_sources != self.n_sources:
            return (
                f"its numbers count {self.n_sources} sources, and there are "
                f"{n_sources}; a cover of enclosure.subset(sources) needs the table "
                "and the policies of these sources"
            )
        other = [
            str(source)
            for source, known in zip(self.sources, self.policies, strict=True)
            if digest_of(policies[source : source + 1]) != known
        ]
        if other:
            more = f" and {len(other) - 5} more" if len(other) > 5 else ""
            return f"source {', '.join(other[:5])}{more} had other policies"
        return ""


def subject_of(
    enclosure: Enclosure,
    sources: Sequence[int] | NDArray[np.integer],
    boxes: Boxes,
    epsilon: float,
) -> Subject | None:
    """Return what a cover is about, None where its enclosure does not tell.

    Args:
        enclosure: the bounds.
        sources: numbers of the selected sources.
        boxes: where the cover was checked.
        epsilon: tolerance.
    """
    system, policies = enclosure.system, enclosure.policies
    if system is None or policies is None:
        return None
    low, high = boxes.low.min(0), boxes.high.max(0)
    share = np.random.default_rng(0).random((N_DRAWN, len(low)))
    drawn = np.clip(low + share * (high - low), low, high)
    contexts = np.concatenate([[low, high, low / 2 + high / 2], drawn])
    chosen = tuple(int(source) for source in sources)
    return Subject(
        enclosure.question.at(epsilon),
        enclosure.n_sources,
        chosen,
        tuple(digest_of(policies[source : source + 1]) for source in chosen),
        _describe_system(system, contexts),
        contexts,
        policies[list(chosen)],
    )


def _describe_system(system: System, contexts: NDArray[np.float64]) -> dict[str, str]:
    """Hashes of what makes up a system, by name."""
    parts: dict[str, Any] = {
        "id": system.id,
        "axes": [axis.name for axis in system.axes],
        "settings": plain_settings(system),
    }
    if isinstance(system, LinearSystem):
        parts["time"] = [system.is_continuous, float(system.horizon)]
        parts["initial states"] = system.initial_covariance
        if len(system.axes) == contexts.shape[1]:
            matrices = system.matrices(contexts), system.output_matrix(contexts)
            parts["matrices"] = [*matrices[0], matrices[1]]
    return {name: digest_of(part) for name, part in parts.items()}
