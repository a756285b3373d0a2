"""Where compiled kernels are kept when the usual places cannot be written.

Importing this module sees to it. Every package with kernels does so before anything
else; `import taskspace` alone changes nothing.
"""

import os
import stat
import sys
import tempfile
from pathlib import Path


def keep_kernels_somewhere() -> None:
    """Give Numba a cache folder where it would find none and fail.

    Numba keeps compiled functions beside their source or in the user's cache; where
    neither can be written (a read-only installation and home) importing a kernel is an
    error. A folder of the user's own below the temporary directory will do: never one
    that others can write, because what is in it is run.
    """
    if os.environ.get("NUMBA_CACHE_DIR"):
        return
    beside = Path(__file__).parent / "__pycache__"
    if _is_writable(beside) or _is_writable(_users_cache()):
        return
    try:
        folder = _private_folder()
    except OSError:
        return  # Numba will say what is wrong
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    if "numba" in sys.modules:  # it has read the variable already
        sys.modules["numba"].config.CACHE_DIR = str(folder)


def _users_cache() -> Path:
    folder = os.environ.get("XDG_CACHE_HOME")
    return Path(folder) if folder else Path(os.path.expanduser("~")) / ".cache"


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _private_folder() -> Path:
    """Return a folder that only this user can write, the same one the next time."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"taskspace-kernels-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    facts = folder.lstat()
    if (
        stat.S_ISDIR(facts.st_mode)
        and facts.st_uid == user
        and not facts.st_mode & 0o077
    ):
        return folder
    return Path(tempfile.mkdtemp(prefix="taskspace-kernels-"))


keep_kernels_somewhere()
