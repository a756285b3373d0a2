r"""Bounds on the loss of a gain over a whole box of mass-spring-dampers.

Everything here is interval arithmetic on closed forms, so that a bound holds for
every real context of the box. For $m \ddot x + c \dot x + k x = u = -K x$ with
$a = k + K_1$, $b = c + K_2$ the state covariance $S = \int x x^\top$ has
$S_{22} = (m + a) / 2b$, $S_{12} = -1/2$, $S_{11} = (m^2 / a + m) / 2b + b / 2a$, and

- cost $C = q_{11} S_{11} - r K_1 K_2 + q_{22} S_{22}$, with $q_{11} = q_x + r K_1^2$
  and $q_{22} = q_v + r K_2^2$;
- optimum $K_1^* = \rho / (k + w)$, $w = \sqrt{k^2 + \rho}$, $\rho = q_x / r$;
  $K_2^* = e / (c + z)$, $z = \sqrt{c^2 + e}$, $e = 2 m K_1^* + q_v / r$;
  $C^* = r (c K_1^* + (k + m + K_1^*) K_2^*)$;
- regret $C - C^* = r (S_{11} d_1^2 - d_1 d_2 + S_{22} d_2^2)$ with
  $d = K - K^*$: no cancellation where the regret is small.

A bound is the better of two: the form evaluated on the box, and the mean value form,
value at the centre plus gradient on the box times half the width. The second errs by
the square of the width only. See docs/certificates.md.

An interval is a pair `(low, high)` of floats. Every operation returns a pair that
contains the exact real result for all reals in its arguments, so a chain of them is
a proof. IEEE arithmetic errs by half a unit in the last place; `up` and `down` move
a result by at least a whole unit, so no rounding mode has to be switched. Arguments
must be finite, and results must not overflow: callers keep their inputs within
`MAGNITUDE` for this (see `check_magnitude`).
"""

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from taskspace.errors import InvalidInputError

# x + |x| 2⁻⁵² is at least the next float above x: 2⁻⁵² |x| >= ulp(x), and rounding
# is monotone. TINY takes over where |x| 2⁻⁵² would underflow.
RELATIVE = 2.0**-52
TINY = 1e-290

MAGNITUDE = 1e15
"""Inputs lie in ±MAGNITUDE, and positive ones above 1 / MAGNITUDE."""


def check_magnitude(name: str, values: ArrayLike, *, positive: bool = False) -> None:
    """Refuse numbers with which interval arithmetic could overflow.

    Args:
        name: what they are, for the message.
        values: numbers.
        positive: they must also be at least `1 / MAGNITUDE`.
    """
    array = np.asarray(values, np.float64)
    low = 1 / MAGNITUDE if positive else -MAGNITUDE
    if not ((array >= low) & (array <= MAGNITUDE)).all():
        raise InvalidInputError(
            f"{low:g} <= {name} <= {MAGNITUDE:g} must hold for a certificate, but got "
            f"values from {array.min():g} to {array.max():g}."
        )


@njit(cache=True)
def up(x):
    """Return a float above x by at least one unit in the last place."""
    return x + (abs(x) * RELATIVE + TINY)


@njit(cache=True)
def down(x):
    """Return a float below x by at least one unit in the last place."""
    return x - (abs(x) * RELATIVE + TINY)


@njit(cache=True)
def add(x, y):
    """Return the sum."""
    return down(x[0] + y[0]), up(x[1] + y[1])


@njit(cache=True)
def sub(x, y):
    """Return the difference."""
    return down(x[0] - y[1]), up(x[1] - y[0])


@njit(cache=True)
def mul(x, y):
    """Return the product."""
    a, b, c, d = x[0] * y[0], x[0] * y[1], x[1] * y[0], x[1] * y[1]
    return down(min(a, b, c, d)), up(max(a, b, c, d))


@njit(cache=True)
def sqr(x):
    """Return the square, never below zero."""
    a, b = x[0] * x[0], x[1] * x[1]
    low = 0.0 if x[0] <= 0.0 <= x[1] else max(0.0, down(min(a, b)))
    return low, up(max(a, b))


@njit(cache=True, error_model="numpy")
def div(x, y):
    """Return the quotient; y must be positive."""
    low = x[0] / y[1] if x[0] >= 0.0 else x[0] / y[0]
    high = x[1] / y[0] if x[1] >= 0.0 else x[1] / y[1]
    return down(low), up(high)


@njit(cache=True)
def root(x):
    """Return the square root; x must be at least zero."""
    return max(0.0, down(np.sqrt(max(0.0, x[0])))), up(np.sqrt(max(0.0, x[1])))


