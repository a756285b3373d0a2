"""CSV and TSV files: pandas reads the cells, one rule finds the names of columns.

Commas separate the cells of a `.csv` file, tabs those of a `.tsv` file; numbers have
decimal points, and the text is UTF-8. What is written otherwise is refused: pandas
reads it, and `ts.study_from` takes the frame.
"""

import csv
import io
import re
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from taskspace._util.files import check_file
from taskspace.errors import InvalidInputError
from taskspace.performance.io.cells import (
    check_column_names,
    first_row_is_names,
    is_blank,
    label,
)

# A byte of text becomes a string of its own in the worst case, of 50 bytes and more;
# a cell of a usual matrix has ten characters.
TEXT_FACTOR = 8

DECIMAL_COMMA = re.compile(r"\s*[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?\s*")

BLANK = re.compile(rb"\s*+\Z")

# Digits that may lie beyond the range of floats, as `1e400` does.
MAY_OVERFLOW = re.compile(rb"[eE]\+?[0-9]{3}|[0-9]{200}")

# Before pandas 3.1 the nearest float must be asked for.
EXACT: dict[str, Any] = (
    {"float_precision": "round_trip"}
    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
    else {}
)

PANDAS = "Read it with pandas: ts.study_from(pd.read_csv(FILE, {}))."

MAX_COLUMNS = 100_000
"""Columns that a text file may have; each takes a tenth of a millisecond."""

NAME_COLUMNS = {"source", "policy", "target", "context", "name"}
"""Columns whose cells are names, and so stay as they are written."""


def read_text(
    path: Path,
    *,
    header: bool | None = None,
    may_be_empty: bool = False,
    texts: Collection[str] = (),
) -> pd.DataFrame:
    """Return the cells of a CSV or TSV file, with line numbers as the index.

    A column of numbers has a type of numbers; every other column, the first one and
    every column of names has the texts of its cells, NaN where empty.

    Args:
        path: the file.
        header: whether the first row holds names; None to find out.
        may_be_empty: whether cells of the matrix may be empty.
        texts: names of columns that hold names, beside those that always do.

    Returns:
        The cells; columns are called by their names, or `""` without a header.
    """
    text = _Text(path)
    names = [cell.strip() for cell in text.first]
    if header is None:
        header = first_row_is_names(names)
    with_names = {
        j for j, name in enumerate(names) if name in NAME_COLUMNS or name in texts
    }
    frame = text.cells({0} if header is False else {0, *with_names}, header is False)
    for cell in [*text.first, *frame[0].unique()]:
        if isinstance(cell, str) and DECIMAL_COMMA.fullmatch(cell):
            some = "sep=';', decimal=','"
            raise InvalidInputError(
                f"{cell.strip()!r} in {path} may be a number with a decimal comma or "
                f"a name. {PANDAS.format(some)}"
            )
    if header is None:
        header = first_row_is_names(names, frame[0], may_be_empty)
        if header is None:
            some = ", ".join(names[:4])
            raise InvalidInputError(
                f"Row {text.line} of {path} ({some}{', …' * (len(names) > 4)}) may "
                "hold names of columns or numbers of the matrix. Say which with --read "
                "header or --read 'header=false'."
            )
        if not header:
            frame = text.cells({0}, True)
    frame.columns = pd.Index(names if header else [""] * len(names), dtype=object)
    check_column_names(frame, str(path))
    return frame


