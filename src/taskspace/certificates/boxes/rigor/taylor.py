r"""Taylor models: the matrices of a family on a box, with everything left over bounded.

On a box $\theta = c + h s$, $s \in [-1, 1]^d$, each entry is a polynomial in $s$ with
floating-point coefficients plus a remainder of which only the size is known:
$x(\theta) = \sum_\alpha x_\alpha s^\alpha + e$, $|e| \le r$ for every real context of
the box. Products of too high a degree, the tails of Taylor series and all rounding go
into $r$.

Rounding: one operation errs by no more than $u|x|$, $u = 2^{-53}$, plus the smallest
number where it underflows; a sum of $k$ products by $\gamma_k = ku / (1 - ku)$ times
the sum of absolute values, in any order. A radius is a sum of products of numbers >= 0,
so its own rounding is relative: it is multiplied by `SLACK`, which covers more than
$10^6$ operations. Functions of the C library are taken to be right to `LIBRARY`,
45 units in the last place; good ones err by less than one.

Polynomials are arrays of coefficients in the order of `Monomials`: by degree, so those
up to a smaller degree come first.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np
from numba import njit
from numpy.typing import NDArray

from taskspace.systems.linear.tracing import symbols as ops

UNIT = 2.0**-53
SLACK = 1.0 + 1e-9
TINY = 1e-290
LIBRARY = 1e-14


@dataclass(frozen=True, eq=False)
class Monomials:
    """All monomials of some variables up to a degree.

    Args:
        counts: how many there are up to degree 0, 1, 2, …
        first: place of each variable itself.
        product: place of the product of two, −1 where its degree is too large.
        even: whether all exponents are even, so that its range is [0, 1].
    """

    counts: NDArray[np.int64]
    first: NDArray[np.int64]
    product: NDArray[np.int64]
    even: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.even)


@lru_cache(maxsize=64)
def monomials(n_variables: int, degree: int) -> Monomials:
    """Return the monomials of `n_variables` variables up to `degree`.

    Args:
        n_variables: how many variables, may be none.
        degree: largest degree, at least 1.
    """
    chosen = [
        c
        for k in range(degree + 1)
        for c in combinations_with_replacement(range(n_variables), k)
    ]
    place = {c: i for i, c in enumerate(chosen)}
    product = np.full((len(chosen), len(chosen)), -1, np.int64)
    for i, x in enumerate(chosen):
        for j, y in enumerate(chosen):
            product[i, j] = place.get(tuple(sorted(x + y)), -1)
    lengths = np.array([len(c) for c in chosen])
    even = [all(c.count(v) % 2 == 0 for v in c) for c in chosen]
    even[0] = False  # the constant has no range
    return Monomials(
        counts=np.array([(lengths <= k).sum() for k in range(degree + 1)], np.int64),
        first=np.array([place[(v,)] for v in range(n_variables)], np.int64),
        product=product,
        even=np.array(even, np.bool_),
    )


@njit(cache=True, error_model="numpy")
def _size(c, r):
    """Bound |x| − |x_0|: all coefficients but the constant, and the radius."""
    total = r
    for i in range(1, len(c)):
        total += abs(c[i])
    return total * SLACK


@njit(cache=True, error_model="numpy")
def _multiply(a, ra, b, rb, product, out):
    """Fill the coefficients of the product; give its radius."""
    n = len(out)
    out[:] = 0.0
    inside, outside, sum_a, sum_b = 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        sum_a += abs(a[i])
        sum_b += abs(b[i])
        if a[i] == 0.0:
            continue
        for j in range(n):
            x = a[i] * b[j]
            if x == 0.0:
                continue
            k = product[i, j]
            if 0 <= k < n:
                out[k] += x
                inside += abs(x)
            else:
                outside += abs(x)
    rounding = (n + 4) * UNIT * inside
    rest = outside + ra * (sum_b + rb) + rb * sum_a
    return (rounding + rest + n * n * TINY) * SLACK


@njit(cache=True, error_model="numpy")
def _invert(b, rb, product, order, out, work, square):
    """Fill 1 / b; give its radius and whether b keeps away from zero."""
    n = len(out)
    q = 1.0 / b[0]
    if not abs(q) < 1e150 or not abs(q) > 1e-150:
        return 0.0, False
    # x = q b − 1 is small; 1/b = q (1 − x + x² …).
    total = 0.0
    for i in range(n):
        work[i] = q * b[i]
        total += abs(work[i])
    rx = (abs(q) * rb + 4 * UNIT * total + n * TINY) * SLACK
    work[0] -= 1.0
    size = (abs(work[0]) + _size(work, rx)) * SLACK
    if not size < 1.0:
        return 0.0, False
    gap = (1.0 - size) / SLACK
    if order == 1:
        for i in range(n):
            out[i] = -work[i]
        r = rx + size * size / gap
    else:
        r = _multiply(work, rx, work, rx, product, square)
        for i in range(n):
            out[i] = square[i] - work[i]
            r += UNIT * abs(out[i])
        r += rx + size * size * size / gap
    out[0] += 1.0
    total = abs(out[0])
    for i in range(n):
        total += abs(out[i])
        out[i] *= q
    return ((r + 4 * UNIT * total) * abs(q) + (n + 1) * TINY) * SLACK, True


@njit(cache=True, error_model="numpy")
def _compose(op, a, ra, product, order, out, work, square):
    """Fill f(a) for a function f of the library; give the radius and success."""
    n = len(out)
    x0 = a[0]
    size = _size(a, ra)
    least = (x0 - size) - 4 * UNIT * (abs(x0) + size)
    if op in (ops.SQUARE_ROOT, ops.LOGARITHM) and not least > 1e-100:
        return 0.0, False
    if not abs(x0) + size < 1e100:
        return 0.0, False
    if op == ops.SQUARE_ROOT:
        f0 = np.sqrt(x0)
        f1 = 0.5 / f0
        f2 = -0.125 / (x0 * f0)
        second = 0.125 / (least * np.sqrt(least))
        third = 0.0625 / (least * least * np.sqrt(least))
    elif op == ops.LOGARITHM:
        f0 = np.log(x0)
        f1 = 1.0 / x0
        f2 = -0.5 / (x0 * x0)
        second = 0.5 / (least * least)
        third = 1.0 / (3.0 * least * least * least)
    elif op == ops.EXPONENTIAL:
        f0 = np.exp(x0)
        f1 = f0
        f2 = 0.5 * f0
        top = np.exp(x0 + size)
        second = 0.5 * top
        third = top / 6.0
    elif op == ops.SINE:
        f0 = np.sin(x0)
        f1 = np.cos(x0)
        f2 = -0.5 * f0
        second, third = 0.5, 1.0 / 6.0
    else:
        f0 = np.cos(x0)
        f1 = -np.sin(x0)
        f2 = -0.5 * f0
        second, third = 0.5, 1.0 / 6.0
    for i in range(n):
        work[i] = a[i]
    work[0] = 0.0
    total = abs(f0) + abs(f1) * size
    r = abs(f1) * ra
    if order == 1:
        for i in range(n):
            out[i] = f1 * work[i]
        r += second * size * size
    else:
        r += abs(f2) * _multiply(work, ra, work, ra, product, square)
        for i in range(n):
            out[i] = f1 * work[i] + f2 * square[i]
        total += abs(f2) * size * size
        r += third * size * size * size
    out[0] += f0
    if not np.isfinite(total) or not np.isfinite(r):
        return 0.0, False
    return (r + (LIBRARY + 8 * UNIT) * total + (n + 8) * TINY) * SLACK, True


@njit(cache=True, error_model="numpy")
def evaluate_tape(tape, centre, radius, place, tables, order, c, r):
    """Fill the Taylor models of all steps on one box; False where one is undefined.

    Args:
        tape: `op, left, right, value` of a `Trace`.
        centre: of the box, on every axis.
        radius: of the box, on every axis.
        place: place of each axis among the monomials, 0 if it does not vary.
        tables: of `Monomials`, up to `order` at least.
        order: of the models, 1 or 2.
        c: coefficients to fill, `(step, monomial)`.
        r: radii to fill.
    """
    op, left, right, value = tape
    product = tables
    n = c.shape[1]
    work, square = np.empty(n), np.empty(n)
    for step in range(len(op)):
        what, i, j = op[step], left[step], right[step]
        out = c[step]
        if what == ops.CONSTANT:
            out[:] = 0.0
            out[0] = value[step]
            r[step] = (2 * UNIT * abs(value[step]) + TINY) if j else 0.0
        elif what == ops.AXIS:
            out[:] = 0.0
            out[0] = centre[i]
            r[step] = 0.0
            if radius[i] > 0.0:
                if place[i] > 0:
                    out[place[i]] = radius[i]
                else:
                    r[step] = radius[i]
        elif what in (ops.ADD, ops.SUBTRACT):
            sign = 1.0 if what == ops.ADD else -1.0
            total = 0.0
            for k in range(n):
                out[k] = c[i, k] + sign * c[j, k]
                total += abs(out[k])
            r[step] = (r[i] + r[j] + UNIT * total) * SLACK
        elif what == ops.NEGATE:
            for k in range(n):
                out[k] = -c[i, k]
            r[step] = r[i]
        elif what == ops.MULTIPLY:
            r[step] = _multiply(c[i], r[i], c[j], r[j], product, out)
        elif what == ops.DIVIDE:
            inverse = np.empty(n)
            ri, fine = _invert(c[j], r[j], product, order, inverse, work, square)
            if not fine:
                return False
            r[step] = _multiply(c[i], r[i], inverse, ri, product, out)
        else:
            r[step], fine = _compose(
                what, c[i], r[i], product, order, out, work, square
            )
            if not fine:
                return False
        if not np.isfinite(r[step]):
            return False
    return True


@njit(cache=True, error_model="numpy")
def gather(places, c, r, symmetric, model, rest):
    """Fill a matrix's coefficients `(monomial, …)` and remainders from the tape."""
    rows, columns = places.shape
    for i in range(rows):
        for j in range(columns):
            p = places[i, j]
            rest[i, j] = r[p]
            for k in range(model.shape[0]):
                model[k, i, j] = c[p, k]
    if symmetric:
        # Only the symmetric part of a weight counts.
        for i in range(rows):
            for j in range(i):
                total = 0.5 * (rest[i, j] + rest[j, i])
                for k in range(model.shape[0]):
                    x = 0.5 * (model[k, i, j] + model[k, j, i])
                    if model[k, i, j] != model[k, j, i]:
                        total += UNIT * abs(x) + TINY
                    model[k, i, j] = x
                    model[k, j, i] = x
                rest[i, j] = total * SLACK
                rest[j, i] = rest[i, j]


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
    least = -most(-q, even)
    if not least > 0.0:
        return np.inf
    largest = most(q, even)
    factor = max(0.0, p[0] / q[0])
    best = np.inf
    for _ in range(3):
        # p <= factor q + excess.
        excess = largest_difference(p, q, factor, even)
        bound = factor + excess / (least if excess > 0.0 else largest)
        bound += 4e-16 * (abs(factor) + abs(bound)) + TINY
        best = min(best, bound)
        if not bound < np.inf:
            return np.inf
        factor = max(0.0, bound)
    return best
