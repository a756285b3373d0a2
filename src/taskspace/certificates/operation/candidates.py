"""Candidates for Lyapunov matrices, by semidefinite programming; no proofs.

`find_matrix` looks for one X with X ≻ 0 and L(X) ≺ 0 for a list of closed loops, where
L(X) = AᵀX + XA (discrete: AᵀXA − X). Whether X serves whole boxes is for
`taskspace.certificates.operation.decay` to say.
"""

import importlib
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import solve_continuous_lyapunov, solve_discrete_lyapunov

from taskspace._util.arrays import Array
from taskspace.errors import MissingExtraError

MAX_ITERATIONS = 200
SOLVED = ("Solved", "AlmostSolved")


def find_matrix(
    loops: Array, weights: Array, is_continuous: bool, *, least: bool = False
) -> Array | None:
    """Return one matrix that decays along all of some closed loops, None if none does.

    Args:
        loops: closed loops, `(loop, state, state)`.
        weights: W of each loop.
        is_continuous: kind of time.
        least: ask for the least X with L(X) + W ⪯ 0, whose xᵀXx is near the cost, so
            that the matrices of several gains are alike; otherwise for the strongest
            decay.
    """
    n = loops.shape[1]
    frame = _frame(loops, weights, is_continuous)
    if frame is None:
        return None
    back = np.linalg.inv(frame)
    basis = _basis(n)
    identity = _svec(np.eye(n)[None])[0]
    nothing = np.zeros_like(identity)
    rows, right = [], []
    for loop, weight in zip(frame @ loops @ back, back.T @ weights @ back, strict=True):
        image = _svec(_decay(basis, loop, is_continuous)).T
        rows.append(np.column_stack([image, nothing if least else identity]))
        right.append(-_svec(weight[None])[0] if least else nothing)
    # X ⪯ t I for the least t, or X ⪯ I for the largest decay t.
    rows.append(np.column_stack([_svec(basis).T, -identity if least else nothing]))
    right.append(nothing if least else identity)
    cost = np.zeros(len(basis) + 1)
    cost[-1] = 1.0 if least else -1.0
    solution = _solve(cost, np.concatenate(rows), np.concatenate(right), n, len(rows))
    if solution is None or not (least or solution[-1] > 0):
        return None
    x = frame.T @ np.tensordot(solution[:-1], basis, 1) @ frame
    return (x + x.T) / 2


def _frame(loops: Array, weights: Array, is_continuous: bool) -> Array | None:
    """Return coordinates without units: the mean of the loops' own costs is I."""
    poles = np.linalg.eigvals(loops)
    if not (poles.real.max() < 0 if is_continuous else abs(poles).max() < 1):
        return None
    size = np.sqrt(np.einsum("gii->i", weights) / len(weights))
    units = np.diag(np.where(size > 0, size, 1.0))
    back = np.linalg.inv(units)
    n = loops.shape[1]
    total = np.zeros((n, n))
    for loop, weight in zip(units @ loops @ back, back @ weights @ back, strict=True):
        # A little of the identity, where a state costs nothing.
        definite = weight + 1e-3 * np.eye(n)
        if is_continuous:
            total += solve_continuous_lyapunov(loop.T, -definite)
        else:
            total += solve_discrete_lyapunov(loop.T, definite)
    total = (total + total.T) / (2 * len(loops))
    try:
        return np.asarray(np.linalg.cholesky(total).T @ units, np.float64)
    except np.linalg.LinAlgError:
        return None


def _decay(x: Array, loop: Array, is_continuous: bool) -> Array:
    if is_continuous:
        half = x @ loop
        return half + np.swapaxes(half, -1, -2)
    return loop.T @ x @ loop - x


def _basis(n: int) -> Array:
    """Return the symmetric matrices with one entry, or two, of 1."""
    pairs = [(i, j) for j in range(n) for i in range(j + 1)]
    basis = np.zeros((len(pairs), n, n))
    for number, (i, j) in enumerate(pairs):
        basis[number, i, j] = basis[number, j, i] = 1.0
    return basis


def _svec(matrices: Array) -> Array:
    """Return upper triangles column by column, off the diagonal times √2."""
    n = matrices.shape[-1]
    pairs = [(i, j) for j in range(n) for i in range(j + 1)]
    i, j = np.array(pairs).T
    return matrices[:, i, j] * np.where(i == j, 1.0, np.sqrt(2.0))


def _solve(
    cost: Array, rows: Array, right: Array, n: int, n_blocks: int
) -> Array | None:
    """Return x of least cost with right − rows · x a stack of semidefinite matrices."""
    try:
        clarabel: Any = importlib.import_module("clarabel")
    except ImportError as error:
        raise MissingExtraError("A Lyapunov matrix", "operation") from error
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_iter = MAX_ITERATIONS
    settings.max_threads = 1
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix((len(cost), len(cost))),
        cost,
        sparse.csc_matrix(rows),
        right,
        [clarabel.PSDTriangleConeT(n)] * n_blocks,
        settings,
    )
    solution = solver.solve()
    x = np.array(solution.x)
    done = str(solution.status).removeprefix("SolverStatus.") in SOLVED
    return x if done and np.isfinite(x).all() else None
