"""Transfer matrices from files, and from pandas and xarray objects."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError, MissingExtraError, TaskspaceError
from taskspace.performance.io.arrays import (
    ARRAY_SUFFIXES,
    contents_of_dataset,
    read_array_file,
    table_of_arrays,
)
from taskspace.performance.io.frame import Frame
from taskspace.performance.io.layout import Choices, Missing, named, table_of_frame
from taskspace.performance.io.limits import check_bytes, check_cells, check_file
from taskspace.performance.io.text import read_text
from taskspace.performance.table import (
    BEST_OF_TABLE,
    source_space,
    table_from_matrix,
    target_space,
)
from taskspace.spaces import Points, Space

TEXT_SUFFIXES = (".csv", ".tsv")
FRAME_SUFFIXES = (*TEXT_SUFFIXES, ".parquet")
MATRIX_SUFFIXES = (*FRAME_SUFFIXES, *ARRAY_SUFFIXES)

LAST_DIGITS = 1e-9
"""Share by which the best value of another solver may be worse than the table's."""

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
    long: Mapping[str, str] | Sequence[str] | None = None,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> xr.Dataset:
    """Return a performance table from a transfer matrix in a file.

    Args:
        path: a file whose name ends in one of `MATRIX_SUFFIXES`; a `.npy` file holds
            only the array.
        contexts: a CSV, TSV or Parquet file with the contexts of the targets, one per
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
        long: which columns of a table with one row per run are its `source`, `target`,
            `value` and, if wanted, `policy`; runs of the same cell are averaged.
        sep: what separates the cells of a text file, if not a comma (`.csv`) or a tab
            (`.tsv`), e.g. `";"`.
        decimal: the decimal sign of a text file, if not a point: `","`.
        encoding: of a text file, if not UTF-8, e.g. `"utf-16"` or `"latin-1"`.

    Returns:
        The table. Its attribute `read_as` says what was taken for names, and `notes`
        has a sentence about every column that was taken for a note on the training,
        and about empty cells.
    """
    path = Path(path)
    suffix = matrix_suffix(path)
    choices = Choices(
        lower_is_better, targets, ignore, missing, header, row_names, long
    )
    text = {"sep": sep, "decimal": decimal, "encoding": encoding}
    second = None
    if contexts is not None:
        if Path(contexts).suffix.lower() not in FRAME_SUFFIXES:
            raise InvalidInputError(
                f"A file of contexts must end in {', '.join(FRAME_SUFFIXES)}, but got "
                f"{Path(contexts).name}."
            )
        advice = "Give every axis a name that is no number."
        second = _read_frame(Path(contexts), advice=advice, **text)
    of_columns = {"row_names": row_names, "long": long}
    stated = {
        **text,
        "header": header,
        **(of_columns if suffix in ARRAY_SUFFIXES else {}),
    }
    for name, value in stated.items():
        if suffix not in TEXT_SUFFIXES and value is not None:
            raise InvalidInputError(
                f"{name} is about tables of columns in files of text "
                f"({', '.join(TEXT_SUFFIXES)}), but got {path.name}."
            )
    if suffix in FRAME_SUFFIXES:
        frame = _read_frame(
            path,
            header=header,
            may_be_empty=choices.may_be_empty,
            texts=[c for role, c in choices.roles.items() if role != "value"],
            **text,
        )
        return _finished(table_of_frame(frame, choices), second, choices)
    arrays, attrs = _reading(path, read_array_file)
    table = table_of_arrays(arrays, attrs, str(path), choices)
    return _finished(table, second, choices)


