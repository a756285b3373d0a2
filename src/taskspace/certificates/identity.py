"""Hashes of what a statement is about: of samples their seed, of proofs their subject.

Whoever changes a selection after a refusal must be judged on samples that he has not
seen. So samples are drawn by a generator whose seed is a hash of all that a statement
is about: the policies, what the table says of them, the contexts, the assignment and
the question. The same statement repeated has the same samples; any other has others.
And a proof about some gains says nothing about others, so it keeps their hashes.
"""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.policies import Policy
from taskspace.questions import Question
from taskspace.systems.base import System

__all__ = ["describe_selection", "digest_of", "plain_settings", "sample_seed"]

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
            which nobody can tell whether it has changed, the seed is a new one every
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
    kept = {}
    for name, value in system.settings().items():
        try:
            _add(hashlib.blake2b(), value)
        except _IncomparableError:
            continue
        kept[name] = value
    return kept


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
