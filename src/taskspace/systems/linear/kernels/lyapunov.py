r"""Quadratic cost of linear closed loops, many at a time.

The compiled kernel (`kernels.doubling`) answers for ordinary pairs and leaves the
others open: stiff, nearly marginal or badly scaled loops, and coordinates in which most
digits cancel. FLINT has the last word on each of those, for A, B and K as given. Which
of the two answers depends on the pair alone.

Floats are fractions, so $F = A - BK$ is a matrix of fractions, its Lyapunov equation a
linear system of fractions, and whether the loop is stable is a question with an answer:
$F Y + Y F^\top = -I$ (discrete: $F Y F^\top - Y = -I$) has a solution that is positive
definite if and only if it is. The system is solved in ball arithmetic, whose error
bounds are proven, with more and more bits. What no ball decides, a loop on the boundary
of stability, is solved in fractions.
"""

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from flint import arb_mat, ctx, fmpq, fmpq_mat
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace._util.threads import over_rows
from taskspace.systems.linear.kernels.doubling import some_policies

Loop = tuple[Array, Array, Array, Array, Array]
"""A, B, Q and R of a context, and a gain K, u = −Kx."""

PRECISIONS = (128, 512)
# Bits to which a result is known before it is rounded to a float.
ACCURATE = 60

MIN_THREADED_WORK = 20_000
"""Loops times states³ from which on a thread costs less than it saves."""


class LinearMatrices(NamedTuple):
    """The matrices of a linear family at some contexts, each `(context, …, …)`."""

    A: Array
    B: Array
    Q: Array
    R: Array

    def rows(self, chosen: NDArray[np.integer]) -> "LinearMatrices":
        """Return the matrices at some of the contexts.

        Args:
            chosen: numbers of the contexts.
        """
        return LinearMatrices(*(matrix[chosen] for matrix in self))


def closed_loop_cost(
    gains: Array,
    matrices: LinearMatrices,
    x0: Array,
    continuous: bool,
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
        some_policies(some, plant, outputs, x0[None], continuous, costs, none)

    work = len(gains) * len(a) * a.shape[-1] ** 3
    over_rows(kernel, len(gains), in_threads=work >= MIN_THREADED_WORK)
    for p, t in np.argwhere(np.isnan(cost)):
        gain = gains[p] if c is None else gains[p] @ outputs[t]
        pair = a[t], b[t], q[t], r[t], gain
        cost[p, t] = exact_gramian(pair, x0, continuous)[1]
    return cost


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
        rest = (x0[some], continuous, cost[None, some], out[some])
        some_policies(gain, plant, out[:0], *rest)

    over_rows(kernel, n_loops, in_threads=n_loops * n**3 >= MIN_THREADED_WORK)
    out[np.isinf(cost)] = np.inf
    for i in np.flatnonzero(np.isnan(cost)):
        one = loops[i], b[i], q[i], r[i], gain[0]
        out[i], _ = exact_gramian(one, x0[i], continuous)
    return out


class _UndecidedError(Exception):
    """The balls are too wide to tell."""


def exact_gramian(loop: Loop, x0: Array, continuous: bool) -> tuple[Array, float]:
    """X of u = −Kx and its cost, rounded once.

    Args:
        loop: A, B, Q and R of the context, and the gain K.
        x0: second moment of the initial state.
        continuous: continuous or discrete time.

    Returns:
        X and tr((Q + KᵀRK) X); all infinite where the loop is unstable or not finite.
    """
    unstable = np.full(x0.shape, np.inf), np.inf
    if not all(np.isfinite(m).all() for m in (*loop, x0)):
        return unstable
    for bits in PRECISIONS:
        with ctx.workprec(bits):
            try:
                balls = [arb_mat(m.tolist()) for m in (*loop, x0)]
                X, cost = _solve(balls, continuous)
                return _middles(X), _middle(cost)
            except (_UndecidedError, ZeroDivisionError):
                continue
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
