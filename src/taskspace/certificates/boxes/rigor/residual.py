r"""What a candidate leaves over in a Lyapunov equation, bounded on a whole box.

For a closed loop $A(s)$, a weight $W(s)$ and a candidate $P(s)$, all polynomials in
$s \in [-1, 1]^d$ with remainders, the residual is
$E(s) = A^\top P + P A + W$ (or $A^\top P A - P + W$ in discrete time). It is bounded
after scaling: $\|T E(s) T^\top\| \le \nu$ for a triangular $T$ of floating-point
numbers, so $-\nu (T^\top T)^{-1} \preceq E(s) \preceq \nu (T^\top T)^{-1}$ on the box.

With $C_\alpha = A_\alpha T^\top$ and $G_\beta = P_\beta T^\top$ the coefficients are
$\sum_{\alpha+\beta=\gamma} C_\alpha^\top G_\beta + (\cdot)^\top$: large terms cancel
among numbers of order one, and the rounding of all of them together is at most
$\gamma_k$ times one product of sums of absolute values. Every $\gamma_k$ here is below
the `gamma` given.
"""

import numpy as np
from numba import njit

from taskspace.certificates.boxes.rigor.small_matrices import (
    add_product,
    add_product_t,
    fill_product,
    symmetrise,
    transposed,
)
from taskspace.certificates.boxes.rigor.taylor import SLACK, TINY, UNIT


@njit(cache=True, error_model="numpy")
def rounding(n, m, n_monomials):
    """Return γ_k for every chain of operations on matrices of these sizes."""
    k = 4.0 * (n + m) * (n_monomials + 1) + 100.0
    return 1.01 * k * UNIT


@njit(cache=True, error_model="numpy")
def absolute_sum(stack):
    """Return Σ |x_α| of a stack of matrices, entry by entry."""
    out = np.zeros((stack.shape[1], stack.shape[2]))
    for a in range(stack.shape[0]):
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                out[i, j] += abs(stack[a, i, j])
    return out


@njit(cache=True, error_model="numpy")
def absolute_transpose(x):
    """Return |x|ᵀ as an array of its own."""
    out = np.empty((x.shape[1], x.shape[0]))
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[j, i] = abs(x[i, j])
    return out


