r"""Quadratic cost of linear closed loops, many at a time.

The compiled kernel (`kernels.doubling`) answers for ordinary pairs and
leaves the others open; a careful method has the last word on each of those. Which of
the two it is depends on the pair alone.

Left open are stiff, nearly marginal or badly scaled loops, and coordinates in which
most digits cancel. They are solved exactly (`kernels.exact`): a loop counts as unstable
if it is, for A, B and K as given.
"""

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace._util.threads import over_rows
from taskspace.systems.linear.kernels.doubling import some_policies
from taskspace.systems.linear.kernels.exact import exact_gramian
from taskspace.systems.linear.matrices import LinearMatrices, Loop


def careful_gramian(loop: Loop, x0: Array, continuous: bool) -> tuple[Array, float]:
    """X of u = −Kx with an infinite horizon and its cost, `inf` where it is unstable.

    Args:
        loop: the gain and the matrices of its context.
        x0: second moment of the initial state, symmetric positive semidefinite.
        continuous: continuous or discrete time.
    """
    if not all(np.isfinite(m).all() for m in (*loop, x0)):
        return np.full_like(x0, np.inf), np.inf
    return exact_gramian(loop, x0, continuous)


def excited_and_seen(loop: Array, x0: Array, weight: Array) -> NDArray[np.bool_]:
    """States that the initial state reaches and that reach a weighed state.

    Args:
        loop: F, whose zeros say what does not act on what.
        x0: second moment of the initial state.
        weight: weight of the states, positive semidefinite.
    """
    acts = loop != 0
    return _reached(acts, np.diag(x0) > 0) & _reached(acts.T, np.diag(weight) > 0)


def _reached(acts: NDArray[np.bool_], start: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Where one gets from `start` if `acts[i, j]` leads from j to i."""
    reached = start
    for _ in range(len(start)):
        reached = reached | acts[:, reached].any(1)
    return reached


MIN_THREADED_WORK = 20_000
"""Loops times states³ from which on a thread costs less than it saves."""


def closed_loop_cost(
    gains: Array,
    matrices: LinearMatrices,
    x0: Array,
    continuous: bool,
    horizon: float,
    c: Array | None = None,
) -> Array:
    """Cost of every gain at every context.

    Ordinary pairs are computed with F = A − BK in float64. Where that is not enough,
    stability and cost are those of the matrices as given.

    Args:
        gains: K, shape `(policy, n_inputs, n_states)`, or `n_outputs` columns.
        matrices: A, B, Q and R of each target.
        x0: second moment of the initial state, `(n_states, n_states)`.
        continuous: continuous or discrete time.
        horizon: time or number of steps; `inf` for no end.
        c: C, shape `(target, n_outputs, n_states)`, for u = −K C x; u = −K x if left
            out.

    Returns:
        Cost with dims `(policy, target)`; `inf` where the loop is unstable.
    """
    # Writable, too: for what is not, Numba compiles everything once more.
    gains, a, b, q, r, x0 = (
        np.require(array, np.float64, ["C", "W"]) for array in (gains, *matrices, x0)
    )
    plant = a, b, q, r
    cost = np.empty((len(gains), len(a)))
    none = np.empty((0, *x0.shape))
    outputs = none if c is None else np.require(c, np.float64, ["C", "W"])

    def kernel(first: int, stop: int) -> None:
        some, costs = gains[first:stop], cost[first:stop]
        rest = (x0[None], continuous, horizon, costs, none)
        some_policies(some, plant, outputs, *rest)

    work = len(gains) * len(a) * a.shape[-1] ** 3
    over_rows(kernel, len(gains), in_threads=work >= MIN_THREADED_WORK)
    for p, t in np.argwhere(np.isnan(cost)):
        gain = gains[p] if c is None else gains[p] @ outputs[t]
        pair = Loop(a[t], b[t], q[t], r[t], gain)
        if np.isinf(horizon):
            cost[p, t] = careful_gramian(pair, x0, continuous)[1]
        else:
            cost[p, t] = _overflowed_cost(pair, x0, continuous, horizon)
    return cost


def _overflowed_cost(pair: Loop, x0: Array, continuous: bool, horizon: float) -> float:
    """Cost of a pair with a finite horizon in which a number overflowed."""
    a, b, q, r, gain = pair
    loop = a.copy()  # rounded as in the kernel, input by input
    for column, row in zip(b.T, gain, strict=True):
        loop -= np.outer(column, row)
    weight = q + gain.T @ r @ gain
    # It matters only if it is excited and weighed.
    keep = excited_and_seen(loop, x0, weight)
    if keep.all():
        return np.inf
    if not keep.any():
        return 0.0
    places = np.flatnonzero(keep)
    part, n = (places[:, None], places), len(places)
    alone = LinearMatrices(
        loop[part][None], np.zeros((1, n, 1)), weight[part][None], np.ones((1, 1, 1))
    )
    gain = np.zeros((1, 1, n))
    return float(closed_loop_cost(gain, alone, x0[part], continuous, horizon)[0, 0])


def gramian(loops: Array, x0: Array, *, continuous: bool) -> Array:
    r"""Accumulated covariance of each loop, $X = \int_0^\infty x x^\top$.

    It solves $F X + X F^\top + X_0 = 0$, or $F X F^\top + X_0 = X$ in discrete time.

    Args:
        loops: F, shape `(loop, n_states, n_states)`.
        x0: $X_0$, the same shape, symmetric and positive semidefinite.
        continuous: continuous or discrete time.

    Returns:
        X, the same shape; `inf` where a loop is unstable.
    """
    loops, x0 = (np.require(m, np.float64, ["C", "W"]) for m in (loops, x0))
    n_loops, n, _ = loops.shape
    out = np.empty_like(loops)
    # No input and no weight: the cost is 0, or says that X is infinite or open.
    gain, b = np.zeros((1, 1, n)), np.zeros((n_loops, n, 1))
    q, r = np.zeros_like(loops), np.ones((n_loops, 1, 1))
    cost = np.empty(n_loops)

    def kernel(first: int, stop: int) -> None:
        some = slice(first, stop)
        plant = loops[some], b[some], q[some], r[some]
        rest = (continuous, np.inf, cost[None, some], out[some])
        some_policies(gain, plant, out[:0], x0[some], *rest)

    over_rows(kernel, n_loops, in_threads=n_loops * n**3 >= MIN_THREADED_WORK)
    out[np.isinf(cost)] = np.inf
    for i in np.flatnonzero(np.isnan(cost)):
        one = Loop(loops[i], b[i], q[i], r[i], gain[0])
        out[i], _ = careful_gramian(one, x0[i], continuous)
    return out
