"""Who does the work: this process, processes of this machine, or a Dask cluster."""

import contextlib
import gc
import importlib.util
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pickle import PicklingError
from typing import Any, final

from taskspace._util.threads import follow_parent
from taskspace.errors import MissingExtraError, RunStoreError


def one_thread() -> dict[str, str]:
    """Keep a worker to one thread; libraries read it when they are imported."""
    flags = os.environ.get("XLA_FLAGS", "")
    return {
        "NUMBA_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "NPROC": "1",  # XLA's pool of threads
        "XLA_FLAGS": f"{flags} --xla_cpu_multi_thread_eigen=false",
    }


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
        """How many pieces of work are done at the same time, now."""
        return self._n_workers

    @property
    def at_once(self) -> int:
        """How many pieces of work to hand out at a time."""
        return self._n_ahead * self.n_workers

    def check(self) -> None:
        """Raise if the work in hand will not be done by anyone; a pool says it."""

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
def engine(
    workers: int,
    scheduler: str | None,
    say: Callable[[str], None] | None = None,
) -> Iterator[Engine]:
    """Open who does the work; what ends them is said in one sentence.

    Args:
        workers: processes of this machine; 0 works in this one.
        scheduler: address of a Dask scheduler, or `"local"` to start one.
        say: told what a person may want to know, e.g. where a dashboard is.
    """
    if scheduler is not None:
        opened = _dask(scheduler, max(1, workers), say or (lambda _: None))
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
    threads = one_thread()
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
        self._client, self._address = client, address
        self._without: float | None = None

    @property
    def n_workers(self) -> int:
        """Threads of all workers that are there now."""
        return max(1, self._threads())

    def _threads(self) -> int:
        try:
            return sum(self._client.nthreads().values())
        except Exception as error:  # whatever a broken connection raises
            raise RunStoreError(self._gone()) from error

    def check(self) -> None:
        """Check that the scheduler answers, and is not without workers for long."""
        if self._client.status != "running":
            raise RunStoreError(self._gone())
        if self._threads():
            self._without = None
        elif self._without is None:
            self._without = time.monotonic()
        elif time.monotonic() - self._without > SCHEDULER_WAIT:
            raise RunStoreError(
                f"The Dask scheduler at {self._address} has lost all its workers "
                f"(waited {SCHEDULER_WAIT:g} s). {KEPT}."
            )

    def why(self, error: BaseException) -> str:
        """Whether workers, or the scheduler, went away."""
        from distributed import KilledWorker
        from distributed.comm.core import CommClosedError

        if isinstance(error, KilledWorker):
            return (
                "Several Dask workers ended while they did the same piece of work (out "
                f"of memory?). {KEPT}, perhaps on workers with more memory."
            )
        if isinstance(error, CancelledError | CommClosedError | TimeoutError):
            return self._gone()
        return ""

    def _gone(self) -> str:
        return f"The Dask scheduler at {self._address} has gone away. {KEPT}."


@contextlib.contextmanager
def _dask(address: str, workers: int, say: Callable[[str], None]) -> Iterator[Engine]:
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise MissingExtraError("Running on a Dask scheduler", "dask") from error
    cluster = None
    with contextlib.ExitStack() as stack:
        if address == "local":
            cluster = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",
                env=one_thread(),
            )
            stack.enter_context(cluster)
            address = cluster.scheduler_address
            say(f"Dashboard: {_dashboard(cluster.dashboard_link)}")
        # A client that could not connect closes itself when it is collected. If that
        # happens while another one starts, both wait for one lock for ever.
        gc.collect()
        try:
            client = stack.enter_context(
                Client(address, timeout=CONNECT_WAIT, set_as_default=False)
            )
        except (OSError, ValueError) as error:
            raise RunStoreError(
                f"There is no Dask scheduler at {address} that answers within "
                f"{CONNECT_WAIT:g} s ({_first_line(error)}). Start one with: dask "
                "scheduler"
            ) from error
        try:
            client.wait_for_workers(1, timeout=SCHEDULER_WAIT)
        except TimeoutError as error:
            raise RunStoreError(
                f"The Dask scheduler at {address} has no worker (waited "
                f"{SCHEDULER_WAIT:g} s). Start one with: dask worker {address}"
            ) from error
        try:
            yield _Dask(client, address)
        except BaseException:
            # Whatever ended the work: workers of ours that are busy would take seconds.
            for nanny in cluster.workers.values() if cluster else ():
                nanny.auto_restart = False
                with contextlib.suppress(OSError, TypeError):
                    os.kill(nanny.pid, signal.SIGKILL)
            raise


def _dashboard(link: str) -> str:
    """Return the page of a scheduler; the one with plots needs another package."""
    if importlib.util.find_spec("bokeh"):
        return link
    return link.removesuffix("status") + "info/main/workers.html"


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
