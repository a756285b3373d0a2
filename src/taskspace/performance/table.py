"""The performance table: J of every policy at every target, or its reductions.

An `xarray.Dataset` with dims in the order `source, policy, target, episode`:

| variable | dims | meaning |
|---|---|---|
| `performance` | source, policy, target | J itself, where it fits |
| `worst`, `best` | source, target | smallest and largest J over the family |
| `gap_worst`, `gap_best` | source, target | largest, smallest J(source) − J(target) |
| `disk_margin`, … | source, policy, target | another measure than J, if asked |
| `disk_margin_worst`, `disk_margin_best` | source, target | its reductions |
| `home_performance` | source, policy | J of each policy at its own source |
| `best_known` | target | largest J known to be possible at the target, NaN if none is |
| `standard_error` | source, policy, target | of J, where J is a mean of episodes |
| `returns` | source, policy, target, episode | per-episode returns, if simulated |

Contexts are coordinates: `source_k`, `target_k`, … for a context axis `k`; a text
`source_kind` says where policies come from if not all are trained. The attribute
`provenance` says where the numbers come from (`exact`, `computed` in double precision,
`sampled`, `given`), `n_episodes` how many episodes a sampled one is the mean of. Every
row, every column and every variable says it too (`provenance_source`,
`provenance_target`), so that tables which are joined or patched do not pass for exact.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, get_args

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.spaces import Grid, Points, Space, grid_of
from taskspace.systems.base import MEASURES, Provenance, System, reduce_family

REDUCTIONS = {
    "worst": ("worst", "gap_worst"),
    "best": ("best", "gap_best"),
}
"""The reductions over a family that a criterion needs, by judge."""


class _Dims(dict[str, tuple[str, ...]]):
    """Dims by name of a variable; measures may be registered at any time."""

    def __missing__(self, name: str) -> tuple[str, ...]:
        if name in MEASURES:
            return self["performance"]
        measure, _, judge = name.rpartition("_")
        if measure in MEASURES and judge in REDUCTIONS:
            return self["worst"]
        raise KeyError(name)


DIMS = _Dims(
    {
        "performance": ("source", "policy", "target"),
        "worst": ("source", "target"),
        "best": ("source", "target"),
        "gap_worst": ("source", "target"),
        "gap_best": ("source", "target"),
        "home_performance": ("source", "policy"),
        "environment_steps": ("source", "policy"),
        "best_known": ("target",),
        "trained_on": ("source", "target"),
        "standard_error": ("source", "policy", "target"),
        "returns": ("source", "policy", "target", "episode"),
    }
)
"""The dims of every variable that a table may hold."""

ORIGINS = {"provenance_source": "source", "provenance_target": "target"}
"""Coordinates that say where rows and columns come from, and their dims."""

NO_SCORES = ("best_known", "environment_steps", "trained_on")
SCORES = tuple(name for name in DIMS if name not in NO_SCORES)
"""Variables of J that make a table exact, if all of them are."""

WEAKER: dict[Provenance, int] = {"exact": 0, "computed": 1, "sampled": 2, "given": 3}
"""What a mixed table is called: the one with the larger number."""

BEST_OF_TABLE = "best of the table"
"""What regret is against where nothing better is known."""

# Rows are read and reduced in blocks of about this many numbers (64 MB).
BLOCK_CELLS = 8_000_000


def make_table(
    variables: Mapping[str, Any],
    sources: Space | None,
    targets: Space | None,
    attrs: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """Return a table from its variables and the contexts of its two sides.

    Args:
        variables: arrays by name, with dims as in this module's table; or `xarray`
            variables, which may be read only as they are needed.
        sources: contexts of the rows, or None if they have none.
        targets: contexts of the columns, or None if they have none.
        attrs: notes to keep with it.
    """
    coords: dict[str, Any] = {}
    for dim, space in (("source", sources), ("target", targets)):
        if space is not None:
            for name, column in zip(space.names, space.points.T, strict=True):
                coords[f"{dim}_{name}"] = (dim, column)
    notes = dict(attrs or {})
    provenance = str(notes.get("provenance", "given"))
    table = xr.Dataset(
        {
            name: array if isinstance(array, xr.Variable) else (DIMS[name], array)
            for name, array in variables.items()
        },
        coords=coords,
        attrs=notes,
    )
    for name in table.data_vars:
        own = score_provenance(str(name), provenance)  # type: ignore[arg-type]
        table[name].attrs["provenance"] = own
    words = {
        name: (dim, np.full(table.sizes[dim], provenance))
        for name, dim in ORIGINS.items()
        if dim in table.sizes
    }
    return table.assign_coords(words)


def score_provenance(name: str, provenance: Provenance) -> Provenance:
    """Return where a variable of a table comes from: a measure may be weaker than J.

    Args:
        name: of the variable.
        provenance: of J.
    """
    for measure in (name, name.rpartition("_")[0]):
        if measure in MEASURES:
            return max(provenance, MEASURES[measure].provenance, key=WEAKER.__getitem__)
    return provenance


def provenance_of(table: xr.Dataset, measures: Collection[str] = ()) -> Provenance:
    """Where the numbers of a table come from: the weakest that any part of it says.

    A table is `exact` only if all of it was made so: the attribute, every row, every
    column and the scores say it, and nothing in it comes from episodes. Tables that
    `xr.concat`, `xr.merge`, `where` or `assign` made of several are as weak as the
    weakest of them. Arithmetic on a table is not seen: who changes numbers says so, by
    `table.assign_attrs(provenance="given")`.

    Args:
        table: a performance table.
        measures: scores beside J that count too; others in the table do not.
    """
    said = {str(table.attrs.get("provenance", "given"))}
    for name in ORIGINS:
        if name in table.coords:
            said |= {str(word) for word in np.unique(table.coords[name])}
    unknown = sorted(said - set(get_args(Provenance)))
    if unknown:
        raise UnknownNameError("provenance", unknown[0], get_args(Provenance))
    if {"standard_error", "returns"} & set(table.data_vars):
        said.add("sampled")
    if table.attrs.get("n_episodes"):
        said.add("sampled")
    if said == {"exact"}:
        # Rows, columns and scores must say it too.
        if not all(name in table.coords for name in ORIGINS):
            return "given"
        reduced = [reduced_name(m, judge) for m in measures for judge in REDUCTIONS]
        for name in (*SCORES, *measures, *reduced):
            if name in table:
                said.add(str(table[name].attrs.get("provenance", "given")))
    return max(get_args(Provenance), key=lambda word: (word in said, WEAKER[word]))


def source_space(table: xr.Dataset) -> Grid | Points | None:
    """Contexts of the sources: a grid if they are one, None if there are none.

    Args:
        table: a performance table.
    """
    return _space(table, "source")


def target_space(table: xr.Dataset) -> Grid | Points | None:
    """Contexts of the targets: a grid if they are one, None if there are none.

    Args:
        table: a performance table.
    """
    return _space(table, "target")


def _space(table: xr.Dataset, dim: str) -> Grid | Points | None:
    prefix = f"{dim}_"
    names = [
        str(name)
        for name, coord in table.coords.items()
        if str(name).startswith(prefix) and coord.dtype.kind in "fiub"
    ]
    if not names:
        return None
    columns = [table.coords[name].values for name in names]
    points = Points([n.removeprefix(prefix) for n in names], np.stack(columns, axis=1))
    return grid_of(points) or points


def table_from_matrix(
    performance: ArrayLike,
    *,
    sources: Space | None = None,
    targets: Space | None = None,
    home: ArrayLike | None = None,
    standard_error: ArrayLike | None = None,
    provenance: Provenance = "given",
    n_episodes: int = 0,
) -> xr.Dataset:
    """Return a table from a transfer matrix that exists already.

    Args:
        performance: J, larger is better; shape `(source, target)` for one policy a
            source, or `(source, policy, target)`.
        sources: contexts of the rows.
        targets: contexts of the columns.
        home: J of each policy at its own source, `(source,)` or `(source, policy)`.
            If left out and the matrix is square, its diagonal; otherwise the
            `signed` criterion is not available.
        standard_error: of each mean, in the shape of `performance`, where the matrix
            holds means.
        provenance: `"given"` says nothing about the numbers; `"exact"` states that
            each is J itself, which allows proofs; `"sampled"` that it is a mean.
        n_episodes: how many episodes each mean is over, if you know.

    Examples:
        >>> table = table_from_matrix([[3.0, 1.0], [2.0, 4.0]])
        >>> table["best_known"].values.tolist()
        [3.0, 4.0]
    """
    matrix = np.asarray(performance, dtype=np.float64)
    if matrix.ndim == 2:
        matrix = matrix[:, None, :]
    if matrix.ndim != 3 or 0 in matrix.shape:
        raise InvalidInputError(
            "A transfer matrix must have shape (source, target) or (source, policy, "
            f"target) and no empty side, but has {np.shape(performance)}."
        )
    bad = np.argwhere(np.isnan(matrix) | (matrix == np.inf))
    if len(bad):
        row, policy, column = bad[0].tolist()
        raise InvalidInputError(
            "Every cell must be a number (−inf for a failure), but row "
            f"{row}, policy {policy}, column {column} holds {matrix[tuple(bad[0])]}."
        )
    n_sources, n_policies, n_targets = matrix.shape
    for space, n, side in ((sources, n_sources, "row"), (targets, n_targets, "column")):
        if space is not None and space.size != n:
            raise InvalidInputError(
                f"There must be one context per {side}, but the matrix has {n} {side}s "
                f"and there are {space.size} contexts."
            )
    variables: dict[str, ArrayLike] = {
        "performance": matrix,
        "best_known": matrix.max((0, 1)),
    }
    if home is not None:
        own = np.asarray(home, dtype=np.float64).reshape(n_sources, -1)
        variables["home_performance"] = np.broadcast_to(own, (n_sources, n_policies))
    elif n_sources == n_targets:
        variables["home_performance"] = np.diagonal(matrix, axis1=0, axis2=2).T
    attrs: dict[str, Any] = {"best_known_kind": BEST_OF_TABLE}
    if standard_error is not None:
        errors = np.asarray(standard_error, dtype=np.float64)
        errors = errors[:, None, :] if errors.ndim == 2 else errors
        if errors.shape != matrix.shape or (errors < 0).any():
            raise InvalidInputError(
                "standard_error must have the shape of the matrix and no negative "
                f"number, but has shape {np.shape(standard_error)}."
            )
        variables["standard_error"] = errors
        provenance = "sampled"
    if provenance not in get_args(Provenance):
        raise UnknownNameError("provenance", provenance, get_args(Provenance))
    attrs["provenance"] = provenance
    if n_episodes:
        attrs["n_episodes"] = int(n_episodes)
    return make_table(variables, sources, targets, attrs)


def row_blocks(table: xr.Dataset, per_number: int = 1) -> Iterator[slice]:
    """Yield stretches of sources that are small enough to hold at once.

    Args:
        table: a performance table, `performance` itself or its reductions.
        per_number: how many cells take the memory of one number.
    """
    n_sources, n_targets = table.sizes["source"], table.sizes["target"]
    per_row = n_targets
    if "performance" in table:
        per_row *= table.sizes["policy"]
    step = max(1, per_number * BLOCK_CELLS // per_row)
    for first in range(0, n_sources, step):
        yield slice(first, min(first + step, n_sources))


def reduced_name(measure: str, judge: str) -> str:
    """Return the variable with a score reduced over the family.

    Args:
        measure: `"performance"`, or one of `taskspace.systems.base.MEASURES`.
        judge: `"worst"` or `"best"`.
    """
    return judge if measure == "performance" else f"{measure}_{judge}"


def holds_score(table: xr.Dataset, measure: str, judge: str) -> bool:
    """Whether a table holds a score, itself or reduced; J is in every table.

    Args:
        table: a performance table.
        measure: the score.
        judge: `"worst"` or `"best"`.
    """
    names = (measure, reduced_name(measure, judge))
    return measure == "performance" or any(name in table for name in names)


def family_rows(table: xr.Dataset, name: str, rows: slice) -> NDArray[np.float64]:
    """Return one reduction over the family, for a range of sources.

    Args:
        table: a performance table.
        name: `worst`, `best`, `gap_worst` or `gap_best`; or what `reduced_name` gives
            for another score than J.
        rows: which sources.

    Returns:
        Dims `(source, target)`; read from the table, or reduced from J.
    """
    if name in table:
        return table[name][rows].values
    measure, _, judge = name.rpartition("_")
    if measure in MEASURES:
        if measure not in table:
            raise InvalidInputError(
                f"The criterion {measure!r} reads the score {measure!r}, which this "
                f"table does not hold. Evaluate with measures=[{measure!r}], or give "
                "the study its system and policies: ts.Study.of(table, system=..., "
                "policies=...)."
            )
        scores = table[measure][rows].values
        return scores.min(1) if judge == "worst" else scores.max(1)
    if name.startswith("gap") and "home_performance" not in table:
        raise InvalidInputError(
            "The signed criterion compares with each policy's own score, which this "
            "table does not hold: the matrix must be square (one source per target), "
            "or come with the scores at home. Other criteria work: regret, ratio, "
            "floor."
        )
    if "performance" not in table:
        judge = next(j for j, names in REDUCTIONS.items() if name in names)
        raise InvalidInputError(
            f"judge={judge!r} needs the reduction {name!r}, which this table does "
            f"not hold (it has {', '.join(map(str, table.data_vars))}). Evaluate "
            f"again with judges including {judge!r}."
        )
    performance = table["performance"][rows].values.astype(np.float64)
    if name in ("worst", "best"):
        return performance.min(1) if name == "worst" else performance.max(1)
    home = table["home_performance"][rows].values
    return reduce_family(performance, home, (name,))[name]


# --- the reference of regret ---------------------------------------------------------


def best_reference(
    optimum: NDArray[np.float64] | None, top: NDArray[np.float64]
) -> tuple[NDArray[np.float64], str]:
    """Return the reference of regret: the optimum where known, else the best seen.

    Args:
        optimum: of each target, NaN where it is not known; None where no system is.
        top: best J seen at each target.

    Returns:
        Best known J at each target, and where it comes from: `"optimum"`, `"optimum
        where known"` if it is known at some targets only, or `"best of the table"`.
    """
    if optimum is None or np.isnan(optimum).all():
        return top, BEST_OF_TABLE
    kind = "optimum where known" if np.isnan(optimum).any() else "optimum"
    return np.fmax(optimum, top), kind


def trained_at(
    sources: Space, which: NDArray[np.bool_], targets: Space
) -> NDArray[np.bool_]:
    """Return which targets are the exact context of a selected source.

    Args:
        sources: contexts of sources.
        which: the sources that count.
        targets: contexts of targets; over other axes they are no contexts of sources.
    """
    if set(sources.names) != set(targets.names):
        return np.zeros(targets.size, bool)
    columns = [list(sources.names).index(name) for name in targets.names]
    own = {tuple(row) for row in sources.points[which][:, columns].tolist()}
    return np.array([tuple(row) in own for row in targets.points.tolist()])


def leave_out(
    reference: NDArray[np.float64], kind: str, lacking: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], str]:
    """Return the reference with some targets left out, and its kind.

    Where every policy fails no reference is needed: nothing is served there.

    Args:
        reference: at each target.
        kind: where it comes from.
        lacking: targets to leave out.
    """
    lacking = lacking & (reference > -np.inf)
    if kind == BEST_OF_TABLE and lacking.any():
        kind = f"{kind} where a policy was trained"
    return np.where(lacking, np.nan, reference), kind


def table_notes(system: System, **more: Any) -> dict[str, Any]:
    """Return attributes of a table: what made it, and where its numbers come from.

    Args:
        system: the tasks.
        more: other attributes: the `trainer` and its `seed`, where there is one, and
            what the reference of regret is.
    """
    notes: dict[str, Any] = {
        "system": system.id,
        **more,
        "provenance": system.provenance,
        "cost": system.objective.statement,
    }
    if system.n_episodes:
        notes["n_episodes"] = system.n_episodes
    return notes
