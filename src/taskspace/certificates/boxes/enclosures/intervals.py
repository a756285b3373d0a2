"""Interval arithmetic with outward rounding, for compiled kernels.

An interval is a pair `(low, high)` of floats. Every operation returns a pair that
contains the exact real result for all reals in its arguments, so a chain of them is
a proof. IEEE arithmetic errs by half a unit in the last place; `up` and `down` move
a result by at least a whole unit, so no rounding mode has to be switched.

Arguments must be finite, and results must not overflow: callers keep their inputs
within `MAGNITUDE` for this (see `check_magnitude`).
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
    """A float above x by at least one unit in the last place."""
    return x + (abs(x) * RELATIVE + TINY)


@njit(cache=True)
def down(x):
    """A float below x by at least one unit in the last place."""
    return x - (abs(x) * RELATIVE + TINY)


@njit(cache=True)
def add(x, y):
    """Sum."""
    return down(x[0] + y[0]), up(x[1] + y[1])


@njit(cache=True)
def sub(x, y):
    """Difference."""
    return down(x[0] - y[1]), up(x[1] - y[0])


@njit(cache=True)
def mul(x, y):
    """Product."""
    a, b, c, d = x[0] * y[0], x[0] * y[1], x[1] * y[0], x[1] * y[1]
    return down(min(a, b, c, d)), up(max(a, b, c, d))


@njit(cache=True)
def sqr(x):
    """Square, never below zero."""
    a, b = x[0] * x[0], x[1] * x[1]
    low = 0.0 if x[0] <= 0.0 <= x[1] else max(0.0, down(min(a, b)))
    return low, up(max(a, b))


@njit(cache=True, error_model="numpy")
def div(x, y):
    """Quotient; y must be positive."""
    low = x[0] / y[1] if x[0] >= 0.0 else x[0] / y[0]
    high = x[1] / y[0] if x[1] >= 0.0 else x[1] / y[1]
    return down(low), up(high)


@njit(cache=True)
def root(x):
    """Square root; x must be at least zero."""
    return max(0.0, down(np.sqrt(max(0.0, x[0])))), up(np.sqrt(max(0.0, x[1])))


@njit(cache=True)
def magnitude(x):
    """Largest absolute value in the interval."""
    return max(abs(x[0]), abs(x[1]))


@njit(cache=True)
def point(x):
    """The interval that holds x alone."""
    return x, x
