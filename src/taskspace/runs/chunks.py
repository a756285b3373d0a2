"""Variables of a table on disk: chunks as Zarr has them, read or computed lazily.

Chunks are written and read here, so that their bytes can be compared with the
checksum in the block's record before they become numbers; `table.zarr` is plain Zarr
all the same, for notebooks: `xarray.open_zarr(run / "table.zarr")`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numcodecs.zstd import Zstd
from numpy.typing import NDArray
from xarray.backends import BackendArray
from xarray.core import indexing

from taskspace.performance.ledger import Task, TrainedBlock
from taskspace.performance.table import DIMS

if TYPE_CHECKING:
    from taskspace.runs.store import RunStore

__all__ = [
    "computed_variables",
    "create_arrays",
    "decode",
    "encode",
    "stored_variables",
]

LEVEL = 1  # of compression: returns shrink tenfold, costs a little, both at once


def dtype_of(variable: str) -> np.dtype:
    """Type of a variable on disk.

    Args:
        variable: its name.
    """
    return np.dtype("<f4" if variable == "returns" else "<f8")


def encode(values: NDArray[Any], chunk: tuple[int, ...], variable: str) -> bytes:
    """The bytes of a chunk; a last one that is short is filled up with NaN.

    Args:
        values: rows of the variable.
        chunk: shape of a whole chunk.
        variable: its name.
    """
    whole = np.full(chunk, np.nan, dtype_of(variable))
    whole[: len(values)] = values
    return Zstd(level=LEVEL).encode(whole)


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


def create_arrays(path: Path, store: "RunStore") -> None:
    """The metadata of the table, with contexts and units as coordinates.

    Args:
        path: the Zarr group.
        store: the run.
    """
    import zarr  # takes a while to load, and reading needs none of it
    from zarr.codecs import ZstdCodec

    # Only metadata and coordinates: what this writes again leaves chunks as they are.
    for pattern in ("zarr.json", "*.partial"):  # and what Zarr left of them when killed
        for old in list(path.rglob(pattern)):
            old.unlink()
    group = zarr.open_group(path, mode="a", attributes=dict(store.notes))
    layout, experiment = store.layout, store.experiment
    spaces = {"source": experiment.sources, "target": experiment.target_space}
    contexts = [
        f"{dim}_{name}" for dim, space in spaces.items() for name in space.names
    ]
    for name in layout.variables:
        group.create_array(
            name,
            shape=tuple(layout.sizes[dim] for dim in DIMS[name]),
            chunks=layout.chunk(name),
            dtype=dtype_of(name),
            compressors=ZstdCodec(level=LEVEL),
            fill_value=np.nan,
            dimension_names=DIMS[name],
            attributes={"coordinates": " ".join(contexts)},  # xarray reads it
        )
    units = {axis["name"]: axis["unit"] for axis in store.system["axes"]}
    for dim, space in spaces.items():
        for name, column in zip(space.names, space.points.T, strict=True):
            group.create_array(
                f"{dim}_{name}",
                data=np.ascontiguousarray(column),
                dimension_names=(dim,),
                attributes={"units": units.get(name, ""), "long_name": name},
            )


class _Rows(BackendArray):
    """A variable of which whole rows are made, and then cut to what is wanted."""

    def __init__(self, variable: str, shape: tuple[int, ...]):
        self.variable, self.shape = variable, shape
        self.dtype = dtype_of(variable)

    def rows(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """Rows of some sources, in this order."""
        raise NotImplementedError

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


class _Stored(_Rows):
    """Rows from the chunks of the finished blocks; the last block stays at hand."""

    def __init__(self, store: "RunStore", done: Sequence[int], variable: str):
        layout = store.layout
        blocks = layout.blocks("evaluate")
        self._store = store
        self._block = np.concatenate(
            [np.full(blocks[b].stop - blocks[b].start, b) for b in done]
        )
        self._place = np.concatenate(
            [np.arange(blocks[b].stop - blocks[b].start) for b in done]
        )
        sizes = layout.sizes | {"source": len(self._block)}
        super().__init__(variable, tuple(sizes[dim] for dim in DIMS[variable]))
        self._cached: tuple[int, NDArray[Any]] | None = None

    def rows(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """Rows of some sources, block by block."""
        out = np.empty((len(numbers), *self.shape[1:]), self.dtype)
        blocks = self._block[numbers]
        for block in np.unique(blocks).tolist():
            mine = blocks == block
            out[mine] = self._read(block)[self._place[numbers[mine]]]
        return out

    def _read(self, block: int) -> NDArray[Any]:
        if self._cached is None or self._cached[0] != block:
            values = self._store.read_chunk(self.variable, block)
            self._cached = block, values
        return self._cached[1]


class _Computed(_Rows):
    """Rows that are evaluated from the policies when they are asked for."""

    def __init__(
        self, task: Task, stack: TrainedBlock, variable: str, sizes: dict[str, int]
    ):
        super().__init__(variable, tuple(sizes[dim] for dim in DIMS[variable]))
        self._task, self._stack = task, stack

    def rows(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """J, or its reduction, for some sources."""
        name = self.variable
        return self._task.variables(self._stack[numbers], (name,))[name]


def stored_variables(
    store: "RunStore", done: Sequence[int], names: Sequence[str]
) -> dict[str, xr.Variable]:
    """Variables that are read from the chunks of some blocks as they are needed.

    Args:
        store: the run.
        done: numbers of the finished blocks.
        names: the variables.
    """
    return {name: _lazy(_Stored(store, done, name)) for name in names}


def computed_variables(
    task: Task, stack: TrainedBlock, sizes: dict[str, int], names: Sequence[str]
) -> dict[str, xr.Variable]:
    """Variables that are computed from the policies as they are needed.

    Args:
        task: system and targets.
        stack: policies of all sources.
        sizes: length of each dim.
        names: the variables.
    """
    return {name: _lazy(_Computed(task, stack, name, sizes)) for name in names}


def _lazy(rows: _Rows) -> xr.Variable:
    return xr.Variable(DIMS[rows.variable], indexing.LazilyIndexedArray(rows))
