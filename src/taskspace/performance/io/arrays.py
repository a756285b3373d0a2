"""Arrays: npz, NetCDF, Zarr and xarray.

They hold `performance` with dims `(source, target)` or `(source, policy, target)` and,
if wanted, `home` (or `home_performance`), `best_known`, `standard_error` in the shape
of `performance`, and the contexts as `source_k`, `target_k`, … for an axis `k`.
Names are `source` and `target`. What the numbers are (`provenance`, `n_episodes`) is an
attribute, or an array of one value.
"""

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError, MissingExtraError
from taskspace.performance.io.frame import label
from taskspace.performance.io.layout import Choices, named
from taskspace.performance.io.limits import check_cells, check_file, read_arrays
from taskspace.performance.table import ORIGINS, make_table, provenance_of
from taskspace.spaces import Points
from taskspace.systems.base import Provenance

NAMES = {"source": "name_of_source", "target": "name_of_target"}
"""Where names are kept beside dims of the same name."""

ARRAY_SUFFIXES = (".npy", ".npz", ".nc", ".zarr")

NOTES = ("best_known_kind", "provenance", "n_episodes")

NUMBERS = ("performance", "home", "home_performance", "best_known", "standard_error")


Contents = tuple[Mapping[str, NDArray[Any]], Mapping[str, Any]]
"""Arrays by name, and notes: `NOTES`, and the names of both sides under `NAMES`."""


def read_array_file(path: Path) -> Contents:
    """Return what an array file holds.

    Args:
        path: a file whose name ends in one of `ARRAY_SUFFIXES`.
    """
    suffix = path.suffix.lower()
    if suffix == ".zarr":
        if importlib.util.find_spec("zarr") is None:
            raise MissingExtraError("Reading a Zarr store", "files")
        _refuse_pickles(path)
        return _read_dataset(path, "zarr", consolidated=False)
    check_file(path)
    if suffix == ".npz":
        return _read_npz(path)
    if suffix == ".npy":
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        check_cells(array.size, str(path))
        return {"performance": np.array(array)}, {}
    with path.open("rb") as file:
        is_hdf5 = file.read(4) == b"\x89HDF"
    if is_hdf5 and importlib.util.find_spec("h5netcdf") is None:
        raise MissingExtraError("Reading a NetCDF 4 file", "files")
    return _read_dataset(path, "h5netcdf" if is_hdf5 else "scipy")


def _read_dataset(path: Path, engine: str, **options: Any) -> Contents:
    with xr.open_dataset(path, engine=engine, **options) as dataset:
        return contents_of_dataset(dataset, str(path))


def _refuse_pickles(path: Path) -> None:
    for name in ("*/.zarray", "*/zarr.json"):
        if any(b"pickle" in file.read_bytes() for file in path.glob(name)):
            raise InvalidInputError(
                f"{path} must hold numbers, but one of its arrays holds pickled "
                "objects, which can run code when they are read."
            )


def _read_npz(path: Path) -> Contents:
    arrays = read_arrays(path, str(path))
    attrs = {key: arrays.pop(key).item() for key in NOTES if key in arrays}
    for dim, key in NAMES.items():
        if dim in arrays:
            attrs[key] = arrays.pop(dim).tolist()
    return arrays, attrs


def contents_of_dataset(dataset: xr.Dataset, origin: str) -> Contents:
    """Return the arrays of a dataset with dims in our order, whatever they are called.

    Args:
        dataset: an xarray dataset, in memory or opened lazily.
        origin: what to call it in messages.
    """
    check_cells(sum(v.size for v in dataset.variables.values()), origin)
    if "performance" not in dataset:
        return {str(n): dataset[n].values for n in dataset.variables}, {}
    cells = dataset["performance"]
    dims = [d for d in ("source", "policy", "target") if d in cells.dims]
    if len(dims) == cells.ndim:
        cells = cells.transpose(*dims)
    arrays = {"performance": cells.values}
    attrs = {str(k): v for k, v in dataset.attrs.items()}
    if attrs.get("provenance") not in get_args(Provenance):
        attrs.pop("provenance", None)  # a free text, as some conventions have it
    elif set(ORIGINS) & set(dataset.coords):  # of ours, perhaps joined of several
        attrs["provenance"] = provenance_of(dataset)
        dataset = dataset.drop_vars(ORIGINS, errors="ignore")
    rows, columns = (cells.dims[0], cells.dims[-1]) if cells.ndim else ("", "")
    # Files of earlier versions say in which order their axes are.
    order: list[Any] = json.loads(str(attrs.pop("order_of_variables", "[]")))
    names = [name for name in order if name in dataset.variables]
    for name in [*names, *(n for n in dataset.variables if n not in names)]:
        variable = dataset[name]
        if name in (rows, columns):
            if variable.dtype.kind not in "fiub":
                dim = "source" if name == rows else "target"
                attrs[NAMES[dim]] = [str(v) for v in variable.values]
        elif name != "performance":
            ours = [d for d in cells.dims if d in variable.dims]
            if len(ours) == variable.ndim:
                variable = variable.transpose(*ours)
            arrays[str(name)] = variable.values
    for key in NAMES.values():
        if isinstance(attrs.get(key), str):
            attrs[key] = json.loads(attrs[key])
    return arrays, attrs


