"""Long tables: one row per cell.

The columns are `source` or `source_k`, …; `policy` if a source has several, for which
`seed` and `run` count too; `target` or `target_k`, …; `performance`; and, if wanted,
`standard_error` (or `stderr`, `se`), `n_episodes` and `provenance`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.performance.io.cells import Frame, label
from taskspace.performance.io.columns import Choices, is_note, note_on
from taskspace.performance.io.limits import check_cells
from taskspace.performance.io.names import left_out
from taskspace.performance.io.parts import Parts, even_families, group
from taskspace.performance.io.wide import (
    check_one_context,
    episodes,
    one_value,
    upper,
)
from taskspace.spaces import Points

ERRORS = ("standard_error", "stderr", "se")
KNOWN = ("source", "policy", "target", "performance", "provenance", "n_episodes")
TELL_APART = ("seed", "run")


@dataclass(frozen=True)
class _Side:
    """The sources or the targets: the number of each row's, their names, contexts."""

    number: NDArray[np.intp]
    names: list[str] | None
    space: Points | None


def is_long(frame: Frame) -> bool:
    """Whether a table has one row per cell.

    Args:
        frame: the table.
    """
    has_target = any(n == "target" or n.startswith("target_") for n in frame.names)
    return "performance" in frame.names and has_target


def read_long(frame: Frame, choices: Choices) -> Parts:
    """Return what a table with one row per cell says.

    Args:
        frame: the table.
        choices: what the user says.
    """
    notes = _check_columns(frame, choices)
    empty = choices.may_be_empty
    place = frame.names.index("performance")
    cells = frame.numbers([place], may_be_empty=empty)[:, 0]
    policies = frame.labels("policy")
    names, space = frame.labels("source"), frame.space("source_")
    if names is None and space is None:
        names, policies = policies, None
    if names is None and space is None:
        raise InvalidInputError(
            f"{frame.origin} must name the source of each row in a column source, "
            "source_… or policy, but has none of them."
        )
    source = _side(frame, names, space)
    target = _side(frame, frame.labels("target"), frame.space("target_"))
    lines = group(
        list(
            zip(
                source.number.tolist(),
                _policy_names(frame, policies, notes),
                strict=True,
            )
        )
    )
    rows = _rows_of_cells(frame, lines, target.number, may_be_empty=empty)
    order = even_families(
        group([int(source.number[line[0]]) for line in lines]),
        rows.shape[1],
        frame.origin,
    )
    every = range(len(frame.rows))
    ignored = [name for name in choices.ignore if name in frame.names]
    errors = _standard_errors(frame)
    return Parts(
        performance=np.where(rows < 0, np.nan, cells[rows])[order],
        origin=frame.origin,
        read_as="; ".join(["one row per cell", *left_out([*notes, *ignored])]),
        sources=source.space,
        targets=target.space,
        source_names=source.names,
        target_names=target.names,
        standard_error=None
        if errors is None
        else np.where(rows < 0, np.nan, errors[rows])[order],
        provenance=one_value(frame, "provenance", every),
        n_episodes=episodes(frame, every),
        notes=[note_on(notes)] if notes else [],
    )


def _check_columns(frame: Frame, choices: Choices) -> list[str]:
    """Refuse columns without a meaning; the names of those that are notes."""
    targets = frame.labels("target") or []
    choices.check_known([*frame.names, *dict.fromkeys(targets)], frame.origin)
    notes = []
    for place, name in enumerate(frame.names):
        is_special = name in (*KNOWN, *ERRORS) or name.startswith(
            ("source_", "target_")
        )
        if is_special or name in choices.ignore or (place < frame.n_index and not name):
            continue
        if is_note(frame, place):
            notes.append(name)
            continue
        raise InvalidInputError(
            f"Column {place + 1} ({name!r}) of {frame.origin} has no meaning beside "
            "performance and targets. A long table has the columns source or source_…, "
            "policy, target or target_…, performance. Leave others out with ignore "
            "(--ignore)."
        )
    return notes


def _side(frame: Frame, names: list[str] | None, space: Points | None) -> _Side:
    keys: list[Any] = list(names or ())
    if not keys and space is not None:
        keys = list(map(tuple, space.points.tolist()))
    groups = group(keys)
    if space is not None:
        check_one_context(frame, groups, space, keys)
    number = np.empty(len(keys), np.intp)
    for i, rows in enumerate(groups):
        number[rows] = i
    first = [rows[0] for rows in groups]
    return _Side(
        number,
        names and [names[i] for i in first],
        space and Points(space.names, space.points[first]),
    )


def _policy_names(
    frame: Frame, policies: list[str] | None, notes: list[str]
) -> list[tuple[str, ...]]:
    """Return what tells policies of a source apart: their names, seeds and runs."""
    columns: list[Sequence[str]] = [] if policies is None else [policies]
    for name in TELL_APART:
        cells = frame.column(name) if name in notes else None
        if cells is not None:
            columns.append([label(cell) for cell in cells])
            notes.remove(name)  # it has a meaning here
    if not columns:
        return [()] * len(frame.rows)
    return list(zip(*columns, strict=True))


def _rows_of_cells(
    frame: Frame,
    lines: Sequence[Sequence[int]],
    target: NDArray[np.intp],
    *,
    may_be_empty: bool,
) -> NDArray[np.intp]:
    """Return the row of each cell, dims `(policy, target)`; −1 where there is none.

    Args:
        frame: the table.
        lines: rows of each policy.
        target: number of each row's target.
        may_be_empty: whether there may be none.
    """
    n_targets = int(target.max()) + 1
    for line in lines:
        there = target[np.asarray(line)]
        if len(line) > len(np.unique(there)):
            _refuse_repeat(frame, line, there)
        if len(line) < n_targets and not may_be_empty:
            _refuse_gap(frame, line, target)
    check_cells(len(lines) * n_targets, frame.origin)
    rows = np.full((len(lines), n_targets), -1, np.intp)
    for number, line in enumerate(lines):
        rows[number, target[np.asarray(line)]] = line
    return rows


def _refuse_repeat(frame: Frame, line: Sequence[int], there: NDArray[np.intp]) -> None:
    twice = np.flatnonzero(np.bincount(there) > 1)[0]
    first, second = (line[i] for i in np.flatnonzero(there == twice)[:2])
    raise InvalidInputError(
        f"{upper(frame.rows[first])} and {frame.rows[second]} of {frame.origin} are "
        "the same cell. If they are two policies of one source, tell them apart with "
        "a column policy."
    )


def _refuse_gap(frame: Frame, line: Sequence[int], target: NDArray[np.intp]) -> None:
    others = np.setdiff1d(target, target[np.asarray(line)])
    gone = int(np.flatnonzero(target == others[0])[0])
    raise InvalidInputError(
        f"Every policy must have a cell for every target, but in {frame.origin} the "
        f"policy of {frame.rows[line[0]]} has none for the target of "
        f"{frame.rows[gone]}. missing='not served' (--missing not-served) takes it for "
        "a failure, missing='unknown' (--missing unknown) for not measured."
    )


def _standard_errors(frame: Frame) -> NDArray[np.float64] | None:
    columns = [name for name in ERRORS if name in frame.names]
    if not columns:
        return None
    if len(columns) > 1:
        raise InvalidInputError(
            f"{frame.origin} must have one column of standard errors, but has "
            f"{' and '.join(columns)}."
        )
    return frame.numbers([frame.names.index(columns[0])], may_be_empty=True)[:, 0]
