"""The meaning of columns: which hold names, which are targets, which are only notes.

Names may look like numbers: years, ids, values of a context that `pivot` made columns
of. Taken for numbers they become one more source or one more target, and whatever is
proven of that table is false of the user's. So names and numbers are told apart by what
the other reading would mean, and a table that both readings fit is left to the user.

`seed`, `run`, `step(s)`, `timestep(s)`, `episode(s)`, `iteration(s)`, also with
`total_`, `n_` or `num_` in front, hold whole numbers about how a policy was made, and
`id`, `idx`, `index` and `row` count rows. Such a column is no target unless the user
says so, and neither is a level of an index.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance.io.cells import (
    Frame,
    is_blank,
    is_empty,
    is_number,
    number_of,
)

STANDARD_ERROR = "standard_error:"
"""`standard_error:easy` holds the standard errors of the column `easy`."""

TARGET = "target:"
"""`target:seed` is a target called `seed`, whatever its name would mean otherwise."""

SPECIAL = ("source", "policy", "home", "provenance", "n_episodes")

NAMED = ("source", "policy", "target", "context", "name")

Missing = Literal["error", "not served"]

_NOTE = re.compile(
    r"(total_|n_|num_)?(seed|run|step|timestep|time_step|episode|iteration)s?"
    r"|id|idx|index|row"
)


@dataclass(frozen=True)
class Choices:
    """What a user says about a matrix that the matrix does not say itself.

    Args:
        lower_is_better: the cells are costs; they are negated. None if not said.
        targets: names of the targets; None for all that are found.
        ignore: names of columns or targets to leave out.
        missing: `"error"` refuses a matrix with empty cells, `"not served"` takes them
            for failures (−inf).
        header: whether the first row of a text file holds names; None to find out.
        row_names: whether the first column holds names; None to find out.
        long: which columns of a table with one row per run are its source, target and
            value, in this order or by name; None for a table that says it itself.
    """

    lower_is_better: bool | None = None
    targets: Sequence[str] | None = None
    ignore: Sequence[str] = ()
    missing: Missing = "error"
    header: bool | None = None
    row_names: bool | None = None
    long: Mapping[str, str] | Sequence[str] | None = None

    def __post_init__(self):
        if self.missing not in get_args(Missing):
            raise UnknownNameError("missing", self.missing, get_args(Missing))
        for name in ("targets", "ignore"):
            if isinstance(getattr(self, name), str):
                raise InvalidInputError(
                    f"{name} must be a list of names, but got the text "
                    f"{getattr(self, name)!r}."
                )
        for name in ("lower_is_better", "header", "row_names"):
            if not isinstance(getattr(self, name), bool | None):
                raise InvalidInputError(
                    f"{name} must be true or false, but got {getattr(self, name)!r}."
                )
        if not isinstance(self.long, Mapping | None):
            roles = dict(zip(("source", "target", "value"), self.long, strict=False))
            object.__setattr__(self, "long", roles)
        both = set(self.targets or ()) & set(self.ignore)
        if both:
            raise InvalidInputError(
                f"A column is either a target or ignored, but {min(both)!r} is named "
                "in both targets and ignore."
            )

    @property
    def may_be_empty(self) -> bool:
        """Whether cells may have no value."""
        return self.missing != "error"

    def check_known(self, known: Sequence[str], origin: str) -> None:
        """Refuse names that a matrix does not have.

        Args:
            known: all names of the matrix.
            origin: what to call it.
        """
        for name in (*(self.targets or ()), *self.ignore):
            if name not in known:
                names = list(filter(None, dict.fromkeys(known)))
                raise UnknownNameError(f"column or target of {origin}:", name, names)


def means_something(name: str) -> bool:
    """Whether a column of this name is no target, or not as it stands.

    Args:
        name: name of a column.
    """
    return (
        name in (*SPECIAL, "target", "performance", "")
        or name.startswith(("source_", "target_", STANDARD_ERROR, TARGET))
        or _is_note_name(name)
        or is_number(name)
    )


def may_hold_names(name: str) -> bool:
    """Whether cells of a column of this name are told apart by how they are written.

    Args:
        name: name of a column.
    """
    return name in (*NAMED, "provenance") or _is_note_name(name)


def is_note(frame: Frame, place: int) -> bool:
    """Whether a column holds a note on the training: by its name and whole numbers.

    Args:
        frame: the table.
        place: which column.
    """
    return _is_note_name(frame.names[place]) and all(
        not is_number(cell) or is_empty(cell) or number_of(cell).is_integer()
        for cell in frame.columns[place]
    )


def _is_note_name(name: str) -> bool:
    return _NOTE.fullmatch(squeezed(name)) is not None


def note_on(names: Sequence[str]) -> str:
    """Return the sentence about columns that were taken for notes.

    Args:
        names: the columns.
    """
    one = len(names) == 1
    return (
        f"{'Column' if one else 'Columns'} {', '.join(map(repr, names))} "
        f"{'is' if one else 'are'} taken for {'a note' if one else 'notes'} on the "
        f"training, not for {'a target' if one else 'targets'}. If that is wrong, name "
        'all targets with targets=[...] (--read \'targets=["a", "b"]\').'
    )


def target_columns(
    frame: Frame, choices: Choices, sources: Sequence[str]
) -> tuple[list[int], list[str]]:
    """Return the columns of a wide table that are targets, and those that are notes.

    Args:
        frame: the table, one row per policy.
        choices: what the user says.
        sources: names of the sources; a column of the same name is a target.

    Returns:
        Places of the targets, in the order of the table, and names of the notes.
    """
    called = [name.removeprefix(TARGET) for name in frame.names]
    choices.check_known([*frame.names, *called], frame.origin)
    if choices.targets is not None:
        wanted = set(choices.targets)
        return [i for i, name in enumerate(called) if name in wanted], []
    keep, notes = [], []
    for place, name in enumerate(frame.names):
        is_special = name in SPECIAL or name.startswith(("source_", STANDARD_ERROR))
        if is_special or place < frame.n_index or called[place] in choices.ignore:
            continue
        if name not in sources and is_note(frame, place):
            notes.append(name)
        else:
            keep.append(place)
    if not keep:
        lost = f" beside {', '.join(notes)}" if notes else ""
        raise InvalidInputError(
            f"{frame.origin} has no column of a target{lost}. Name the targets with "
            'targets=[...] (--read \'targets=["a", "b"]\').'
        )
    return keep, notes


# --- names or numbers --------------------------------------------------------------

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


def left_out(names: Sequence[str]) -> list[str]:
    """Return a clause about columns that are no targets, none where there are none.

    Args:
        names: the columns.
    """
    return [f"left out {listed(names)}"] if names else []


def listed(names: Sequence[str]) -> str:
    """Return names in quotes; of many the first three and the last.

    Args:
        names: any names.
    """
    every = [repr(name) for name in names]
    if len(every) > 4:
        every[3:-1] = ["…"]
    return ", ".join(every)
