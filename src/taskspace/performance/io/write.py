"""Performance tables into files that `read_matrix` reads back."""

import importlib.util
import json
import shutil
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError, MissingExtraError
from taskspace.performance.io.arrays import FORMAT, NAMES
from taskspace.performance.io.frame import (
    STANDARD_ERROR,
    TARGET,
    contexts_of_names,
    is_number,
    is_special,
    may_hold_names,
)
from taskspace.performance.io.layout import BEST_KNOWN
from taskspace.performance.io.read import FRAME_SUFFIXES, matrix_suffix, parquet
from taskspace.performance.io.text import escaped
from taskspace.performance.table import provenance_of, source_space, target_space

VARIABLES = ("performance", "home_performance", "best_known", "standard_error")


def write_matrix(table: xr.Dataset, path: str | Path) -> Path:
    """Write a performance table to a file that `read_matrix` reads back.

    Cells, contexts, names, scores at home, the reference of regret, standard errors
    and provenance are kept by every format but `.npy`, which keeps the cells alone. In
    CSV and TSV files names that a spreadsheet would take for a formula get an
    apostrophe in front, which `read_matrix` takes off.

    Args:
        table: a table that holds `performance` (not only its reductions).
        path: a name that ends in one of `MATRIX_SUFFIXES`; replaced if it exists.

    Returns:
        The path.
    """
    path = Path(path)
    suffix = matrix_suffix(path)
    if "performance" not in table:
        raise InvalidInputError(
            "Only a table that holds J of every policy can be written as a matrix, but "
            f"this one holds {', '.join(map(str, table.data_vars))}."
        )
    temporary = path.with_name(f".writing-{path.stem}{suffix}")
    try:
        _write(table, temporary)
        if path.is_dir():
            shutil.rmtree(path)
        temporary.replace(path)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        temporary.unlink(missing_ok=True)
    return path


def _write(table: xr.Dataset, path: Path) -> None:
    if path.suffix in FRAME_SUFFIXES:
        _write_frame(_frame(table), path)
    elif path.suffix == ".npy":
        np.save(path, table["performance"].values, allow_pickle=False)
    elif path.suffix == ".npz":
        _write_npz(table, path)
    else:
        _write_dataset(table, path)


def _notes(table: xr.Dataset) -> dict[str, Any]:
    """Return what the numbers of a table are, as far as files keep it."""
    notes: dict[str, Any] = {
        "best_known_kind": str(table.attrs.get("best_known_kind", "given")),
        "provenance": provenance_of(table),
    }
    if table.attrs.get("n_episodes"):
        notes["n_episodes"] = int(table.attrs["n_episodes"])
    return notes


# --- arrays -------------------------------------------------------------------


def _contents(
    table: xr.Dataset,
) -> tuple[dict[str, xr.Variable], dict[str, Any]]:
    """Return variables and contexts as numbers, and notes and names."""
    names = [name for name in VARIABLES if name in table]
    coords = [str(n) for n in table.coords if str(n).startswith(("source_", "target_"))]
    arrays = {name: table[name].variable for name in (*names, *coords)}
    attrs = _notes(table)
    for dim, key in NAMES.items():
        if dim in table.coords:
            attrs[key] = [str(name) for name in table[dim].values]
    return arrays, attrs


def _write_npz(table: xr.Dataset, path: Path) -> None:
    arrays, attrs = _contents(table)
    names = {
        dim: np.array(attrs.pop(key), str) for dim, key in NAMES.items() if key in attrs
    }
    notes = {name: np.array(value) for name, value in attrs.items()}
    values = {name: array.values for name, array in arrays.items()}
    np.savez(path, allow_pickle=False, **values, **names, **notes)


