"""Tables as text: CSV and TSV as spreadsheets and programs of all countries write them.

UTF-8 or UTF-16; cells are separated by commas, or by semicolons or tabs with decimal
commas. Names that a spreadsheet would take for a formula (`=cmd`, `+1`, `-x`, `@sum`)
are written with an apostrophe in front, which is taken off again here.

pandas reads the cells. A column of numbers becomes an array; every other column, and
every column that may hold names, stays text.
"""

import csv
import io
import re
from collections.abc import Callable, Collection, Iterator
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

FORMULA = re.compile(r"'*[=+\-@\t\r]")

LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
BLANK_LINES = re.compile(rb"(?:[ \t]*[\r\n])*+(?:[ \t]*\Z)?")

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


def escaped(name: str) -> str:
    """Return a name that no spreadsheet takes for a formula; `read_text` undoes it.

    Args:
        name: any name.
    """
    return f"'{name}" if FORMULA.match(name) else name


def _unescaped(cell: str) -> str:
    return cell[1:] if cell[:1] == "'" and FORMULA.match(cell) else cell


def read_text(
    path: Path,
    *,
    header: bool | None = None,
    may_be_empty: bool = False,
    texts: Collection[str] = (),
    advice: str = ADVICE,
) -> Frame:
    """Return the cells of a CSV or TSV file.

    Args:
        path: the file; in a `.tsv` file only tabs separate cells.
        header: whether the first row holds names; None to find out.
        may_be_empty: whether cells of the matrix may be empty.
        texts: names of columns that hold names, beside those that always do.
        advice: what to do where it cannot be told whether the first row holds names.
    """
    text = _Text(path)
    names = [_unescaped(cell.strip()) for cell in text.first]
    words = [text.meaning(cell).strip() for cell in text.first]
    kept = {j for j, name in enumerate(names) if may_hold_names(name) or name in texts}
    if header is None:
        header = first_row_is_names(words)
    columns = text.columns({0} if header is False else {0, *kept}, header is False)
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


class _Text:
    """A text file: its first row that is not blank, and what stands below it.

    Args:
        path: the file.
    """

    def __init__(self, path: Path):
        check_file(path, TEXT_FACTOR)
        self.path, self.data = path, _utf8(path)
        # Spreadsheets in many countries write 1,5 and separate cells by semicolons.
        head = self.data[: self.data.find(b"\n")] if b"\n" in self.data else self.data
        marks = "\t" if path.suffix.lower() == ".tsv" else ",;\t"
        self.mark = next((m for m in marks if m.encode() in head), marks[0])
        self.first, self.line, self.end = self._first_row()
        if len(self.first) > MAX_COLUMNS:
            raise InvalidInputError(
                f"A text file may have at most {MAX_COLUMNS:,} columns, but {path} has "
                f"{len(self.first):,}. Write so many targets as an array, e.g. "
                "numpy.save."
            )

    def _first_row(self) -> tuple[list[str], int, int]:
        """Return the first row that holds something, its line, and where it ends."""
        end = 0

        def lines() -> Iterator[str]:
            nonlocal end
            for match in LINE.finditer(self.data):
                end = match.end()
                yield match[0].decode()

        reader = csv.reader(lines(), delimiter=self.mark)
        for row in reader:
            if any(cell.strip() for cell in row):
                return row, reader.line_num, end
        raise InvalidInputError(f"{self.path} must hold a matrix, but is empty.")

    def meaning(self, cell: str) -> str:
        """Return a cell with a decimal point, where it has a decimal comma.

        Args:
            cell: its text.
        """
        if self.mark == "," or "," not in cell:
            return cell
        point = cell.replace(",", ".")
        return point if is_number(point) else cell

    def columns(self, as_text: Collection[int], with_first: bool) -> list[Column]:
        """Return columns of numbers and of text; rows of blank cells are left out.

        Args:
            as_text: columns that stay text even if they hold numbers.
            with_first: the first row is one of the matrix.
        """
        blank_lines = BLANK_LINES.match(self.data, 0 if with_first else self.end)
        begin = blank_lines.end() if blank_lines else 0
        if begin == len(self.data):
            return [[] for _ in self.first]
        decimal = ","
        if self.mark == "," or not re.search(rb"[0-9],[0-9]", self.data):
            decimal = "."

        def parsed(**options: Any) -> pd.DataFrame:
            stream = io.BytesIO(self.data)
            stream.seek(begin)
            return pd.read_csv(
                stream,
                sep=self.mark,
                decimal=decimal,
                header=None,
                keep_default_na=False,
                na_values=[""],
                low_memory=False,
                # Where lines end in \r, pandas loses an empty cell behind those it
                # skips.
                skip_blank_lines=False,
                **EXACT,
                **options,
            )

        try:
            frame = parsed(dtype=dict.fromkeys(as_text, object))
        except pd.errors.ParserError as error:
            assert self.lines  # says which row is too long, where one is
            raise self._odd() from error
        columns = self._typed(frame, as_text, parsed)
        # pandas fills short rows up with empty cells.
        blank = np.ones(len(frame), bool)
        for cells in columns:
            if isinstance(cells, list):
                nothing = {cell for cell in set(cells) if not cell.strip()}
                blank &= [cell in nothing for cell in cells] if nothing else False
            else:
                blank &= np.isnan(cells)
            if not blank.any():
                break
        last = columns[-1]
        is_short = "" in last if isinstance(last, list) else np.isnan(last).any()
        is_odd = is_short or len(columns) != len(self.first)
        n_lines = (
            len(LINE.findall(self.data, begin))
            if b"\r" in self.data
            else (self.data.count(b"\n", begin) + (not self.data.endswith(b"\n")))
        )
        if is_odd or blank.any() or n_lines != len(frame):
            n_rows = len(self.lines) - (not with_first)
            if n_rows != len(frame) - blank.sum() or len(columns) != len(self.first):
                raise self._odd()
        if blank.any():
            keep = np.flatnonzero(~blank)
            columns = [
                [cells[row] for row in keep] if isinstance(cells, list) else cells[keep]
                for cells in columns
            ]
        return columns

    def _typed(
        self,
        frame: pd.DataFrame,
        as_text: Collection[int],
        parsed: Callable[..., pd.DataFrame],
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
        texts = parsed(dtype=object, usecols=again) if again else frame
        for place in set(range(len(kinds))) - set(columns):
            column = (frame if place in as_text else texts)[place]
            number, cells = pd.factorize(column)
            words = [_unescaped(self.meaning(cell)) for cell in cells]
            columns[place] = np.array([*words, ""], object)[number].tolist()
        return [columns[place] for place in range(len(kinds))]

    @cached_property
    def lines(self) -> list[int]:
        """The line of each row that is not blank; other widths are refused."""
        stream = io.TextIOWrapper(io.BytesIO(self.data), "utf-8", newline="")
        reader = csv.reader(stream, delimiter=self.mark)
        lines = []
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
    """Return the text of a file in UTF-8, without a byte order mark."""
    data = path.read_bytes()
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    elif b"\0" in data[:2]:
        encoding = "utf-16-be" if data[:1] == b"\0" else "utf-16-le"
    else:
        encoding = "utf-8-sig"
    if encoding != "utf-8-sig" or not data.isascii():
        try:
            data = data.decode(encoding).encode()
        except UnicodeDecodeError as error:
            raise InvalidInputError(
                f"{path} must be text in UTF-8 or UTF-16, but byte {error.start} is "
                "neither. Save it again as UTF-8."
            ) from error
    if b"\0" in data:
        raise InvalidInputError(f"{path} must be text, but holds a zero byte.")
    return data
