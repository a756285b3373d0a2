"""States in coordinates in which most digits cancel: costs against 60 digits.

The loop of the matrices as given is stable or not, and has one cost, whatever the
coordinates. What counts is A − BK of the floats, not its rounded difference.
"""

import mpmath as mp
import numpy as np
import pytest
import scipy.linalg

import taskspace as ts
from taskspace.certificates import certify
from taskspace.policies import LinearGain
from taskspace.systems import ContextAxis, LinearFamily
from taskspace.systems.linear.kernels.doubling import some_policies
from taskspace.systems.linear.kernels.lyapunov import (
    LinearMatrices,
    closed_loop_cost,
    exact_gramian,
)
from tests.systems.linear.test_linear_attack import exact_cost as exact_loop_cost

ONE = np.eye(1)


def exact_cost(a, b, q, r, k, x0, continuous):
    """tr(W X) with 60 digits, inf where A − BK is unstable."""
    with mp.workdps(60):
        A, B, Q, R, K, S = (mp.matrix(m.tolist()) for m in (a, b, q, r, k, x0))
        return exact_loop_cost(A - B * K, Q + K.T * R * K, S, continuous)


def now_and_before(d: float) -> LinearFamily:
    """States: the position now, and a time d ago (as far as its speed tells)."""
    T, back = np.array([[1, 0], [1 / d, -1 / d]]), np.array([[1, 0], [1, -d]])
    return LinearFamily(
        [ContextAxis("k", 1.5)],
        A=lambda k: [[1 / d, -1 / d], [1 / d + d * k + 0.2, -1 / d - 0.2]],
        B=lambda k: [[0.0], [-d]],
        Q=T.T @ T,
        R=[[1.0]],
        x0_covariance=back @ back.T,
    )


def spring_gain(d: float) -> np.ndarray:
    A, B = np.array([[0, 1], [-1.5, -0.2]]), np.array([[0.0], [1.0]])
    P = scipy.linalg.solve_continuous_are(A, B, np.eye(2), ONE)
    return B.T @ P @ np.array([[1, 0], [1 / d, -1 / d]])


@pytest.mark.parametrize("d", [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7])
def test_now_and_a_time_ago(d):
    family, gain = now_and_before(d), spring_gain(d)
    contexts = np.array([[1.4], [1.5], [1.6]])
    found = -family.performance(LinearGain(gain[None, None]), contexts)[0, 0]
    A, B, Q, R = family.matrices(contexts)
    for row in range(3):
        truth = exact_cost(
            A[row], B[row], Q[row], R[row], gain, family.initial_covariance, True
        )
        assert abs(found[row] / truth - 1) < 1e-10
    if d == 1e-5:  # floats alone do not find it
        loop, weight = A[0] - B[0] @ gain, Q[0] + gain.T @ gain
        X = scipy.linalg.solve_continuous_lyapunov(loop, -family.initial_covariance)
        truth = exact_cost(
            A[0], B[0], Q[0], R[0], gain, family.initial_covariance, True
        )
        assert not abs(np.sum(weight * X) / truth - 1) < 1e-10


def test_a_stable_loop_is_not_refused_by_proof():
    family = now_and_before(1e-6)
    space = ts.Grid(k=(1.4, 1.6, 3))
    policies = LinearGain(np.repeat(spring_gain(1e-6)[None, None], 3, axis=0))
    table = ts.evaluate_policies(family, policies, space, sources=space).table
    costs = -table["performance"].values
    np.testing.assert_allclose(costs[0, 0], [3.05, 3.1, 3.15], rtol=0.01)
    question = ts.Question("floor", epsilon=4.0)
    result = certify(
        ts.Study.of(table, system=family, policies=policies), question, time_limit=1.0
    )
    assert "served by no source" not in result.certificates[0].why


def random_loop(rng, n, condition, continuous):
    """An LQR problem and a gain, in coordinates of the given condition number."""
    m = 1 if n < 3 else 2
    A, B = rng.normal(size=(n, n)), rng.normal(size=(n, m))
    A = A if continuous else 0.7 * A
    are = (
        scipy.linalg.solve_continuous_are
        if continuous
        else scipy.linalg.solve_discrete_are
    )
    P = are(A, B, np.eye(n), np.eye(m))
    gain = (
        B.T @ P if continuous else np.linalg.solve(np.eye(m) + B.T @ P @ B, B.T @ P @ A)
    )
    gain = gain * rng.choice([1.0, 0.5, 0.0])
    U, V = (np.linalg.qr(rng.normal(size=(n, n)))[0] for _ in range(2))
    T = U @ np.diag(np.geomspace(1, 1 / condition, n)) @ V
    back = np.linalg.inv(T)
    q, x0 = back.T @ back, T @ T.T
    loop = T @ A @ back, T @ B, (q + q.T) / 2, np.eye(m), gain @ back, (x0 + x0.T) / 2
    return tuple(np.ascontiguousarray(x) for x in loop)


