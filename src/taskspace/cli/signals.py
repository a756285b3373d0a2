"""How a command ends when it is asked to: Ctrl-C and SIGTERM.

Python raises both as exceptions wherever the program happens to be. That may be a
place that does not let them pass as they are: Numba's compiled functions turn them
into a SystemError, finalizers and garbage collection only print them.
"""

import _thread
import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

__all__ = ["Interrupted", "leave", "signal_behind", "signals_heard"]


class Interrupted(BaseException):
    """Ctrl-C, where KeyboardInterrupt would be taken for something else."""


class _Terminated(BaseException):
    """Someone asked this process to end."""


def signal_behind(error: BaseException | None) -> int | None:
    """The signal that an error comes from, also through other errors.

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
    on_sigterm = signal.signal(signal.SIGTERM, _terminate)
    on_lost = sys.unraisablehook

    def ask_again(lost: Any) -> None:
        if number := signal_behind(lost.exc_value):
            # In a moment: at once it would be raised in here, and lost again.
            again = threading.Timer(0.01, _thread.interrupt_main, [number])
            again.daemon = True
            again.start()
        else:
            on_lost(lost)

    sys.unraisablehook = ask_again
    try:
        yield
    finally:
        sys.unraisablehook = on_lost
        signal.signal(signal.SIGTERM, on_sigterm or signal.SIG_DFL)


def _terminate(number: int, frame: object) -> None:
    raise _Terminated
