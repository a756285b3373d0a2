"""Where the parts of a study are kept: the contract, and parts that are at hand."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.policies import Policy
from taskspace.spaces import Space
from taskspace.systems.base import ContextAxis, System

__all__ = ["MemoryReader", "StudyReader"]


class StudyReader(ABC):
    """Reads the parts of a study from where they are kept.

    A study asks for each part at most once. What a reader does not have is None; what
    it has but may not hand out raises a `TaskspaceError` that says why.
    """

    @property
    @abstractmethod
    def origin(self) -> str:
        """Where the study comes from: a path, or what made it."""

    @abstractmethod
    def table(self) -> xr.Dataset:
        """The performance table."""

    def system(self) -> System | None:
        """The tasks."""
        return None

    def axes(self) -> tuple[ContextAxis, ...]:
        """Context axes that are known even where the system is not."""
        return ()

    def solved_return(self) -> float | None:
        """J from which a task counts as solved, known even without the system."""
        return None

    def policies(self) -> Policy | None:
        """Policies of the table's sources, leading dims `(source, policy)`."""
        return None

    def without_policies(self) -> NDArray[np.bool_] | None:
        """Which sources' policies are not at hand; None if all are."""
        return None

    def targets(self) -> Space | None:
        """Contexts of the targets, where the table alone does not say them well."""
        return None

    def experiment(self) -> Any:
        """The experiment, where the study comes from a run."""
        return None

    def results(self) -> Any:
        """The covers and curves of a finished run."""
        return None

    @property
    def is_computed(self) -> bool:
        """Whether the table is computed from the policies as it is read."""
        return False

    def reading(self) -> dict[str, Any]:
        """How a matrix file was read, for commands that read it again."""
        return {}


@dataclass(frozen=True, eq=False)
class MemoryReader(StudyReader):
    """A study whose parts are all at hand.

    Args:
        table_: the performance table.
        system_: the tasks.
        policies_: policies of the table's sources.
        targets_: contexts of the targets.
        made_by: what made it.
        is_computed: the table is computed from the policies as it is read.
    """

    table_: xr.Dataset
    system_: System | None = None
    policies_: Policy | None = None
    targets_: Space | None = None
    made_by: str = "memory"
    is_computed: bool = False  # type: ignore[assignment]

    @property
    def origin(self) -> str:
        """What made it."""
        return self.made_by

    def table(self) -> xr.Dataset:
        """The performance table."""
        return self.table_

    def system(self) -> System | None:
        """The tasks."""
        return self.system_

    def policies(self) -> Policy | None:
        """Policies of the table's sources."""
        return self.policies_

    def targets(self) -> Space | None:
        """Contexts of the targets."""
        return self.targets_
