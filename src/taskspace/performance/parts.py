"""How the parts of a study are had, from memory or from files."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.policies import Policy
from taskspace.spaces import Space
from taskspace.systems.base import ContextAxis, System


def _nothing() -> Any:
    return None


@dataclass(frozen=True, eq=False, kw_only=True)
class StudyParts:
    """How the parts of a study are had, each when it is first used.

    Args:
        origin: where the study comes from: a path, or what made it.
        table: gives the performance table.
        system: gives the tasks.
        axes: gives the context axes that are known even where the system is not.
        solved_return: gives J from which a task counts as solved, likewise.
        policies: gives the policies of the sources, leading dims `(source, policy)`.
        without_policies: gives which sources' policies are not at hand.
        targets: gives the contexts of the targets, where the table says them not well.
        experiment: gives the experiment of a run.
        results: gives the covers and curves of a finished run.
        reading: how a matrix file was read, for commands that read it again.
        is_computed: the table is computed from the policies as it is read.
        in_memory: no file holds it.
    """

    origin: str
    table: Callable[[], xr.Dataset]
    system: Callable[[], System | None] = _nothing
    axes: Callable[[], tuple[ContextAxis, ...]] = tuple
    solved_return: Callable[[], float | None] = _nothing
    policies: Callable[[], Policy | None] = _nothing
    without_policies: Callable[[], NDArray[np.bool_] | None] = _nothing
    targets: Callable[[], Space | None] = _nothing
    experiment: Callable[[], Any] = _nothing
    results: Callable[[], Any] = _nothing
    reading: dict[str, Any] = field(default_factory=dict)
    is_computed: bool = False
    in_memory: bool = False
