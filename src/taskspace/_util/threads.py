"""Threads for compiled kernels, and worker processes that end with their parent."""

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise


def over_rows(
    kernel: Callable[[int, int], None], n_rows: int, *, in_threads: bool = True
) -> None:
    """Call `kernel(first, stop)` on stretches of rows, one thread each.

    As many threads as `numba.get_num_threads()`, so `NUMBA_NUM_THREADS=1` keeps it
    to one. A row must not depend on the stretch it is in.

    Args:
        kernel: handles the rows from `first` up to, not including, `stop`.
        n_rows: how many rows there are.
        in_threads: False where the work is too little to start threads for.
    """
    import numba  # worker processes of other kinds need none of it

    n_threads = min(numba.get_num_threads(), n_rows) if in_threads else 1
    if n_threads <= 1:
        kernel(0, n_rows)
        return
    # Four stretches per thread even out rows of different cost.
    n_parts = min(4 * n_threads, n_rows)
    edges = [n_rows * i // n_parts for i in range(n_parts + 1)]
    with ThreadPoolExecutor(n_threads) as pool:
        for done in [pool.submit(kernel, a, b) for a, b in pairwise(edges)]:
            done.result()


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
