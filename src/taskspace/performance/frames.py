"""Transfer matrices as data frames: what each column means, and what is refused.

A *wide* frame has one row a policy. The column `source` names the source that a row
came from, columns `source_k`, `source_c`, … give its context, `policy` names the
policy, `home` is its score at its own source, and every other column is a target.
Rows of the same source form a family. Targets have contexts when their columns are
called `k=1.5;c=0.1`, or from a second frame. A row whose source is `best_known` holds
the largest performance that is known to be possible at each target.

A *long* frame has one row a cell: `source` or `source_k`, …; `policy` if a source has
several; `target` or `target_k`, …; and `performance`.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.performance.cells import Frame, contexts_from, is_number, label
from taskspace.performance.table import source_space, table_from_matrix, target_space
from taskspace.spaces import Points, Space

__all__ = [
    "BEST_KNOWN",
    "frame_from_table",
    "table_from_frame",
    "with_best_known",
    "with_names",
]

BEST_KNOWN = "best_known"


def table_from_frame(
    frame: Frame, *, contexts: Frame | None = None, lower_is_better: bool = False
) -> xr.Dataset:
    """A performance table from a wide or a long frame; see this module.

    Args:
        frame: the transfer matrix.
        contexts: contexts of the targets, one a row: in the order of the targets, or
            named by a column `target`, `source`, `context` or `name`. Sources that
            have no contexts of their own take them from it too: by name, or in order
            if the matrix is square.
        lower_is_better: the cells are costs; they are negated.
    """
    if not frame.rows:
        raise InvalidInputError(f"{frame.origin} has column names but no rows.")
    has_target = any(n == "target" or n.startswith("target_") for n in frame.names)
    is_long = "performance" in frame.names and has_target
    parts = _read_long(frame) if is_long else _read_wide(frame)
    parts = _with_contexts(parts, contexts)
    sign = -1.0 if lower_is_better else 1.0
    home = parts.home if parts.home is not None else _found_home(parts)
    table = table_from_matrix(
        sign * parts.performance,
        sources=parts.sources,
        targets=parts.targets,
        home=None if home is None else sign * home,
    )
    if home is None and not _is_diagonal(parts):
        table = table.drop_vars("home_performance", errors="ignore")
    if parts.best_known is not None:
        table = with_best_known(table, sign * parts.best_known, frame.origin)
    return with_names(table, parts.source_names, parts.target_names)


def with_best_known(
    table: xr.Dataset, values: NDArray[np.float64], origin: str, kind: str = "given"
) -> xr.Dataset:
    """The table with another reference of regret, which no cell may exceed."""
    top = table["best_known"].values
    if values.shape != top.shape:
        raise InvalidInputError(
            f"best_known of {origin} must have one value a target ({len(top)}), but "
            f"has shape {values.shape}."
        )
    wrong = np.flatnonzero(~(values >= top))
    if len(wrong):
        t = int(wrong[0])
        raise InvalidInputError(
            f"best_known of {origin} must be at least the best performance in the "
            f"table, but target {t} has best_known {values[t]:g} and a performance of "
            f"{top[t]:g}."
        )
    table = table.assign(best_known=("target", values))
    return table.assign_attrs(best_known_kind=kind)


def with_names(
    table: xr.Dataset, sources: list[str] | None, targets: list[str] | None
) -> xr.Dataset:
    """The table with the names of its rows and columns, where there are any."""
    names = {"source": sources, "target": targets}
    return table.assign_coords(
        {dim: (dim, np.array(n, object)) for dim, n in names.items() if n is not None}
    )


def frame_from_table(table: xr.Dataset) -> pd.DataFrame:
    """A wide frame with everything in it, which `table_from_frame` reads back.

    Args:
        table: a table that holds `performance`.
    """
    performance = table["performance"].values
    n_sources, n_policies, n_targets = performance.shape
    space = source_space(table)
    targets = target_space(table)
    columns: dict[Hashable, Any] = {
        "source": np.repeat(_names(table, "source"), n_policies).astype(object)
    }
    if space is not None:
        for name, column in zip(space.names, space.points.T, strict=True):
            columns[f"source_{name}"] = np.repeat(column, n_policies)
    if "home_performance" in table:
        columns["home"] = table["home_performance"].values.reshape(-1)
    if targets is None:
        target_names = _names(table, "target")
    else:
        target_names = [
            ";".join(f"{n}={v!r}" for n, v in targets.context(t).items())
            for t in range(n_targets)
        ]
        if len(set(target_names)) < n_targets:
            raise InvalidInputError(
                "Two targets have the same context, so they cannot be told apart by "
                "their columns. Write an .npz, .nc or .zarr file."
            )
    cells = performance.reshape(n_sources * n_policies, n_targets)
    frame = pd.DataFrame(columns).join(pd.DataFrame(cells, columns=target_names))
    if table.attrs.get("best_known_kind") != "best of the table":
        reference = dict.fromkeys(frame.columns, np.nan) | {"source": BEST_KNOWN}
        reference |= dict(zip(target_names, table["best_known"].values, strict=True))
        frame = pd.concat([frame, pd.DataFrame([reference])], ignore_index=True)
    return frame


def _names(table: xr.Dataset, dim: str) -> list[str]:
    if dim in table.coords:
        return [str(name) for name in table.coords[dim].values]
    return [f"{dim[0]}{i}" for i in range(table.sizes[dim])]


@dataclass(frozen=True)
class _Parts:
    """What a frame says, before it is a table."""

    performance: NDArray[np.float64]
    sources: Space | None
    targets: Space | None
    source_names: list[str] | None
    target_names: list[str] | None
    home: NDArray[np.float64] | None = None
    best_known: NDArray[np.float64] | None = None


def _read_wide(frame: Frame) -> _Parts:
    special = ("source", "policy", "home")
    keep = [
        i
        for i, name in enumerate(frame.names)
        if name not in special and not name.startswith("source_")
    ]
    label_column = None
    # A first column of words is the name of each row.
    if keep and keep[0] == 0 and not {"source", "policy"} & set(frame.names):
        first = frame.columns[0]
        if not any(is_number(cell) for cell in first):
            label_column, keep = 0, keep[1:]
    if not keep:
        raise InvalidInputError(f"{frame.origin} has no column of a target.")
    names = frame.labels("source")
    reference = [i for i, n in enumerate(names or ()) if n == BEST_KNOWN]
    if len(reference) > 1:
        raise InvalidInputError(
            f"{frame.origin} must have one row of source 'best_known' at most, but has "
            f"{frame.rows[reference[0]]} and {frame.rows[reference[1]]}."
        )
    space = frame.space("source_", reference)
    cells = frame.numbers(keep)
    labels = frame.labels("policy")
    if label_column is not None:
        labels = [label(cell) for cell in frame.columns[label_column]]
    body = [i for i in range(len(frame.rows)) if i not in reference]
    if not body:
        raise InvalidInputError(f"{frame.origin} has no row of a policy.")
    keys: list[Hashable] = list(names) if names else []
    if not keys:
        keys = list(map(tuple, space.points.tolist())) if space else list(labels or [])
    if not keys:
        keys = list(range(len(frame.rows)))
    _check_repeats(frame, body, keys, labels, family=bool(names or space))
    members = _group([keys[i] for i in body])
    groups = [[body[i] for i in group] for group in members]
    if space is not None:
        _check_one_context(frame, groups, space, keys)
    order = _even(groups)
    home = None
    if "home" in frame.names:
        home = frame.numbers([frame.names.index("home")], reference)[:, 0][order]
    text = names or (labels if space is None else None)
    return _Parts(
        performance=cells[order],
        sources=space and Points(space.names, space.points[order[:, 0]]),
        targets=_contexts_of_names([frame.names[i] for i in keep]),
        source_names=text and [text[row] for row in order[:, 0]],
        target_names=[frame.names[i] for i in keep] if any(frame.names) else None,
        home=home,
        best_known=cells[reference[0]] if reference else None,
    )


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
                f"{_upper(frame.rows[row])} of {frame.origin} repeats the name "
                f"{labels[row]!r} of {frame.rows[seen[key]]}. {advice}"
            )
        seen[key] = row


def _check_one_context(
    frame: Frame, groups: Sequence[Sequence[int]], space: Points, keys: Sequence[Any]
) -> None:
    for group in groups:
        first = group[0]
        for row in group:
            if (space.points[row] != space.points[first]).any():
                raise InvalidInputError(
                    "All rows of a source must have the same context, but "
                    f"{frame.rows[first]} and {frame.rows[row]} of {frame.origin}, "
                    f"both of source {keys[row]!r}, have {space.context(first)} and "
                    f"{space.context(row)}."
                )


def _read_long(frame: Frame) -> _Parts:
    known = {"source", "policy", "target", "performance"}
    for place, name in enumerate(frame.names):
        if name not in known and not name.startswith(("source_", "target_")):
            raise InvalidInputError(
                f"Column {place + 1} ({name!r}) of {frame.origin} has no meaning "
                "beside performance and targets. A long table has the columns source "
                "or source_…, policy, target or target_…, performance."
            )
    cells = frame.numbers([frame.names.index("performance")])[:, 0]
    policies = frame.labels("policy")
    sides = []
    for dim in ("source", "target"):
        names, space = frame.labels(dim), frame.space(f"{dim}_")
        if names is None and space is None and dim == "source":
            names, policies = policies, None
        if names is None and space is None:
            raise InvalidInputError(
                f"{frame.origin} must name the source of each row in a column source, "
                "source_… or policy, but has none of them."
            )
        keys: list[Any] = list(names or ())
        if not keys and space is not None:
            keys = list(map(tuple, space.points.tolist()))
        groups = _group(keys)
        if space is not None:
            _check_one_context(frame, groups, space, keys)
        number = np.empty(len(keys), np.intp)
        for i, group in enumerate(groups):
            number[group] = i
        first = [group[0] for group in groups]
        sides.append(
            (
                number,
                names and [names[i] for i in first],
                space and Points(space.names, space.points[first]),
            )
        )
    (source, source_names, sources), (target, target_names, targets) = sides
    n_targets = int(target.max()) + 1
    filled: dict[tuple[int, str], list[int]] = {}
    labels = policies or [""] * len(source)
    for row, key in enumerate(zip(source.tolist(), labels, strict=True)):
        line = filled.setdefault(key, [-1] * n_targets)
        before = line[target[row]]
        if before >= 0:
            raise InvalidInputError(
                f"{_upper(frame.rows[before])} and {frame.rows[row]} of "
                f"{frame.origin} are the same cell. If they are two policies of one "
                "source, tell them apart with a column policy."
            )
        line[target[row]] = row
    for line in filled.values():
        if -1 in line:
            there = next(row for row in line if row >= 0)
            gone = int(np.flatnonzero(target == line.index(-1))[0])
            raise InvalidInputError(
                f"Every policy must have a cell for every target, but in "
                f"{frame.origin} the policy of {frame.rows[there]} has none for the "
                f"target of {frame.rows[gone]}."
            )
    groups = _group([key[0] for key in filled])
    lines = list(filled.values())
    order = _even(groups)
    matrix = np.array([cells[line] for line in lines])
    return _Parts(matrix[order], sources, targets, source_names, target_names)


def _with_contexts(parts: _Parts, contexts: Frame | None) -> _Parts:
    if contexts is None:
        return parts
    sources, targets = contexts_from(
        contexts,
        parts.performance.shape,
        (parts.sources, parts.targets),
        (parts.source_names, parts.target_names),
    )
    return replace(parts, sources=sources, targets=targets)


def _found_home(parts: _Parts) -> NDArray[np.float64] | None:
    """J of each policy at the target that is its own source, None unless all are."""
    if parts.sources is not None and parts.targets is not None:
        if set(parts.sources.names) != set(parts.targets.names):
            return None
        columns = [parts.targets.names.index(n) for n in parts.sources.names]
        own = list(map(tuple, parts.sources.points.tolist()))
        there = list(map(tuple, parts.targets.points[:, columns].tolist()))
    elif parts.source_names is not None and parts.target_names is not None:
        own, there = parts.source_names, parts.target_names
    else:
        return None
    place = {key: i for i, key in reversed(list(enumerate(there)))}
    if any(key not in place for key in own):
        return None
    columns = np.array([place[key] for key in own])
    return parts.performance[np.arange(len(own)), :, columns]


def _is_diagonal(parts: _Parts) -> bool:
    """Whether source i can be taken for target i: nothing says otherwise."""
    if parts.sources is not None and parts.targets is not None:
        return False
    mine, theirs = set(parts.source_names or ()), set(parts.target_names or ())
    return not mine & theirs


def _contexts_of_names(names: Sequence[str]) -> Points | None:
    """Contexts from names like `k=1.5;c=0.1`; None unless all are so."""
    rows: list[dict[str, float]] = []
    for name in names:
        pairs = [part.partition("=") for part in name.split(";")]
        if not all(equals and is_number(value) for _, equals, value in pairs):
            return None
        rows.append({axis.strip(): float(value) for axis, _, value in pairs})
    if any(set(row) != set(rows[0]) for row in rows):
        return None
    axes = list(rows[0])
    return Points(axes, [[row[axis] for axis in axes] for row in rows])


def _group(keys: Sequence[Hashable]) -> list[list[int]]:
    """Places of equal keys, in order of first appearance."""
    groups: dict[Hashable, list[int]] = {}
    for place, key in enumerate(keys):
        groups.setdefault(key, []).append(place)
    return list(groups.values())


def _even(groups: Sequence[Sequence[int]]) -> NDArray[np.intp]:
    """Families of one size: a smaller one repeats its first member.

    Worst and best over a family, and so every criterion, stay as they are.
    """
    size = max(map(len, groups))
    return np.array([[*group, *[group[0]] * (size - len(group))] for group in groups])


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
