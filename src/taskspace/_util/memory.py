"""How much memory a command may use: what the user says, or what the machine has."""

import os
import re

from taskspace.errors import InvalidInputError, OutOfMemoryError

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
UNKNOWN = 2**33
LEAST = 2**28
"""Python and the libraries take this much by themselves."""

_limit: int | None = None


def size_in_bytes(text: str) -> int:
    """Return the bytes that a size stands for, `"4G"` or `"500M"`.

    Args:
        text: a number and a unit, in steps of 1024.
    """
    match = re.fullmatch(
        r"(\d+(?:\.\d*)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE
    )
    n_bytes = int(float(match[1]) * UNITS[match[2].upper()]) if match else 0
    if n_bytes < LEAST:
        raise InvalidInputError(
            "memory must be a size of at least 256M, such as 4G or 500M, but got "
            f"{text!r}."
        )
    return n_bytes


def limit(n_bytes: int | None) -> None:
    """Say how much memory may be used from now on.

    Args:
        n_bytes: the limit; None for what the machine has.
    """
    global _limit  # noqa: PLW0603 - one process, one limit
    _limit = n_bytes


def available() -> int:
    """Bytes that may be used in all: the limit, or the machine's memory."""
    if _limit is not None:
        return _limit
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return UNKNOWN


def check(n_bytes: int, what: str) -> None:
    """Refuse what would take more than half of what is available.

    Args:
        n_bytes: what it takes.
        what: what to call it, the subject of a sentence.
    """
    if n_bytes > available() // 2:
        raise OutOfMemoryError(
            f"{what} must fit into half of the memory ({available() / 2**31:.3g} GiB), "
            f"but needs at least {n_bytes / 2**30:.3g} GiB. Take fewer sources or "
            "targets, or allow more with --memory."
        )
