r"""The kernel of quadratic costs: linear closed loops, many at a time.

For $\dot x = F x$ (or $x^+ = F x$) with $E[x_0 x_0^\top] = X_0$ the cost is
$\mathrm{tr}(Q_{cl} X)$ with the accumulated covariance $X = \int x x^\top$, found by
doubling (Smith 1968): $X_{2m} = X_m + \Phi_m X_m \Phi_m^\top$, $\Phi_{2m} = \Phi_m^2$.

- $\Phi = I + E$ is kept as $E$, squared by $E \leftarrow 2E + E^2$: a slow mode, whose
  $\Phi$ is next to 1, keeps its digits however much faster the other modes are.
- Discrete time starts from $E = (F - I)(F + I)$, which is exact next to 1 and −1.
- Continuous time: the Cayley transform with a shift $s$ larger than $\|F\|_\infty$
  turns it into a discrete equation with the same solution, and $sI - F$ is diagonally
  dominant, so elimination needs no pivoting.

The series ends when $\Phi$ is negligible in units of X itself,
$\Phi_{ij}^2 X_{jj} \ll X_{ii}$, so units of states and time do not matter. It is
unstable when the trace of $\Phi$, a sum of powers of eigenvalues, is far above 1, by
more than rounding of F can have made it. A loop that took many doublings is solved for
its residual too. Where that correction is not small, where the terms of the cost cancel
(coordinates that hide what is small), or nothing was decided, a careful method has the
last word (`kernels.lyapunov`), for this pair alone.

`LANES` problems run in step, as vectors. A lane that has converged is frozen, so its
result does not depend on its neighbours: any tiling gives the same bits. Left to itself
the compiler unrolls a loop over eight lanes and leaves single numbers, which is two to
three times slower than vectors of eight. So the innermost sums are written as such
vectors. Each lane is summed in the order of k, as a plain loop would.

| name | shape | is |
|---|---|---|
| `f`, `x0`, `x`, `e` | `(n, n, LANES)` | F, X₀, X and E = Φ − I of each lane |
| `scratch` | 3 × `(n, n, LANES)` | room for `e`, `work` and `tmp` |
| `lane` | `(LANES,)` | room for one number per lane |
| `state`, `steps` | `(LANES,)` | how a lane ended, after how many doublings |
| `plant` | 4 × `(target, …, …)` | A, B, Q and R of each target |
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

# Slow modes of E need one doubling per factor 2; 2^100 of the fastest time is enough.
MAX_DOUBLINGS = 100
# Φ² in units of X: what is left of X is below float64's 1e-16.
CONVERGED = 1e-18
# The diagonal of Φ between these: neither converged nor diverged, no need to look.
SMALL, LARGE = 1e-9, 1e17
# |tr Φ| > n needs an eigenvalue beyond 1; so far above, rounding cannot have made it.
DIVERGED = 1e20
# Growth that takes longer is next to none: the careful method decides.
CLEARLY = 40
# Up to so many doublings rounding grows to 2^14 · 1e-16 at most: no check needed.
EASY = 14
# Largest relative correction of a checked loop.
ACCURATE = 1e-11
# Rounding of X grows with the doublings; times the terms of the cost over their sum.
CANCELLED = 2e-10
UNIT = 2.0**-53
# Growth is sure if rounding, times the square of what powers of F may reach, is below.
SPURIOUS = 1e-6
# Beyond so many, rounding of F X Fᵀ − X hides a correction of that size.
CHECKED = 21

RUNNING, DONE, UNSTABLE, UNDECIDED = 0, 1, 2, 3
LANES = 8
VECTOR = ir.VectorType(ir.DoubleType(), LANES)

# Kernels that only other kernels call need no wrapper, and compile in less time.
inner: Any = njit(  # pyright: ignore
    cache=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
)


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


@inner
def _add_row(out, i, a, b, first, last):
    """Add Σ_{first <= k < last} a_ik b_kj to row i."""
    n, j = out.shape[1], 0
    while j + 1 < n:
        _add_two(out, i, j, a, b, first, last)
        j += 2
    if j < n:
        _add_one(out, i, j, a, b, first, last)


@inner
def _add_row_t(out, i, j, a, b):
    """Add Σ_k a_ik b_jk to row i from column j on."""
    n = out.shape[1]
    while j + 1 < n:
        _add_two_t(out, i, j, a, b, 0, n)
        j += 2
    if j < n:
        _add_one_t(out, i, j, a, b, 0, n)


@inner
def _multiply(a, b, out):
    """Fill a b; `out` is neither of them."""
    n = a.shape[0]
    for i in range(n):
        for j in range(n):
            for w in range(LANES):
                out[i, j, w] = a[i, 0, w] * b[0, j, w]
        _add_row(out, i, a, b, 1, n)


@inner
def _copy(out, a):
    """OUT ← A. An assignment of slices takes seconds to compile."""
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            for w in range(LANES):
                out[i, j, w] = a[i, j, w]


@inner
def _square(e, tmp):
    """E ← 2E + E², which is Φ² − I for Φ = I + E; into `tmp`."""
    n = e.shape[0]
    for i in range(n):
        for j in range(n):
            for w in range(LANES):
                tmp[i, j, w] = 2.0 * e[i, j, w]
        _add_row(tmp, i, e, e, 0, n)


@inner
def _move(e, x, tmp, keep):
    """X ← keep·X + Φ X Φᵀ with Φ = I + E; X is symmetric, and stays so."""
    n = x.shape[0]
    for i in range(n):
        for j in range(n):
            for w in range(LANES):
                tmp[i, j, w] = x[i, j, w]
        _add_row(tmp, i, e, x, 0, n)
    for i in range(n):
        for j in range(i, n):
            for w in range(LANES):
                x[i, j, w] = keep * x[i, j, w] + tmp[i, j, w]
        _add_row_t(x, i, i, tmp, e)
        for j in range(i, n):
            for w in range(LANES):
                x[j, i, w] = x[i, j, w]


@inner
def _add_congruence(f, x, tmp, x0):
    """X ← X₀ + F X Fᵀ."""
    n = x.shape[0]
    _multiply(f, x, tmp)
    for i in range(n):
        for j in range(i, n):
            for w in range(LANES):
                x[i, j, w] = x0[i, j, w]
        _add_row_t(x, i, i, tmp, f)
        for j in range(i, n):
            for w in range(LANES):
                x[j, i, w] = x[i, j, w]


@inner
def _freeze(e, w):
    """Φ = 0: this lane's X changes no more."""
    n = e.shape[0]
    for i in range(n):
        for j in range(n):
            e[i, j, w] = -1.0 if i == j else 0.0


