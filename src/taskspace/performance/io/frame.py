"""Tables of columns: one row per policy (wide), or one row per cell (long).

A wide table has one row per policy. The column `source` names the source that a row
came from, columns `source_k`, `source_c`, … give its context, `policy` names the
policy, `home` is its score at its own source, and every other column is a target. Rows
of the same source form a family. Targets have contexts when their columns are called
`k=1.5;c=0.1`, or from a second table. A row whose source is `best_known` holds the
largest performance that is known to be possible at each target.

A long table has one row per cell: `source` or `source_k`, …; `policy` if a source has
several; `target` or `target_k`, …; and `performance`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace._util.files import check_cells
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance.io.cells import (
    SPECIAL,
    check_column_names,
    contexts_in,
    contexts_of_names,
    first_column_is_names,
    is_note,
    is_number,
    label,
    numbers,
    row_name,
)
from taskspace.spaces import Points

Rows = NDArray[np.intp]


Missing = Literal["error", "not served"]


@dataclass(frozen=True)
class Choices:
    """What a user says about a matrix, checked; see `read_matrix`."""

    lower_is_better: bool | None = None
    targets: Sequence[str] | None = None
    ignore: Sequence[str] = ()
    missing: Missing = "error"
    header: bool | None = None
    row_names: bool | None = None
    long: Sequence[str] | None = None

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
            value = getattr(self, name)
            if not isinstance(value, bool | None):
                raise InvalidInputError(
                    f"{name} must be true or false, but got {value!r}."
                )
        if both := set(self.targets or ()) & set(self.ignore):
            raise InvalidInputError(
                f"A column is either a target or ignored, but {min(both)!r} is named "
                "in both targets and ignore."
            )

    @property
    def may_be_empty(self) -> bool:
        """Whether cells of the matrix may be empty."""
        return self.missing != "error"


@dataclass
class Matrix:
    """What a file or an object says, before it is a performance table.

    Args:
        origin: what to call it.
        cells: numbers as they are written, dims `(source, policy, target)`; NaN where
            there is none.
        read_as: what was taken for sources and targets.
        names: of the dims `source` and `target`, None without names.
        spaces: contexts of both, likewise.
        extras: `home_performance`, `best_known` and `standard_error`, if known.
        attrs: what is known about the numbers: `provenance`, `n_episodes` and
            `best_known_kind`.
        notes: sentences that a user should read.
        columns: names that a user may say beside those of targets.
    """

    origin: str
    cells: Array
    read_as: str
    names: dict[str, list[str] | None]
    spaces: dict[str, Points | None]
    extras: dict[str, Array] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)


def normal_frame(data: pd.DataFrame, origin: str) -> pd.DataFrame:
    """Return a user's frame with texts as column names and its index as a column.

    Args:
        data: the frame.
        origin: what to call it.
    """
    levels = list(data.index.names)
    if data.columns.nlevels > 1 or (len(levels) > 1 and None in levels):
        raise InvalidInputError(
            f"Columns of {origin} must have one level, and levels of its index names. "
            "reset_index() makes columns of the levels."
        )
    frame = data
    if not isinstance(data.index, pd.RangeIndex) or levels != [None]:
        rows = data.index if len(levels) == 1 else range(len(data))
        frame = data.reset_index(names=[level or "" for level in levels])
        frame = frame.set_axis(rows)
    frame = frame.set_axis(pd.Index(map(label, frame.columns), dtype=object), axis=1)
    check_column_names(frame, origin)
    return frame


def matrix_of_frame(frame: pd.DataFrame, origin: str, choices: Choices) -> Matrix:
    """Return what a table of columns says.

    Args:
        frame: the table; its index says what to call the rows.
        origin: what to call it.
        choices: what the user says.
    """
    if not frame.shape[1]:
        raise InvalidInputError(f"{origin} has no columns.")
    if not len(frame):
        raise InvalidInputError(f"{origin} has column names but no rows.")
    names = frame.columns.tolist()
    has_target = any(n == "target" or n.startswith("target_") for n in names)
    is_long = choices.long is not None or ("performance" in names and has_target)
    matrix = (_read_long if is_long else _read_wide)(frame, origin, choices)
    matrix.columns = names
    return matrix


def _places(frame: pd.DataFrame, name: str) -> list[int]:
    """Return the index of a column, or of all columns with a prefix (`source_`)."""
    return [
        i
        for i, column in enumerate(frame.columns)
        if column == name or (name.endswith("_") and column.startswith(name))
    ]


def _labels(frame: pd.DataFrame, name: str, origin: str) -> list[str] | None:
    """Return a column as names, None without it; empty ones are refused."""
    if name not in frame.columns:
        return None
    codes, cells = pd.factorize(frame[name].astype(object))
    texts = np.array([*map(label, cells), ""], object)[codes].tolist()
    if "" in texts:
        raise InvalidInputError(
            f"Every row of {origin} must have a {name}, but "
            f"{row_name(frame, texts.index(''))} has none."
        )
    return texts


# --- one row per policy -----------------------------------------------------------


def _read_wide(frame: pd.DataFrame, origin: str, choices: Choices) -> Matrix:
    columns = frame.columns.tolist()
    sources = _labels(frame, "source", origin)
    names, name_columns = _row_names(frame, origin, choices)
    places = _target_places(frame, origin, choices, name_columns)
    reference = [i for i, name in enumerate(sources or ()) if name == "best_known"]
    if len(reference) > 1:
        raise InvalidInputError(
            f"{origin} must have one row of source 'best_known' at most, but has "
            f"{row_name(frame, reference[0])} and {row_name(frame, reference[1])}."
        )
    rows = np.delete(np.arange(len(frame)), reference)
    if not len(rows):
        raise InvalidInputError(f"{origin} has no row of a policy.")
    axes = _places(frame, "source_")
    space = contexts_in(frame, axes, origin, reference) if axes else None
    if sources is None and space is None:
        sources = names
    options: Any = {"skip": reference, "may_be_empty": choices.may_be_empty}
    cells = numbers(frame, places, origin, **options)
    targets = [columns[place] for place in places]
    by_row = {"performance": cells[rows]}
    if "home" in columns and "home" not in targets:
        home = numbers(frame, _places(frame, "home"), origin, **options)
        by_row["home_performance"] = home[rows]
    matrix = _families(frame, origin, rows, sources, space, names, by_row)
    if "home_performance" in matrix.extras:
        matrix.extras["home_performance"] = matrix.extras["home_performance"][..., 0]
    if reference:
        matrix.extras["best_known"] = cells[reference[0]]
    has_names = any(columns)
    matrix.names["target"] = targets if has_names else None
    matrix.spaces["target"] = contexts_of_names(targets, origin)
    by = [repr(columns[i]) if columns[i] else str(i + 1) for i in name_columns]
    plural = "s" * (len(by) > 1)
    said = f"named by column{plural} {' and '.join(by)}" if by else "without names"
    called = f"named {_listed(targets)}" if has_names else "without names"
    used = {*places, *name_columns, *axes}
    unused = [
        name
        for place, name in enumerate(columns)
        if place not in used and name not in ("", *SPECIAL)
    ]
    matrix.read_as = (
        f"{_counted(len(matrix.cells), 'source')} {said}, "
        f"{_counted(len(places), 'target')} {called}"
    )
    if unused:
        matrix.read_as += f"; left out {_listed(unused)}"
    return matrix


def _row_names(
    frame: pd.DataFrame, origin: str, choices: Choices
) -> tuple[list[str] | None, list[int]]:
    """Return the names of the rows, and the columns that they are in."""
    columns = frame.columns.tolist()
    if "source" in columns or "policy" in columns:
        places = [*_places(frame, "source"), *_places(frame, "policy")]
        return _labels(frame, "policy", origin), sorted(places)
    first, has_names = columns[0], choices.row_names
    taken = (*SPECIAL, *choices.ignore, *(choices.targets or ()))
    if first in taken or first.startswith("source_"):
        return None, []
    names = list(map(label, frame.iloc[:, 0]))
    if has_names is None and first in ("", "Unnamed: 0") and any(columns[1:]):
        # An index of pandas. That of rows which were put together repeats numbers.
        has_names = len(set(names)) == len(names) or not all(map(is_number, names))
        return (names, [0]) if has_names else (None, [])
    if has_names is None:
        has_names = first_column_is_names(columns, frame.iloc[:, 0])
    if has_names is None and choices.targets is None:
        called = f" ({first!r})" if first else ""
        raise InvalidInputError(
            f"Column 1{called} of {origin} may hold names of rows or be a "
            "target. Say row_names=True or row_names=False (--read row_names or --read "
            "'row_names=false')."
        )
    return (names, [0]) if has_names else (None, [])


def _target_places(
    frame: pd.DataFrame, origin: str, choices: Choices, taken: Sequence[int]
) -> list[int]:
    """Return the columns that are targets; refuse one that may be a note."""
    columns = frame.columns.tolist()
    check_known(choices, columns, origin)
    if choices.targets is not None:
        return [i for i, name in enumerate(columns) if name in set(choices.targets)]
    has_index = choices.row_names is not False and columns[0] in ("", "Unnamed: 0")
    taken = [*taken, *([0] if has_index and any(columns[1:]) else [])]
    left_out, keep = {*SPECIAL, *choices.ignore}, []
    for place, name in enumerate(columns):
        if place in taken or name in left_out or name.startswith("source_"):
            continue
        if is_note(name):
            raise InvalidInputError(
                f"Column {place + 1} ({name!r}) of {origin} may be a note on the "
                f"training or a target. Say --read 'ignore=[\"{name}\"]', or name all "
                'targets: --read \'targets=["a", "b"]\'.'
            )
        keep.append(place)
    if not keep:
        raise InvalidInputError(
            f"{origin} has no column of a target. Name the targets with targets=[...] "
            '(--read \'targets=["a", "b"]\').'
        )
    return keep


def check_known(choices: Choices, known: Sequence[str], origin: str) -> None:
    """Refuse names that a matrix does not have.

    Args:
        choices: what the user says.
        known: names of columns and targets.
        origin: what to call the matrix.
    """
    every = dict.fromkeys(filter(None, known))
    for name in (*(choices.targets or ()), *choices.ignore):
        if name not in every:
            raise UnknownNameError(f"column or target of {origin}:", name, every)


# --- one row per cell -------------------------------------------------------------


def _read_long(frame: pd.DataFrame, origin: str, choices: Choices) -> Matrix:
    notes: list[str] = []
    if choices.long is not None:
        frame, notes = _stated_columns(frame, origin, choices.long)
    else:
        _check_long_columns(frame, origin, choices.ignore)
    place = _places(frame, "performance")
    values = numbers(frame, place, origin, may_be_empty=choices.may_be_empty)[:, 0]
    sources, policies = (_labels(frame, n, origin) for n in ("source", "policy"))
    own = _places(frame, "source_")
    if sources is None and not own:
        sources, policies = policies, None
    space = contexts_in(frame, own, origin) if own else None
    if sources is None and space is None:
        raise InvalidInputError(
            f"{origin} must name the source of each row in a column source, source_… "
            "or policy, but has none of them."
        )
    goals, there = _labels(frame, "target", origin), _places(frame, "target_")
    targets = contexts_in(frame, there, origin) if there else None
    column, first_column = _sides(frame, origin, "target", goals, targets)
    row, first_row = numbered(_keys(sources, space, policies))
    n_columns = len(first_column)
    cell, n_cells = row * n_columns + column, len(first_row) * n_columns
    is_again = pd.Series(cell).duplicated().to_numpy()
    if is_again.any() and choices.long is None:
        _refuse_repeat(frame, origin, cell, int(is_again.argmax()))
    if len(cell) - is_again.sum() < n_cells and not choices.may_be_empty:
        short = int((np.bincount(row[~is_again]) < n_columns).argmax())
        _refuse_hole(frame, origin, row == short, column)
    check_cells(n_cells, origin)
    count, shape = np.bincount(cell, minlength=n_cells), (-1, n_columns)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(cell, values, n_cells) / count
        by_row = {"performance": mean.reshape(shape)}
        if is_again.any():
            squares = np.bincount(cell, (values - mean[cell]) ** 2, n_cells)
            error = np.sqrt(squares / (count - 1) / count)
            by_row["standard_error"] = error.reshape(shape)
            notes.append("Rows of the same cell are averaged; standard errors follow.")
    matrix = _families(frame, origin, first_row, sources, space, None, by_row)
    matrix.names["target"] = goals and [goals[i] for i in first_column]
    matrix.spaces["target"] = targets and Points(
        targets.names, targets.points[first_column]
    )
    matrix.read_as = (
        f"one row per cell, {_counted(len(matrix.cells), 'source')}, "
        f"{_counted(n_columns, 'target')}"
    )
    matrix.notes = notes
    return matrix


def _stated_columns(
    frame: pd.DataFrame, origin: str, long: Sequence[str]
) -> tuple[pd.DataFrame, list[str]]:
    """Return the columns that a user named, under our names, and a note on others."""
    if isinstance(long, str) or len(long) not in (3, 4):
        raise InvalidInputError(
            "A long table needs its columns of source, target and value (and policy, "
            "if wanted), e.g. long=['algorithm', 'instance', 'time'] (--read "
            f'\'long=["algorithm", "instance", "time"]\'), but got {long!r}.'
        )
    names = frame.columns.tolist()
    for name in long:
        if name not in names:
            raise UnknownNameError(f"column of {origin}:", name, names)
    unused = [repr(name) for name in names if name and name not in long]
    notes = [f"Columns that are not used: {', '.join(unused[:8])}."] if unused else []
    ours = ["source", "target", "performance", "policy"][: len(long)]
    return frame.loc[:, list(long)].set_axis(ours, axis=1), notes


def _check_long_columns(
    frame: pd.DataFrame, origin: str, ignore: Sequence[str]
) -> None:
    """Refuse columns without a meaning."""
    known = {"source", "policy", "target", "performance", *ignore}
    for place, name in enumerate(frame.columns):
        is_index = place == 0 and name in ("", "Unnamed: 0")
        if name in known or name.startswith(("source_", "target_")) or is_index:
            continue
        raise InvalidInputError(
            f"Column {place + 1} ({name!r}) of {origin} has no meaning beside "
            "performance and targets. A long table has the columns source or source_…, "
            "policy, target or target_…, performance. Leave others out with ignore "
            "(--read 'ignore=[\"a\"]'), or name the columns: --read "
            '\'long=["source", "target", "performance", "seed"]\'.'
        )


def _refuse_repeat(frame: pd.DataFrame, origin: str, cell: Rows, second: int) -> None:
    first = int((cell == cell[second]).argmax())
    raise InvalidInputError(
        f"R{row_name(frame, first)[1:]} and {row_name(frame, second)} of {origin} are "
        "the same cell. If they are two policies of one source, tell them apart with a "
        "column policy."
    )


def _refuse_hole(frame: pd.DataFrame, origin: str, is_own: Any, column: Rows) -> None:
    own = int(is_own.argmax())
    other = int((~np.isin(column, column[is_own])).argmax())
    raise InvalidInputError(
        f"Every policy must have a cell for every target, but in {origin} the policy "
        f"of {row_name(frame, own)} has none for the target of "
        f"{row_name(frame, other)}. --read 'missing=\"not served\"' takes it for a "
        "failure."
    )


# --- families ---------------------------------------------------------------------


def _families(
    frame: pd.DataFrame,
    origin: str,
    rows: Rows,
    names: list[str] | None,
    space: Points | None,
    policies: list[str] | None,
    by_row: dict[str, Array],
) -> Matrix:
    """Return the numbers of each row by source and policy.

    Args:
        frame: the table.
        origin: what to call it.
        rows: the rows that count.
        names: the source of each row, None where its context or nothing tells it.
        space: the context of each row's source.
        policies: the policy of each row; a source may have each name once.
        by_row: arrays with one row per row that counts.
    """
    frame = frame.iloc[rows]
    names = names and [names[row] for row in rows]
    space = space and Points(space.names, space.points[rows])
    family, first = np.arange(len(rows)), np.arange(len(rows))
    if names is not None or space is not None:
        family, first = _sides(frame, origin, "source", names, space)
    labels = policies and [policies[row] for row in rows]
    if labels is not None:
        _refuse_same_name(frame, origin, family, labels)
    n_targets = by_row["performance"].shape[1]
    order = even_families(family, n_targets, origin)
    extras = {name: array[order] for name, array in by_row.items()}
    return Matrix(
        origin,
        extras.pop("performance"),
        "",
        {"source": names and [names[i] for i in first], "target": None},
        {"source": space and Points(space.names, space.points[first]), "target": None},
        extras,
    )


def _keys(
    names: list[str] | None, space: Points | None, policies: list[str] | None = None
) -> list[Any]:
    """Return the columns that tell rows apart."""
    axes = [] if space is None else list(space.points.T)
    return [*(key for key in (names, policies) if key is not None), *axes]


def _sides(
    frame: pd.DataFrame,
    origin: str,
    what: str,
    names: list[str] | None,
    space: Points | None,
) -> tuple[Rows, Rows]:
    """Return the index of each row's source or target, and the first row of each."""
    index, first = numbered(_keys(names, space))
    if names is not None and space is not None:
        seen: dict[str, int] = {}
        for row in first.tolist():
            before = seen.setdefault(names[row], row)
            if before != row:
                raise InvalidInputError(
                    f"All rows of a {what} must have the same context, but "
                    f"{row_name(frame, before)} and {row_name(frame, row)} of "
                    f"{origin}, both of {what} {names[row]!r}, have "
                    f"{space.context(before)} and {space.context(row)}."
                )
    return index, first


