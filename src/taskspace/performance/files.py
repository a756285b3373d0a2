"""Transfer matrices in files: CSV, Parquet, npy, npz, NetCDF and Zarr.

What the columns of a table mean is in `taskspace.performance.frames`. Array files
(npz, NetCDF, Zarr, xarray) hold `performance` with dims `(source, target)` or
`(source, policy, target)` and, if wanted, `home` (or `home_performance`), `best_known`,
and the contexts as `source_k`, `target_k`, … for a context axis `k`.
"""

import csv
import json
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError, MissingExtraError
from taskspace.performance.cells import Frame, as_frame, contexts_from, is_number
from taskspace.performance.frames import (
    frame_from_table,
    table_from_frame,
    with_best_known,
    with_names,
)
from taskspace.performance.table import table_from_matrix
from taskspace.spaces import Points, Space

__all__ = ["MATRIX_SUFFIXES", "read_matrix", "table_from", "write_matrix"]

MATRIX_SUFFIXES = (".csv", ".parquet", ".npy", ".npz", ".nc", ".zarr")
FRAME_SUFFIXES = (".csv", ".parquet")


def read_matrix(
    path: str | Path,
    *,
    contexts: str | Path | None = None,
    lower_is_better: bool = False,
) -> xr.Dataset:
    """A performance table from a transfer matrix in a file.

    Args:
        path: a file whose name ends in one of `MATRIX_SUFFIXES`. In a CSV file a row
            of column names and a column of row names are recognised; a `.npy` file
            holds only the array.
        contexts: a CSV or Parquet file with the contexts of the targets, one a row.
        lower_is_better: the cells are costs; they are negated.
    """
    path = Path(path)
    second = None if contexts is None else _read_frame(Path(contexts), "contexts")
    if path.suffix in FRAME_SUFFIXES:
        return table_from_frame(
            _read_frame(path, "a matrix"),
            contexts=second,
            lower_is_better=lower_is_better,
        )
    read = _ARRAY_READERS.get(path.suffix)
    if read is None:
        raise InvalidInputError(
            f"A matrix file must end in {', '.join(MATRIX_SUFFIXES)}, but got "
            f"{path.name}."
        )
    arrays, attrs = _reading(path, read)
    return _table_from_arrays(
        arrays, attrs, str(path), contexts=second, lower_is_better=lower_is_better
    )


def table_from(
    data: pd.DataFrame | xr.DataArray | xr.Dataset,
    *,
    contexts: pd.DataFrame | None = None,
    lower_is_better: bool = False,
) -> xr.Dataset:
    """A performance table from a pandas or xarray object.

    Args:
        data: a wide or long data frame (see `taskspace.performance.frames`), a
            `DataArray` with dims `(source, target)` or `(source, policy, target)`, or
            a `Dataset` that holds it as `performance`.
        contexts: contexts of the targets, one a row.
        lower_is_better: the cells are costs; they are negated.

    Example:
        >>> frame = pd.DataFrame({"source": ["a", "b"], "easy": [9, 7], "hard": [1, 6]})
        >>> table_from(frame)["best_known"].values.tolist()
        [9.0, 6.0]
    """
    second = None if contexts is None else as_frame(contexts, "the contexts")
    options: dict[str, Any] = {"contexts": second, "lower_is_better": lower_is_better}
    if isinstance(data, pd.DataFrame):
        return table_from_frame(as_frame(data), **options)
    if isinstance(data, xr.DataArray):
        data = data.rename("performance").to_dataset()
    if not isinstance(data, xr.Dataset):
        raise InvalidInputError(
            "A transfer matrix must be a pandas DataFrame, an xarray DataArray or an "
            f"xarray Dataset, but got {type(data).__name__}. For a plain array use "
            "table_from_matrix."
        )
    return _table_from_arrays(*_dataset_arrays(data), "the dataset", **options)


