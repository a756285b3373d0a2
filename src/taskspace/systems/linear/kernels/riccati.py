r"""Optimal gains of many infinite-horizon LQR problems at once.

The structure-preserving doubling algorithm (Chu, Fan & Lin 2005) gives a first gain,
and Newton's method (Kleinman 1968) refines it: $P$ is the cost of the gain, from a
Lyapunov equation, and the next gain is the best reply to it. From any stabilising
gain the costs fall to the least cost that stabilising gains come down to, also where
a mode costs nothing and the doubling finds a solution that does not stabilise.

Where the least cost is not attained, the steps converge slowly, towards a loop on
the boundary of stability. Such a problem, and one whose steps do not settle, is not
solved, and its optimum is not known.
"""

import contextlib

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace.systems.linear.kernels.lyapunov import LinearMatrices, gramian

DOUBLINGS = 60
DOUBLING_DONE = 1e-12
NEWTON_STEPS = 60
# Relative change of P, entry by entry of its diagonal: nothing left to gain …
SETTLED = 1e-13
# … and what may be left where rounding ends the descent earlier, if the loop is not
# within rounding of the boundary of stability, where the least cost is not attained.
SMALL = 1e-8
NEAR_BOUNDARY = 1e-7
# Newton's method squares the change; so many steps that do not, and it is linear.
SLOW_STEPS = 4


def riccati_gain(
    A: Array, B: Array, Q: Array, R: Array, *, continuous: bool
) -> tuple[Array, NDArray[np.bool_]]:
    """K* of many infinite-horizon LQR problems (u = −K x), and where it is found.

    Args:
        A: shape `(context, n_states, n_states)`.
        B: shape `(context, n_states, n_inputs)`.
        Q: shape `(context, n_states, n_states)`.
        R: shape `(context, n_inputs, n_inputs)`.
        continuous: continuous or discrete time.

    Returns:
        Gains `(context, n_inputs, n_states)`, and a mask of where they are the best.
        Elsewhere they stabilise if such a gain was found, and are zero if not.
    """
    problem = LinearMatrices(A, B, Q, R)
    gains = np.zeros((len(A), B.shape[2], A.shape[1]))
    solved = np.zeros(len(A), bool)
    cost = np.full(len(A), np.inf)
    for first_gains in (_doubling, _doubling_observed, _schur):
        rows = np.flatnonzero(~solved)
        if not len(rows):
            break
        open_ones = problem.rows(rows)
        first = first_gains(open_ones, continuous)
        last, reached, good = _newton(first, open_ones, continuous)
        better = good | (reached < cost[rows])
        rows = rows[better]
        gains[rows], solved[rows] = last[better], good[better]
        cost[rows] = reached[better]
    return gains, solved


def stabilisable(A: Array, B: Array, *, continuous: bool) -> bool:
    """Whether the inputs reach every unstable mode, beyond rounding.

    Args:
        A: shape `(n_states, n_states)`.
        B: shape `(n_states, n_inputs)`.
        continuous: continuous or discrete time.
    """
    if not (np.isfinite(A).all() and np.isfinite(B).all()):
        return False
    with np.errstate(invalid="ignore", over="ignore"):  # numbers beyond any plant
        balanced, (scale, _) = scipy.linalg.matrix_balance(
            A, permute=False, separate=True
        )
        inputs = B / scale[:, None]
    if not (np.isfinite(balanced).all() and np.isfinite(inputs).all()):
        return False
    size = max(np.linalg.norm(balanced), 1e-300)
    inputs = inputs * (size / max(np.linalg.norm(inputs), 1e-300))
    rounding = 8 * len(A) * np.finfo(float).eps * size
    for root in np.linalg.eigvals(balanced):
        edge = root.real if continuous else abs(root) - 1
        if edge < 0:
            continue
        test = np.hstack([balanced - root * np.eye(len(A)), inputs])
        if np.linalg.svd(test, compute_uv=False)[-1] <= rounding:
            return False
    return True