def _write_dataset(table: xr.Dataset, path: Path) -> None:
    arrays, attrs = _contents(table)
    # `source` and `target` are dims too, and NetCDF 3 has no lists of strings, so
    # names are text; nor does either format keep the order of variables.
    attrs |= {key: json.dumps(attrs[key]) for key in NAMES.values() if key in attrs}
    attrs["format"] = FORMAT
    attrs["order_of_variables"] = json.dumps(list(arrays))
    plain = {n: (tuple(map(str, v.dims)), v.values) for n, v in arrays.items()}
    dataset = xr.Dataset(plain, attrs=attrs)
    if path.suffix == ".nc":
        dataset.to_netcdf(path, engine="scipy")
    elif importlib.util.find_spec("zarr") is None:
        raise MissingExtraError("Writing a Zarr store", "files")
    else:
        dataset.to_zarr(path, mode="w", consolidated=False)


# --- tables of cells ------------------------------------------------------------


def _write_frame(frame: pd.DataFrame, path: Path) -> None:
    if path.suffix == ".parquet":
        _write_parquet(frame, path)
        return
    frame = frame.rename(columns=escaped)
    frame["source"] = frame["source"].map(escaped)
    # 17 digits: every number comes back as it was.
    mark = "\t" if path.suffix == ".tsv" else ","
    frame.to_csv(path, sep=mark, index=False, float_format="%.17g")


def _write_parquet(frame: pd.DataFrame, path: Path) -> None:
    parquet("Writing")
    frame.to_parquet(path, index=False)


def _frame(table: xr.Dataset) -> pd.DataFrame:
    """Return a wide frame with everything in it, which `read_wide` reads."""
    performance = table["performance"].values
    n_sources, n_policies, n_targets = performance.shape
    sources = _names(table, "source")
    if BEST_KNOWN in sources:
        raise InvalidInputError(
            f"No source may be called {BEST_KNOWN!r} in a table of columns. Write an "
            ".npz, .nc or .zarr file."
        )
    columns: dict[Hashable, Any] = {
        "source": np.repeat(np.array(sources, object), n_policies)
    }
    space = source_space(table)
    if space is not None:
        for name, column in zip(space.names, space.points.T, strict=True):
            columns[f"source_{name}"] = np.repeat(column, n_policies)
    if "home_performance" in table:
        columns["home"] = table["home_performance"].values.reshape(-1)
    for name, value in _notes(table).items():
        if name != "best_known_kind" and value != "given":
            columns[name] = [value] * (n_sources * n_policies)
    targets = _target_columns(table)
    rows = n_sources * n_policies
    blocks = [pd.DataFrame(columns), _block(performance.reshape(rows, -1), targets)]
    if "standard_error" in table:
        errors = table["standard_error"].values.reshape(rows, n_targets)
        blocks.append(_block(errors, [STANDARD_ERROR + name for name in targets]))
    frame = pd.concat(blocks, axis=1)
    if table.attrs.get("best_known_kind") != "best of the table":
        reference = dict.fromkeys(frame.columns, np.nan) | {"source": BEST_KNOWN}
        reference |= dict(zip(targets, table["best_known"].values, strict=True))
        frame = pd.concat([frame, pd.DataFrame([reference])], ignore_index=True)
    return frame


def _block(cells: NDArray[np.float64], names: Sequence[str]) -> pd.DataFrame:
    return pd.DataFrame(cells, columns=pd.Index(names, dtype=object))


def _target_columns(table: xr.Dataset) -> list[str]:
    """Return columns of the targets: contexts, or names that are read as such."""
    space = target_space(table)
    if space is not None:
        return _distinct(
            [
                ";".join(f"{n}={v!r}" for n, v in space.context(t).items())
                for t in range(space.size)
            ],
            "target",
        )
    names = _names(table, "target")
    means_something = any(
        not name or is_special(name) or may_hold_names(name) or is_number(name)
        for name in names
    )
    if means_something or contexts_of_names(names, "") is not None:
        return [TARGET + name for name in names]
    return names


def _names(table: xr.Dataset, dim: str) -> list[str]:
    if dim in table.coords:
        return _distinct([str(name) for name in table.coords[dim].values], dim)
    return [f"{dim[0]}{i}" for i in range(table.sizes[dim])]


def _distinct(names: list[str], dim: str) -> list[str]:
    if len(set(names)) < len(names):
        raise InvalidInputError(
            f"Two {dim}s have the same name or context, so they cannot be told apart "
            "in a table of columns. Write an .npz, .nc or .zarr file."
        )
    return names
