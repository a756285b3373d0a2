"""What a path is (a run, a selection, an archive, a matrix file), and its study."""

import zipfile
from inspect import signature
from pathlib import Path
from typing import Any

from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance.io import READABLE_SUFFIXES, read_matrix
from taskspace.performance.store import MANIFEST
from taskspace.performance.study import Study, StudyParts

TRAININGS = "trainings"
"""The folder of what is trained and tried."""

FORMER = "manifest.json"
"""The manifest of format 2."""

MARKS = (
    TRAININGS, "selection.jsonl",
    FORMER, "selection.json", "best_known.json", "blocks", "table.zarr",
)  # fmt: skip
"""What tells a run directory from a folder where somebody keeps experiments."""

NOT_GIVEN = (None, (), "", "error")
"""Values that an option of reading has where a user does not give it; False is one
that is given."""


def is_run(path: str | Path) -> bool:
    """Return whether a path is a run directory.

    Args:
        path: any path.
    """
    path = Path(path)
    marks = (path / TRAININGS / MANIFEST, path / FORMER)
    return (path / "experiment.toml").is_file() and any(m.is_file() for m in marks)


def is_archive(path: str | Path) -> bool:
    """Return whether a file is an archive of a run.

    Args:
        path: any path.
    """
    path = Path(path)
    try:
        if path.suffix != ".npz" or not zipfile.is_zipfile(path):
            return False
        with zipfile.ZipFile(path) as file:
            return "experiment.npy" in file.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def is_selection(path: str | Path) -> bool:
    """Return whether the sources of a run were chosen one after the other.

    Args:
        path: any path.
    """
    names = ("selection.jsonl", "selection.json")
    return any((Path(path) / name).is_file() for name in names)


def is_in_a_run(file: Path) -> bool:
    """Return whether a file lies in a run directory, also in what is left of one.

    Args:
        file: an experiment, or a link to one.
    """
    folders = (file.parent, file.resolve().parent)
    return any((folder / name).exists() for folder in folders for name in MARKS)


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
    known = [name for name in signature(read_matrix).parameters if name != "path"]
    for name in reading:
        if name not in known:
            raise UnknownNameError("keyword of reading a matrix:", name, known)
    table = read_matrix(path, **reading)
    stated = {k: v for k, v in reading.items() if v not in NOT_GIVEN}
    parts = StudyParts(origin=str(path), table=lambda: table, reading=stated)
    return Study(parts)


def _refuse_reading(reading: dict[str, Any]) -> None:
    stated = {k: v for k, v in reading.items() if v not in NOT_GIVEN}
    if stated.get("lower_is_better") is False:
        del stated["lower_is_better"]  # so it is
    option = next(iter(stated), None)
    if option is not None:
        raise InvalidInputError(
            f"{option} (--read) is for matrix files; in a run larger "
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
            f"run msd) or a matrix file ({', '.join(READABLE_SUFFIXES)})."
        )
