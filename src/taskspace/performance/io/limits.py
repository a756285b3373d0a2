"""How much memory the numbers of a file may take; checked before they are read."""

from pathlib import Path

from taskspace._util import memory as _memory
from taskspace._util.words import data_size
from taskspace.errors import InvalidInputError

__all__ = ["check_bytes", "check_cells", "check_file", "memory_limit"]


def memory_limit() -> int:
    """Return the bytes that the numbers of one file may take: half of the memory."""
    return _memory.available() // 2


def check_bytes(n_bytes: int, origin: str) -> None:
    """Refuse a file that would take more than the limit.

    Args:
        n_bytes: what it declares.
        origin: what to call the file.
    """
    limit = memory_limit()
    if n_bytes > limit:
        raise InvalidInputError(
            f"The numbers of a matrix must fit into half of the memory "
            f"({data_size(limit)}), but {origin} declares {data_size(n_bytes)}. Is the "
            "file damaged? Otherwise split it by targets."
        )


def check_cells(n_cells: int, origin: str) -> None:
    """Refuse a matrix with more cells than fit as 8-byte numbers.

    Args:
        n_cells: how many it declares.
        origin: what to call the file.
    """
    check_bytes(8 * n_cells, origin)


def check_file(path: Path, factor: int = 1) -> None:
    """Refuse a path that is no file, or one too large to be read whole.

    Args:
        path: the file.
        factor: bytes of memory that one byte of it takes.
    """
    if not path.is_file():
        raise InvalidInputError(f"Cannot read {path}: there is no such file.")
    check_bytes(factor * path.stat().st_size, str(path))
