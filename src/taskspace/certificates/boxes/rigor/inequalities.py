r"""Matrix inequalities on whole boxes: H∞ norms below a level, and steady decay.

**H∞ norms**, by the bounded real lemma.

$\|C (sI - A)^{-1} B\|_\infty < \gamma$, and A is stable, if some $P \succ 0$ has
$F(P) = A^\top P + P A + Q - P B R^{-1} B^\top P \prec 0$ with $Q = C^\top C$ and
$R = -\gamma^2 I$: a Riccati inequality of an LQR with a negative weight. So its
candidates and residuals serve here too. For a gain K(s) near $R^{-1} B^\top P$, a
definite Z and a candidate P(s) of the equation with Q + Z,

$F(P) = E - Z - D R^{-1} D^\top$, $D = P B - K^\top R$,

where E is the residual of the Lyapunov equation of A − B K for the weight
$Q + Z + K^\top R K$. In the scaling $T Z T^\top = I$, $\|T E T^\top\| + d^2 < 1$ with
$d = \|T D\| / \gamma$ proves $F(P) \prec 0$ on the box. Then $A^\top P + P A \prec 0$
there, so no loop of the box has a mode on the boundary of stability, and $P(0) \succ 0$
proves that all are stable and all P positive definite.

Discrete time: $F(P) = A^\top P A - P + Q - A^\top P B \tilde R^{-1} B^\top P A$ with
$\tilde R = R + B^\top P B \prec 0$, and $D = (A - B K)^\top P B - K^\top R$; the same
with $\gamma^2 - \|B^\top P B\|$ in place of $\gamma^2$ under d.
"""

import numpy as np
from numba import njit

from taskspace.certificates.boxes.rigor.candidates import (
    candidates,
    closed_loop,
    follow_optimum,
)
from taskspace.certificates.boxes.rigor.costs import (
    definite,
    identity_gap,
    scaled_problem,
    through_inputs,
)
from taskspace.certificates.boxes.rigor.losses import empty_plant, fill_plant
from taskspace.certificates.boxes.rigor.residual import (
    absolute_sum,
    absolute_transpose,
    add_products,
    frobenius,
    residual,
    rounding,
    scaled_gain,
    scaled_loop,
    sum_of_norms,
)
from taskspace.certificates.boxes.rigor.small_matrices import (
    add_product,
    add_product_t,
    fill_product,
    inverse_cholesky,
    lyapunov_factors,
    riccati_gain,
    symmetrise,
    transposed,
)
from taskspace.certificates.boxes.rigor.taylor import SLACK, TINY

# Shares of the weight, and of what P costs per time, that Z is tried with.
SHARES = (0.3, 0.1, 0.03, 0.01, 1e-3)


