"""Blocks as bytes: policies as npz files, rows of the table too.

Both are plain arrays, in which nothing is pickled. The bytes of a file
are compared with the checksum in the manifest before they become numbers.
"""

import io
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
import xarray as xr
from numpy.typing import NDArray
from xarray.backends import BackendArray
from xarray.core import indexing

from taskspace.errors import DamagedFileError, TaskspaceError
from taskspace.performance.io.limits import read_arrays
from taskspace.performance.table import DIMS
from taskspace.performance.work import Task, TrainedBlock
from taskspace.policies import Policy, check_storable, policy_class
from taskspace.trainers.base import Trained

LEVEL = 1  # of compression: returns shrink tenfold, costs a little, both at once


def dtype_of(variable: str) -> np.dtype:
    """Type of a variable on disk.

    Args:
        variable: its name.
    """
    return np.dtype("<f4" if variable == "returns" else "<f8")


def pack_rows(variables: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the bytes of an npz file; equal arrays give equal bytes.

    Args:
        variables: whole chunks, by name; a short last one is filled up with NaN.
    """
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, values in variables.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, values, allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy")  # its date is always the same
            data, how = member.getbuffer(), zipfile.ZIP_DEFLATED
            archive.writestr(info, data, how, compresslevel=LEVEL)
    return file.getvalue()


def unpack_rows(
    data: bytes, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, NDArray[Any]]:
    """Return what `pack_rows` packed.

    Args:
        data: the bytes of the file.
        shapes: the shape that each variable must have.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return {name: _member(archive, name, shapes[name]) for name in shapes}
    except UNREADABLE as error:
        raise DamagedFileError(str(error)) from error


def _member(
    archive: zipfile.ZipFile, name: str, shape: tuple[int, ...]
) -> NDArray[Any]:
    """Return an array of an archive; one of another size is not unpacked."""
    dtype, most = dtype_of(name), 2**12
    with archive.open(f"{name}.npy") as member:
        np.lib.format.read_magic(member)
        found = np.lib.format.read_array_header_1_0(member)
        if found != (shape, False, dtype):
            raise ValueError(f"{name} has another shape or type")
        size = int(np.prod(shape)) * dtype.itemsize
        if archive.getinfo(f"{name}.npy").file_size > size + most:
            raise ValueError(f"{name} has another size")
        return np.frombuffer(member.read(), dtype).reshape(shape)


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
        return policy_class(self.kind).from_arrays(arrays, settings)


def pack_policies(block: TrainedBlock) -> bytes:
    """Return the bytes of an npz file; equal arrays give equal bytes.

    Args:
        block: policies, counts and scores at home.
    """
    policies = block.trained.policies
    check_storable(type(policies))
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
