r"""The cost of a gain, and the least cost of all, between polynomials on a box.

For $u = -K(s) x$ with closed loop $A$ and weight $W = Q + K^\top R K$ the cost is
$\mathrm{tr}(P \Sigma)$, $L(P) = -W$, with $L(X) = A^\top X + X A$ (or $A^\top X A - X$) and
$\Sigma = E[x_0 x_0^\top]$. A candidate $P(s)$ comes from Taylor expansion at the centre in
plain floating point; the proof is about what it leaves over, $E = L(P) + W$
(`taskspace.certificates.rigor.residual`).

- *Against the weight*: if $-\rho W \preceq E \preceq \rho W$, then
  $\mathrm{tr}(P\Sigma) / (1 + \rho) \le \text{cost} \le \mathrm{tr}(P\Sigma) / (1 - \rho)$. The lower
  bound needs no stability (an unstable loop costs infinity), the upper one $\rho < 1$.
- *Against a definite matrix*, where $W$ is singular or nearly so: $|E| \preceq \nu Z$ and
  $L(X) \preceq -(1 - \nu_X) Z$ with $Z = (T^\top T)^{-1} \succ 0$ give
  $|\text{cost} - \mathrm{tr}(P\Sigma)| \le \nu / (1 - \nu_X) \, \mathrm{tr}(X \Sigma)$.
- *Stability*: $L(X(s)) \prec 0$ on the whole box (X = P in the first case) leaves no
  eigenvalue on the boundary of the stable region for any loop of the enclosure, which is
  connected; so all loops have as many unstable eigenvalues as the one at the centre, as many
  as $X(0)$ has negative ones. $X(0) \succ 0$ proves stability, a vector with
  $v^\top X(0) v < 0$ instability, of the whole box.
- *The least cost*: for $K(s)$ near the optimal gain and its candidate $S$, with
  $D = S B - K^\top R$ (discrete: $A^\top S B - K^\top R$) the Riccati residual is
  $F(S) = E - D \tilde R^{-1} D^\top$, $\tilde R = R$ (discrete: $R + B^\top S B \succeq R$). If
  $F(S) \succeq -f$ in the scaling and $F(S) + t (Q + K_S^\top R K_S) \succeq 0$, then
  $F((1-t) S) \succeq 0$, and so $\mathrm{tr}(S \Sigma)(1 - t)$ is below the cost of every
  stabilising gain. No power of the context higher than those of E and D appears.
"""

import numpy as np
from numba import njit

from taskspace.certificates.rigor.residual import (
    absolute_sum,
    add_products,
    frobenius,
    nonzero,
    perron_bound,
    range_norm,
    residual,
    right_product,
    rounding,
    scaled_loop,
    scaled_weight,
)
from taskspace.certificates.rigor.small import (
    add_product,
    add_product_t,
    inverse_cholesky,
    invert,
    lyapunov_factors,
    lyapunov_solve,
    riccati_gain,
    symmetrise,
)
from taskspace.certificates.rigor.taylor import SLACK, TINY

UNKNOWN, STABLE, UNSTABLE = 0, 1, 2
# Beyond this share the definite matrix is tried too.
LOOSE = 0.3
SHARES = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0)


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
    waste = np.zeros((n, n))
    live = nonzero(a)
    for g in range(p.shape[0]):
        right = np.zeros((n, n))
        if g < w.shape[0]:
            right[:] = w[g]
        p[g] = 0.0
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
                            waste[:] = 0.0
                            add_product(waste, p[b], a[y], 1.0)
                            add_product_t(right, a[x], waste, 1.0)
        lyapunov_solve(factors, pivots, right, p[g])


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
    """1 if the symmetric matrix is proven positive definite, −1 if proven not, else 0."""
    n = x.shape[0]
    gamma = rounding(n, 0, 1)
    t, fine = inverse_cholesky(x)
    if fine:
        none = np.zeros((1, n))
        out = np.zeros((1, n, n))
        rest = np.zeros((n, n))
        stack = x.copy().reshape((1, n, n))
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
def _scale(p, slop, factor, up, out):
    """Fill a bound on factor · p(s), for p(s) >= 0, from coefficients with rounding."""
    total = 0.0
    for g in range(len(p)):
        out[g] = factor * p[g]
        total += abs(out[g])
    margin = (4e-16 * total + factor * slop) * SLACK + TINY
    out[0] = out[0] + margin if up else out[0] - margin
    # The margin is more than the rounding of adding it.