def table_of_arrays(
    arrays: Mapping[str, NDArray[Any]],
    attrs: Mapping[str, Any],
    origin: str,
    choices: Choices,
) -> xr.Dataset:
    """Return what arrays say; cells are NaN where they are empty.

    Args:
        arrays: the arrays by name.
        attrs: notes on them, see `Contents`.
        origin: what to call them in messages.
        choices: what the user says.
    """
    arrays = _checked(arrays, origin)
    cells = arrays["performance"]
    if cells.ndim not in (2, 3) or 0 in cells.shape:
        raise InvalidInputError(
            "A transfer matrix must have shape (source, target) or (source, policy, "
            f"target) and no empty side, but performance of {origin} has {cells.shape}."
        )
    cells = cells[:, None, :] if cells.ndim == 2 else cells
    n_sources, n_policies, n_targets = cells.shape
    variables = {"performance": cells}
    home = arrays.get("home_performance", arrays.get("home"))
    if home is not None:
        if home.shape not in ((n_sources,), (n_sources, 1), (n_sources, n_policies)):
            raise InvalidInputError(
                f"home of {origin} must have one score per source ({n_sources}), or "
                f"one per policy, but has shape {home.shape}."
            )
        home = np.broadcast_to(home.reshape(n_sources, -1), (n_sources, n_policies))
        variables["home_performance"] = home
    if (errors := arrays.get("standard_error")) is not None:
        if errors.ndim == 2:
            errors = errors[:, None, :]
        variables["standard_error"] = errors
    if "best_known" in arrays:
        variables["best_known"] = arrays["best_known"]
    for name, shape in (
        ("standard_error", cells.shape),
        ("best_known", (n_targets,)),
    ):
        if name in variables and variables[name].shape != shape:
            raise InvalidInputError(
                f"{name} of {origin} must have the shape {shape}, but has "
                f"{variables[name].shape}."
            )
    sides = {"source": n_sources, "target": n_targets}
    names = {
        dim: _names(attrs.get(NAMES[dim]), dim, n, origin) for dim, n in sides.items()
    }
    if names["target"] is not None:
        choices.check_known(names["target"], origin)
    spaces = {dim: _space(arrays, dim, n, origin) for dim, n in sides.items()}
    provenance = attrs.get("provenance")
    return named(
        make_table(variables, spaces["source"], spaces["target"]), names
    ).assign_attrs(
        origin=origin,
        read_as=f"an array of {n_sources:,} sources and {n_targets:,} targets",
        best_known_kind=str(attrs.get("best_known_kind", "given")),
        provenance=None if provenance is None else str(provenance),
        n_episodes=_episodes(attrs.get("n_episodes"), origin),
    )


def _checked(
    arrays: Mapping[str, NDArray[Any]], origin: str
) -> dict[str, NDArray[np.float64]]:
    """Return the arrays that have a meaning, as numbers."""
    if "performance" not in arrays:
        raise InvalidInputError(
            f"{origin} must hold an array named 'performance', but holds "
            f"{', '.join(arrays) or 'nothing'}."
        )
    numbers = {}
    for name, array in arrays.items():
        if name in NUMBERS or name.startswith(("source_", "target_")):
            if array.dtype.kind not in "fiub":
                raise InvalidInputError(
                    f"{origin} must hold numbers, but {name} has the type "
                    f"{array.dtype}."
                )
            numbers[name] = np.asarray(array, np.float64)
    return numbers


def _names(names: Any, dim: str, n: int, origin: str) -> list[str] | None:
    if names is None:
        return None
    kinds = str | int | float
    if not isinstance(names, list) or not all(isinstance(n, kinds) for n in names):
        raise InvalidInputError(
            f"Names of {dim}s in {origin} must be a list of texts, but are "
            f"{repr(names)[:60]}."
        )
    if len(names) != n:
        raise InvalidInputError(
            f"There must be one name per {dim}, but {origin} has {n} {dim}s and "
            f"{len(names)} names."
        )
    return [label(name).strip() for name in names]


def _episodes(value: Any, origin: str) -> int:
    try:
        number = float(value or 0)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number <= 1e15 or not number.is_integer():
        raise InvalidInputError(
            f"n_episodes of {origin} must be a whole number >= 1, but is "
            f"{repr(value)[:60]}."
        )
    return int(number)


def _space(
    arrays: Mapping[str, NDArray[np.float64]], dim: str, n: int, origin: str
) -> Points | None:
    prefix = f"{dim}_"
    columns = {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
    if not columns:
        return None
    for name, column in columns.items():
        if column.shape != (n,):
            raise InvalidInputError(
                f"{prefix}{name} of {origin} must be one number per {dim}, but has "
                f"shape {column.shape}."
            )
    try:
        return Points(list(columns), np.stack(list(columns.values()), axis=1))
    except InvalidInputError as error:
        raise InvalidInputError(f"In {origin}, {dim}s: {error}") from error
