"""Linear and integer programs by SciPy's HiGHS.

What it calls optimal is floats: it proposes prices and selections, and proves nothing.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from taskspace._util.clock import Clock
from taskspace.sets import TargetSets

if TYPE_CHECKING:
    from scipy import sparse

T = TypeVar("T")


def interruptible(work: Callable[[], T]) -> T:
    """Return what a solver in C++ returns, so that Ctrl-C ends the wait for it.

    Python raises signals in the main thread, and there not before C++ has returned.
    An interrupted solver is left behind until its own time limit.

    Args:
        work: calls the solver.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # raised again where it is waited for
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future.result()


def cover_matrix(sets: TargetSets) -> "sparse.csr_array":
    """Return the constraints `A x >= 1` of the covering problem, targets x sources.

    Args:
        sets: the targets that each source serves.
    """
    from scipy import sparse  # loads slowly, and few covers need it

    inverse = sets.inverse
    lengths = inverse.stops - inverse.starts
    ends = np.cumsum(lengths, dtype=np.int64)
    first = np.repeat(
        inverse.starts - np.concatenate([[0], ends[:-1]])[: len(ends)], lengths
    )
    columns = (first + np.arange(len(first))).astype(np.int32)
    pointers = np.concatenate([[0], np.cumsum(inverse.sizes)])
    shape = (sets.n_targets, sets.n_sources)
    return sparse.csr_array((np.ones(len(columns)), columns, pointers), shape=shape)


def solve_lp(
    sets: TargetSets, costs: NDArray[np.float64], clock: Clock, method: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return a solution of the covering LP and its dual prices, None if out of time.

    x has no upper bound: with `x <= 1` the row duals alone would not be feasible.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source.
        clock: whose time limit counts.
        method: of `scipy.optimize.linprog`.
    """
    from scipy import optimize

    result = interruptible(
        lambda: optimize.linprog(
            costs,
            A_ub=-cover_matrix(sets),
            b_ub=-np.ones(sets.n_targets),
            bounds=(0, None),
            method=method,
            options={"time_limit": max(0.01, clock.wall_left)},
        )
    )
    if result.status != 0:
        return None
    return result.x, -np.asarray(result.ineqlin.marginals)


def search_milp(
    sets: TargetSets, costs: NDArray[np.float64], clock: Clock, max_nodes: int
) -> NDArray[np.int64] | None:
    """Find a good cover by SciPy's HiGHS, None where it finds none in time.

    HiGHS works in floats, with an absolute gap of 1e-6 among its tolerances, so what
    it calls optimal is taken for a good cover and for no more.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source.
        clock: whose time limit counts.
        max_nodes: of its tree.
    """
    if sets.n_targets == 0:
        return np.zeros(0, np.int64)
    from scipy import optimize

    matrix = cover_matrix(sets)
    result = interruptible(
        lambda: optimize.milp(
            costs / costs.min(),
            integrality=np.ones(sets.n_sources),
            bounds=optimize.Bounds(0, 1),
            constraints=optimize.LinearConstraint(matrix, lb=1.0),
            options={
                "time_limit": max(0.01, clock.wall_left),
                "node_limit": max_nodes,
                "mip_rel_gap": 0.0,
            },
        )
    )
    if result.x is None:
        return None
    picked = np.flatnonzero(result.x > 0.5)
    served = matrix[:, picked].sum(axis=1)
    return picked if (served >= 1).all() else None
