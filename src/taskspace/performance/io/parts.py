"""What a matrix said, whatever its format, and the performance table it makes."""

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.performance.io.cells import Frame, is_number, number_of
from taskspace.performance.io.columns import Choices
from taskspace.performance.io.limits import check_cells
from taskspace.performance.table import table_from_matrix
from taskspace.spaces import Points, Space

LAST_DIGITS = 1e-9
"""Share by which the best value of another solver may be worse than the table's."""


@dataclass(frozen=True)
class Parts:
    """What a matrix says, before it is a table.

    Args:
        performance: the cells, dims `(source, policy, target)`; NaN where empty.
        origin: what to call the matrix.
        read_as: what was taken for names, for targets and for neither, in one line.
        sources: contexts of the sources.
        targets: contexts of the targets.
        source_names: names of the sources.
        target_names: names of the targets.
        home: scores at home, dims `(source, policy)`; NaN where empty.
        best_known: the reference of regret at each target.
        best_known_kind: where that comes from.
        standard_error: of the cells, in their shape; NaN where unknown.
        provenance: what the matrix says of its numbers; None if it says nothing.
        n_episodes: how many episodes each cell is the mean of, 0 if unknown.
        notes: sentences for the user about how it was read.
    """

    performance: NDArray[np.float64]
    origin: str
    read_as: str
    sources: Space | None = None
    targets: Space | None = None
    source_names: list[str] | None = None
    target_names: list[str] | None = None
    home: NDArray[np.float64] | None = None
    best_known: NDArray[np.float64] | None = None
    best_known_kind: str = "given"
    standard_error: NDArray[np.float64] | None = None
    provenance: str | None = None
    n_episodes: int = 0
    notes: list[str] = field(default_factory=list)


def table_from_parts(
    parts: Parts, contexts: Frame | None, choices: Choices
) -> xr.Dataset:
    """Return the performance table of a matrix.

    Args:
        parts: what the matrix says.
        contexts: contexts of the targets, from elsewhere.
        choices: what the user says.

    Returns:
        A table; what should be said about it is in its attribute `notes`.
    """
    sizes = parts.performance.shape[0], parts.performance.shape[-1]
    spaces = parts.sources, parts.targets
    names = parts.source_names, parts.target_names
    for dim, n, labels in zip(("source", "target"), sizes, names, strict=True):
        if labels is not None and len(labels) != n:
            raise InvalidInputError(
                f"There must be one name per {dim}, but {parts.origin} has {n} {dim}s "
                f"and {len(labels)} names."
            )
    if contexts is not None:
        spaces = contexts_from(contexts, sizes, spaces, names)
    sign = -1.0 if choices.lower_is_better else 1.0
    cells = -parts.performance if choices.lower_is_better else parts.performance
    notes = list(parts.notes)
    if choices.may_be_empty:
        empty = np.isnan(cells)
        if empty.any():
            cells = np.where(empty, -np.inf, cells)
            n = int(empty.sum())
            some = "1 empty cell is" if n == 1 else f"{n:,} empty cells are"
            notes.append(f"{some} taken for not served.")
    home = _home(parts, spaces)
    shared = bool(set(names[0] or ()) & set(names[1] or ()))
    is_known = shared or (spaces[0] is not None and spaces[1] is not None)
    _check_direction(parts, home if is_known else None, choices, notes)
    if home is not None and np.isnan(home).any():
        home = None
        notes.append("Scores at home are missing, so the signed criterion is too.")
    table = table_from_matrix(
        cells,
        sources=spaces[0],
        targets=spaces[1],
        home=None if home is None else sign * home,
        standard_error=parts.standard_error,
        provenance=cast("Any", parts.provenance or _told(parts)),
        n_episodes=parts.n_episodes,
    )
    if home is None:
        table = table.drop_vars("home_performance", errors="ignore")
    if parts.best_known is not None and parts.best_known_kind != "best of the table":
        table = _with_best_known(table, sign, parts, notes)
    table = _with_names(table, *names)
    table = _selected(table, parts, choices).assign_attrs(notes=notes)
    better = (
        "costs, smaller is better" if choices.lower_is_better else "larger is better"
    )
    return table.assign_attrs(
        read_as=f"{parts.read_as}; {better}",
        quantity="cost" if choices.lower_is_better else "performance",
    )


def _check_direction(
    parts: Parts,
    home: NDArray[np.float64] | None,
    choices: Choices,
    notes: list[str],
) -> None:
    """Refuse costs that were not called so; a word about those that may be some."""
    endless = np.argwhere(parts.performance == np.inf)
    if len(endless) and not choices.lower_is_better:
        source, _, target = endless[0].tolist()
        raise InvalidInputError(
            f"No score may be +inf, but one of source {source} at target {target} of "
            f"{parts.origin} is. A failure is −inf. If the numbers are costs, say "
            "lower_is_better=True (--read lower_is_better)."
        )
    if choices.lower_is_better is not None:
        return
    why = why_costs(parts.origin, parts.target_names, parts.performance, home)
    if why:
        raise InvalidInputError(
            f"Larger numbers of {parts.origin} would be taken for better, but they "
            f"look like costs: {why}. Say --read lower_is_better for costs, "
            "--read 'lower_is_better=false' for scores."
        )
    called = [name for name in parts.target_names or () if sounds_like_cost(name)]
    if called:
        notes.append(
            f"Target {called[0]!r} sounds like a cost, but larger is taken for better. "
            "Say lower_is_better=True (--read lower_is_better) if that is wrong."
        )