@njit(cache=True, error_model="numpy")
def _shift(p, slop, x, x_slop, factor, up, out):
    """Fill a bound on p(s) ± factor · x(s), for x(s) >= 0 and factor >= 0."""
    total = 0.0
    sign = 1.0 if up else -1.0
    for g in range(len(p)):
        out[g] = p[g] + sign * factor * x[g]
        total += abs(p[g]) + factor * abs(x[g])
    margin = (6e-16 * total + slop + factor * x_slop) * SLACK + TINY
    out[0] += sign * margin


@njit(cache=True, error_model="numpy")
def gain_costs(plant, gain, sigma, tables, continuous, n_p, low, high):
    """Fill polynomials below and above the cost of a gain on the box.

    Args:
        plant: see `closed_loop`.
        gain: coefficients of K.
        sigma: second moment of the initial state.
        tables: `product, even`, up to one degree more than the candidate's.
        continuous: kind of time.
        n_p: number of monomials of the candidate.
        low: coefficients to fill; valid whatever the status.
        high: coefficients to fill; valid if the status is `STABLE`.

    Returns:
        The status of the loop on the whole box: `STABLE`, `UNSTABLE` or `UNKNOWN`.
    """
    n = sigma.shape[0]
    n_cap = len(tables[1])
    n_loop = plant[0].shape[0] if gain.shape[0] == 1 else n_cap
    a = np.empty((n_loop, n, n))
    w = np.empty((n_loop, n, n))
    a_rest, w_rest = closed_loop(plant, gain, tables, a, w)
    low[:] = 0.0
    high[:] = 0.0
    pivots = np.empty(n * (n + 1) // 2, np.int64)
    factors, fine = lyapunov_factors(a[0], continuous, pivots)
    if not fine:
        return UNKNOWN
    p = np.empty((n_p, n, n))
    candidates(a, w, factors, pivots, tables[0], continuous, p)
    loop = (a, a_rest, w, w_rest, factors, pivots, p)
    status, _ = _costs(plant, gain, loop, sigma, tables, continuous, False, low, high)
    return status


@njit(cache=True, error_model="numpy")
def least_costs(plant, sigma, tables, continuous, n_p, low, high):
    """Fill polynomials below and above the least cost of all gains on the box.

    Arguments as in `gain_costs`; both are valid only if the status is `STABLE`.
    """
    A, _, B, _, Q, _, R, _ = plant
    n, m = B.shape[1:]
    product = tables[0]
    n_cap = len(tables[1])
    low[:] = 0.0
    high[:] = 0.0
    gain = np.zeros((n_p, m, n))
    if not riccati_gain(A[0], B[0], Q[0], R[0], continuous, gain[0]):
        return UNKNOWN
    a = np.zeros((n_cap, n, n))
    w = np.zeros((n_cap, n, n))
    closed_loop(plant, gain[:1], tables, a, w)
    pivots = np.empty(n * (n + 1) // 2, np.int64)
    factors, fine = lyapunov_factors(a[0], continuous, pivots)
    if not fine:
        return UNKNOWN
    n_linear = tables[2]
    p = np.zeros((n_p, n, n))
    candidates(a, w, factors, pivots, product, continuous, p[:n_linear])
    _follow_optimum(plant, a, p, product, continuous, n_linear, gain)
    a_rest, w_rest = closed_loop(plant, gain[:n_linear], tables, a, w)
    candidates(a, w, factors, pivots, product, continuous, p)
    loop = (a, a_rest, w, w_rest, factors, pivots, p)
    status, fine = _costs(
        plant, gain[:n_linear], loop, sigma, tables, continuous, True, low, high
    )
    return status if fine else UNKNOWN


@njit(cache=True, error_model="numpy")
def _follow_optimum(plant, a, p, product, continuous, n_linear, gain):
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
        gain[g] = 0.0
        add_product(gain[g], inverse, d.T.copy(), 1.0)


@njit(cache=True, error_model="numpy")
def _costs(plant, gain, loop, sigma, tables, continuous, least, low, high):
    """The work of `gain_costs` and `least_costs` once the candidate is there."""
    _, _, B, B_rest, _, _, R, R_rest = plant
    a, a_rest, w, w_rest, factors, pivots, p = loop
    product, even = tables[0], tables[1]
    n, m = B.shape[1:]
    n_cap = len(even)
    gamma = rounding(n, m, n_cap)
    status, proven, best = UNKNOWN, False, np.inf
    phi, nu_x, top, x_slop = np.inf, np.inf, np.inf, 0.0
    yx = np.empty((0, n, n))
    yx_sum = yx_rest = np.empty((0, 0))
    x_value = np.empty(0)
    x = p
    scale = w[0]
    low_try, high_try = np.empty(len(low)), np.empty(len(low))
    value = np.empty(p.shape[0])
    slop = trace_polynomial(p, sigma, gamma, value)
    for against_weight in (True, False):
        if not against_weight:
            x, scale, fine = _definite_scale(a, w, factors, pivots, p, sigma, tables, continuous)
            if not fine:
                break
        t, fine = inverse_cholesky(scale)
        if not fine:
            continue
        # K Tᵀ, with what rounding may add to its sum.
        kt_stack = np.empty(gain.shape)
        right_product(gain, t, kt_stack)
        kt = absolute_sum(kt_stack)
        add_product(kt, absolute_sum(gain), np.abs(t).T.copy(), gamma)
        c = np.empty(a.shape)
        c_sum, c_rest = scaled_loop(a, a_rest, B_rest, kt, t, gamma, c)
        mw = np.zeros((n_cap, n, n))
        mw_rest = np.zeros((n, n))
        scaled_weight(w, w_rest, kt, R_rest, t, gamma, mw, mw_rest)
        e = np.empty((n_cap, n, n))
        e_rest = np.empty((n, n))
        y = np.empty((n_cap, n, n))
        y_sum, y_rest = residual(
            c, c_sum, c_rest, p, t, product, continuous, gamma, e, e_rest, y
        )
        for g in range(n_cap):
            for i in range(n):
                for j in range(n):
                    e[g, i, j] += mw[g, i, j]
        for i in range(n):
            for j in range(n):
                # Adding mw rounds by less than gamma times what is added.
                extra = 0.0
                for g in range(n_cap):
                    extra += abs(mw[g, i, j]) + abs(e[g, i, j])
                e_rest[i, j] += mw_rest[i, j] + gamma * extra
        nu = range_norm(e, e_rest, even, gamma)
        if not nu < np.inf:
            continue
        if against_weight:
            for i in range(n):
                mw[0, i, i] -= 1.0
                mw_rest[i, i] += 4e-16
            phi = range_norm(mw, mw_rest, even, gamma)
            if not phi < 0.99:
                continue
            rho = nu / (1.0 - phi) * SLACK
            # (1 + φ) bounds the weight from above in this scaling.
            top = (1.0 + phi) * SLACK
            _scale(value, slop, (1.0 - 1e-15) / (1.0 + rho), False, low_try)
            sure = rho < 0.999
            factor = 0.0
            if sure:
                factor = (1.0 + 1e-15) / (1.0 - rho)
                _scale(value, slop, factor, True, high_try)
            error = rho
        else:
            ex = np.empty((n_cap, n, n))
            ex_rest = np.empty((n, n))
            yx = np.empty((n_cap, n, n))
            yx_sum, yx_rest = residual(
                c, c_sum, c_rest, x, t, product, continuous, gamma, ex, ex_rest, yx
            )
            for i in range(n):
                ex[0, i, i] += 1.0
                ex_rest[i, i] += 4e-16 * (1.0 + abs(ex[0, i, i]))
            nu_x = range_norm(ex, ex_rest, even, gamma)
            sure = nu_x < 0.999
            if not sure:
                continue
            factor = nu / (1.0 - nu_x) * SLACK
            x_value = np.empty(x.shape[0])
            x_slop = trace_polynomial(x, sigma, gamma, x_value)
            _shift(value, slop, x_value, x_slop, factor, False, low_try)
            _shift(value, slop, x_value, x_slop, factor, True, high_try)
            error = factor * abs(x_value[0]) / (abs(value[0]) + TINY)
            top = np.inf
        if sure:
            sign = definite(x[0])
            if sign < 0:
                return UNSTABLE, False
            sure = sign > 0
        if not against_weight and not sure:
            continue
        if error < best or (sure and status != STABLE):
            best = error
            if not least:
                low[:] = low_try
                high[:] = high_try
        if sure:
            status = STABLE
        if least and sure:
            d_norm, r_phi = _gain_gap(
                plant, gain, y, y_sum, y_rest, kt_stack, kt, t, product, even, gamma, continuous
            )
            if r_phi < 0.99:
                fine = False
                if against_weight:
                    bottom = 1.0 - phi
                    cross = 2.0 * d_norm * np.sqrt(top / (1.0 - r_phi)) * SLACK
                    f = (nu + d_norm * d_norm / (1.0 - r_phi)) * SLACK
                    if cross < bottom:
                        share = f / (bottom - cross) * SLACK
                        if share < 1.0:
                            _scale(value, slop, (1.0 - share) * (1.0 - 1e-15), False, low_try)
                            fine = True
                else:
                    x_norm, inside = _input_norms(
                        plant, yx, yx_sum, yx_rest, x, product, gamma, continuous
                    )
                    fine, beta = _shrink(
                        nu, nu_x, d_norm, r_phi, x_norm, inside, factor
                    )
                    if fine:
                        _shift(value, slop, x_value, x_slop, beta, False, low_try)
                gap = high_try[0] - low_try[0]
                if fine and not (proven and gap >= high[0] - low[0]):
                    proven = True
                    low[:] = low_try
                    high[:] = high_try
        if sure and error < LOOSE and (proven or not least):
            break
    return status, proven


@njit(cache=True, error_model="numpy")
def _definite_scale(a, w, factors, pivots, p, sigma, tables, continuous):
    """A definite matrix for a weight that is not: W₀ + η P₀, and its candidate X.

    P₀ has the units of W₀ times a time, so this is a choice without units: η makes
    X cost about twice what P does.
    """
    n = sigma.shape[0]
    x = np.zeros(p.shape)
    scale = w[0].copy()
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
            scale[i, j] += eta * p[0, i, j]
    for i in range(n):
        scale[i, i] *= 1.0 + 1e-7
        if not scale[i, i] > 0.0:
            return x, scale, False
    candidates(a, scale.reshape((1, n, n)), factors, pivots, tables[0], continuous, x)
    return x, scale, True


@njit(cache=True, error_model="numpy")
def _gain_gap(
    plant, gain, y, y_sum, y_rest, kt_stack, kt, t, product, even, gamma, continuous
):
    """Bounds on ‖T D T_Rᵀ‖ and on ‖T_R R T_Rᵀ − I‖ over the box."""
    _, _, B, B_rest, _, _, R, R_rest = plant
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
    d, d_rest = _through_inputs(B, B_rest, t_r, y, y_sum, y_rest, product, gamma)
    # minus (K Tᵀ)ᵀ (R T_Rᵀ)
    rt = np.empty(R.shape)
    right_product(R, t_r, rt)
    inner = absolute_sum(R)
    for i in range(m):
        for j in range(m):
            inner[i, j] = gamma * inner[i, j] + R_rest[i, j]
    rt_rest = np.zeros((m, m))
    add_product(rt_rest, inner, np.abs(t_r).T.copy(), 1.0)
    minus = np.zeros(kt_stack.shape)
    for g in range(kt_stack.shape[0]):
        for i in range(kt_stack.shape[1]):
            for j in range(n):
                minus[g, i, j] = -kt_stack[g, i, j]
    add_products(minus, rt, product, True, d, d_rest)
    add_product_t(d_rest, kt, rt_rest, 1.0)
    # Rounding of K Tᵀ and of all these sums.
    kt_rest = np.zeros(kt.shape)
    add_product(kt_rest, absolute_sum(gain), np.abs(t).T.copy(), gamma)
    rt_sum = absolute_sum(rt)
    add_product_t(d_rest, kt_rest, rt_sum, 1.0)
    add_product_t(d_rest, kt, rt_sum, gamma)
    total = frobenius(d_rest)
    for g in range(d.shape[0]):
        total += frobenius(d[g])
    return total * SLACK + n * m * TINY, r_phi


@njit(cache=True, error_model="numpy")
def _through_inputs(B, B_rest, t_r, y, y_sum, y_rest, product, gamma):
    """The polynomial yᵀ B T_Rᵀ and its radius."""
    n, m = B.shape[1:]
    bt = np.empty(B.shape)
    right_product(B, t_r, bt)
    inner = absolute_sum(B)
    for i in range(n):
        for j in range(m):
            inner[i, j] = gamma * inner[i, j] + B_rest[i, j]
    bt_rest = np.zeros((n, m))
    add_product(bt_rest, inner, np.abs(t_r).T.copy(), 1.0)
    d = np.zeros((y.shape[0], n, m))
    d_rest = np.zeros((n, m))
    add_products(y, bt, product, True, d, d_rest)
    bt_sum = absolute_sum(bt)
    y_all = y_sum + y_rest
    add_product_t(d_rest, y_all, bt_rest, 1.0)
    add_product_t(d_rest, y_rest, bt_sum, 1.0)
    add_product_t(d_rest, y_sum, bt_sum, 2.0 * gamma)
    for i in range(n):
        for j in range(m):
            d_rest[i, j] = d_rest[i, j] * SLACK + n * TINY
    return d, d_rest


@njit(cache=True, error_model="numpy")
def _input_norms(plant, yx, yx_sum, yx_rest, x, product, gamma, continuous):
    """Bounds on ‖T X B T_Rᵀ‖ (or with A in it) and, discrete, ‖T_R Bᵀ X B T_Rᵀ‖."""
    _, _, B, B_rest, _, _, R, _ = plant
    n, m = B.shape[1:]
    t_r, fine = inverse_cholesky(R[0])
    if not fine:
        return np.inf, np.inf
    d, d_rest = _through_inputs(B, B_rest, t_r, yx, yx_sum, yx_rest, product, gamma)
    total = frobenius(d_rest)
    for g in range(d.shape[0]):
        total += frobenius(d[g])
    inside = 0.0
    if not continuous:
        # Entrywise: |T_R| |B|ᵀ |X| |B| |T_R|ᵀ; it only enters times a small number.
        b = absolute_sum(B) + B_rest
        bt = np.zeros((n, m))
        add_product(bt, b, np.abs(t_r).T.copy(), 1.0)
        xb = np.zeros((n, m))
        add_product(xb, absolute_sum(x), bt, 1.0)
        square = np.zeros((m, m))
        add_product_t(square, bt, xb, 1.0)
        inside = frobenius(square)
    return total * SLACK, inside * SLACK


@njit(cache=True, error_model="numpy")
def _shrink(nu, nu_x, d_norm, r_phi, x_norm, inside, factor):
    """A β for which S − β X satisfies the Riccati inequality, if one is found.

    β (1 − ν_X) − ν >= (‖D‖ + β ‖X B‖)² / (1 − φ_R − (β + κ) ‖Bᵀ X B‖) must hold, where
    S >= −κ X is all that is known of the candidate's sign (κ is `factor`).
    """
    need = (nu + d_norm * d_norm / (1.0 - r_phi)) / (1.0 - nu_x) * SLACK + TINY
    for k in range(len(SHARES)):
        beta = need * SHARES[k] * SLACK
        room = 1.0 - r_phi - (beta + factor) * inside * SLACK
        if not room > 0.01:
            return False, 0.0
        cost = (d_norm + beta * x_norm) * (d_norm + beta * x_norm) / room * SLACK
        if beta * (1.0 - nu_x) / SLACK >= (nu + cost) * SLACK:
            return True, beta
    return False, 0.0
