"""What exporters share."""

import json
from collections.abc import Sequence

from taskspace.deploy.base import PolicyLibrary
from taskspace.deploy.files import contract

__all__ = ["contract_bytes"]


def contract_bytes(
    library: PolicyLibrary,
    command: str | None,
    arithmetic: str = "double",
    notes: Sequence[str] = (),
) -> bytes:
    """The contract that lies beside every export.

    Args:
        library: the library.
        command: what was typed to make it.
        arithmetic: precision of the export.
        notes: what else its users must know.
    """
    record = contract(library, command=command, arithmetic=arithmetic, notes=notes)
    text = json.dumps(record, indent=1, allow_nan=False, ensure_ascii=False)
    return (text + "\n").encode()
