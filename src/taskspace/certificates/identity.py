"""Hashes of what a statement is about: of samples their seed, of proofs their subject.

A selection that is changed after a refusal must be judged on samples that no choice has
seen. So samples are drawn by a generator whose seed is a hash of all that a statement
is about: the policies, what the table says of them, the contexts, the assignment and
the question. The same statement repeated has the same samples; any other has others.
And a proof about some gains says nothing about others, so it keeps their hashes.
"""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace.certificates.boxes.enclosures import Boxes, Enclosure
from taskspace.errors import InvalidInputError
from taskspace.policies import Policy
from taskspace.questions import Question
from taskspace.systems.base import System
from taskspace.systems.linear import LinearSystem

SEED_BYTES = 16


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


class _IncomparableError(Exception):
    """A value whose bytes do not say what it is, e.g. a function."""


def sample_seed(*parts: Any) -> int:
    """Return the seed of the samples that judge a statement.

    Args:
        parts: all that the statement is about: numbers, text, arrays, policies, and
            lists and mappings of these. Where one of them is another Python object, of
            which it cannot be seen whether it has changed, the seed is a new one every
            time.

    Examples:
        >>> sample_seed("draws", 0.2, [1, 2]) == sample_seed("draws", 0.2, [1, 2])
        True
        >>> sample_seed("draws", 0.2, [1, 2]) == sample_seed("draws", 0.2, [1, 3])
        False
        >>> sample_seed(print) == sample_seed(print)
        False
    """
    digest = hashlib.blake2b(digest_size=SEED_BYTES)
    try:
        _add(digest, parts)
    except _IncomparableError:
        return secrets.randbits(8 * SEED_BYTES)
    return int.from_bytes(digest.digest(), "big")


def digest_of(value: Any) -> str:
    """Return a hash of a value; other Python objects in it are told by identity.

    Args:
        value: as a part of `sample_seed`.
    """
    digest = hashlib.sha256()
    _add(digest, value, by_identity=True)
    return digest.hexdigest()


def describe_selection(
    table: xr.Dataset,
    question: Question,
    assignment: NDArray[np.integer],
    system: System,
    policies: Policy,
) -> dict[str, Any]:
    """Describe what is judged: selected policies, what the table says, the question.

    Args:
        table: the table that the selection was chosen on.
        question: what the selection answers.
        assignment: source of each target, −1 for none.
        system: the tasks.
        policies: the stack that the table was made with.
    """
    sources = np.unique(assignment[assignment >= 0]).tolist()
    return {
        "question": question.to_dict(),
        "system": [system.id, plain_settings(system)],
        "assignment": np.asarray(assignment, np.int64),
        "sources": sources,
        "policies": [policies[s : s + 1] for s in sources],
        "losses": [question.rows(table, slice(s, s + 1)) for s in sources],
    }


def plain_settings(system: System) -> dict[str, Any]:
    """Return the settings of a system without code, which cannot be compared.

    Args:
        system: the tasks; their numbers tell what the code does.
    """
    plain = {}
    for name, value in system.settings().items():
        try:
            _add(hashlib.blake2b(), value)
        except _IncomparableError:
            continue
        plain[name] = value
    return plain


def _add(digest: _Digest, value: Any, *, by_identity: bool = False) -> None:
    """Add a value so that no two different ones add the same bytes."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        _write(digest, type(value).__name__, repr(value).encode())
        return
    if isinstance(value, np.ndarray) and value.dtype != object:
        _write(digest, f"{value.dtype.str}{value.shape}", value.tobytes())
        return
    if isinstance(value, np.ndarray):
        _write(digest, "objects", repr(value.shape).encode())
        value = value.ravel().tolist()
    elif isinstance(value, Policy):
        arrays = {name: np.asarray(array) for name, array in value.arrays().items()}
        value = [value.kind, arrays, _settings(value)]
    elif isinstance(value, Mapping):
        value = [[name, value[name]] for name in sorted(value, key=repr)]
    if isinstance(value, Sequence):
        _write(digest, "list", repr(len(value)).encode())
        for item in value:
            _add(digest, item, by_identity=by_identity)
    elif by_identity:
        _write(digest, "object", repr(id(value)).encode())
    else:
        raise _IncomparableError


def _settings(policy: Policy) -> dict[str, Any]:
    try:
        return policy.settings()
    except InvalidInputError:  # of Python objects, which are among the arrays
        return {}


def _write(digest: _Digest, kind: str, data: bytes) -> None:
    digest.update(f"{kind} {len(data)} ".encode())
    digest.update(data)


# Contexts of the box, beside its ends and its middle, at which systems are compared.
N_DRAWN = 5


@dataclass(frozen=True, eq=False)
class ProofSubject:
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
    contexts: Array
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
        now = describe_system(system, self.contexts)
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
            for source, digest in zip(self.sources, self.policies, strict=True)
            if digest_of(policies[source : source + 1]) != digest
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
) -> ProofSubject | None:
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
    contexts = contexts_of_comparison(boxes.low.min(0), boxes.high.max(0))
    chosen = tuple(int(source) for source in sources)
    return ProofSubject(
        enclosure.question.at(epsilon),
        enclosure.n_sources,
        chosen,
        tuple(digest_of(policies[source : source + 1]) for source in chosen),
        describe_system(system, contexts),
        contexts,
        policies[list(chosen)],
    )


def contexts_of_comparison(low: Array, high: Array) -> Array:
    """Return contexts of a box at which systems are compared: ends, middle, and others.

    Args:
        low: lower end on each axis.
        high: upper end on each axis.
    """
    share = np.random.default_rng(0).random((N_DRAWN, len(low)))
    drawn = np.clip(low + share * (high - low), low, high)
    return np.concatenate([[low, high, low / 2 + high / 2], drawn])


def describe_system(system: System, contexts: Array) -> dict[str, str]:
    """Return hashes of what makes up a system, by name.

    Args:
        system: the tasks.
        contexts: full context rows at which its matrices are hashed.
    """
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
