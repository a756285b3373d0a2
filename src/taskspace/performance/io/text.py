"""Tables as text: CSV and TSV as spreadsheets and programs of all countries write them.

UTF-8 or UTF-16; cells are separated by commas, or by semicolons or tabs with decimal
commas. Names that a spreadsheet would take for a formula (`=cmd`, `+1`, `-x`, `@sum`)
are written with an apostrophe in front, which is taken off again here.
"""

import csv
import io
import re
from pathlib import Path

from taskspace.errors import InvalidInputError
from taskspace.performance.io.cells import Frame, is_number
from taskspace.performance.io.limits import check_file
from taskspace.performance.io.names import judge_first_row

__all__ = ["escaped", "read_text"]

# A byte of text becomes a string of its own in the worst case, of 50 bytes and more;
# a cell of a usual matrix has ten characters.
TEXT_FACTOR = 8

FORMULA = re.compile(r"'*[=+\-@\t\r]")


def escaped(name: str) -> str:
    """A name that no spreadsheet takes for a formula; `read_text` undoes it.

    Args:
        name: any name.
    """
    return f"'{name}" if FORMULA.match(name) else name


def _unescaped(cell: str) -> str:
    if cell[:1] == "'" and FORMULA.match(cell):
        return cell[1:]
    return cell


ADVICE = "Say which with header=True or header=False (--header yes or --header no)."


def read_text(
    path: Path,
    *,
    header: bool | None = None,
    may_be_empty: bool = False,
    n_rows: int | None = None,
    advice: str = ADVICE,
) -> Frame:
    """The cells of a CSV or TSV file.

    Args:
        path: the file; in a `.tsv` file only tabs separate cells.
        header: whether the first row holds names; None to find out.
        may_be_empty: whether cells of the matrix may be empty.
        n_rows: how many rows there must be, where that is known: one more, and the
            first one holds names.
        advice: what to do where nobody can tell whether the first row holds names.
    """
    check_file(path, TEXT_FACTOR)
    text = _decoded(path)
    head = text.partition("\n")[0]
    if path.suffix.lower() == ".tsv":
        mark = "\t"
    else:
        # Spreadsheets in many countries write 1,5 and separate cells by semicolons.
        mark = "," if "," in head else next((m for m in ";\t" if m in head), ",")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark)
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
    names = [_unescaped(cell.strip()) for cell in rows[0]]
    if mark != ",":
        rows = [[_decimal_point(cell) for cell in row] for row in rows]
    if n_rows is not None:
        header = len(rows) > n_rows
    if header is None:
        verdict = judge_first_row(rows[0], rows[1:], may_be_empty=may_be_empty)
        if verdict == "unsure":
            first = ", ".join(cell.strip() for cell in rows[0][:4])
            raise InvalidInputError(
                f"Row {lines[0]} of {path} ({first}{', …' if width > 4 else ''}) may "
                f"hold names of columns or numbers of the matrix. {advice}"
            )
        header = verdict == "names"
    body = rows[1:] if header else rows
    return Frame(
        columns=[list(map(_unescaped, cells)) for cells in zip(*body, strict=True)]
        or [[] for _ in names],
        names=names if header else [""] * width,
        rows=[f"row {line}" for line in lines[len(rows) - len(body) :]],
        origin=str(path),
        # pandas writes an index without a name as a first column without one.
        n_index=int(header and width > 1 and names[0] in ("", "Unnamed: 0")),
    )


def _decoded(path: Path) -> str:
    data = path.read_bytes()
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    elif data[1:2] == b"\0":
        encoding = "utf-16-le"
    elif data[:1] == b"\0":
        encoding = "utf-16-be"
    else:
        encoding = "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{path} must be text in UTF-8 or UTF-16, but byte {error.start} is "
            f"neither. Save it again as UTF-8."
        ) from error
    if "\0" in text:
        raise InvalidInputError(f"{path} must be text, but holds a zero byte.")
    return text


def _decimal_point(cell: str) -> str:
    point = cell.replace(",", ".")
    return point if is_number(point) else cell
