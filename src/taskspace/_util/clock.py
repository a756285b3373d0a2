"""The one clock of all searches: processor seconds of this process.

A search that closes does the same work on an idle and on a busy machine, so its limit
counts processor time. Compiling or loading kernels is not counted: Numba compiles a
kernel when it is first called, which takes up to a minute in a fresh installation.
Numba announces both by its events, and commands say what takes so long.
"""

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from taskspace.errors import InvalidInputError

__all__ = ["Clock", "compilations_told", "compiled_seconds"]

MAX_RATIO = 5.0
"""Wall seconds per processor second that a solver gets which knows only the former."""


class Clock:
    """Processor seconds since it was made, and what is left of a limit.

    Args:
        limit: seconds; None means no limit.
        on_wall: count wall-clock seconds: for work that other processes do, such as
            playing episodes.
    """

    def __init__(self, limit: float | None = None, *, on_wall: bool = False):
        if limit is not None and not limit >= 0:
            raise InvalidInputError(
                f"time_limit >= 0 must hold, but got time_limit={limit}."
            )
        self._on_wall = on_wall
        self._limit = float("inf") if limit is None else float(limit)
        self.restart()

    def restart(self) -> None:
        """Begin to count now: what came before, such as reading, is not counted."""
        self._wall, self._compiled = time.perf_counter(), compiled_seconds()
        self._start = time.process_time()

    @property
    def seconds(self) -> float:
        """Wall-clock time since the clock was made."""
        return time.perf_counter() - self._wall

    @property
    def spent(self) -> float:
        """Processor seconds since the clock was made, without those of compilers."""
        compiled = compiled_seconds() - self._compiled
        return time.process_time() - self._start - compiled

    @property
    def left(self) -> float:
        """Seconds left of the limit, at least 0."""
        spent = self.seconds if self._on_wall else self.spent
        return max(0.0, self._limit - spent)

    @property
    def wall_left(self) -> float:
        """Wall-clock seconds that the rest of the limit takes, at the rate so far.

        At most five times the processor seconds. For solvers that know no other clock.
        """
        left = self.left
        return left * min(MAX_RATIO, max(1.0, self.seconds / max(self.spent, 1e-3)))


def compiled_seconds() -> float:
    """Return the processor seconds spent on compiling or loading kernels.

    Those before the first call are not counted.
    """
    return _watch().seconds


@contextmanager
def compilations_told(tell: Callable[[str, bool], None]) -> Iterator[None]:
    """Call back when a kernel starts and ends compiling; not when it is loaded.

    Args:
        tell: takes the name of the kernel, and whether it is compiled by now.
    """
    from numba.core.event import Event, Listener, install_listener

    def name(event: Event) -> str:
        assert event.data is not None
        return event.data["dispatcher"].py_func.__name__

    class Teller(Listener):
        def on_start(self, event: Event) -> None:
            tell(name(event), False)

        def on_end(self, event: Event) -> None:
            tell(name(event), True)

    with install_listener("numba:compile", Teller()):
        yield


@functools.cache
def _watch() -> Any:
    """Count the seconds in which Numba's compiler is busy, from now on."""
    from numba.core.event import Event, Listener, register

    class Watch(Listener):
        depth, since, total = 0, 0.0, 0.0  # kernels compile the kernels they call

        def on_start(self, event: Event) -> None:
            if self.depth == 0:
                self.since = time.process_time()
            self.depth += 1

        def on_end(self, event: Event) -> None:
            self.depth -= 1
            if self.depth == 0:
                self.total += time.process_time() - self.since

        @property
        def seconds(self) -> float:
            busy = time.process_time() - self.since if self.depth else 0.0
            return self.total + busy

    watch = Watch()
    register("numba:compiler_lock", watch)
    return watch
