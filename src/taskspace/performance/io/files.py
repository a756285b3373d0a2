"""Transfer matrices from files, and from pandas and xarray objects."""

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from taskspace.errors import InvalidInputError, MissingExtraError, TaskspaceError
from taskspace.performance.io.arrays import (
    ARRAY_SUFFIXES,
    SEAL_KEY,
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
    check_seal,
)
from taskspace.performance.io.long import is_long, joined_runs, read_long
from taskspace.performance.io.parts import table_from_parts
from taskspace.performance.io.text import read_text
from taskspace.performance.io.wide import read_wide

FRAME_SUFFIXES = (".csv", ".tsv", ".parquet")
MATRIX_SUFFIXES = (*FRAME_SUFFIXES, *ARRAY_SUFFIXES)
RECORD_SUFFIXES = (".arff", ".json", ".jsonl")
"""Endings of files of records of runs; they are read, and never written."""
READABLE_SUFFIXES = (*MATRIX_SUFFIXES, *RECORD_SUFFIXES)

ASLIB = {"source": "algorithm", "target": "instance_id"}
"""Columns of the runs of an algorithm selection library."""
NO_VALUES = ("repetition", "runstatus", *ASLIB.values())
ATTRIBUTE = re.compile(r"""@attribute\s+('[^']*'|"[^"]*"|\S+)\s+\S""", re.IGNORECASE)


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
        path: a file whose name ends in one of `READABLE_SUFFIXES`; a `.npy` file holds
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
    if suffix in RECORD_SUFFIXES:
        runs = _reading(path, _read_records)
        choices = _aslib_choices(runs, choices, path)
        return _table_from_frame(as_frame(runs, str(path)), second, choices)
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
    if suffix not in READABLE_SUFFIXES:
        raise InvalidInputError(
            f"A matrix file must end in {', '.join(READABLE_SUFFIXES)}, but got "
            f"{path.name}."
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
    if choices.long is not None:
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
    except TaskspaceError:
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
    frame = as_frame(pd.read_parquet(path), str(path))
    seal = (meta.metadata or {}).get(SEAL_KEY)
    contents = dict(zip(frame.names, frame.columns, strict=True))
    check_seal(None if seal is None else seal.decode(), contents, str(path))
    return frame


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


def _read_records(path: Path) -> pd.DataFrame:
    """Return the records of an ARFF or JSON file, one per row."""
    check_file(path)
    text = path.read_text(encoding="utf-8-sig")
    is_arff = path.suffix.lower() == ".arff"
    runs = _arff(text, path) if is_arff else _json(text, path)
    check_cells(runs.size, str(path))
    return runs


def _aslib_choices(runs: pd.DataFrame, choices: Choices, path: Path) -> Choices:
    """Return the choices with the columns of ASlib, where these are its runs.

    A run that was not finished has reached nothing, whatever its clock says: its value
    becomes that of a failure.
    """
    if choices.long is not None or not set(ASLIB.values()) <= set(runs.columns):
        return choices
    values = [name for name in runs.columns if name not in NO_VALUES]
    if not values:
        raise InvalidInputError(
            f"{path} must have a column of values beside its names."
        )
    if "runstatus" in runs:
        failure = np.inf if choices.lower_is_better else -np.inf
        is_ok = runs["runstatus"].astype(str).str.lower() == "ok"
        runs[values[0]] = runs[values[0]].astype(float).where(is_ok, failure)
    return replace(choices, long=ASLIB | {"value": values[0]})


def _arff(text: str, path: Path) -> pd.DataFrame:
    """Return the data of an ARFF file, its names from the lines `@attribute`."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("%")]
    starts = [k for k, line in enumerate(lines) if line.strip().lower() == "@data"]
    names = [
        match.group(1).strip("'\"")
        for line in lines[: starts[0] if starts else 0]
        if (match := ATTRIBUTE.match(line.strip()))
    ]
    if not starts or not names:
        raise InvalidInputError(
            f"{path} must be an ARFF file with lines @attribute and @data, but lacks "
            "them."
        )
    body = "\n".join(line for line in lines[starts[0] + 1 :] if line.strip())
    wrong = [k for k, row in enumerate(body.splitlines()) if row.lstrip()[:1] == "{"]
    if wrong:
        raise InvalidInputError(f"{path} must hold dense rows, but has sparse ones.")
    return pd.read_csv(
        io.StringIO(body),
        names=names,
        header=None,
        index_col=False,
        quotechar="'",
        skipinitialspace=True,
        na_values=["?"],
        keep_default_na=False,
        on_bad_lines="error",
    )


def _json(text: str, path: Path) -> pd.DataFrame:
    """Return the objects of a JSON list, or of a file with one per line."""
    try:
        if path.suffix.lower() == ".jsonl":
            rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        else:
            rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"{path} must be JSON, but it is not: {error}."
        ) from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InvalidInputError(
            f"{path} must hold a list of objects, one per row of a table."
        )
    return pd.DataFrame(rows)
