"""Variables of a table on disk: chunks as Zarr has them, read or computed lazily.

Chunks are written and read here, so that their bytes can be compared with the
checksum in the manifest before they become numbers; `table.zarr` is plain Zarr all the
same, for notebooks: `xarray.open_zarr(run / "trainings" / "table.zarr")`.
"""

from collections.abc import Callable, Iterable, Mapping
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

LEVEL = 1  # of compression: returns shrink tenfold, costs a little, both at once


def dtype_of(variable: str) -> np.dtype:
    """Type of a variable on disk.

    Args:
        variable: its name.
    """
    return np.dtype("<f4" if variable == "returns" else "<f8")


def encode(values: NDArray[Any]) -> bytes:
    """Return the bytes of a chunk.

    Args:
        values: a whole chunk; a last one that is short is filled up with NaN.
    """
    return Zstd(level=LEVEL).encode(values)


def decode(data: bytes, chunk: tuple[int, ...], variable: str) -> NDArray[Any]:
    """Return the numbers of a chunk.

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
    """Write the metadata of the table, with contexts and units as coordinates.

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
    """A variable of which whole rows are made, and then cut to what is wanted.

    Args:
        variable: name of the variable.
        shape: its shape.
        rows: gives rows of some sources, in the order asked for.
    """

    def __init__(
        self,
        variable: str,
        shape: tuple[int, ...],
        rows: Callable[[NDArray[np.int64]], NDArray[Any]],
    ):
        self.shape, self.dtype = shape, dtype_of(variable)
        self._variable, self._rows = variable, rows

    def variable(self) -> xr.Variable:
        """Return the variable of a table that reads these rows."""
        return xr.Variable(DIMS[self._variable], indexing.LazilyIndexedArray(self))

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.OUTER_1VECTOR, self._get
        )

    def _get(self, key: tuple[Any, ...]) -> Any:
        numbers = np.arange(self.shape[0])[key[0]]
        values = self._rows(np.atleast_1d(numbers))[(slice(None), *key[1:])]
        return values if np.ndim(numbers) else values[0]


def computed_rows(
    task: Task, stack: TrainedBlock, names: Iterable[str]
) -> dict[str, xr.Variable]:
    """Return variables of a table that are evaluated when they are asked for.

    Args:
        task: system and targets.
        stack: policies of the rows.
        names: names of the variables.
    """
    sizes = {"policy": stack.home.shape[1], "target": len(task.targets)}

    def variable(name: str) -> xr.Variable:
        shape = (len(stack.home), *(sizes[dim] for dim in DIMS[name][1:]))
        made = LazyRows(name, shape, lambda n: task.variables(stack[n], (name,))[name])
        return made.variable()

    return {name: variable(name) for name in names}
