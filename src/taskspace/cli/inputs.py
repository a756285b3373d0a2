"""Paths that commands take: runs, archives of runs, matrix and set-cover files."""

from dataclasses import dataclass, replace
from pathlib import Path

import xarray as xr

from taskspace.cover.files import SetCoverProblem, read_set_cover_file
from taskspace.errors import InvalidInputError
from taskspace.performance.files import MATRIX_SUFFIXES, read_matrix
from taskspace.runs import Experiment, RunStore
from taskspace.runs.archive import is_archive, read_archive
from taskspace.runs.store import is_run

__all__ = ["TableInput", "load_set_cover", "load_table"]


@dataclass(frozen=True)
class TableInput:
    """A performance table, and the run it came from if there is one.

    Args:
        table: the performance table.
        run: the run, None for a file.
        experiment: the experiment of a run or an archive, None for a matrix file.
    """

    table: xr.Dataset
    run: RunStore | None = None
    experiment: Experiment | None = None

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of the source grid, None if the sources are not on a grid."""
        sources = self.experiment.sources if self.experiment else None
        return getattr(sources, "shape", None)


def load_table(
    path: Path, *, lower_is_better: bool = False, contexts: Path | None = None
) -> TableInput:
    """The performance table of a run directory, an archive or a matrix file.

    Args:
        path: the run, archive or file.
        lower_is_better: a matrix file holds costs.
        contexts: a second file with the contexts of a matrix file.
    """
    _check_exists(path)
    archived = is_archive(path)
    is_matrix = path.suffix in MATRIX_SUFFIXES and not archived and not is_run(path)
    if not is_matrix and (lower_is_better or contexts):
        option = "--contexts" if contexts else "--lower-is-better"
        raise InvalidInputError(
            f"{option} is for matrix files; in a run larger performance is always "
            "better and contexts are known."
        )
    if archived:
        table, experiment = read_archive(path)
        return TableInput(table, experiment=experiment)
    if path.is_dir() and not is_matrix:
        run = RunStore.open(path)
        return TableInput(run.table(), run, run.experiment)
    return TableInput(
        read_matrix(path, contexts=contexts, lower_is_better=lower_is_better)
    )


def load_set_cover(path: Path, *, unicost: bool = False) -> SetCoverProblem:
    """A set-cover file; see `taskspace.cover.files` for the formats."""
    _check_exists(path)
    if is_run(path) or is_archive(path):
        raise InvalidInputError(
            f"{path} is a run, so --epsilon is needed, e.g. --epsilon 0.2."
        )
    problem = read_set_cover_file(path)
    return replace(problem, costs=None) if unicost else problem


def _check_exists(path: Path) -> None:
    if not path.exists():
        raise InvalidInputError(
            f"{path} does not exist. Give a run directory (make one with: taskspace "
            f"run msd), a matrix file ({', '.join(MATRIX_SUFFIXES)}) or a set-cover "
            "file."
        )
