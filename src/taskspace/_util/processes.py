"""Worker processes of this machine: they end with the process that they work for."""

import os
import signal
import threading
import time


def follow_parent(parent: int) -> None:
    """In a worker: leave Ctrl-C to the parent, and end when it ends, however it ends.

    Args:
        parent: its process number.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
