"""What a cell is, and whether cells are names or numbers.

Names may look like numbers: years, ids, values of a context that `pivot` made columns
of. Taken for numbers they become one more source or one more target, and whatever is
proven of that table is false of the user's. So there is one rule, for the first row
and for the first column alike:

- Words are names. So is what stands under a heading that says so (`algorithm`, `id`).
- Numbers may be either, and the user is asked, unless the other names decide. Only
  two equal numbers in a row are no names of columns, and fractions in no order are no
  names of rows.
"""

import math
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.spaces import Points

SPECIAL = ("source", "policy", "home")
"""Columns of a wide table that are no targets; `source_k`, … are none either."""

HEADINGS = {
    "agent", "algo", "algorithm", "benchmark", "case", "checkpoint", "classifier",
    "config", "configuration", "context", "controller", "data_set", "dataset", "domain",
    "env", "environment", "experiment", "game", "id", "idx", "index", "instance",
    "label", "learner", "method", "model", "name", "network", "optimizer", "planner",
    "policies", "problem", "row", "scenario", "solver", "strategy", "system", "target",
    "task", "unnamed:_0", "variant",
}  # fmt: skip
"""What people write above a column of names; a plural too."""

# Columns about how a policy was made or how a score was measured.
NOTE = re.compile(
    r"(total_|n_|num_)?(seed|run|step|timestep|time_step|episode|iteration)s?"
    r"|id|idx|index|row|provenance|stderr|se|standard_error(:.*)?"
)

# Texts that programs write for a cell without a value.
EMPTY = frozenset({"", "na", "n/a", "nan", "none", "null", "<na>", "nat"})

# A number in a file; what else Python reads as one (`1_5`, `１５`) is none.
NUMBER = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?)",
    re.IGNORECASE | re.ASCII,
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
    """Return whether a text reads as a number.

    Args:
        text: any cell.
    """
    return not math.isnan(number_of(text))


def is_empty(text: str) -> bool:
    """Return whether a text is blank, or a word that programs write for no value.

    Args:
        text: any cell.
    """
    return text.strip().lower() in EMPTY


def is_blank(cells: Any) -> NDArray[np.bool_]:
    """Return which cells hold nothing, or blanks alone.

    Args:
        cells: a column.
    """
    if cells.dtype.kind in "fiub":
        return cells.isna().to_numpy()
    index, distinct = pd.factorize(cells)
    return np.array([*(not label(cell) for cell in distinct), True])[index]


def label(value: Any) -> str:
    """Return a cell as a name; whole numbers without a decimal point, nothing as `""`.

    Args:
        value: any cell.
    """
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    is_missing = pd.api.types.is_scalar(value) and pd.isna(value)
    return "" if is_missing else str(value).strip()


def row_name(frame: pd.DataFrame, row: int) -> str:
    """Return what to call a row: by its line in a file, or by its index.

    Args:
        frame: the table.
        row: which row.
    """
    return f"row {frame.index[[row]].tolist()[0]!r}"


def numbers(
    frame: pd.DataFrame,
    places: Sequence[int],
    origin: str,
    *,
    skip: Sequence[int] = (),
    may_be_empty: bool = False,
) -> NDArray[np.float64]:
    """Return cells of some columns as numbers, dims `(row, column)`.

    Args:
        frame: the table.
        places: which columns.
        origin: what to call the table.
        skip: rows whose cells may be empty; they become NaN.
        may_be_empty: the same for all rows.
    """
    some = frame.iloc[:, list(places)]
    is_text = [dtype.kind not in "fiub" for dtype in some.dtypes]
    if not any(is_text):
        values = some.to_numpy(np.float64)
    else:
        values = np.empty(some.shape)
        for j in range(len(places)):
            cells = some.iloc[:, j]
            if is_text[j]:
                cells = [number_of(label(cell)) for cell in cells]
            values[:, j] = cells
    holes = np.argwhere(np.isnan(values.T)) if np.isnan(values).any() else values[:0]
    for j, row in holes.tolist():
        is_allowed = may_be_empty or row in skip
        if is_allowed and not is_text[j]:
            continue
        cell = label(some.iat[row, j])
        if not (is_allowed and is_empty(cell)):
            raise _no_number(frame, row, places[j], cell, origin)
    return values


def _no_number(
    frame: pd.DataFrame, row: int, place: int, cell: str, origin: str
) -> InvalidInputError:
    name = str(frame.columns[place])
    called = f" ({name!r})" if name else ""
    holds = f"holds {repr(cell)[:60]}" if cell else "is empty"
    if name.startswith(("source_", "target_")):
        advice = "A context is known, or the row has to go."
    elif is_empty(cell):
        advice = "--read 'missing=\"not served\"' takes it for a failure."
    elif re.search("[0-9],[0-9]", cell):
        advice = "pandas reads decimal commas: pd.read_csv(FILE, decimal=',')."
    elif place == 0:
        advice = "If the first column holds names, say --read row_names."
    else:
        advice = "--read 'ignore=[\"a\"]' leaves a column out that is no target."
    return InvalidInputError(
        f"Every cell of {origin} must be a number, but {row_name(frame, row)}, "
        f"column {place + 1}{called} {holds}. {advice}"
    )


