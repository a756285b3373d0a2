"""Transfer matrices from files, and from pandas and xarray objects."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from taskspace._util.arrays import Array
from taskspace.errors import InvalidInputError, TaskspaceError
from taskspace.performance.io.arrays import (
    arrays_of_dataset,
    matrix_of_arrays,
    read_arrays,
)
from taskspace.performance.io.cells import contexts_in, is_number, label
from taskspace.performance.io.frame import (
    Choices,
    Matrix,
    Missing,
    check_known,
    matrix_of_frame,
    normal_frame,
)
from taskspace.performance.io.text import read_text
from taskspace.performance.table import BEST_OF_TABLE, table_from_matrix
from taskspace.spaces import Points

TEXT_SUFFIXES = (".csv", ".tsv")
MATRIX_SUFFIXES = (*TEXT_SUFFIXES, ".npy", ".npz")

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
    data: str | Path | pd.DataFrame | xr.DataArray | xr.Dataset,
    *,
    contexts: str | Path | pd.DataFrame | None = None,
    lower_is_better: bool | None = None,
    targets: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    missing: Missing = "error",
    header: bool | None = None,
    row_names: bool | None = None,
    long: Sequence[str] | None = None,
) -> xr.Dataset:
    """Return a performance table from a transfer matrix in a file or an object.

    Args:
        data: a file whose name ends in one of `MATRIX_SUFFIXES` (a `.npy` file holds
            only the array); a wide or long data frame (see
            `taskspace.performance.io.frame`); a `DataArray` with dims `(source,
            target)` or `(source, policy, target)`; or a `Dataset` that holds it as
            `performance`. Other formats are read by pandas and xarray.
        contexts: a CSV or TSV file, or a frame, with the contexts of the targets, one
            per row: in the order of the targets, or named by a column `target`,
            `source`, `context` or `name`. Sources that have no contexts of their own
            take them from it too: by name, or in order if the matrix is square.
        lower_is_better: the cells are costs; they are negated. If left out they are
            scores, unless names or numbers say otherwise, which is refused.
        targets: names of the targets; all other columns are left out.
        ignore: names of columns or targets to leave out.
        missing: `"error"` refuses empty cells, `"not served"` takes them for failures.
        header: whether the first row of a text file holds names of columns. Found out
            if left out; where both readings fit, the file is refused.
        row_names: whether the first column of a table holds names of rows, likewise.
        long: which columns of a table with one row per run are its source, target,
            value and, if wanted, policy; runs of the same cell are averaged.

    Returns:
        The table. Its attribute `read_as` says what was taken for names, and `notes`
        has sentences about columns that are not used and about empty cells.

    Examples:
        >>> frame = pd.DataFrame({"source": ["a", "b"], "easy": [9, 7], "hard": [1, 6]})
        >>> read_matrix(frame)["best_known"].values.tolist()
        [9.0, 6.0]
    """
    choices = Choices(
        lower_is_better, targets, ignore, missing, header, row_names, long
    )
    second = None
    if contexts is not None:
        second = _loaded(contexts, "the contexts", Choices(header=True))
    origin, loaded = _loaded(data, "the data frame", choices)
    if isinstance(loaded, pd.DataFrame):
        matrix = matrix_of_frame(loaded, origin, choices)
    else:
        for name in ("header", "row_names", "long"):
            if getattr(choices, name) is not None:
                raise InvalidInputError(
                    f"{name} is about tables of columns, but {origin} holds arrays."
                )
        matrix = matrix_of_arrays(loaded, origin)
    if second is not None:
        _take_contexts(matrix, *second)
    return _finished(matrix, choices)


def _loaded(data: Any, frame: str, choices: Choices) -> tuple[str, Any]:
    """Return what to call a matrix, and its table of columns or its arrays."""
    if isinstance(data, pd.DataFrame):
        return frame, normal_frame(data, frame)
    if isinstance(data, xr.DataArray):
        data = data.rename("performance").to_dataset()
    if isinstance(data, xr.Dataset):
        return "the dataset", arrays_of_dataset(data, "the dataset")
    if not isinstance(data, str | Path):
        raise InvalidInputError(
            "A transfer matrix must be a file, a pandas DataFrame, an xarray DataArray "
            f"or an xarray Dataset, but got {type(data).__name__}. For a plain array "
            "use table_from_matrix."
        )
    path = Path(data)
    if path.suffix.lower() not in MATRIX_SUFFIXES:
        raise InvalidInputError(
            f"A matrix file must end in {', '.join(MATRIX_SUFFIXES)}, but got "
            f"{path.name}. Read it with pandas or xarray and give what they read to "
            "ts.study_from, e.g. ts.study_from(pd.read_parquet(...))."
        )
    if path.suffix.lower() not in TEXT_SUFFIXES:
        return str(path), _reading(path, read_arrays)
    names = choices.long or ()
    header = choices.header if choices.long is None else True
    read = partial(
        read_text,
        header=header,
        may_be_empty=choices.may_be_empty,
        texts=[*names[:2], *names[3:]],
    )
    return str(path), _reading(path, read)


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


def _finished(matrix: Matrix, choices: Choices) -> xr.Dataset:
    """Return the performance table of what a matrix says, with notes on it."""
    lower_is_better = choices.lower_is_better
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


def _take_contexts(matrix: Matrix, origin: str, frame: pd.DataFrame) -> None:
    """Give sources and targets the contexts of a second table; see `read_matrix`."""
    if not isinstance(frame, pd.DataFrame):
        raise InvalidInputError(f"Contexts must be in a table, but {origin} is none.")
    if matrix.spaces["target"] is not None:
        raise InvalidInputError(
            f"The targets have contexts already, and {origin} gives them again."
        )
    names = frame.columns.tolist()
    by = ("target", "source", "context", "name")
    column = next((name for name in by if name in names), None)
    is_index = names[0] == "" and len(names) > 1
    places = [i for i, n in enumerate(names) if n != column and i >= is_index]
    odd = [names[i] for i in places if not names[i] or is_number(names[i])]
    if not places or odd or not len(frame):
        raise InvalidInputError(
            f"{origin} must have a column per context axis, with a name that is no "
            f"number, and a row per target, but has the columns {', '.join(names)} and "
            f"{len(frame)} rows."
        )
    points = contexts_in(frame, places, origin)
    sizes = {"source": len(matrix.cells), "target": matrix.cells.shape[2]}
    if column is None:
        if points.size != sizes["target"]:
            raise InvalidInputError(
                f"{origin} must have one row per target, but there are "
                f"{sizes['target']} targets and {points.size} rows."
            )
        for dim, n in sizes.items():
            if n == points.size and matrix.spaces[dim] is None:
                matrix.spaces[dim] = points
        return
    labels = frame[column].map(label)
    for name in labels[labels.duplicated()][:1]:
        raise InvalidInputError(f"{origin} names {name!r} more than once.")
    row_of = {name: row for row, name in enumerate(labels)}
    for dim in sizes:
        wanted = matrix.names[dim] or [""]
        lost = [name for name in wanted if name not in row_of]
        if not lost and matrix.spaces[dim] is None:
            rows = [row_of[name] for name in wanted]
            matrix.spaces[dim] = Points(points.names, points.points[rows])
        elif lost and dim == "target":
            which = f"{lost[0]!r} is not in it" if lost[0] else "have no names"
            raise InvalidInputError(
                f"{origin} must name every target in its column {column!r}, but "
                f"target{'s' * (not lost[0])} {which}."
            )
