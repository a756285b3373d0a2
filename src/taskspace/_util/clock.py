"""The one clock of all searches: processor seconds of this process.

A search that closes does the same work on an idle and on a busy machine, so its limit
counts processor time. Compiling or loading kernels is not counted.
"""

import time

from taskspace._util.compiling import compiled_seconds
from taskspace.errors import InvalidInputError

__all__ = ["Clock"]

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
        """Wall-clock seconds in which what is left will be spent, as so far.

        At most five times the processor seconds. For solvers that know no other clock.
        """
        left = self.left
        return left * min(MAX_RATIO, max(1.0, self.seconds / max(self.spent, 1e-3)))
