"""Which row and which column of a table hold names: pure functions on its cells.

Names may look like numbers: years, ids, values of a context that `pivot` made columns
of. Taken for numbers they become one more source or one more target, and whatever is
proven of that table is false of the user's. So names and numbers are told apart by what
the other reading would mean, and a table that both readings fit is left to the user.
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from taskspace.performance.io.cells import is_blank, is_empty, is_number, number_of

Cells = Sequence[Any] | NDArray[np.float64]
Verdict = Literal["names", "numbers", "unsure"]

SPECIAL_HEADINGS = ("source", "policy", "target", "performance", "home")

HEADINGS = {
    "agent", "agents", "algo", "algorithm", "algorithms", "approach", "benchmark",
    "case", "checkpoint", "classifier", "config", "configuration", "context",
    "controller", "data_set", "dataset", "datasets", "domain", "env", "environment",
    "experiment", "game", "gain", "id", "idx", "index", "instance", "instances",
    "item", "key", "label", "learner", "map", "method", "methods", "model",
    "models", "name", "names", "network", "no", "nr", "number", "optimizer",
    "planner", "policies", "problem", "problems", "row", "scenario", "setting",
    "solver", "strategy", "system", "target", "task", "tasks", "unnamed:_0",
    "variant",
}  # fmt: skip
"""What people write above a column of names."""

# numpy.savetxt writes numbers so, and names are not written so.
SAVED_BY_NUMPY = re.compile(r"[+-]?\d\.\d{18}e[+-]\d{2,3}")


def squeezed(name: str) -> str:
    """Return a name in small letters, with one underscore for spaces and dashes.

    Args:
        name: any name.
    """
    return re.sub(r"[\s\-]+", "_", name.strip().lower())


def judge_first_row(
    first: Sequence[str],
    below: Sequence[Cells],
    *,
    may_be_empty: bool,
    texts_of: Callable[[Sequence[int]], Sequence[Sequence[str]]],
) -> Verdict:
    """Whether the first row of a text file holds names of columns.

    Args:
        first: its cells.
        below: the cells below each of them; those below the first one are text.
        may_be_empty: whether cells of the matrix may be empty.
        texts_of: reads some columns below as they are written.
    """
    cells = [cell.strip() for cell in first]
    if any(_is_special(cell) for cell in cells):
        return "names"
    rest = cells[1:] or cells
    words = [j for j, c in enumerate(rest, len(cells) - len(rest)) if _is_word(c)]
    numbers = [cell for cell in rest if is_number(cell)]
    if words and not numbers:
        return "names"
    if not numbers or not len(below[0]):
        return "numbers"
    # A word above a column of numbers is its name.
    if any(_are_numbers(below[j]) for j in words):
        return "names"
    # Two columns cannot have the same name.
    if len(set(numbers)) < len(numbers):
        return "numbers"
    if all(SAVED_BY_NUMPY.fullmatch(cell) for cell in numbers):
        return "numbers"
    column = list(below[0])
    if len(cells) == 1 or is_number(cells[0]):
        if not _are_numbers(column):
            return "unsure"
        return "unsure" if _may_be_names(cells, texts_of) else "numbers"
    if is_blank(cells[0]):
        # pandas writes an index without a name so. Otherwise the cell is missing.
        return "names" if not may_be_empty or _is_index_of_pandas(column) else "unsure"
    return _judge_corner(cells[0], column)


def _is_special(cell: str) -> bool:
    return cell in SPECIAL_HEADINGS or cell.startswith(
        ("source_", "target_", "target:", "standard_error:")
    )


def _is_word(cell: str) -> bool:
    return not is_number(cell) and not is_empty(cell)


def _are_numbers(column: Cells) -> bool:
    """Whether a column holds numbers and nothing else but empty cells."""
    if isinstance(column, np.ndarray):
        return not np.isnan(column).all()
    return any(map(is_number, column)) and not any(
        not is_number(cell) and not is_empty(cell) for cell in column
    )


def _may_be_names(
    cells: Sequence[str],
    texts_of: Callable[[Sequence[int]], Sequence[Sequence[str]]],
) -> bool:
    """Whether numbers that stand alone in the first row look like names.

    They do if they are in order, whole, or shorter than the numbers of every column.
    """
    values = [number_of(cell) for cell in cells if is_number(cell)]
    if _are_in_order(values) or all(cell.lstrip("+-").isdigit() for cell in cells):
        return True
    longest = max(map(_decimals, cells))
    # One column mostly settles it, so the first turns read few of them.
    start = 0
    while start < len(cells):
        end = min(2 * start + 1, len(cells))
        for column in texts_of(range(start, end)):
            if not any(_decimals(cell) > longest for cell in column):
                return False
        start = end
    return True


def _are_in_order(values: Sequence[float]) -> bool:
    pairs = list(pairwise(values))
    return all(a < b for a, b in pairs) or all(a > b for a, b in pairs)


def _decimals(cell: str) -> int:
    return len(cell.strip().lower().partition("e")[0].partition(".")[2])


def _is_index_of_pandas(column: Sequence[Any]) -> bool:
    if all(map(_is_word, column)):
        return True
    return [str(cell).strip() for cell in column] == list(map(str, range(len(column))))


def _judge_corner(corner: str, column: Sequence[str]) -> Verdict:
    """Whether a word is the heading of a column, or the name of a row of numbers."""
    below = [cell.strip() for cell in column]
    if _are_numbers(below):
        return "names"
    if corner in below:
        return "numbers"
    if squeezed(corner) in HEADINGS:
        return "names"
    return "numbers" if _is_sibling(corner, below) else "unsure"


def _is_sibling(name: str, others: Sequence[str]) -> bool:
    """Whether a name differs from another one in its digits alone: `agent 1`."""
    pattern = re.sub(r"\d+", "#", name)
    return "#" in pattern and any(re.sub(r"\d+", "#", o) == pattern for o in others)


def judge_first_column(
    names: Sequence[str], columns: Sequence[Sequence[Any]]
) -> Verdict:
    """Whether the first column of a table holds names of rows.

    Args:
        names: names of the columns, `""` for one without.
        columns: cells of each column.
    """
    first, rest = columns[0], columns[1:]
    if not any(is_number(cell) for cell in first):
        return "names"
    if any(_is_word(cell) for cell in first if isinstance(cell, str)) or not rest:
        return "numbers"
    if squeezed(names[0]) in HEADINGS:
        return "names"
    others = [name for name in names[1:] if not _is_special(name)]
    if names[0] and others and all(_is_value(name) for name in others):
        return "numbers" if _is_value(names[0]) else "names"
    if _is_sibling(names[0], others):
        return "numbers"
    values = [number_of(cell) for cell in first]
    whole = all(value.is_integer() for value in values)
    n = len(values)
    if n >= 3 and whole and values in (_count(n, 0), _count(n, 1)):
        return "unsure"
    rises = all(a < b for a, b in pairwise(values))
    if n >= 3 and names[0] and rises:
        return "unsure"
    if n >= 3 and whole and len(set(values)) == n and all(map(_has_fractions, rest)):
        return "unsure"
    return "numbers"


def _count(n: int, start: int) -> list[float]:
    return [float(start + i) for i in range(n)]


def _is_value(name: str) -> bool:
    """Whether the name of a column is a number (`1,5` too), or like `k=1.5`."""
    texts = name.replace(",", "."), name.partition(";")[0].partition("=")[2]
    return any(map(is_number, texts))


def _has_fractions(column: Sequence[Any]) -> bool:
    return any(is_number(c) and not number_of(c).is_integer() for c in column)


def read_as(
    *,
    targets: Sequence[str] | None,
    n_targets: int,
    name_columns: Sequence[tuple[int, str]],
    others: Sequence[str],
) -> str:
    """One line about what a table of one row per policy was taken for.

    Args:
        targets: names of the target columns, None where no row holds names.
        n_targets: how many target columns there are.
        name_columns: places and names of the columns that name the rows.
        others: columns that are no targets.
    """
    several = "1 target" if n_targets == 1 else f"{n_targets:,} targets"
    if targets is None:
        parts = [f"{several}, no row of names"]
    else:
        parts = [f"{several} named {_listed(targets)}"]
    if not name_columns:
        parts.append("no column of row names")
    else:
        called = [repr(name) if name else str(i + 1) for i, name in name_columns]
        some = "column" if len(called) == 1 else "columns"
        parts.append(f"rows named by {some} {' and '.join(called)}")
    return "; ".join([*parts, *left_out(others)])


def left_out(names: Sequence[str]) -> list[str]:
    """Return a clause about columns that are no targets, none where there are none.

    Args:
        names: the columns.
    """
    return [f"left out {_listed(names)}"] if names else []


def _listed(names: Sequence[str]) -> str:
    every = [repr(name) for name in names]
    if len(every) > 4:
        every[3:-1] = ["…"]
    return ", ".join(every)
