"""Who does the work: this process, processes of this machine, or a Dask cluster."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import Any

from taskspace.errors import MissingExtraError, RunStoreError

__all__ = ["Here", "engine"]

# Libraries read these when they are imported, so they must be set before a start.
ONE_THREAD = {
    "NUMBA_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NPROC": "1",  # XLA's pool of threads
}
SCHEDULER_WAIT = 20.0


class Here(Executor):
    """Does each piece at once, in this process."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Do it now.

        Args:
            fn: what to do.
            args: its arguments.
            kwargs: its named arguments.
        """
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@contextlib.contextmanager
def engine(workers: int, scheduler: str | None) -> Iterator[tuple[Executor, int]]:
    """An executor, and how many pieces of work to hand it at a time.

    Args:
        workers: processes of this machine; 0 works in this one.
        scheduler: address of a Dask scheduler, or `"local"` to start one.
    """
    if scheduler is not None:
        with _dask(scheduler, max(1, workers)) as found:
            yield found
    elif workers == 0:
        yield Here(), 1
    else:
        with _processes(workers) as pool:
            yield pool, 2 * workers


@contextlib.contextmanager
def _processes(workers: int) -> Iterator[Executor]:
    flags = os.environ.get("XLA_FLAGS", "")
    threads = ONE_THREAD | {"XLA_FLAGS": f"{flags} --xla_cpu_multi_thread_eigen=false"}
    before = {name: os.environ.get(name) for name in threads}
    os.environ.update(threads)
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(
        workers, mp_context=spawn, initializer=_follow_parent, initargs=(os.getpid(),)
    )
    try:
        yield pool
    except BaseException:
        # Whatever ended the work: the processes must not outlive it.
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    else:
        pool.shutdown()
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _follow_parent(parent: int) -> None:
    """Leave Ctrl-C to the parent, and end when it ends, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def _dask(address: str, workers: int) -> Iterator[tuple[Executor, int]]:
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise MissingExtraError("Running on a Dask scheduler", "dask") from error
    with contextlib.ExitStack() as stack:
        if address == "local":
            cluster = LocalCluster(n_workers=workers, threads_per_worker=1)
            stack.enter_context(cluster)
            address = cluster.scheduler_address
        try:
            client = stack.enter_context(Client(address, timeout=10))
            client.wait_for_workers(1, timeout=SCHEDULER_WAIT)
        except TimeoutError as error:
            raise RunStoreError(
                f"The Dask scheduler at {address} does not answer or has no worker "
                f"(waited {SCHEDULER_WAIT:g} s). Start one with: dask worker {address}"
            ) from error
        except (OSError, ValueError) as error:
            raise RunStoreError(
                f"There is no Dask scheduler at {address}: {error}."
            ) from error
        threads: Any = client.nthreads()
        n_threads = sum(threads.values())
        yield client.get_executor(), 2 * n_threads
