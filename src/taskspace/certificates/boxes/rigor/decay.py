r"""Lyapunov matrices that decay on a whole box, for contexts that move.

For a fixed $X \succ 0$ and a closed loop $A$ that may be any of a box at any time,
$V = x^\top X x$ decays with rate $\lambda$ if
$A_\lambda^\top X + X A_\lambda \prec 0$ with $A_\lambda = A + \lambda I$ (discrete:
$A_\lambda^\top X A_\lambda \prec X$ with $A_\lambda = e^\lambda A$) on the whole box.
This is bounded after scaling with T, $T^\top T = -L_\lambda(X)^{-1}$ at the centre.
"""

import numpy as np
from numba import njit

from taskspace.certificates.boxes.rigor.candidates import closed_loop
from taskspace.certificates.boxes.rigor.costs import identity_gap
from taskspace.certificates.boxes.rigor.losses import empty_plant, fill_plant
from taskspace.certificates.boxes.rigor.residual import (
    absolute_sum,
    residual,
    rounding,
    scaled_gain,
    scaled_loop,
)
from taskspace.certificates.boxes.rigor.small_matrices import (
    add_product,
    add_product_t,
    fill_product,
    inverse_cholesky,
    symmetrise,
)
from taskspace.certificates.boxes.rigor.taylor import SLACK


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
