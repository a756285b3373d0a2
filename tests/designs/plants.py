"""Plants, and costs in other arithmetic than the library's, for tests of designs."""

from typing import Any

import mpmath as mp
import numpy as np

import taskspace as ts
from taskspace.systems import ContextAxis, LinearFamily

LOOSE = ts.Question("regret", epsilon=0.3)


def small_space(n=4) -> ts.Grid:
    """A part of the mass-spring-damper's range."""
    return ts.Grid(k=(0.5, 4.0, n), c=(0.5, 4.0, n))


def discrete_plant(units=(1.0, 1.0), input_unit=1.0, **options) -> LinearFamily:
    """Two states in discrete time; the context is how unstable it is.

    Args:
        units: of the states: `x_new = x / unit`.
        input_unit: of the input.
        options: of the family.
    """
    T = np.diag(units)
    back = np.diag(1 / np.array(units))
    return LinearFamily(
        context_axes=[ContextAxis("a", 1.0)],
        A=lambda a: back @ np.array([[a, 0.3], [0.0, 0.8]]) @ T,
        B=lambda a: back @ np.array([[0.2], [0.5]]) * input_unit,
        Q=T @ np.diag([2.0, 1.0]) @ T,
        R=[[0.7 * input_unit**2]],
        x0_covariance=back @ np.array([[1.0, 0.2], [0.2, 0.5]]) @ back,
        time="discrete",
        **options,
    )


def exact_cost(system, context, gain) -> Any:
    """The cost of a gain by 50 digits, from one linear equation; inf if unstable."""
    with mp.workdps(50):
        A, B, Q, R = (mp.matrix(m[0].tolist()) for m in system.matrices(context[None]))
        S = mp.matrix(system.initial_covariance.tolist())
        K = mp.matrix(np.asarray(gain).tolist())
        n = A.rows
        F, W = A - B * K, Q + K.T * R * K
        values, _ = mp.eig(F)
        if system.is_continuous:
            stable = all(mp.re(value) < 0 for value in values)
        else:
            stable = all(abs(value) < 1 for value in values)
        if not stable:
            return mp.inf
        M, right = mp.zeros(n * n), mp.zeros(n * n, 1)
        for i in range(n):
            for j in range(n):
                row = i * n + j
                right[row] = -S[i, j]
                for k in range(n):
                    if system.is_continuous:
                        M[row, k * n + j] += F[i, k]
                        M[row, i * n + k] += F[j, k]
                    else:
                        for l in range(n):  # noqa: E741
                            M[row, k * n + l] += F[i, k] * F[j, l]
                if not system.is_continuous:
                    M[row, row] -= 1
        X = mp.lu_solve(M, right)
        return mp.fsum(W[i, j] * X[i * n + j] for i in range(n) for j in range(n))


def exact_loss(system, context, gain, question) -> Any:
    """Regret or ratio by 50 digits; the optimum is that of the gain that is nearly it.

    A gain next to the optimum costs more than it by the square of the distance.
    """
    best = exact_cost(system, context, system.optimal_gain(context[None])[0][0])
    cost = exact_cost(system, context, gain)
    return cost - best if question.criterion == "regret" else cost / best - 1
