"""Tables as text: pandas reads CSV and TSV.

Commas separate the cells of a file, tabs those of a `.tsv` file; numbers have decimal
points, and the text is UTF-8. What is written otherwise is refused with the keyword to
state: `sep=";"`, `decimal=","`, `encoding="utf-16"`.

A column of numbers becomes an array; every other column, and every column that may
hold names, stays text.
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

from taskspace.errors import InvalidInputError
from taskspace.performance.io.frame import (
    Column,
    Frame,
    first_row_is_names,
    is_number,
    may_hold_names,
)
from taskspace.performance.io.limits import check_file

# A byte of text becomes a string of its own in the worst case, of 50 bytes and more;
# a cell of a usual matrix has ten characters.
TEXT_FACTOR = 8

DECIMAL_COMMA = re.compile(r"\s*[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?\s*")

# Names that a spreadsheet would take for a formula are written with an apostrophe.
FORMULA = re.compile(r"'+[=+\-@\t\r]")

BLANK = re.compile(rb"\s*+\Z")

# Digits that may lie beyond the range of floats, as `1e400` does.
MAY_OVERFLOW = re.compile(rb"[eE]\+?[0-9]{3}|[0-9]{200}")

# Before pandas 3.1 the nearest float must be asked for.
EXACT: dict[str, Any] = (
    {"float_precision": "round_trip"}
    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
    else {}
)

MAX_COLUMNS = 100_000
"""Columns that a text file may have; each takes a tenth of a millisecond."""

ADVICE = "Say which with --read header or --read 'header=false'."


def read_text(
    path: Path,
    *,
    header: bool | None = None,
    may_be_empty: bool = False,
    texts: Collection[str] = (),
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    advice: str = ADVICE,
) -> Frame:
    """Return the cells of a CSV or TSV file.

    Args:
        path: the file.
        header: whether the first row holds names; None to find out.
        may_be_empty: whether cells of the matrix may be empty.
        texts: names of columns that hold names, beside those that always do.
        sep: what separates cells; by its name a comma or a tab.
        decimal: the decimal sign, `"."` or `","`; None for a point, and then cells
            like `1,5` where names may stand are refused.
        encoding: of the text; UTF-8 if left out.
        advice: what to do where it cannot be told whether the first row holds names.
    """
    text = _Text(path, sep, decimal, encoding)
    names = [_unescaped(cell.strip()) for cell in text.first]
    words = [text.meaning(cell).strip() for cell in text.first]
    kept = {j for j, name in enumerate(names) if may_hold_names(name) or name in texts}
    if header is None:
        header = first_row_is_names(words)
    columns = text.columns({0} if header is False else {0, *kept}, header is False)
    if decimal is None:
        _refuse_decimal_commas(path, [*text.first, *columns[0]])
    if header is None:
        header = first_row_is_names(words, columns[0], may_be_empty)
        if header is None:
            some = ", ".join(cell.strip() for cell in text.first[:4])
            raise InvalidInputError(
                f"Row {text.line} of {path} ({some}{', …' * (len(names) > 4)}) may "
                f"hold names of columns or numbers of the matrix. {advice}"
            )
        if not header:
            columns = text.columns({0}, True)
    return Frame(
        columns=columns,
        names=names if header else [""] * len(names),
        origin=str(path),
        row=lambda row: f"row {text.lines[row + header]}",
        # pandas writes an index without a name as a first column without one.
        n_index=int(header and len(names) > 1 and names[0] in ("", "Unnamed: 0")),
    )


def _unescaped(cell: str) -> str:
    return cell[1:] if FORMULA.match(cell) else cell


def _refuse_decimal_commas(path: Path, cells: Collection[Any]) -> None:
    """Refuse numbers that would be taken for names because of their commas."""
    for cell in cells:
        if isinstance(cell, str) and DECIMAL_COMMA.fullmatch(cell):
            raise InvalidInputError(
                f"{cell.strip()!r} in {path} may be a number with a decimal comma or "
                "a name. Say --read 'decimal=\",\"' or --read 'decimal=\".\"'."
            )


class _Text:
    """A text file: its first row that is not blank, and what stands below it."""

    def __init__(
        self, path: Path, sep: str | None, decimal: str | None, encoding: str | None
    ):
        check_file(path, TEXT_FACTOR)
        self.path, self.decimal = path, decimal or "."
        usual = "\t" if path.suffix.lower() == ".tsv" else ","
        self.sep = usual if sep is None else sep
        if len(self.sep) != 1 or self.sep in '"\r\n' or self.decimal not in (".", ","):
            raise InvalidInputError(
                'sep must be one character and decimal must be "." or ",", but got '
                f"{self.sep!r} and {self.decimal!r}."
            )
        if self.sep == self.decimal:
            raise InvalidInputError(
                f"In {path} {self.sep!r} cannot separate cells and be the decimal "
                'sign. Say --read \'sep=";", decimal=","\' if semicolons do.'
            )
        self.data = _utf8(path, encoding)
        self.first, self.line, self.end = self._first_row()
        other = next(
            (m for m in ";\t,".replace(usual, "") if m in "".join(self.first)), ""
        )
        if sep is None and len(self.first) == 1 and other:
            spelt = "\\t" if other == "\t" else other
            raise InvalidInputError(
                f"Cells of {path} must be separated by {usual!r}, but row {self.line} "
                f"has none. Save it so, or say of a matrix what does, e.g. --read "
                f'\'sep="{spelt}"\' (and decimal="," where numbers are written 1,5).'
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

    def meaning(self, cell: str) -> str:
        """Return a cell with a decimal point, where it has a decimal comma.

        Args:
            cell: its text.
        """
        if self.decimal == "." or "," not in cell or "." in cell:
            return cell
        point = cell.replace(",", ".")
        return point if is_number(point) else cell

    def columns(self, as_text: Collection[int], with_first: bool) -> list[Column]:
        """Return columns of numbers and of text; rows of blank cells are left out.

        Args:
            as_text: columns that stay text even if they hold numbers.
            with_first: the first row is one of the matrix.
        """
        begin = 0 if with_first else self.end
        if BLANK.match(self.data, begin):
            return [[] for _ in self.first]
        frame = self._parsed(begin, dtype=dict.fromkeys(as_text, object))
        columns = self._typed(frame, begin, as_text)
        blank = np.ones(len(frame), bool)
        for cells in columns:
            if isinstance(cells, list):
                blank &= [not cell.strip() for cell in cells]
            else:
                blank &= np.isnan(cells)
            if not blank.any():
                break
        # pandas fills short rows up with empty cells, and a quote may hold many lines.
        last = columns[-1]
        is_short = "" in last if isinstance(last, list) else np.isnan(last).any()
        n_lines = self.data.count(b"\n", begin) + (not self.data.endswith(b"\n"))
        if is_short or blank.any() or n_lines != len(frame):
            n_rows = len(self.lines) - (not with_first)
            if n_rows != len(frame) - blank.sum():
                raise self._odd()
        if len(columns) != len(self.first):
            assert self.lines  # says which row has another width
            raise self._odd()
        if blank.any():
            keep = np.flatnonzero(~blank)
            columns = [
                [cells[row] for row in keep] if isinstance(cells, list) else cells[keep]
                for cells in columns
            ]
        return columns

    def _parsed(self, begin: int, **options: Any) -> pd.DataFrame:
        stream = io.BytesIO(self.data)
        stream.seek(begin)
        try:
            return pd.read_csv(
                stream,
                sep=self.sep,
                decimal=self.decimal,
                header=None,
                keep_default_na=False,
                na_values=[""],
                low_memory=False,
                **EXACT,
                **options,
            )
        except pd.errors.ParserError as error:
            assert self.lines  # says which row is too long, where one is
            raise self._odd() from error

    def _typed(
        self, frame: pd.DataFrame, begin: int, as_text: Collection[int]
    ) -> list[Column]:
        """Columns as numbers where they hold nothing else, as text elsewhere."""
        kinds = [dtype.kind for dtype in frame.dtypes]
        plain = [
            j for j, kind in enumerate(kinds) if kind in "fiu" and j not in as_text
        ]
        values = frame[plain].to_numpy(np.float64)
        columns: dict[int, Column] = dict(zip(plain, values.T, strict=True))
        endless = np.isinf(values).any(axis=0)
        if endless.any() and MAY_OVERFLOW.search(self.data):
            for j in np.flatnonzero(endless):
                del columns[plain[j]]
        # Words, truth values, numbers of many digits: as they are written.
        again = [j for j in range(len(kinds)) if j not in columns and j not in as_text]
        texts = self._parsed(begin, dtype=object, usecols=again) if again else frame
        for place in set(range(len(kinds))) - set(columns):
            column = (frame if place in as_text else texts)[place]
            number, cells = pd.factorize(column)
            words = [_unescaped(self.meaning(cell)) for cell in cells]
            if self.decimal == ",":
                self._refuse_points(cells)
            columns[place] = np.array([*words, ""], object)[number].tolist()
        return [columns[place] for place in range(len(kinds))]

    def _refuse_points(self, cells: Collection[str]) -> None:
        for cell in cells:
            if "." in cell and is_number(cell):
                raise InvalidInputError(
                    f"Numbers of {self.path} must have decimal commas, as you said, "
                    f"but {cell.strip()!r} has a point."
                )

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


def _utf8(path: Path, encoding: str | None) -> bytes:
    """Return the text of a file in UTF-8; a line feed ends each line."""
    data = path.read_bytes()
    try:
        if encoding is not None or not data.isascii():
            data = data.decode(encoding or "utf-8-sig").removeprefix("\ufeff").encode()
    except (UnicodeDecodeError, LookupError) as error:
        raise InvalidInputError(
            f"{path} must be text in {encoding or 'UTF-8'}, but: {error}. Save it "
            "as UTF-8, or say of a matrix how it is written, e.g. --read "
            "'encoding=\"utf-16\"' or --read 'encoding=\"latin-1\"'."
        ) from error
    if b"\0" in data:
        raise InvalidInputError(
            f"{path} must be text in {encoding or 'UTF-8'}, but holds a zero byte. "
            "Save it as UTF-8, or say of a matrix how it is written, e.g. --read "
            "'encoding=\"utf-16-le\"'."
        )
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data
