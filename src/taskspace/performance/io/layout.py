"""Wide and long tables: one row per policy, and one row per cell; see `frame`."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance.io.frame import (
    SPECIAL,
    STANDARD_ERROR,
    TARGET,
    Frame,
    contexts_of_names,
    first_column_is_names,
    is_number,
    label,
)
from taskspace.performance.io.limits import check_cells
from taskspace.performance.table import make_table
from taskspace.spaces import Points

BEST_KNOWN = "best_known"
ERRORS = ("standard_error", "stderr", "se")
ROLES = ("source", "target", "value")

Missing = Literal["error", "not served"]


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

    @property
    def roles(self) -> dict[str, str]:
        """The column of each role in a table with one row per run."""
        if self.long is None or isinstance(self.long, Mapping):
            return dict(self.long or {})
        return dict(zip(ROLES, self.long, strict=False))

    def check_known(self, known: Sequence[str], origin: str) -> None:
        """Refuse names that a matrix does not have.

        Args:
            known: all names of the matrix.
            origin: what to call it.
        """
        every = set(known)
        for name in (*(self.targets or ()), *self.ignore):
            if name not in every:
                names = list(filter(None, dict.fromkeys(known)))
                raise UnknownNameError(f"column or target of {origin}:", name, names)


def table_of_frame(frame: Frame, choices: Choices) -> xr.Dataset:
    """Return what a table of columns says; cells are NaN where they are empty.

    Args:
        frame: the table.
        choices: what the user says.

    Returns:
        `performance` and what else the table holds; the attribute `read_as` says what
        was taken for names, for targets and for neither.
    """
    if not frame.columns:
        raise InvalidInputError(f"{frame.origin} has no columns.")
    if not frame.n_rows:
        raise InvalidInputError(f"{frame.origin} has column names but no rows.")
    if choices.long is not None:
        frame, notes = _joined_runs(frame, choices.roles)
        table = _read_long(frame, choices)
        return table.assign_attrs(notes=[*table.attrs["notes"], *notes])
    if choices.row_names is False:
        frame = Frame(frame.columns, frame.names, frame.origin, frame.row)
    has_target = any(n == "target" or n.startswith("target_") for n in frame.names)
    if "performance" in frame.names and has_target:
        return _read_long(frame, choices)
    return _read_wide(frame, choices)


# --- one row per policy -----------------------------------------------------------


def _read_wide(frame: Frame, choices: Choices) -> xr.Dataset:
    names = frame.labels("source")
    labels, name_columns = _row_names(frame, choices)
    places, notes = _target_columns(frame, choices, names or (), name_columns)
    reference = [i for i, name in enumerate(names or ()) if name == BEST_KNOWN]
    if len(reference) > 1:
        raise InvalidInputError(
            f"{frame.origin} must have one row of source 'best_known' at most, but has "
            f"{frame.row(reference[0])} and {frame.row(reference[1])}."
        )
    body = np.delete(np.arange(frame.n_rows), reference)
    if not len(body):
        raise InvalidInputError(f"{frame.origin} has no row of a policy.")
    space = frame.space("source_", reference)
    if labels is not None:
        _check_repeats(frame, body, names, space, labels)
    empty = choices.may_be_empty
    cells = frame.numbers(places, reference, may_be_empty=empty)
    home = None
    if "home" not in (choices.targets or ()):
        home = frame.column("home", reference, may_be_empty=empty)
    columns = [frame.names[place] for place in places]
    errors = _standard_errors(frame, columns, reference)
    has_names = any(frame.names)
    table = _families(
        frame,
        body,
        names or (labels if space is None else None),
        space,
        {"performance": cells, "standard_error": errors, "home_performance": home},
        contexts_of_names(columns, frame.origin),
        [name.removeprefix(TARGET) for name in columns] if has_names else None,
    )
    if reference:
        table[BEST_KNOWN] = ("target", cells[reference[0]])
    by = [repr(frame.names[i]) if frame.names[i] else str(i + 1) for i in name_columns]
    plural = "s" * (len(by) > 1)
    sources = f"named by column{plural} {' and '.join(by)}" if by else "without names"
    targets = f"named {_listed(columns)}" if has_names else "without names"
    used = {*places, *name_columns}
    unused = [
        name
        for place, name in enumerate(frame.names)
        if place not in used and name not in ("", *SPECIAL, *notes)
        if not name.startswith(("source_", STANDARD_ERROR))
    ]
    return table.assign_attrs(
        read_as=f"{_counted(table.sizes['source'], 'source')} {sources}, "
        f"{_counted(len(places), 'target')} {targets}{_left_out([*notes, *unused])}",
        notes=_notes(notes),
    )


def _row_names(frame: Frame, choices: Choices) -> tuple[list[str] | None, list[int]]:
    """Names of the rows, and the columns that they are in."""
    labels, first = frame.labels("policy"), frame.names[0]
    if labels is not None or "source" in frame.names:
        places = [i for i, n in enumerate(frame.names) if n in ("source", "policy")]
        return labels, places
    taken = (*SPECIAL, *choices.ignore)
    levels = [
        place
        for place, name in enumerate(frame.names[: frame.n_index])
        if name not in taken and not name.startswith("source_")
    ]
    if levels:
        rows = zip(*(frame.columns[place] for place in levels), strict=True)
        labels = [" ".join(label(cell).strip() for cell in row) for row in rows]
        repeat = len(set(labels)) < len(labels) and all(map(is_number, labels))
        return (None, []) if repeat else (labels, levels)
    taken = (*taken, *(choices.targets or ()))
    if first.removeprefix(TARGET) in taken or first.startswith(("source_", TARGET)):
        return None, []
    has_names = choices.row_names
    if has_names is None:
        has_names = first_column_is_names(frame.names, frame.columns[0])
    if has_names is None and choices.targets is None:
        called = f" ({first!r})" if first else ""
        raise InvalidInputError(
            f"Column 1{called} of {frame.origin} may hold names of rows or be a "
            "target. Say row_names=True or row_names=False (--read row_names or --read "
            "'row_names=false')."
        )
    if not has_names:
        return None, []
    return [label(cell).strip() for cell in frame.columns[0]], [0]


def _target_columns(
    frame: Frame, choices: Choices, sources: Sequence[str], taken: Sequence[int]
) -> tuple[list[int], list[str]]:
    """Return places of the targets, and names of columns that are notes."""
    called = [name.removeprefix(TARGET) for name in frame.names]
    choices.check_known([*frame.names, *called], frame.origin)
    if choices.targets is not None:
        wanted = set(choices.targets)
        return [i for i, name in enumerate(called) if name in wanted], []
    keep, notes, known = [], [], {*sources}
    for place, name in enumerate(frame.names):
        if name in SPECIAL or name.startswith(("source_", STANDARD_ERROR)):
            continue
        if place < frame.n_index or place in taken or called[place] in choices.ignore:
            continue
        (notes if name not in known and frame.is_note(place) else keep).append(place)
    lost = [frame.names[place] for place in notes]
    if not keep:
        raise InvalidInputError(
            f"{frame.origin} has no column of a target"
            f"{' beside ' * bool(lost)}{', '.join(lost)}. Name the targets with "
            'targets=[...] (--read \'targets=["a", "b"]\').'
        )
    return keep, lost


def _check_repeats(
    frame: Frame,
    rows: NDArray[np.intp],
    names: Sequence[str] | None,
    space: Points | None,
    labels: Sequence[str],
) -> None:
    """Refuse two rows of the same policy."""
    seen: dict[Hashable, int] = {}
    for row in rows.tolist():
        key = (
            names[row] if names else tuple(space.points[row]) if space else labels[row]
        )
        before = seen.setdefault((key, labels[row]), row)
        if before != row:
            advice = "Name the policies of a source differently."
            if not names and space is None:
                advice = "If rows with the same name form a family, call it source."
            raise InvalidInputError(
                f"R{frame.row(row)[1:]} of {frame.origin} repeats the name "
                f"{labels[row]!r} of {frame.row(before)}. {advice}"
            )


def _standard_errors(
    frame: Frame, columns: Sequence[str], reference: Sequence[int]
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
    return frame.numbers(places, reference, may_be_empty=True)


# --- one row per cell -------------------------------------------------------------


def _read_long(frame: Frame, choices: Choices) -> xr.Dataset:
    notes = _check_columns(frame, choices)
    empty = choices.may_be_empty
    performance = frame.column("performance", may_be_empty=empty)
    assert performance is not None
    policies = frame.labels("policy")
    names, space = frame.labels("source"), frame.space("source_")
    if names is None and space is None:
        names, policies = policies, None
    if names is None and space is None:
        raise InvalidInputError(
            f"{frame.origin} must name the source of each row in a column source, "
            "source_… or policy, but has none of them."
        )
    goal_names, goals = frame.labels("target"), frame.space("target_")
    target, first_of_target = _numbered(frame, goal_names, goals, "target")
    source, _ = _numbered(frame, names, space, "source")
    told_apart = [source, *([] if policies is None else [policies])]
    for name in ("seed", "run"):
        if name in notes:  # it has a meaning here
            cells = frame.columns[frame.names.index(name)]
            told_apart.append([label(cell).strip() for cell in cells])
            notes.remove(name)
    policy, first = numbered(told_apart)
    rows = _rows_of_cells(frame, policy, target, may_be_empty=empty)
    columns = [name for name in ERRORS if name in frame.names]
    if len(columns) > 1:
        raise InvalidInputError(
            f"{frame.origin} must have one column of standard errors, but has "
            f"{' and '.join(columns)}."
        )
    errors = frame.column(columns[0], may_be_empty=True) if columns else None
    table = _families(
        frame,
        first,
        names,
        space,
        {
            "performance": np.where(rows < 0, np.nan, performance[rows]),
            "standard_error": None
            if errors is None
            else np.where(rows < 0, np.nan, errors[rows]),
        },
        goals and Points(goals.names, goals.points[first_of_target]),
        goal_names and [goal_names[row] for row in first_of_target],
        by_row=False,
    )
    ignored = [name for name in choices.ignore if name in frame.names]
    n_sources, n_targets = table.sizes["source"], table.sizes["target"]
    return table.assign_attrs(
        read_as=f"one row per cell, {_counted(n_sources, 'source')}, "
        f"{_counted(n_targets, 'target')}{_left_out([*notes, *ignored])}",
        notes=_notes(notes),
    )


def _check_columns(frame: Frame, choices: Choices) -> list[str]:
    """Refuse columns without a meaning; return the names of those that are notes."""
    if choices.targets or choices.ignore:
        targets = dict.fromkeys(frame.labels("target") or ())
        choices.check_known([*frame.names, *targets], frame.origin)
    known = {*SPECIAL, "target", "performance", *ERRORS, *choices.ignore} - {"home"}
    notes = []
    for place, name in enumerate(frame.names):
        if name in known or name.startswith(("source_", "target_")):
            continue
        if frame.is_note(place):
            notes.append(name)
        elif name or place >= frame.n_index:
            raise InvalidInputError(
                f"Column {place + 1} ({name!r}) of {frame.origin} has no meaning "
                "beside performance and targets. A long table has the columns source "
                "or source_…, policy, target or target_…, performance. Leave others "
                "out with ignore (--read 'ignore=[\"a\"]')."
            )
    return notes


def _rows_of_cells(
    frame: Frame,
    policy: NDArray[np.intp],
    target: NDArray[np.intp],
    *,
    may_be_empty: bool,
) -> NDArray[np.intp]:
    """Return the row of each cell, dims `(policy, target)`; −1 where there is none."""
    n_policies, n_targets = int(policy.max()) + 1, int(target.max()) + 1
    again = pd.Series(policy * n_targets + target).duplicated().to_numpy()
    if again.any():
        second = int(again.argmax())
        same = (policy == policy[second]) & (target == target[second])
        raise InvalidInputError(
            f"R{frame.row(int(same.argmax()))[1:]} and {frame.row(second)} of "
            f"{frame.origin} are the same cell. If they are two policies of one "
            "source, tell them apart with a column policy."
        )
    short = np.flatnonzero(np.bincount(policy) < n_targets)
    if len(short) and not may_be_empty:
        own = np.flatnonzero(policy == short[0])
        other = np.flatnonzero(~np.isin(target, target[own]))
        raise InvalidInputError(
            f"Every policy must have a cell for every target, but in {frame.origin} "
            f"the policy of {frame.row(own[0])} has none for the target of "
            f"{frame.row(other[0])}. --read 'missing=\"not served\"' takes it for a "
            "failure."
        )
    check_cells(n_policies * n_targets, frame.origin)
    rows = np.full((n_policies, n_targets), -1, np.intp)
    rows[policy, target] = np.arange(len(policy))
    return rows


def _joined_runs(frame: Frame, roles: Mapping[str, str]) -> tuple[Frame, list[str]]:
    """Return a long table with one row per cell, the mean of its runs, and notes."""
    for role in ROLES:
        if role not in roles:
            raise InvalidInputError(
                "A long table needs its columns of source, target and value, e.g. "
                "long=['algorithm', 'instance', 'time'] (--read 'long=[\"algorithm\", "
                f'"instance", "time"]\'), but no {role}.'
            )
    for role, column in roles.items():
        if role not in (*ROLES, "policy"):
            raise UnknownNameError("role of a column:", role, [*ROLES, "policy"])
        if column not in frame.names:
            raise UnknownNameError(f"column of {frame.origin}:", column, frame.names)
    keys = [role for role in ("source", "policy", "target") if role in roles]
    labels = {role: frame.labels(roles[role]) or [] for role in keys}
    values = frame.column(roles["value"], may_be_empty=True)
    cell, first = numbered(list(labels.values()))
    runs = pd.Series(values).groupby(cell)
    sizes = np.bincount(cell)
    columns: dict[str, Any] = {
        role: [column[row] for row in first] for role, column in labels.items()
    }
    # A cell of which one run is empty is empty: its mean would hide that.
    ends = np.cumsum(sizes)[:-1]
    groups = np.split(np.asarray(values)[np.argsort(cell, kind="stable")], ends)
    columns["performance"] = np.array([group.mean() for group in groups])
    notes = []
    if sizes.max(initial=1) > 1:
        with np.errstate(invalid="ignore"):
            errors = runs.std(ddof=1).to_numpy() / np.sqrt(sizes)
        columns["standard_error"] = np.where(
            np.isnan(columns["performance"]), np.nan, errors
        )
        few, most = sizes.min(), sizes.max()
        notes.append(
            f"Each cell is the mean of {few if few == most else f'{few} to {most}'} "
            "rows; standard errors follow from them."
        )
    unused = [n for n in frame.names if n and n not in roles.values()]
    if unused:
        notes.append(f"Columns that are not used: {', '.join(map(repr, unused[:8]))}.")
    return Frame(
        list(columns.values()),
        list(columns),
        frame.origin,
        lambda row: frame.row(int(first[row])),
    ), notes


# --- families ---------------------------------------------------------------------


def _families(
    frame: Frame,
    rows: NDArray[np.intp],
    names: list[str] | None,
    space: Points | None,
    variables: Mapping[str, NDArray[np.float64] | None],
    targets: Points | None,
    target_names: list[str] | None,
    *,
    by_row: bool = True,
) -> xr.Dataset:
    """Return the variables by source and policy.

    Args:
        frame: the table.
        rows: the row of each policy, or its first one.
        names: the source of each row, None where contexts or nothing tells it.
        space: the context of each row's source.
        variables: arrays with one row per row of the table.
        targets: contexts of the targets.
        target_names: names of the targets.
        by_row: the arrays have one row per row of the table, else per policy.
    """
    own = None if names is None else [names[row] for row in rows]
    points = space and Points(space.names, space.points[rows])
    if own is None and points is None:
        family = first = np.arange(len(rows))
    else:
        family, first = _numbered(frame, own, points, "source", rows)
    performance = variables["performance"]
    assert performance is not None
    order = even_families(family, performance.shape[1], frame.origin)
    places = rows[order] if by_row else order
    kept = {n: array[places] for n, array in variables.items() if array is not None}
    table = make_table(
        kept, points and Points(points.names, points.points[first]), targets
    )
    sides = {"source": own and [own[row] for row in first], "target": target_names}
    body = rows.tolist() if by_row else range(frame.n_rows)
    return named(table, sides).assign_attrs(
        origin=frame.origin,
        provenance=frame.provenance(body),
        n_episodes=frame.n_episodes(body),
    )


def named(table: xr.Dataset, names: Mapping[str, Sequence[str] | None]) -> xr.Dataset:
    """Return a table with the names of its sources and targets, where there are any.

    Args:
        table: a performance table.
        names: of the dims `source` and `target`.
    """
    return table.assign_coords(
        {dim: (dim, np.array(n, object)) for dim, n in names.items() if n is not None}
    )


def _numbered(
    frame: Frame,
    names: Sequence[str] | None,
    space: Points | None,
    what: str,
    rows: NDArray[np.intp] | None = None,
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the number of each row's source or target; two contexts are refused."""
    if names is None:
        assert space is not None
        return numbered(list(space.points.T))
    number, first = numbered([names])
    if space is not None:
        other = (space.points != space.points[first[number]]).any(axis=1)
        for row in np.flatnonzero(other)[:1].tolist():
            before = int(first[number[row]])
            where = rows if rows is not None else np.arange(len(names))
            raise InvalidInputError(
                f"All rows of a {what} must have the same context, but "
                f"{frame.row(int(where[before]))} and {frame.row(int(where[row]))} of "
                f"{frame.origin}, both of {what} {names[row]!r}, have "
                f"{space.context(before)} and {space.context(row)}."
            )
    return number, first