@njit(cache=True)
def magnitude(x):
    """Return the largest absolute value in the interval."""
    return max(abs(x[0]), abs(x[1]))


@njit(cache=True)
def point(x):
    """Return the interval that holds x alone."""
    return x, x


# NumPy's integers: Numba compiles a kernel anew for every Python constant.
REGRET, RATIO, COST = map(np.int64, (0, 1, 2))

_TWO = (2.0, 2.0)


@njit(cache=True)
def plant(k, c, m, weights):
    """Return k, c, m, w, z and K* on a box: all that needs no gain."""
    q_x, q_v, r = weights
    rho = div(point(q_x), point(r))
    nu = div(point(q_v), point(r))
    w = root(add(sqr(k), rho))
    k1 = div(rho, add(k, w))
    e = add(mul(_TWO, mul(m, k1)), nu)
    z = root(add(sqr(c), e))
    # K2* grows with e and falls with c: its range is taken at two corners.
    low = _second_gain(point(e[0]), point(c[1]))[0]
    high = _second_gain(point(e[1]), point(c[0]))[1]
    return k, c, m, w, z, k1, (low, high)


@njit(cache=True)
def _second_gain(e, c):
    return div(e, add(c, root(add(sqr(c), e))))


@njit(cache=True)
def closed_loop(gain, box):
    """Return a, b, S11, S22 and d = K − K* on a box where the loop is stable."""
    k, c, m, _, _, k1, k2 = box
    a = add(k, point(gain[0]))
    b = add(c, point(gain[1]))
    s22 = div(add(m, a), mul(_TWO, b))
    s11 = add(
        div(add(div(sqr(m), a), m), mul(_TWO, b)),
        div(b, mul(_TWO, a)),
    )
    return a, b, s11, s22, sub(point(gain[0]), k1), sub(point(gain[1]), k2)


@njit(cache=True)
def best_cost(box, weights):
    """Return C* on a box."""
    k, c, m, _, _, k1, k2 = box
    rest = mul(add(add(k, m), k1), k2)
    return mul(point(weights[2]), add(mul(c, k1), rest))


@njit(cache=True)
def value(kind, gain, box, loop, weights):
    """Return regret, ratio or cost on a box."""
    q_x, q_v, r = weights
    _, _, s11, s22, d1, d2 = loop
    if kind == COST:
        q11 = add(point(q_x), mul(point(r), sqr(point(gain[0]))))
        q22 = add(point(q_v), mul(point(r), sqr(point(gain[1]))))
        cross = mul(point(r), mul(point(gain[0]), point(gain[1])))
        return sub(add(mul(q11, s11), mul(q22, s22)), cross)
    form = sub(add(mul(s11, sqr(d1)), mul(s22, sqr(d2))), mul(d1, d2))
    regret = mul(point(r), form)
    regret = max(0.0, regret[0]), regret[1]  # K* is optimal
    if kind == RATIO:
        ratio = div(regret, best_cost(box, weights))
        return max(0.0, ratio[0]), ratio[1]
    return regret


@njit(cache=True)
def gradient(kind, gain, box, loop, weights):
    """Return derivatives of `value` by k, c and m on a box."""
    q_x, q_v, r = weights
    _, _, m, w, z, k1, k2 = box
    a, b, s11, s22, d1, d2 = loop
    b2, a2 = mul(_TWO, b), mul(_TWO, a)
    inner = add(div(sqr(m), a), m)
    s22_k = div(point(1.0), b2)
    s22_c = div(sub(point(0.0), s22), b)
    s22_m = s22_k
    s11_k = div(
        sub(point(0.0), add(div(sqr(m), b), b)),
        mul(_TWO, sqr(a)),
    )
    s11_c = sub(div(point(1.0), a2), div(inner, mul(_TWO, sqr(b))))
    s11_m = div(add(div(mul(_TWO, m), a), point(1.0)), b2)
    if kind == COST:
        q11 = add(point(q_x), mul(point(r), sqr(point(gain[0]))))
        q22 = add(point(q_v), mul(point(r), sqr(point(gain[1]))))
        return (
            add(mul(q11, s11_k), mul(q22, s22_k)),
            add(mul(q11, s11_c), mul(q22, s22_c)),
            add(mul(q11, s11_m), mul(q22, s22_m)),
        )
    # d1 and d2 by k, c, m: minus the derivatives of K*.
    d1_k = div(k1, w)
    d2_k = div(mul(m, d1_k), z)
    d2_c = div(k2, z)
    d2_m = div(sub(point(0.0), k1), z)
    # ∂(S11 d1² − d1 d2 + S22 d2²) = S11' d1² + S22' d2² + d1' p + d2' q
    p = sub(mul(_TWO, mul(s11, d1)), d2)
    q = sub(mul(_TWO, mul(s22, d2)), d1)
    d1_sqr, d2_sqr = sqr(d1), sqr(d2)
    r_ = point(r)
    by_k = add(mul(s11_k, d1_sqr), mul(s22_k, d2_sqr))
    by_k = mul(r_, add(by_k, add(mul(d1_k, p), mul(d2_k, q))))
    by_c = add(mul(s11_c, d1_sqr), mul(s22_c, d2_sqr))
    by_c = mul(r_, add(by_c, mul(d2_c, q)))
    by_m = add(mul(s11_m, d1_sqr), mul(s22_m, d2_sqr))
    by_m = mul(r_, add(by_m, mul(d2_m, q)))
    if kind == RATIO:
        best = best_cost(box, weights)
        ratio = value(RATIO, gain, box, loop, weights)
        best_k, best_c, best_m = best_cost_gradient(box, weights)
        by_k = div(sub(by_k, mul(ratio, best_k)), best)
        by_c = div(sub(by_c, mul(ratio, best_c)), best)
        by_m = div(sub(by_m, mul(ratio, best_m)), best)
    return by_k, by_c, by_m