def table_from(
    data: pd.DataFrame | xr.DataArray | xr.Dataset,
    *,
    contexts: pd.DataFrame | None = None,
    lower_is_better: bool | None = None,
    targets: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    missing: Missing = "error",
    row_names: bool | None = None,
    long: Mapping[str, str] | Sequence[str] | None = None,
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
        long: which columns of a frame with one row per run are its `source`, `target`,
            `value` and, if wanted, `policy`; runs of the same cell are averaged.

    Examples:
        >>> frame = pd.DataFrame({"source": ["a", "b"], "easy": [9, 7], "hard": [1, 6]})
        >>> table_from(frame)["best_known"].values.tolist()
        [9.0, 6.0]
    """
    choices = Choices(lower_is_better, targets, ignore, missing, None, row_names, long)
    second = None if contexts is None else Frame.of(contexts, "the contexts")
    if isinstance(data, pd.DataFrame):
        return _finished(table_of_frame(Frame.of(data), choices), second, choices)
    if isinstance(data, xr.DataArray):
        data = data.rename("performance").to_dataset()
    if not isinstance(data, xr.Dataset):
        raise InvalidInputError(
            "A transfer matrix must be a pandas DataFrame, an xarray DataArray or an "
            f"xarray Dataset, but got {type(data).__name__}. For a plain array use "
            "table_from_matrix."
        )
    contents = contents_of_dataset(data, "the dataset")
    table = table_of_arrays(*contents, "the dataset", choices)
    return _finished(table, second, choices)


def matrix_suffix(path: Path) -> str:
    """Return the ending of a matrix file's name, which says how it is written.

    Args:
        path: the file.
    """
    suffix = path.suffix.lower()
    if suffix not in MATRIX_SUFFIXES:
        raise InvalidInputError(
            f"A matrix file must end in {', '.join(MATRIX_SUFFIXES)}, but got "
            f"{path.name}. Read it with pandas and give the frame to ts.study_from."
        )
    return suffix


def _reading(path: Path, read: Callable[[Path], Any]) -> Any:
    """Return what a reader gives, or a sentence about the file.

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


def _read_frame(path: Path, **options: Any) -> Frame:
    if path.suffix.lower() == ".parquet":
        return _reading(path, _read_parquet)
    return _reading(path, lambda file: read_text(file, **options))


def _read_parquet(path: Path) -> Frame:
    check_file(path)
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("Reading a Parquet file", "files") from error
    meta = pyarrow.parquet.read_metadata(path)
    check_cells(meta.num_rows * meta.num_columns, str(path))
    groups = range(meta.num_row_groups)
    check_bytes(sum(meta.row_group(i).total_byte_size for i in groups), str(path))
    return Frame.of(pd.read_parquet(path), str(path))


# --- from what a matrix says to a performance table -------------------------------


def _finished(raw: xr.Dataset, contexts: Frame | None, choices: Choices) -> xr.Dataset:
    """Return the performance table of what a matrix says, with notes on it."""
    origin, cells = str(raw.attrs["origin"]), raw["performance"].values
    names = {
        dim: raw[dim].values.tolist() if dim in raw.coords else None
        for dim in ("source", "target")
    }
    spaces: dict[str, Space | None] = {
        "source": source_space(raw),
        "target": target_space(raw),
    }
    if contexts is not None:
        spaces = _contexts_from(contexts, raw, spaces, names)
    is_cost = bool(choices.lower_is_better)
    sign = -1.0 if is_cost else 1.0
    notes = list(raw.attrs.get("notes", ()))
    home = _home(raw, spaces, names)
    _check_direction(raw, cells, spaces, names, home, choices, notes)
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
    n_episodes = int(raw.attrs.get("n_episodes") or 0)
    table = table_from_matrix(
        scores,
        sources=spaces["source"],
        targets=spaces["target"],
        home=None if home is None else sign * home,
        standard_error=raw["standard_error"].values
        if "standard_error" in raw
        else None,
        provenance=raw.attrs.get("provenance")
        or ("sampled" if n_episodes else "given"),
        n_episodes=n_episodes,
    )
    if home is None:
        table = table.drop_vars("home_performance", errors="ignore")
    if "best_known" in raw and raw.attrs.get("best_known_kind") != BEST_OF_TABLE:
        table = _with_best_known(table, sign, raw, notes)
    better = "costs, smaller is better" if is_cost else "larger is better"
    return _selected(named(table, names), origin, choices).assign_attrs(
        notes=notes,
        read_as=f"{raw.attrs['read_as']}; {better}",
        quantity="cost" if is_cost else "performance",
    )


def _check_direction(
    raw: xr.Dataset,
    cells: NDArray[np.float64],
    spaces: Mapping[str, Space | None],
    names: Mapping[str, list[str] | None],
    home: NDArray[np.float64] | None,
    choices: Choices,
    notes: list[str],
) -> None:
    """Refuse costs that were not called so; a word about those that may be some."""
    origin = str(raw.attrs["origin"])
    endless = np.argwhere(cells == np.inf)
    if len(endless) and not choices.lower_is_better:
        source, _, target = endless[0].tolist()
        raise InvalidInputError(
            f"No score may be +inf, but one of source {source} at target {target} of "
            f"{origin} is. A failure is −inf. If the numbers are costs, say "
            "lower_is_better=True (--read lower_is_better)."
        )
    if choices.lower_is_better is not None:
        return
    shared = set(names["source"] or ()) & set(names["target"] or ())
    if not shared and (spaces["source"] is None or spaces["target"] is None):
        home = None
    called = [name for name in names["target"] or () if _sounds_like_cost(name)]
    why = ""
    if (cells < 0).any():
        pass  # costs turned round already
    elif _sounds_like_cost(PurePath(origin).stem):
        why = f"its name ({PurePath(origin).name}) says so"
    elif 2 * len(called) > len(names["target"] or ()):
        why = f"names of targets ({called[0]!r}) say so"
    elif home is not None and len(cells) == cells.shape[2] >= 3:
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
        notes.append(
            f"Target {called[0]!r} sounds like a cost, but larger is taken for better. "
            "Say lower_is_better=True (--read lower_is_better) if that is wrong."
        )


def _sounds_like_cost(name: str) -> bool:
    """Whether a name has a word for a cost, and none that changes its meaning."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    words = set(re.findall(r"[a-z]+[0-9]*", spaced.lower()))
    return bool(words & COSTS) and not words & OTHERS


def _home(
    raw: xr.Dataset,
    spaces: Mapping[str, Space | None],
    names: Mapping[str, list[str] | None],
) -> NDArray[np.float64] | None:
    """J of each policy at its own source: given, found, or the diagonal."""
    cells = raw["performance"].values
    if "home_performance" in raw:
        return raw["home_performance"].values
    sources, targets = spaces["source"], spaces["target"]
    own: list[Any] = names["source"] or []
    there: list[Any] = names["target"] or []
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


def _with_best_known(
    table: xr.Dataset, sign: float, raw: xr.Dataset, notes: list[str]
) -> xr.Dataset:
    """Return the table with another reference of regret, which no cell may exceed.

    NaN is no reference: nothing is known of that target. Another solver's reference
    may differ in its last digits; there the best of the table is taken.
    """
    values, top = sign * raw["best_known"].values, table["best_known"].values
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
        name = repr(raw["target"].values[t]) if "target" in raw.coords else str(t)
        what = "cost" if sign < 0 else "performance"
        raise InvalidInputError(
            f"best_known of {raw.attrs['origin']} must be as good as the best {what} "
            f"in the table, and finite, but target {name} has best_known "
            f"{float(sign * values[t])!r} and a {what} of {float(sign * top[t])!r}. "
            "Correct the row best_known, or leave it out: the best of the table is "
            "taken then."
        )
    kind = str(raw.attrs.get("best_known_kind", "given"))
    return table.assign(best_known=("target", values)).assign_attrs(
        best_known_kind=kind
    )


def _selected(table: xr.Dataset, origin: str, choices: Choices) -> xr.Dataset:
    """Return the table with the targets that the user wants, of all that were read."""
    wanted = choices.targets
    if wanted is None and not choices.ignore:
        return table
    if "target" not in table.coords:
        raise InvalidInputError(
            f"Targets can be chosen only by name, but those of {origin} have none."
        )
    keep = [
        t
        for t, name in enumerate(table["target"].values)
        if name not in choices.ignore and (wanted is None or name in wanted)
    ]
    if not keep:
        raise InvalidInputError(f"No target of {origin} is left.")
    return table.isel(target=keep)


def _contexts_from(
    contexts: Frame,
    raw: xr.Dataset,
    spaces: Mapping[str, Space | None],
    names: Mapping[str, list[str] | None],
) -> dict[str, Space | None]:
    """Contexts of sources and targets from a second frame; see `read_matrix`."""
    origin = contexts.origin
    if spaces["target"] is not None:
        raise InvalidInputError(
            f"The targets have contexts already, and {origin} gives them again."
        )
    by = ("target", "source", "context", "name")
    column = next((n for n in by if n in contexts.names), None)
    labels = contexts.labels(column) if column else None
    places = [
        i
        for i, name in enumerate(contexts.names)
        if name != column and (name or i >= contexts.n_index)
    ]
    unnamed = [i + 1 for i in places if not contexts.names[i]]
    if not places or unnamed or not contexts.n_rows:
        raise InvalidInputError(
            f"{origin} must have a column per context axis, with its name, and a row "
            "per target, but "
            + (f"column {unnamed[0]} has no name." if unnamed else "has none.")
        )
    points = contexts.contexts(places)
    place_of: dict[str, int] = {}
    for place, name in enumerate(labels or ()):
        if place_of.setdefault(name, place) != place:
            raise InvalidInputError(f"{origin} names {name!r} more than once.")

    def pick(dim: str) -> Points | None:
        if labels is None:
            return points if raw.sizes[dim] == points.size else None
        wanted = names[dim]
        if wanted is None or any(name not in place_of for name in wanted):
            return None
        return Points(points.names, points.points[[place_of[name] for name in wanted]])

    targets = pick("target")
    if targets is None and labels is None:
        raise InvalidInputError(
            f"{origin} must have one row per target, but there are "
            f"{raw.sizes['target']} targets and {points.size} rows."
        )
    if targets is None:
        lost = [n for n in names["target"] or () if n not in place_of]
        which = f"target {lost[0]!r} is not in it" if lost else "targets have no names"
        raise InvalidInputError(
            f"{origin} must name every target in its column {column!r}, but {which}."
        )
    return {"source": spaces["source"] or pick("source"), "target": targets}
