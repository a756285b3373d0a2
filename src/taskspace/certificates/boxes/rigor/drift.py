r"""Contexts that move: Lyapunov matrices that decay, and costs that change, on a box.

*Decay.* For a fixed $X \succ 0$ and a closed loop $A$ that may be any of a box at any
time, $V = x^\top X x$ decays with rate $\lambda$ if
$A_\lambda^\top X + X A_\lambda \prec 0$ with $A_\lambda = A + \lambda I$ (discrete:
$A_\lambda^\top X A_\lambda \prec X$ with $A_\lambda = e^\lambda A$) on the whole box,
and the cost from $x_0$ is at most $x_0^\top X x_0$ if $L(X) + W \preceq 0$ there. Both
are bounded after scaling with T, $T^\top T = -L_\lambda(X)^{-1}$ at the centre.

*Sensitivity.* Let $P(\theta)$ be the solution of $L(P) = -W$ and $\dot P$ its
derivative with respect to one axis: $L(\dot P) = -M$ with
$M = \dot A^\top P + P \dot A + \dot W$ (discrete:
$M = \dot A^\top P A + A^\top P \dot A + \dot W$). The number sought is a $c$ with
$-c W \preceq \dot P \preceq c W$ on the box. Candidates $P_0(s)$ and $D(s)$ come from
Taylor expansion in plain floating point. What is proven of them, with T, $T W T^\top
\approx I$:

- $|L(P_0) + W| \preceq \rho W$ with $\rho < 1$ gives $P \preceq P_0 / (1 - \rho)$ and
  $|P - P_0| \preceq \eta P_0$, $\eta = \rho / (1 - \rho)$.
- M differs from the $M_0$ of $P_0$ by no more than $2 \eta \sqrt{|\dot A^\top P_0
  \dot A| \, |P_0|}$ (discrete: $|A^\top P_0 A|$ in place of the last), norms after
  scaling, because $|x^\top (P - P_0) y| \le \eta \sqrt{x^\top P_0 x \, y^\top P_0 y}$.
- $|L(D) + M| \preceq \varphi W$ gives $|\dot P - D| \preceq \varphi P$.
"""

import numpy as np
from numba import njit

from taskspace.certificates.boxes.rigor.candidates import candidates, closed_loop
from taskspace.certificates.boxes.rigor.costs import (
    SURE,
    definite,
    identity_gap,
    scaled_problem,
)
from taskspace.certificates.boxes.rigor.losses import empty_plant, fill_plant
from taskspace.certificates.boxes.rigor.residual import (
    absolute_sum,
    add_weight,
    perron_bound,
    product_with,
    range_norm,
    residual,
    rounding,
    scaled_gain,
    scaled_loop,
    scaled_weight,
)
from taskspace.certificates.boxes.rigor.small import (
    add_product,
    add_product_t,
    fill_product,
    inverse_cholesky,
    lyapunov_factors,
    symmetrise,
    transposed,
)
from taskspace.certificates.boxes.rigor.taylor import SLACK, TINY

# How much is added to the entries of an eigenvector, to make them positive.
LIFTS = (1e-3, 1e-6, 1e-9, 1e-12)


