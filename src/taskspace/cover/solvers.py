"""Linear programs by SciPy's HiGHS, integer programs by OR-tools' CP-SAT.

What they call optimal is floats. A linear program proposes prices and selections;
bounds of CP-SAT count, because all its numbers are integers that floats hold.
"""

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from taskspace._util.clock import Clock
from taskspace.sets import TargetSets

if TYPE_CHECKING:
    from scipy import sparse

T = TypeVar("T")

_LOOK = 0.02  # seconds between looks at the clock while a solver works


def interruptible(
    work: Callable[[], T],
    stop: Callable[[], object] | None = None,
    clock: Clock | None = None,
) -> T:
    """Return what a solver in C++ returns, so that Ctrl-C ends the wait for it.

    Python raises signals in the main thread, and there not before C++ has returned.

    Args:
        work: calls the solver.
        stop: asks the solver to return; without it an interrupted solver is left
            behind until its own time limit, or the end of the process.
        clock: asks the solver to return when its time is up; goes with `stop`.
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
        while clock is not None and stop is not None and not future.done():
            wait([future], timeout=_LOOK)
            if clock.left <= 0:
                stop()
        return future.result()
    finally:
        while stop is not None and not future.done():
            stop()
            thread.join(0.05)


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


def has_cp_sat() -> bool:
    """Whether OR-tools is installed."""
    try:
        import ortools.sat.python.cp_model  # noqa: F401
    except ImportError:
        return False
    return True


class CpSatAnswer(NamedTuple):
    """What CP-SAT says.

    Args:
        values: of the variables, None where no solution was found.
        bound: no solution has less.
        is_closed: whether the solution is the best, or there is none.
    """

    values: NDArray[np.bool_] | None
    bound: int
    is_closed: bool


def run_cp_sat(
    model: Any,
    variables: Sequence[Any],
    *,
    start: NDArray[np.int64] | None,
    clock: Clock,
    work: float,
    seed: int,
    linear: bool = True,
    on_bound: Callable[[int], bool] = lambda bound: False,
) -> CpSatAnswer:
    """Minimize a model of 0 and 1 with integer costs below 2**50.

    Args:
        model: a `CpModel`.
        variables: its variables, one per source.
        start: sources to begin with.
        clock: whose time limit counts.
        work: how much the solver may do, in its deterministic seconds.
        seed: of the solver.
        linear: whether the LP relaxation is used.
        on_bound: called with each better lower bound; True stops the solver.
    """
    from ortools.sat.python import cp_model

    if start is not None:
        is_in = np.zeros(len(variables), bool)
        is_in[start] = True
        for variable, value in zip(variables, is_in.tolist(), strict=True):
            model.add_hint(variable, value)
    solver: Any = cp_model.CpSolver()
    solver.parameters.max_deterministic_time = work
    # One worker does best on few cores; it needs level 2 to use the LP relaxation.
    solver.parameters.num_workers = 1
    solver.parameters.catch_sigint_signal = False  # Ctrl-C is not for the solver
    solver.parameters.linearization_level = 2 if linear else 0
    solver.parameters.relative_gap_limit = 0.0
    solver.parameters.absolute_gap_limit = 0.0
    solver.parameters.random_seed = seed % 2**31

    def whole(bound: float) -> int:
        # An integer below 2**50 in a float; 1e-6 only guards against noise in it.
        return math.ceil(bound - 1e-6) if math.isfinite(bound) else 0

    def look(bound: float) -> None:
        if on_bound(whole(bound)):
            solver.stop_search()

    solver.best_bound_callback = look
    status = interruptible(lambda: solver.solve(model), solver.stop_search, clock)
    bound = whole(solver.best_objective_bound)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return CpSatAnswer(None, bound, status == cp_model.INFEASIBLE)
    values = np.array([solver.boolean_value(x) for x in variables], bool)
    return CpSatAnswer(values, bound, status == cp_model.OPTIMAL)
