"""Transfer matrices from files, and from pandas and xarray objects."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import xarray as xr

from taskspace._util.arrays import Array
from taskspace.errors import InvalidInputError, TaskspaceError, UnknownNameError
from taskspace.performance.io.arrays import (
    arrays_of_dataset,
    matrix_of_arrays,
    read_arrays,
)
from taskspace.performance.io.cells import contexts_in, is_number, label
from taskspace.performance.io.frame import (
    Choices,
    Matrix,
    check_known,
    matrix_of_frame,
    normal_frame,
)
from taskspace.performance.io.text import read_text
from taskspace.performance.table import BEST_OF_TABLE, table_from_matrix
from taskspace.spaces import Points

TEXT_SUFFIXES = (".csv", ".tsv")
MATRIX_SUFFIXES = (*TEXT_SUFFIXES, ".npy", ".npz")

Missing = Literal["error", "not served"]

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


def read_matrix(
    path: str | Path,
    *,
    contexts: str | Path | None = None,
    lower_is_better: bool | None = None,
    targets: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    missing: Missing = "error",
    header: bool | None = None,
    row_names: bool | None = None,
    long: Sequence[str] | None = None,
) -> xr.Dataset:
    """Return a performance table from a transfer matrix in a file.

    Args:
        path: a file whose name ends in one of `MATRIX_SUFFIXES`; a `.npy` file holds
            only the array. Read other formats with pandas or xarray, and give what
            they read to `table_from`.
        contexts: a CSV or TSV file with the contexts of the targets, one per
            row: in the order of the targets, or named by a column `target`, `source`,
            `context` or `name`. Sources that have no contexts of their own take them
            from it too: by name, or in order if the matrix is square.
        lower_is_better: the cells are costs; they are negated. If left out they are
            scores, unless names or numbers say otherwise, which is refused.
        targets: names of the targets; all other columns are left out.
        ignore: names of columns or targets to leave out.
        missing: `"error"` refuses empty cells, `"not served"` takes them for failures.
        header: whether the first row of a text file holds names of columns. Found out
            if left out; where both readings fit, the file is refused.
        row_names: whether the first column holds names of rows, likewise.
        long: which columns of a table with one row per run are its source, target,
            value and, if wanted, policy; runs of the same cell are averaged.

    Returns:
        The table. Its attribute `read_as` says what was taken for names, and `notes`
        has sentences about columns that are not used and about empty cells.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in MATRIX_SUFFIXES:
        raise InvalidInputError(
            f"A matrix file must end in {', '.join(MATRIX_SUFFIXES)}, but got "
            f"{path.name}. Read it with pandas or xarray and give what they read to "
            "ts.study_from, e.g. ts.study_from(pd.read_parquet(...))."
        )
    choices = _choices(targets, ignore, missing, row_names, long)
    second = None
    if contexts is not None:
        second = _reading(Path(contexts), lambda file: read_text(file, header=True))
    if suffix in TEXT_SUFFIXES:
        _check_truth("header", header)
        frame = _reading(
            path,
            lambda file: read_text(
                file,
                header=True if long is not None else header,
                may_be_empty=choices.may_be_empty,
                texts=[*(long or ())[:2], *(long or ())[3:]],
            ),
        )
        matrix = matrix_of_frame(frame, str(path), choices)
    else:
        stated = {"header": header, "row_names": row_names, "long": long}
        for name, value in stated.items():
            if value is not None:
                raise InvalidInputError(
                    f"{name} is about tables of columns in files of text "
                    f"({', '.join(TEXT_SUFFIXES)}), but got {path.name}."
                )
        arrays = _reading(path, read_arrays)
        matrix = matrix_of_arrays(arrays, str(path))
    if second is not None:
        _take_contexts(matrix, second, str(contexts))
    return _finished(matrix, lower_is_better, choices)


