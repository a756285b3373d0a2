"""Work in several processes, for systems that are plain Python.

New processes take seconds to start, so one `ProcessPoolExecutor` is kept for the next
call. A module of the user's that changes on disk needs a new one, or old code would go
on working.
"""

import multiprocessing
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from taskspace._util.processes import follow_parent
from taskspace.errors import InvalidInputError, TaskspaceError

CHUNKS_PER_WORKER = 8

Code = frozenset[tuple[str, int]]
"""Modules of the user's, and when their files were last changed."""


def parallel_map(
    function: Callable[[Any], Any], items: Sequence[Any], workers: int
) -> list[Any]:
    """`[function(item) for item in items]`, in some processes.

    The processes start afresh (no fork), so a script that uses them must have its
    own work below `if __name__ == "__main__":`. They are kept for the next call.

    Args:
        function: what to do with one item; anything that can be pickled, or with
            `cloudpickle` (part of the extra `rl`) also lambdas and closures.
        items: the items.
        workers: processes; 0 works in this one.
    """
    if workers < 0:
        raise InvalidInputError(f"workers >= 0 must hold, but got {workers}.")
    if workers == 0 or len(items) < 2:
        return [function(item) for item in items]
    work = partial(_work, sys.path, _pack(function))
    packed = [_pack(item) for item in items]
    chunk = max(1, len(items) // (workers * CHUNKS_PER_WORKER))
    pool = kept_pool(workers, _code_on_disk())
    try:
        return list(pool.map(work, packed, chunksize=chunk))
    except BrokenProcessPool as error:
        kept_pool.cache_clear()
        raise TaskspaceError(
            "The worker processes ended before their work was done: a script must have "
            'its own work below `if __name__ == "__main__":`, and memory must suffice. '
            "workers=0 works in this process."
        ) from error
    except KeyboardInterrupt:
        # The rest is not waited for.
        kept_pool.cache_clear()
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        raise


@lru_cache(maxsize=1)
def kept_pool(workers: int, code: Code) -> ProcessPoolExecutor:
    """Return worker processes; those of the last call if nothing has changed since.

    Args:
        workers: how many.
        code: what they may import, as it is now.
    """
    del code
    return ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=follow_parent,
        initargs=(os.getpid(),),
    )


def _code_on_disk() -> Code:
    """Return imported modules that are not installed, and the times of their files."""
    found = set()
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if not path or path.startswith((sys.prefix, sys.base_prefix)):
            continue
        try:
            found.add((name, Path(path).stat().st_mtime_ns))
        except OSError:
            continue
    return frozenset(found)


def _pack(work: Any) -> bytes:
    try:
        import cloudpickle

        return cloudpickle.dumps(work)
    except ImportError:
        pass
    try:
        return pickle.dumps(work)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidInputError(
            f"This work cannot be sent to other processes: {error}. Define functions "
            "and classes at the top of a module, install the extra 'rl' (cloudpickle), "
            "or set workers=0."
        ) from error


def _work(path: list[str], function: bytes, item: bytes) -> Any:
    """Do the work on one item; an error that cannot travel becomes a sentence."""
    sys.path.extend(place for place in path if place not in sys.path)
    try:
        return pickle.loads(function)(pickle.loads(item))
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            raise TaskspaceError(f"{type(error).__name__}: {error}") from None
        raise