class _Text:
    """A text file: its first row that is not blank, and what stands below it."""

    def __init__(self, path: Path):
        check_file(path, TEXT_FACTOR)
        self.path, self.data = path, _utf8(path)
        self.sep = "\t" if path.suffix.lower() == ".tsv" else ","
        self.first, self.line, self.end = self._first_row()
        other_marks = ";\t,".replace(self.sep, "")
        others = [mark for mark in other_marks if mark in "".join(self.first)]
        if len(self.first) == 1 and others:
            raise InvalidInputError(
                f"Cells of {path} must be separated by {self.sep!r}, but row "
                f"{self.line} has none. {PANDAS.format(f'sep={others[0]!r}')}"
            )
        if len(self.first) > MAX_COLUMNS:
            raise InvalidInputError(
                f"A text file may have at most {MAX_COLUMNS:,} columns, but {path} has "
                f"{len(self.first):,}. Write so many targets as an array, e.g. "
                "numpy.save."
            )

    def _rows(self) -> Any:
        stream = io.TextIOWrapper(io.BytesIO(self.data), "utf-8", newline="")
        return csv.reader(stream, delimiter=self.sep)

    def _first_row(self) -> tuple[list[str], int, int]:
        """Return the first row that holds something, its line, and where it ends."""
        reader = self._rows()
        for row in reader:
            if any(cell.strip() for cell in row):
                end = 0
                for _ in range(reader.line_num):
                    end = self.data.find(b"\n", end) + 1 or len(self.data)
                return row, reader.line_num, end
        raise InvalidInputError(f"{self.path} must hold a matrix, but is empty.")

    def cells(self, as_text: Collection[int], with_first: bool) -> pd.DataFrame:
        """Return the rows that are not blank, by their lines.

        Args:
            as_text: columns that stay text even if they hold numbers.
            with_first: the first row is one of the matrix.
        """
        begin = 0 if with_first else self.end
        if BLANK.match(self.data, begin):
            return pd.DataFrame(columns=range(len(self.first)))
        frame = self._parsed(begin, as_text)
        if odd := self._not_as_written(frame, as_text):
            frame = self._parsed(begin, {*as_text, *odd})
        empty = np.flatnonzero(is_blank(frame[0]))
        blank = [row for row in empty if not any(map(label, frame.iloc[row]))]
        # pandas fills short rows up with empty cells, and a quote may hold many lines.
        is_short = is_blank(frame.iloc[:, -1]).any()
        n_lines = self.data.count(b"\n", begin) + (not self.data.endswith(b"\n"))
        lines: Any = np.arange(len(frame)) + self.line + (not with_first)
        if is_short or blank or n_lines != len(frame):
            lines = self.lines[not with_first :]
            if len(lines) != len(frame) - len(blank):
                raise self._odd()
        if frame.shape[1] != len(self.first):
            assert self.lines  # says which row has another width
            raise self._odd()
        frame = frame.drop(index=blank) if blank else frame
        frame.index = pd.Index(lines)
        return frame

    def _parsed(self, begin: int, as_text: Collection[int]) -> pd.DataFrame:
        stream = io.BytesIO(self.data)
        stream.seek(begin)
        try:
            frame = pd.read_csv(
                stream,
                sep=self.sep,
                header=None,
                keep_default_na=False,
                na_values=[""],
                low_memory=False,
                dtype=dict.fromkeys(as_text, object),
                **EXACT,
            )
        except pd.errors.ParserError as error:
            assert self.lines  # says which row is too long, where one is
            raise self._odd() from error
        return frame.copy()  # with all columns of one type in one array

    def _not_as_written(
        self, frame: pd.DataFrame, as_text: Collection[int]
    ) -> list[int]:
        """Return columns of truth values, and of numbers beyond the range of floats."""
        kinds = [dtype.kind for dtype in frame.dtypes]
        truths = [
            j
            for j, kind in enumerate(kinds)
            if kind not in "fiu" and j not in as_text
            if pd.api.types.infer_dtype(frame[j], skipna=True) == "boolean"
        ]
        plain = np.array([j for j, kind in enumerate(kinds) if kind == "f"], int)
        endless = plain[np.isinf(frame[plain].to_numpy()).any(axis=0)]
        if len(endless) and MAY_OVERFLOW.search(self.data):
            return [*truths, *endless.tolist()]
        return truths

    @cached_property
    def lines(self) -> list[int]:
        """The line of each row that is not blank; other widths are refused."""
        reader, lines = self._rows(), []
        try:
            for row in reader:
                if not any(cell.strip() for cell in row):
                    continue
                lines.append(reader.line_num)
                if len(row) != len(self.first):
                    raise InvalidInputError(
                        f"Every row of {self.path} must have {len(self.first)} cells, "
                        f"but row {lines[-1]} has {len(row)}."
                    )
        except csv.Error as error:
            raise InvalidInputError(
                f"The rows of {self.path} must be told apart, but row "
                f"{reader.line_num} cannot be read: {error}."
            ) from error
        return lines

    def _odd(self) -> InvalidInputError:
        return InvalidInputError(
            f"Every quote of {self.path} must be closed, but one is not, or its rows "
            "cannot be told apart for another reason. Save it again."
        )


def _utf8(path: Path) -> bytes:
    """Return the text of a file in UTF-8; a line feed ends each line."""
    data = path.read_bytes()
    try:
        if not data.isascii():
            data = data.decode("utf-8-sig").encode()
        if b"\0" in data:
            raise ValueError("it holds a zero byte")
    except ValueError as error:
        some = "encoding='utf-16'"
        raise InvalidInputError(
            f"{path} must be text in UTF-8, but: {error}. {PANDAS.format(some)}"
        ) from error
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data