def write_matrix(table: xr.Dataset, path: str | Path) -> Path:
    """Write a performance table to a file that `read_matrix` reads back.

    Cells, contexts, names, scores at home and the reference of regret are kept by
    every format but `.npy`, which keeps the cells alone.

    Args:
        table: a table that holds `performance` (not only its reductions).
        path: a name that ends in one of `MATRIX_SUFFIXES`; replaced if it exists.

    Returns:
        The path.
    """
    path = Path(path)
    if path.suffix not in MATRIX_SUFFIXES:
        raise InvalidInputError(
            f"A matrix file must end in {', '.join(MATRIX_SUFFIXES)}, but got "
            f"{path.name}."
        )
    if "performance" not in table:
        raise InvalidInputError(
            "Only a table that holds J of every policy can be written as a matrix, but "
            f"this one holds {', '.join(map(str, table.data_vars))}."
        )
    temporary = path.with_name(f".writing-{path.stem}{path.suffix}")
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
        frame = frame_from_table(table)
        if path.suffix == ".csv":
            # 17 digits: every number comes back as it was.
            frame.to_csv(path, index=False, float_format="%.17g")
        else:
            _parquet("Writing").write_table(_arrow(frame), path)
        return
    if path.suffix == ".npy":
        np.save(path, table["performance"].values, allow_pickle=False)
        return
    kept = [n for n in ("performance", "home_performance", "best_known") if n in table]
    coords = [str(n) for n in table.coords if str(n).startswith(("source", "target"))]
    arrays = {
        name: (table[name].dims, _storable(table[name].values))
        for name in (*kept, *coords)
        if table[name].ndim
    }
    kind = str(table.attrs.get("best_known_kind", "given"))
    if path.suffix == ".npz":
        values = {name: array for name, (_, array) in arrays.items()}
        np.savez(path, allow_pickle=False, best_known_kind=np.array(kind), **values)
        return
    # `source` and `target` are dims too, so their names go under other ones.
    arrays = {_NAMES.get(name, name): pair for name, pair in arrays.items()}
    dataset = xr.Dataset(
        {n: (tuple(map(str, dims)), a) for n, (dims, a) in arrays.items()},
        attrs={"best_known_kind": kind, "format": "taskspace-matrix-1"},
    )
    # Neither keeps the order of variables; NetCDF 3 has no lists of strings.
    dataset.attrs["order_of_variables"] = json.dumps([str(name) for name in dataset])
    for name in _NAMES.values():
        if name in dataset:
            text = json.dumps(dataset[name].values.tolist())
            dataset = dataset.drop_vars(name).assign_attrs({name: text})
    if path.suffix == ".nc":
        dataset.to_netcdf(path, engine="scipy")
    else:
        dataset.to_zarr(path, mode="w", consolidated=False)


_NAMES = {"source": "name_of_source", "target": "name_of_target"}


def _storable(values: NDArray[Any]) -> NDArray[Any]:
    return values if values.dtype.kind in "fiub" else values.astype(str)


# --- array files --------------------------------------------------------------

Arrays = tuple[dict[str, NDArray[Any]], dict[str, Any]]


def _reading(path: Path, read: Callable[[Path], Any]) -> Any:
    """What a reader gives, or a sentence about the file."""
    try:
        return read(path)
    except MissingExtraError:
        raise
    except InvalidInputError:
        raise
    except (OSError, EOFError, zipfile.BadZipFile, KeyError, TypeError) as error:
        raise InvalidInputError(f"Cannot read {path}: {error}.") from error
    except (ValueError, IndexError) as error:
        raise InvalidInputError(
            f"{path} is not a whole {path.suffix} file: {error}."
        ) from error


def _read_npy(path: Path) -> Arrays:
    return {"performance": np.load(path, allow_pickle=False)}, {}


def _read_npz(path: Path) -> Arrays:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
        arrays = {name: data[name] for name in data.files}
    kind = arrays.pop("best_known_kind", None)
    attrs = {} if kind is None else {"best_known_kind": str(kind)}
    for dim in ("source", "target"):
        if dim in arrays:
            attrs[_NAMES[dim]] = arrays.pop(dim).tolist()
    return arrays, attrs


def _read_netcdf(path: Path) -> Arrays:
    if not path.is_file():
        raise OSError("there is no such file")
    with path.open("rb") as file:
        is_hdf5 = file.read(4) == b"\x89HDF"
    if is_hdf5:
        try:
            import h5netcdf  # noqa: F401
        except ImportError as error:
            raise MissingExtraError("Reading a NetCDF 4 file", "files") from error
    with xr.open_dataset(path, engine="h5netcdf" if is_hdf5 else "scipy") as dataset:
        return _dataset_arrays(dataset.load())


def _read_zarr(path: Path) -> Arrays:
    with xr.open_zarr(path, chunks=None, consolidated=False) as dataset:
        return _dataset_arrays(dataset.load())


_ARRAY_READERS: dict[str, Callable[[Path], Arrays]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".nc": _read_netcdf,
    ".zarr": _read_zarr,
}


def _dataset_arrays(dataset: xr.Dataset) -> Arrays:
    """The arrays of a dataset with dims in our order, whatever they are called."""
    if "performance" not in dataset:
        return {str(n): dataset[n].values for n in dataset.variables}, {}
    cells = dataset["performance"]
    dims = [d for d in ("source", "policy", "target") if d in cells.dims]
    if len(dims) == cells.ndim:
        cells = cells.transpose(*dims)
    arrays = {"performance": cells.values}
    attrs = {str(k): v for k, v in dataset.attrs.items()}
    rows, columns = cells.dims[0], cells.dims[-1] if cells.ndim else ""
    order: list[Any] = json.loads(str(attrs.pop("order_of_variables", "[]")))
    names = [name for name in order if name in dataset.variables]
    for name in [*names, *(n for n in dataset.variables if n not in names)]:
        variable = dataset[name]
        if name in (rows, columns):
            if variable.dtype.kind not in "fiub":
                dim = "source" if name == rows else "target"
                attrs[_NAMES[dim]] = [str(v) for v in variable.values]
        elif name != "performance":
            arrays[str(name)] = variable.values
    for key in _NAMES.values():
        if isinstance(attrs.get(key), str):
            attrs[key] = json.loads(attrs[key])
    return arrays, attrs


