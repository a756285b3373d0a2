"""How much memory the machine has, and whether something fits into it."""

import os

from taskspace.errors import OutOfMemoryError

UNKNOWN = 2**33
"""What is taken for the memory of a machine that does not say."""


def available() -> int:
    """Return the bytes of memory that the machine has."""
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
            "targets."
        )
