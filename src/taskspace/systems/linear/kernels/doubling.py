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

`LANES` problems run in step, as vectors (`kernels.lanes`). A lane that has converged is
frozen, so its result does not depend on its neighbours: any tiling gives the same bits.

| name | shape | is |
|---|---|---|
| `f`, `x0`, `x`, `e` | `(n, n, LANES)` | F, X₀, X and E = Φ − I of each lane |
| `scratch` | 3 × `(n, n, LANES)` | room for `e`, `work` and `tmp` |
| `lane` | `(LANES,)` | room for one number per lane |
| `state`, `steps` | `(LANES,)` | how a lane ended, after how many doublings |
| `plant` | 4 × `(target, …, …)` | A, B, Q and R of each target |
"""

import numpy as np
from numba import njit

from taskspace.systems.linear.kernels.lanes import (
    LANES,
    add_congruence,
    add_row,
    copy,
    move,
    multiply,
    square,
)

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


@njit(cache=True, error_model="numpy")
def _freeze(e, w):
    """Φ = 0: this lane's X changes no more."""
    n = e.shape[0]
    for i in range(n):
        for j in range(n):
            e[i, j, w] = -1.0 if i == j else 0.0


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy")
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
            add_row(work, i, tmp, work, p, p + 1)
            add_row(e, i, tmp, e, p, p + 1)
    # (sI − F)⁻¹ = (I + E)/s, X = (2/s)(I + E) X₀ (I + E)ᵀ, Φ = I + 2E.
    move(e, x, tmp, 0.0)
    for w in range(LANES):
        shift[w] = 2.0 / shift[w]
    for i in range(n):
        for j in range(n):
            for w in range(LANES):
                x[i, j, w] *= shift[w]
                e[i, j, w] *= 2.0


@njit(cache=True, error_model="numpy")
def _first_steps(f, x, e, work, tmp):
    """Two steps of the discrete equation: X₂ = X₀ + F X₀ Fᵀ, E₂ = F² − I."""
    n = f.shape[0]
    copy(work, x)
    add_congruence(f, x, tmp, work)
    for i in range(n):
        for j in range(n):
            for w in range(LANES):
                one = 1.0 if i == j else 0.0
                work[i, j, w] = f[i, j, w] - one
                tmp[i, j, w] = f[i, j, w] + one
    multiply(work, tmp, e)


@njit(cache=True, error_model="numpy")
def _start(f, x, scratch, lane, continuous):
    e, work, tmp = scratch
    if continuous:
        _cayley(f, x, e, work, tmp, lane)
    else:
        _first_steps(f, x, e, work, tmp)


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy")
def _to_the_end(e, x, tmp, size, state, steps):
    """Sum the whole series; `state` says how each lane ended, `steps` when."""
    n = x.shape[0]
    for w in range(LANES):
        state[w] = RUNNING
    running = True
    step = 0
    while running:
        step += 1
        move(e, x, tmp, 1.0)
        square(e, tmp)
        copy(e, tmp)
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


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy")
def _own_size(f, w):
    """Square of the size of F in the best units of its states: Σ |F_ij F_ji|."""
    n = f.shape[0]
    total = 0.0
    for i in range(n):
        total += f[i, i, w] * f[i, i, w]
        for j in range(i):
            total += 2.0 * abs(f[i, j, w] * f[j, i, w])
    return total


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy")
def _check(f, x0, x, scratch, lane, state, steps, continuous):
    """Solve for the residual of lanes that took long; doubt where it is not small.

    X itself is kept: where it is right, the correction is rounding of the residual.
    """
    n = x.shape[0]
    e, _, tmp = scratch
    r = np.empty_like(x)
    if continuous:  # F X + X Fᵀ + X₀
        multiply(f, x, tmp)
        for i in range(n):
            for j in range(n):
                for w in range(LANES):
                    r[i, j, w] = tmp[i, j, w] + tmp[j, i, w] + x0[i, j, w]
    else:
        copy(r, x)
        add_congruence(f, r, tmp, x0)
        for i in range(n):
            for j in range(n):
                for w in range(LANES):
                    r[i, j, w] -= x[i, j, w]
    _start(f, r, scratch, lane, continuous)
    for step in range(steps.max()):
        for w in range(LANES):
            if steps[w] <= step:
                _freeze(e, w)
        move(e, r, tmp, 1.0)
        square(e, tmp)
        copy(e, tmp)
    for w in range(LANES):
        if state[w] != DONE or steps[w] <= EASY:
            continue
        if not continuous and steps[w] > CHECKED:
            state[w] = UNDECIDED
        for i in range(n):
            if not abs(r[i, i, w]) <= ACCURATE * x[i, i, w]:
                state[w] = UNDECIDED


@njit(cache=True, error_model="numpy")
def _gramians(f, x0, x, scratch, lane, state, steps, continuous):
    """X of each lane, and how the lane ended."""
    e, _, tmp = scratch
    copy(x, x0)
    _start(f, x, scratch, lane, continuous)
    _to_the_end(e, x, tmp, lane, state, steps)
    _doubt(f, state, steps, continuous)
    doubtful = False
    for w in range(LANES):
        doubtful |= state[w] == DONE and steps[w] > EASY
    if doubtful:
        _check(f, x0, x, scratch, lane, state, steps, continuous)


@njit(cache=True, error_model="numpy")
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