def _table_from_arrays(
    arrays: Mapping[str, NDArray[Any]],
    attrs: Mapping[str, Any],
    origin: str,
    *,
    contexts: Frame | None,
    lower_is_better: bool,
) -> xr.Dataset:
    if "performance" not in arrays:
        raise InvalidInputError(
            f"{origin} must hold an array named 'performance', but holds "
            f"{', '.join(arrays) or 'nothing'}."
        )
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub":
            raise InvalidInputError(
                f"{origin} must hold numbers, but {name} has the type {array.dtype}."
            )
    sign = -1.0 if lower_is_better else 1.0
    matrix = sign * np.asarray(arrays["performance"], np.float64)
    names: dict[str, Any] = {dim: attrs.get(key) for dim, key in _NAMES.items()}
    spaces: dict[str, Space | None] = {
        dim: _array_space(arrays, dim) for dim in ("source", "target")
    }
    home = arrays.get("home_performance", arrays.get("home"))
    if contexts is not None and matrix.ndim in (2, 3):
        spaces["source"], spaces["target"] = contexts_from(
            contexts,
            (len(matrix), 1, matrix.shape[-1]),
            (spaces["source"], spaces["target"]),
            (names["source"], names["target"]),
        )
    table = table_from_matrix(
        matrix,
        sources=spaces["source"],
        targets=spaces["target"],
        home=None if home is None else sign * np.asarray(home, np.float64),
    )
    kind = attrs.get("best_known_kind", "given")
    if "best_known" in arrays and kind != "best of the table":
        reference = sign * np.asarray(arrays["best_known"], np.float64)
        table = with_best_known(table, reference, origin, str(kind))
    return with_names(table, names["source"], names["target"])


def _array_space(arrays: Mapping[str, NDArray[Any]], dim: str) -> Points | None:
    columns = {
        name.removeprefix(f"{dim}_"): array
        for name, array in arrays.items()
        if name.startswith(f"{dim}_")
    }
    if not columns:
        return None
    for name, column in columns.items():
        if column.ndim != 1 or len(column) != len(next(iter(columns.values()))):
            raise InvalidInputError(
                f"{dim}_{name} must be one number a {dim}, but has shape "
                f"{column.shape}."
            )
    return Points(list(columns), np.stack(list(columns.values()), axis=1))


# --- tables of cells ------------------------------------------------------------


def _read_frame(path: Path, what: str) -> Frame:
    if path.suffix == ".csv":
        frame = _reading(path, _read_csv)
    elif path.suffix == ".parquet":
        parquet = _parquet("Reading")
        table = _reading(path, parquet.read_table)
        frame = as_frame(table.to_pandas(), str(path))
    else:
        raise InvalidInputError(
            f"A file of {what} must end in .csv or .parquet, but got {path.name}."
        )
    return frame


def _parquet(doing: str) -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError(f"{doing} a Parquet file", "files") from error
    return pyarrow.parquet


def _arrow(frame: pd.DataFrame) -> Any:
    import pyarrow

    return pyarrow.Table.from_pandas(frame, preserve_index=False)


def _read_csv(path: Path) -> Frame:
    with path.open(newline="", encoding="utf-8-sig") as file:
        head = file.readline()
        file.seek(0)
        # Spreadsheets in many countries write 1,5 and separate cells by semicolons.
        mark = "," if "," in head else next((m for m in ";\t" if m in head), ",")
        reader = csv.reader(file, delimiter=mark)
        lines, rows = [], []
        for row in reader:
            if any(cell.strip() for cell in row):
                lines.append(reader.line_num)
                rows.append(row)
    if not rows:
        raise InvalidInputError(f"{path} must hold a matrix, but is empty.")
    width = len(rows[0])
    for line, row in zip(lines, rows, strict=True):
        if len(row) != width:
            raise InvalidInputError(
                f"Every row of {path} must have {width} cells, but row {line} has "
                f"{len(row)}."
            )
    has_names = not any(is_number(cell) for cell in rows[0][1:] or rows[0])
    names = [cell.strip() for cell in rows[0]] if has_names else [""] * width
    body = rows[1:] if has_names else rows
    if mark != ",":
        body = [[_decimal_point(cell) for cell in row] for row in body]
    return Frame(
        columns=[list(column) for column in zip(*body, strict=True)],
        names=names,
        rows=[f"row {line}" for line in lines[len(rows) - len(body) :]],
        origin=str(path),
    )


def _decimal_point(cell: str) -> str:
    point = cell.replace(",", ".")
    return point if is_number(point) else cell
