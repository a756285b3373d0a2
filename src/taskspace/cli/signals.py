"""How a command ends when it is asked to: Ctrl-C and SIGTERM.

Python raises both as exceptions wherever the program happens to be. That may be a
place that does not let them pass: Numba's compiled functions crash or turn them into
a SystemError, finalizers and garbage collection only print them. There they wait.
"""

import _thread
import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn


class Interrupted(BaseException):
    """Ctrl-C, where KeyboardInterrupt would be taken for something else."""


class _Terminated(BaseException):
    """Someone asked this process to end."""


RAISED: dict[int, type[BaseException]] = {
    signal.SIGINT: KeyboardInterrupt,
    signal.SIGTERM: _Terminated,
}
"""What each signal raises."""


def signal_behind(error: BaseException | None) -> int | None:
    """Return the signal that an error comes from, also through other errors.

    Args:
        error: what ended a command.

    Returns:
        SIGINT, SIGTERM, or None for any other error.
    """
    while error is not None:
        if isinstance(error, KeyboardInterrupt | Interrupted):
            return signal.SIGINT
        if isinstance(error, _Terminated):
            return signal.SIGTERM
        error = error.__cause__ or error.__context__
    return None


def leave(code: int) -> NoReturn:
    """End this process as at any end, but without taking Python itself down.

    What a signal left half done may crash there; JAX's compiler often does.

    Args:
        code: exit code of the process.
    """
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


@contextmanager
def signals_heard() -> Iterator[None]:
    """Both signals end what is done in here, wherever they arrive."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread hears signals
        return
    before = {number: signal.getsignal(number) for number in RAISED}
    on_lost = sys.unraisablehook

    def look(lost: Any) -> None:
        if number := signal_behind(lost.exc_value):
            _ask_again(number)
        else:
            on_lost(lost)

    for number, handler in before.items():
        if handler != signal.SIG_IGN:  # as in what a shell starts in the background
            signal.signal(number, _hear)
    sys.unraisablehook = look
    try:
        yield
    finally:
        sys.unraisablehook = on_lost
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


def _hear(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_name == "_numba_unpickle":  # called by compiled functions
            _ask_again(number)
            return
        frame = frame.f_back
    raise RAISED[number]


def _ask_again(number: int) -> None:
    """Hear a signal again in a moment, when the program is somewhere else."""
    again = threading.Timer(0.01, _thread.interrupt_main, [number])
    again.daemon = True
    again.start()
