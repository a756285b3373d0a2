"""Costs of linear closed loops with 50 digits, from nothing but Kronecker products."""

import mpmath as mp
import numpy as np

from taskspace.systems import LinearFamily

mp.mp.dps = 50


def matrices(system: LinearFamily, context):
    """A, B, Q and R from the family's own functions, called with 50-digit numbers."""
    names = [axis.name for axis in system.axes]
    values = {n: mp.mpf(float(x)) for n, x in zip(names, context, strict=True)}
    found = []
    for symbol in "ABQR":
        given = getattr(system, symbol)
        entries = given(**values) if callable(given) else given
        rows = [[mp.mpf(x) for x in row] for row in np.array(entries, object).tolist()]
        found.append(mp.matrix(rows))
    found[2] = (found[2] + found[2].T) / 2
    found[3] = (found[3] + found[3].T) / 2
    return found


def lyapunov(a, w, continuous: bool):
    """X with aᵀX + Xa + w = 0, or aᵀXa − X + w = 0."""
    n = a.rows
    place = {}
    for i in range(n):
        for j in range(i, n):
            place[i, j] = place[j, i] = len(set(place.values()))
    size = n * (n + 1) // 2
    m, right = mp.zeros(size), mp.zeros(size, 1)
    for i in range(n):
        for j in range(i, n):
            row = place[i, j]
            right[row] = -w[i, j]
            if continuous:
                for k in range(n):
                    m[row, place[k, j]] += a[k, i]
                    m[row, place[i, k]] += a[k, j]
            else:
                for k in range(n):
                    for x in range(n):
                        m[row, place[k, x]] += a[k, i] * a[x, j]
                m[row, row] -= 1
    solution = mp.lu_solve(m, right)
    x = mp.zeros(n)
    for (i, j), row in place.items():
        x[i, j] = solution[row]
    return x


def is_stable(a, continuous: bool) -> bool:
    roots = np.linalg.eigvals(np.array(a.tolist(), float))
    return bool((roots.real < 0).all() if continuous else (abs(roots) < 1).all())


def cost_matrix(system: LinearFamily, gain, context):
    """P of u = −gain x, None where the loop is unstable."""
    A, B, Q, R = matrices(system, context)
    K = gain if isinstance(gain, mp.matrix) else mp.matrix(gain.tolist())
    a = A - B * K
    if not is_stable(a, system.is_continuous):
        return None
    return lyapunov(a, Q + K.T * R * K, system.is_continuous)


def cost(system: LinearFamily, gain, context):
    """tr(P X₀) of u = −gain x, infinite where the loop is unstable."""
    p = cost_matrix(system, gain, context)
    return mp.inf if p is None else _trace(p, system.initial_covariance)


def least_matrix(system: LinearFamily, context):
    """P*, by Newton's method from the floating-point optimum; None if there is none."""
    A, B, Q, R = matrices(system, context)
    found, solved = system.optimal_gain(np.asarray(context, float)[None])
    if not solved[0]:
        return None
    K = mp.matrix(found[0].tolist())
    p = mp.zeros(A.rows)
    for _ in range(4):
        a = A - B * K
        p = lyapunov(a, Q + K.T * R * K, system.is_continuous)
        if system.is_continuous:
            K = mp.inverse(R) * (B.T * p)
        else:
            K = mp.inverse(R + B.T * p * B) * (B.T * p * A)
    return p


def optimal_cost(system: LinearFamily, context):
    """The least cost, infinite where no gain stabilises."""
    p = least_matrix(system, context)
    return mp.inf if p is None else _trace(p, system.initial_covariance)


def _trace(p, sigma):
    n = p.rows
    return mp.fsum(
        p[i, j] * mp.mpf(float(sigma[i, j])) for i in range(n) for j in range(n)
    )


def loss(system: LinearFamily, criterion: str, gain, source, context):
    """Loss of one gain at one context."""
    here = cost(system, gain, context)
    if criterion == "floor":
        return here
    if criterion == "signed":
        home = cost(system, gain, source)
        if home == mp.inf:
            return mp.mpf(0) if here == mp.inf else -mp.inf
        return here - home
    if here == mp.inf:
        return mp.inf
    best = optimal_cost(system, context)
    return here - best if criterion == "regret" else here / best - 1
