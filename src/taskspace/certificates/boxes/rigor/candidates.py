"""Closed loops on a box and candidates for their costs.

`closed_loop` is rigorous: polynomials and what they leave out. The candidates are not;
they are Taylor coefficients in plain floating point, good if the box is small.
"""

import numpy as np
from numba import njit

from taskspace.certificates.boxes.rigor.residual import (
    absolute_sum,
    add_products,
    nonzero,
    rounding,
)
from taskspace.certificates.boxes.rigor.small_matrices import (
    add_product,
    add_product_t,
    fill_product,
    invert,
    lyapunov_solve,
    symmetrise,
    transposed,
)
from taskspace.certificates.boxes.rigor.taylor import SLACK, TINY


@njit(cache=True, error_model="numpy")
def closed_loop(plant, gain, tables, a, w):
    """Fill A − B K and Q + Kᵀ R K as polynomials; give what they leave out.

    Args:
        plant: `A, A_rest, B, B_rest, Q, Q_rest, R, R_rest`.
        gain: coefficients of K, `(monomial, n_inputs, n_states)`.
        tables: `product, even, n_plant`.
        a: closed loop to fill.
        w: weight to fill.

    Returns:
        Entrywise remainders of the two, without those of B and R.
    """
    A, A_rest, B, _, Q, Q_rest, R, _ = plant
    product = tables[0]
    n, m = B.shape[1:]
    gamma = rounding(n, m, a.shape[0])
    a[:] = 0.0
    w[:] = 0.0
    a_tail = np.zeros((n, n))
    w_tail = np.zeros((n, n))
    rk_tail = np.zeros((m, n))
    add_products(B, gain, product, False, a, a_tail)
    for g in range(a.shape[0]):
        for i in range(n):
            for j in range(n):
                a[g, i, j] = -a[g, i, j]
                if g < A.shape[0]:
                    a[g, i, j] += A[g, i, j]
    rk = np.zeros((w.shape[0], m, n))
    add_products(R, gain, product, False, rk, rk_tail)
    add_products(gain, rk, product, True, w, w_tail)
    for g in range(w.shape[0]):
        for i in range(n):
            for j in range(n):
                if g < Q.shape[0]:
                    w[g, i, j] += Q[g, i, j]
        symmetrise(w[g])
    gain_sum = absolute_sum(gain)
    a_abs = absolute_sum(A)
    add_product(a_abs, absolute_sum(B), gain_sum, 1.0)
    w_abs = absolute_sum(Q)
    rk_abs = np.zeros((m, n))
    add_product(rk_abs, absolute_sum(R), gain_sum, 1.0)
    add_product_t(w_abs, gain_sum, rk_abs, 1.0)
    add_product_t(w_tail, gain_sum, rk_tail, 1.0)
    for i in range(n):
        for j in range(n):
            a_tail[i, j] = (a_tail[i, j] + gamma * a_abs[i, j] + A_rest[i, j]) * SLACK
            w_tail[i, j] = (w_tail[i, j] + gamma * w_abs[i, j] + Q_rest[i, j]) * SLACK
            a_tail[i, j] += TINY
            w_tail[i, j] += TINY
    symmetrise(w_tail)
    return a_tail, w_tail


@njit(cache=True, error_model="numpy")
def candidates(a, w, factors, pivots, product, continuous, p):
    """Fill the Taylor coefficients of the solution of L(P) = −W, in floating point."""
    n = a.shape[1]
    live = nonzero(a)
    right, inside = np.empty((n, n)), np.empty((n, n))
    for g in range(p.shape[0]):
        for i in range(n):
            for j in range(n):
                p[g, i, j] = 0.0
                right[i, j] = w[g, i, j] if g < w.shape[0] else 0.0
        for b in range(g):
            for x in range(a.shape[0]):
                if not live[x]:
                    continue
                if continuous:
                    if product[x, b] == g:
                        add_product_t(right, a[x], p[b], 2.0)
                else:
                    for y in range(a.shape[0]):
                        inner = product[x, b]
                        if live[y] and inner >= 0 and product[inner, y] == g:
                            fill_product(inside, p[b], a[y])
                            add_product_t(right, a[x], inside, 1.0)
        lyapunov_solve(factors, pivots, right, p[g])


@njit(cache=True, error_model="numpy")
def follow_optimum(plant, a, p, product, continuous, n_linear, gain):
    """Fill the first derivatives of the optimal gain: R̃₀ K_i = D_iᵀ."""
    _, _, B, _, _, _, R, _ = plant
    n, m = B.shape[1:]
    weight = R[0].copy()
    if not continuous:
        pb = np.zeros((n, m))
        add_product(pb, p[0], B[0], 1.0)
        add_product_t(weight, B[0], pb, 1.0)
    inverse, fine = invert(weight)
    if not fine:
        return
    for g in range(1, n_linear):
        d = np.zeros((n, m))
        for x in range(g + 1):
            for y in range(g + 1):
                if product[x, y] != g:
                    continue
                if continuous:
                    if y < B.shape[0]:
                        add_product(d, p[x], B[y], 1.0)
                else:
                    # Σ a_xᵀ p_0 B_y + a_0ᵀ p_x B_y for x y of degree one in all
                    if y < B.shape[0]:
                        pb = np.zeros((n, m))
                        add_product(pb, p[0], B[y], 1.0)
                        add_product_t(d, a[x], pb, 1.0)
        if not continuous:
            pb = np.zeros((n, m))
            add_product(pb, p[g], B[0], 1.0)
            add_product_t(d, a[0], pb, 1.0)
        if g < R.shape[0]:
            add_product_t(d, gain[0], R[g], -1.0)
        add_product(gain[g], inverse, transposed(d), 1.0)


@njit(cache=True, error_model="numpy")
def definite_scale(a, w, factors, pivots, p, sigma, tables, continuous):
    """Return W₀ + η P₀, for a weight that is not definite, and its candidate X.

    P₀ has the units of W₀ times a time, so this is a choice without units: η makes
    X cost about twice what P does. A little of what the initial state spans is added
    for states that cost nothing.
    """
    n = sigma.shape[0]
    x = np.zeros(p.shape)
    stack = np.zeros((1, n, n))
    scale = stack[0]
    extra = np.zeros((n, n))
    lyapunov_solve(factors, pivots, p[0], extra)
    cost, more = 0.0, 0.0
    for i in range(n):
        for j in range(n):
            cost += p[0, i, j] * sigma[i, j]
            more += extra[i, j] * sigma[i, j]
    if not (cost > 0.0 and more > 0.0):
        return x, scale, False
    eta = cost / more
    for i in range(n):
        for j in range(n):
            scale[i, j] = w[0, i, j] + eta * p[0, i, j]
    for i in range(n):
        if sigma[i, i] > 0.0:
            scale[i, i] += 1e-3 * eta * cost / (n * sigma[i, i])
        scale[i, i] *= 1.0 + 1e-7
        if not scale[i, i] > 0.0:
            return x, scale, False
    candidates(a, stack, factors, pivots, tables[0], continuous, x)
    return x, scale, True