def numbered(
    keys: Sequence[Sequence[Any] | NDArray[Any]],
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return numbers of equal rows, in the order in which they first appear.

    Args:
        keys: columns that tell rows apart.

    Returns:
        The number of each row, and the first row of each number.
    """
    number = pd.factorize(np.asarray(keys[0], getattr(keys[0], "dtype", object)))[0]
    for key in keys[1:]:
        other = pd.factorize(np.asarray(key, getattr(key, "dtype", object)))[0]
        number = pd.factorize(number * (int(other.max()) + 1) + other)[0]
    first = np.flatnonzero(~pd.Series(number).duplicated().to_numpy())
    return number.astype(np.intp), first


def even_families(
    numbers: NDArray[np.intp], n_targets: int, origin: str
) -> NDArray[np.intp]:
    """Return families of one size: a smaller one repeats its first member.

    Worst and best over a family, and so every criterion, stay as they are.

    Args:
        numbers: the number of each row's family.
        n_targets: cells of a row.
        origin: what to call the matrix.

    Returns:
        Rows, dims `(source, policy)`.
    """
    sizes = np.bincount(numbers)
    size = int(sizes.max())
    check_cells(len(sizes) * size * n_targets, origin)
    rows = np.argsort(numbers, kind="stable")
    first = np.cumsum(sizes) - sizes
    member = np.arange(size)
    return rows[first[:, None] + np.where(member < sizes[:, None], member, 0)]


# --- words ------------------------------------------------------------------------


def _counted(n: int, thing: str) -> str:
    return f"{n:,} {thing}{'s' * (n != 1)}"


def _listed(names: Sequence[str]) -> str:
    """Return names in quotes; of many the first three and the last."""
    few = names if len(names) <= 4 else [*names[:3], names[-1]]
    every = [repr(name) for name in few]
    if len(names) > 4:
        every.insert(3, "…")
    return ", ".join(every)


def _left_out(names: Sequence[str]) -> str:
    return f"; left out {_listed(names)}" if names else ""


def _notes(names: Sequence[str]) -> list[str]:
    """Return the sentence about columns that were taken for notes."""
    if not names:
        return []
    one = len(names) == 1
    return [
        f"{'Column' if one else 'Columns'} {', '.join(map(repr, names))} "
        f"{'is' if one else 'are'} taken for {'a note' if one else 'notes'} on the "
        f"training, not for {'a target' if one else 'targets'}. If that is wrong, name "
        'all targets with targets=[...] (--read \'targets=["a", "b"]\').'
    ]
