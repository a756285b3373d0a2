"""Work in threads: searches beside each other, and solvers that hear no signals."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from taskspace.cover.base import Clock

T = TypeVar("T")


def interruptible(work: Callable[[], T], stop: Callable[[], object] | None = None) -> T:
    """Return what a solver in C++ returns, so that Ctrl-C ends the wait for it.

    Python raises signals in the main thread, and there not before C++ has returned.

    Args:
        work: calls the solver.
        stop: asks the solver to return; without it an interrupted solver is left
            behind until its own time limit, or the end of the process.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # raised again where it is waited for
            future.set_exception(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        return future.result()
    finally:
        while stop is not None and not future.done():
            stop()
            thread.join(0.05)


class Beside:
    """Work in a thread of its own, begun after a while, ended with the block.

    Args:
        work: called with the clock, which ends it.
        clock: whose time limit counts.
        delay: seconds before it begins.
        stop: asks the work to end, where the clock does not.
    """

    def __init__(
        self,
        work: Callable[[Clock], object],
        clock: Clock,
        delay: float = 0.0,
        stop: Callable[[], object] = lambda: None,
    ):
        self._clock, self._stop = clock, stop
        self._end = threading.Event()

        def run() -> None:
            if not self._end.wait(min(delay, clock.left)):
                work(clock)

        self._thread = threading.Thread(target=run, daemon=True)

    def __enter__(self) -> "Beside":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._clock.stop()
        self._stop()
        self._thread.join()

    def wait(self, seconds: float) -> None:
        """Wait for the work to be done.

        Args:
            seconds: at most so long.
        """
        self._thread.join(seconds)
