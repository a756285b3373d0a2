"""Tables of cells: columns of anything, read as names, numbers and contexts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.spaces import Points, Space

__all__ = ["Frame", "as_frame", "contexts_from", "is_number", "label"]

NAME_COLUMNS = ("target", "source", "context", "name")


@dataclass(frozen=True)
class Frame:
    """Columns of cells, with names for messages.

    Args:
        columns: cells of each column.
        names: name of each column, `""` for one without.
        rows: what to call each row, e.g. `"row 3"`.
        origin: what to call the whole.
    """

    columns: list[Sequence[Any]]
    names: list[str]
    rows: list[str]
    origin: str

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
        """Cells of a column by name, None if there is no such column."""
        return self.columns[self.names.index(name)] if name in self.names else None

    def labels(self, name: str) -> list[str] | None:
        """Cells of a column as text; empty ones are refused."""
        cells = self.column(name)
        if cells is None:
            return None
        for row, cell in enumerate(cells):
            if _is_empty(cell):
                raise InvalidInputError(
                    f"Every row of {self.origin} must have a {name}, but "
                    f"{self.rows[row]} has none."
                )
        return [label(cell) for cell in cells]

    def numbers(
        self, places: Sequence[int], skip: Sequence[int] = ()
    ) -> NDArray[np.float64]:
        """Cells of some columns as numbers, dims `(row, column)`.

        Args:
            places: which columns.
            skip: rows whose cells may be empty; they become NaN.
        """
        out = np.empty((len(self.rows), len(places)))
        for j, place in enumerate(places):
            cells = self.columns[place]
            try:
                out[:, j] = np.asarray(cells, np.float64)
                wrong = np.isnan(out[:, j])
            except (TypeError, ValueError):
                wrong = np.ones(len(cells), bool)
            for i in np.flatnonzero(wrong).tolist():
                if i in skip and _is_empty(cells[i]):
                    out[i, j] = np.nan
                else:
                    out[i, j] = self._number(i, place)
        return out

    def _number(self, row: int, place: int) -> float:
        cell = self.columns[place][row]
        try:
            value = float(cell)
        except (TypeError, ValueError):
            value = math.nan
        if not math.isnan(value):
            return value
        name = f" ({self.names[place]!r})" if self.names[place] else ""
        holds = "is empty" if _is_empty(cell) else f"holds {_plain(cell)!r}"
        raise InvalidInputError(
            f"Every cell of {self.origin} must be a number, but {self.rows[row]}, "
            f"column {place + 1}{name} {holds}."
        )

    def space(self, prefix: str, skip: Sequence[int] = ()) -> Points | None:
        """Contexts from the columns `prefix…`, one a row; None without such columns."""
        places = [i for i, n in enumerate(self.names) if n.startswith(prefix)]
        if not places:
            return None
        values = self.numbers(places, skip)
        values[list(skip)] = 0.0
        names = [self.names[i].removeprefix(prefix) for i in places]
        for place, column in zip(places, values.T, strict=True):
            for row in np.flatnonzero(np.isinf(column)):
                raise InvalidInputError(
                    f"Contexts must be finite, but {self.rows[row]}, column "
                    f"{place + 1} ({self.names[place]!r}) of {self.origin} holds "
                    f"{column[row]}."
                )
        return Points(names, values)


def as_frame(frame: pd.DataFrame, origin: str = "the data frame") -> Frame:
    """A pandas data frame as columns; an index that says something becomes columns."""
    if not isinstance(frame.index, pd.RangeIndex) or frame.index.name is not None:
        names = [name or "" for name in frame.index.names]
        columns = [
            pd.Series(frame.index.get_level_values(i)) for i in range(len(names))
        ]
        columns += [frame.iloc[:, i] for i in range(frame.shape[1])]
        names += [label(name) for name in frame.columns]
    else:
        columns = [frame.iloc[:, i] for i in range(frame.shape[1])]
        names = [label(name) for name in frame.columns]
    rows = [f"row {_plain(label)!r}" for label in frame.index]
    cells: list[Any] = [
        column.to_numpy()
        if column.dtype.kind in "fiub"
        else column.astype(object).tolist()
        for column in columns
    ]
    return Frame(cells, [str(name) for name in names], rows, origin)


def contexts_from(
    contexts: Frame,
    shape: tuple[int, ...],
    spaces: tuple[Space | None, Space | None],
    names: tuple[list[str] | None, list[str] | None],
) -> tuple[Space | None, Space]:
    """Contexts of sources and targets from a second frame; see `table_from_frame`.

    Args:
        contexts: the second frame.
        shape: numbers of sources, policies and targets.
        spaces: contexts that sources and targets have already.
        names: names of sources and targets.
    """
    if spaces[1] is not None:
        raise InvalidInputError(
            "The targets have contexts already, and "
            f"{contexts.origin} gives them again."
        )
    named = next((n for n in NAME_COLUMNS if n in contexts.names), None)
    known = contexts.labels(named) if named else None
    rest = [i for i, n in enumerate(contexts.names) if n != named]
    unnamed = [i + 1 for i in rest if not contexts.names[i]]
    if not rest or unnamed:
        raise InvalidInputError(
            f"{contexts.origin} must have a column a context axis, with its name, but "
            + (f"column {unnamed[0]} has no name." if unnamed else "has none.")
        )
    if known is not None and len(set(known)) < len(known):
        twice = next(name for name in known if known.count(name) > 1)
        raise InvalidInputError(f"{contexts.origin} names {twice!r} more than once.")
    points = contexts.numbers(rest)
    axes = [contexts.names[i] for i in rest]
    axes = [axis.removeprefix("target_").removeprefix("source_") for axis in axes]

    def pick(wanted: list[str] | None, n: int) -> Points | None:
        if known is None:
            return Points(axes, points) if n == len(points) else None
        if wanted is None or any(name not in known for name in wanted):
            return None
        return Points(axes, points[[known.index(name) for name in wanted]])

    n_sources, _, n_targets = shape
    targets = pick(names[1], n_targets)
    if targets is None and known is None:
        raise InvalidInputError(
            f"{contexts.origin} must have one row a target, but there are {n_targets} "
            f"targets and {len(points)} rows."
        )
    if targets is None:
        lost = [n for n in names[1] or () if n not in (known or ())]
        which = f"target {lost[0]!r} is not in it" if lost else "targets have no names"
        raise InvalidInputError(
            f"{contexts.origin} must name every target in its column {named!r}, but "
            f"{which}."
        )
    return spaces[0] or pick(names[0], n_sources), targets


def _is_empty(cell: Any) -> bool:
    if isinstance(cell, str):
        return not cell.strip()
    return cell is None or cell is pd.NA or (isinstance(cell, float) and cell != cell)


def is_number(cell: Any) -> bool:
    """Whether a cell is a number, or text that reads as one."""
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def label(cell: Any) -> str:
    """A cell as a name; whole numbers without a decimal point."""
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    return str(cell).strip()


def _plain(cell: Any) -> Any:
    return cell.item() if isinstance(cell, np.generic) else cell
