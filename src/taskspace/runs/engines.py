"""Who does the work: this process, processes of this machine, or a Dask cluster."""

import contextlib
import gc
import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pickle import PicklingError
from typing import Any, final

from taskspace._util.threads import follow_parent
from taskspace.errors import MissingExtraError, RunStoreError

CONNECT_WAIT = 10.0
SCHEDULER_WAIT = 20.0
"""Seconds that a scheduler may take to answer, and be without any worker."""

KEPT = "Everything finished is kept: run the same command to go on"


class Engine:
    """An executor, how much it can take, and what its failures mean.

    Args:
        executor: takes the work.
        n_workers: pieces of work that are done at the same time.
        n_ahead: pieces to hand out per worker, so that no worker waits.
    """

    def __init__(self, executor: Executor, n_workers: int, n_ahead: int = 2):
        self.executor, self._n_workers, self._n_ahead = executor, n_workers, n_ahead

    @property
    def n_workers(self) -> int:
        """Number of pieces of work that are done at the same time, now."""
        return self._n_workers

    @property
    def at_once(self) -> int:
        """Number of pieces of work to hand out at a time."""
        return self._n_ahead * self.n_workers

    def check(self) -> None:
        """Raise if no worker is left for the work in hand; a pool notices it itself."""

    def why(self, error: BaseException) -> str:
        """Return what an exception says of the workers, `""` if nothing.

        Args:
            error: what the piece of work, or handing it out, raised.
        """
        if "pickle" in str(error) or isinstance(error, PicklingError):
            return (
                f"The work cannot be sent to other processes ({_first_line(error)}). "
                "Define the classes of your policies at the top of a module, or use "
                f"--workers 0. {KEPT}."
            )
        if not isinstance(error, BrokenProcessPool):
            return ""
        return (
            "A worker process ended before its work was done (was it killed, or out "
            f"of memory?). {KEPT}, perhaps with fewer --workers."
        )


@contextlib.contextmanager
def engine(workers: int, scheduler: str | None) -> Iterator[Engine]:
    """Start the workers; if they die, raise an error that says why.

    Args:
        workers: processes of this machine; 0 works in this one.
        scheduler: address of a Dask scheduler.
    """
    if scheduler is not None:
        opened = _dask(scheduler)
    elif workers == 0:
        # What is done is written before the next piece is begun.
        opened = contextlib.nullcontext(Engine(_Here(), 1, n_ahead=1))
    else:
        opened = _processes(workers)
    with opened as crew:
        try:
            yield crew
        except BaseException as error:
            if why := crew.why(error):
                raise RunStoreError(why) from error
            raise


# --- this process -----------------------------------------------------------------


class _Here(Executor):
    """Does each piece at once, in this process."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Do it now."""
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


# --- processes of this machine ----------------------------------------------------


@contextlib.contextmanager
def _processes(workers: int) -> Iterator[Engine]:
    # Each worker keeps to one thread; libraries read this when they are imported.
    names = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NPROC")
    threads: dict[str, str] = dict.fromkeys(names, "1")  # NPROC is XLA's pool
    flags = os.environ.get("XLA_FLAGS", "")
    threads["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false"
    before = {name: os.environ.get(name) for name in threads}
    os.environ.update(threads)
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(
        workers, mp_context=spawn, initializer=follow_parent, initargs=(os.getpid(),)
    )
    try:
        yield Engine(pool, workers)
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


# --- a Dask cluster ---------------------------------------------------------------


@final
class _Dask(Engine):
    """Workers of a scheduler; they may come and go."""

    def __init__(self, client: Any, address: str):
        super().__init__(client.get_executor(pure=False), 1)
        self._client, self._last_seen = client, time.monotonic()
        self._gone = f"The Dask scheduler at {address} has gone away. {KEPT}."
        self._alone = (
            f"The Dask scheduler at {address} has lost all its workers (waited "
            f"{SCHEDULER_WAIT:g} s). {KEPT}."
        )

    @property
    def n_workers(self) -> int:
        """Threads of all workers that are there now."""
        try:
            n_threads = sum(self._client.nthreads().values())
        except Exception as error:  # whatever a broken connection raises
            raise RunStoreError(self._gone) from error
        if n_threads:
            self._last_seen = time.monotonic()
        return max(1, n_threads)

    def check(self) -> None:
        """Check that the scheduler answers, and is not without workers for long."""
        if self._client.status != "running":
            raise RunStoreError(self._gone)
        _ = self.n_workers
        if time.monotonic() - self._last_seen > SCHEDULER_WAIT:
            raise RunStoreError(self._alone)

    def why(self, error: BaseException) -> str:
        """Whether workers, or the scheduler, went away."""
        from distributed import KilledWorker
        from distributed.comm.core import CommClosedError

        if isinstance(error, KilledWorker):
            return (
                "Several Dask workers ended while they did the same piece of work (out "
                f"of memory?). {KEPT}, perhaps on workers with more memory."
            )
        is_gone = isinstance(error, CancelledError | CommClosedError | TimeoutError)
        return self._gone if is_gone else ""


@contextlib.contextmanager
def _dask(address: str) -> Iterator[Engine]:
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingExtraError("Running on a Dask scheduler", "dask") from error
    # A client that could not connect closes itself when it is collected. If that
    # happens while another one starts, both wait for one lock for ever.
    gc.collect()
    try:
        client = Client(address, timeout=CONNECT_WAIT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise RunStoreError(
            f"There is no Dask scheduler at {address} that answers within "
            f"{CONNECT_WAIT:g} s ({_first_line(error)}). Start one with: dask scheduler"
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=SCHEDULER_WAIT)
        except TimeoutError as error:
            raise RunStoreError(
                f"The Dask scheduler at {address} has no worker (waited "
                f"{SCHEDULER_WAIT:g} s). Start one with: dask worker {address}"
            ) from error
        yield _Dask(client, address)


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