def _refuse_same_name(
    frame: pd.DataFrame, origin: str, family: Rows, labels: list[str]
) -> None:
    """Refuse two rows of one source with the same name."""
    again = pd.Series(numbered([family, labels])[0]).duplicated().to_numpy()
    if again.any():
        second = int(again.argmax())
        first = labels.index(labels[second])
        advice = "Name the policies of a source differently."
        if not {"source", "policy"} & set(frame.columns):
            advice = "If rows with the same name form a family, call it source."
        raise InvalidInputError(
            f"R{row_name(frame, second)[1:]} of {origin} repeats the name "
            f"{labels[second]!r} of {row_name(frame, first)}. {advice}"
        )


def numbered(keys: Sequence[Any]) -> tuple[Rows, Rows]:
    """Return the index of each distinct row, in the order in which they appear.

    Args:
        keys: columns that tell rows apart.

    Returns:
        The index of each row, and the first row of each index.
    """
    frame = pd.DataFrame(dict(enumerate(keys)))
    index = frame.groupby(list(frame), sort=False).ngroup().to_numpy(np.intp)
    return index, np.flatnonzero(~pd.Series(index).duplicated().to_numpy())


def even_families(family: Rows, n_targets: int, origin: str) -> Rows:
    """Return families of one size: a smaller one repeats its first member.

    Worst and best over a family, and so every criterion, stay as they are.

    Args:
        family: the index of each row's family.
        n_targets: cells of a row.
        origin: what to call the matrix.

    Returns:
        Rows, dims `(source, policy)`.
    """
    sizes = np.bincount(family)
    size = int(sizes.max())
    check_cells(len(sizes) * size * n_targets, origin)
    rows = np.argsort(family, kind="stable")
    first = np.cumsum(sizes) - sizes
    member = np.arange(size)
    return rows[first[:, None] + np.where(member < sizes[:, None], member, 0)]


# --- words ------------------------------------------------------------------------


def _counted(n: int, thing: str) -> str:
    return f"{n:,} {thing}{'s' * (n != 1)}"


def _listed(names: Sequence[str]) -> str:
    """Return names in quotes; of many the first three and the last."""
    if len(names) > 4:
        return f"{', '.join(map(repr, names[:3]))}, …, {names[-1]!r}"
    return ", ".join(map(repr, names))