@inner
def _row_sum_norm(a, out):
    n = a.shape[0]
    for w in range(LANES):
        out[w] = 0.0
    for i in range(n):
        for w in range(LANES):
            total = 0.0
            for j in range(n):
                total += abs(a[i, j, w])
            out[w] = max(out[w], total)


@inner
def _cayley(f, x, e, work, tmp, shift):
    """Turn (F, X₀) of the continuous equation into E and X of the discrete one."""
    n = f.shape[0]
    _row_sum_norm(f, shift)
    for w in range(LANES):
        shift[w] = 1.125 * shift[w] if shift[w] > 0.0 else 1.0
    # Gauss-Jordan on sI − F, strictly diagonally dominant: E ← (sI − F)⁻¹ F.
    for i in range(n):
        for j in range(n):
            for w in range(LANES):
                work[i, j, w] = (shift[w] if i == j else 0.0) - f[i, j, w]
                e[i, j, w] = f[i, j, w]
    for p in range(n):
        for w in range(LANES):
            tmp[0, 0, w] = 1.0 / work[p, p, w]
        for j in range(n):
            for w in range(LANES):
                work[p, j, w] *= tmp[0, 0, w]
                e[p, j, w] *= tmp[0, 0, w]
        for i in range(n):
            if i == p:
                continue
            for w in range(LANES):
                tmp[i, p, w] = -work[i, p, w]
            _add_row(work, i, tmp, work, p, p + 1)
            _add_row(e, i, tmp, e, p, p + 1)
    # (sI − F)⁻¹ = (I + E)/s, X = (2/s)(I + E) X₀ (I + E)ᵀ, Φ = I + 2E.
    _move(e, x, tmp, 0.0)
    for w in range(LANES):
        shift[w] = 2.0 / shift[w]
    for i in range(n):
        for j in range(n):
            for w in range(LANES):
                x[i, j, w] *= shift[w]
                e[i, j, w] *= 2.0


