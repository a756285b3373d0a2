"""Products of small matrices, `LANES` of them at a time: arrays `(row, column, lane)`.

Left to itself the compiler unrolls a loop over eight lanes and leaves single numbers,
which is two to three times slower than vectors of eight. So the innermost sums are
written as such vectors. Each lane is summed in the order of k, as a plain loop would.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8
VECTOR = ir.VectorType(ir.DoubleType(), LANES)


def _accumulator(width: int, *, by_row: bool) -> Callable[..., Any]:
    """Return a compiled `out[i, j + c] += Σ_{first <= k < last} a[i, k] b[k, j + c]`.

    Args:
        width: how many columns c are summed side by side, to hide the time of a sum.
        by_row: b[j + c, k] in place of b[k, j + c].
    """

    def accumulate(_context: Any, out: Any, i: Any, j: Any, a: Any, b: Any,
                   first: Any, last: Any):  # fmt: skip
        del i, j, first, last
        whole = types.intp
        return types.void(out, whole, whole, a, b, whole, whole), generate

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        out, a, b = (
            (kind, context.make_array(kind)(context, builder, args[place]))
            for place, kind in enumerate(signature.args)
            if place in (0, 3, 4)
        )
        _, i, j, _, _, first, last = args
        zero, one = (context.get_constant(types.intp, x) for x in (0, 1))

        def lanes(array: Any, row: Any, column: Any) -> Any:
            kind, struct = array
            place = [row, column, zero]
            pointer = cgutils.get_item_pointer(context, builder, kind, struct, place)
            return builder.bitcast(pointer, VECTOR.as_pointer())

        shifts = [context.get_constant(types.intp, c) for c in range(width)]
        columns = [builder.add(j, shift) for shift in shifts]
        targets = [lanes(out, i, column) for column in columns]
        totals = [cgutils.alloca_once(builder, VECTOR) for _ in columns]
        for target, total in zip(targets, totals, strict=True):
            builder.store(builder.load(target, align=8), total)
        with cgutils.for_range_slice(builder, first, last, one) as (k, _):
            x = builder.load(lanes(a, i, k), align=8)
            for column, total in zip(columns, totals, strict=True):
                place = (column, k) if by_row else (k, column)
                y = builder.load(lanes(b, *place), align=8)
                more = builder.fmul(x, y)
                builder.store(builder.fadd(builder.load(total), more), total)
        for target, total in zip(targets, totals, strict=True):
            builder.store(builder.load(total), target, align=8)
        return context.get_dummy_value()

    return intrinsic(accumulate)


_add_one, _add_two = (_accumulator(width, by_row=False) for width in (1, 2))
_add_one_t, _add_two_t = (_accumulator(width, by_row=True) for width in (1, 2))


@njit(cache=True, error_model="numpy")
def add_row(out, i, a, b, first, last):
    """Add Σ_{first <= k < last} a_ik b_kj to row i."""
    n, j = out.shape[1], 0
    while j + 1 < n:
        _add_two(out, i, j, a, b, first, last)
        j += 2
    if j < n:
        _add_one(out, i, j, a, b, first, last)


@njit(cache=True, error_model="numpy")
def _add_row_t(out, i, j, a, b):
    """Add Σ_k a_ik b_jk to row i from column j on."""
    n = out.shape[1]
    while j + 1 < n:
        _add_two_t(out, i, j, a, b, 0, n)
        j += 2
    if j < n:
        _add_one_t(out, i, j, a, b, 0, n)


@njit(cache=True, error_model="numpy")
def multiply(a, b, out):
    """Fill a b; `out` is neither of them."""
    n = a.shape[0]
    for i in range(n):
        for j in range(n):
            for w in range(LANES):
                out[i, j, w] = a[i, 0, w] * b[0, j, w]
        add_row(out, i, a, b, 1, n)


@njit(cache=True, error_model="numpy")
def copy(out, a):
    """OUT ← A. An assignment of slices takes seconds to compile."""
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            for w in range(LANES):
                out[i, j, w] = a[i, j, w]


@njit(cache=True, error_model="numpy")
def square(e, tmp):
    """E ← 2E + E², which is Φ² − I for Φ = I + E; into `tmp`."""
    n = e.shape[0]
    for i in range(n):
        for j in range(n):
            for w in range(LANES):
                tmp[i, j, w] = 2.0 * e[i, j, w]
        add_row(tmp, i, e, e, 0, n)


@njit(cache=True, error_model="numpy")
def move(e, x, tmp, keep):
    """X ← keep·X + Φ X Φᵀ with Φ = I + E; X is symmetric, and stays so."""
    n = x.shape[0]
    for i in range(n):
        for j in range(n):
            for w in range(LANES):
                tmp[i, j, w] = x[i, j, w]
        add_row(tmp, i, e, x, 0, n)
    for i in range(n):
        for j in range(i, n):
            for w in range(LANES):
                x[i, j, w] = keep * x[i, j, w] + tmp[i, j, w]
        _add_row_t(x, i, i, tmp, e)
        for j in range(i, n):
            for w in range(LANES):
                x[j, i, w] = x[i, j, w]


@njit(cache=True, error_model="numpy")
def add_congruence(f, x, tmp, x0):
    """X ← X₀ + F X Fᵀ."""
    n = x.shape[0]
    multiply(f, x, tmp)
    for i in range(n):
        for j in range(i, n):
            for w in range(LANES):
                x[i, j, w] = x0[i, j, w]
        _add_row_t(x, i, i, tmp, f)
        for j in range(i, n):
            for w in range(LANES):
                x[j, i, w] = x[i, j, w]
