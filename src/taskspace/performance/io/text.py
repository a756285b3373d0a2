"""Tables as text: CSV and TSV as spreadsheets and programs of all countries write them.

UTF-8 or UTF-16; cells are separated by commas, or by semicolons or tabs with decimal
commas. Names that a spreadsheet would take for a formula (`=cmd`, `+1`, `-x`, `@sum`)
are written with an apostrophe in front, which is taken off again here.

pandas reads the cells. A column of numbers becomes an array; every other column, and
every column that may hold names, stays text, which `cells.number_of` judges.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.performance.io.cells import Frame, is_blank, is_number, number_of
from taskspace.performance.io.columns import judge_first_row, may_hold_names
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

Column = NDArray[np.float64] | list[str]


MAX_COLUMNS = 100_000
"""Columns that a text file may have; each takes a tenth of a millisecond."""


def escaped(name: str) -> str:
    """Return a name that no spreadsheet takes for a formula; `read_text` undoes it.

    Args:
        name: any name.
    """
    return f"'{name}" if FORMULA.match(name) else name


def _unescaped(cell: str) -> str:
    if cell[:1] == "'" and FORMULA.match(cell):
        return cell[1:]
    return cell


ADVICE = "Say which with --read header or --read 'header=false'."


def read_text(
    path: Path,
    *,
    header: bool | None = None,
    may_be_empty: bool = False,
    n_rows: int | None = None,
    advice: str = ADVICE,
) -> Frame:
    """Return the cells of a CSV or TSV file.

    Args:
        path: the file; in a `.tsv` file only tabs separate cells.
        header: whether the first row holds names; None to find out.
        may_be_empty: whether cells of the matrix may be empty.
        n_rows: how many rows there must be, where that is known: one more, and the
            first one holds names.
        advice: what to do where it cannot be told whether the first row holds names.
    """
    check_file(path, TEXT_FACTOR)
    data = _utf8(path)
    head = data[: data.find(b"\n")] if b"\n" in data else data
    if path.suffix.lower() == ".tsv":
        mark = "\t"
    else:
        # Spreadsheets in many countries write 1,5 and separate cells by semicolons.
        mark = next((m for m in ",;\t" if m.encode() in head), ",")
    first, line, end = _first_row(data, mark, path)
    if len(first) > MAX_COLUMNS:
        raise InvalidInputError(
            f"A text file may have at most {MAX_COLUMNS:,} columns, but {path} has "
            f"{len(first):,}. Write so many targets as an array, e.g. numpy.save."
        )
    names = [_unescaped(cell.strip()) for cell in first]
    body = _Body(data, end, mark, width=len(first), line=line, path=path)
    first = [body.meaning(cell) for cell in first]
    columns, rows = body.read(
        [place for place, name in enumerate(names) if not place or may_hold_names(name)]
    )
    if n_rows is not None:
        header = 1 + len(rows) > n_rows
    if header is None:
        verdict = judge_first_row(
            first, columns, may_be_empty=may_be_empty, texts_of=body.texts
        )
        if verdict == "unsure":
            some = ", ".join(cell.strip() for cell in first[:4])
            raise InvalidInputError(
                f"Row {line} of {path} ({some}{', …' if len(first) > 4 else ''}) may "
                f"hold names of columns or numbers of the matrix. {advice}"
            )
        header = verdict == "names"
    if not header:
        if any(_is_word_above(*pair) for pair in zip(first, columns, strict=True)):
            columns, rows = body.read(range(len(first)))
        columns = [_below(*pair) for pair in zip(first, columns, strict=True)]
        rows = [line, *rows]
    plain: list[Any] = [
        list(map(_unescaped, cells)) if isinstance(cells, list) else cells
        for cells in columns
    ]
    return Frame(
        columns=plain,
        names=names if header else [""] * len(first),
        rows=[f"row {line}" for line in rows],
        origin=str(path),
        # pandas writes an index without a name as a first column without one.
        n_index=int(header and len(first) > 1 and names[0] in ("", "Unnamed: 0")),
    )


def _utf8(path: Path) -> bytes:
    """Return the text of a file in UTF-8, without a byte order mark."""
    data = path.read_bytes()
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    elif data[1:2] == b"\0":
        encoding = "utf-16-le"
    elif data[:1] == b"\0":
        encoding = "utf-16-be"
    else:
        encoding = "utf-8-sig"
    if encoding != "utf-8-sig" or not data.isascii():
        try:
            data = data.decode(encoding).encode()
        except UnicodeDecodeError as error:
            raise InvalidInputError(
                f"{path} must be text in UTF-8 or UTF-16, but byte {error.start} is "
                f"neither. Save it again as UTF-8."
            ) from error
    if b"\0" in data:
        raise InvalidInputError(f"{path} must be text, but holds a zero byte.")
    return data


def _first_row(data: bytes, mark: str, path: Path) -> tuple[list[str], int, int]:
    """Return the first row that holds something, its line, and where it ends."""
    end = 0

    def lines() -> Iterator[str]:
        nonlocal end
        for match in LINE.finditer(data):
            end = match.end()
            yield match[0].decode()

    reader = csv.reader(lines(), delimiter=mark)
    for row in reader:
        if any(cell.strip() for cell in row):
            return row, reader.line_num, end
    raise InvalidInputError(f"{path} must hold a matrix, but is empty.")


@dataclass(frozen=True)
class _Body:
    """What a text holds below its first row.

    Args:
        data: the whole text in UTF-8.
        start: the byte where the first row ends.
        mark: what separates cells.
        width: how many cells the first row has.
        line: the line of the first row.
        path: the file, for messages.
    """

    data: bytes
    start: int
    mark: str
    width: int
    line: int
    path: Path

    def meaning(self, cell: str) -> str:
        """Return a cell with a decimal point, where it has a decimal comma.

        Args:
            cell: its text.
        """
        if self.mark == "," or "," not in cell:
            return cell
        point = cell.replace(",", ".")
        return point if is_number(point) else cell

    def read(self, as_text: Sequence[int]) -> tuple[list[Column], list[int]]:
        """Return columns and the line of each row; rows of blank cells are left out.

        Args:
            as_text: columns that stay text even if they hold numbers.
        """
        if self._begin() == len(self.data):
            return [[] for _ in range(self.width)], []
        try:
            frame = self._parsed(dtype=dict.fromkeys(as_text, object))
        except pd.errors.ParserError as error:
            self._lines()  # says which row is too long, where one is
            raise self._odd() from error
        columns = self._columns(frame)
        n_rows = len(frame)
        blank = np.ones(n_rows, bool)
        for cells in columns:
            blank &= _blank(cells)
            if not blank.any():
                break
        if blank.any():
            keep = np.flatnonzero(~blank)
            columns = [
                [cells[i] for i in keep] if isinstance(cells, list) else cells[keep]
                for cells in columns
            ]
        # pandas fills short rows up with empty cells.
        may_be_short = len(columns) != self.width or _blank(columns[-1]).any()
        if may_be_short or blank.any() or self._n_lines() != n_rows:
            rows = self._lines()
        else:
            rows = list(range(self.line + 1, self.line + 1 + n_rows))
        if len(columns) != self.width or len(rows) != n_rows - blank.sum():
            raise self._odd()
        return columns, rows

    def _odd(self) -> InvalidInputError:
        return InvalidInputError(
            f"Every quote of {self.path} must be closed, but one is not, or its rows "
            "cannot be told apart for another reason. Save it again."
        )

    def texts(self, places: Sequence[int]) -> list[list[str]]:
        """Return some columns as text, rows of blank cells too.

        Args:
            places: which columns, in rising order.
        """
        frame = self._parsed(dtype=object, usecols=list(places))
        return [self._text(frame.loc[:, place]) for place in places]

    def _begin(self) -> int:
        """Return the byte where the first line that is not blank begins."""
        blank = BLANK_LINES.match(self.data, self.start)
        return blank.end() if blank else self.start

    def _parsed(self, **options: Any) -> pd.DataFrame:
        stream = io.BytesIO(self.data)
        stream.seek(self._begin())
        decimal = "."
        if self.mark != "," and re.search(rb"[0-9],[0-9]", self.data):
            decimal = ","
        return pd.read_csv(
            stream,
            sep=self.mark,
            decimal=decimal,
            header=None,
            keep_default_na=False,
            na_values=[""],
            low_memory=False,
            # Where lines end in \r, pandas loses an empty cell behind those it skips.
            skip_blank_lines=False,
            **EXACT,
            **options,
        )

    def _columns(self, frame: pd.DataFrame) -> list[Column]:
        """Columns as numbers where they hold nothing else, as text elsewhere."""
        columns: dict[int, Column] = {}
        unclear = []
        may_overflow: bool | None = None
        for place in range(frame.shape[1]):
            cells = frame.iloc[:, place]
            if cells.dtype.kind in "fiu":
                values = cells.to_numpy(np.float64)
                if np.isinf(values).any():
                    if may_overflow is None:
                        may_overflow = bool(MAY_OVERFLOW.search(self.data))
                    if may_overflow:
                        unclear.append(place)
                columns[place] = values
            elif cells.dtype.kind == "b" or not all(
                isinstance(cell, str) for cell in cells.dropna()
            ):
                # Words that pandas takes for truth values, and numbers of many digits.
                unclear.append(place)
            else:
                columns[place] = self._text(cells)
        if unclear:
            columns |= zip(unclear, self.texts(unclear), strict=True)
        return [columns[place] for place in range(frame.shape[1])]

    def _text(self, cells: pd.Series) -> list[str]:
        texts = cells.astype(object).tolist()
        return [self.meaning(cell) if isinstance(cell, str) else "" for cell in texts]

    def _n_lines(self) -> int:
        """How many lines there are below the first row, whether or not in quotes."""
        count = self.data.count
        n_lines = count(b"\n", self.start)
        if b"\r" in self.data:
            n_lines += count(b"\r", self.start) - count(b"\r\n", self.start)
        return n_lines + (not self.data.endswith((b"\n", b"\r")))

    def _lines(self) -> list[int]:
        """Return the line of each row that is not blank; refuse other widths."""
        stream = io.TextIOWrapper(io.BytesIO(self.data), "utf-8", newline="")
        reader = csv.reader(stream, delimiter=self.mark)
        lines = []
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            lines.append(reader.line_num)
            if len(row) != self.width:
                raise InvalidInputError(
                    f"Every row of {self.path} must have {self.width} cells, but row "
                    f"{lines[-1]} has {len(row)}."
                )
        return lines[1:]


def _blank(cells: Column) -> NDArray[np.bool_]:
    if isinstance(cells, list):
        return np.fromiter(map(is_blank, cells), bool, len(cells))
    return np.isnan(cells)


def _is_word_above(cell: str, cells: Column) -> bool:
    """Whether a cell is no number, but the cells below it are."""
    return not isinstance(cells, list) and not (is_number(cell) or is_blank(cell))


def _below(cell: str, cells: Column) -> Column:
    """Return a column with one more cell on top."""
    if isinstance(cells, list):
        return [cell, *cells]
    return np.concatenate(([number_of(cell)], cells))
