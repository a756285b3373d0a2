r"""The covering LP: by first-order steps, valid at any moment, and by SciPy's HiGHS.

First-order steps are primal-dual hybrid gradient (Chambolle & Pock 2011) with diagonal
steps, averaging, restarts and a primal weight as in PDLP (Applegate et al. 2021), on

$$\min c^T x,\ A x \ge 1,\ x \ge 0 \qquad \max 1^T y,\ A^T y \le c,\ y \ge 0.$$

Products with A go by prefix sums over runs, so an iteration costs one look at each
run, not at each pair. Any y, scaled, is a valid bound (see `prices`). What HiGHS calls
optimal is floats: it proposes prices and selections, and proves nothing.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

from taskspace._util.clock import Clock
from taskspace.sets import TargetSets, multiply_runs

if TYPE_CHECKING:
    from scipy import sparse

T = TypeVar("T")

_CHUNK = 40  # iterations between looks at the gap
_FIRST_WEIGHT = 3.0  # primal step over dual step; measured on grids


class PrimalDual:
    """A primal-dual solver of the covering LP that can be stopped and continued.

    Args:
        sets: the targets that each source serves; every target must have a source.
        costs: cost of each source.
    """

    def __init__(self, sets: TargetSets, costs: NDArray[np.float64]):
        inverse = sets.inverse
        self._sources, self._targets = sets.arrays, inverse.arrays
        # In z = c x every cost is 1.
        self._scale = 1.0 / costs
        self._weight = _FIRST_WEIGHT
        self._column_sums = np.maximum(sets.sizes * self._scale, 1e-300)
        self._row_sums = np.maximum(multiply_runs(self._targets, self._scale), 1e-300)
        self._z = np.full(sets.n_sources, 1 / max(1.0, float(sets.sizes.mean() or 1)))
        self._y = np.zeros(sets.n_targets)
        self._sum_z, self._sum_y = np.zeros_like(self._z), np.zeros_like(self._y)
        self._n_summed = 0
        self._gap_at_restart = np.inf
        self._anchor = self._z.copy(), self._y.copy()
        self.prices = np.zeros(sets.n_targets)
        self.lower = 0.0
        self.upper = np.inf
        self.n_iterations = 0

    def run(
        self,
        clock: Clock,
        *,
        max_iterations: int,
        is_enough: Callable[[float, float], bool] = lambda lower, upper: False,
    ) -> None:
        """Iterate until the clock, the iterations or `is_enough` says stop.

        Args:
            clock: whose time limit counts.
            max_iterations: iterations to make at most.
            is_enough: called with the (float) lower and upper bound on the LP value.
        """
        last = self.n_iterations + max_iterations
        while self.n_iterations < last and clock.left > 0:
            if self.lower >= (1 - 1e-7) * self.upper:
                return
            self._advance()
            if is_enough(self.lower, self.upper):
                return

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def _advance(self) -> None:
        # Costs very far apart overflow here: then the prices are poor, not false.
        step_z = 0.99 * self._weight / self._column_sums
        step_y = 0.99 / self._weight / self._row_sums
        point, sums = (self._z, self._y), (self._sum_z, self._sum_y)
        _iterate(
            self._sources, self._targets, self._scale, (step_z, step_y), point, sums,
            _CHUNK,
        )  # fmt: skip
        self.n_iterations += _CHUNK
        self._n_summed += _CHUNK
        mean = self._sum_z / self._n_summed, self._sum_y / self._n_summed
        gap = self._look(self._z, self._y)
        mean_gap = self._look(*mean)
        restart = min(gap, mean_gap) <= 0.5 * self._gap_at_restart
        stale = self._n_summed >= 0.4 * self.n_iterations and self._n_summed > 400
        if restart or stale:
            if mean_gap < gap:
                self._z, self._y = mean
            self._gap_at_restart = min(gap, mean_gap)
            self._update_weight()
            self._sum_z, self._sum_y = np.zeros_like(self._z), np.zeros_like(self._y)
            self._n_summed = 0
            self._anchor = self._z.copy(), self._y.copy()

    def _look(self, z: NDArray[np.float64], y: NDArray[np.float64]) -> float:
        """Gap between the bounds that a pair of points gives; keeps the best."""
        load = float(np.max(multiply_runs(self._sources, y) * self._scale, initial=0.0))
        lower = float(y.sum()) / load if load > 0 else 0.0
        x = z * self._scale
        least = float(np.min(multiply_runs(self._targets, x), initial=np.inf))
        upper = float(z.sum()) / least if least > 1e-12 else np.inf
        if lower > self.lower:
            self.lower, self.prices = lower, y / load
        if upper < self.upper:
            self.upper = upper
        return upper - lower

    def _update_weight(self) -> None:
        moved_z = float(np.sum((self._z - self._anchor[0]) ** 2 * self._column_sums))
        moved_y = float(np.sum((self._y - self._anchor[1]) ** 2 * self._row_sums))
        weight = np.sqrt(self._weight * np.sqrt(moved_z / max(moved_y, 1e-300)))
        # Both are relative, of sums of z near the LP value: nothing moves below 1e-20.
        if moved_z > 1e-20 and moved_y > 1e-20 and np.isfinite(weight):
            self._weight = float(np.clip(weight, 0.1, 100.0))


@numba.njit(cache=True, nogil=True)
def _iterate(sources, targets, scale, steps, point, sums, n_iterations):
    """Move `point` and add to `sums`, in place; pairs belong to sources and targets."""
    z, y = point
    step_z, step_y = steps
    sum_z, sum_y = sums
    x = np.empty_like(z)
    for _ in range(n_iterations):
        loads = multiply_runs(sources, y)
        for j in range(len(z)):
            new = max(0.0, z[j] - step_z[j] * (1.0 - loads[j] * scale[j]))
            x[j] = (2 * new - z[j]) * scale[j]
            z[j] = new
            sum_z[j] += new
        served = multiply_runs(targets, x)
        for t in range(len(y)):
            y[t] = max(0.0, y[t] + step_y[t] * (1.0 - served[t]))
            sum_y[t] += y[t]


# --- SciPy's HiGHS ---------------------------------------------------------------


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
