"""Small dense linear algebra for compiled kernels, in plain floating point.

What comes from here is only ever a *candidate*: nothing is proven from it until
`taskspace.certificates.boxes.rigor.residual` has bounded what it leaves over. A failure
is a value, never an exception.
"""

import numpy as np
from numba import njit

RICCATI_DOUBLINGS = 50
RICCATI_DONE = 1e-13
# Sums in any order: what comes out is a candidate, and the check does not trust it.
ANY_ORDER = {"reassoc", "contract"}


@njit(cache=True, error_model="numpy")
def add_product(out, a, b, factor):
    """Add factor · a b to `out`."""
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            x = factor * a[i, k]
            if x != 0.0:
                for j in range(b.shape[1]):
                    out[i, j] += x * b[k, j]


@njit(cache=True, error_model="numpy")
def add_product_t(out, a, b, factor):
    """Add factor · aᵀ b to `out`."""
    for k in range(a.shape[0]):
        for i in range(a.shape[1]):
            x = factor * a[k, i]
            if x != 0.0:
                for j in range(b.shape[1]):
                    out[i, j] += x * b[k, j]


@njit(cache=True, error_model="numpy")
def fill_product(out, a, b):
    """Fill a b; `out` is neither of them."""
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            out[i, j] = 0.0
    add_product(out, a, b, 1.0)


@njit(cache=True, error_model="numpy")
def symmetrise(a):
    """Replace a by (a + aᵀ) / 2."""
    for i in range(a.shape[0]):
        for j in range(i):
            x = 0.5 * (a[i, j] + a[j, i])
            a[i, j] = x
            a[j, i] = x


@njit(cache=True, error_model="numpy", fastmath=ANY_ORDER)
def factorise(a, pivots):
    """Replace a by its LU factors, rows swapped; False where it is singular."""
    n = a.shape[0]
    for k in range(n):
        best = k
        for i in range(k + 1, n):
            if abs(a[i, k]) > abs(a[best, k]):
                best = i
        pivots[k] = best
        if not abs(a[best, k]) > 0.0:
            return False
        if best != k:
            for j in range(n):
                a[k, j], a[best, j] = a[best, j], a[k, j]
        inverse = 1.0 / a[k, k]
        for i in range(k + 1, n):
            x = a[i, k] * inverse
            a[i, k] = x
            if x != 0.0:
                for j in range(k + 1, n):
                    a[i, j] -= x * a[k, j]
    return np.isfinite(a[n - 1, n - 1])


@njit(cache=True, error_model="numpy", fastmath=ANY_ORDER)
def solve_factorised(a, pivots, x):
    """Overwrite the vector x by the solution of the factorised equations."""
    n = a.shape[0]
    for k in range(n):
        p = pivots[k]
        if p != k:
            x[k], x[p] = x[p], x[k]
    for i in range(1, n):
        total = x[i]
        for j in range(i):
            total -= a[i, j] * x[j]
        x[i] = total
    for i in range(n - 1, -1, -1):
        total = x[i]
        for j in range(i + 1, n):
            total -= a[i, j] * x[j]
        x[i] = total / a[i, i]


@njit(cache=True, error_model="numpy")
def invert(a):
    """Return the inverse and whether it exists."""
    n = a.shape[0]
    out = np.empty((n, n))
    return out, fill_inverse(out, a.copy(), np.empty(n, np.int64))


@njit(cache=True, error_model="numpy")
def fill_inverse(out, factors, pivots):
    """Fill the inverse of `factors`, which is overwritten; say whether it exists."""
    n = factors.shape[0]
    out[:] = 0.0
    if not factorise(factors, pivots):
        return False
    # All columns at once, so that the inner loops run along rows.
    for k in range(n):
        out[k, k] = 1.0
    for k in range(n):
        p = pivots[k]
        if p != k:
            for j in range(n):
                out[k, j], out[p, j] = out[p, j], out[k, j]
    for i in range(1, n):
        for k in range(i):
            x = factors[i, k]
            if x != 0.0:
                for j in range(n):
                    out[i, j] -= x * out[k, j]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            x = factors[i, k]
            if x != 0.0:
                for j in range(n):
                    out[i, j] -= x * out[k, j]
        inverse = 1.0 / factors[i, i]
        for j in range(n):
            out[i, j] *= inverse
    return True


@njit(cache=True, error_model="numpy")
def inverse_cholesky(w):
    """Return triangular T with T w Tᵀ ≈ I, and whether w looks definite."""
    n = w.shape[0]
    low = np.zeros((n, n))
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            total = w[i, j]
            for k in range(j):
                total -= low[i, k] * low[j, k]
            if i == j:
                if not total > 0.0 or not np.isfinite(total):
                    return out, False
                low[i, i] = np.sqrt(total)
            else:
                low[i, j] = total / low[j, j]
    for i in range(n):
        for k in range(i):
            x = low[i, k]
            if x != 0.0:
                for j in range(k + 1):
                    out[i, j] -= x * out[k, j]
        out[i, i] = 1.0
        inverse = 1.0 / low[i, i]
        for j in range(i + 1):
            out[i, j] *= inverse
    return out, True


