r"""Closed loops in whole numbers: the last word on stability and cost.

Floats are fractions, so $F = A - BK$ is a matrix of fractions, its Lyapunov equation a
linear system of fractions, and whether the loop is stable is a question with an answer:
$F Y + Y F^\top = -I$ (discrete: $F Y F^\top - Y = -I$) has a solution that is positive
definite if and only if it is. Elimination without fractions (Bareiss 1968) keeps
everything a whole number.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from taskspace._util.arrays import Array
from taskspace.systems.linear.matrices import Loop

Matrix = list[list[Any]]


def rational_gramian(loop: Loop, x0: Array, continuous: bool) -> tuple[Array, float]:
    """X of u = −Kx with an infinite horizon and its cost, rounded once.

    Args:
        loop: the gain and the matrices of its context.
        x0: second moment of the initial state.
        continuous: continuous or discrete time.

    Returns:
        X and tr((Q + KᵀRK) X); all infinite where the loop is unstable.
    """
    A, B, Q, R, K, start = (_fractions(m) for m in (*loop, x0))
    n = len(A)
    F = _plus(A, [[-x for x in row] for row in _times(B, K)])
    weight = _plus(Q, _times(_transposed(K), _times(R, K)))
    places = {}
    for i in range(n):
        for j in range(i, n):
            places[i, j] = places[j, i] = len(set(places.values()))
    rows = []
    for i in range(n):
        for j in range(i, n):
            row = [Fraction(0)] * (n * (n + 1) // 2)
            if continuous:
                for k in range(n):
                    row[places[k, j]] += F[i][k]
                    row[places[i, k]] += F[j][k]
            else:
                for k in range(n):
                    for m in range(n):
                        row[places[k, m]] += F[i][k] * F[j][m]
                row[places[i, j]] -= 1
            rows.append([*row, -Fraction(int(i == j)), -start[i][j]])
    solved = _solve(rows)
    infinite = np.full((n, n), np.inf)
    if solved is None:
        return infinite, np.inf
    Y, X = (
        [[solved[places[i, j]][side] for j in range(n)] for i in range(n)]
        for side in (0, 1)
    )
    if not _is_definite(Y):
        return infinite, np.inf
    cost = sum(w * x for left, right in zip(weight, X, strict=True)
               for w, x in zip(left, right, strict=True))  # fmt: skip
    return np.array([[_rounded(x) for x in row] for row in X]), _rounded(cost)


def _fractions(matrix: Array) -> Matrix:
    return [[Fraction(x) for x in row] for row in matrix.tolist()]


def _transposed(matrix: Matrix) -> Matrix:
    return [list(row) for row in zip(*matrix, strict=True)]


def _plus(left: Matrix, right: Matrix) -> Matrix:
    return [
        [x + y for x, y in zip(a, b, strict=True)]
        for a, b in zip(left, right, strict=True)
    ]


def _times(left: Matrix, right: Matrix) -> Matrix:
    columns = _transposed(right)
    return [
        [sum(x * y for x, y in zip(row, column, strict=True)) for column in columns]
        for row in left
    ]


def _rounded(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def _whole(row: list[Fraction]) -> list[int]:
    """Return the same row, times a whole number > 0."""
    factor = max(x.denominator for x in row)  # all are powers of two
    return [int(x * factor) for x in row]


def _solve(rows: Matrix) -> list[list[Fraction]] | None:
    """Solutions of a linear system with two right sides, None if it is singular."""
    work = [_whole(row) for row in rows]
    n, before = len(work), 1
    for p in range(n):
        pivot = next((i for i in range(p, n) if work[i][p]), None)
        if pivot is None:
            return None
        work[p], work[pivot] = work[pivot], work[p]
        top = work[p]
        for i in range(n):
            if i == p:
                continue
            row, factor = work[i], work[i][p]
            work[i] = [
                (top[p] * x - factor * y) // before
                for x, y in zip(row, top, strict=True)
            ]
        before = top[p]
    return [[Fraction(x, work[i][i]) for x in work[i][n:]] for i in range(n)]


def _is_definite(matrix: Matrix) -> bool:
    """Whether a symmetric matrix is positive definite, by its leading minors."""
    # Its entries have one denominator up to sign: that of the linear system.
    rows = [list(row) for row in matrix]
    for p in range(len(rows)):
        if not rows[p][p] > 0:
            return False
        for i in range(p + 1, len(rows)):
            factor = rows[i][p] / rows[p][p]
            rows[i] = [x - factor * y for x, y in zip(rows[i], rows[p], strict=True)]
    return True