@njit(cache=True)
def best_cost_gradient(box, weights):
    """Return derivatives of C* by k, c and m on a box."""
    k, c, m, w, z, k1, k2 = box
    r_ = point(weights[2])
    wm = add(w, m)
    falls = div(mul(mul(wm, m), k1), mul(w, z))
    by_k = sub(sub(div(mul(k, z), w), falls), c)
    by_c = sub(div(mul(wm, c), z), add(k, m))
    by_m = add(k2, div(mul(wm, k1), z))
    return mul(r_, by_k), mul(r_, by_c), mul(r_, by_m)


@njit(cache=True)
def stability(gain, k, c):
    """Return 1 if the loop is stable on the whole box, −1 if nowhere, else 0.

    A float sum has the sign of the exact sum, so −1 and the end points are exact.
    """
    if k[1] + gain[0] <= 0.0 or c[1] + gain[1] <= 0.0:
        return -1
    floor = 1.0 / MAGNITUDE
    if down(k[0] + gain[0]) > floor and down(c[0] + gain[1]) > floor:
        return 1
    return 0


@njit(cache=True)
def middle(x):
    """Return a float inside the interval, near its middle."""
    return min(max(0.5 * x[0] + 0.5 * x[1], x[0]), x[1])


@njit(cache=True)
def radius(x, centre):
    """Return at least the distance from the centre to the farther end."""
    if x[0] == x[1]:
        return 0.0
    return up(max(x[1] - centre, centre - x[0]))


@njit(cache=True)
def loss_bounds(kind, gain, home, box, centre, epsilon, weights):
    """Return low and high bound on the loss of one gain on a box.

    Args:
        kind: `REGRET`, `RATIO` or `COST`.
        gain: K1 and K2.
        home: interval to subtract: the cost at home for the signed criterion.
        box: `plant` of the box.
        centre: `plant` of a point inside the box.
        epsilon: the mean value form is skipped where the first form decides
            `loss <= epsilon`; NaN to have the better bound in any case.
        weights: q_x, q_v and r.
    """
    stable = stability(gain, box[0], box[1])
    if stable < 0:
        return np.inf, np.inf
    if stable == 0:
        return (-np.inf if kind == COST else 0.0), np.inf
    loop = closed_loop(gain, box)
    low, high = sub(value(kind, gain, box, loop, weights), home)
    if high <= epsilon or low > epsilon:
        return low, high
    at = sub(value(kind, gain, centre, closed_loop(gain, centre), weights), home)
    spread = 0.0
    slopes = gradient(kind, gain, box, loop, weights)
    for i in range(3):
        reach = radius(box[i], centre[i][0])
        spread = up(spread + up(magnitude(slopes[i]) * reach))
    return max(low, down(at[0] - spread)), min(high, up(at[1] + spread))


@njit(cache=True)
def home_bounds(gain, context, weights):
    """Return the cost of a gain at one context, `(inf, inf)` if it is unstable."""
    k, c, m = point(context[0]), point(context[1]), point(context[2])
    box = plant(k, c, m, weights)
    return loss_bounds(COST, gain, point(0.0), box, box, np.nan, weights)