@njit(cache=True, error_model="numpy")
def lyapunov_factors(a, continuous, pivots):
    """Return LU factors of X ↦ aᵀX + Xa (or aᵀXa − X), X symmetric, and success.

    Unknowns are the entries X_kl, k ≤ l, row by row.
    """
    n = a.shape[0]
    size = n * (n + 1) // 2
    m = np.zeros((size, size))
    row = 0
    for i in range(n):
        for j in range(i, n):
            if continuous:
                for k in range(n):
                    # (aᵀX)_ij = Σ a_ki X_kj, (Xa)_ij = Σ X_ik a_kj
                    m[row, _place(n, k, j)] += a[k, i]
                    m[row, _place(n, i, k)] += a[k, j]
            else:
                for k in range(n):
                    x = a[k, i]
                    if x != 0.0:
                        for l in range(n):  # noqa: E741
                            m[row, _place(n, k, l)] += x * a[l, j]
                m[row, row] -= 1.0
            row += 1
    return m, factorise(m, pivots)


@njit(cache=True, error_model="numpy")
def _place(n, i, j):
    if i > j:
        i, j = j, i
    return i * n - i * (i - 1) // 2 + (j - i)


@njit(cache=True, error_model="numpy")
def lyapunov_solve(factors, pivots, right, out):
    """Fill `out`, symmetric, with the solution X of L(X) = −right."""
    n = right.shape[0]
    x = np.empty(n * (n + 1) // 2)
    row = 0
    for i in range(n):
        for j in range(i, n):
            x[row] = -0.5 * (right[i, j] + right[j, i])
            row += 1
    solve_factorised(factors, pivots, x)
    row = 0
    for i in range(n):
        for j in range(i, n):
            out[i, j] = x[row]
            out[j, i] = x[row]
            row += 1


@njit(cache=True, error_model="numpy")
def _largest(a):
    largest = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            x = abs(a[i, j])
            if not x <= largest:  # a NaN must win
                largest = x
    return largest


@njit(cache=True, error_model="numpy")
def _norm(a):
    total = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            total += a[i, j] * a[i, j]
    return np.sqrt(total)


@njit(cache=True, error_model="numpy")
def transposed(a):
    """Return the transpose as an array of its own."""
    out = np.empty((a.shape[1], a.shape[0]))
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[j, i] = a[i, j]
    return out


@njit(cache=True, error_model="numpy")
def _fill_sum(out, a, b, factor, shift):
    """Fill a + factor · b + shift · I."""
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = a[i, j] + factor * b[i, j]
        out[i, i] += shift


@njit(cache=True, error_model="numpy")
def _fill_transpose(out, a):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[j, i] = a[i, j]


@njit(cache=True, error_model="numpy")
def riccati_gain(a, b, q, r, continuous, gain):
    """Fill the optimal gain (u = −gain x), and say whether it was found.

    The structure-preserving doubling algorithm, as
    `taskspace.systems.linear.riccati_gain`, for one problem.
    """
    n, m = b.shape
    r_inverse, done = invert(r)
    if not done:
        return False
    # One block of memory for all: allocating costs more than small products do.
    work = np.zeros((8, n, n))
    e, g, h, w, x, y, z = work[0], work[1], work[2], work[3], work[4], work[5], work[6]
    pivots = np.empty(n, np.int64)
    b_t = transposed(b)
    br = np.zeros((n, m))
    add_product(br, b, r_inverse, 1.0)
    add_product(g, br, b_t, 1.0)
    _fill_sum(e, a, a, 0.0, 0.0)
    _fill_sum(h, q, q, 0.0, 0.0)
    if continuous:
        # A Cayley transform makes it discrete.
        shift = _norm(a) + np.sqrt(_norm(g) * _norm(q)) + 1e-300
        inverse = work[7]
        _fill_sum(x, a, a, 0.0, -shift)
        if not fill_inverse(inverse, x, pivots):
            return False
        fill_product(y, q, inverse)
        fill_product(z, y, g)
        _fill_transpose(x, a)
        _fill_sum(x, x, z, 1.0, -shift)
        if not fill_inverse(w, x, pivots):
            return False
        _fill_sum(w, w, w, 2.0 * shift - 1.0, 0.0)
        _fill_transpose(e, w)
        for i in range(n):
            e[i, i] += 1.0
        fill_product(h, w, y)
        fill_product(x, inverse, g)
        fill_product(g, x, w)
    for _ in range(RICCATI_DOUBLINGS):
        fill_product(x, g, h)
        for i in range(n):
            x[i, i] += 1.0
        if not fill_inverse(w, x, pivots):
            return False
        # g += e (w g) eᵀ, h += eᵀ h (w e), e = e (w e)
        fill_product(x, w, g)
        fill_product(y, e, x)
        _fill_transpose(z, e)
        add_product(g, y, z, 1.0)
        symmetrise(g)
        fill_product(x, w, e)
        fill_product(y, z, h)
        add_product(h, y, x, 1.0)
        symmetrise(h)
        fill_product(y, e, x)
        e, y = y, e
        size = _largest(e)
        if not size < 1e100:
            return False
        if size <= RICCATI_DONE:
            break
    bth = np.zeros((m, n))
    add_product(bth, b_t, h, 1.0)
    inner = r_inverse
    if not continuous:
        _fill_sum(inner, r, r, 0.0, 0.0)
        add_product(inner, bth, b, 1.0)
        inner, done = invert(inner)
        if not done:
            return False
        bta = np.zeros((m, n))
        add_product(bta, bth, a, 1.0)
        bth = bta
    fill_product(gain, inner, bth)
    return np.isfinite(_largest(gain))
