"""What a path is (a run, a zip of one, a selection, a matrix file), and its study."""

import atexit
import shutil
import tempfile
import zipfile
from functools import cache
from inspect import signature
from pathlib import Path, PurePosixPath
from typing import Any

from taskspace._util.files import UNREADABLE, data_size
from taskspace.errors import InvalidInputError, RunStoreError, UnknownNameError
from taskspace.performance.io import MATRIX_SUFFIXES, read_matrix
from taskspace.performance.study import Study

TRAININGS = "trainings"
"""The folder of what is trained and tried."""

RUN = "run.json"
"""What a run says of itself."""

EXPERIMENT = "experiment.toml"


def is_run(path: str | Path) -> bool:
    """Return whether a path is a run directory, or a zip file of one.

    Args:
        path: any path.
    """
    path = Path(path)
    if path.is_file():
        return _run_in_zip(path) is not None
    return (path / EXPERIMENT).is_file() and (path / RUN).is_file()


def _run_in_zip(path: Path) -> str | None:
    """Return where in a zip file a run is, None if it holds none."""
    if path.suffix.lower() != ".zip":
        return None
    try:
        with zipfile.ZipFile(path) as file:
            names = file.namelist()
    except UNREADABLE as error:
        raise InvalidInputError(f"{path} is not a whole zip file: {error}.") from error
    for name in names:
        prefix = name.removesuffix(EXPERIMENT)
        if prefix != name and f"{prefix}{RUN}" in names:
            return prefix
    return None


def run_folder(path: str | Path) -> Path:
    """Return the directory of a run; a zip file is unpacked into a temporary one.

    Args:
        path: a run directory, or a zip file of one.
    """
    path = Path(path)
    if not path.is_file():
        return path
    prefix = _run_in_zip(path)
    if prefix is None:
        raise RunStoreError(
            f"{path} must be a run directory or a zip file of one, but it has no "
            f"{EXPERIMENT} and {RUN}."
        )
    stamp = path.stat()
    folder = _unpacked(path.resolve(), stamp.st_mtime_ns, stamp.st_size)
    return Path(folder) / prefix


@cache
def _unpacked(path: Path, *stamp: int) -> str:
    """Return a folder with the files of a zip file; it goes when the process ends."""
    del stamp
    folder = tempfile.mkdtemp(prefix="taskspace-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        with zipfile.ZipFile(path) as file:
            members = file.infolist()
            for member in members:
                place = PurePosixPath(member.filename)
                if place.is_absolute() or ".." in place.parts:
                    raise ValueError(f"{member.filename} leads out of it")
            if len({member.filename for member in members}) < len(members):
                raise ValueError("it holds a name twice")
            size = sum(member.file_size for member in members)
            free = shutil.disk_usage(folder).free
            if size > free:
                raise ValueError(
                    f"it declares {data_size(size)}, and {data_size(free)} are free"
                )
            file.extractall(folder)
    except UNREADABLE as error:
        raise RunStoreError(f"{path} cannot be unpacked: {error}.") from error
    return folder


def is_selection(path: str | Path) -> bool:
    """Return whether the sources of a run were chosen one after the other.

    Args:
        path: any path.
    """
    return is_run(path) and (run_folder(path) / "selection.jsonl").is_file()


def is_in_a_run(file: Path) -> bool:
    """Return whether a file lies in a run directory, also in what is left of one.

    Args:
        file: an experiment, or a link to one.
    """
    folders = (file.parent, file.resolve().parent)
    marks = (RUN, TRAININGS, "selection.jsonl")
    return any((folder / name).exists() for folder in folders for name in marks)


def open_study(path: str | Path, *, trust: bool = False, **reading: Any) -> Study:
    """Open a run, a zip file of one, a selection or a matrix file as a study.

    Args:
        path: a run directory, a zip file of one, or a matrix file.
        trust: code that a run names may be imported where it is needed.
        reading: how to read a matrix file, see `read_matrix`; refused for anything
            else, which says it all itself.
    """
    path, stated = Path(path), {k: v for k, v in reading.items() if v is not None}
    check_exists(path)
    if path.suffix == ".npz" and path.is_file() and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as file:
            if {"experiment.npy", "notes.npy"} <= set(file.namelist()):
                raise RunStoreError(
                    f"{path} is an archive of a run, which this version of taskspace "
                    "does not read. Run its experiment again into a directory."
                )
    if is_run(path) or (path.is_dir() and path.suffix.lower() not in MATRIX_SUFFIXES):
        if stated and stated != {"lower_is_better": False}:
            raise InvalidInputError(
                f"{next(iter(stated))} (--read) is for matrix files; in a run larger "
                "performance is always better, and targets and contexts are known."
            )
        from taskspace.runs.folder import RunFolder  # a matrix needs none of it

        return RunFolder.open(path, trust=trust).study()
    known = [name for name in signature(read_matrix).parameters if name != "data"]
    for name in stated:
        if name not in known:
            raise UnknownNameError("keyword of reading a matrix:", name, known)
    table = read_matrix(path, **stated)
    return Study(origin=str(path), parts={"table": lambda: table}, reading=stated)


open = open_study  # what `ts.open` is called


def check_exists(path: Path) -> None:
    """Refuse a path at which there is nothing.

    Args:
        path: what a user gave.
    """
    if not path.exists():
        raise InvalidInputError(
            f"{path} does not exist. Give a run directory (make one with: taskspace "
            f"run msd) or a matrix file ({', '.join(MATRIX_SUFFIXES)})."
        )
