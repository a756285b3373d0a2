"""One writer a run directory."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from taskspace.errors import RunStoreError

try:
    import fcntl
except ImportError:  # pragma: no cover - not on this system
    fcntl = None

__all__ = ["locked"]


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
    """The lock file, held; the one that is there, not one just removed."""
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
