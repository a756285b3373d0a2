r"""Quadratic cost of linear closed loops, many at a time.

For $\dot x = F x$ (or $x^+ = F x$) with $E[x_0 x_0^\top] = X_0$ the cost is
$\mathrm{tr}(Q_{cl} X)$ with the accumulated covariance $X = \int x x^\top$, found by
doubling (Smith 1968): $X_{2m} = X_m + \Phi_m X_m \Phi_m^\top$, $\Phi_{2m} = \Phi_m^2$.

- Discrete time starts from $X_1 = X_0$, $\Phi_1 = F$.
- Continuous time, infinite horizon: the Cayley transform with a shift $s$ larger
  than $\|F\|_\infty$ turns it into a discrete equation with the same solution, and
  $sI - F$ is diagonally dominant, so elimination needs no pivoting.
- Continuous time, horizon T: $X_h$ and $\Phi_h$ of a short step $h = T/2^k$ come
  from their Taylor series. This holds for unstable loops too.

`LANES` problems run in step in the innermost loops, which the compiler turns into
vector instructions. A lane that has converged is frozen, so its result does not
depend on its neighbours: any tiling gives the same bits.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from taskspace._threads import over_rows

LANES = 8
MAX_DOUBLINGS = 64
# X changes by less than |Φ|² relative to itself: 1e-18 is below float64's 1e-16.
CONVERGED = 1e-9
DIVERGED = 1e60
# ‖F‖h ≤ 1/8 and 12 terms leave a remainder below 1e-17 (2·‖F‖h enters X_h).
TAYLOR_STEP = 0.125
TAYLOR_TERMS = 12


@njit(cache=True, error_model="numpy")
def _multiply(a, b, out):
    n = a.shape[0]
    for i in range(n):
        for j in range(n):
            for w in range(LANES):
                out[i, j, w] = a[i, 0, w] * b[0, j, w]
            for k in range(1, n):
                for w in range(LANES):
                    out[i, j, w] += a[i, k, w] * b[k, j, w]


@njit(cache=True, error_model="numpy")
def _add_congruence(phi, x, tmp):
    """X += Φ X Φᵀ."""
    n = x.shape[0]
    _multiply(phi, x, tmp)
    for i in range(n):
        for j in range(n):
            for k in range(n):
                for w in range(LANES):
                    x[i, j, w] += tmp[i, k, w] * phi[j, k, w]


@njit(cache=True, error_model="numpy")
def _largest(a, out):
    n = a.shape[0]
    for w in range(LANES):
        out[w] = 0.0
    for i in range(n):
        for j in range(n):
            for w in range(LANES):
                v = abs(a[i, j, w])
                # A NaN must win, or an overflown lane would look converged.
                out[w] = out[w] if v <= out[w] else v


@njit(cache=True, error_model="numpy")
def _row_sum_norm(a, out):
    n = a.shape[0]
    for w in range(LANES):
        out[w] = 0.0
    for i in range(n):
        for w in range(LANES):
            total = 0.0
            for j in range(n):
                total += abs(a[i, j, w])
            out[w] = max(out[w], total)


@njit(cache=True, error_model="numpy")
def _cayley(f, x, phi, inverse, tmp, shift):
    """Turn (F, X₀) of the continuous equation into Φ and X of the discrete one."""
    n = f.shape[0]
    _row_sum_norm(f, shift)
    for w in range(LANES):
        shift[w] = 1.5 * shift[w] if shift[w] > 0.0 else 1.0
    # Gauss-Jordan on sI - F, which is strictly diagonally dominant.
    for i in range(n):
        for j in range(n):
            for w in range(LANES):
                phi[i, j, w] = (shift[w] if i == j else 0.0) - f[i, j, w]
                inverse[i, j, w] = 1.0 if i == j else 0.0
    for p in range(n):
        for w in range(LANES):
            tmp[0, 0, w] = 1.0 / phi[p, p, w]
        for j in range(n):
            for w in range(LANES):
                phi[p, j, w] *= tmp[0, 0, w]
                inverse[p, j, w] *= tmp[0, 0, w]
        for i in range(n):
            if i == p:
                continue
            for w in range(LANES):
                tmp[0, 0, w] = phi[i, p, w]
            for j in range(n):
                for w in range(LANES):
                    phi[i, j, w] -= tmp[0, 0, w] * phi[p, j, w]
                    inverse[i, j, w] -= tmp[0, 0, w] * inverse[p, j, w]
    # X = 2s M X₀ Mᵀ and Φ = 2s M − I with M = (sI − F)⁻¹.
    _multiply(inverse, x, tmp)
    for i in range(n):
        for j in range(n):
            for w in range(LANES):
                x[i, j, w] = 0.0
                phi[i, j, w] = 2.0 * shift[w] * inverse[i, j, w]
            for k in range(n):
                for w in range(LANES):
                    x[i, j, w] += tmp[i, k, w] * inverse[j, k, w]
            for w in range(LANES):
                x[i, j, w] *= 2.0 * shift[w]
        for w in range(LANES):
            phi[i, i, w] -= 1.0


@njit(cache=True, error_model="numpy")
def _double_to_the_end(phi, x, tmp, size):
    """Sum the whole series; lanes whose Φ does not vanish get X = inf."""
    n = x.shape[0]
    running = True
    step = 0
    while running and step < MAX_DOUBLINGS:
        step += 1
        _add_congruence(phi, x, tmp)
        _multiply(phi, phi, tmp)
        _largest(tmp, size)
        running = False
        for w in range(LANES):
            if size[w] < CONVERGED:
                size[w] = 0.0
            elif size[w] < DIVERGED:
                size[w] = 1.0
                running = True
            else:  # diverged or NaN
                size[w] = 0.0
                x[0, 0, w] = np.inf
        for i in range(n):
            for j in range(n):
                for w in range(LANES):
                    phi[i, j, w] = tmp[i, j, w] if size[w] > 0.0 else 0.0
    for w in range(LANES):
        if size[w] > 0.0:
            x[0, 0, w] = np.inf


@njit(cache=True, error_model="numpy")
def _finite_time(f, x, phi, term, tmp, h, horizon):
    """X = ∫₀ᵀ e^{Ft} X₀ e^{Fᵀt} dt: a short step by Taylor series, then doubling."""
    n = f.shape[0]
    doublings = np.empty(LANES, np.int64)
    _row_sum_norm(f, h)
    for w in range(LANES):
        steps = h[w] * horizon / TAYLOR_STEP
        doublings[w] = math.ceil(math.log2(steps)) if steps > 1.0 else 0
        h[w] = horizon / 2.0 ** doublings[w]
    # X_h: term ← (h / order)(F term + (F term)ᵀ), symmetric like X₀.
    for i in range(n):
        for j in range(n):
            for w in range(LANES):
                term[i, j, w] = h[w] * x[i, j, w]
                x[i, j, w] = term[i, j, w]
    for order in range(2, TAYLOR_TERMS + 1):
        _multiply(f, term, tmp)
        for i in range(n):
            for j in range(n):
                for w in range(LANES):
                    term[i, j, w] = h[w] / order * (tmp[i, j, w] + tmp[j, i, w])
                    x[i, j, w] += term[i, j, w]
    # Φ_h = e^{Fh}.
    for i in range(n):
        for j in range(n):
            for w in range(LANES):
                term[i, j, w] = 1.0 if i == j else 0.0
                phi[i, j, w] = term[i, j, w]
    for order in range(1, TAYLOR_TERMS + 1):
        _multiply(f, term, tmp)
        for i in range(n):
            for j in range(n):
                for w in range(LANES):
                    term[i, j, w] = h[w] / order * tmp[i, j, w]
                    phi[i, j, w] += term[i, j, w]
    for step in range(doublings.max() + 1):
        for w in range(LANES):
            if doublings[w] <= step:  # this lane has reached T: freeze it
                for i in range(n):
                    for j in range(n):
                        phi[i, j, w] = 0.0
        _add_congruence(phi, x, tmp)
        _multiply(phi, phi, tmp)
        phi[:, :, :] = tmp


@njit(cache=True, error_model="numpy")
def _finite_steps(f, x0, x, phi, tmp, n_steps):
    """X = Σ_{t < n_steps} Fᵗ X₀ Fᵀᵗ, by the binary digits of `n_steps`."""
    n = x.shape[0]
    phi[:, :, :] = f
    top = 0
    while n_steps >> (top + 1):
        top += 1
    for bit in range(top - 1, -1, -1):
        _add_congruence(phi, x, tmp)
        _multiply(phi, phi, tmp)
        phi[:, :, :] = tmp
        if (n_steps >> bit) & 1:  # X ← X₀ + F X Fᵀ, Φ ← F Φ
            _multiply(f, x, tmp)
            x[:, :, :] = x0
            for i in range(n):
                for j in range(n):
                    for k in range(n):
                        for w in range(LANES):
                            x[i, j, w] += tmp[i, k, w] * f[j, k, w]
            _multiply(f, phi, tmp)
            phi[:, :, :] = tmp


@njit(cache=True, error_model="numpy", nogil=True)
def _some_policies(gains, a, b, q, r, x0, continuous, horizon, costs):
    _, n_inputs, n = gains.shape
    n_targets = a.shape[0]
    f = np.empty((n, n, LANES))
    x = np.empty((n, n, LANES))
    phi = np.empty((n, n, LANES))
    tmp = np.empty((n, n, LANES))
    extra = np.empty((n, n, LANES))
    lane = np.empty(LANES)
    for gain, cost in zip(gains, costs):  # noqa: B905 (not known to numba)
        for first in range(0, n_targets, LANES):
            for w in range(LANES):
                t = min(first + w, n_targets - 1)
                for i in range(n):
                    for j in range(n):
                        value = a[t, i, j]
                        for u in range(n_inputs):
                            value -= b[t, i, u] * gain[u, j]
                        f[i, j, w] = value
                        x[i, j, w] = x0[i, j]
            if continuous and np.isinf(horizon):
                _cayley(f, x, phi, extra, tmp, lane)
                _double_to_the_end(phi, x, tmp, lane)
            elif continuous:
                _finite_time(f, x, phi, extra, tmp, lane, horizon)
            elif np.isinf(horizon):
                phi[:, :, :] = f
                _double_to_the_end(phi, x, tmp, lane)
            else:
                extra[:, :, :] = x
                _finite_steps(f, extra, x, phi, tmp, int(horizon))
            for w in range(min(LANES, n_targets - first)):
                t = first + w
                total = 0.0
                for i in range(n):
                    for j in range(n):
                        weight = q[t, i, j]
                        for u in range(n_inputs):
                            for v in range(n_inputs):
                                weight += gain[u, i] * r[t, u, v] * gain[v, j]
                        total += weight * x[i, j, w]
                # An unstable loop has x = inf; NaN comes only from overflow.
                finite = total < np.inf and x[0, 0, w] < np.inf
                cost[t] = total if finite else np.inf


def closed_loop_cost(
    gains: NDArray[np.float64],
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    q: NDArray[np.float64],
    r: NDArray[np.float64],
    x0: NDArray[np.float64],
    continuous: bool,
    horizon: float,
) -> NDArray[np.float64]:
    """Cost of every gain at every context.

    Args:
        gains: K, shape `(policy, n_inputs, n_states)`.
        a: A, shape `(target, n_states, n_states)`.
        b: B, shape `(target, n_states, n_inputs)`.
        q: Q, shape `(target, n_states, n_states)`.
        r: R, shape `(target, n_inputs, n_inputs)`.
        x0: second moment of the initial state, `(n_states, n_states)`.
        continuous: continuous or discrete time.
        horizon: time or number of steps; `inf` for no end.

    Returns:
        Cost with dims `(policy, target)`; `inf` where the loop is unstable.
    """
    gains, a, b, q, r, x0 = (
        np.ascontiguousarray(array, np.float64) for array in (gains, a, b, q, r, x0)
    )
    cost = np.empty((len(gains), len(a)))

    def kernel(first: int, stop: int) -> None:
        _some_policies(
            gains[first:stop], a, b, q, r, x0, continuous, horizon, cost[first:stop]
        )

    over_rows(kernel, len(gains))
    return cost
