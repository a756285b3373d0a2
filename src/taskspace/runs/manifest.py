"""What is a run directory, whether it is ours, who writes it, what two differ in."""

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from taskspace._util.files import no_links_out
from taskspace.errors import RunStoreError
from taskspace.performance.store import MANIFEST

try:
    import fcntl
except ImportError:  # pragma: no cover - not on this system
    fcntl = None

TRAININGS = "trainings"
"""The folder of what is trained and tried."""

FORMER = "manifest.json"
"""The manifest of format 2."""

OUR_NAMES = {
    "experiment.toml", TRAININGS, "results.json", "figures", ".lock",
    "selection.jsonl", "explore.html",
}  # fmt: skip
MARKS = (
    TRAININGS, "selection.jsonl",
    FORMER, "selection.json", "best_known.json", "blocks", "table.zarr",
)  # fmt: skip
"""What tells a run directory from a folder where somebody keeps experiments."""


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


def check_ours(path: Path) -> None:
    """Refuse to write into a directory with anything else in it, or with links out.

    Args:
        path: where a run shall be written.
    """
    if path.exists() and not path.is_dir():
        raise RunStoreError(f"{path} must be a directory, but is a file.")
    if not path.is_dir():
        return
    if (path / FORMER).is_file() and not (path / TRAININGS).exists():
        raise RunStoreError(
            f"{path} has run format 2, which is read, but not written any more. "
            "Nothing was changed. Choose another directory with --out."
        )
    foreign = [
        item.name
        for item in path.iterdir()
        if item.name not in OUR_NAMES
        and not item.name.startswith((".partial-", "earlier-"))
    ]
    if foreign:
        raise RunStoreError(
            f"{path} is not a run directory and not empty (it holds {foreign[0]!r}). "
            "Nothing was changed. Choose another directory with --out."
        )
    no_links_out(path)


def difference(there: Any, here: Any, path: str = "") -> str:
    """Return the first value in which two plain structures differ, as a clause.

    Args:
        there: what is stored.
        here: what is asked for.
        path: keys that lead to them.
    """
    if isinstance(there, dict) and isinstance(here, dict):
        for key in there | here:
            inner = difference(there.get(key), here.get(key), f"{path}.{key}")
            if inner:
                return inner
        return ""
    if isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        for i, (a, b) in enumerate(zip(there, here, strict=True)):
            inner = difference(a, b, f"{path}.{i}")
            if inner:
                return inner
        return ""
    if there == here:
        return ""
    return f"{path.lstrip('.')} is {there!r} there and {here!r} here"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a run directory; another process that holds it is an error.

    The operating system lets go of the lock when its holder ends, however it ends, so
    there are no stale ones.

    Args:
        path: the run directory; made if it is not there.
    """
    path.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    file = _take(path)
    try:
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
    finally:
        (path / ".lock").unlink(missing_ok=True)
        file.close()


def _no_link(name: str, flags: int) -> int:
    """Open a file, but not what a link in its place points to."""
    return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o644)


def _take(path: Path) -> IO[str]:
    """Hold the lock file that is there, not one just removed."""
    assert fcntl is not None
    while True:
        file = open(path / ".lock", "a+", opener=_no_link)  # noqa: SIM115
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            file.close()
            raise RunStoreError(
                f"{path} is being written by another process (number {holder}). Wait "
                "until it has ended, or choose another directory with --out."
            ) from None
        try:
            if os.stat(path / ".lock").st_ino == os.fstat(file.fileno()).st_ino:
                return file
        except FileNotFoundError:
            pass
        file.close()
