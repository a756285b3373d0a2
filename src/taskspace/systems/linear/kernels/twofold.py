r"""Closed loops in twice the working precision, one at a time, compiled.

The doubling of `kernels.doubling` with numbers of about 32 digits: pairs of
floats whose sum is meant (Dekker 1971). For loops whose coordinates, time scales or
distance to the boundary of stability cost more digits than a float has. The closed loop
A − BK and the weight Q + KᵀRK are formed in this precision too, so what counts is the
loop of the matrices as given, and not of their rounded difference.

What comes out is solved for its residual and corrected. A correction that is not small,
or growth that rounding could have made, leaves the loop undecided.
"""

import math

import numpy as np
from numba import njit

DONE, UNSTABLE, UNDECIDED = 1, 2, 3
UNIT = 2.0**-104
MAX_DOUBLINGS = 110
# Φ² in units of X: what is left of X is below 32 digits.
CONVERGED = 1e-34
DIVERGED = 1e20
# Growth is sure if rounding, times the square of what powers of F may reach, is below.
SPURIOUS = 1e-6
# Largest relative correction; once it is applied, its square is left.
CORRECTABLE = 1e-7


@njit(cache=True, error_model="numpy")
def _add(a, b, c, d):
    """Return (a, b) + (c, d)."""
    s = a + c
    back = s - a
    e = (a - (s - back)) + (c - back)
    t = b + d
    back = t - b
    f = (b - (t - back)) + (d - back)
    e += t
    h = s + e
    e = e - (h - s) + f
    s = h + e
    return s, e - (s - h)


@njit(cache=True, error_model="numpy")
def _times(a, b, c, d):
    """Return (a, b) · (c, d)."""
    p = a * c
    t = 134217729.0 * a  # 2^27 + 1: Veltkamp's split
    a1 = t - (t - a)
    a2 = a - a1
    t = 134217729.0 * c
    c1 = t - (t - c)
    c2 = c - c1
    e = a2 * c2 - (((p - a1 * c1) - a2 * c1) - a1 * c2)
    e += a * d + b * c
    s = p + e
    return s, e - (s - p)


@njit(cache=True, error_model="numpy")
def _over(a, b, c, d):
    """Return (a, b) / (c, d)."""
    q = a / c
    h, l = _times(c, d, -q, 0.0)  # noqa: E741
    h, l = _add(a, b, h, l)  # noqa: E741
    q2 = h / c
    g, k = _times(c, d, -q2, 0.0)
    h, l = _add(h, l, g, k)  # noqa: E741
    return _add(q, 0.0, q2, h / c)


@njit(cache=True, error_model="numpy")
def _multiply(a, b, out, transposed):
    """Fill a b, or a bᵀ; arrays `(2, row, column)` of high and low parts."""
    for i in range(a.shape[1]):
        for j in range(out.shape[2]):
            s, c = 0.0, 0.0
            for k in range(a.shape[2]):
                if transposed:
                    p, e = _times(a[0, i, k], a[1, i, k], b[0, j, k], b[1, j, k])
                else:
                    p, e = _times(a[0, i, k], a[1, i, k], b[0, k, j], b[1, k, j])
                s, c = _add(s, c, p, e)
            out[0, i, j], out[1, i, j] = s, c


@njit(cache=True, error_model="numpy")
def _increase(x, y, factor):
    """Add factor · y to x, for a factor that is a power of two."""
    for i in range(x.shape[1]):
        for j in range(x.shape[2]):
            x[0, i, j], x[1, i, j] = _add(
                x[0, i, j], x[1, i, j], factor * y[0, i, j], factor * y[1, i, j]
            )


@njit(cache=True, error_model="numpy")
def _congruence(e, x, keep):
    """Φ X Φᵀ + keep · X with Φ = I + E."""
    y = np.empty_like(x)
    z = np.empty_like(x)
    _multiply(e, x, y, False)
    _increase(y, x, 1.0)
    _multiply(y, e, z, True)
    _increase(z, y, 1.0)
    if keep != 0.0:
        _increase(z, x, keep)
    for i in range(x.shape[1]):
        for j in range(i):
            z[0, i, j], z[1, i, j] = z[0, j, i], z[1, j, i]
    return z


@njit(cache=True, error_model="numpy")
def _cayley(f):
    """(sI − F)⁻¹ F, and s: a power of two above the row sums, so nothing is pivoted."""
    n = f.shape[1]
    norm = 0.0
    for i in range(n):
        norm = max(norm, np.abs(f[0, i]).sum())
    shift = 2.0 ** math.ceil(math.log2(1.125 * norm)) if norm > 0.0 else 1.0
    work = -f
    e = f.copy()
    for i in range(n):
        work[0, i, i], work[1, i, i] = _add(work[0, i, i], work[1, i, i], shift, 0.0)
    for p in range(n):
        h, l = _over(1.0, 0.0, work[0, p, p], work[1, p, p])  # noqa: E741
        for m in (work, e):
            for j in range(n):
                m[0, p, j], m[1, p, j] = _times(m[0, p, j], m[1, p, j], h, l)
        for i in range(n):
            if i == p:
                continue
            h, l = -work[0, i, p], -work[1, i, p]  # noqa: E741
            for m in (work, e):
                for j in range(n):
                    g, k = _times(m[0, p, j], m[1, p, j], h, l)
                    m[0, i, j], m[1, i, j] = _add(m[0, i, j], m[1, i, j], g, k)
    return e, shift


