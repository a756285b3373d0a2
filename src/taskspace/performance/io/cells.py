"""Tables of cells: columns of anything, read as names, numbers and contexts."""

import math
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.spaces import Points

# Texts that programs write for a cell without a value.
EMPTY = frozenset({"na", "n/a", "nan", "none", "null", "<na>"})

# A number in a file; what else Python reads as one (`1_5`, `１５`) is none.
NUMBER = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?)",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True)
class Frame:
    """Columns of cells, with names for messages.

    Args:
        columns: cells of each column.
        names: name of each column, `""` for one without.
        rows: what to call each row, e.g. `"row 3"`.
        origin: what to call the whole.
        n_index: how many of the first columns are levels of an index.
    """

    columns: list[Sequence[Any]]
    names: list[str]
    rows: list[str]
    origin: str
    n_index: int = 0

    def __post_init__(self):
        seen: dict[str, int] = {}
        for place, name in enumerate(self.names):
            if name and name in seen:
                raise InvalidInputError(
                    f"Every column of {self.origin} must have a name of its own, but "
                    f"columns {seen[name] + 1} and {place + 1} are both {name!r}."
                )
            seen[name] = place

    def column(self, name: str) -> Sequence[Any] | None:
        """Cells of a column by name, None if there is no such column.

        Args:
            name: its name.
        """
        return self.columns[self.names.index(name)] if name in self.names else None

    def labels(self, name: str) -> list[str] | None:
        """Cells of a column as text; empty ones are refused.

        Args:
            name: its name.
        """
        cells = self.column(name)
        if cells is None:
            return None
        for row, cell in enumerate(cells):
            if is_blank(cell):
                raise InvalidInputError(
                    f"Every row of {self.origin} must have a {name}, but "
                    f"{self.rows[row]} has none."
                )
        return [label(cell) for cell in cells]

    def numbers(
        self,
        places: Sequence[int],
        skip: Sequence[int] = (),
        *,
        may_be_empty: bool = False,
    ) -> NDArray[np.float64]:
        """Cells of some columns as numbers, dims `(row, column)`.

        Args:
            places: which columns.
            skip: rows whose cells may be empty; they become NaN.
            may_be_empty: the same for all rows.
        """
        out = np.empty((len(self.rows), len(places)))
        for j, place in enumerate(places):
            cells = self.columns[place]
            try:
                out[:, j] = np.asarray(cells, np.float64)
                wrong = np.isnan(out[:, j])
                if not isinstance(cells, np.ndarray):
                    wrong |= np.isinf(out[:, j])
                    text = "".join(cell for cell in cells if isinstance(cell, str))
                    # Python reads more as a number than a file means by one.
                    wrong |= "_" in text or not text.isascii()
            except (TypeError, ValueError, OverflowError):
                wrong = np.ones(len(cells), bool)
            for i in np.flatnonzero(wrong).tolist():
                if (may_be_empty or i in skip) and is_empty(cells[i]):
                    out[i, j] = np.nan
                else:
                    out[i, j] = self._number(i, place)
        return out

    def column_numbers(
        self, name: str, skip: Sequence[int] = (), *, may_be_empty: bool = False
    ) -> NDArray[np.float64] | None:
        """Return a column as numbers, None if there is no such column.

        Args:
            name: its name.
            skip: rows whose cells may be empty; they become NaN.
            may_be_empty: the same for all rows.
        """
        if name not in self.names:
            return None
        place = self.names.index(name)
        return self.numbers([place], skip, may_be_empty=may_be_empty)[:, 0]

    def _number(self, row: int, place: int) -> float:
        cell = self.columns[place][row]
        value = number_of(cell)
        if not math.isnan(value):
            return value
        name = f" ({self.names[place]!r})" if self.names[place] else ""
        holds = "is empty" if is_blank(cell) else f"holds {repr(as_python(cell))[:60]}"
        if self.names[place].startswith(("source_", "target_")):
            advice = "A context is known, or the row has to go."
        elif is_empty(cell):
            advice = "--read 'missing=\"not served\"' takes it for a failure."
        elif place == 0:
            advice = "If the first column holds names, say --read row_names."
        else:
            advice = "--read 'ignore=[\"a\"]' leaves a column out that is no target."
        raise InvalidInputError(
            f"Every cell of {self.origin} must be a number, but {self.rows[row]}, "
            f"column {place + 1}{name} {holds}. {advice}"
        )

    def space(self, prefix: str, skip: Sequence[int] = ()) -> Points | None:
        """Contexts from the columns `prefix…`, one per row; None without such columns.

        Args:
            prefix: how the columns' names begin.
            skip: rows whose cells may be empty.
        """
        places = [i for i, n in enumerate(self.names) if n.startswith(prefix)]
        return self.contexts(places, skip) if places else None

    def contexts(self, places: Sequence[int], skip: Sequence[int] = ()) -> Points:
        """Return the contexts in some columns, one per row.

        Args:
            places: numbers of the columns, one per axis.
            skip: rows whose cells may be empty.
        """
        values = self.numbers(places, skip)
        values[list(skip)] = 0.0
        names = [re.sub("^(target|source)_", "", self.names[i]) for i in places]
        for place, column in zip(places, values.T, strict=True):
            for row in np.flatnonzero(np.isinf(column)):
                raise InvalidInputError(
                    f"Contexts must be finite, but {self.rows[row]}, column "
                    f"{place + 1} ({self.names[place]!r}) of {self.origin} holds "
                    f"{column[row]}."
                )
        return Points(names, values)

    def check_contexts(
        self, space: Points, first: NDArray[np.intp], keys: Sequence[Any]
    ) -> None:
        """Refuse a source or target whose rows have different contexts.

        Args:
            space: the context of each row.
            first: the first row of the same source or target, of each row.
            keys: what each row calls its source or target.
        """
        other = (space.points != space.points[first]).any(axis=1)
        for row in np.flatnonzero(other)[:1].tolist():
            raise InvalidInputError(
                "All rows of a source must have the same context, but "
                f"{self.rows[first[row]]} and {self.rows[row]} of {self.origin}, both "
                f"of source {keys[row]!r}, have {space.context(int(first[row]))} and "
                f"{space.context(row)}."
            )

    def provenance(self, rows: Sequence[int]) -> str | None:
        """Return what the column `provenance` says, None if it says nothing.

        Args:
            rows: the rows that count.
        """
        cells = self.column("provenance")
        if cells is None:
            return None
        said = {label(cells[row]) for row in rows if not is_blank(cells[row])}
        if len(said) > 1:
            raise InvalidInputError(
                f"Column 'provenance' of {self.origin} must say the same in every row, "
                f"but says {' and '.join(sorted(said)[:2])}."
            )
        return next(iter(said), None)

    def n_episodes(self, rows: Sequence[int]) -> int:
        """Return how many episodes every cell is the mean of at least, 0 if unknown.

        Args:
            rows: the rows that count.
        """
        values = self.column_numbers("n_episodes", may_be_empty=True)
        if values is None:
            return 0
        values = values[list(rows)]
        values = values[~np.isnan(values)]
        if ((values < 1) | (values != np.round(values)) | (values > 1e15)).any():
            raise InvalidInputError(
                f"Column 'n_episodes' of {self.origin} must hold whole numbers >= 1."
            )
        return int(values.min()) if len(values) else 0


