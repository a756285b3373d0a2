r"""The cost of a gain, and the least cost of all, between polynomials on a box.

For $u = -K(s) x$ with closed loop $A$ and weight $W = Q + K^\top R K$ the cost is
$\mathrm{tr}(P \Sigma)$, $L(P) = -W$, with $L(X) = A^\top X + X A$ (discrete:
$A^\top X A - X$) and $\Sigma = E[x_0 x_0^\top]$. A candidate $P(s)$ comes from Taylor
expansion at the centre in plain floating point; the proof is about what it leaves over,
$E = L(P) + W$ (`taskspace.certificates.boxes.rigor.residual`).

- *Against the weight*: if $-\rho W \preceq E \preceq \rho W$, then
  $\mathrm{tr}(P\Sigma) / (1 + \rho) \le \text{cost} \le
  \mathrm{tr}(P\Sigma) / (1 - \rho)$. The lower bound needs no stability (an unstable
  loop costs infinity), the upper one $\rho < 1$.
- *Against a definite matrix*, where $W$ is singular or nearly so: $|E| \preceq \nu Z$
  and $L(X) \preceq -(1 - \nu_X) Z$ with $Z = (T^\top T)^{-1} \succ 0$ give
  $|\text{cost} - \mathrm{tr}(P\Sigma)| \le \nu / (1 - \nu_X) \, \mathrm{tr}(X \Sigma)$.
- *Stability*: $L(X(s)) \prec 0$ on the whole box (X = P in the first case) leaves no
  eigenvalue on the boundary of the stable region for any loop of the enclosure, which
  is connected; so all loops have as many unstable eigenvalues as the one at the
  centre, as many as $X(0)$ has negative ones. $X(0) \succ 0$ proves stability, a vector
  with $v^\top X(0) v < 0$ instability, of the whole box.
- *As matrices*: all this holds for P itself, in the order of symmetric matrices: from
  every initial state, not only for the trace with Σ.
- *The least cost*: for $K(s)$ near the optimal gain and its candidate $S$, with
  $D = S B - K^\top R$ (discrete: $A^\top S B - K^\top R$) the Riccati residual is
  $F(S) = E - D \tilde R^{-1} D^\top$, $\tilde R = R$ (discrete:
  $R + B^\top S B \succeq R$). If $F(S) + t (Q + K_S^\top R K_S) \succeq 0$, then
  $F((1-t) S) \succeq 0$, and so $(1 - t)\,\mathrm{tr}(S \Sigma)$ is below the cost of
  every stabilising gain. No power of the context higher than those of E and D appears.
"""

import numpy as np
from numba import njit

from taskspace.certificates.boxes.rigor.candidates import (
    candidates,
    closed_loop,
    definite_scale,
    follow_optimum,
)
from taskspace.certificates.boxes.rigor.residual import (
    absolute_sum,
    absolute_transpose,
    add_products,
    add_weight,
    frobenius,
    perron_bound,
    range_norm,
    residual,
    right_product,
    round_up,
    rounding,
    scaled_gain,
    scaled_loop,
    scaled_weight,
    sum_of_norms,
    widen,
)
from taskspace.certificates.boxes.rigor.small_matrices import (
    add_product,
    add_product_t,
    inverse_cholesky,
    lyapunov_factors,
    riccati_gain,
)
from taskspace.certificates.boxes.rigor.taylor import SLACK, TINY

UNKNOWN, STABLE, UNSTABLE = 0, 1, 2
# Beyond this relative error the definite matrix is tried too.
LOOSE = 0.3
# Factors by which a shift of S may have to exceed the least one.
SHARES = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0)
# What a bound must stay below for 1 − bound to be a safe divisor.
SURE = 0.999