def table_from(
    data: pd.DataFrame | xr.DataArray | xr.Dataset,
    *,
    contexts: pd.DataFrame | None = None,
    lower_is_better: bool | None = None,
    targets: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    missing: Missing = "error",
    row_names: bool | None = None,
    long: Sequence[str] | None = None,
) -> xr.Dataset:
    """Return a performance table from a pandas or xarray object.

    Args:
        data: a wide or long data frame (see `taskspace.performance.io.frame`), a
            `DataArray` with dims `(source, target)` or `(source, policy, target)`, or
            a `Dataset` that holds it as `performance`.
        contexts: contexts of the targets, one per row.
        lower_is_better: the cells are costs; they are negated. If left out they are
            scores, unless names or numbers say otherwise, which is refused.
        targets: names of the targets; all other columns are left out.
        ignore: names of columns or targets to leave out.
        missing: `"error"` refuses empty cells, `"not served"` takes them for failures.
        row_names: whether the first column of a data frame holds names of rows. Found
            out if left out; where both readings fit, the frame is refused.
        long: which columns of a frame with one row per run are its source, target,
            value and, if wanted, policy; runs of the same cell are averaged.

    Examples:
        >>> frame = pd.DataFrame({"source": ["a", "b"], "easy": [9, 7], "hard": [1, 6]})
        >>> table_from(frame)["best_known"].values.tolist()
        [9.0, 6.0]
    """
    choices = _choices(targets, ignore, missing, row_names, long)
    if isinstance(data, pd.DataFrame):
        frame = normal_frame(data, "the data frame")
        matrix = matrix_of_frame(frame, "the data frame", choices)
    else:
        if isinstance(data, xr.DataArray):
            data = data.rename("performance").to_dataset()
        if not isinstance(data, xr.Dataset):
            raise InvalidInputError(
                "A transfer matrix must be a pandas DataFrame, an xarray DataArray or "
                f"an xarray Dataset, but got {type(data).__name__}. For a plain array "
                "use table_from_matrix."
            )
        arrays = arrays_of_dataset(data, "the dataset")
        matrix = matrix_of_arrays(arrays, "the dataset")
    if contexts is not None:
        second = normal_frame(contexts, "the contexts")
        _take_contexts(matrix, second, "the contexts")
    return _finished(matrix, lower_is_better, choices)


def _choices(
    targets: Sequence[str] | None,
    ignore: Sequence[str],
    missing: str,
    row_names: bool | None,
    long: Sequence[str] | None,
) -> Choices:
    """Return the checked keywords of a user."""
    if missing not in get_args(Missing):
        raise UnknownNameError("missing", missing, get_args(Missing))
    for name, value in (("targets", targets), ("ignore", ignore)):
        if isinstance(value, str):
            raise InvalidInputError(
                f"{name} must be a list of names, but got the text {value!r}."
            )
    _check_truth("row_names", row_names)
    both = set(targets or ()) & set(ignore)
    if both:
        raise InvalidInputError(
            f"A column is either a target or ignored, but {min(both)!r} is named "
            "in both targets and ignore."
        )
    return Choices(targets, ignore, missing != "error", row_names, long)


def _check_truth(name: str, value: Any) -> None:
    if not isinstance(value, bool | None):
        raise InvalidInputError(f"{name} must be true or false, but got {value!r}.")


def _reading(path: Path, read: Callable[[Path], Any]) -> Any:
    """Call a reader; if it fails, raise an error that names the file.

    Other people's parsers raise almost anything on a damaged file, so all of it is
    caught here, and nowhere else.
    """
    try:
        return read(path)
    except (TaskspaceError, MemoryError):
        raise
    except OSError as error:
        raise InvalidInputError(f"Cannot read {path}: {error}.") from error
    except Exception as error:
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise InvalidInputError(
            f"{path} is not a whole {path.suffix} file: {said.rstrip('.')}."
        ) from error


# --- from what a matrix says to a performance table -------------------------------


