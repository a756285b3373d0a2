"""Work in several processes, for systems that are plain Python."""

import multiprocessing
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from taskspace.errors import InvalidInputError

__all__ = ["parallel_map"]

CHUNKS_PER_WORKER = 4


def parallel_map(
    function: Callable[[Any], Any], items: Sequence[Any], workers: int
) -> list[Any]:
    """`[function(item) for item in items]`, in some processes.

    The processes start afresh (no fork), so a script that uses them must have its
    own work below `if __name__ == "__main__":`.

    Args:
        function: what to do with one item; anything that can be pickled, or with
            `cloudpickle` (part of the extra `rl`) also lambdas and closures.
        items: the items.
        workers: processes; 0 works in this one.
    """
    if workers < 0:
        raise InvalidInputError(f"workers >= 0 must hold, but got {workers}.")
    if workers == 0 or len(items) < 2:
        return [function(item) for item in items]
    n_chunks = min(len(items), workers * CHUNKS_PER_WORKER)
    chunks = [items[i::n_chunks] for i in range(n_chunks)]
    packed = [_pack((function, chunk)) for chunk in chunks]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn) as pool:
        done = list(pool.map(_work, packed))
    results: list[Any] = [None] * len(items)
    for i, part in enumerate(done):
        results[i::n_chunks] = part
    return results


def _pack(work: Any) -> bytes:
    try:
        import cloudpickle

        return cloudpickle.dumps(work)
    except ImportError:
        pass
    try:
        return pickle.dumps(work)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidInputError(
            f"This work cannot be sent to other processes: {error}. Define functions "
            "and classes at the top of a module, install the extra 'rl' (cloudpickle), "
            "or set workers=0."
        ) from error


def _work(packed: bytes) -> list[Any]:
    function, chunk = pickle.loads(packed)
    return [function(item) for item in chunk]
