"""Opening a path as a study: a run, a selection, an archive or a matrix file."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.performance.io import READABLE_SUFFIXES, read_matrix
from taskspace.performance.readers import StudyReader
from taskspace.performance.study import Study
from taskspace.policies import Policy
from taskspace.runs.archive import Archive, is_archive, read_archive
from taskspace.runs.experiment import Experiment
from taskspace.runs.manifest import is_run
from taskspace.runs.recheck import check_archived_plant, check_plant
from taskspace.runs.results import Results
from taskspace.runs.store import RunStore
from taskspace.spaces import Grid, Points
from taskspace.systems.base import ContextAxis, System

__all__ = [
    "ArchiveReader",
    "MatrixReader",
    "RunReader",
    "check_exists",
    "open",
    "open_study",
]


NOT_GIVEN = (None, (), "", "error")
"""Values that an option of reading has where a user does not give it; False is one
that is given."""


@dataclass(frozen=True, eq=False)
class RunReader(StudyReader):
    """Reads a study from a run directory.

    Args:
        store: the run directory.
    """

    store: RunStore

    @property
    def origin(self) -> str:
        """Path of the run directory."""
        return str(self.store.path)

    def table(self) -> xr.Dataset:
        """The performance table; large variables are read as they are needed."""
        return self.store.table()

    def system(self) -> System | None:
        """The system, if its code is built in or trusted, and as it was."""
        system = self.store.experiment.built_system
        check_plant(self.store)
        return system

    def axes(self) -> tuple[ContextAxis, ...]:
        """The axes that the manifest keeps."""
        return _axes(self.store.system.axes)

    def solved_return(self) -> float | None:
        """What the manifest keeps of the system."""
        return self.store.system.solved_return

    def policies(self) -> Policy | None:
        """The policies of the table's sources."""
        return self.store.table_policies()

    def targets(self) -> Grid | Points | None:
        """The targets of the experiment."""
        return self.store.experiment.target_space

    def experiment(self) -> Experiment:
        """What was run; its sources are those of the table."""
        return self.store.trained_experiment()

    def results(self) -> Results | None:
        """What a finished run found."""
        file = self.store.path / "results.json"
        return Results.load(file) if file.is_file() else None


@dataclass(frozen=True, eq=False)
class ArchiveReader(StudyReader):
    """Reads a study from an archive of a run.

    Args:
        path: the archive.
        trust: code that it names may be imported.
    """

    path: Path
    trust: bool = False

    @cached_property
    def _archive(self) -> Archive:
        return read_archive(self.path, trust=self.trust)

    @property
    def origin(self) -> str:
        """Path of the archive."""
        return str(self.path)

    def table(self) -> xr.Dataset:
        """The performance table."""
        return self._archive.table

    def system(self) -> System | None:
        """The system, if its code is built in or trusted, and as it was."""
        archive = self._archive
        system = archive.experiment.built_system
        if archive.all_policies is not None:
            check_archived_plant(
                str(self.path), archive.table, archive.all_policies, archive.experiment
            )
        return system

    def axes(self) -> tuple[ContextAxis, ...]:
        """The axes that the archive keeps."""
        return _axes(self._archive.system.axes)

    def solved_return(self) -> float | None:
        """What the archive keeps of the system; one of format 2 keeps nothing."""
        return self._archive.system.solved_return

    def policies(self) -> Policy | None:
        """The policies that came along."""
        return self._archive.policies

    def without_policies(self) -> NDArray[np.bool_]:
        """Which sources' policies did not come along."""
        return self._archive.without_policies

    def targets(self) -> Grid | Points | None:
        """The targets of the experiment."""
        return self._archive.experiment.target_space

    def experiment(self) -> Experiment:
        """What was run."""
        return self._archive.experiment


@dataclass(frozen=True, eq=False)
class MatrixReader(StudyReader):
    """Reads a study from a matrix file.

    Args:
        path: the file.
        options: how it is read, see `read_matrix`.
    """

    path: Path
    options: dict[str, Any]

    @property
    def origin(self) -> str:
        """Path of the file."""
        return str(self.path)

    def table(self) -> xr.Dataset:
        """The performance table."""
        return read_matrix(self.path, **self.options)

    def reading(self) -> dict[str, Any]:
        """How the file is read, as far as a user says it."""
        return {k: v for k, v in self.options.items() if v not in NOT_GIVEN}


def open_study(path: str | Path, *, trust: bool = False, **reading: Any) -> Study:
    """Open a run, a selection, an archive or a matrix file as a study.

    Args:
        path: a run directory, an archive (.npz), or a matrix file.
        trust: code that a run or an archive names may be imported where it is needed.
        reading: how to read a matrix file, see `read_matrix`; refused for anything
            else, which says it all itself.
    """
    path = Path(path)
    check_exists(path)
    if is_archive(path):
        _refuse_reading(reading)
        return _read_now(Study(ArchiveReader(path, trust)))
    if is_run(path) or (path.is_dir() and path.suffix.lower() not in READABLE_SUFFIXES):
        _refuse_reading(reading)
        return Study(RunReader(RunStore.open(path, trust=trust)))
    return _read_now(Study(MatrixReader(path, reading)))


def _read_now(study: Study) -> Study:
    """The study, with its table read: a file that holds none is refused now."""
    _ = study.table
    return study


def _refuse_reading(reading: dict[str, Any]) -> None:
    given = {k: v for k, v in reading.items() if v not in NOT_GIVEN}
    if given.get("lower_is_better") is False:
        del given["lower_is_better"]  # so it is
    option = next(iter(given), None)
    if option is not None:
        raise InvalidInputError(
            f"--{option.replace('_', '-')} is for matrix files; in a run larger "
            "performance is always better, and targets and contexts are known."
        )


open = open_study  # what `ts.open` is called


def check_exists(path: Path) -> None:
    """Refuse a path at which there is nothing.

    Args:
        path: what a user gave.
    """
    if not path.exists():
        raise InvalidInputError(
            f"{path} does not exist. Give a run directory (make one with: taskspace "
            f"run msd), a matrix file ({', '.join(READABLE_SUFFIXES)}) or a set-cover "
            "file."
        )


def _axes(axes: Iterable[dict[str, Any]]) -> tuple[ContextAxis, ...]:
    """The axes that a manifest tells; `label` follows from the others."""
    numbers = ("default", "low", "high")  # JSON has infinite numbers as text
    fields: list[dict[str, Any]] = [
        {k: float(v) if k in numbers else v for k, v in axis.items() if k != "label"}
        for axis in axes
    ]
    return tuple(ContextAxis(**each) for each in fields)
