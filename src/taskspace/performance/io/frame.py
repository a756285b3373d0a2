"""Tables of columns: what names rows and columns, and what the others mean.

Names may look like numbers: years, ids, values of a context that `pivot` made columns
of. Taken for numbers they become one more source or one more target, and whatever is
proven of that table is false of the user's. So there is one rule, for the first row
and for the first column alike:

- Words are names. So is what stands under a heading that says so (`algorithm`, `id`).
- Numbers may be either, and the user is asked, unless the other names decide. Only
  two equal numbers in a row are no names of columns, and fractions in no order are no
  names of rows.

A wide table has one row per policy. The column `source` names the source that a row
came from, columns `source_k`, `source_c`, … give its context, `policy` names the
policy, `home` is its score at its own source, and every other column is a target. Rows
of the same source form a family. Targets have contexts when their columns are called
`k=1.5;c=0.1`, or from a second table. A row whose source is `best_known` holds the
largest performance that is known to be possible at each target. A column
`standard_error:easy` holds the standard errors of the column `easy`; `n_episodes` and
`provenance` say what the cells are.

A long table has one row per cell: `source` or `source_k`, …; `policy` if a source has
several, for which `seed` and `run` count too; `target` or `target_k`, …; `performance`;
and, if wanted, `standard_error` (or `stderr`, `se`), `n_episodes` and `provenance`.

`seed`, `run`, `step(s)`, `timestep(s)`, `episode(s)`, `iteration(s)`, also with
`total_`, `n_` or `num_` in front, hold whole numbers about how a policy was made, and
`id`, `idx`, `index` and `row` count rows. Such a column is no target unless the user
says so, and neither is a level of an index.
"""

import math
import re
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.spaces import Points

Column = NDArray[Any] | list[str]
"""Numbers, NaN where empty; or text, `""` where empty."""

STANDARD_ERROR = "standard_error:"
"""`standard_error:easy` holds the standard errors of the column `easy`."""

TARGET = "target:"
"""`target:seed` is a target called `seed`, whatever its name would mean otherwise."""

SPECIAL = ("source", "policy", "home", "provenance", "n_episodes")

HEADINGS = {
    "agent", "algo", "algorithm", "benchmark", "case", "checkpoint", "classifier",
    "config", "configuration", "context", "controller", "data_set", "dataset", "domain",
    "env", "environment", "experiment", "game", "id", "idx", "index", "instance",
    "label", "learner", "method", "model", "name", "network", "optimizer", "planner",
    "policies", "problem", "row", "scenario", "solver", "strategy", "system", "target",
    "task", "unnamed:_0", "variant",
}  # fmt: skip
"""What people write above a column of names; a plural too."""

# Texts that programs write for a cell without a value.
EMPTY = frozenset({"", "na", "n/a", "nan", "none", "null", "<na>", "nat"})

# A number in a file; what else Python reads as one (`1_5`, `１５`) is none.
NUMBER = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?)",
    re.IGNORECASE | re.ASCII,
)
NOTE = re.compile(
    r"(total_|n_|num_)?(seed|run|step|timestep|time_step|episode|iteration)s?"
    r"|id|idx|index|row"
)
# numpy.savetxt writes numbers so, and names are not written so.
SAVED_BY_NUMPY = re.compile(r"[+-]?\d\.\d{18}e[+-]\d{2,3}")


# --- cells ------------------------------------------------------------------------


def number_of(text: str) -> float:
    """Return the number that a text holds, NaN where it holds none.

    Digits, a point, an exponent and a sign, or `inf`. Underscores, digits of other
    scripts and numbers beyond the range of floats are no numbers.

    Args:
        text: any cell.
    """
    text = text.strip()
    if not NUMBER.fullmatch(text):
        return math.nan
    value = float(text)
    return math.nan if math.isinf(value) and "n" not in text.lower() else value


def is_number(text: str) -> bool:
    """Whether a text reads as a number.

    Args:
        text: any cell.
    """
    return not math.isnan(number_of(text))


