r"""Closed loops with FLINT: the last word on stability and cost.

Floats are fractions, so $F = A - BK$ is a matrix of fractions, its Lyapunov equation a
linear system of fractions, and whether the loop is stable is a question with an answer:
$F Y + Y F^\top = -I$ (discrete: $F Y F^\top - Y = -I$) has a solution that is positive
definite if and only if it is.

The system is solved in ball arithmetic, whose error bounds are proven, with more and
more bits. What no ball decides, a loop on the boundary of stability, is solved in
fractions.
"""

from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb_mat, ctx, fmpq, fmpq_mat

from taskspace._util.arrays import Array
from taskspace.systems.linear.matrices import Loop

PRECISIONS = (128, 512)
# Bits to which a result is known before it is rounded to a float.
ACCURATE = 60


class _UndecidedError(Exception):
    """The balls are too wide to tell."""


def exact_gramian(loop: Loop, x0: Array, continuous: bool) -> tuple[Array, float]:
    """X of u = −Kx with an infinite horizon and its cost, rounded once.

    Args:
        loop: the gain and the matrices of its context, finite.
        x0: second moment of the initial state.
        continuous: continuous or discrete time.

    Returns:
        X and tr((Q + KᵀRK) X); all infinite where the loop is unstable.
    """
    for bits in PRECISIONS:
        with ctx.workprec(bits):
            try:
                balls = [arb_mat(m.tolist()) for m in (*loop, x0)]
                X, cost = _solve(balls, continuous)
                return _middles(X), _middle(cost)
            except (_UndecidedError, ZeroDivisionError):
                continue
    unstable = np.full(x0.shape, np.inf), np.inf
    try:
        X, cost = _solve([_fractions(m) for m in (*loop, x0)], continuous)
    except ZeroDivisionError:  # singular: two poles add up to 0
        return unstable
    return np.array([[_rounded(x) for x in row] for row in X]), _rounded(cost)


def _solve(matrices: list[Any], continuous: bool) -> tuple[list[list[Any]], Any]:
    """Return X and the cost in the numbers of the matrices, infinite if unstable."""
    A, B, Q, R, K, start = matrices
    n = A.nrows()
    F, weight = A - B * K, Q + K.transpose() * R * K
    f = [[F[i, j] for j in range(n)] for i in range(n)]
    pairs = [(i, j) for i in range(n) for j in range(i, n)]
    places = {pair: k for k, pair in enumerate(pairs)}
    places |= {(j, i): k for (i, j), k in places.items()}
    rows = [[0 * f[0][0]] * len(pairs) for _ in pairs]
    for row, (i, j) in zip(rows, pairs, strict=True):
        if continuous:
            for k in range(n):
                row[places[k, j]] += f[i][k]
                row[places[i, k]] += f[j][k]
        else:
            for k in range(n):
                for m in range(n):
                    row[places[k, m]] += f[i][k] * f[j][m]
            row[places[i, j]] -= 1
    right = [[-int(i == j), -start[i, j]] for i, j in pairs]
    kind = type(A)
    solved = kind(rows).solve(kind(right))
    Y, X = (
        [[solved[places[i, j], side] for j in range(n)] for i in range(n)]
        for side in (0, 1)
    )
    if not _is_definite(Y):
        return [[np.inf] * n] * n, np.inf
    cost = sum(weight[i, j] * X[i][j] for i in range(n) for j in range(n))
    return X, cost


def _is_definite(rows: list[list[Any]]) -> bool:
    """Whether a symmetric matrix is positive definite, by elimination."""
    for p in range(len(rows)):
        if rows[p][p] <= 0:
            return False
        if not rows[p][p] > 0:
            raise _UndecidedError
        for i in range(p + 1, len(rows)):
            factor = rows[i][p] / rows[p][p]
            rows[i] = [x - factor * y for x, y in zip(rows[i], rows[p], strict=True)]
    return True


def _fractions(matrix: Array) -> fmpq_mat:
    rows = [[fmpq(*x.as_integer_ratio()) for x in row] for row in matrix.tolist()]
    return fmpq_mat(rows)


def _middle(ball: Any) -> float:
    if isinstance(ball, float) or ball.is_zero():
        return float(ball)
    if ball.rel_accuracy_bits() < ACCURATE:
        raise _UndecidedError
    return float(ball.mid())


def _middles(X: list[list[Any]]) -> Array:
    """Return a covariance, each entry known against those of its diagonal."""
    n = len(X)
    out = np.diag([_middle(X[i][i]) for i in range(n)])
    for i in range(n):
        for j in range(i):
            ball = X[i][j]
            if not isinstance(ball, float):
                most = (X[i][i] * X[j][j]).sqrt() / 2**ACCURATE
                if not (ball.is_exact() or ball.rad() <= most):
                    raise _UndecidedError
                ball = ball.mid()
            out[i, j] = out[j, i] = float(ball)
    return out


def _rounded(value: Any) -> float:
    if isinstance(value, float):
        return value
    try:
        return float(Fraction(int(value.p), int(value.q)))
    except OverflowError:
        return np.inf if value > 0 else -np.inf
