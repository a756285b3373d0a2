"""Work in several processes, for systems that are plain Python.

New processes take seconds to start, so one pool is kept for the life of the program,
and this process works on its own until the pool is ready: a little work is never
slower for having asked for processes. The pool is renewed when a module of the user's
changes on disk, or old code would go on working.
"""

import atexit
import multiprocessing
import os
import pickle
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taskspace._util.processes import follow_parent
from taskspace.errors import InvalidInputError, TaskspaceError

CHUNKS_PER_WORKER = 8


@dataclass(frozen=True, eq=False)
class _Pool:
    """Worker processes, and the signs that each of them has started."""

    executor: ProcessPoolExecutor
    started: list[Future[int]]
    workers: int
    files: dict[str, int]

    def stop(self) -> None:
        """End the processes without waiting for their work."""
        processes = list((self.executor._processes or {}).values())
        self.executor.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()


_kept: list[_Pool] = []
"""The pool that is kept for the next call; one at most."""


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
    shared = _pack(function)
    job = _Job(items, max(1, len(items) // (workers * CHUNKS_PER_WORKER)))
    pool = _pool(workers)
    feeders = [
        threading.Thread(target=job.feed, args=(pool, shared), daemon=True)
        for _ in range(workers)
    ]
    try:
        for feeder in feeders:
            feeder.start()
        # Alone until the first process is there, from the other end of the queue.
        while not any(done.done() for done in pool.started) and (mine := job.take(1)):
            job.results[mine[0]] = function(items[mine[0]])
        for feeder in feeders:
            while feeder.is_alive():
                feeder.join(0.1)  # in short waits, so that Ctrl-C is heard
    except BaseException as error:
        job.todo.clear()
        if not isinstance(error, Exception):  # Ctrl-C: the rest is not waited for
            _discard(pool)
        raise
    if job.errors:
        raise job.errors[0]
    return job.results


class _Job:
    """Items that wait, taken from both ends."""

    def __init__(self, items: Sequence[Any], chunk: int):
        self.items, self.chunk = items, chunk
        self.todo = deque(range(len(items)))
        self.results: list[Any] = [None] * len(items)
        self.errors: list[Exception] = []
        self.lock = threading.Lock()

    def take(self, n: int, last: bool = False) -> list[int]:
        """Numbers of some items that no worker has."""
        with self.lock:
            n = 0 if self.errors else min(n, len(self.todo))
            pop = self.todo.pop if last else self.todo.popleft
            return [pop() for _ in range(n)]

    def feed(self, pool: _Pool, shared: bytes) -> None:
        """Hand chunks to one process after the other, until none are left."""
        try:
            wait(pool.started, return_when="FIRST_COMPLETED")
            while numbers := self.take(self.chunk, last=True):
                chunk = _pack([self.items[n] for n in numbers])
                answer = pool.executor.submit(_work, sys.path, shared, chunk).result()
                if isinstance(answer, Exception):
                    raise answer
                for number, value in zip(numbers, answer, strict=True):
                    self.results[number] = value
        except BrokenProcessPool:
            _discard(pool)
            self.errors.append(
                TaskspaceError(
                    "The worker processes ended before their work was done: a script "
                    'must have its own work below `if __name__ == "__main__":`, and '
                    "memory must suffice. workers=0 works in this process."
                )
            )
        except Exception as error:
            self.errors.append(error)


def _pool(workers: int) -> _Pool:
    """Return the pool that is kept, or a new one."""
    files = _code_on_disk()
    if _kept:
        pool = _kept[0]
        changed = any(files.get(name) != time for name, time in pool.files.items())
        if pool.workers == workers and not changed:
            return pool
        _discard(pool)
    spawn = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(
        workers, mp_context=spawn, initializer=follow_parent, initargs=(os.getpid(),)
    )
    started = [executor.submit(_started) for _ in range(workers)]
    pool = _Pool(executor, started, workers, files)
    _kept.append(pool)
    return pool


def _discard(pool: _Pool) -> None:
    if pool in _kept:
        _kept.remove(pool)
    pool.stop()


@atexit.register
def _stop_all() -> None:
    while _kept:
        _discard(_kept[0])


def _code_on_disk() -> dict[str, int]:
    """Return imported modules that are not installed, and the times of their files."""
    found = {}
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if not path or path.startswith((sys.prefix, sys.base_prefix)):
            continue
        try:
            found[name] = Path(path).stat().st_mtime_ns
        except OSError:
            continue
    return found


def _started() -> int:
    return 0


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


def _work(path: list[str], shared: bytes, chunk: bytes) -> list[Any] | Exception:
    """Return what a chunk gives, or the error that it ended with."""
    try:
        sys.path.extend(place for place in path if place not in sys.path)
        function = pickle.loads(shared)
        return [function(item) for item in pickle.loads(chunk)]
    except Exception as error:
        if not isinstance(error, TaskspaceError):
            error.add_note(f"In a worker process:\n{traceback.format_exc()}")
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return TaskspaceError(f"{type(error).__name__}: {error}")
        return error