def is_empty(text: str) -> bool:
    """Whether a text has no value: blank, or a word that programs write for it.

    Args:
        text: any cell.
    """
    return text.strip().lower() in EMPTY


def label(value: Any) -> str:
    """Return a cell as a name; whole numbers without a decimal point, nothing as `""`.

    Args:
        value: any cell.
    """
    if isinstance(value, float | np.floating):
        value = float(value)
        return (
            str(int(value))
            if value.is_integer()
            else ""
            if value != value
            else (str(value))
        )
    return "" if value is None or value is pd.NA or value is pd.NaT else str(value)


def squeezed(name: str) -> str:
    """Return a name in small letters, with one underscore for spaces and dashes.

    Args:
        name: any name.
    """
    return re.sub(r"[\s\-]+", "_", name.strip().lower())


# --- names or numbers -------------------------------------------------------------


def is_special(name: str) -> bool:
    """Whether a column of this name is no target, in a file that has names.

    Args:
        name: name of a column.
    """
    return name in (*SPECIAL, "target", "performance") or name.startswith(
        ("source_", "target_", TARGET, STANDARD_ERROR)
    )


def may_hold_names(name: str) -> bool:
    """Whether cells of a column of this name are told apart by how they are written.

    Args:
        name: name of a column.
    """
    words = ("source", "policy", "target", "context", "name", "provenance")
    return name in words or NOTE.fullmatch(squeezed(name)) is not None


def _says_names(heading: str) -> bool:
    return not {squeezed(heading), squeezed(heading).removesuffix("s")}.isdisjoint(
        HEADINGS
    )


def first_row_is_names(
    cells: Sequence[str], below: Column | None = None, may_be_empty: bool = False
) -> bool | None:
    """Whether the first row of a text file holds names of columns; None if unsure.

    Args:
        cells: its cells.
        below: the cells below the first of them; None if they are not read yet.
        may_be_empty: whether cells of the matrix may be empty.
    """
    rest = cells[1:] or cells
    numbers = [cell for cell in rest if is_number(cell)]
    if any(map(is_special, cells)) or any(
        not is_number(cell) and not is_empty(cell) for cell in rest
    ):
        return True
    if len(set(numbers)) < len(numbers) or (
        numbers and all(map(SAVED_BY_NUMPY.fullmatch, numbers))
    ):
        return False
    if below is None:
        return None
    if not len(below):
        return False
    if len(cells) == 1 or is_number(cells[0]):
        return None
    under = [label(cell).strip() for cell in below]
    are_numbers = [is_number(cell) for cell in under]
    if not cells[0]:
        # pandas writes an index without a name so. Otherwise the cell is missing.
        are_words = not any(are_numbers) and not any(map(is_empty, under))
        return are_words or not may_be_empty or None
    if cells[0] in under:
        return None
    return _says_names(cells[0]) or all(are_numbers) or None


def first_column_is_names(names: Sequence[str], first: Column) -> bool | None:
    """Whether the first column of a table holds names of rows; None if unsure.

    Args:
        names: names of the columns, `""` for one without.
        first: cells of the first column.
    """
    cells = [label(cell) for cell in first]
    values = [number_of(cell) for cell in cells]
    if np.isnan(values).all():
        return True
    if any(
        math.isnan(v) and not is_empty(c) for v, c in zip(values, cells, strict=True)
    ):
        return False  # a cell that is no number is told later
    if len(names) == 1 or all(map(SAVED_BY_NUMPY.fullmatch, cells)):
        return False
    if _says_names(names[0]):
        return True
    others = [name for name in names[1:] if not is_special(name)]
    if names[0] and others and all(map(_is_value, others)):
        return not _is_value(names[0])
    pattern = re.sub(r"\d+", "#", names[0])
    if "#" in pattern and pattern in {re.sub(r"\d+", "#", name) for name in others}:
        return False
    in_order = all(a <= b for a, b in pairwise(values))
    return None if in_order or all(v.is_integer() for v in values) else False