def _told(parts: Parts) -> str:
    return "sampled" if parts.n_episodes else "given"


def _home(
    parts: Parts, spaces: tuple[Space | None, Space | None]
) -> NDArray[np.float64] | None:
    """J of each policy at its own source: given, found, or the diagonal."""
    if parts.home is not None:
        return parts.home
    sources, targets = spaces
    cells = parts.performance
    if sources is not None and targets is not None:
        if set(sources.names) != set(targets.names):
            return None
        columns = [targets.names.index(n) for n in sources.names]
        own = list(map(tuple, sources.points.tolist()))
        there = list(map(tuple, targets.points[:, columns].tolist()))
    elif parts.source_names is not None and parts.target_names is not None:
        own, there = parts.source_names, parts.target_names
        # Where no name is shared, source i may still be target i.
        if not set(own) & set(there):
            return _diagonal(cells)
    else:
        return _diagonal(cells)
    place = {key: i for i, key in reversed(list(enumerate(there)))}
    if any(key not in place for key in own):
        return None
    return cells[np.arange(len(own)), :, np.array([place[key] for key in own])]


def _diagonal(cells: NDArray[np.float64]) -> NDArray[np.float64] | None:
    if cells.shape[0] != cells.shape[2]:
        return None
    return np.diagonal(cells, axis1=0, axis2=2).T


def _with_best_known(
    table: xr.Dataset, sign: float, parts: Parts, notes: list[str]
) -> xr.Dataset:
    """Return the table with another reference of regret, which no cell may exceed.

    NaN is no reference: nothing is known of that target. Another solver's reference
    may differ in its last digits; there the best of the table is taken.
    """
    assert parts.best_known is not None
    values, top = sign * parts.best_known, table["best_known"].values
    if values.shape != top.shape:
        raise InvalidInputError(
            f"best_known of {parts.origin} must have one value per target "
            f"({len(top)}), but has shape {values.shape}."
        )
    below = values < top
    rounded = below & (top - values <= LAST_DIGITS * np.abs(top))
    if rounded.any():
        values = np.where(rounded, top, values)
        n = int(rounded.sum())
        notes.append(
            f"best_known is below the best of the table by at most {LAST_DIGITS:g} "
            f"of it at {n:,} target{'s' * (n > 1)}; there the best of the table is "
            "taken."
        )
    wrong = np.flatnonzero((below & ~rounded) | (values == np.inf))
    if len(wrong):
        t = int(wrong[0])
        name = repr(parts.target_names[t]) if parts.target_names else str(t)
        what = "cost" if sign < 0 else "performance"
        raise InvalidInputError(
            f"best_known of {parts.origin} must be as good as the best {what} in the "
            f"table, and finite, but target {name} has best_known "
            f"{float(sign * values[t])!r} and a {what} of {float(sign * top[t])!r}. "
            "Correct the row best_known, or leave it out: the best of the table is "
            "taken then."
        )
    table = table.assign(best_known=("target", values))
    return table.assign_attrs(best_known_kind=parts.best_known_kind)


def _with_names(
    table: xr.Dataset, sources: list[str] | None, targets: list[str] | None
) -> xr.Dataset:
    """Return the table with the names of its rows and columns, where there are any."""
    names = {"source": sources, "target": targets}
    return table.assign_coords(
        {dim: (dim, np.array(n, object)) for dim, n in names.items() if n is not None}
    )


def _selected(table: xr.Dataset, parts: Parts, choices: Choices) -> xr.Dataset:
    """Return the table with the targets that the user wants, of all that were read."""
    wanted, names = choices.targets, parts.target_names
    if wanted is None and not choices.ignore:
        return table
    if names is None:
        raise InvalidInputError(
            f"Targets can be chosen only by name, but those of {parts.origin} have "
            "none."
        )
    keep = [
        t
        for t, name in enumerate(names)
        if name not in choices.ignore and (wanted is None or name in wanted)
    ]
    if not keep:
        raise InvalidInputError(f"No target of {parts.origin} is left.")
    return table.isel(target=keep)


