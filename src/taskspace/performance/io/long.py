"""Long tables: one row per cell, or one row per run of a cell.

The columns are `source` or `source_k`, …; `policy` if a source has several, for which
`seed` and `run` count too; `target` or `target_k`, …; `performance`; and, if wanted,
`standard_error` (or `stderr`, `se`), `n_episodes` and `provenance`.

A run is an algorithm on an instance, or a model on a prompt. Runs of the same source
and target are one cell: their mean, with the standard error of their spread.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance.io.cells import Frame, label, upper
from taskspace.performance.io.columns import Choices, is_note, left_out, note_on
from taskspace.performance.io.limits import check_cells
from taskspace.performance.io.parts import Parts, even_families, numbered
from taskspace.spaces import Points

ERRORS = ("standard_error", "stderr", "se")
KNOWN = ("source", "policy", "target", "performance", "provenance", "n_episodes")
TELL_APART = ("seed", "run")
ROLES = ("source", "target", "value")


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
    cells = frame.column_numbers("performance", may_be_empty=empty)
    assert cells is not None
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
    told_apart: list[Sequence[Hashable]] = [source.number.tolist()]
    told_apart += [] if policies is None else [policies]
    for name in TELL_APART:
        labels = frame.column(name) if name in notes else None
        if labels is not None:
            told_apart.append([label(cell) for cell in labels])
            notes.remove(name)  # it has a meaning here
    policy, first = numbered(list(zip(*told_apart, strict=True)))
    rows = _rows_of_cells(frame, policy, target.number, may_be_empty=empty)
    order = even_families(source.number[first], rows.shape[1], frame.origin)
    errors = _standard_errors(frame)
    every = range(len(frame.rows))
    ignored = [name for name in choices.ignore if name in frame.names]
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
        provenance=frame.provenance(every),
        n_episodes=frame.n_episodes(every),
        notes=[note_on(notes)] if notes else [],
    )


def _check_columns(frame: Frame, choices: Choices) -> list[str]:
    """Refuse columns without a meaning; return the names of those that are notes."""
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
            "(--read 'ignore=[\"a\"]')."
        )
    return notes


def _side(frame: Frame, names: list[str] | None, space: Points | None) -> _Side:
    keys: list[Any] = list(names or ())
    if not keys and space is not None:
        keys = list(map(tuple, space.points.tolist()))
    number, first = numbered(keys)
    if space is not None:
        frame.check_contexts(space, first[number], keys)
        space = Points(space.names, space.points[first])
    return _Side(number, names and [names[row] for row in first], space)


def _rows_of_cells(
    frame: Frame,
    policy: NDArray[np.intp],
    target: NDArray[np.intp],
    *,
    may_be_empty: bool,
) -> NDArray[np.intp]:
    """Return the row of each cell, dims `(policy, target)`; −1 where there is none.

    Args:
        frame: the table.
        policy: number of each row's policy.
        target: number of each row's target.
        may_be_empty: whether there may be none.
    """
    n_policies, n_targets = int(policy.max()) + 1, int(target.max()) + 1
    cell = policy * n_targets + target
    _, first = np.unique(cell, return_index=True)
    again = np.delete(np.arange(len(cell)), first)
    if len(again):
        second = int(again[0])
        before = int(np.flatnonzero(cell == cell[second])[0])
        raise InvalidInputError(
            f"{upper(frame.rows[before])} and {frame.rows[second]} of {frame.origin} "
            "are the same cell. If they are two policies of one source, tell them "
            "apart with a column policy."
        )
    short = np.flatnonzero(np.bincount(policy) < n_targets)
    if len(short) and not may_be_empty:
        own = np.flatnonzero(policy == short[0])
        other = np.flatnonzero(~np.isin(target, target[own]))
        raise InvalidInputError(
            f"Every policy must have a cell for every target, but in {frame.origin} "
            f"the policy of {frame.rows[own[0]]} has none for the target of "
            f"{frame.rows[other[0]]}. --read 'missing=\"not served\"' "
            "takes it for a failure."
        )
    check_cells(n_policies * n_targets, frame.origin)
    rows = np.full((n_policies, n_targets), -1, np.intp)
    rows[policy, target] = np.arange(len(cell))
    return rows


def _standard_errors(frame: Frame) -> NDArray[np.float64] | None:
    columns = [name for name in ERRORS if name in frame.names]
    if len(columns) > 1:
        raise InvalidInputError(
            f"{frame.origin} must have one column of standard errors, but has "
            f"{' and '.join(columns)}."
        )
    return frame.column_numbers(columns[0], may_be_empty=True) if columns else None


def joined_runs(frame: Frame, long: Mapping[str, str]) -> tuple[Frame, list[str]]:
    """Return a long table with one row per cell, and what to say about it.

    Args:
        frame: one row per run.
        long: which column is the `source`, the `target`, the `value`, and, if a source
            has several policies, the `policy`.
    """
    for role in ROLES:
        if role not in long:
            raise InvalidInputError(
                "A long table needs its columns of source, target and value, e.g. "
                "long=['algorithm', 'instance', 'time'] (--read 'long=[\"algorithm\", "
                f'"instance", "time"]\'), but no {role}.'
            )
    for role, column in long.items():
        if role not in (*ROLES, "policy"):
            raise UnknownNameError("role of a column:", role, [*ROLES, "policy"])
        if column not in frame.names:
            raise UnknownNameError(f"column of {frame.origin}:", column, frame.names)
    keys = [role for role in ("source", "policy", "target") if role in long]
    labels = {role: frame.labels(long[role]) or [] for role in keys}
    values = frame.column_numbers(long["value"], may_be_empty=True)
    assert values is not None
    cell, first = numbered(list(zip(*labels.values(), strict=True)))
    sizes = np.bincount(cell)
    order = np.argsort(cell, kind="stable")
    groups = np.split(values[order], np.cumsum(sizes)[:-1])
    columns: dict[str, Any] = {
        role: [column[row] for row in first] for role, column in labels.items()
    }
    # A cell of which one run is empty is empty: its mean would hide that.
    columns["performance"] = np.array([group.mean() for group in groups])
    notes = []
    if sizes.max(initial=1) > 1:
        with np.errstate(invalid="ignore"):
            errors = [
                group.std(ddof=1) / np.sqrt(len(group)) if len(group) > 1 else np.nan
                for group in groups
            ]
        columns["standard_error"] = np.array(errors)
        ends = sorted({int(sizes.min()), int(sizes.max())})
        notes.append(
            f"Each cell is the mean of {' to '.join(map(str, ends))} rows; standard "
            "errors follow from them."
        )
    unused = [n for n in frame.names if n and n not in long.values()]
    if unused:
        notes.append(f"Columns that are not used: {', '.join(map(repr, unused[:8]))}.")
    rows = [frame.rows[row] for row in first]
    return Frame(list(columns.values()), list(columns), rows, frame.origin), notes
