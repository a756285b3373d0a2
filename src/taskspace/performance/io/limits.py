"""What is refused of a file: too large for the memory, pickled, damaged."""

import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util import memory as _memory
from taskspace._util.words import data_size
from taskspace.errors import InvalidInputError


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
            f"The numbers of one file must fit into half of the memory "
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


def read_arrays(source: str | Path | IO[bytes], origin: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of an npz file, by name.

    Args:
        source: the file.
        origin: what to call it.
    """
    with zipfile.ZipFile(source) as archive:
        check_bytes(sum(member.file_size for member in archive.infolist()), origin)
        for member in archive.infolist():
            with archive.open(member) as file:
                _check_member(file, member, origin)
    if not isinstance(source, str | Path):
        source.seek(0)
    with np.load(source, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _check_member(file: IO[bytes], member: zipfile.ZipInfo, origin: str) -> None:
    """Refuse a member that is no array, or has not the size that its header says."""
    name, magic = member.filename, np.lib.format.MAGIC_PREFIX
    start = file.read(len(magic) + 2)
    if not name.endswith(".npy") or not start.startswith(magic):
        raise InvalidInputError(
            f"{origin} must hold arrays alone, but its member {name!r} is none."
        )
    is_first = start[len(magic) :] == b"\1\0"
    formats = np.lib.format
    read = formats.read_array_header_1_0 if is_first else formats.read_array_header_2_0
    shape, _, dtype = read(file)
    if not dtype.hasobject and math.prod(shape) * dtype.itemsize > member.file_size:
        raise ValueError(f"{name} is shorter than its header says")
