"""Paths that commands take: a run directory, a matrix file, a set-cover file."""

from dataclasses import dataclass, replace
from pathlib import Path

import xarray as xr

from taskspace.cover.files import SetCoverProblem, read_set_cover_file
from taskspace.errors import InvalidInputError
from taskspace.performance.files import read_matrix
from taskspace.runs import RunStore
from taskspace.runs.store import is_run

__all__ = ["TableInput", "load_set_cover", "load_table"]


@dataclass(frozen=True)
class TableInput:
    """A performance table, and the run it came from if there is one.

    Args:
        table: the performance table.
        run: the run, None for a matrix file.
    """

    table: xr.Dataset
    run: RunStore | None

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of the source grid, None if the sources are not on a grid."""
        sources = self.run.experiment.sources if self.run else None
        return getattr(sources, "shape", None)


def load_table(path: Path, *, lower_is_better: bool = False) -> TableInput:
    """The performance table of a run directory or a matrix file."""
    _check_exists(path)
    if path.is_dir():
        if lower_is_better:
            raise InvalidInputError(
                "--lower-is-better is for matrix files; in a run larger performance "
                "is always better."
            )
        run = RunStore.open(path)
        return TableInput(run.table(), run)
    return TableInput(read_matrix(path, lower_is_better=lower_is_better), None)


def load_set_cover(path: Path, *, unicost: bool = False) -> SetCoverProblem:
    """A set-cover file; see `taskspace.cover.files` for the formats."""
    _check_exists(path)
    if is_run(path):
        raise InvalidInputError(
            f"{path} is a run, so --epsilon is needed, e.g. --epsilon 0.2."
        )
    problem = read_set_cover_file(path)
    return replace(problem, costs=None) if unicost else problem


def _check_exists(path: Path) -> None:
    if not path.exists():
        raise InvalidInputError(
            f"{path} does not exist. Give a run directory (make one with: taskspace "
            "run msd), a matrix file (.csv, .npy, .npz) or a set-cover file."
        )