@njit(cache=True, error_model="numpy")
def _margin(plant, t, tables, n_p, gain, continuous):
    """Return 1 − ‖T E Tᵀ‖ − d² with Z in the weight, and whether P(0) ≻ 0."""
    _, _, B, B_rest, _, _, R, R_rest = plant
    product = tables[0]
    n, m = B.shape[1:]
    n_cap, n_linear = len(tables[1]), tables[2]
    a, w = np.zeros((n_cap, n, n)), np.zeros((n_cap, n, n))
    a_rest, w_rest = closed_loop(plant, gain, tables, a, w)
    pivots = np.empty(n * (n + 1) // 2, np.int64)
    factors, fine = lyapunov_factors(a[0], continuous, pivots)
    if not fine:
        return -np.inf, False
    p = np.zeros((n_p, n, n))
    candidates(a, w, factors, pivots, product, continuous, p[:n_linear])
    follow_optimum(plant, a, p, product, continuous, n_linear, gain)
    a_rest, w_rest = closed_loop(plant, gain, tables, a, w)
    candidates(a, w, factors, pivots, product, continuous, p)
    gamma = rounding(n, m, n_cap)
    loop = (a, a_rest, w, w_rest)
    nu, _, _, _, y, kt_stack, kt = scaled_problem(
        plant, gain, loop, p, t, tables, continuous, gamma
    )
    # T D T_Rᵀ with T_R = I / √h, h <= −R: D = P B − Kᵀ R.
    size = 0.0
    for i in range(m):
        size = max(size, -R[0, i, i])
    t_r = np.zeros((m, m))
    for i in range(m):
        t_r[i, i] = 1.0 / np.sqrt(size)
    d, d_rest = through_inputs(B, B_rest, t_r, y, product, gamma)
    scaled = absolute_sum(R)
    for i in range(m):
        for j in range(m):
            scaled[i, j] = (scaled[i, j] * gamma + R_rest[i, j]) * t_r[j, j]
    for g in range(kt_stack.shape[0]):
        for i in range(n):
            for j in range(m):
                if g < d.shape[0]:
                    d[g, i, j] -= kt_stack[g, j, i] * R[0, j, j] * t_r[j, j]
    kt_t = absolute_transpose(kt)
    add_product(d_rest, kt_t, scaled, 4.0)
    # Coefficients of R beyond the first, and rounding of K Tᵀ and of the sums.
    for g in range(1, R.shape[0]):
        for j in range(m):
            for i in range(n):
                d_rest[i, j] += kt_t[i, j] * abs(R[g, j, j]) * t_r[j, j]
    rounded = np.zeros(kt.shape)
    add_product(rounded, absolute_sum(gain), absolute_transpose(t), gamma)
    for i in range(n):
        for j in range(m):
            error = rounded[j, i] + 8.0 * gamma * kt_t[i, j]
            d_rest[i, j] += error * abs(R[0, j, j]) * t_r[j, j]
    total = sum_of_norms(d, d_rest)
    # |R| is at least `least` on the box: d² is divided by its share of `size`.
    least = size
    for i in range(m):
        low = -R[0, i, i] - R_rest[i, i]
        for g in range(1, R.shape[0]):
            low -= abs(R[g, i, i])
        least = min(least, low)
    if not continuous:
        least -= _input_square(p, B, B_rest, product, n_cap, gamma)
    if not least > 1e-3 * size:
        return -np.inf, False
    square = total * total * (size / least) * SLACK
    if not (nu < np.inf and square < np.inf):
        return -np.inf, False
    return 1.0 - (nu + square) * SLACK - n * TINY, definite(p[0]) > 0


@njit(cache=True, error_model="numpy")
def _input_square(p, B, B_rest, product, n_cap, gamma):
    """Bound ‖Bᵀ P B‖ over the box from above."""
    n, m = B.shape[1:]
    pb, square = np.zeros((n_cap, n, m)), np.zeros((n_cap, m, m))
    rest, whole = np.zeros((n, m)), np.zeros((m, m))
    b_sum, p_sum = absolute_sum(B), absolute_sum(p)
    add_products(p, B, product, False, pb, rest)
    add_products(B, pb, product, True, square, whole)
    # What B leaves out, rounding of P B, and of Bᵀ times that.
    inner, reach = np.zeros((n, m)), np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            inner[i, j] = B_rest[i, j] + 4.0 * gamma * b_sum[i, j]
            reach[i, j] = b_sum[i, j] + B_rest[i, j]
    add_product(rest, p_sum, inner, 1.0)
    pb_sum = absolute_sum(pb)
    add_product_t(whole, reach, rest, 1.0)
    add_product_t(whole, inner, pb_sum, 1.0)
    return sum_of_norms(square, whole) * SLACK * SLACK + n * m * TINY


@njit(cache=True, error_model="numpy", nogil=True)
def bounded_real(program, boxes, tables, order, n_p, continuous, proven):
    """Fill where the norm is proven to be below the level of the program, per box.

    Args:
        program: tape, places of A, B, Q, R, place of each axis.
        boxes: centre and radius, each by box.
        tables: `product, even, n_linear`.
        order: of the models and of the candidates.
        n_p: number of monomials up to that order.
        continuous: kind of time; not a literal, or all below is compiled again for it.
        proven: filled.
    """
    tape, places, place = program
    centre, radius = boxes
    n, m = places[1].shape
    models = empty_plant(n_p, n, m)
    n_linear = tables[2]
    weight, plain, first = np.zeros((n, n)), np.zeros((n, n)), np.zeros((m, n))
    stack, inner, p = np.zeros((1, n, n)), np.zeros((1, n, n)), np.zeros((1, n, n))
    weighed = np.zeros((m, n))
    pivots = np.empty(n * (n + 1) // 2, np.int64)
    for b in range(len(centre)):
        proven[b] = False
        box = (centre[b], radius[b])
        if not fill_plant(tape, places, box, place, tables, order, models):
            continue
        A, B, Q, R = models[0], models[2], models[4], models[6]
        plain[:] = Q[0]
        if not riccati_gain(A[0], B[0], plain, R[0], continuous, first):
            continue
        # P without Z, from the Lyapunov equation of A − B K.
        stack[0] = A[0]
        add_product(stack[0], B[0], first, -1.0)
        factors, fine = lyapunov_factors(stack[0], continuous, pivots)
        if not fine:
            continue
        fill_product(weighed, R[0], first)
        inner[0] = plain
        add_product_t(inner[0], first, weighed, 1.0)
        candidates(stack, inner, factors, pivots, tables[0], continuous, p)
        speed = 0.0
        for i in range(n):
            speed += abs(stack[0, i, i] if continuous else stack[0, i, i] - 1.0)
        speed = speed / n
        for share in SHARES:
            for i in range(n):
                for j in range(n):
                    weight[i, j] = share * (plain[i, j] + speed * p[0, i, j])
                weight[i, i] *= 1.0 + 1e-6
            symmetrise(weight)
            t, fine = inverse_cholesky(weight)
            if not fine:
                continue
            gain = np.zeros((n_linear, m, n))
            Q[0] = plain + weight
            if riccati_gain(A[0], B[0], Q[0], R[0], continuous, gain[0]):
                margin, positive = _margin(models, t, tables, n_p, gain, continuous)
                proven[b] = positive and margin > loose(weight, Q[0], t)
            Q[0] = plain
            if proven[b]:
                break


@njit(cache=True, error_model="numpy")
def loose(z, q, t):
    """Return a bound on ‖T Z Tᵀ − I‖, and on the rounding of Q + Z scaled by T."""
    n = len(z)
    gamma = rounding(n, 0, 1)
    half, gap = np.empty((n, n)), np.empty((n, n))
    fill_product(half, t, z)
    fill_product(gap, half, transposed(t))
    size = absolute_transpose(t)
    inner = np.abs(z) + np.abs(q)
    spread = np.zeros((n, n))
    add_product(spread, inner, size, 1.0)
    whole = np.zeros((n, n))
    add_product(whole, absolute_transpose(size), spread, 8.0 * gamma)
    for i in range(n):
        gap[i, i] -= 1.0
    return (frobenius(gap) + frobenius(whole)) * SLACK + 1e-12


@njit(cache=True, error_model="numpy", nogil=True)
def bound_decay(
    gains, which, matrices, rates, program, boxes, tables, order, n_p, continuous,
    gaps,
):  # fmt: skip
    """Fill, for each box, whether its matrix decays on all of it.

    Args:
        gains: `(gain, 1, n_inputs, n_states)`.
        which: gain that is used on each box.
        matrices: X of each gain.
        rates: λ of each gain.
        program: tape, places of A, B, Q, R, place of each axis.
        boxes: centre and radius, each by box.
        tables: `product, even, n_linear`.
        order: of the plant's models.
        n_p: number of monomials up to that order.
        continuous: kind of time.
        gaps: filled; below 1, X decays with rate λ on the box.
    """
    tape, places, place = program
    centre, radius = boxes
    _, _, m, n = gains.shape
    plant = empty_plant(n_p, n, m)
    even = tables[1]
    n_cap = len(even)
    gamma = rounding(n, m, n_cap)
    a, w = np.zeros((n_p, n, n)), np.zeros((n_p, n, n))
    stack = np.empty((1, n, n))
    for b in range(len(centre)):
        gaps[b] = np.inf
        gain, rate = gains[which[b]], rates[which[b]]
        stack[0] = matrices[which[b]]
        box = (centre[b], radius[b])
        if not fill_plant(tape, places, box, place, tables, order, plant):
            continue
        a_rest, _ = closed_loop(plant, gain, tables, a, w)
        loop, loop_rest, b_rest = _shifted(a, a_rest, plant[3], rate, continuous)
        scale = _negative_decay(loop[0], stack[0], continuous)
        t, fine = inverse_cholesky(scale)
        if not fine:
            continue
        e, e_rest = _scaled_decay(
            loop, loop_rest, b_rest, gain, stack, t, tables, continuous, gamma
        )
        gaps[b] = identity_gap(e, e_rest, 1.0, even, gamma)


@njit(cache=True, error_model="numpy")
def _shifted(a, a_rest, b_rest, rate, continuous):
    """Return A + λI, or e^λ A, with remainders; entries round once."""
    loop, rest, inputs = a.copy(), a_rest.copy(), b_rest.copy()
    n = a_rest.shape[0]
    if continuous:
        for i in range(n):
            loop[0, i, i] += rate
            rest[i, i] = (rest[i, i] + 2.3e-16 * abs(loop[0, i, i])) * SLACK
        return loop, rest, inputs
    factor = np.exp(rate) * (1.0 + 1e-14)  # at least e^λ
    size = absolute_sum(a)
    for g in range(a.shape[0]):
        for i in range(n):
            for j in range(n):
                loop[g, i, j] *= factor
    for i in range(n):
        for j in range(n):
            rest[i, j] = (rest[i, j] + 2.3e-16 * size[i, j]) * factor * SLACK
        for j in range(inputs.shape[1]):
            inputs[i, j] *= factor * SLACK
    return loop, rest, inputs


@njit(cache=True, error_model="numpy")
def _negative_decay(a, x, continuous):
    """Return −L(X) at the centre, in plain floating point: only a scaling."""
    n = a.shape[0]
    out = np.zeros((n, n))
    if continuous:
        add_product_t(out, a, x, -1.0)
        add_product(out, x, a, -1.0)
    else:
        xa = np.empty((n, n))
        fill_product(xa, x, a)
        add_product_t(out, a, xa, -1.0)
        out += x
    symmetrise(out)
    return out


@njit(cache=True, error_model="numpy")
def _scaled_decay(a, a_rest, b_rest, gain, stack, t, tables, continuous, gamma):
    """Return T L(X) Tᵀ over the box, and its radius."""
    _, kt = scaled_gain(gain, t, gamma)
    c = np.empty(a.shape)
    c_sum, c_rest = scaled_loop(a, a_rest, b_rest, kt, t, gamma, c)
    e, e_rest, _ = residual((c, c_sum, c_rest), stack, t, tables, continuous, gamma)
    return e, e_rest