@njit(cache=True, error_model="numpy")
def _start(f, x0, continuous):
    """E and X of the first step of the discrete equation with the same solution."""
    if continuous:
        e, shift = _cayley(f)
        return 2.0 * e, _congruence(e, x0, 0.0) * (2.0 / shift)
    minus, plus = f.copy(), f.copy()
    for i in range(f.shape[1]):
        minus[0, i, i], minus[1, i, i] = _add(f[0, i, i], f[1, i, i], -1.0, 0.0)
        plus[0, i, i], plus[1, i, i] = _add(f[0, i, i], f[1, i, i], 1.0, 0.0)
    e = np.empty_like(f)
    _multiply(minus, plus, e, False)
    return e, _congruence(minus, x0, 1.0)


@njit(cache=True, error_model="numpy")
def _double(e, x):
    """X ← X + Φ X Φᵀ, E ← 2E + E²."""
    x = _congruence(e, x, 1.0)
    square = np.empty_like(e)
    _multiply(e, e, square, False)
    _increase(square, e, 2.0)
    return square, x


@njit(cache=True, error_model="numpy")
def _verdict(e, x, step):
    n = e.shape[1]
    vanishes = True
    trace = 0.0
    for i in range(n):
        trace += e[0, i, i] + 1.0
        for j in range(n):
            phi = e[0, i, j] + (1.0 if i == j else 0.0)
            if i == j:
                phi += e[1, i, j]
            excited = x[0, i, i] > 0.0 or x[0, j, j] > 0.0
            most = CONVERGED * x[0, i, i] if excited else CONVERGED
            if not phi * phi * (x[0, j, j] if excited else 1.0) <= most:
                vanishes = False
    if vanishes:
        return DONE
    if DIVERGED < abs(trace) < np.inf:
        return UNSTABLE
    if not abs(trace) <= DIVERGED or step >= MAX_DOUBLINGS:
        return UNDECIDED
    return 0


@njit(cache=True, error_model="numpy")
def twofold_gramian(a, b, q, r, gain, x0, continuous):
    """X of u = −Kx with an infinite horizon, its cost, and how it ended.

    Args:
        a: A of one context; b, q, r and the gain likewise.
        b: B.
        q: Q.
        r: R.
        gain: K.
        x0: second moment of the initial state.
        continuous: continuous or discrete time.

    Returns:
        X, the cost tr((Q + KᵀRK) X), and `DONE`, `UNSTABLE` or `UNDECIDED`.
    """
    n, m = b.shape
    f = np.zeros((2, n, n))
    weight = np.zeros((2, n, n))
    start = np.zeros((2, n, n))
    f[0] = a
    weight[0] = q
    start[0] = x0
    for i in range(n):
        for j in range(n):
            for u in range(m):
                p, e = _times(-b[i, u], 0.0, gain[u, j], 0.0)
                f[0, i, j], f[1, i, j] = _add(f[0, i, j], f[1, i, j], p, e)
                for v in range(m):
                    p, e = _times(gain[u, i], 0.0, gain[v, j], 0.0)
                    p, e = _times(p, e, r[u, v], 0.0)
                    weight[0, i, j], weight[1, i, j] = _add(
                        weight[0, i, j], weight[1, i, j], p, e
                    )
    e, x = _start(f, start, continuous)
    state, steps = 0, 0
    while state == 0:
        e, x = _double(e, x)
        steps += 1
        state = _verdict(e, x, steps)
    if state == UNSTABLE:
        rate = 46.0 / 2.0 ** (steps + 1)  # |Φ| is about 1e20
        if continuous:
            rate *= np.abs(f[0]).sum(1).max()
        # Powers of F grow up to its size over the rate before they tell the rate.
        if not UNIT * (f[0] ** 2).sum() <= SPURIOUS * rate * rate:
            state = UNDECIDED
    if state != DONE:
        return x[0], np.inf, state
    # The residual, and what it adds to X.
    rest = np.empty_like(x)
    if continuous:
        _multiply(f, x, rest, False)
        for i in range(n):
            for j in range(i, n):
                h, l = _add(  # noqa: E741
                    rest[0, i, j], rest[1, i, j], rest[0, j, i], rest[1, j, i]
                )
                rest[0, i, j], rest[1, i, j] = h, l
                rest[0, j, i], rest[1, j, i] = h, l
    else:
        minus = f.copy()
        for i in range(n):
            minus[0, i, i], minus[1, i, i] = _add(f[0, i, i], f[1, i, i], -1.0, 0.0)
        rest = _congruence(minus, x, -1.0)
    _increase(rest, start, 1.0)
    e, rest = _start(f, rest, continuous)
    for _ in range(steps):
        e, rest = _double(e, rest)
    cost, low, size, change = 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        for j in range(n):
            limit = math.sqrt(abs(x[0, i, i]) * abs(x[0, j, j]))
            if not abs(rest[0, i, j]) <= CORRECTABLE * limit:
                state = UNDECIDED
            size += abs(weight[0, i, j] * x[0, i, j])
            change += abs(weight[0, i, j] * rest[0, i, j])
            for part in (x, rest):
                h, l = _times(  # noqa: E741
                    weight[0, i, j], weight[1, i, j], part[0, i, j], part[1, i, j]
                )
                cost, low = _add(cost, low, h, l)
    _increase(x, rest, 1.0)
    # What the correction leaves, and rounding of the sum itself.
    left = CORRECTABLE * change + UNIT * size
    if not left <= 1e-12 * abs(cost):
        state = UNDECIDED
    return x[0], cost, state
