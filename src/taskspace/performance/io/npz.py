"""NumPy's own files: numbers and texts, never pickled objects."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.performance.io.limits import check_bytes

__all__ = ["read_arrays"]


def read_arrays(
    source: str | Path | IO[bytes],
    origin: str,
    *,
    known: Mapping[str, NDArray[Any]] | None = None,
    only: tuple[str, ...] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> dict[str, NDArray[Any]]:
    """Return the arrays of an npz file, by name.

    Args:
        source: the file.
        origin: what to call it.
        known: arrays that were read before, which are not read again.
        only: names that are wanted; all if left out.
        shapes: what shape some of them must have.
    """
    arrays = dict(known or {})
    with zipfile.ZipFile(source) as archive:
        check_bytes(sum(member.file_size for member in archive.infolist()), origin)
    if not isinstance(source, str | Path):
        source.seek(0)
    with np.load(source, allow_pickle=False) as file:
        for name in file.files:
            if name not in arrays and (only is None or name in only):
                arrays[name] = file[name]
    for name, shape in (shapes or {}).items():
        if name in arrays and arrays[name].shape != shape:
            raise InvalidInputError(
                f"{origin} is not whole: {name} must have the shape {shape}, but has "
                f"{arrays[name].shape}."
            )
    return arrays
