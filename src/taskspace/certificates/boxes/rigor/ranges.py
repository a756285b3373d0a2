"""Ranges of polynomials over s in [−1, 1]^d, with rounding on the safe side."""

import numpy as np
from numba import njit

from taskspace.certificates.boxes.rigor.taylor import SLACK, TINY


@njit(cache=True, error_model="numpy")
def most(p, even):
    """Return a bound above on the polynomial over the box."""
    total, rest = p[0], 0.0
    for g in range(1, len(p)):
        if even[g]:
            rest += max(0.0, p[g])
        else:
            rest += abs(p[g])
    total += rest * SLACK
    return total + 4e-16 * (abs(p[0]) + rest) + TINY


@njit(cache=True, error_model="numpy")
def minus(p):
    """Return the polynomial with its sign turned."""
    out = np.empty(len(p))
    for g in range(len(p)):
        out[g] = -p[g]
    return out


@njit(cache=True, error_model="numpy")
def _difference(p, q, factor):
    """Return a polynomial above p − factor · q, rounding added to its constant."""
    out = np.empty(len(p))
    slop = 0.0
    for g in range(len(p)):
        x = factor * q[g]
        out[g] = p[g] - x
        slop += abs(x) + abs(p[g])
    out[0] += 4e-16 * slop + TINY
    return out


@njit(cache=True, error_model="numpy")
def largest_difference(p, q, factor, even):
    """Return a bound above on p(s) − factor · q(s) over the box."""
    return most(_difference(p, q, factor), even)


@njit(cache=True, error_model="numpy")
def largest_ratio(p, q, even):
    """Bound p(s) / q(s) over the box from above, for p >= 0; inf unless q > 0."""
    least = -most(minus(q), even)
    if not least > 0.0:
        return np.inf
    largest = most(q, even)
    factor = max(0.0, p[0] / q[0])
    best = np.inf
    for _ in range(3):
        # p <= factor q + excess.
        excess = largest_difference(p, q, factor, even)
        found = factor + excess / (least if excess > 0.0 else largest)
        found += 4e-16 * (abs(factor) + abs(found)) + TINY
        best = min(best, found)
        if not found < np.inf:
            return np.inf
        factor = max(0.0, found)
    return best