def one_plant(*matrices):
    return LinearMatrices(*(matrix[None] for matrix in matrices))


@pytest.mark.parametrize("continuous", [True, False])
@pytest.mark.parametrize("condition", [1e0, 1e2, 1e4, 1e6, 1e8])
def test_random_coordinates(condition, continuous):
    rng = np.random.default_rng(int(np.log10(condition)))
    verdicts = []
    for n in (2, 2, 2, 3, 3, 4):
        a, b, q, r, k, x0 = random_loop(rng, n, condition, continuous)
        truth = exact_cost(a, b, q, r, k, x0, continuous)
        found = closed_loop_cost(k[None], one_plant(a, b, q, r), x0, continuous)[0, 0]
        verdicts.append(np.isfinite(found))
        assert np.isfinite(found) == (truth < mp.inf)
        X, last = exact_gramian((a, b, q, r, k), x0, continuous)
        assert np.isfinite(X).all() == np.isfinite(last) == np.isfinite(found)
        if np.isfinite(found):
            assert abs(found / truth - 1) < 1e-10
            assert abs(last / truth - 1) < 1e-15
    assert any(verdicts)


def test_the_fast_kernel_leaves_open_what_it_cannot_know():
    """Without the careful method: right, or open. At some d it must be open."""
    is_open = []
    for d in np.geomspace(1e-1, 1e-8, 15):
        family, gain = now_and_before(float(d)), spring_gain(float(d))
        A, B, Q, R = family.matrices(np.array([[1.5]]))
        cost = np.empty((1, 1))
        x0 = family.initial_covariance
        none = np.empty((0, 2, 2))
        rest = none, x0[None], True, cost, none
        some_policies(gain[None], (A, B, Q, R), *rest)
        is_open.append(np.isnan(cost[0, 0]))
        if not is_open[-1]:
            truth = exact_cost(A[0], B[0], Q[0], R[0], gain, x0, True)
            assert abs(cost[0, 0] / truth - 1) < 1e-10
    assert not is_open[0]
    assert all(is_open[3:])


def test_marginal_loops_are_decided_in_fractions():
    """On the boundary, and a little to either side."""
    tiny, b, k, two = 2.0**-40, np.zeros((2, 1)), np.zeros((1, 2)), np.eye(2)
    for continuous, edge in ((True, 0.0), (False, 1.0)):
        for shift, is_stable in ((0.0, False), (-tiny, True), (tiny, False)):
            a = np.array([[edge + shift, 1e3], [0.0, 0.5 * edge - (edge == 0)]])
            cost = exact_gramian((a, b, two, ONE, k), two, continuous)[1]
            assert np.isfinite(cost) == is_stable
            fast = closed_loop_cost(
                k[None], one_plant(a, b, two, ONE), two, continuous
            )[0, 0]
            assert np.isfinite(fast) == is_stable
            if is_stable:
                truth = exact_cost(a, b, two, ONE, k, two, continuous)
                assert abs(fast / truth - 1) < 1e-10


def test_a_weight_of_inputs_is_definite_in_all_units():
    # One input in newtons, one in giganewtons: a definite R with entries 1 and 1e18.
    for R in (np.diag([1.0, 1e18]), np.array([[1.0, 0.5e9], [0.5e9, 1e18]])):
        plant = LinearFamily(
            [ContextAxis("k", 1.5)], A=lambda k: [[k]], B=[[1.0, 1e9]], Q=ONE, R=R
        )
        gains, _ = plant.optimal_gain(np.array([[1.0]]))
        assert np.isfinite(gains).all()
    with pytest.raises(ts.TaskspaceError, match="R must be positive definite"):
        LinearFamily(
            [ContextAxis("k", 1.5)],
            A=[[1.0]],
            B=[[1.0, 1e9]],
            Q=ONE,
            R=[[1.0, 1e9], [1e9, 1e18]],
        )


def test_a_negative_weight_of_states_is_no_rounding():
    def plant(Q):
        A, B = np.diag([-1.0, -2.0]), np.ones((2, 1))
        return LinearFamily([ContextAxis("k", 1.5)], A=A, B=B, Q=Q, R=ONE)

    with pytest.raises(ts.TaskspaceError, match="Q must be positive semidefinite"):
        plant(np.diag([1e12, -1.0]))
    for seed in range(50):  # zeros that rounding moves are zeros
        rows = np.random.default_rng(seed).normal(size=(1, 2)) * [1e6, 1e-6]
        plant(rows.T @ rows)
