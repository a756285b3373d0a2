"""What exporters share."""

import json
from collections.abc import Sequence
from dataclasses import replace

from taskspace.deploy.base import PolicyLibrary
from taskspace.deploy.files import contract
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearController, LinearGain


def memoryless(library: PolicyLibrary, what: str) -> PolicyLibrary:
    """Return a library whose policies act on what is seen now; refuse states.

    Controllers without states become gains of what is measured.

    Args:
        library: the library.
        what: what knows no states.
    """
    stack = library.policies
    if not isinstance(stack, LinearController):
        return library
    if stack.n_states:
        raise InvalidInputError(
            f"{what} maps what is measured to an action, but these controllers have "
            f"states of their own ({stack.n_states}). PI and PID controllers run as C "
            "with export_pid (--as pid --dt STEP); tables (--as tables) hold them all."
        )
    return replace(library, policies=LinearGain(stack.D))


def contract_bytes(
    library: PolicyLibrary,
    command: str | None,
    arithmetic: str = "double",
    notes: Sequence[str] = (),
) -> bytes:
    """Return the contract that lies beside every export.

    Args:
        library: the library.
        command: what was typed to make it.
        arithmetic: precision of the export.
        notes: what else its users must know.
    """
    record = contract(library, command=command, arithmetic=arithmetic, notes=notes)
    text = json.dumps(record, indent=1, allow_nan=False, ensure_ascii=False)
    return (text + "\n").encode()