@inner
def _first_steps(f, x, e, work, tmp):
    """Two steps of the discrete equation: X₂ = X₀ + F X₀ Fᵀ, E₂ = F² − I."""
    n = f.shape[0]
    _copy(work, x)
    _add_congruence(f, x, tmp, work)
    for i in range(n):
        for j in range(n):
            for w in range(LANES):
                one = 1.0 if i == j else 0.0
                work[i, j, w] = f[i, j, w] - one
                tmp[i, j, w] = f[i, j, w] + one
    _multiply(work, tmp, e)


@inner
def _start(f, x, scratch, lane, continuous):
    e, work, tmp = scratch
    if continuous:
        _cayley(f, x, e, work, tmp, lane)
    else:
        _first_steps(f, x, e, work, tmp)


@inner
def _vanishes(e, x, w):
    """Whether Φ = I + E is negligible in units of X; never where one is NaN."""
    n = x.shape[0]
    for i in range(n):
        bound = CONVERGED * x[i, i, w]
        for j in range(n):
            phi = e[i, j, w] + (1.0 if i == j else 0.0)
            if not phi * phi * x[j, j, w] <= bound:
                return False
    return True


@inner
def _rests(e, x, w):
    """Whether Φ also vanishes among states that nothing has reached (X = 0)."""
    n = x.shape[0]
    for i in range(n):
        if x[i, i, w] > 0.0:
            continue
        for j in range(n):
            if not x[j, j, w] > 0.0:
                phi = e[i, j, w] + (1.0 if i == j else 0.0)
                if not phi * phi <= CONVERGED:
                    return False
    return True


@inner
def _to_the_end(e, x, tmp, size, state, steps):
    """Sum the whole series; `state` says how each lane ended, `steps` when."""
    n = x.shape[0]
    for w in range(LANES):
        state[w] = RUNNING
    running = True
    step = 0
    while running:
        step += 1
        _move(e, x, tmp, 1.0)
        _square(e, tmp)
        _copy(e, tmp)
        for w in range(LANES):
            size[w] = 0.0
        for i in range(n):
            for w in range(LANES):
                v = abs(1.0 + e[i, i, w])
                size[w] = size[w] if v <= size[w] else v  # a NaN must win
        running = False
        for w in range(LANES):
            if SMALL < size[w] <= LARGE and step < MAX_DOUBLINGS:
                running = True
            elif state[w] == RUNNING:
                state[w] = _verdict(e, x, w, step)
                if state[w] == RUNNING:
                    running = True
                else:
                    steps[w] = step
                    _freeze(e, w)


@inner
def _verdict(e, x, w, step):
    """How a lane stands whose Φ = I + E has a diagonal far from 1 in size."""
    trace = 0.0
    for i in range(e.shape[0]):
        trace += 1.0 + e[i, i, w]
    if _vanishes(e, x, w) and _rests(e, x, w):
        return DONE
    if abs(trace) <= DIVERGED and step < MAX_DOUBLINGS:
        return RUNNING
    if DIVERGED < abs(trace) < np.inf and step <= CLEARLY:
        return UNSTABLE
    return UNDECIDED


@inner
def _own_size(f, w):
    """Square of the size of F in the best units of its states: Σ |F_ij F_ji|."""
    n = f.shape[0]
    total = 0.0
    for i in range(n):
        total += f[i, i, w] * f[i, i, w]
        for j in range(i):
            total += 2.0 * abs(f[i, j, w] * f[j, i, w])
    return total


@inner
def _doubt(f, state, steps, continuous):
    """Leave open what rounding may have made grow."""
    n = f.shape[0]
    for w in range(LANES):
        if state[w] != UNSTABLE:
            continue
        rate = 46.0 / 2.0 ** (steps[w] + 1)  # |Φ| is about 1e20
        if continuous:
            norm = 0.0
            for i in range(n):
                total = 0.0
                for j in range(n):
                    total += abs(f[i, j, w])
                norm = max(norm, total)
            rate *= norm
        # Powers of F grow up to its size over the rate before they tell the rate.
        if not UNIT * _own_size(f, w) <= SPURIOUS * rate * rate:
            state[w] = UNDECIDED


