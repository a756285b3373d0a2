"""A run opened in a notebook: its table, its policies, its covers."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import xarray as xr

from taskspace.cover import CoverAnswer
from taskspace.policies import Policy
from taskspace.runs.experiment import Experiment
from taskspace.runs.results import Results
from taskspace.runs.store import RunStore

__all__ = ["OpenedRun", "open_run"]


@dataclass(frozen=True)
class OpenedRun:
    """What a run directory holds, read as it is asked for.

    Args:
        store: the run directory.
    """

    store: RunStore

    @property
    def experiment(self) -> Experiment:
        """What was run."""
        return self.store.experiment

    @cached_property
    def table(self) -> xr.Dataset:
        """The performance table; large variables are read as they are needed."""
        return self.store.table()

    @cached_property
    def policies(self) -> Policy:
        """Policies of the table's sources, with leading dims `(source, policy)`."""
        return self.store.table_policies()

    @cached_property
    def results(self) -> Results:
        """Covers, curves, and what they cost."""
        return Results.load(self.store.path / "results.json")

    @property
    def covers(self) -> tuple[CoverAnswer, ...]:
        """The covers of the run, each with its question."""
        return self.results.covers


def open_run(path: str | Path) -> OpenedRun:
    """Open a run directory to work with what is in it; runs none of its code.

    Args:
        path: the run directory.
    """
    return OpenedRun(RunStore.open(path))
