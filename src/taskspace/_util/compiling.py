"""When Numba compiles kernels: time that no search uses, and worth a word.

Numba compiles a kernel when it is first called, and keeps it on the disk. In a fresh
installation that takes up to a minute. Clocks of searches stand still meanwhile, and
commands say what takes so long. Numba announces both by its events.
"""

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def compiled_seconds() -> float:
    """Return the processor seconds spent on compiling or loading kernels.

    Those before the first call are not counted.
    """
    return _watch().seconds


@contextmanager
def compilations_told(tell: Callable[[str, bool], None]) -> Iterator[None]:
    """Tell when a kernel is compiled, and when that is done; not when it is loaded.

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
