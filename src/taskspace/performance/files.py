"""Transfer matrices from files: CSV, npy and npz."""

import csv
import zipfile
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.performance.table import table_from_matrix

__all__ = ["MATRIX_SUFFIXES", "read_matrix"]

MATRIX_SUFFIXES = (".csv", ".npy", ".npz")


def read_matrix(path: str | Path, *, lower_is_better: bool = False) -> xr.Dataset:
    """A performance table from a transfer matrix.

    Args:
        path: a CSV file (one row a policy, one column a target; a row of column
            names and a column of row names are recognised), an `.npy` file with an
            array `(source, target)` or `(source, policy, target)`, or an `.npz` file
            with that array as `performance` and, if wanted, `home`.
        lower_is_better: the cells are costs; they are negated.
    """
    path = Path(path)
    home = None
    try:
        if path.suffix == ".csv":
            matrix = _read_csv(path)
        elif path.suffix == ".npy":
            matrix = np.load(path, allow_pickle=False)
        elif path.suffix == ".npz":
            with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
                if "performance" not in data:
                    raise InvalidInputError(
                        f"{path} must hold an array named 'performance', but holds "
                        f"{', '.join(data.files) or 'nothing'}."
                    )
                matrix = data["performance"]
                home = data.get("home")
        else:
            raise InvalidInputError(
                f"A matrix file must end in {', '.join(MATRIX_SUFFIXES)}, but got "
                f"{path.name}."
            )
    except (OSError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidInputError(f"Cannot read {path}: {error}.") from error
    except ValueError as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(
            f"{path} is not a whole array file: {error}."
        ) from error
    if matrix.dtype.kind not in "fiub":
        raise InvalidInputError(
            f"{path} must hold numbers, but holds values of type {matrix.dtype}."
        )
    sign = -1.0 if lower_is_better else 1.0
    return table_from_matrix(
        sign * matrix.astype(np.float64), home=None if home is None else sign * home
    )


def _read_csv(path: Path) -> NDArray[np.float64]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    if not rows:
        raise InvalidInputError(f"{path} must hold a matrix, but is empty.")
    first_row = 0 if any(_is_number(cell) for cell in rows[0][1:] or rows[0]) else 1
    body = rows[first_row:]
    if not body:
        raise InvalidInputError(f"{path} has column names but no rows.")
    first_column = 0 if any(_is_number(row[0]) for row in body) else 1
    width = len(body[0])
    matrix = np.empty((len(body), width - first_column))
    for i, row in enumerate(body):
        line = first_row + i + 1
        if len(row) != width:
            raise InvalidInputError(
                f"Every row of {path} must have {width} cells, but row {line} has "
                f"{len(row)}."
            )
        for j, cell in enumerate(row[first_column:]):
            try:
                matrix[i, j] = float(cell)
            except ValueError as error:
                raise InvalidInputError(
                    f"Every cell of {path} must be a number, but row {line}, column "
                    f"{first_column + j + 1} holds {cell!r}."
                ) from error
    return matrix


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