def _newton(
    K: Array, problem: LinearMatrices, continuous: bool
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Descend from stabilising gains: the last gains, tr P, and where it settled."""
    usable = np.asarray(np.isfinite(K).all((1, 2)))
    K = np.where(usable[:, None, None], K, 0.0)
    P = _cost_matrix(K, problem, continuous)
    usable &= np.isfinite(P).all((1, 2))
    K = np.where(usable[:, None, None], K, 0.0)
    cost = np.where(usable, np.trace(P, axis1=1, axis2=2), np.inf)
    last = np.full(len(K), np.inf)
    slow = np.zeros(len(K), np.intp)
    solved = np.zeros(len(K), bool)
    rows = np.flatnonzero(usable)
    for _ in range(NEWTON_STEPS):
        if not len(rows):
            break
        some = problem.rows(rows)
        better = _best_reply(P[rows], some, continuous)
        finite = np.asarray(np.isfinite(better).all((1, 2)))
        better = np.where(finite[:, None, None], better, K[rows])
        below = _cost_matrix(better, some, continuous)
        change, before = _change(P[rows], below), last[rows]
        slow[rows] += (change > before / 10) & (SMALL / 10 < change) & (change < 1e-2)
        # A step that does not go down is rounding: the descent is at its end.
        ended = (change <= SETTLED) | (~(change < before / 2) & (before <= SMALL))
        ended &= slow[rows] < SLOW_STEPS
        total = np.trace(below, axis1=1, axis2=2)
        down = total <= cost[rows]
        K[rows[down]], P[rows[down]] = better[down], below[down]
        cost[rows] = np.minimum(cost[rows], total)
        last[rows] = np.minimum(before, change)
        by_rounding = ended & (change > SETTLED)
        if by_rounding.any():
            loops = some.A - some.B @ K[rows]
            ended &= ~(by_rounding & _is_near_boundary(loops, continuous))
            slow[rows[by_rounding & ~ended]] = SLOW_STEPS
        solved[rows] = ended
        rows = rows[~ended & np.isfinite(change) & (slow[rows] < SLOW_STEPS)]
    return K, cost, solved


def _change(P: Array, below: Array) -> Array:
    """Largest relative change of the diagonal, one a problem."""
    before, after = (np.diagonal(m, axis1=1, axis2=2) for m in (P, below))
    with np.errstate(all="ignore"):
        relative = np.abs(after - before) / np.maximum(before, after)
    return np.asarray(np.where(before == after, 0.0, relative).max(1), np.float64)


def _is_near_boundary(loops: Array, continuous: bool) -> NDArray[np.bool_]:
    """Whether a pole of each loop is within rounding of the boundary of stability."""
    poles = np.linalg.eigvals(loops)
    if continuous:
        size = np.abs(poles).max(1, keepdims=True)
        return np.asarray((poles.real > -NEAR_BOUNDARY * size).any(1))
    return np.asarray((np.abs(poles) > 1 - NEAR_BOUNDARY).any(1))


def _cost_matrix(K: Array, problem: LinearMatrices, continuous: bool) -> Array:
    """P of each gain: the cost from x is xᵀ P x; `inf` where it is unstable."""
    A, B, Q, R = problem
    weight = Q + _transpose(K) @ R @ K
    weight = (weight + _transpose(weight)) / 2
    return gramian(_transpose(A - B @ K), weight, continuous=continuous)


def _best_reply(P: Array, problem: LinearMatrices, continuous: bool) -> Array:
    """Return the gain that is best if P is the cost ever after, NaN for none."""
    A, B, _, R = problem
    with np.errstate(all="ignore"):
        BP = _transpose(B) @ P
        return _invert(R) @ BP if continuous else _invert(R + BP @ B) @ BP @ A


def _doubling(problem: LinearMatrices, continuous: bool) -> Array:
    """Gains from the doubling algorithm: H converges quadratically to P."""
    A, B, Q, R = problem
    eye = np.eye(A.shape[1])
    with np.errstate(all="ignore"):
        G = B @ _invert(R) @ _transpose(B)
        if continuous:
            # Any shift > 0 will do; one of the size of A converges soonest.
            scale = np.sqrt(
                np.linalg.norm(G, axis=(1, 2)) * np.linalg.norm(Q, axis=(1, 2))
            )
            shift = (np.linalg.norm(A, axis=(1, 2)) + scale + 1e-300)[:, None, None]
            inverse = _invert(A - shift * eye)
            W = _invert(_transpose(A) - shift * eye + Q @ inverse @ G)
            E = eye + 2 * shift * _transpose(W)
            H = 2 * shift * W @ Q @ inverse
            G = 2 * shift * inverse @ G @ W
        else:
            E, H = A, Q
        P = np.full_like(H, np.nan)
        rows = np.arange(len(A))
        for _ in range(DOUBLINGS):
            W = _invert(eye + G @ H)
            G, H, E = (
                G + E @ W @ G @ _transpose(E),
                H + _transpose(E) @ H @ W @ E,
                E @ W @ E,
            )
            G, H = (G + _transpose(G)) / 2, (H + _transpose(H)) / 2
            # Each problem by itself: a result does not depend on its neighbours.
            on = np.abs(E).max((1, 2)) > DOUBLING_DONE
            P[rows[~on]] = H[~on]
            rows, G, H, E = rows[on], G[on], H[on], E[on]
            if not len(rows):
                break
        P[rows] = H
        return _best_reply(P, problem, continuous)


def _doubling_observed(problem: LinearMatrices, continuous: bool) -> Array:
    """Stabilising gains from a weight on every state, so that no mode is free."""
    _, _, Q, R = problem
    size = np.abs(Q).max((1, 2))
    weight = np.where(size > 0, size, np.abs(R).max((1, 2)))
    observed = Q + weight[:, None, None] * np.eye(Q.shape[1])
    return _doubling(problem._replace(Q=observed), continuous)


def _schur(problem: LinearMatrices, continuous: bool) -> Array:
    """Gains from SciPy's invariant subspaces, one problem at a time."""
    solve = (
        scipy.linalg.solve_continuous_are
        if continuous
        else scipy.linalg.solve_discrete_are
    )
    P = np.full_like(problem.A, np.nan)
    for i, one in enumerate(zip(*problem, strict=True)):
        with contextlib.suppress(np.linalg.LinAlgError, ValueError):
            P[i] = solve(*one)
    return _best_reply(P, problem, continuous)


def _transpose(x: Array) -> Array:
    return np.swapaxes(x, 1, 2)


def _invert(x: Array) -> Array:
    """Inverses, NaN where a matrix is singular or already NaN."""
    try:
        return np.asarray(np.linalg.inv(x), np.float64)
    except np.linalg.LinAlgError:
        out = np.full_like(x, np.nan)
        for i, matrix in enumerate(x):
            with contextlib.suppress(np.linalg.LinAlgError):
                out[i] = np.linalg.inv(matrix)
        return out
