"""The families of Preiss & Sukhatme, against closed forms and SciPy."""

import numpy as np
import pytest
import scipy.linalg

import taskspace as ts
from taskspace.policies import LinearGain


def test_scalar_family_has_its_closed_forms():
    system = ts.systems.ScalarLqr()
    contexts = system.contexts(ts.Grid(b=(0.1, 1.0, 7, "log"), a=(0.5, 2.0, 3)))
    b, a = contexts.T
    best = system.optimum(contexts)
    assert best is not None
    np.testing.assert_allclose(best, -(a + np.sqrt(a**2 + b**2)) / b**2, rtol=1e-9)
    k = np.array([1.0, 30.0])
    scores = system.performance(LinearGain(k.reshape(2, 1, 1, 1)), contexts)[:, 0]
    with np.errstate(divide="ignore"):
        cost = (1 + k[:, None] ** 2) / (2 * (b * k[:, None] - a))
    expected = np.where(b * k[:, None] > a, -cost, -np.inf)
    np.testing.assert_allclose(scores, expected, rtol=1e-9)


def test_quadrotor_costs_equal_those_of_scipy():
    system = ts.systems.Quadrotor()
    contexts = np.array([[1.0, 1, 1, 1], [0.1, 0.5, 0.2, 1.0], [0.3, 0.1, 1.0, 0.1]])
    A, B, Q, R = system.matrices(contexts)
    best = system.optimum(contexts)
    assert best is not None
    gains, _ = system.optimal_gain(contexts)
    scores = system.performance(LinearGain(gains[:1, None]), contexts)[0, 0]
    for i in range(3):
        P = scipy.linalg.solve_continuous_are(A[i], B[i], Q[i], R[i])
        assert -best[i] == pytest.approx(np.trace(P), rel=1e-8)
        closed = A[i] - B[i] @ gains[0]
        if np.linalg.eigvals(closed).real.max() >= 0:
            assert scores[i] == -np.inf
            continue
        weight = Q[i] + gains[0].T @ gains[0]
        P = scipy.linalg.solve_continuous_lyapunov(closed.T, -weight)
        assert -scores[i] == pytest.approx(np.trace(P), rel=1e-7)


def test_scalar_cover_under_the_ratio_criterion():
    # α = 2, θ = 10: every b within a factor 2 of its optimum.
    space = ts.Grid(b=(0.1, 1.0, 60, "log"))
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    table = ts.evaluate(ts.systems.ScalarLqr(), trainer, space, seed=0).table
    sizes = [
        ts.minimum_cover(
            ts.Question("ratio", "worst", epsilon=alpha - 1).sets(table)
        ).size
        for alpha in (1.1, 1.5, 2.0, 4.0)
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert 1 < sizes[2] < 10