def as_frame(frame: pd.DataFrame, origin: str = "the data frame") -> Frame:
    """Return columns of a pandas data frame; levels of its index are the first ones.

    Args:
        frame: the data frame.
        origin: what to call it in messages.
    """
    names: list[str] = []
    columns: list[pd.Series] = []
    if not isinstance(frame.index, pd.RangeIndex) or frame.index.name is not None:
        names = [label(name) if name else "" for name in frame.index.names]
        levels = range(len(names))
        columns = [pd.Series(frame.index.get_level_values(i)) for i in levels]
    n_index = len(names)
    columns += [frame.iloc[:, i] for i in range(frame.shape[1])]
    names += [_column_name(name, frame.columns.names) for name in frame.columns]
    rows = [f"row {as_python(label)!r}" for label in frame.index]
    cells: list[Any] = [
        column.to_numpy()
        if column.dtype.kind in "fiub"
        else column.astype(object).tolist()
        for column in columns
    ]
    return Frame(cells, names, rows, origin, n_index)


def _column_name(name: Any, levels: Sequence[Hashable]) -> str:
    """Return the name of a column; columns of several levels have one name each.

    Levels `target_k`, `target_c` of numbers are the context of a target.
    """
    parts = name if isinstance(name, tuple) else (name,)
    axes = [str(level) for level in levels]
    if all(a.startswith("target_") for a in axes) and all(map(is_number, parts)):
        pairs = zip(axes, parts, strict=True)
        return ";".join(f"{a.removeprefix('target_')}={label(v)}" for a, v in pairs)
    return " ".join(filter(None, map(label, parts)))


def is_blank(cell: Any) -> bool:
    """Whether a cell holds nothing at all: NaN, None or blank text.

    Args:
        cell: any cell.
    """
    if isinstance(cell, str):
        return not cell.strip()
    if isinstance(cell, float | np.floating):
        return bool(np.isnan(cell))
    return cell is None or cell is pd.NA or cell is pd.NaT


def is_empty(cell: Any) -> bool:
    """Whether a cell has no value: blank, or a word that programs write for it.

    Args:
        cell: any cell.
    """
    return is_blank(cell) or (isinstance(cell, str) and cell.strip().lower() in EMPTY)


def is_number(cell: Any) -> bool:
    """Whether a cell is a number, or text that reads as one.

    Args:
        cell: any cell.
    """
    return not math.isnan(number_of(cell))


def number_of(cell: Any) -> float:
    """Return the number that a cell holds, NaN where it holds none.

    Digits, a point, an exponent and a sign, or `inf`. Underscores, digits of other
    scripts and numbers beyond the range of floats are no numbers.

    Args:
        cell: any cell.
    """
    if isinstance(cell, str):
        text = cell.strip()
        if not NUMBER.fullmatch(text):
            return math.nan
        value = float(text)
        return math.nan if math.isinf(value) and "n" not in text.lower() else value
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def label(cell: Any) -> str:
    """Return a cell as a name; whole numbers without a decimal point.

    Args:
        cell: any cell.
    """
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    return str(cell).strip()


def as_python(cell: Any) -> Any:
    """Return a NumPy number as Python's, anything else as it is.

    Args:
        cell: any cell.
    """
    return cell.item() if isinstance(cell, np.generic) else cell


def upper(text: str) -> str:
    """Return the text with a capital letter.

    Args:
        text: any text.
    """
    return text[:1].upper() + text[1:]
