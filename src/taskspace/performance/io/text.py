"""Tables as text: CSV and TSV as spreadsheets and programs of all countries write them.

UTF-8 or UTF-16; cells are separated by commas, or by semicolons or tabs with decimal
commas. Names that a spreadsheet would take for a formula (`=cmd`, `+1`, `-x`, `@sum`)
are written with an apostrophe in front, which is taken off again here.
"""

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path

from taskspace.errors import InvalidInputError
from taskspace.performance.io.cells import Frame, is_number
from taskspace.performance.io.limits import check_file

__all__ = ["escaped", "read_text"]

# A byte of text becomes a string of its own in the worst case, of 50 bytes and more;
# a cell of a usual matrix has ten characters.
TEXT_FACTOR = 8

FORMULA = re.compile(r"'*[=+\-@\t\r]")
NAMED = ("source", "policy", "target", "performance", "home")


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


def read_text(path: Path) -> Frame:
    """The cells of a CSV or TSV file.

    Args:
        path: the file; in a `.tsv` file only tabs separate cells.
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
    has_names = _is_header(rows[0])
    names = [_unescaped(cell.strip()) if has_names else "" for cell in rows[0]]
    body = rows[1:] if has_names else rows
    if mark != ",":
        body = [[_decimal_point(cell) for cell in row] for row in body]
    return Frame(
        columns=[list(map(_unescaped, cells)) for cells in zip(*body, strict=True)],
        names=names,
        rows=[f"row {line}" for line in lines[len(rows) - len(body) :]],
        origin=str(path),
        # pandas writes an index without a name as a first column without one.
        n_index=int(has_names and width > 1 and names[0] in ("", "Unnamed: 0")),
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


def _is_header(row: Sequence[str]) -> bool:
    """Whether a first row holds names: words, or numbers where it shows otherwise."""
    cells = [cell.strip() for cell in row]
    if not any(is_number(cell) for cell in cells[1:] or cells):
        return True
    if any(c in NAMED or c.startswith(("source_", "target_")) for c in cells):
        return True
    # pandas numbers columns without names, and leaves the index without one.
    return cells == ["", *map(str, range(len(cells) - 1))]


def _decimal_point(cell: str) -> str:
    point = cell.replace(",", ".")
    return point if is_number(point) else cell
