"""NumPy's own files, read with care: no header and no zip file is believed.

A header of a hundred bytes can declare terabytes, and a zip file of a few megabytes can
unpack to as much; what is declared is held against what is there, and against the
memory, before anything is allocated.
"""

import tokenize
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.performance.io.limits import check_bytes, check_cells

__all__ = ["read_array", "read_arrays"]

PIECE = 2**24
"""Bytes that are unpacked at a time."""

HEADERS = {
    (1, 0): npy_format.read_array_header_1_0,
    (2, 0): npy_format.read_array_header_2_0,
}


def read_arrays(
    source: str | Path | IO[bytes],
    origin: str,
    *,
    known: Mapping[str, NDArray[Any]] | None = None,
    only: tuple[str, ...] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> dict[str, NDArray[Any]]:
    """The arrays of an npz file, by name.

    Args:
        source: the file.
        origin: what to call it.
        known: arrays that were read before, which are not read again.
        only: names that are wanted; all if left out.
        shapes: what shape some of them must have, compared before they are read.
    """
    found = dict(known or {})
    with zipfile.ZipFile(source) as archive:
        members = archive.infolist()
        check_bytes(sum(member.file_size for member in members), origin)
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in found or (only is not None and name not in only):
                continue
            with archive.open(member) as file:
                shape = (shapes or {}).get(name)
                found[name] = read_array(file, member.file_size, origin, shape)
    return found


def read_array(
    file: IO[bytes], n_bytes: int, origin: str, shape: tuple[int, ...] | None = None
) -> NDArray[Any]:
    """An array in NumPy's format, after its header has been held against the file.

    Args:
        file: open at its beginning.
        n_bytes: how long it is.
        origin: what to call it.
        shape: the shape that it must have, if that is known.
    """
    version = npy_format.read_magic(file)
    if version not in HEADERS:
        raise InvalidInputError(
            f"{origin} must have format version 1 or 2 of NumPy, but has {version}."
        )
    try:
        declared, fortran, dtype = HEADERS[version](file)
    except (SyntaxError, tokenize.TokenError, RecursionError) as error:
        # NumPy reads a header with the parser of Python.
        raise InvalidInputError(
            f"{origin} is not whole: an array has no header that can be read."
        ) from error
    if dtype.hasobject:
        raise InvalidInputError(
            f"{origin} must hold numbers, but holds pickled objects, which can run "
            "code when they are read."
        )
    if shape is not None and declared != shape:
        raise InvalidInputError(
            f"{origin} is not whole: an array must have the shape {shape}, but has "
            f"{declared}."
        )
    count = 1
    for n in declared:
        count *= n
    size = count * dtype.itemsize
    if min(declared, default=0) < 0 or size > n_bytes:
        raise InvalidInputError(
            f"{origin} is not whole: its header declares shape {declared} of {dtype}, "
            f"which is more than the {n_bytes:,} bytes that are there."
        )
    if dtype.kind in "fiub":
        check_cells(count, origin)
    data = bytearray(size)
    _fill(memoryview(data), file, origin)
    if file.read(1):  # to the end, where a zip file has its checksum
        raise InvalidInputError(f"{origin} is not whole: an array has bytes behind it.")
    array = np.frombuffer(data, dtype, count)
    return array.reshape(declared, order="F" if fortran else "C")


def _fill(data: memoryview, file: IO[bytes], origin: str) -> None:
    filled = 0
    while filled < len(data):
        piece = file.read(min(PIECE, len(data) - filled))
        if not piece:
            raise InvalidInputError(f"{origin} is not whole: an array is cut short.")
        data[filled : filled + len(piece)] = piece
        filled += len(piece)