def _is_value(name: str) -> bool:
    """Whether the name of a column is a number (`1,5` too), or like `k=1.5`."""
    return (
        is_number(name.replace(",", ".")) or contexts_of_names([name], "") is not None
    )


def contexts_of_names(names: Sequence[str], origin: str) -> Points | None:
    """Contexts from names like `k=1.5;c=0.1`; None unless all are so.

    A name behind `target:` is only a name.

    Args:
        names: names of targets.
        origin: what to call their table.
    """
    rows: list[dict[str, float]] = []
    for name in names:
        pairs = [part.partition("=") for part in name.split(";")]
        if name.startswith(TARGET) or not all(
            axis.strip() and (is_number(value) or value.strip().lower() == "nan")
            for axis, _, value in pairs
        ):
            return None
        rows.append({axis.strip(): number_of(value) for axis, _, value in pairs})
        if not np.isfinite(list(rows[-1].values())).all():
            raise InvalidInputError(
                f"Contexts must be finite, but {origin} has a target {name!r}."
            )
    if not rows or any(set(row) != set(rows[0]) for row in rows):
        return None
    axes = list(rows[0])
    return Points(axes, [[row[axis] for axis in axes] for row in rows])


# --- tables -----------------------------------------------------------------------


@dataclass(frozen=True)
class Frame:
    """Columns of cells, with names for messages.

    Args:
        columns: cells of each column.
        names: name of each column, `""` for one without.
        origin: what to call the whole.
        row: what to call a row, e.g. `"row 3"`.
        n_index: how many of the first columns are levels of an index.
    """

    columns: list[Column]
    names: list[str]
    origin: str
    row: Callable[[int], str]
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

    @classmethod
    def of(cls, data: pd.DataFrame, origin: str = "the data frame") -> "Frame":
        """Return columns of a pandas data frame; levels of its index are the first.

        Args:
            data: the data frame.
            origin: what to call it in messages.
        """
        index = data.index
        names, columns = [], []
        if not isinstance(index, pd.RangeIndex) or index.name is not None:
            names = [label(name) if name else "" for name in index.names]
            columns = [index.get_level_values(i) for i in range(len(names))]
        n_index = len(names)
        columns += [data.iloc[:, i] for i in range(data.shape[1])]
        names += [_column_name(name, data.columns.names) for name in data.columns]
        cells: list[Column] = [
            column.to_numpy()
            if isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiub"
            else [label(cell) for cell in column.astype(object)]
            for column in columns
        ]
        row = index.tolist().__getitem__
        return cls(cells, names, origin, lambda i: f"row {row(i)!r}", n_index)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.columns[0]) if self.columns else 0

    def labels(self, name: str) -> list[str] | None:
        """Cells of a column as names; empty ones are refused. None without such one.

        Args:
            name: its name.
        """
        if name not in self.names:
            return None
        cells = self.columns[self.names.index(name)]
        if isinstance(cells, list):
            said = {cell: cell.strip() for cell in set(cells)}
            is_plain = all(cell == text for cell, text in said.items())
            texts = cells if is_plain else [said[cell] for cell in cells]
        else:
            texts = [label(cell) for cell in cells.tolist()]
        if "" in texts:
            raise InvalidInputError(
                f"Every row of {self.origin} must have a {name}, but "
                f"{self.row(texts.index(''))} has none."
            )
        return texts

    def numbers(
        self,
        places: Sequence[int],
        skip: Collection[int] = (),
        *,
        may_be_empty: bool = False,
    ) -> NDArray[np.float64]:
        """Cells of some columns as numbers, dims `(row, column)`.

        Args:
            places: which columns.
            skip: rows whose cells may be empty; they become NaN.
            may_be_empty: the same for all rows.
        """
        out = np.empty((self.n_rows, len(places)))
        for j, place in enumerate(places):
            cells = self.columns[place]
            out[:, j] = (
                [number_of(cell) for cell in cells]
                if isinstance(cells, list)
                else cells
            )
        for j, i in np.argwhere(np.isnan(out.T)).tolist():
            cell = label(self.columns[places[j]][i])
            if not is_empty(cell) or not (may_be_empty or i in skip):
                raise self._no_number(i, places[j], cell)
        return out

    def column(
        self, name: str, skip: Collection[int] = (), *, may_be_empty: bool = False
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

    def _no_number(self, row: int, place: int, cell: str) -> InvalidInputError:
        name = f" ({self.names[place]!r})" if self.names[place] else ""
        holds = f"holds {repr(cell)[:60]}" if cell.strip() else "is empty"
        if self.names[place].startswith(("source_", "target_")):
            advice = "A context is known, or the row has to go."
        elif is_empty(cell):
            advice = "--read 'missing=\"not served\"' takes it for a failure."
        elif re.search("[0-9],[0-9]", cell):
            advice = "If commas are decimal signs, say --read 'decimal=\",\"'."
        elif place == 0:
            advice = "If the first column holds names, say --read row_names."
        else:
            advice = "--read 'ignore=[\"a\"]' leaves a column out that is no target."
        return InvalidInputError(
            f"Every cell of {self.origin} must be a number, but {self.row(row)}, "
            f"column {place + 1}{name} {holds}. {advice}"
        )

    def space(self, prefix: str, skip: Collection[int] = ()) -> Points | None:
        """Contexts from the columns `prefix…`, one per row; None without such columns.

        Args:
            prefix: how the columns' names begin.
            skip: rows whose cells may be empty.
        """
        places = [i for i, n in enumerate(self.names) if n.startswith(prefix)]
        return self.contexts(places, skip) if places else None

    def contexts(self, places: Sequence[int], skip: Collection[int] = ()) -> Points:
        """Return the contexts in some columns, one per row.

        Args:
            places: numbers of the columns, one per axis.
            skip: rows whose cells may be empty.
        """
        values = self.numbers(places, skip)
        values[list(skip)] = 0.0
        for row, j in np.argwhere(np.isinf(values)).tolist():
            raise InvalidInputError(
                f"Contexts must be finite, but {self.row(row)}, column {places[j] + 1} "
                f"({self.names[places[j]]!r}) of {self.origin} holds {values[row, j]}."
            )
        names = [re.sub("^(target|source)_", "", self.names[i]) for i in places]
        return Points(names, values)

    def is_note(self, place: int) -> bool:
        """Whether a column is a note on the training: by its name and whole numbers.

        Args:
            place: which column.
        """
        if not NOTE.fullmatch(squeezed(self.names[place])):
            return False
        values = [number_of(label(cell)) for cell in self.columns[place]]
        return all(math.isnan(value) or value.is_integer() for value in values)

    def provenance(self, rows: Sequence[int]) -> str | None:
        """Return what the column `provenance` says, None if it says nothing.

        Args:
            rows: the rows that count.
        """
        if "provenance" not in self.names:
            return None
        cells = self.columns[self.names.index("provenance")]
        said = {label(cells[row]).strip() for row in rows} - {""}
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
        values = self.column("n_episodes", may_be_empty=True)
        if values is None:
            return 0
        values = values[list(rows)]
        values = values[~np.isnan(values)]
        if ((values < 1) | (values != np.round(values)) | (values > 1e15)).any():
            raise InvalidInputError(
                f"Column 'n_episodes' of {self.origin} must hold whole numbers >= 1."
            )
        return int(values.min()) if len(values) else 0


def _column_name(name: Any, levels: Sequence[Hashable]) -> str:
    """Return the name of a column; columns of several levels have one name each.

    Levels `target_k`, `target_c` of numbers are the context of a target.
    """
    parts = [label(part) for part in (name if isinstance(name, tuple) else (name,))]
    axes = [str(level) for level in levels]
    if all(a.startswith("target_") for a in axes) and all(map(is_number, parts)):
        pairs = zip(axes, parts, strict=True)
        return ";".join(f"{a.removeprefix('target_')}={v}" for a, v in pairs)
    return " ".join(part.strip() for part in parts if part)
