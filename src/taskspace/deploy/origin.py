"""Where a library comes from: a run, or a table and what was given with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError, TaskspaceError
from taskspace.performance import target_space
from taskspace.policies import Policy
from taskspace.spaces import Space
from taskspace.systems.base import System

__all__ = ["Origin", "origin_of", "run_policies", "stack_size"]


@dataclass(frozen=True)
class Origin:
    """What is known of the policies to choose from.

    Args:
        table: the performance table.
        policies: the stack that it was made with, None if it is not at hand.
        system: the tasks, None where they are not known.
        axes: unit and default of every axis that is known.
        targets: contexts of the targets, None where they have names only.
        provenance: plain values that say where the table comes from.
        without_policies: sources whose policies did not come along; None if none.
    """

    table: xr.Dataset
    policies: Policy | None
    system: System | None
    axes: Mapping[str, tuple[str, float]]
    targets: Space | None
    provenance: Mapping[str, Any]
    without_policies: NDArray[np.bool_] | None = None

    def policies_of(self, sources: Sequence[int], members: Sequence[int]) -> Policy:
        """One policy each of some sources, or a sentence about those not at hand.

        Args:
            sources: numbers of sources.
            members: which policy of its family, one a source.
        """
        assert self.policies is not None
        if self.without_policies is not None and self.without_policies[sources].any():
            lost = sorted({s for s in sources if self.without_policies[s]})
            raise InvalidInputError(
                "A library needs the policies of its sources, but those of "
                f"{', '.join(map(str, lost[:5]))} are not in the archive. Choose among "
                "the sources of the stored covers, or archive all of them with: "
                "taskspace archive RUN FILE --policies all"
            )
        return self.policies[sources, members]


def origin_of(run: Any, policies: Policy | None, system: System | None) -> Origin:
    """What a run or a table tells.

    Args:
        run: a run, or a performance table.
        policies: the stack that a table was made with; a run has its own.
        system: the tasks; a run has its own.
    """
    stack, targets, told = policies, None, []
    if isinstance(run, xr.Dataset):
        table = run
    elif hasattr(run, "table"):
        table = _table(run)
        stack = run_policies(run) if policies is None else policies
        targets = getattr(getattr(run, "experiment", None), "target_space", None)
        told = getattr(run, "system", {}).get("axes", [])
        system = _run_system(run) if system is None else system
    else:
        raise InvalidInputError(
            "A library is made from a run (ts.open_run) or a performance table, but "
            f"got {type(run).__name__}."
        )
    if stack is not None and stack_size(stack) != table.sizes["source"]:
        raise InvalidInputError(
            f"There must be policies for all {table.sizes['source']} sources of the "
            f"table, but there are {stack_size(stack)}."
        )
    if targets is None:
        targets = target_space(table)
    axes = {axis["name"]: (axis["unit"], float(axis["default"])) for axis in told}
    if system is not None:
        axes = {axis.name: (axis.unit, float(axis.default)) for axis in system.axes}
    keys = "system", "trainer", "seed", "best_known_kind", "provenance"
    keys += "selector", "notes", "cost"
    origin = {k: _plain(table.attrs[k]) for k in keys if k in table.attrs}
    if system is not None:
        origin["objective"] = system.objective.to_dict()
    without = getattr(run, "without_policies", None) if policies is None else None
    return Origin(table, stack, system, axes, targets, origin, without)


def run_policies(run: Any) -> Policy | None:
    """The policies of a run, the one place that knows how a run hands them out.

    Args:
        run: an open run.
    """
    if not hasattr(run, "read_policies"):
        return getattr(run, "policies", None)
    n_sources = _table(run).sizes["source"]
    planned = run.experiment.sources.size
    known = np.arange(planned)
    if n_sources < planned:  # an unfinished run has the rows that are evaluated
        known = np.flatnonzero(run.ledger().evaluated)
    stretches = np.split(known, np.flatnonzero(np.diff(known) > 1) + 1)
    parts = [
        run.read_policies(slice(int(s[0]), int(s[-1]) + 1)).trained.policies
        for s in stretches
    ]
    return type(parts[0]).concatenate(parts)


def _run_system(run: Any) -> System | None:
    """The system of a run, None where its code may not or cannot be imported."""
    try:
        return run.experiment.built_system
    except (AttributeError, TaskspaceError):
        return None


def _table(run: Any) -> xr.Dataset:
    found: Any = run.table
    table: Any = found() if callable(found) else found
    return table


def stack_size(stack: Policy) -> int:
    """Length of the first leading dim of a stack.

    Args:
        stack: some policies.
    """
    return len(next(iter(stack.arrays().values())))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