@njit(cache=True, error_model="numpy", nogil=True)
def bound_decay(
    gains, which, matrices, rates, program, boxes, tables, order, n_p, continuous,
    gaps, tops,
):  # fmt: skip
    """Fill, for each box, whether its matrix decays and bounds the cost on all of it.

    Args:
        gains: `(gain, 1, n_inputs, n_states)`.
        which: gain that is used on each box.
        matrices: X of each gain.
        rates: λ of each gain.
        program: tape, places of A, B, Q, R, place of each axis.
        boxes: centre, radius, enclosed parameters, each by box.
        tables: `product, even, n_linear`.
        order: of the plant's models.
        n_p: number of monomials up to that order.
        continuous: kind of time.
        gaps: filled; below 1, X decays with rate λ on the box.
        tops: filled; at most 0, xᵀXx bounds the cost on the box.
    """
    tape, places, place = program
    centre, radius, enclosed = boxes
    _, _, m, n = gains.shape
    plant = empty_plant(n_p, n, m)
    even = tables[1]
    n_cap = len(even)
    gamma = rounding(n, m, n_cap)
    a, w = np.zeros((n_p, n, n)), np.zeros((n_p, n, n))
    zero = np.zeros((n_cap, n, n))
    nothing = np.zeros((n, n))
    stack = np.empty((1, n, n))
    for b in range(len(centre)):
        gaps[b], tops[b] = np.inf, np.inf
        gain, rate = gains[which[b]], rates[which[b]]
        stack[0] = matrices[which[b]]
        box = (centre[b], radius[b], enclosed[b])
        if not fill_plant(tape, places, box, place, tables, order, plant):
            continue
        a_rest, w_rest = closed_loop(plant, gain, tables, a, w)
        loop, loop_rest, b_rest = _shifted(a, a_rest, plant[3], rate, continuous)
        scale = _negative_decay(loop[0], stack[0], continuous)
        t, fine = inverse_cholesky(scale)
        if not fine:
            continue
        e, e_rest = _scaled_decay(
            loop, loop_rest, b_rest, gain, stack, t, tables, continuous, gamma
        )
        gaps[b] = identity_gap(e, e_rest, 1.0, even, gamma)
        # The cost is that of the loop itself, whatever the rate.
        e, e_rest = _scaled_decay(
            a, a_rest, plant[3], gain, stack, t, tables, continuous, gamma
        )
        _, kt = scaled_gain(gain, t, gamma)
        mw, mw_rest = np.zeros((n_cap, n, n)), np.zeros((n, n))
        scaled_weight(w, w_rest, kt, plant[7], t, gamma, mw, mw_rest)
        add_weight(e, e_rest, mw, mw_rest, gamma)
        tops[b] = top_of_difference(e, e_rest, zero, nothing, 0.0, even, gamma)


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


