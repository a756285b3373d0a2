"""A checksum of all that a matrix file says, so that a damaged one is found out.

Files of `write_matrix` carry it, in every format but text and `.npy`. Files of others
have none, and are taken as they are.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError

__all__ = ["check_seal", "seal"]

BLOCK = 1_000_000


def seal(contents: Mapping[str, Any]) -> str:
    """CRC-32C of names and values, the same for every way to store them.

    Args:
        contents: arrays of numbers, texts, numbers and lists of them, by name; None
            and empty entries do not count.
    """
    total = google_crc32c.Checksum()
    for name, value in sorted(contents.items()):
        if value is None:
            continue
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
            total.update(json.dumps([name, value.shape]).encode())
            for block in _blocks(np.ascontiguousarray(value).reshape(-1)):
                total.update(block)
        else:
            total.update(json.dumps([name, value], default=str).encode())
    return total.hexdigest().decode()


def _blocks(values: NDArray[Any]) -> Iterator[bytes]:
    """The bytes of numbers as 8-byte ones, some at a time."""
    for first in range(0, len(values), BLOCK):
        block = values[first : first + BLOCK].astype("<f8")
        block[np.isnan(block)] = np.nan  # one NaN of many
        yield block.tobytes()


def check_seal(given: Any, contents: Mapping[str, Any], origin: str) -> None:
    """Refuse contents that are not those that were sealed.

    Args:
        given: the seal in the file, None if it has none.
        contents: what was read.
        origin: what to call the file.
    """
    if given is not None and str(given) != seal(contents):
        raise InvalidInputError(
            f"{origin} is damaged: its checksum does not fit what it holds. If you "
            "changed it on purpose, take its checksum (crc32c) out."
        )
