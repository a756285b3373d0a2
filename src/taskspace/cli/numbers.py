"""Numbers and names that options give: costs, weights, sources to keep or leave."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance.io.cells import is_blank, label, number_of
from taskspace.performance.io.text import read_text

__all__ = ["load_numbers", "place_of", "source_places"]


def place_of(word: str, names: Sequence[str] | None, size: int, kind: str) -> int:
    """The number of a source or target that is called by its name or its number.

    Args:
        word: the name, or the number where no name is written so.
        names: names, None where there are none.
        size: how many there are.
        kind: `"source"` or `"target"`.
    """
    if names is not None and word in names:
        return list(names).index(word)
    if word.isdecimal() and int(word) < size:
        return int(word)
    if names is not None:
        raise UnknownNameError(kind, word, names)
    raise InvalidInputError(
        f"A {kind} must be a number from 0 to {size - 1}, but got {word!r}."
    )


def source_places(
    words: str | None, names: Sequence[str] | None, size: int
) -> list[int]:
    """The sources that `a,b,3` calls by name or number.

    Args:
        words: what the option holds; None for nothing.
        names: names of the sources, None where there are none.
        size: how many sources there are.
    """
    given = [word.strip() for word in (words or "").split(",") if word.strip()]
    return [place_of(word, names, size, "source") for word in given]


def load_numbers(
    path: Path, names: Sequence[str] | None, size: int, kind: str
) -> NDArray[np.float64]:
    """One number for each source or target, from a text file.

    Args:
        path: one number a line in the order of the table, or two columns: the name
            (or number) of each, and its number.
        names: names of the sources or targets, None where there are none.
        size: how many there are.
        kind: `"source"` or `"target"`.
    """
    if not path.is_file():
        raise InvalidInputError(f"{path} must be a file of numbers, one a {kind}.")
    frame = read_text(path, n_rows=size)
    if len(frame.columns) not in (1, 2) or len(frame.rows) != size:
        raise InvalidInputError(
            f"{path} must hold one number for each of the {size} {kind}s, or a name "
            f"and a number, but has {len(frame.rows)} rows and {len(frame.columns)} "
            "columns."
        )
    found = np.full(size, math.nan)
    for row, cell in enumerate(frame.columns[-1]):
        place = row
        if len(frame.columns) == 2:
            place = place_of(frame.columns[0][row].strip(), names, size, kind)
        value = number_of(cell)
        if not math.isfinite(value):
            text = "nothing" if is_blank(cell) else repr(label(cell))
            raise InvalidInputError(
                f"{path} must hold finite numbers, but {frame.rows[row]} has {text}."
            )
        if not math.isnan(found[place]):
            raise InvalidInputError(
                f"{path} must name each {kind} once, but {frame.rows[row]} names "
                f"{frame.columns[0][row]!r} again."
            )
        found[place] = value
    return found