@njit(cache=True, error_model="numpy")
def box_costs(plant, given, least, sigma, tables, continuous, n_p, low, high):
    """Fill polynomials below and above the cost of a gain, or of the best, on a box.

    Args:
        plant: `A, A_rest, B, B_rest, Q, Q_rest, R, R_rest`, see `fill_plant`.
        given: the gain, `(1, n_inputs, n_states)`.
        least: bound the least cost of all gains instead.
        sigma: second moment of the initial state.
        tables: `product, even, n_linear` of monomials up to one degree more than that
            of the candidate.
        continuous: kind of time.
        n_p: number of monomials of the candidate.
        low: coefficients to fill. Below the cost of a gain whatever the status is;
            below the least cost if that is `STABLE`.
        high: coefficients to fill; above the cost if the status is `STABLE`.

    Returns:
        Status of the loop on the whole box: `STABLE`, `UNSTABLE` or `UNKNOWN`.
    """
    A, _, B, _, Q, _, R, _ = plant
    product = tables[0]
    n, m = B.shape[1:]
    n_cap, n_linear = len(tables[1]), tables[2]
    n_loop = n_cap if least else A.shape[0]
    low[:n_p], high[:n_p] = 0.0, 0.0
    gain = np.zeros((n_linear if least else 1, m, n))
    gain[0] = given[0]
    if least and not riccati_gain(A[0], B[0], Q[0], R[0], continuous, gain[0]):
        return UNKNOWN
    a = np.zeros((n_loop, n, n))
    w = np.zeros((n_loop, n, n))
    a_rest, w_rest = closed_loop(plant, gain, tables, a, w)
    pivots = np.empty(n * (n + 1) // 2, np.int64)
    factors, fine = lyapunov_factors(a[0], continuous, pivots)
    if not fine:
        return UNKNOWN
    p = np.zeros((n_p, n, n))
    if least:
        # The optimal gain to first order in the context, then its own loop.
        candidates(a, w, factors, pivots, product, continuous, p[:n_linear])
        follow_optimum(plant, a, p, product, continuous, n_linear, gain)
        a_rest, w_rest = closed_loop(plant, gain, tables, a, w)
    candidates(a, w, factors, pivots, product, continuous, p)
    gamma = rounding(n, m, n_cap)
    value = np.empty(n_p)
    slop = trace_polynomial(p, sigma, gamma, value)
    loop = (a, a_rest, w, w_rest)
    even = tables[1]
    status, best = UNKNOWN, np.inf
    x, scale = p, w[0]
    for attempt in range(2):
        # Against the weight itself; then, if need be, against a definite matrix.
        if attempt == 1:
            x, scale, fine = definite_scale(
                a, w, factors, pivots, p, sigma, tables, continuous
            )
            if not fine:
                break
        t, fine = inverse_cholesky(scale)
        if not fine:
            continue
        nu, mw, mw_rest, c, y, kt_stack, kt = scaled_problem(
            plant, gain, loop, p, t, tables, continuous, gamma
        )
        phi, nu_x = np.inf, np.inf
        yx = y
        if attempt == 0:
            phi = identity_gap(mw, mw_rest, -1.0, even, gamma)
            nu_x = nu / (1.0 - phi) * SLACK if phi < 0.99 else np.inf  # ρ
        else:
            ex, ex_rest, yx = residual(c, x, t, tables, continuous, gamma)
            nu_x = identity_gap(ex, ex_rest, 1.0, even, gamma)
        if not (nu < np.inf and nu_x < np.inf):
            continue
        below, above = np.zeros(n_p), np.zeros(n_p)
        if attempt == 0 and not least:
            # Holds for unstable loops too: they cost infinity.
            low_factor = (1.0 - 1e-15) / (1.0 + nu_x)
            scale_polynomial(value, slop, low_factor, -1.0, below)
            if status == UNKNOWN:
                low[:n_p] = below
        sign = definite(x[0]) if nu_x < SURE else 0
        if sign < 0:
            return UNSTABLE
        if sign == 0:
            continue
        error = nu_x
        x_value = np.empty(n_p)
        x_slop = trace_polynomial(x, sigma, gamma, x_value)
        shift = nu / (1.0 - nu_x) * SLACK
        if attempt == 0:
            high_factor = (1.0 + 1e-15) / (1.0 - nu_x)
            scale_polynomial(value, slop, high_factor, 1.0, above)
        else:
            error = 2.0 * shift * abs(x_value[0]) / (abs(value[0]) + TINY)
            shift_polynomial(value, slop, x_value, x_slop, shift, 1.0, above)
        if least:
            d_norm, r_phi = gain_gap(plant, gain, y, kt_stack, kt, t, tables, gamma)
            if not (r_phi < 0.99 and d_norm < np.inf):
                continue
            if attempt == 0:
                share = riccati_share(nu, phi, d_norm, r_phi)
                if not share < SURE:
                    continue
                low_factor = (1.0 - share) * (1.0 - 1e-15)
                scale_polynomial(value, slop, low_factor, -1.0, below)
                error += share
            else:
                x_norm, inside = input_norms(plant, yx, x, tables, gamma, continuous)
                beta = riccati_shift(nu, nu_x, d_norm, r_phi, x_norm, inside, shift)
                if not beta < np.inf:
                    continue
                shift_polynomial(value, slop, x_value, x_slop, beta, -1.0, below)
        elif attempt == 1:
            shift_polynomial(value, slop, x_value, x_slop, shift, -1.0, below)
        if status != STABLE or error < best:
            status, best = STABLE, error
            low[:n_p], high[:n_p] = below, above
        if error < LOOSE:
            break
    return status


@njit(cache=True, error_model="numpy")
def identity_gap(stack, rest, sign, even, gamma):
    """Return a bound on the norm of `sign · I` plus the polynomial, over the box."""
    for i in range(rest.shape[0]):
        stack[0, i, i] += sign
        rest[i, i] += 4e-16 * (1.0 + abs(stack[0, i, i]))
    return range_norm(stack, rest, even, gamma)


@njit(cache=True, error_model="numpy")
def riccati_share(nu, phi, d_norm, r_phi):
    """Return t for which (1 − t) S satisfies the Riccati inequality, or inf."""
    # ‖K Tᵀ‖² <= (1 + φ) / (1 − φ_R) in the scaling of R.
    cross = 2.0 * d_norm * np.sqrt((1.0 + phi) / (1.0 - r_phi)) * SLACK
    f = (nu + d_norm * d_norm / (1.0 - r_phi)) * SLACK
    if not cross * SLACK < 1.0 - phi:
        return np.inf
    return f / (1.0 - phi - cross) * SLACK


@njit(cache=True, error_model="numpy")
def scaled_problem(plant, gain, loop, p, t, tables, continuous, gamma):
    """Return the residual of a candidate scaled by T, and what is needed again."""
    _, _, _, B_rest, _, _, _, R_rest = plant
    a, a_rest, w, w_rest = loop
    even = tables[1]
    n = t.shape[0]
    kt_stack, kt = scaled_gain(gain, t, gamma)
    c = np.empty(a.shape)
    c_sum, c_rest = scaled_loop(a, a_rest, B_rest, kt, t, gamma, c)
    mw = np.zeros((len(even), n, n))
    mw_rest = np.zeros((n, n))
    scaled_weight(w, w_rest, kt, R_rest, t, gamma, mw, mw_rest)
    scaled = (c, c_sum, c_rest)
    e, e_rest, y = residual(scaled, p, t, tables, continuous, gamma)
    add_weight(e, e_rest, mw, mw_rest, gamma)
    nu = range_norm(e, e_rest, even, gamma)
    return nu, mw, mw_rest, scaled, y, kt_stack, kt


@njit(cache=True, error_model="numpy")
def gain_gap(plant, gain, y, kt_stack, kt, t, tables, gamma):
    """Return bounds on ‖T D T_Rᵀ‖ and on ‖T_R R T_Rᵀ − I‖ over the box."""
    _, _, B, B_rest, _, _, R, R_rest = plant
    product, even = tables[0], tables[1]
    n, m = B.shape[1:]
    t_r, fine = inverse_cholesky(R[0])
    if not fine:
        return np.inf, np.inf
    none = np.zeros((1, m))
    mr = np.zeros((len(even), m, m))
    mr_rest = np.zeros((m, m))
    scaled_weight(R, R_rest, none, np.zeros((1, 1)), t_r, gamma, mr, mr_rest)
    for i in range(m):
        mr[0, i, i] -= 1.0
        mr_rest[i, i] += 4e-16
    r_phi = range_norm(mr, mr_rest, even, gamma)
    d, d_rest = through_inputs(B, B_rest, t_r, y, product, gamma)
    # minus (K Tᵀ)ᵀ (R T_Rᵀ)
    rt = np.empty(R.shape)
    right_product(R, t_r, rt)
    inner = absolute_sum(R)
    widen(inner, gamma, R_rest, 0.0)
    rt_rest = np.zeros((m, m))
    add_product(rt_rest, inner, absolute_transpose(t_r), 1.0)
    add_products(-kt_stack, rt, product, True, d, d_rest)
    add_product_t(d_rest, kt, rt_rest, 1.0)
    # Rounding of K Tᵀ and of all these sums.
    kt_rest = np.zeros(kt.shape)
    add_product(kt_rest, absolute_sum(gain), absolute_transpose(t), gamma)
    rt_sum = absolute_sum(rt)
    add_product_t(d_rest, kt_rest, rt_sum, 1.0)
    add_product_t(d_rest, kt, rt_sum, gamma)
    return sum_of_norms(d, d_rest) * SLACK + n * m * TINY, r_phi


@njit(cache=True, error_model="numpy")
def through_inputs(B, B_rest, t_r, scaled, product, gamma):
    """Return the polynomial yᵀ B T_Rᵀ and its radius."""
    y, y_sum, y_rest = scaled
    n, m = B.shape[1:]
    bt = np.empty(B.shape)
    right_product(B, t_r, bt)
    inner = absolute_sum(B)
    widen(inner, gamma, B_rest, 0.0)
    bt_rest = np.zeros((n, m))
    add_product(bt_rest, inner, absolute_transpose(t_r), 1.0)
    d = np.zeros((y.shape[0], n, m))
    d_rest = np.zeros((n, m))
    add_products(y, bt, product, True, d, d_rest)
    bt_sum = absolute_sum(bt)
    add_product_t(d_rest, y_sum, bt_rest, 1.0)
    add_product_t(d_rest, y_rest, bt_rest, 1.0)
    add_product_t(d_rest, y_rest, bt_sum, 1.0)
    add_product_t(d_rest, y_sum, bt_sum, 2.0 * gamma)
    round_up(d_rest, n * TINY)
    return d, d_rest


@njit(cache=True, error_model="numpy")
def input_norms(plant, yx, x, tables, gamma, continuous):
    """Bound ‖T X B T_Rᵀ‖ (or with A in it) and, discrete, ‖T_R Bᵀ X B T_Rᵀ‖."""
    _, _, B, B_rest, _, _, R, _ = plant
    n, m = B.shape[1:]
    t_r, fine = inverse_cholesky(R[0])
    if not fine:
        return np.inf, np.inf
    d, d_rest = through_inputs(B, B_rest, t_r, yx, tables[0], gamma)
    total = sum_of_norms(d, d_rest)
    inside = 0.0
    if not continuous:
        # Entrywise: |T_R| |B|ᵀ |X| |B| |T_R|ᵀ; it only enters times a small number.
        bt = np.zeros((n, m))
        add_product(bt, absolute_sum(B), absolute_transpose(t_r), 1.0)
        add_product(bt, B_rest, absolute_transpose(t_r), 1.0)
        xb = np.zeros((n, m))
        add_product(xb, absolute_sum(x), bt, 1.0)
        square = np.zeros((m, m))
        add_product_t(square, bt, xb, 1.0)
        inside = frobenius(square)
    return total * SLACK, inside * SLACK


@njit(cache=True, error_model="numpy")
def riccati_shift(nu, nu_x, d_norm, r_phi, x_norm, inside, factor):
    """Return β for which S − β X satisfies the Riccati inequality, inf for none.

    β (1 − ν_X) − ν >= (‖D‖ + β ‖X B‖)² / (1 − φ_R − (β + κ) ‖Bᵀ X B‖) must hold, where
    S >= −κ X is all that is known of the candidate's sign (κ is `factor`).
    """
    need = (nu + d_norm * d_norm / (1.0 - r_phi)) / (1.0 - nu_x) * SLACK + TINY
    for k in range(len(SHARES)):
        beta = need * SHARES[k] * SLACK
        room = 1.0 - r_phi - (beta + factor) * inside * SLACK
        if not room > 0.01:
            return np.inf
        cost = (d_norm + beta * x_norm) * (d_norm + beta * x_norm) / room * SLACK
        if beta * (1.0 - nu_x) / SLACK >= (nu + cost) * SLACK:
            return beta
    return np.inf


@njit(cache=True, error_model="numpy")
def trace_polynomial(p, sigma, gamma, out):
    """Fill tr(P_α Σ); give a bound on the rounding of all of them together."""
    n = sigma.shape[0]
    slop = 0.0
    for g in range(p.shape[0]):
        total = 0.0
        for i in range(n):
            for j in range(n):
                x = p[g, i, j] * sigma[i, j]
                total += x
                slop += abs(x)
        out[g] = total
    return slop * (gamma * n + 1e-15) * SLACK + TINY


@njit(cache=True, error_model="numpy")
def definite(x):
    """Return 1 if a symmetric matrix is proven definite, −1 if proven not, else 0."""
    n = x.shape[0]
    gamma = rounding(n, 0, 1)
    t, fine = inverse_cholesky(x)
    if fine:
        none = np.zeros((1, n))
        out = np.zeros((1, n, n))
        rest = np.zeros((n, n))
        stack = np.empty((1, n, n))
        stack[0] = x
        zero = np.zeros((n, n))
        scaled_weight(stack, zero, none, np.zeros((1, 1)), t, gamma, out, rest)
        for i in range(n):
            out[0, i, i] -= 1.0
            for j in range(n):
                out[0, i, j] = abs(out[0, i, j]) + rest[i, j] + 4e-16
        if perron_bound(out[0]) < 0.99:
            return 1
        return 0
    for i in range(n):
        for j in range(n):
            if not np.isfinite(x[i, j]):
                return 0
    _, vectors = np.linalg.eigh(x)
    for k in range(n):
        total, slop = 0.0, 0.0
        for i in range(n):
            for j in range(n):
                y = x[i, j] * vectors[i, k] * vectors[j, k]
                total += y
                slop += abs(y)
        if total + gamma * n * slop + TINY < 0.0:
            return -1
    return 0


@njit(cache=True, error_model="numpy")
def scale_polynomial(p, slop, factor, sign, out):
    """Fill a bound above (`sign` 1) or below (−1) on factor · p(s), for p(s) >= 0."""
    total = 0.0
    for g in range(len(p)):
        out[g] = factor * p[g]
        total += abs(out[g])
    margin = (4e-16 * total + factor * slop) * SLACK + TINY
    out[0] += sign * margin
    # The margin is more than the rounding of adding it.


@njit(cache=True, error_model="numpy")
def shift_polynomial(p, slop, x, x_slop, factor, sign, out):
    """Fill a bound on p(s) ± factor · x(s), for x(s) >= 0 and factor >= 0."""
    total = 0.0
    for g in range(len(p)):
        out[g] = p[g] + sign * factor * x[g]
        total += abs(p[g]) + factor * abs(x[g])
    margin = (6e-16 * total + slop + factor * x_slop) * SLACK + TINY
    out[0] += sign * margin
