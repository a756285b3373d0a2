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

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.performance.io.cells import Frame, is_number, label, upper
from taskspace.performance.io.columns import (
    SPECIAL,
    STANDARD_ERROR,
    TARGET,
    Choices,
    judge_first_column,
    left_out,
    listed,
    note_on,
    target_columns,
)
from taskspace.performance.io.parts import (
    Parts,
    contexts_of_names,
    even_families,
    numbered,
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
    places, notes = target_columns(frame, choices, names or ())
    labels, name_columns = _row_names(frame, choices)
    places = [place for place in places if place not in name_columns]
    if not places:
        raise InvalidInputError(f"{frame.origin} has no column of a target.")
    reference = _reference_row(frame, names)
    body = np.delete(np.arange(len(frame.rows)), reference)
    if not len(body):
        raise InvalidInputError(f"{frame.origin} has no row of a policy.")
    space = frame.space("source_", reference)
    if names is None and space is not None:
        keys: Sequence[Hashable] = list(map(tuple, space.points.tolist()))
    else:
        keys = names or labels or range(len(frame.rows))
    if labels is not None:
        advice = (
            "Name the policies of a source differently."
            if names or space
            else "If rows with the same name form a family, call the column source."
        )
        _check_repeats(frame, body, keys, labels, advice)
    family, first = numbered([keys[row] for row in body])
    if space is not None:
        own = np.arange(len(frame.rows))
        own[body] = body[first[family]]
        frame.check_contexts(space, own, keys)
    order = body[even_families(family, len(places), frame.origin)]
    # An empty cell of best_known: nothing is known of that target.
    empty = choices.may_be_empty
    cells = frame.numbers(places, reference, may_be_empty=empty)
    home = None
    if "home" not in (choices.targets or ()):
        home = frame.column_numbers("home", reference, may_be_empty=empty)
    columns = [frame.names[place] for place in places]
    text = names or (labels if space is None else None)
    has_names = any(frame.names)
    return Parts(
        performance=cells[order],
        origin=frame.origin,
        read_as=_read_as(frame, places, name_columns, notes, choices),
        sources=space and Points(space.names, space.points[order[:, 0]]),
        targets=contexts_of_names(columns, frame.origin),
        source_names=text and [text[row] for row in order[:, 0]],
        target_names=[name.removeprefix(TARGET) for name in columns]
        if has_names
        else None,
        home=None if home is None else home[order],
        best_known=cells[reference[0]] if reference else None,
        standard_error=_standard_errors(frame, columns, reference, order),
        provenance=frame.provenance(body.tolist()),
        n_episodes=frame.n_episodes(body.tolist()),
        notes=[note_on(notes)] if notes else [],
    )


def _read_as(
    frame: Frame,
    places: Sequence[int],
    name_columns: Sequence[int],
    notes: Sequence[str],
    choices: Choices,
) -> str:
    """Say in one line what was taken for names, for targets and for neither."""
    n = len(places)
    targets = "1 target" if n == 1 else f"{n:,} targets"
    if any(frame.names):
        names = f"named {listed([frame.names[place] for place in places])}"
        parts = [f"{targets} {names}"]
    else:
        parts = [f"{targets}, no row of names"]
    if name_columns:
        called = [
            repr(frame.names[place]) if frame.names[place] else str(place + 1)
            for place in name_columns
        ]
        some = "column" if len(called) == 1 else "columns"
        parts.append(f"rows named by {some} {' and '.join(called)}")
    else:
        parts.append("no column of row names")
    special = {"", *SPECIAL, *notes, *choices.ignore}
    used = {*places, *name_columns}
    others = [
        name
        for place, name in enumerate(frame.names)
        if place not in used and name not in special
        if not name.startswith(("source_", STANDARD_ERROR))
    ]
    ignored = [name for name in choices.ignore if name in frame.names]
    return "; ".join([*parts, *left_out([*notes, *ignored, *others])])


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
        are_numbers = all(is_number(text) for text in labels)
        if are_numbers and len(set(labels)) < len(labels):
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
            "target. Say row_names=True or row_names=False (--read row_names or --read "
            "'row_names=false')."
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


def _standard_errors(
    frame: Frame,
    columns: Sequence[str],
    reference: Sequence[int],
    order: NDArray[np.intp],
) -> NDArray[np.float64] | None:
    """Return the standard errors of the targets, None if the table has none."""
    place_of = {name: place for place, name in enumerate(frame.names)}
    errors = [n for n in place_of if n.startswith(STANDARD_ERROR)]
    if not errors:
        return None
    for name in errors:
        if name.removeprefix(STANDARD_ERROR) not in place_of:
            raise InvalidInputError(
                f"{frame.origin} must have a column "
                f"{name.removeprefix(STANDARD_ERROR)!r}, because it has {name!r}."
            )
    for name in columns:
        if STANDARD_ERROR + name not in place_of:
            raise InvalidInputError(
                f"All targets of {frame.origin} or none must have standard errors, but "
                f"{name!r} has no column {STANDARD_ERROR + name!r}."
            )
    places = [place_of[STANDARD_ERROR + name] for name in columns]
    return frame.numbers(places, reference, may_be_empty=True)[order]


def _check_repeats(
    frame: Frame,
    rows: NDArray[np.intp],
    keys: Sequence[Hashable],
    labels: Sequence[str],
    advice: str,
) -> None:
    """Refuse two rows of the same policy."""
    seen: dict[Hashable, int] = {}
    for row in rows.tolist():
        before = seen.setdefault((keys[row], labels[row]), row)
        if before != row:
            raise InvalidInputError(
                f"{upper(frame.rows[row])} of {frame.origin} repeats the name "
                f"{labels[row]!r} of {frame.rows[before]}. {advice}"
            )
