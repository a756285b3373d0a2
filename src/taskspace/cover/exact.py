"""Exact solvers for what reductions and bounds leave open.

OR-tools' CP-SAT where the extra `exact` is installed, SciPy's HiGHS otherwise.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse

from taskspace.cover.base import Clock, has_whole_costs
from taskspace.sets import RunSets


class ExactResult(NamedTuple):
    """Best selection found, None where there is none, and a valid lower bound."""

    sources: NDArray[np.int64] | None
    lower_bound: float
    solver: str


class StopSignal:
    """Lets one thread stop a solver that runs in another."""

    def __init__(self):
        self.action: Callable[[], object] | None = None

    def __call__(self) -> None:
        """Stop the solver if it is running."""
        if self.action is not None:
            self.action()


def has_cp_sat() -> bool:
    """Whether OR-tools is installed."""
    try:
        import ortools.sat.python.cp_model  # noqa: F401
    except ImportError:
        return False
    return True


def solve_exact(
    sets: RunSets,
    costs: NDArray[np.float64],
    *,
    time_limit: float,
    seed: int,
    start: NDArray[np.int64] | None = None,
    lower_bound: float = 0.0,
    on_bound: Callable[[float], bool] | None = None,
    stop: StopSignal | None = None,
    linear: bool = True,
) -> ExactResult:
    """Minimum cover of all targets, each of which some source must serve.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source.
        time_limit: seconds.
        seed: of the solver.
        start: a cover to begin with.
        lower_bound: a bound that is known already.
        on_bound: called with each better lower bound; True stops the solver.
        stop: lets another thread stop the solver.
        linear: whether CP-SAT uses the LP relaxation; without it small problems of
            much symmetry are proven sooner.

    Returns:
        The best cover found and the bound proven.
    """
    if not has_cp_sat():
        return solve_milp(sets, costs, time_limit)
    options = _CpSatOptions(Clock(time_limit), seed, lower_bound, linear)
    return _cp_sat(sets, costs, options, start, on_bound, stop or StopSignal())


class _CpSatOptions(NamedTuple):
    clock: Clock
    seed: int
    lower_bound: float
    linear: bool


def _cp_sat(
    sets: RunSets,
    costs: NDArray[np.float64],
    options: _CpSatOptions,
    start: NDArray[np.int64] | None,
    on_bound: Callable[[float], bool] | None,
    stop: StopSignal,
) -> ExactResult:
    from ortools.sat.python import cp_model

    model: Any = cp_model.CpModel()
    chosen = [model.new_bool_var("") for _ in range(sets.n_sources)]
    inverse = sets.inverse
    for t in range(sets.n_targets):
        first, last = inverse.offsets[t], inverse.offsets[t + 1]
        runs = zip(
            inverse.starts[first:last].tolist(),
            inverse.stops[first:last].tolist(),
            strict=True,
        )
        model.add_bool_or([x for a, b in runs for x in chosen[a:b]])
    # CP-SAT counts in integers: float costs are rounded down to a fine unit, so that
    # its bound stays below the truth.
    shift = 0 if has_whole_costs(costs) else 44 - math.ceil(math.log2(costs.sum()))
    units = np.floor(costs * 2.0**shift).astype(np.int64).tolist()
    model.minimize(cp_model.LinearExpr.weighted_sum(chosen, units))

    def valid(bound: float) -> float:
        if not math.isfinite(bound):
            return options.lower_bound
        return max(options.lower_bound, math.ceil(bound - 1e-6) / 2**shift)

    if start is not None:
        in_start = np.zeros(sets.n_sources, bool)
        in_start[start] = True
        for x, value in zip(chosen, in_start.tolist(), strict=True):
            model.add_hint(x, value)
    solver: Any = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = options.clock.left
    # One worker does best on few cores; it needs level 2 to use the LP relaxation.
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2 if options.linear else 0
    solver.parameters.relative_gap_limit = 0.0
    solver.parameters.absolute_gap_limit = 0.0
    solver.parameters.random_seed = options.seed % 2**31
    stop.action = solver.stop_search
    if on_bound is not None:

        def look(bound: float) -> None:
            if on_bound(valid(bound)):
                solver.stop_search()

        solver.best_bound_callback = look
    status = solver.solve(model)
    stop.action = None
    bound = valid(solver.best_objective_bound)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return ExactResult(None, bound, "cp-sat")
    picked = np.flatnonzero([solver.boolean_value(x) for x in chosen])
    return ExactResult(picked, bound, "cp-sat")


def solve_milp(
    sets: RunSets, costs: NDArray[np.float64], time_limit: float
) -> ExactResult:
    """Minimum cover by SciPy's HiGHS; arguments as in `solve_exact`."""
    result = optimize.milp(
        costs,
        integrality=np.ones(sets.n_sources),
        bounds=optimize.Bounds(0, 1),
        constraints=optimize.LinearConstraint(cover_matrix(sets), lb=1),
        options={"time_limit": max(0.01, time_limit), "mip_rel_gap": 0.0},
    )
    bound = result.mip_dual_bound
    bound = 0.0 if bound is None or not math.isfinite(bound) else float(bound)
    # HiGHS works in floats with tolerances near 1e-6; leave it more than that.
    slack = 1e-4 * max(1.0, abs(bound))
    whole = has_whole_costs(costs)
    bound = max(0.0, math.ceil(bound - slack) if whole else bound - slack)
    if result.x is None:
        return ExactResult(None, bound, "milp")
    picked = np.flatnonzero(result.x > 0.5)
    if not sets.union(picked).all():
        return ExactResult(None, bound, "milp")
    if result.status == 0 and not whole:
        # Optimal to the solver's tolerance, which is all that HiGHS can say.
        bound = max(bound, float(costs[picked].sum()) * (1 - 1e-10))
    return ExactResult(picked, bound, "milp")


def cover_matrix(sets: RunSets) -> sparse.csr_array:
    """The constraints `A x >= 1` of the covering problem, targets x sources."""
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
