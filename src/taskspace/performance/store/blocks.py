"""Blocks as bytes: policies as npz files, the table as chunks that Zarr reads.

Policies are an npz of plain arrays, in which nothing is pickled.

Chunks are written and read here, so that their bytes can be compared with the
checksum in the manifest before they become numbers; `table.zarr` is plain Zarr all the
same, for notebooks: `xarray.open_zarr(run / "trainings" / "table.zarr")`.
"""

import io
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import xarray as xr
from numcodecs.zstd import Zstd
from numpy.typing import NDArray
from xarray.backends import BackendArray
from xarray.core import indexing

from taskspace.errors import DamagedFileError, TaskspaceError
from taskspace.performance.io.limits import read_arrays
from taskspace.performance.store.records import Header
from taskspace.performance.table import DIMS
from taskspace.performance.work import Task, TrainedBlock
from taskspace.policies import POLICY_KINDS, Policy
from taskspace.spaces import Space
from taskspace.trainers.base import Trained

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


class _LazyRows(BackendArray):
    """A variable of which whole rows are made, and then cut to what is wanted."""

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype,
        rows: Callable[[NDArray[np.int64]], NDArray[Any]],
    ):
        self.shape, self.dtype, self._rows = shape, dtype, rows

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.OUTER_1VECTOR, self._get
        )

    def _get(self, key: tuple[Any, ...]) -> Any:
        numbers = np.arange(self.shape[0])[key[0]]
        values = self._rows(np.atleast_1d(numbers))[(slice(None), *key[1:])]
        return values if np.ndim(numbers) else values[0]


def lazy_variable(
    name: str,
    sizes: Mapping[str, int],
    rows: Callable[[NDArray[np.int64]], NDArray[Any]],
) -> xr.Variable:
    """Return a variable of a table whose rows are made when they are needed.

    Args:
        name: its name.
        sizes: length of each dim.
        rows: gives rows of some sources, in the order asked for.
    """
    shape = tuple(sizes[dim] for dim in DIMS[name])
    array = _LazyRows(shape, dtype_of(name), rows)
    return xr.Variable(DIMS[name], indexing.LazilyIndexedArray(array))


def computed_rows(
    task: Task, stack: TrainedBlock, names: Iterable[str]
) -> dict[str, xr.Variable]:
    """Return variables of a table that are evaluated when they are asked for.

    Args:
        task: system and targets.
        stack: policies of the rows.
        names: names of the variables.
    """
    n_sources, n_policies = stack.home.shape
    sizes = {"source": n_sources, "policy": n_policies, "target": len(task.targets)}
    return {
        name: lazy_variable(
            name, sizes, lambda n, name=name: task.variables(stack[n], (name,))[name]
        )
        for name in names
    }


# --- policies ------------------------------------------------------------------------

UNREADABLE = (
    OSError, AttributeError, LookupError, TypeError, ValueError, EOFError, MemoryError,
    RecursionError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What reading a zip file of arrays may raise if it is not what was written."""


class PolicyFacts(msgspec.Struct, frozen=True):
    """What policies are beside their arrays.

    Args:
        kind: name of the kind, of `POLICY_KINDS`.
        settings: what is not an array.
    """

    kind: str
    settings: dict[str, Any]

    def policies(self, arrays: dict[str, Any]) -> Policy:
        """Return the policies that these arrays are of.

        Args:
            arrays: by name.
        """
        settings = {
            key: float(value) if value in ("inf", "-inf", "Infinity") else value
            for key, value in self.settings.items()
        }
        return POLICY_KINDS[self.kind].from_arrays(arrays, settings)


def pack_policies(block: TrainedBlock) -> bytes:
    """Return the bytes of an npz file; equal arrays give equal bytes.

    Args:
        block: policies, counts and scores at home.
    """
    policies = block.trained.policies
    settings = {
        key: str(value) if value in (np.inf, -np.inf) else value
        for key, value in policies.settings().items()
    }
    header = msgspec.json.encode(PolicyFacts(policies.kind, settings)).decode()
    arrays = {f"policy_{k}": v for k, v in policies.arrays().items()}
    arrays |= {f"log_{k}": v for k, v in block.trained.log.items()}
    file = io.BytesIO()
    np.savez(
        file,
        allow_pickle=False,
        header=np.array(header),
        home=np.asarray(block.home, order="C"),
        environment_steps=block.trained.environment_steps,
        # In one order, so that equal arrays are equal bytes.
        **{name: np.asarray(values, order="C") for name, values in arrays.items()},
    )
    return file.getvalue()


def unpack_policies(data: bytes, shape: tuple[int, int]) -> TrainedBlock:
    """Return what `pack_policies` packed.

    Args:
        data: the bytes of the file.
        shape: sources and policies per source.
    """
    groups: dict[str, dict[str, Any]] = {"policy": {}, "log": {}}
    try:
        arrays = read_arrays(io.BytesIO(data), "it")
        text = str(arrays.pop("header")).replace("Infinity", '"inf"')
        facts = msgspec.json.decode(text.replace('-"inf"', '"-inf"'), type=PolicyFacts)
        home, steps = arrays.pop("home"), arrays.pop("environment_steps")
        for name, array in arrays.items():
            group, _, rest = name.partition("_")
            groups[group][rest] = array
        policies = facts.policies(groups["policy"])
        for array in (home, steps, *groups["policy"].values(), *groups["log"].values()):
            if array.shape[:2] != shape or array.dtype.kind not in "fiub":
                raise ValueError("its arrays are not of the sources it should have")
    except (*UNREADABLE, TaskspaceError) as error:
        raise DamagedFileError(str(error)) from error
    return TrainedBlock(Trained(policies, steps, groups["log"]), home)