def contexts_in(
    frame: pd.DataFrame, places: Sequence[int], origin: str, skip: Sequence[int] = ()
) -> Points:
    """Return the contexts in some columns, one per row.

    Args:
        frame: the table.
        places: the columns, one per axis; `source_k` and `target_k` are axes `k`.
        origin: what to call the table.
        skip: rows whose cells may be empty.
    """
    values = numbers(frame, places, origin, skip=skip).copy()
    values[list(skip)] = 0.0
    for row, j in np.argwhere(np.isinf(values)).tolist():
        raise InvalidInputError(
            f"Contexts must be finite, but {row_name(frame, row)}, column "
            f"{places[j] + 1} ({frame.columns[places[j]]!r}) of {origin} holds "
            f"{values[row, j]}."
        )
    names = [re.sub("^(target|source)_", "", frame.columns[i]) for i in places]
    return Points(names, values)


# --- names ------------------------------------------------------------------------


def check_column_names(frame: pd.DataFrame, origin: str) -> None:
    """Refuse two columns of one name.

    Args:
        frame: a table whose columns have names, `""` for none.
        origin: what to call it.
    """
    again = np.flatnonzero(frame.columns.duplicated() & (frame.columns != ""))
    for second in again[:1].tolist():
        name = frame.columns[second]
        first = frame.columns.tolist().index(name)
        raise InvalidInputError(
            f"The columns of {origin} must have different names, but columns "
            f"{first + 1} and {second + 1} are both {name!r}."
        )


def is_special(name: str) -> bool:
    """Return whether a column of this name is no target, in a file that has names.

    Args:
        name: name of a column.
    """
    return name in (*SPECIAL, "target", "performance") or name.startswith(
        ("source_", "target_", "standard_error:")
    )


def is_note(name: str) -> bool:
    """Return whether a column of this name may be about how a policy was made.

    Args:
        name: name of a column.
    """
    return NOTE.fullmatch(_squeezed(name)) is not None


def _squeezed(name: str) -> str:
    return re.sub(r"[\s\-]+", "_", name.strip().lower())


def _says_names(heading: str) -> bool:
    word = _squeezed(heading)
    return word in HEADINGS or word.removesuffix("s") in HEADINGS


def first_row_is_names(
    cells: Sequence[str],
    below: Iterable[Any] | None = None,
    may_be_empty: bool = False,
) -> bool | None:
    """Return whether the first row of a text file holds names of columns.

    Args:
        cells: its cells.
        below: the cells below the first of them; None if they are not read yet.
        may_be_empty: whether cells of the matrix may be empty.

    Returns:
        None where both readings fit.
    """
    rest = cells[1:] or cells
    values = [cell for cell in rest if is_number(cell)]
    if any(map(is_special, cells)) or any(
        not is_number(cell) and not is_empty(cell) for cell in rest
    ):
        return True
    if len(set(values)) < len(values) or (
        values and all(map(SAVED_BY_NUMPY.fullmatch, values))
    ):
        return False
    if below is None:
        return None
    under = list(map(label, below))
    if not under:
        return False
    if len(cells) == 1 or is_number(cells[0]):
        return None
    if not cells[0]:
        # pandas writes an index without a name so. Otherwise the cell is missing.
        are_words = not any(is_number(cell) or is_empty(cell) for cell in under)
        return are_words or not may_be_empty or None
    if cells[0] in under:
        return None
    return _says_names(cells[0]) or all(map(is_number, under)) or None


def first_column_is_names(names: Sequence[str], first: Iterable[Any]) -> bool | None:
    """Return whether the first column of a table holds names of rows.

    Args:
        names: names of the columns, `""` for one without.
        first: cells of the first column.

    Returns:
        None where both readings fit.
    """
    cells = list(map(label, first))
    values = list(map(number_of, cells))
    if np.isnan(values).all():
        return True
    if any(
        math.isnan(v) and not is_empty(c) for v, c in zip(values, cells, strict=True)
    ):
        return False  # the cell that is no number is refused later
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
    """Return the contexts in names like `k=1.5;c=0.1`; None unless all are so.

    Args:
        names: names of targets.
        origin: what to call their table.
    """
    rows: list[dict[str, float]] = []
    for name in names:
        pairs = [part.partition("=") for part in name.split(";")]
        if not all(
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
