"""Opening a path as a study: a run, a selection, an archive or a matrix file."""

from pathlib import Path
from typing import Any

from taskspace.errors import InvalidInputError
from taskspace.performance.io import READABLE_SUFFIXES, read_matrix
from taskspace.performance.parts import StudyParts
from taskspace.performance.study import Study
from taskspace.runs.manifest import is_archive, is_run

NOT_GIVEN = (None, (), "", "error")
"""Values that an option of reading has where a user does not give it; False is one
that is given."""


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
        from taskspace.runs.archive import read_archive  # a matrix needs none of it

        return read_archive(path, trust=trust)
    if is_run(path) or (path.is_dir() and path.suffix.lower() not in READABLE_SUFFIXES):
        _refuse_reading(reading)
        from taskspace.runs.store import RunStore

        return RunStore.open(path, trust=trust).study()
    table = read_matrix(path, **reading)
    stated = {k: v for k, v in reading.items() if v not in NOT_GIVEN}
    parts = StudyParts(origin=str(path), table=lambda: table, reading=stated)
    return Study(parts)


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
