"""Wide tables: one row per policy.

The column `source` names the source that a row came from, columns `source_k`,
`source_c`, … give its context, `policy` names the policy, `home` is its score at its
own source, and every other column is a target (see `columns` for what is none). Rows of
the same source form a family. Targets have contexts when their columns are called
`k=1.5;c=0.1`, or from a second table. A row whose source is `best_known` holds the
largest performance that is known to be possible at each target. A column
`standard_error:easy` holds the standard errors of the column `easy`; `n_episodes` and
`provenance` say what the cells are.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.performance.io.cells import Frame, is_blank, is_number, label
from taskspace.performance.io.columns import (
    SPECIAL,
    STANDARD_ERROR,
    TARGET,
    Choices,
    note_on,
    target_columns,
)
from taskspace.performance.io.names import judge_first_column, read_as
from taskspace.performance.io.parts import (
    Parts,
    contexts_of_names,
    even_families,
    group,
)
from taskspace.spaces import Points

BEST_KNOWN = "best_known"


def read_wide(frame: Frame, choices: Choices) -> Parts:
    """Return what a table with one row per policy says.

    Args:
        frame: the table.
        choices: what the user says.
    """
    names = frame.labels("source")
    keep, notes = target_columns(frame, choices, names or ())
    labels, name_columns = _row_names(frame, choices)
    keep = [place for place in keep if place not in name_columns]
    if not keep:
        raise InvalidInputError(f"{frame.origin} has no column of a target.")
    reference = _reference_row(frame, names)
    body = [i for i in range(len(frame.rows)) if i not in reference]
    if not body:
        raise InvalidInputError(f"{frame.origin} has no row of a policy.")
    space = frame.space("source_", reference)
    keys = _keys(frame, names, space, labels)
    _check_repeats(frame, body, keys, labels, family=bool(names or space))
    families = [[body[i] for i in rows] for rows in group([keys[i] for i in body])]
    if space is not None:
        check_one_context(frame, families, space, keys)
    order = even_families(families, len(keep), frame.origin)
    # An empty cell of best_known: nothing is known of that target.
    cells = frame.numbers(keep, reference, may_be_empty=choices.may_be_empty)
    columns = [frame.names[i] for i in keep]
    text = names or (labels if space is None else None)
    return Parts(
        performance=cells[order],
        origin=frame.origin,
        read_as=_read_as(frame, keep, name_columns, notes, choices),
        sources=space and Points(space.names, space.points[order[:, 0]]),
        targets=contexts_of_names(columns, frame.origin),
        source_names=text and [text[row] for row in order[:, 0]],
        target_names=[name.removeprefix(TARGET) for name in columns]
        if any(frame.names)
        else None,
        home=_home(frame, choices, reference, order),
        best_known=cells[reference[0]] if reference else None,
        standard_error=_standard_errors(frame, columns, reference, order),
        provenance=one_value(frame, "provenance", body),
        n_episodes=episodes(frame, body),
        notes=[note_on(notes)] if notes else [],
    )


def _read_as(
    frame: Frame,
    keep: Sequence[int],
    name_columns: Sequence[int],
    notes: Sequence[str],
    choices: Choices,
) -> str:
    """Say in one line what was taken for names, for targets and for neither."""
    columns = [frame.names[place] for place in keep]
    special = (*SPECIAL, *notes, *choices.ignore)
    lost = [
        name
        for place, name in enumerate(frame.names)
        if place not in keep and place not in name_columns and name not in special
        if name and not name.startswith(("source_", STANDARD_ERROR))
    ]
    ignored = [name for name in choices.ignore if name in frame.names]
    return read_as(
        targets=columns if any(frame.names) else None,
        n_targets=len(keep),
        name_columns=[(place, frame.names[place]) for place in name_columns],
        others=[*notes, *ignored, *lost],
    )


def _row_names(frame: Frame, choices: Choices) -> tuple[list[str] | None, list[int]]:
    """Names of the rows, and the columns that they are in."""
    labels = frame.labels("policy")
    if labels is not None or "source" in frame.names:
        places = [i for i, n in enumerate(frame.names) if n in ("source", "policy")]
        return labels, places
    levels = [
        place
        for place, name in enumerate(frame.names[: frame.n_index])
        if name not in (*SPECIAL, *choices.ignore) and not name.startswith("source_")
    ]
    if levels:
        rows = zip(*(frame.columns[place] for place in levels), strict=True)
        labels = [" ".join(label(cell) for cell in row) for row in rows]
        numbered = all(is_number(text) for text in labels)
        if numbered and len(set(labels)) < len(labels):
            return None, []
        return labels, levels
    if not _first_column_has_names(frame, choices):
        return None, []
    return [label(cell) for cell in frame.columns[0]], [0]


def _first_column_has_names(frame: Frame, choices: Choices) -> bool:
    """Whether the first column names the rows; refuses where it cannot be told."""
    first = frame.names[0].removeprefix(TARGET)
    taken = first in (*(choices.targets or ()), *choices.ignore, *SPECIAL)
    if taken or frame.names[0].startswith(("source_", TARGET)):
        return False
    if choices.row_names is not None:
        return choices.row_names
    verdict = judge_first_column(frame.names, frame.columns)
    if verdict == "unsure" and choices.targets is None:
        called = f" ({frame.names[0]!r})" if frame.names[0] else ""
        raise InvalidInputError(
            f"Column 1{called} of {frame.origin} may hold names of rows or be a "
            "target. Say which with row_names=True or row_names=False (--row-names yes "
            "or --row-names no)."
        )
    return verdict == "names"


def _reference_row(frame: Frame, names: Sequence[str] | None) -> list[int]:
    places = [i for i, name in enumerate(names or ()) if name == BEST_KNOWN]
    if len(places) > 1:
        raise InvalidInputError(
            f"{frame.origin} must have one row of source 'best_known' at most, but has "
            f"{frame.rows[places[0]]} and {frame.rows[places[1]]}."
        )
    return places


def _keys(
    frame: Frame,
    names: list[str] | None,
    space: Points | None,
    labels: list[str] | None,
) -> Sequence[Hashable]:
    """Return what tells sources apart: their names, contexts, or the names of rows."""
    if names:
        return names
    if space is not None:
        return list(map(tuple, space.points.tolist()))
    return labels or range(len(frame.rows))


def _home(
    frame: Frame,
    choices: Choices,
    reference: Sequence[int],
    order: NDArray[np.intp],
) -> NDArray[np.float64] | None:
    if "home" not in frame.names or "home" in (choices.targets or ()):
        return None
    place = frame.names.index("home")
    empty = choices.may_be_empty
    return frame.numbers([place], reference, may_be_empty=empty)[:, 0][order]


def _standard_errors(
    frame: Frame,
    columns: Sequence[str],
    reference: Sequence[int],
    order: NDArray[np.intp],
) -> NDArray[np.float64] | None:
    """Return the standard errors of the targets, None if the table has none."""
    given = [n for n in frame.names if n.startswith(STANDARD_ERROR)]
    if not given:
        return None
    for name in given:
        if name.removeprefix(STANDARD_ERROR) not in frame.names:
            raise InvalidInputError(
                f"{frame.origin} must have a column "
                f"{name.removeprefix(STANDARD_ERROR)!r}, because it has {name!r}."
            )
    for name in columns:
        if STANDARD_ERROR + name not in given:
            raise InvalidInputError(
                f"All targets of {frame.origin} or none must have standard errors, but "
                f"{name!r} has no column {STANDARD_ERROR + name!r}."
            )
    places = [frame.names.index(STANDARD_ERROR + name) for name in columns]
    return frame.numbers(places, reference, may_be_empty=True)[order]


def one_value(frame: Frame, name: str, rows: Sequence[int]) -> str | None:
    """Return what a column says wherever it says something, None if nowhere.

    Args:
        frame: the table.
        name: the column, which may be missing.
        rows: the rows that count.
    """
    cells = frame.column(name)
    if cells is None:
        return None
    said = {label(cells[row]) for row in rows if not is_blank(cells[row])}
    if len(said) > 1:
        raise InvalidInputError(
            f"Column {name!r} of {frame.origin} must say the same in every row, but "
            f"says {' and '.join(sorted(said)[:2])}."
        )
    return next(iter(said), None)


def episodes(frame: Frame, rows: Sequence[int]) -> int:
    """How many episodes every cell is the mean of at least, 0 if unknown.

    Args:
        frame: the table.
        rows: the rows that count.
    """
    if "n_episodes" not in frame.names:
        return 0
    place = frame.names.index("n_episodes")
    values = frame.numbers([place], may_be_empty=True)[list(rows), 0]
    values = values[~np.isnan(values)]
    if ((values < 1) | (values != np.round(values)) | (values > 1e15)).any():
        raise InvalidInputError(
            f"Column 'n_episodes' of {frame.origin} must hold whole numbers >= 1."
        )
    return int(values.min()) if len(values) else 0


def _check_repeats(
    frame: Frame,
    rows: Sequence[int],
    keys: Sequence[Hashable],
    labels: Sequence[str] | None,
    *,
    family: bool,
) -> None:
    """Refuse two rows of the same policy."""
    if labels is None:
        return
    seen: dict[Hashable, int] = {}
    for row in rows:
        key = (keys[row], labels[row])
        if key in seen:
            advice = (
                "Name the policies of a source differently."
                if family
                else "If rows with the same name form a family, call the column source."
            )
            raise InvalidInputError(
                f"{upper(frame.rows[row])} of {frame.origin} repeats the name "
                f"{labels[row]!r} of {frame.rows[seen[key]]}. {advice}"
            )
        seen[key] = row


def check_one_context(
    frame: Frame, families: Sequence[Sequence[int]], space: Points, keys: Sequence[Any]
) -> None:
    """Refuse a source or target whose rows have different contexts.

    Args:
        frame: the table.
        families: rows of each source or target.
        space: the context of each row.
        keys: what each row calls its source or target.
    """
    for rows in families:
        first = rows[0]
        for row in rows:
            if (space.points[row] != space.points[first]).any():
                raise InvalidInputError(
                    "All rows of a source must have the same context, but "
                    f"{frame.rows[first]} and {frame.rows[row]} of {frame.origin}, "
                    f"both of source {keys[row]!r}, have {space.context(first)} and "
                    f"{space.context(row)}."
                )


def upper(text: str) -> str:
    """Return the text with a capital letter.

    Args:
        text: any text.
    """
    return text[:1].upper() + text[1:]