@inner
def _check(f, x0, x, scratch, lane, state, steps, continuous):
    """Solve for the residual of lanes that took long; doubt where it is not small.

    X itself is kept: where it is right, the correction is rounding of the residual.
    """
    n = x.shape[0]
    e, _, tmp = scratch
    r = np.empty_like(x)
    if continuous:  # F X + X Fᵀ + X₀
        _multiply(f, x, tmp)
        for i in range(n):
            for j in range(n):
                for w in range(LANES):
                    r[i, j, w] = tmp[i, j, w] + tmp[j, i, w] + x0[i, j, w]
    else:
        _copy(r, x)
        _add_congruence(f, r, tmp, x0)
        for i in range(n):
            for j in range(n):
                for w in range(LANES):
                    r[i, j, w] -= x[i, j, w]
    _start(f, r, scratch, lane, continuous)
    for step in range(steps.max()):
        for w in range(LANES):
            if steps[w] <= step:
                _freeze(e, w)
        _move(e, r, tmp, 1.0)
        _square(e, tmp)
        _copy(e, tmp)
    for w in range(LANES):
        if state[w] != DONE or steps[w] <= EASY:
            continue
        if not continuous and steps[w] > CHECKED:
            state[w] = UNDECIDED
        for i in range(n):
            if not abs(r[i, i, w]) <= ACCURATE * x[i, i, w]:
                state[w] = UNDECIDED


@inner
def _gramians(f, x0, x, scratch, lane, state, steps, continuous):
    """X of each lane, and how the lane ended."""
    e, _, tmp = scratch
    _copy(x, x0)
    _start(f, x, scratch, lane, continuous)
    _to_the_end(e, x, tmp, lane, state, steps)
    _doubt(f, state, steps, continuous)
    doubtful = False
    for w in range(LANES):
        doubtful |= state[w] == DONE and steps[w] > EASY
    if doubtful:
        _check(f, x0, x, scratch, lane, state, steps, continuous)


@inner
def _state_gain(gain, c, t, u, j):
    """K, or K C of a target."""
    if not len(c):
        return gain[u, j]
    total = 0.0
    for y in range(c.shape[1]):
        total += gain[u, y] * c[t, y, j]
    return total


@njit(cache=True, error_model="numpy", nogil=True)
def some_policies(gains, plant, c, x_start, continuous, costs, xs):
    """Costs of some gains; NaN where the careful method must decide.

    `c` holds C of every target, u = −K C x, or nothing for u = −K x; `x_start` X₀ of
    every target, or one of all; `xs`, unless it is empty, gets the X of every target.
    One kernel for all of these: it takes long to compile.
    """
    a, b, q, r = plant
    n_inputs = gains.shape[1]
    n_targets, n = a.shape[:2]
    k = np.empty((LANES, n_inputs, n))
    f = np.empty((n, n, LANES))
    x0 = np.empty((n, n, LANES))
    x = np.empty((n, n, LANES))
    e = np.empty((n, n, LANES))
    tmp = np.empty((n, n, LANES))
    work = np.empty((n, n, LANES))
    scratch = e, work, tmp
    lane = np.empty(LANES)
    state = np.zeros(LANES, np.int64)
    steps = np.empty(LANES, np.int64)
    for gain, cost in zip(gains, costs):  # noqa: B905 (not known to numba)
        for first in range(0, n_targets, LANES):
            for w in range(LANES):
                t = min(first + w, n_targets - 1)
                own = min(t, len(x_start) - 1)
                for u in range(n_inputs):
                    for j in range(n):
                        k[w, u, j] = _state_gain(gain, c, t, u, j)
                for i in range(n):
                    for j in range(n):
                        x0[i, j, w] = x_start[own, i, j]
                        value = a[t, i, j]
                        for u in range(n_inputs):
                            value -= b[t, i, u] * k[w, u, j]
                        f[i, j, w] = value
            _gramians(f, x0, x, scratch, lane, state, steps, continuous)
            for w in range(min(LANES, n_targets - first)):
                t = first + w
                total, size = 0.0, 0.0
                for i in range(n):
                    for j in range(n):
                        weight = q[t, i, j]
                        for u in range(n_inputs):
                            for v in range(n_inputs):
                                weight += k[w, u, i] * r[t, u, v] * k[w, v, j]
                        total += weight * x[i, j, w]
                        size += abs(weight * x[i, j, w])
                if state[w] == UNSTABLE:
                    total = np.inf
                elif state[w] == UNDECIDED or not abs(total) < np.inf:
                    total = np.nan
                else:
                    rounding = 2.0 ** min(steps[w], EASY) * UNIT
                    if not continuous:
                        rounding *= max(1.0, _own_size(f, w) / n)
                    if not rounding * size <= CANCELLED * abs(total):
                        total = np.nan
                cost[t] = total
                if len(xs):
                    for i in range(n):
                        for j in range(n):
                            xs[t, i, j] = x[i, j, w]
