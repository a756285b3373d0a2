"""Variables of a table on disk: chunks as Zarr has them, read or computed lazily.

Chunks are written and read here, so that their bytes can be compared with the
checksum in the manifest before they become numbers; `table.zarr` is plain Zarr all the
same, for notebooks: `xarray.open_zarr(run / "trainings" / "table.zarr")`.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numcodecs.zstd import Zstd
from numpy.typing import NDArray
from xarray.backends import BackendArray
from xarray.core import indexing

from taskspace.performance.store.records import Header
from taskspace.performance.table import DIMS
from taskspace.performance.work import Task, TrainedBlock
from taskspace.spaces import Space

__all__ = ["ComputedRows", "StoredRows", "create_arrays", "decode", "encode"]

LEVEL = 1  # of compression: returns shrink tenfold, costs a little, both at once


def dtype_of(variable: str) -> np.dtype:
    """Type of a variable on disk.

    Args:
        variable: its name.
    """
    return np.dtype("<f4" if variable == "returns" else "<f8")


def encode(values: NDArray[Any]) -> bytes:
    """The bytes of a chunk.

    Args:
        values: a whole chunk; a last one that is short is filled up with NaN.
    """
    return Zstd(level=LEVEL).encode(values)


def decode(data: bytes, chunk: tuple[int, ...], variable: str) -> NDArray[Any]:
    """The numbers of a chunk.

    Args:
        data: what `encode` gave.
        chunk: shape of a whole chunk.
        variable: its name.
    """
    values = np.empty(chunk, dtype_of(variable))
    # Into an array of the right size: a few bytes can unpack to any number of them.
    filled = Zstd().decode(data, out=values.reshape(-1).view(np.uint8))
    if len(filled) != values.nbytes:
        raise ValueError("it has another size")
    return values


def create_arrays(
    path: Path,
    header: Header,
    spaces: Mapping[str, Space],
) -> None:
    """The metadata of the table, with contexts and units as coordinates.

    Args:
        path: the Zarr group.
        header: what the directory says of itself.
        spaces: contexts, by `"source"` and `"target"`.
    """
    import zarr  # takes a while to load, and reading needs none of it
    from zarr.codecs import ZstdCodec

    # Only metadata and coordinates: what this writes again leaves chunks as they are.
    for pattern in ("zarr.json", "*.partial"):  # and what Zarr left of them when killed
        for old in list(path.rglob(pattern)):
            old.unlink()
    group = zarr.open_group(path, mode="a", attributes=dict(header.notes))
    layout = header.layout
    contexts = [
        f"{dim}_{name}" for dim, space in spaces.items() for name in space.names
    ]
    for name in layout.variables:
        group.create_array(
            name,
            shape=layout.shape(name, spaces["source"].size),
            chunks=layout.chunk(name),
            dtype=dtype_of(name),
            compressors=ZstdCodec(level=LEVEL),
            fill_value=np.nan,
            dimension_names=DIMS[name],
            attributes={"coordinates": " ".join(contexts)},  # xarray reads it
        )
    units = {axis["name"]: axis["unit"] for axis in header.system.axes}
    for dim, space in spaces.items():
        for name, column in zip(space.names, space.points.T, strict=True):
            group.create_array(
                f"{dim}_{name}",
                data=np.ascontiguousarray(column),
                dimension_names=(dim,),
                attributes={"units": units.get(name, ""), "long_name": name},
            )


class LazyRows(BackendArray):
    """A variable of which whole rows are made, and then cut to what is wanted."""

    def __init__(self, variable: str, shape: tuple[int, ...]):
        self.variable, self.shape = variable, shape
        self.dtype = dtype_of(variable)

    def rows(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """Rows of some sources, in this order."""
        raise NotImplementedError

    def variable_of(self) -> xr.Variable:
        """Return the variable of a table that reads these rows."""
        return xr.Variable(DIMS[self.variable], indexing.LazilyIndexedArray(self))

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.OUTER_1VECTOR, self._get
        )

    def _get(self, key: tuple[Any, ...]) -> Any:
        first, *rest = key
        numbers = np.arange(self.shape[0])[first]
        wanted = np.atleast_1d(numbers)
        values = self.rows(wanted)
        if np.ndim(numbers) == 0:
            values = values[0]
            return values[tuple(rest)]
        return values[(slice(None), *rest)]


class StoredRows(LazyRows):
    """Rows from the chunks of a directory; the last chunk stays at hand.

    Args:
        variable: name of the variable.
        shape: its shape.
        numbers: which rows of the directory these are.
        step: rows of a chunk.
        read: reads a chunk by its number.
    """

    def __init__(
        self,
        variable: str,
        shape: tuple[int, ...],
        numbers: NDArray[np.int64],
        step: int,
        read: Callable[[str, int], NDArray[Any]],
    ):
        super().__init__(variable, shape)
        self._numbers, self._step, self._read = numbers, step, read
        self._last: tuple[int, NDArray[Any]] | None = None

    def rows(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """Rows of some sources, chunk by chunk."""
        out = np.empty((len(numbers), *self.shape[1:]), self.dtype)
        blocks, places = np.divmod(self._numbers[numbers], self._step)
        for block in np.unique(blocks).tolist():
            if self._last is None or self._last[0] != block:
                self._last = block, self._read(self.variable, block)
            mine = blocks == block
            out[mine] = self._last[1][places[mine]]
        return out


class ComputedRows(LazyRows):
    """Rows that are evaluated from the policies when they are asked for.

    Args:
        variable: name of the variable.
        shape: its shape.
        task: system and targets.
        stack: policies of the rows.
    """

    def __init__(
        self, variable: str, shape: tuple[int, ...], task: Task, stack: TrainedBlock
    ):
        super().__init__(variable, shape)
        self._task, self._stack = task, stack

    def rows(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """J, or its reduction, for some sources."""
        name = self.variable
        return self._task.variables(self._stack[numbers], (name,))[name]
