"""Shares and budgets by OR-tools' CP-SAT, for what prices leave open."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.cover.exact.solver import has_cp_sat
from taskspace.cover.exact.threads import interruptible
from taskspace.cover.location.problem import Location

__all__ = ["can_solve", "solve_location"]

_MAX_SUM = 2**50  # CP-SAT's bounds are floats
_MAX_PAIRS = 1_500_000


def can_solve(problem: Location) -> bool:
    """Return whether CP-SAT is there and the problem is one in moderate integers.

    Args:
        problem: the problem.
    """
    sums = [problem.costs.sum(), problem.float_weights.sum()]
    if problem.weights is None:
        sums.append(problem.caps.sum())
    fits = problem.is_whole and max(sums) < _MAX_SUM
    return fits and len(problem.lists.members) <= _MAX_PAIRS and has_cp_sat()


def solve_location(
    problem: Location, start: NDArray[np.int64], time_limit: float, seed: int
) -> tuple[NDArray[np.int64] | None, int]:
    """Return the best selection found, None for none, and a lower bound of all.

    Args:
        problem: a share or a budget, in integers.
        start: a selection to begin with.
        time_limit: seconds.
        seed: of the solver.
    """
    from ortools.sat.python import cp_model

    model: Any = cp_model.CpModel()
    x = [model.new_bool_var("") for _ in range(problem.n_sources)]
    left_out = [model.new_bool_var("") for _ in range(problem.n_targets)]
    offsets, members, _ = problem.lists.arrays
    for t, skipped in enumerate(left_out):
        able = [x[s] for s in members[offsets[t] : offsets[t + 1]].tolist()]
        model.add_bool_or([*able, skipped])
    total = cp_model.LinearExpr.weighted_sum
    if problem.weights is not None:
        model.add(total(left_out, problem.weights.tolist()) <= problem.slack)
        model.minimize(total(x, problem.costs.astype(np.int64).tolist()))
    else:
        model.add(sum(x) <= problem.budget)
        model.minimize(total(left_out, problem.caps.astype(np.int64).tolist()))
    chosen = set(start.tolist())
    for s, variable in enumerate(x):
        model.add_hint(variable, s in chosen)
    solver: Any = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = time_limit
    solver.parameters.num_workers = 1
    solver.parameters.catch_sigint_signal = False
    solver.parameters.linearization_level = 2
    solver.parameters.random_seed = seed % 2**31
    status = interruptible(lambda: solver.solve(model), solver.stop_search)
    bound = solver.best_objective_bound
    # An integer below 2**50 in a float; 1e-6 only guards against noise in it.
    lower = math.ceil(bound - 1e-6) if math.isfinite(bound) else 0
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, lower
    return np.flatnonzero([solver.boolean_value(v) for v in x]), lower
