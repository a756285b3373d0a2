"""The performance table of what a store holds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.errors import TaskspaceError
from taskspace.performance.store.base import REGION, TRAINED, Store
from taskspace.performance.table import DIMS, make_table
from taskspace.spaces import Points, Space
from taskspace.systems.base import System

BEST_OF_TABLE = "best of the table"
"""What regret is against where nothing better is known."""


def assemble(
    store: Store,
    names: Sequence[str],
    sources: Space,
    targets: Space,
    best_known: NDArray[np.float64],
    notes: Mapping[str, Any],
    numbers: NDArray[np.int64] | None = None,
    *,
    target_rows: NDArray[np.float64],
) -> xr.Dataset:
    """Return the table of what a store holds.

    Args:
        store: policies and rows.
        names: variables that are kept by blocks.
        sources: contexts of all sources that are planned.
        targets: the targets.
        best_known: the reference of regret at each target. The best of the table is
            none at a target whose own training failed or is not done.
        notes: attributes.
        numbers: sources that are evaluated; all if left out.
        target_rows: full context rows of the targets.

    Returns:
        A table of these sources; `n_planned` notes how many there would be with all
        that are planned.
    """
    n_planned, every = sources.size, np.flatnonzero(store.evaluated)
    if not len(every):
        why = next(iter(store.failures.values()), "")
        raise TaskspaceError(
            "No source could be trained, so there is no table"
            + (f": {why}." * bool(why))
        )
    numbers = every if numbers is None else numbers
    keys = [store.sources[number] for number in numbers]
    block = store.read(keys)
    kind = str(notes["best_known_kind"])
    if kind.startswith(BEST_OF_TABLE):
        fits = np.zeros(n_planned, bool)
        fits[numbers] = (block.home > -np.inf).any(1)
        lacking = trained_at(sources, np.ones(n_planned, bool), targets)
        lacking &= ~trained_at(sources, fits, targets)
        best_known, kind = leave_out(best_known, kind, lacking)
    if len(numbers) < n_planned:
        sources = Points(sources.names, sources.points[numbers])
    table = make_table(
        {
            **store.variables(names, numbers),
            "home_performance": block.home,
            "environment_steps": block.trained.environment_steps,
            "best_known": best_known,
        },
        sources,
        targets,
        {**notes, "best_known_kind": kind},
    )
    kinds = [key.kind for key in keys]
    if set(kinds) - {TRAINED}:
        table = table.assign_coords(source_kind=("source", np.array(kinds)))
    if REGION in kinds:
        weights = np.array([key.weights_at(target_rows) for key in keys])
        table["trained_on"] = DIMS["trained_on"], weights
    if len(numbers) < n_planned:
        table = table.assign_attrs(n_planned=n_planned)
    return table


def trained_at(
    sources: Space, which: NDArray[np.bool_], targets: Space
) -> NDArray[np.bool_]:
    """Targets that are the very context of one of some sources.

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
    """Return a reference without that of some targets, and what to call it.

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


def table_notes(system: System, kind: str, **more: Any) -> dict[str, Any]:
    """Return attributes of a table: what made it, and where its numbers come from.

    Args:
        system: the tasks.
        kind: what the reference of regret is.
        more: other attributes; the `trainer` and its `seed`, where there is one.
    """
    notes: dict[str, Any] = {
        "system": system.id,
        **more,
        "best_known_kind": kind,
        "provenance": system.provenance,
        "cost": system.objective.statement,
    }
    if system.n_episodes:
        notes["n_episodes"] = system.n_episodes
    return notes