def _finished(
    matrix: Matrix, lower_is_better: bool | None, choices: Choices
) -> xr.Dataset:
    """Return the performance table of what a matrix says, with notes on it."""
    _check_truth("lower_is_better", lower_is_better)
    sign, cells, notes = -1.0 if lower_is_better else 1.0, matrix.cells, matrix.notes
    home, attrs = _home(matrix), matrix.attrs
    _check_direction(matrix, home, lower_is_better)
    scores = sign * cells
    empty = np.isnan(cells)
    if choices.may_be_empty and empty.any():
        scores[empty] = -np.inf
        n = int(empty.sum())
        some = "1 empty cell is" if n == 1 else f"{n:,} empty cells are"
        notes.append(f"{some} taken for not served.")
    if home is not None and np.isnan(home).any():
        home = None
        notes.append("Scores at home are missing, so the signed criterion is too.")
    n_episodes = int(attrs.get("n_episodes", 0))
    table = table_from_matrix(
        scores,
        sources=matrix.spaces["source"],
        targets=matrix.spaces["target"],
        home=None if home is None else sign * home,
        standard_error=matrix.extras.get("standard_error"),
        provenance=attrs.get("provenance") or ("sampled" if n_episodes else "given"),
        n_episodes=n_episodes,
    )
    if home is None:
        table = table.drop_vars("home_performance", errors="ignore")
    kind = str(attrs.get("best_known_kind", "given"))
    if "best_known" in matrix.extras and kind != BEST_OF_TABLE:
        known = sign * matrix.extras["best_known"]
        _check_best_known(matrix, known, table["best_known"].values, sign)
        table["best_known"] = ("target", known)
        table.attrs["best_known_kind"] = kind
    named = {dim: names for dim, names in matrix.names.items() if names is not None}
    table = table.assign_coords(
        {dim: (dim, np.array(names, object)) for dim, names in named.items()}
    )
    better = "costs, smaller is better" if lower_is_better else "larger is better"
    return _selected(table, matrix, choices).assign_attrs(
        notes=notes,
        read_as=f"{matrix.read_as}; {better}",
        quantity="cost" if lower_is_better else "performance",
    )


def _check_direction(
    matrix: Matrix, home: Array | None, lower_is_better: bool | None
) -> None:
    """Refuse numbers that look like costs, where the user has not said so."""
    origin, cells = matrix.origin, matrix.cells
    endless = np.argwhere(cells == np.inf)
    if len(endless) and not lower_is_better:
        source, _, target = endless[0].tolist()
        raise InvalidInputError(
            f"No score may be +inf, but one of source {source} at target {target} of "
            f"{origin} is. A failure is −inf. If the numbers are costs, say "
            "lower_is_better=True (--read lower_is_better)."
        )
    if lower_is_better is not None:
        return
    targets = matrix.names["target"] or []
    is_known = set(matrix.names["source"] or ()) & set(targets) or all(
        space is not None for space in matrix.spaces.values()
    )
    called = [name for name in targets if _sounds_like_cost(name)]
    why = ""
    if (cells < 0).any():
        pass  # costs turned round already
    elif _sounds_like_cost(PurePath(origin).stem):
        why = f"its name ({PurePath(origin).name}) says so"
    elif 2 * len(called) > len(targets):
        why = f"names of targets ({called[0]!r}) say so"
    elif is_known and home is not None and len(cells) == cells.shape[2] >= 3:
        own = np.diagonal(cells, axis1=0, axis2=2).T
        others = np.where(np.eye(len(cells), dtype=bool)[:, None], np.inf, cells)
        if np.array_equal(home, own) and (own.max(1) < others.min((0, 1))).all():
            why = "every policy has the least number of all at its own source"
    if why:
        raise InvalidInputError(
            f"Larger numbers of {origin} would be taken for better, but they "
            f"look like costs: {why}. Say --read lower_is_better for costs, "
            "--read 'lower_is_better=false' for scores."
        )
    if called:
        matrix.notes.append(
            f"Target {called[0]!r} sounds like a cost, but larger is taken for better. "
            "Say lower_is_better=True (--read lower_is_better) if that is wrong."
        )