@njit(cache=True, error_model="numpy", nogil=True)
def bound_sensitivity(
    gains, which, program, slopes, boxes, tables, order, n_p, continuous, out
):  # fmt: skip
    """Fill, for each box, a c with −cW ⪯ ∂P ⪯ cW on all of it; inf where none is shown.

    Args:
        gains: `(gain, 1, n_inputs, n_states)`.
        which: gain that is used on each box.
        program: tape with derivatives, places of A, B, Q, R, place of each axis.
        slopes: places of the derivatives of A, B, Q, R.
        boxes: centre, radius, enclosed parameters, each by box.
        tables: `product, even, n_linear`.
        order: of the plant's models.
        n_p: number of monomials up to that order.
        continuous: kind of time.
        out: filled.
    """
    tape, places, place = program
    centre, radius, enclosed = boxes
    _, _, m, n = gains.shape
    plant, slope = empty_plant(n_p, n, m), empty_plant(n_p, n, m)
    product = tables[0]
    a, w = np.zeros((n_p, n, n)), np.zeros((n_p, n, n))
    da, dw = np.zeros((n_p, n, n)), np.zeros((n_p, n, n))
    p, d = np.zeros((n_p, n, n)), np.zeros((n_p, n, n))
    pivots = np.empty(n * (n + 1) // 2, np.int64)
    for b in range(len(centre)):
        out[b] = np.inf
        gain = gains[which[b]]
        box = (centre[b], radius[b], enclosed[b])
        if not fill_plant(tape, places, box, place, tables, order, plant):
            continue
        if not fill_plant(tape, slopes, box, place, tables, order, slope):
            continue
        a_rest, w_rest = closed_loop(plant, gain, tables, a, w)
        da_rest, dw_rest = closed_loop(slope, gain, tables, da, dw)
        factors, fine = lyapunov_factors(a[0], continuous, pivots)
        if not fine:
            continue
        candidates(a, w, factors, pivots, product, continuous, p)
        change = _change(a, da, dw, p, product, continuous)
        candidates(a, change, factors, pivots, product, continuous, d)
        t, fine = main_directions(w[0], d[0])
        if not fine:
            continue
        loop, moved = (a, a_rest, w, w_rest), (da, da_rest, dw, dw_rest)
        out[b] = _largest_share(
            plant, slope, gain, loop, moved, p, d, t, tables, continuous
        )


@njit(cache=True, error_model="numpy")
def _change(a, da, dw, p, product, continuous):
    """Return M of the candidate, in plain floating point."""
    out = dw.copy()
    n = dw.shape[1]
    inside = np.empty((n, n))
    for b in range(p.shape[0]):
        for y in range(1 if continuous else a.shape[0]):
            inner = b
            if not continuous:
                inner = product[b, y]
                fill_product(inside, p[b], a[y])
            else:
                inside[:] = p[b]
            for x in range(da.shape[0]):
                g = product[x, inner] if 0 <= inner < out.shape[0] else -1
                if 0 <= g < out.shape[0]:
                    add_product_t(out[g], da[x], inside, 2.0)
    for g in range(out.shape[0]):
        symmetrise(out[g])
    return out


@njit(cache=True, error_model="numpy")
def _largest_share(plant, slope, gain, loop, moved, p, d, t, tables, continuous):
    """Return the c of one box, from candidates p and d scaled by t; inf if none."""
    da, da_rest, dw, dw_rest = moved
    even = tables[1]
    n, m = plant[2].shape[1:]
    n_cap = len(even)
    gamma = rounding(n, m, n_cap)
    nu, mw, mw_rest, scaled, y, _, kt = scaled_problem(
        plant, gain, loop, p, t, tables, continuous, gamma
    )
    phi = identity_gap(mw, mw_rest, -1.0, even, gamma)
    if not (phi < 0.99 and nu < np.inf):
        return np.inf
    rho = nu / (1.0 - phi) * SLACK
    if not rho < SURE or definite(p[0]) != 1:
        return np.inf
    # T (L(D) + M₀) Tᵀ as a polynomial.
    dc = np.empty(da.shape)
    dc_sum, dc_rest = scaled_loop(da, da_rest, slope[3], kt, t, gamma, dc)
    dmw, dmw_rest = np.zeros((n_cap, n, n)), np.zeros((n, n))
    scaled_weight(dw, dw_rest, kt, slope[7], t, gamma, dmw, dmw_rest)
    cross, cross_rest = np.zeros((n_cap, n, n)), np.zeros((n, n))
    product_with((dc, dc_sum, dc_rest), y, tables[0], gamma, cross, cross_rest)
    e, e_rest, _ = residual(scaled, d, t, tables, continuous, gamma)
    for g in range(n_cap):
        symmetrise(cross[g])
    symmetrise(cross_rest)
    for i in range(n):
        for j in range(n):
            size = 0.0
            for g in range(n_cap):
                size += abs(e[g, i, j]) + 2.0 * abs(cross[g, i, j]) + abs(dmw[g, i, j])
                e[g, i, j] += 2.0 * cross[g, i, j] + dmw[g, i, j]
            e_rest[i, j] += 2.0 * cross_rest[i, j] + dmw_rest[i, j] + gamma * size
            e_rest[i, j] *= SLACK
    rest = range_norm(e, e_rest, even, gamma)
    p_size = _scaled_size(p, t, even, gamma)
    d_size = _scaled_size(d, t, even, gamma)
    own = p_size if continuous else _through(p, scaled[1], scaled[2])
    push = 2.0 * rho / (1.0 - rho) * np.sqrt(_through(p, dc_sum, dc_rest) * own)
    share = (rest + push * SLACK) / (1.0 - phi)
    bound = (d_size + share * p_size / (1.0 - rho)) / (1.0 - phi) * SLACK
    return bound if bound < np.inf else np.inf


@njit(cache=True, error_model="numpy")
def _scaled_size(p, t, even, gamma):
    """Bound ‖T P(s) Tᵀ‖ over the box."""
    n = t.shape[0]
    out, rest = np.zeros(p.shape), np.zeros((n, n))
    none, nothing = np.zeros((1, n)), np.zeros((1, 1))
    scaled_weight(p, np.zeros((n, n)), none, nothing, t, gamma, out, rest)
    return range_norm(out, rest, even, gamma)


@njit(cache=True, error_model="numpy")
def _through(p, c_sum, c_rest):
    """Bound ‖Cᵀ P C‖ over the box, from absolute values."""
    n = c_sum.shape[0]
    c = (c_sum + c_rest) * SLACK
    inside, out = np.empty((n, n)), np.zeros((n, n))
    fill_product(inside, absolute_sum(p) * SLACK, c)
    add_product_t(out, c, inside, 1.0)
    return perron_bound(out) * SLACK


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
