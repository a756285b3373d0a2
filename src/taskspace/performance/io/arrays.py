"""Arrays: npz and npy files, and xarray datasets.

They hold `performance` with dims `(source, target)` or `(source, policy, target)` and,
if wanted, `home` (or `home_performance`), `best_known`, `standard_error` in the shape
of `performance`, and the contexts as `source_k`, `target_k`, … for an axis `k`.
Names are `source` and `target`. What the numbers are (`provenance`, `n_episodes`) is an
attribute, or an array of one value.
"""

import math
import zipfile
from pathlib import Path
from typing import IO, Any, get_args

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace._util.files import check_cells, check_file, replacing
from taskspace.errors import InvalidInputError
from taskspace.performance.io.frame import Matrix
from taskspace.performance.table import ORIGINS, provenance_of
from taskspace.spaces import Points
from taskspace.systems.base import Provenance

Arrays = dict[str, NDArray[Any]]

ATTRIBUTES = ("best_known_kind", "provenance", "n_episodes")

VARIABLES = ("performance", "home_performance", "best_known", "standard_error")


# --- files ------------------------------------------------------------------------


def read_arrays(path: Path) -> Arrays:
    """Return the arrays of an npz file by name; an npy file holds `performance`.

    Args:
        path: the file.
    """
    check_file(path)
    if path.suffix.lower() == ".npy":
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        check_cells(array.size, str(path))
        return {"performance": np.array(array)}
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        check_cells(sum(member.file_size for member in members) // 8, str(path))
        for member in members:
            with archive.open(member) as file:
                _check_member(file, member, str(path))
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _check_member(file: IO[bytes], member: zipfile.ZipInfo, origin: str) -> None:
    """Refuse a member that is no array, or smaller than its header says."""
    name, formats = member.filename, np.lib.format
    start = file.read(len(formats.MAGIC_PREFIX) + 2)
    if not name.endswith(".npy") or not start.startswith(formats.MAGIC_PREFIX):
        raise InvalidInputError(
            f"{origin} must hold arrays alone, but its member {name!r} is none."
        )
    is_first = start[-2:] == b"\1\0"
    read = formats.read_array_header_1_0 if is_first else formats.read_array_header_2_0
    shape, _, dtype = read(file)
    if not dtype.hasobject and math.prod(shape) * dtype.itemsize > member.file_size:
        raise ValueError(f"{name} is shorter than its header says")


def write_matrix(table: xr.Dataset, path: str | Path) -> Path:
    """Write a performance table to an npz file that `read_matrix` reads back.

    Cells, contexts, names, scores at home, the reference of regret, standard errors
    and provenance are kept. Other formats are written by pandas and xarray, e.g.
    `table["performance"].isel(policy=0).to_pandas().to_csv(...)`.

    Args:
        table: a table that holds `performance` (not only its reductions).
        path: a name that ends in `.npz`; replaced if it exists.

    Returns:
        The path.
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise InvalidInputError(
            f"A table is written to a file that ends in .npz, but got {path.name}. "
            "pandas writes other formats: table['performance'].isel(policy=0)"
            ".to_pandas().to_csv(...)."
        )
    if "performance" not in table:
        raise InvalidInputError(
            "Only a table that holds J of every policy can be written as a matrix, but "
            f"this one holds {', '.join(map(str, table.data_vars))}."
        )
    names = [name for name in VARIABLES if name in table]
    names += [
        str(name)
        for name, coord in table.coords.items()
        if str(name).startswith(("source_", "target_")) and coord.dtype.kind in "fiub"
    ]
    arrays: dict[str, Any] = {name: table[name].values for name in names}
    for dim in ("source", "target"):
        if dim in table.coords:
            arrays[dim] = np.array([str(name) for name in table[dim].values], str)
    arrays["best_known_kind"] = str(table.attrs.get("best_known_kind", "given"))
    arrays["provenance"] = provenance_of(table)
    if table.attrs.get("n_episodes"):
        arrays["n_episodes"] = int(table.attrs["n_episodes"])
    with replacing(path) as temporary:
        np.savez(temporary, allow_pickle=False, **arrays)
    return path


# --- from arrays to a matrix ------------------------------------------------------


def arrays_of_dataset(dataset: xr.Dataset, origin: str) -> Arrays:
    """Return the arrays of a dataset with dims in our order, whatever they are called.

    Args:
        dataset: an xarray dataset, in memory or opened lazily.
        origin: what to call it in messages.
    """
    check_cells(sum(v.size for v in dataset.variables.values()), origin)
    cells = dataset.get("performance", xr.DataArray())
    dims = [d for d in ("source", "policy", "target") if d in cells.dims]
    if len(dims) < cells.ndim:
        dims = list(cells.dims)
    attrs = {name: dataset.attrs.get(name) for name in ATTRIBUTES}
    if attrs["provenance"] not in get_args(Provenance):
        del attrs["provenance"]  # a free text, as some conventions have it
    elif set(ORIGINS) & set(dataset.coords):  # of ours, perhaps joined of several
        attrs["provenance"] = provenance_of(dataset)
    arrays = {name: np.array(x) for name, x in attrs.items() if x is not None}
    sides = dict(zip(dims[:1] + dims[-1:], ("source", "target"), strict=False))
    for name, variable in dataset.variables.items():
        ours = [dim for dim in dims if dim in variable.dims]
        if name not in sides:
            is_ours = len(ours) == variable.ndim
            ordered = variable.transpose(*ours) if is_ours else variable
            arrays.setdefault(str(name), ordered.values)
        elif variable.dtype.kind not in "fiub":
            arrays[sides[name]] = variable.values.astype(str)
    return arrays


def matrix_of_arrays(arrays: Arrays, origin: str) -> Matrix:
    """Return the matrix that arrays hold.

    Args:
        arrays: the arrays by name.
        origin: what to call them in messages.
    """
    if "performance" not in arrays:
        raise InvalidInputError(
            f"{origin} must hold an array named 'performance', but holds "
            f"{', '.join(arrays) or 'nothing'}."
        )
    numbers = {}
    for name, array in arrays.items():
        if name in (*VARIABLES, "home") or name.startswith(("source_", "target_")):
            if array.dtype.kind not in "fiub":
                raise InvalidInputError(
                    f"{origin} must hold numbers, but {name} has the type "
                    f"{array.dtype}."
                )
            numbers[name] = np.asarray(array, np.float64)
    cells = _with_policies(numbers["performance"])
    if cells.ndim != 3 or 0 in cells.shape:
        raise InvalidInputError(
            "A transfer matrix must have shape (source, target) or (source, policy, "
            f"target) and no empty side, but performance of {origin} has "
            f"{numbers['performance'].shape}."
        )
    sides = {"source": cells.shape[0], "target": cells.shape[2]}
    extras = {n: numbers[n] for n in ("best_known", "standard_error") if n in numbers}
    home = numbers.get("home_performance", numbers.get("home"))
    if home is not None:
        home = home[:, None] if home.ndim == 1 else home
        if home.shape == (len(cells), 1):
            home = np.broadcast_to(home, cells.shape[:2])
        extras["home_performance"] = home
    if "standard_error" in extras:
        extras["standard_error"] = _with_policies(extras["standard_error"])
    shapes = {"standard_error": cells.shape, "best_known": (sides["target"],)}
    shapes["home_performance"] = cells.shape[:2]
    for name, array in extras.items():
        if array.shape != shapes[name]:
            raise InvalidInputError(
                f"{name} of {origin} must have the shape {shapes[name]}, but has "
                f"{array.shape}."
            )
    return Matrix(
        origin,
        cells,
        f"an array of {sides['source']:,} sources and {sides['target']:,} targets",
        {dim: _names(arrays.get(dim), dim, n, origin) for dim, n in sides.items()},
        {dim: _space(numbers, dim, n, origin) for dim, n in sides.items()},
        extras,
        _attributes(arrays, origin),
    )


def _with_policies(array: NDArray[np.float64]) -> NDArray[np.float64]:
    return array[:, None, :] if array.ndim == 2 else array


def _names(
    names: NDArray[Any] | None, dim: str, n: int, origin: str
) -> list[str] | None:
    if names is not None and names.shape != (n,):
        raise InvalidInputError(
            f"There must be one name per {dim}, but {origin} has {n} {dim}s and names "
            f"of shape {names.shape}."
        )
    return None if names is None else [str(name).strip() for name in names.tolist()]


def _attributes(arrays: Arrays, origin: str) -> dict[str, Any]:
    """Return what arrays of one value say about the numbers."""
    attrs = {n: arrays[n].item() for n in ATTRIBUTES if n in arrays}
    n_episodes = attrs.setdefault("n_episodes", 0)
    is_number = isinstance(n_episodes, int | float) and 0 <= n_episodes <= 1e15
    if not is_number or int(n_episodes) != n_episodes:
        raise InvalidInputError(
            f"n_episodes of {origin} must be a whole number >= 1, but is "
            f"{repr(n_episodes)[:60]}."
        )
    return attrs


def _space(
    numbers: dict[str, NDArray[np.float64]], dim: str, n: int, origin: str
) -> Points | None:
    columns = {
        name.removeprefix(f"{dim}_"): array
        for name, array in numbers.items()
        if name.startswith(f"{dim}_")
    }
    if not columns:
        return None
    for name, column in columns.items():
        if column.shape != (n,):
            raise InvalidInputError(
                f"{dim}_{name} of {origin} must be one number per {dim}, but has "
                f"shape {column.shape}."
            )
    try:
        return Points(list(columns), np.stack(list(columns.values()), axis=1))
    except InvalidInputError as error:
        raise InvalidInputError(f"In {origin}, {dim}s: {error}") from error
