r"""How much a gain loses from the worst initial state, bounded on a box.

From $P^-(s) \preceq P_K \preceq P^+(s)$ and $S^-(s) \preceq P_* \preceq S^+(s)$
(`taskspace.certificates.boxes.rigor.costs`), all polynomials with entrywise remainders:

- *Above*: if $P^+(s) \preceq \mu S^-(s)$ on the box, then $P_K \preceq \mu P_*$. After
  a scaling T that makes $T S^-(0) T^\top \approx I$ and $T P^+(0) T^\top$ nearly
  diagonal, every entry of $G(s) = T (P^+ - \mu S^-) T^\top$ has a range. The matrix $M$
  of these ranges (from above on the diagonal, of absolute values elsewhere) has
  $\lambda_{\max}(G(s)) \le \lambda_{\max}(M) \le \max_i (M x)_i / x_i$ for any $x > 0$.
- *Below*: one initial state $x_0$ is enough, and for one the loss is a quotient of two
  polynomials, $x_0^\top P^- x_0 / x_0^\top S^+ x_0$.
"""

import numpy as np
from numba import njit

from taskspace.certificates.boxes.rigor.costs import identity_gap
from taskspace.certificates.boxes.rigor.residual import scaled_weight
from taskspace.certificates.boxes.rigor.small import inverse_cholesky, transposed
from taskspace.certificates.boxes.rigor.taylor import (
    SLACK,
    TINY,
    largest_ratio,
    most,
)

# How much is added to the entries of an eigenvector, to make them positive.
LIFTS = (1e-3, 1e-6, 1e-9, 1e-12)


@njit(cache=True, error_model="numpy")
def start_range(stable, unstable, known, gain, least, even, gamma):
    """Return bounds on the least ε with P_K ⪯ (1 + ε) P* over a box.

    Args:
        stable: whether the gain's loop is stable on the whole box.
        unstable: whether it is unstable on the whole box.
        known: whether the least cost is bounded.
        gain: bounds on P_K, of `empty_matrices`.
        least: bounds on P*.
        even: monomials with range [0, 1].
        gamma: rounding.
    """
    if unstable:
        return np.inf, np.inf
    if not known:
        return 0.0, np.inf
    t, fine = main_directions(least[0][0], gain[2][0] if stable else gain[0][0])
    if not fine:
        return 0.0, np.inf
    n = len(t)
    at_least, at_most = 0.0, np.inf
    start = t[n - 1]
    below = quadratic_form(gain[0], gain[1], start, -1.0, gamma)
    if -most(-below, even) > 0.0:
        above = quadratic_form(least[2], least[3], start, 1.0, gamma)
        inverse = largest_ratio(above, below, even)
        if inverse > 0.0:
            at_least = max(0.0, (1.0 / inverse - 1.0) - 1e-15 / inverse)
    if stable:
        ratio = largest_eigenvalue(gain[2], gain[3], least[0], least[1], t, even, gamma)
        at_most = max(0.0, ratio - 1.0 + 4e-16 * ratio)
    return at_least, at_most


@njit(cache=True, error_model="numpy")
def main_directions(s, p):
    """Return T with T s Tᵀ ≈ I and T p Tᵀ nearly diagonal, the largest last."""
    t, fine = inverse_cholesky(s)
    if not fine:
        return t, False
    scaled = t @ np.ascontiguousarray(p) @ transposed(t)
    scaled = 0.5 * (scaled + scaled.T)
    for i in range(len(t)):
        for j in range(len(t)):
            if not np.isfinite(scaled[i, j]):
                return t, False
    _, vectors = np.linalg.eigh(scaled)
    return transposed(vectors) @ t, True


@njit(cache=True, error_model="numpy")
def quadratic_form(p, rest, x, sign, gamma):
    """Return a polynomial above (`sign` 1) or below (−1) xᵀ P(s) x."""
    n = len(x)
    out = np.zeros(p.shape[0])
    slop = 0.0
    for i in range(n):
        for j in range(n):
            slop += abs(x[i] * x[j]) * rest[i, j]
            for g in range(p.shape[0]):
                term = x[i] * x[j] * p[g, i, j]
                out[g] += term
                slop += gamma * n * abs(term)
    out[0] += sign * (slop * SLACK + n * n * TINY)
    # The slop is more than the rounding of adding it.
    return out


@njit(cache=True, error_model="numpy")
def largest_eigenvalue(p, p_rest, s, s_rest, t, even, gamma):
    """Return μ with P(s) ⪯ μ S(s) on the box; inf unless S ≻ 0."""
    n = len(t)
    n_p = p.shape[0]
    none, nothing = np.zeros((1, n)), np.zeros((1, 1))
    p_hat, p_error = np.zeros((n_p, n, n)), np.zeros((n, n))
    s_hat, s_error = np.zeros((n_p, n, n)), np.zeros((n, n))
    scaled_weight(p, p_rest, none, nothing, t, gamma, p_hat, p_error)
    scaled_weight(s, s_rest, none, nothing, t, gamma, s_hat, s_error)
    gap = identity_gap(s_hat.copy(), s_error.copy(), -1.0, even, gamma)
    if not gap < 0.9:
        return np.inf
    smallest, largest = (1.0 - gap) / SLACK, (1.0 + gap) * SLACK
    mu = max(0.0, p_hat[0, n - 1, n - 1])
    best = np.inf
    for _ in range(3):
        excess = top_of_difference(p_hat, p_error, s_hat, s_error, mu, even, gamma)
        if not excess < np.inf:
            return best
        bound = mu + excess / (smallest if excess > 0.0 else largest)
        bound += 8e-16 * (mu + abs(excess) / smallest) + TINY
        best = min(best, bound)
        mu = max(0.0, bound)
    return best


@njit(cache=True, error_model="numpy")
def top_of_difference(p, p_rest, s, s_rest, mu, even, gamma):
    """Bound the largest eigenvalue of P(s) − μ S(s) over the box from above."""
    n = p.shape[1]
    m = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            base, spread, size = 0.0, 0.0, 0.0
            for g in range(p.shape[0]):
                x = p[g, i, j] - mu * s[g, i, j]
                size += abs(p[g, i, j]) + mu * abs(s[g, i, j])
                if g == 0:
                    base += x
                elif even[g]:  # its range is [0, 1]
                    base += 0.5 * x
                    spread += 0.5 * abs(x)
                else:
                    spread += abs(x)
            error = p_rest[i, j] + mu * s_rest[i, j] + gamma * size
            m[i, j] = base if i == j else abs(base)
            m[i, j] += (spread + error) * SLACK + TINY
            if not np.isfinite(m[i, j]):
                return np.inf
    for i in range(n):
        for j in range(i):
            m[i, j] = max(m[i, j], m[j, i])
            m[j, i] = m[i, j]
    _, vectors = np.linalg.eigh(m)
    best = np.inf
    for k in range(len(LIFTS)):
        top = -np.inf
        for i in range(n):
            own = abs(vectors[i, n - 1]) + LIFTS[k]
            total, size = 0.0, 0.0
            for j in range(n):
                x = m[i, j] * (abs(vectors[j, n - 1]) + LIFTS[k])
                total += x
                size += abs(x)
            y = (total + gamma * size * SLACK + TINY) / own
            top = max(top, y + 4e-16 * abs(y))
        best = min(best, top)
    return best