@njit(cache=True, error_model="numpy")
def is_zero(x):
    """Return whether all entries of a matrix are zero."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] != 0.0:
                return False
    return True


@njit(cache=True, error_model="numpy")
def nonzero(stack):
    """Return which matrices of a stack have an entry other than zero."""
    out = np.empty(stack.shape[0], np.bool_)
    for a in range(stack.shape[0]):
        out[a] = not is_zero(stack[a])
    return out


@njit(cache=True, error_model="numpy")
def add_absolute_product_t(out, a, b):
    """Add |a|ᵀ |b| to `out`."""
    for k in range(a.shape[0]):
        for i in range(a.shape[1]):
            x = abs(a[k, i])
            if x != 0.0:
                for j in range(b.shape[1]):
                    out[i, j] += x * abs(b[k, j])


@njit(cache=True, error_model="numpy")
def add_absolute_product(out, a, b):
    """Add |a| |b| to `out`."""
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            x = abs(a[i, k])
            if x != 0.0:
                for j in range(b.shape[1]):
                    out[i, j] += x * abs(b[k, j])


@njit(cache=True, error_model="numpy")
def widen(total, gamma, rest, tiny):
    """Replace a sum of absolute values by γ times it, plus a remainder."""
    for i in range(total.shape[0]):
        for j in range(total.shape[1]):
            total[i, j] = gamma * total[i, j] + rest[i, j] + tiny


@njit(cache=True, error_model="numpy")
def round_up(rest, tiny):
    """Enlarge a remainder by the rounding of the sums that made it."""
    for i in range(rest.shape[0]):
        for j in range(rest.shape[1]):
            rest[i, j] = rest[i, j] * SLACK + tiny


@njit(cache=True, error_model="numpy")
def right_product(stack, t, out):
    """Fill x_α tᵀ for each matrix of a stack."""
    out[:] = 0.0
    t_t = transposed(t)
    for a in range(stack.shape[0]):
        add_product(out[a], stack[a], t_t, 1.0)


@njit(cache=True, error_model="numpy")
def add_products(left, right, product, transpose, out, tail):
    """Add the polynomial product of two stacks: left_αᵀ right_β, or left_α right_β.

    Args:
        left: first stack.
        right: second stack.
        product: table of monomials.
        transpose: whether the first is transposed.
        out: stack to add to; products of a degree beyond it go to `tail`.
        tail: matrix to which absolute values are added.
    """
    live_r = nonzero(right)
    for a in range(left.shape[0]):
        if is_zero(left[a]):
            continue
        for b in range(right.shape[0]):
            if not live_r[b]:
                continue
            g = product[a, b]
            if 0 <= g < out.shape[0]:
                if transpose:
                    add_product_t(out[g], left[a], right[b], 1.0)
                else:
                    add_product(out[g], left[a], right[b], 1.0)
            elif transpose:
                add_absolute_product_t(tail, left[a], right[b])
            else:
                add_absolute_product(tail, left[a], right[b])


@njit(cache=True, error_model="numpy")
def perron_bound(x):
    """Bound the spectral radius of a matrix of entries >= 0 (Collatz-Wielandt)."""
    n = x.shape[0]
    v = np.ones(n)
    y = np.zeros(n)
    best = np.inf
    for _ in range(4):
        top = 0.0
        for i in range(n):
            y[i] = 0.0
            for j in range(n):
                y[i] += x[i, j] * v[j]
            top = max(top, y[i] / v[i])
        # A NaN must not look like a bound.
        for i in range(n):
            if not y[i] < np.inf:
                return np.inf
        best = min(best, top)
        if best == 0.0:
            return 0.0
        largest = 0.0
        for i in range(n):
            largest = max(largest, y[i])
        for i in range(n):
            v[i] = y[i] / largest + 1e-6
    return best * SLACK + TINY


@njit(cache=True, error_model="numpy")
def frobenius(x):
    """Bound the norm of a matrix."""
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            total += x[i, j] * x[i, j]
    return np.sqrt(total) * SLACK + TINY


@njit(cache=True, error_model="numpy")
def sum_of_norms(stack, rest):
    """Bound the norm of a polynomial, its coefficients one by one, and a remainder."""
    total = frobenius(rest)
    for g in range(stack.shape[0]):
        total += frobenius(stack[g])
    return total


@njit(cache=True, error_model="numpy")
def range_norm(stack, rest, even, gamma):
    """Bound ‖Σ s^γ x_γ + e‖ over s in [−1, 1]^d and |e| <= rest, symmetric.

    Args:
        stack: symmetric coefficients.
        rest: entrywise bound on what is not in them.
        even: monomials with range [0, 1].
        gamma: covers the rounding of the sums here.
    """
    n = stack.shape[1]
    base = np.empty((n, n))
    total = np.zeros((n, n))
    base[:] = stack[0]
    one_by_one = 0.0
    for g in range(1, stack.shape[0]):
        if is_zero(stack[g]):
            continue
        weight = 0.5 if even[g] else 1.0
        for i in range(n):
            for j in range(n):
                if even[g]:
                    base[i, j] += 0.5 * stack[g, i, j]
                total[i, j] += weight * abs(stack[g, i, j])
        one_by_one += weight * frobenius(stack[g])
    for i in range(n):
        for j in range(n):
            slop = rest[i, j] + gamma * (total[i, j] + abs(stack[0, i, j])) + TINY
            base[i, j] = abs(base[i, j])
            total[i, j] += base[i, j] + slop
            rest[i, j] = slop
    together = perron_bound(total)
    apart = (one_by_one + frobenius(base) + perron_bound(rest)) * SLACK
    if not together < np.inf or not apart < np.inf:
        return np.inf
    return min(together, apart)


@njit(cache=True, error_model="numpy")
def scaled_weight(w, w_rest, kt, r_rest, t, gamma, out, rest):
    """Fill T W_γ Tᵀ and the radius of all of them together.

    Args:
        w: coefficients of W, `(monomial, n, n)`, symmetric.
        w_rest: entrywise remainder of W.
        kt: Σ |K_α Tᵀ|, through which `r_rest` acts.
        r_rest: entrywise remainder of R.
        t: scaling.
        gamma: rounding.
        out: filled, at least as many monomials as `w`.
        rest: filled.
    """
    n = t.shape[0]
    out[:] = 0.0
    t_t = transposed(t)
    half = np.empty((n, n))
    for g in range(w.shape[0]):
        if is_zero(w[g]):
            continue
        fill_product(half, w[g], t_t)
        add_product(out[g], t, half, 1.0)
        symmetrise(out[g])
    inner = absolute_sum(w)
    widen(inner, gamma, w_rest, TINY)
    fill_product(half, inner, absolute_transpose(t))
    rest[:] = 0.0
    add_absolute_product(rest, t, half)
    if not is_zero(r_rest):
        through = np.zeros(kt.shape)
        add_product(through, r_rest, kt, 1.0)
        add_product_t(rest, kt, through, 1.0)
    round_up(rest, TINY)


@njit(cache=True, error_model="numpy")
def scaled_loop(a, a_rest, b_rest, kt, t, gamma, out):
    """Fill C_α = A_α Tᵀ; give Σ|C_α| and the radius of C(s).

    Args:
        a: coefficients of the closed loop.
        a_rest: entrywise remainder, without that of B.
        b_rest: entrywise remainder of B, which acts through K Tᵀ.
        kt: Σ |K_α Tᵀ|.
        t: scaling.
        gamma: rounding.
        out: filled.
    """
    n = t.shape[0]
    right_product(a, t, out)
    inner = absolute_sum(a)
    widen(inner, gamma, a_rest, TINY)
    rest = np.zeros((n, n))
    add_product(rest, inner, absolute_transpose(t), 1.0)
    add_product(rest, b_rest, kt, 1.0)
    round_up(rest, TINY)
    return absolute_sum(out), rest


@njit(cache=True, error_model="numpy")
def scaled_gain(gain, t, gamma):
    """Return K_α Tᵀ, and Σ |K_α Tᵀ| with what rounding may add to it."""
    out = np.empty(gain.shape)
    right_product(gain, t, out)
    total = absolute_sum(out)
    add_product(total, absolute_sum(gain), absolute_transpose(t), gamma)
    return out, total


@njit(cache=True, error_model="numpy")
def add_weight(e, e_rest, weight, weight_rest, gamma):
    """Add a polynomial to another, and its radius and the rounding to the radius."""
    for i in range(e_rest.shape[0]):
        for j in range(e_rest.shape[1]):
            extra = 0.0
            for g in range(e.shape[0]):
                e[g, i, j] += weight[g, i, j]
                extra += abs(weight[g, i, j]) + abs(e[g, i, j])
            # Adding rounds by less than gamma times what is there.
            e_rest[i, j] += weight_rest[i, j] + gamma * extra


@njit(cache=True, error_model="numpy")
def product_with(scaled, other, product, gamma, out, rest):
    """Add the polynomial CᵀY of two models, and its radius.

    Args:
        scaled: coefficients of C, the sum of their absolute values, the radius of C.
        other: the same of Y.
        product: table of monomials.
        gamma: rounding.
        out: coefficients to add to.
        rest: radius to add to.
    """
    c, c_sum, c_rest = scaled
    y, y_sum, y_rest = other
    add_products(c, y, product, True, out, rest)
    inner = y_sum.copy()
    widen(inner, gamma, y_rest, 0.0)
    add_product_t(rest, c_sum, inner, 1.0)
    inner[:] = y_sum
    widen(inner, 1.0, y_rest, 0.0)
    add_product_t(rest, c_rest, inner, 1.0)


@njit(cache=True, error_model="numpy")
def residual(scaled, p, t, tables, continuous, gamma):
    """Return T L(P) Tᵀ as a polynomial, without the weight.

    Args:
        scaled: C_α of `scaled_loop`, Σ |C_α| and the radius of C(s).
        p: coefficients of the candidate, symmetric.
        t: scaling.
        tables: of monomials.
        continuous: kind of time.
        gamma: rounding.

    Returns:
        Its coefficients, the radius of all of it, and y = P Tᵀ (P C in discrete time)
        as coefficients, Σ |y_β| and radius.
    """
    c, c_sum, c_rest = scaled
    product = tables[0]
    n = t.shape[0]
    out = np.zeros((len(tables[1]), n, n))
    rest = np.zeros((n, n))
    y = np.zeros((len(tables[1]), n, n))
    t_t = transposed(t)
    p_sum = absolute_sum(p)
    y_rest = np.zeros((n, n))
    if continuous:
        for b in range(p.shape[0]):
            add_product(y[b], p[b], t_t, 1.0)
        add_product(y_rest, p_sum, absolute_transpose(t), gamma)
    else:
        add_products(p, c, product, False, y, y_rest)
        inner = c_sum.copy()
        widen(inner, gamma, c_rest, 0.0)
        add_product(y_rest, p_sum, inner, 1.0)
    y_sum = absolute_sum(y)
    round_up(y_rest, n * TINY)
    product_with(scaled, (y, y_sum, y_rest), product, gamma, out, rest)
    for g in range(out.shape[0]):
        symmetrise(out[g])
    symmetrise(rest)
    if continuous:
        # C'Y + Y'C is twice the symmetric part.
        out *= 2.0
        rest *= 2.0
    else:
        half = np.empty((n, n))
        for b in range(p.shape[0]):
            fill_product(half, p[b], t_t)
            add_product(out[b], t, half, -1.0)
            symmetrise(out[b])
        fill_product(half, p_sum, absolute_transpose(t))
        half *= 2.0 * gamma
        add_absolute_product(rest, t, half)
    round_up(rest, n * TINY)
    return out, rest, (y, y_sum, y_rest)
