"""Transfer matrices from files, and from pandas and xarray objects."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from taskspace.errors import InvalidInputError, MissingExtraError, TaskspaceError
from taskspace.performance.io.arrays import (
    ARRAY_SUFFIXES,
    arrays_of_dataset,
    parts_from_arrays,
    read_array_file,
)
from taskspace.performance.io.cells import Frame, as_frame
from taskspace.performance.io.columns import Choices, Missing
from taskspace.performance.io.limits import (
    check_bytes,
    check_cells,
    check_file,
)
from taskspace.performance.io.long import is_long, joined_runs, read_long
from taskspace.performance.io.parts import table_from_parts
from taskspace.performance.io.text import read_text
from taskspace.performance.io.wide import read_wide

FRAME_SUFFIXES = (".csv", ".tsv", ".parquet")
MATRIX_SUFFIXES = (*FRAME_SUFFIXES, *ARRAY_SUFFIXES)


def read_matrix(
    path: str | Path,
    *,
    contexts: str | Path | None = None,
    lower_is_better: bool | None = None,
    targets: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    missing: Missing = "error",
    header: bool | None = None,
    row_names: bool | None = None,
    long: Mapping[str, str] | None = None,
) -> xr.Dataset:
    """Return a performance table from a transfer matrix in a file.

    Args:
        path: a file whose name ends in one of `MATRIX_SUFFIXES`; a `.npy` file holds
            only the array.
        contexts: a CSV, TSV or Parquet file with the contexts of the targets, one per
            row: in the order of the targets, or named by a column `target`, `source`,
            `context` or `name`. Sources that have no contexts of their own take them
            from it too: by name, or in order if the matrix is square.
        lower_is_better: the cells are costs; they are negated. If left out they are
            scores, unless names or numbers say otherwise, which is refused.
        targets: names of the targets; all other columns are left out.
        ignore: names of columns or targets to leave out.
        missing: `"error"` refuses empty cells, `"not served"` takes them for failures.
        header: whether the first row of a text file holds names of columns. Found out
            if left out; where both readings fit, the file is refused.
        row_names: whether the first column holds names of rows, likewise.
        long: which columns of a table with one row per run are its `source`, `target`,
            `value` and, if wanted, `policy`; runs of the same cell are averaged.

    Returns:
        The table. Its attribute `read_as` says what was taken for names, and `notes`
        has a sentence about every column that was taken for a note on the training,
        and about empty cells.
    """
    path = Path(path)
    suffix = matrix_suffix(path)
    choices = Choices(
        lower_is_better, targets, ignore, missing, header, row_names, long
    )
    second = None if contexts is None else _read_contexts(Path(contexts))
    if suffix in FRAME_SUFFIXES:
        frame = _read_frame(path, header=header, may_be_empty=choices.may_be_empty)
        return _table_from_frame(frame, second, choices)
    if header is not None or row_names is not None or long is not None:
        raise InvalidInputError(
            "header, row_names and long are about "
            "tables of columns "
            f"({', '.join(FRAME_SUFFIXES)}), but got {path.name}."
        )
    parts = parts_from_arrays(_reading(path, read_array_file), str(path), choices)
    return table_from_parts(parts, second, choices)


def table_from(
    data: pd.DataFrame | xr.DataArray | xr.Dataset,
    *,
    contexts: pd.DataFrame | None = None,
    lower_is_better: bool | None = None,
    targets: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    missing: Missing = "error",
    row_names: bool | None = None,
    long: Mapping[str, str] | None = None,
) -> xr.Dataset:
    """Return a performance table from a pandas or xarray object.

    Args:
        data: a wide or long data frame (see `taskspace.performance.io.wide` and
            `long`), a `DataArray` with dims `(source, target)` or `(source, policy,
            target)`, or a `Dataset` that holds it as `performance`.
        contexts: contexts of the targets, one per row.
        lower_is_better: the cells are costs; they are negated. If left out they are
            scores, unless names or numbers say otherwise, which is refused.
        targets: names of the targets; all other columns are left out.
        ignore: names of columns or targets to leave out.
        missing: `"error"` refuses empty cells, `"not served"` takes them for failures.
        row_names: whether the first column of a data frame holds names of rows. Found
            out if left out; where both readings fit, the frame is refused.
        long: which columns of a frame with one row per run are its `source`, `target`,
            `value` and, if wanted, `policy`; runs of the same cell are averaged.

    Examples:
        >>> frame = pd.DataFrame({"source": ["a", "b"], "easy": [9, 7], "hard": [1, 6]})
        >>> table_from(frame)["best_known"].values.tolist()
        [9.0, 6.0]
    """
    choices = Choices(lower_is_better, targets, ignore, missing, None, row_names, long)
    second = None if contexts is None else as_frame(contexts, "the contexts")
    if isinstance(data, pd.DataFrame):
        return _table_from_frame(as_frame(data), second, choices)
    if isinstance(data, xr.DataArray):
        data = data.rename("performance").to_dataset()
    if not isinstance(data, xr.Dataset):
        raise InvalidInputError(
            "A transfer matrix must be a pandas DataFrame, an xarray DataArray or an "
            f"xarray Dataset, but got {type(data).__name__}. For a plain array use "
            "table_from_matrix."
        )
    arrays = arrays_of_dataset(data, "the dataset")
    parts = parts_from_arrays(arrays, "the dataset", choices)
    return table_from_parts(parts, second, choices)


def matrix_suffix(path: Path) -> str:
    """Return the ending of a matrix file's name, which says how it is written.

    Args:
        path: the file.
    """
    suffix = path.suffix.lower()
    if suffix not in MATRIX_SUFFIXES:
        raise InvalidInputError(
            f"A matrix file must end in {', '.join(MATRIX_SUFFIXES)}, but got "
            f"{path.name}. Read it with pandas and give the frame to ts.study_from."
        )
    return suffix


def _table_from_frame(
    frame: Frame, contexts: Frame | None, choices: Choices
) -> xr.Dataset:
    if not frame.rows:
        raise InvalidInputError(f"{frame.origin} has column names but no rows.")
    if not frame.names:
        raise InvalidInputError(f"{frame.origin} has no columns.")
    if choices.row_names is False:
        frame = replace(frame, n_index=0)
    notes: list[str] = []
    if isinstance(choices.long, Mapping):
        frame, notes = joined_runs(frame, choices.long)
    read = read_long if is_long(frame) else read_wide
    parts = read(frame, choices)
    parts = replace(parts, notes=[*parts.notes, *notes])
    return table_from_parts(parts, contexts, choices)


def _reading(path: Path, read: Callable[[Path], Any]) -> Any:
    """Return what a reader gives, or a sentence about the file.

    Other people's parsers raise almost anything on a damaged file, so all of it is
    caught here, and nowhere else.
    """
    try:
        return read(path)
    except (TaskspaceError, MemoryError):
        raise
    except OSError as error:
        raise InvalidInputError(f"Cannot read {path}: {error}.") from error
    except Exception as error:
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise InvalidInputError(
            f"{path} is not a whole {path.suffix} file: {said.rstrip('.')}."
        ) from error


# --- tables of cells ------------------------------------------------------------


def _read_frame(path: Path, **options: Any) -> Frame:
    if path.suffix.lower() == ".parquet":
        return _reading(path, _read_parquet)
    return _reading(path, lambda file: read_text(file, **options))


def _read_contexts(path: Path) -> Frame:
    if path.suffix.lower() not in FRAME_SUFFIXES:
        raise InvalidInputError(
            f"A file of contexts must end in {', '.join(FRAME_SUFFIXES)}, but got "
            f"{path.name}."
        )
    return _read_frame(path, advice="Give every axis a name that is no number.")


def _read_parquet(path: Path) -> Frame:
    check_file(path)
    meta = parquet("Reading").read_metadata(path)
    check_cells(meta.num_rows * meta.num_columns, str(path))
    groups = range(meta.num_row_groups)
    check_bytes(sum(meta.row_group(i).total_byte_size for i in groups), str(path))
    return as_frame(pd.read_parquet(path), str(path))


def parquet(doing: str) -> Any:
    """Return the Parquet library.

    Args:
        doing: what needs it, for the message if it is missing.
    """
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError(f"{doing} a Parquet file", "files") from error
    return pyarrow.parquet