def _sounds_like_cost(name: str) -> bool:
    """Whether a name has a word for a cost, and none that changes its meaning."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    words = set(re.findall(r"[a-z]+[0-9]*", spaced.lower()))
    return bool(words & COSTS) and not words & OTHERS


def _home(matrix: Matrix) -> Array | None:
    """Return J of each policy at its own source: given, found, or the diagonal."""
    cells = matrix.cells
    if "home_performance" in matrix.extras:
        return matrix.extras["home_performance"]
    sources, targets = matrix.spaces["source"], matrix.spaces["target"]
    own: list[Any] = matrix.names["source"] or []
    there: list[Any] = matrix.names["target"] or []
    if sources is not None and targets is not None:
        if set(sources.names) != set(targets.names):
            return None
        columns = [targets.names.index(n) for n in sources.names]
        own = list(map(tuple, sources.points.tolist()))
        there = list(map(tuple, targets.points[:, columns].tolist()))
    elif not set(own) & set(there):
        # Where no name is shared, source i may still be target i.
        is_square = cells.shape[0] == cells.shape[2]
        return np.diagonal(cells, axis1=0, axis2=2).T if is_square else None
    place = {key: i for i, key in reversed(list(enumerate(there)))}
    if any(key not in place for key in own):
        return None
    return cells[np.arange(len(own)), :, np.array([place[key] for key in own])]


def _check_best_known(matrix: Matrix, known: Array, top: Array, sign: float) -> None:
    """Refuse a reference of regret that a cell exceeds; NaN is no reference."""
    wrong = np.flatnonzero((known < top) | (known == np.inf))
    if len(wrong):
        t, names = int(wrong[0]), matrix.names["target"]
        what = "cost" if sign < 0 else "performance"
        raise InvalidInputError(
            f"best_known of {matrix.origin} must be as good as the best {what} "
            f"in the table, and finite, but target {names[t] if names else t!r} has "
            f"best_known {float(sign * known[t])!r} and a {what} of "
            f"{float(sign * top[t])!r}. Correct best_known, or leave it out: the best "
            "of the table is taken then."
        )


def _selected(table: xr.Dataset, matrix: Matrix, choices: Choices) -> xr.Dataset:
    """Return the table with the targets that the user wants, of all that were read."""
    targets, origin = matrix.names["target"], matrix.origin
    if choices.targets is None and not choices.ignore:
        return table
    if targets is None:
        raise InvalidInputError(
            f"Targets can be chosen only by name, but those of {origin} have none."
        )
    check_known(choices, [*matrix.columns, *targets], origin)
    keep = [
        t
        for t, name in enumerate(targets)
        if name not in choices.ignore
        if choices.targets is None or name in choices.targets
    ]
    if not keep:
        raise InvalidInputError(f"No target of {origin} is left.")
    return table.isel(target=keep)


def _take_contexts(matrix: Matrix, frame: pd.DataFrame, origin: str) -> None:
    """Give sources and targets the contexts of a second table; see `read_matrix`."""
    if matrix.spaces["target"] is not None:
        raise InvalidInputError(
            f"The targets have contexts already, and {origin} gives them again."
        )
    names = frame.columns.tolist()
    by = ("target", "source", "context", "name")
    column = next((name for name in by if name in names), None)
    is_index = names[0] == "" and len(names) > 1
    places = [
        i for i, n in enumerate(names) if n != column and not (is_index and i == 0)
    ]
    odd = [names[i] for i in places if not names[i] or is_number(names[i])]
    if not places or odd or not len(frame):
        raise InvalidInputError(
            f"{origin} must have a column per context axis, with a name that is no "
            f"number, and a row per target, but has the columns {', '.join(names)} and "
            f"{len(frame)} rows."
        )
    points = contexts_in(frame, places, origin)
    if column is None:
        for dim, n in (
            ("source", len(matrix.cells)),
            ("target", matrix.cells.shape[2]),
        ):
            if points.size == n and matrix.spaces[dim] is None:
                matrix.spaces[dim] = points
        if matrix.spaces["target"] is None:
            raise InvalidInputError(
                f"{origin} must have one row per target, but there are "
                f"{matrix.cells.shape[2]} targets and {points.size} rows."
            )
        return
    labels = list(map(label, frame[column]))
    row_of = {name: row for row, name in enumerate(labels)}
    if len(row_of) < len(labels):
        twice = next(name for row, name in enumerate(labels) if row_of[name] != row)
        raise InvalidInputError(f"{origin} names {twice!r} more than once.")
    for dim in ("source", "target"):
        wanted = matrix.names[dim] or []
        if matrix.spaces[dim] is None and wanted and set(wanted) <= set(labels):
            rows = [row_of[name] for name in wanted]
            matrix.spaces[dim] = Points(points.names, points.points[rows])
    if matrix.spaces["target"] is None:
        lost = [n for n in matrix.names["target"] or () if n not in row_of]
        which = f"target {lost[0]!r} is not in it" if lost else "targets have no names"
        raise InvalidInputError(
            f"{origin} must name every target in its column {column!r}, but {which}."
        )
