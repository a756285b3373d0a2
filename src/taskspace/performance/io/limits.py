"""What a file may ask for: sizes are checked before anything is allocated.

A header of a hundred bytes can declare terabytes, and a few megabytes can unpack to
as much. Half of the machine's memory is the limit for the numbers of one file.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from taskspace._util import memory as _memory
from taskspace._util.words import data_size
from taskspace.errors import InvalidInputError

__all__ = ["check_bytes", "check_cells", "check_file", "check_zarr", "memory_limit"]

MAX_CHUNKS = 20_000
"""Chunks of one Zarr store; about 6,000 are read a second."""

MAX_METADATA_BYTES = 2**24


def memory_limit() -> int:
    """Bytes that the numbers of one file may take: half of the memory."""
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


def check_zarr(path: Path) -> None:
    """Refuse a Zarr store that is too large, too finely cut, or holds objects.

    Args:
        path: the directory.
    """
    n_cells = n_chunks = 0
    for meta in _array_metadata(path):
        if "pickle" in json.dumps(meta):
            raise InvalidInputError(
                f"{path} must hold numbers, but one of its arrays holds pickled "
                "objects, which can run code when they are read."
            )
        shape = _whole_numbers(meta.get("shape"), path)
        chunk = _whole_numbers(_chunk_shape(meta), path)
        cells = chunks = 1
        for n, step in zip(shape, chunk or shape, strict=False):
            cells *= n
            chunks *= -(-n // max(step, 1))
        n_cells, n_chunks = n_cells + cells, n_chunks + chunks
    check_cells(n_cells, str(path))
    if n_chunks > MAX_CHUNKS:
        raise InvalidInputError(
            f"A Zarr store must have at most {MAX_CHUNKS:,} chunks to be read in "
            f"reasonable time, but {path} has {n_chunks:,}. Write it again with larger "
            "chunks."
        )


def _array_metadata(path: Path) -> Iterator[Mapping[str, Any]]:
    """The metadata of a store's arrays, in either version of the format."""
    for pattern in ("*/zarr.json", "*/.zarray"):
        for file in path.glob(pattern):
            if file.stat().st_size > MAX_METADATA_BYTES:
                raise InvalidInputError(
                    f"{file} must describe an array, but has "
                    f"{data_size(file.stat().st_size)}."
                )
            meta = json.loads(file.read_bytes())
            if isinstance(meta, Mapping) and "shape" in meta:
                yield meta


def _chunk_shape(meta: Mapping[str, Any]) -> Any:
    """The shape of what is decoded at once; of inner chunks where there are shards."""
    if "chunks" in meta:
        return meta["chunks"]
    for codec in meta.get("codecs") or ():
        if isinstance(codec, Mapping) and codec.get("name") == "sharding_indexed":
            return codec["configuration"]["chunk_shape"]
    return meta["chunk_grid"]["configuration"]["chunk_shape"]


def _whole_numbers(values: Any, path: Path) -> list[int]:
    if not isinstance(values, list) or not all(isinstance(v, int) for v in values):
        raise InvalidInputError(
            f"The shapes of the arrays of {path} must be whole numbers, but one is "
            f"{values!r}."
        )
    return values