def numbered(keys: Sequence[Hashable]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return numbers of equal keys, in the order in which they first appear.

    Args:
        keys: one per row.

    Returns:
        The number of each row's key, and the first row of each key.
    """
    first: dict[Hashable, int] = {}
    for row, key in enumerate(keys):
        first.setdefault(key, row)
    numbers = {key: number for number, key in enumerate(first)}
    rows = np.array(list(first.values()), np.intp)
    return np.array([numbers[key] for key in keys], np.intp), rows


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


# --- costs or scores --------------------------------------------------------------

COSTS = {
    "cost", "costs", "cputime", "delay", "delays", "err", "error", "errors",
    "latencies", "latency", "loss", "losses", "mae", "makespan", "mse", "par2",
    "par10", "penalties", "penalty", "regret", "regrets", "rmse", "runtime",
    "runtimes", "seconds", "time", "times", "walltime",
}  # fmt: skip
OTHERS = {
    "accuracy", "alive", "flight", "gain", "gains", "life", "lifetime", "profit",
    "return", "returns", "reward", "rewards", "score", "scores", "standard", "step",
    "steps", "success", "survival", "up", "utility",
}  # fmt: skip
"""Words beside which those words mean something else: `survival time`."""


def sounds_like_cost(name: str) -> bool:
    """Whether a name has a word for a cost, and none that changes its meaning.

    Args:
        name: name of a file or a target.
    """
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    words = set(re.findall(r"[a-z]+[0-9]*", spaced.lower()))
    return bool(words & COSTS) and not words & OTHERS


def why_costs(
    origin: str,
    targets: Sequence[str] | None,
    cells: NDArray[np.float64],
    home: NDArray[np.float64] | None,
) -> str:
    """Why numbers are costs rather than scores, empty where nothing says so.

    Args:
        origin: what the matrix is called: its file.
        targets: names of the targets.
        cells: the numbers, dims `(source, policy, target)`; NaN where empty.
        home: the numbers at home, dims `(source, policy)`.
    """
    if (cells < 0).any():
        return ""
    if sounds_like_cost(PurePath(origin).stem):
        return f"its name ({PurePath(origin).name}) says so"
    called = [name for name in targets or () if sounds_like_cost(name)]
    if 2 * len(called) > len(targets or ()):
        return f"names of targets ({called[0]!r}) say so"
    n_sources, _, n_targets = cells.shape
    if home is not None and n_sources == n_targets >= 3:
        own = np.diagonal(cells, axis1=0, axis2=2).T
        others = np.where(np.eye(n_sources, dtype=bool)[:, None], np.inf, cells)
        if np.array_equal(home, own) and (own.max(1) < others.min((0, 1))).all():
            return "every policy has the least number of all at its own source"
    return ""


# --- where sources and targets lie ------------------------------------------------

NAME_COLUMNS = ("target", "source", "context", "name")

Sides = tuple[Space | None, Space | None]
Names = tuple[list[str] | None, list[str] | None]


def contexts_from(
    contexts: Frame, sizes: tuple[int, int], spaces: Sides, names: Names
) -> Sides:
    """Contexts of sources and targets from a second frame; see `read_matrix`.

    Args:
        contexts: the second frame.
        sizes: numbers of sources and targets.
        spaces: contexts that sources and targets have already.
        names: names of sources and targets.
    """
    if spaces[1] is not None:
        raise InvalidInputError(
            f"The targets have contexts already, and {contexts.origin} gives them "
            "again."
        )
    named = next((n for n in NAME_COLUMNS if n in contexts.names), None)
    labels = contexts.labels(named) if named else None
    points = _points(contexts, named)
    place_of: dict[str, int] = {}
    for place, name in enumerate(labels or ()):
        if place_of.setdefault(name, place) != place:
            raise InvalidInputError(f"{contexts.origin} names {name!r} more than once.")

    def pick(wanted: list[str] | None, n: int) -> Points | None:
        if labels is None:
            return points if n == points.size else None
        if wanted is None or any(name not in place_of for name in wanted):
            return None
        rows = [place_of[name] for name in wanted]
        return Points(points.names, points.points[rows])

    n_sources, n_targets = sizes
    targets = pick(names[1], n_targets)
    if targets is None and labels is None:
        raise InvalidInputError(
            f"{contexts.origin} must have one row per target, but there are "
            f"{n_targets} targets and {points.size} rows."
        )
    if targets is None:
        lost = [n for n in names[1] or () if n not in place_of]
        which = f"target {lost[0]!r} is not in it" if lost else "targets have no names"
        raise InvalidInputError(
            f"{contexts.origin} must name every target in its column {named!r}, but "
            f"{which}."
        )
    return spaces[0] or pick(names[0], n_sources), targets


def _points(contexts: Frame, named: str | None) -> Points:
    """All contexts of a frame, one per row."""
    places = [
        i
        for i, name in enumerate(contexts.names)
        if name != named and not (i < contexts.n_index and not name)
    ]
    unnamed = [i + 1 for i in places if not contexts.names[i]]
    if not places or unnamed or not contexts.rows:
        raise InvalidInputError(
            f"{contexts.origin} must have a column per context axis, with its "
            "name, and a row per target, but "
            + (f"column {unnamed[0]} has no name." if unnamed else "has none.")
        )
    return contexts.contexts(places)


def contexts_of_names(names: Sequence[str], origin: str) -> Points | None:
    """Contexts from names like `k=1.5;c=0.1`; None unless all are so.

    A name behind `target:` is only a name.

    Args:
        names: names of targets.
        origin: what to call their table.
    """
    rows: list[dict[str, float]] = []
    for name in names:
        pairs = [part.partition("=") for part in name.split(";")]
        if name.startswith("target:") or not all(
            axis.strip()
            and equals
            and (is_number(value) or value.strip().lower() == "nan")
            for axis, equals, value in pairs
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
