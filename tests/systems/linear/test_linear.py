"""Riccati, Lyapunov and costs: residuals, closed forms, SciPy."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

import taskspace as ts
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearGain
from taskspace.systems import ContextAxis, LinearFamily, MassSpringDamper
from taskspace.systems.base import REDUCED, reduce_family
from taskspace.systems.linear import LinearSystem
from taskspace.systems.linear.kernels.riccati import riccati_gain
from tests.helpers import four_states


def random_problem(seed: int, n: int, m: int):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(4, n, n))
    B = rng.normal(size=(4, n, m))
    root = rng.normal(size=(4, n, n))
    Q = root @ np.swapaxes(root, 1, 2) + 0.1 * np.eye(n)
    return A, B, Q, np.tile(np.eye(m) * 2, (4, 1, 1))


def scalar(a=0.0, b=1.0, q=1.0, r=1.0, **options) -> LinearFamily:
    return LinearFamily(
        context_axes=[ContextAxis("a", a)],
        A=lambda a: [[a]],
        B=lambda a: [[b]],
        Q=[[q]],
        R=[[r]],
        **options,
    )


def scipy_cost(system: LinearSystem, gain, context) -> float:
    A, B, Q, R = (x[0] for x in system.matrices(context[None]))
    F, W = A - B @ gain, Q + gain.T @ R @ gain
    if system.is_continuous:
        if np.linalg.eigvals(F).real.max() >= 0:
            return np.inf
        P = scipy.linalg.solve_continuous_lyapunov(F.T, -W)
    else:
        if abs(np.linalg.eigvals(F)).max() >= 1:
            return np.inf
        P = scipy.linalg.solve_discrete_lyapunov(F.T, W)
    return float(np.trace(P @ system.initial_covariance))


@pytest.mark.parametrize("n", [1, 2, 4, 8, 12])
@pytest.mark.parametrize("continuous", [True, False])
def test_riccati_residual_and_scipy(n, continuous):
    A, B, Q, R = random_problem(n, n, max(1, n // 2))
    K, solved = riccati_gain(A, B, Q, R, continuous=continuous)
    assert solved.all()
    for i in range(len(A)):
        if continuous:
            P = scipy.linalg.solve_continuous_are(A[i], B[i], Q[i], R[i])
            expected = np.linalg.solve(R[i], B[i].T @ P)
            # P of the gain must satisfy the Riccati equation itself.
            F, W = A[i] - B[i] @ K[i], Q[i] + K[i].T @ R[i] @ K[i]
            own = scipy.linalg.solve_continuous_lyapunov(F.T, -W)
            BP = B[i].T @ own
            residual = A[i].T @ own + own @ A[i] - BP.T @ np.linalg.solve(R[i], BP)
            residual += Q[i]
            assert abs(residual).max() <= 1e-8 * abs(own).max()
        else:
            P = scipy.linalg.solve_discrete_are(A[i], B[i], Q[i], R[i])
            expected = np.linalg.solve(R[i] + B[i].T @ P @ B[i], B[i].T @ P @ A[i])
        np.testing.assert_allclose(
            K[i], expected, rtol=0, atol=1e-7 * abs(expected).max()
        )


@given(st.floats(-3, 3), st.floats(-4, 6), st.booleans())
def test_scalar_costs_have_a_closed_form(a, k, continuous):
    """(1 + k²) / 2(k − a) if k > a; in discrete time (1 + k²) / (1 − (a − k)²)."""
    system = scalar(time="continuous" if continuous else "discrete")
    J = system.performance(LinearGain(np.array([[[[k]]]])), np.array([[a]]))[0, 0, 0]
    room = 2 * (k - a) if continuous else 1 - (a - k) ** 2
    if room > 1e-5:
        assert J == pytest.approx(-(1 + k * k) / room, rel=1e-9)
    elif room < -1e-5:
        assert J == -np.inf


def test_no_stabilising_gain_is_a_value():
    # The unstable state cannot be reached by the input.
    A = np.array([[[1.0, 0.0], [0.0, -1.0]]])
    B = np.array([[[0.0], [1.0]]])
    gain, solved = riccati_gain(A, B, np.eye(2)[None], np.eye(1)[None], continuous=True)
    assert not solved[0]
    assert (gain == 0).all()


@pytest.mark.parametrize("time", ["continuous", "discrete"])
def test_general_cost_equals_scipy(time):
    system = four_states(time=time)
    rng = np.random.default_rng(1)
    best, _ = system.optimal_gain(np.array([[0.5, 1.0]]))
    gains = LinearGain(best + rng.normal(size=(3, 4, 2, 4)))
    contexts = np.column_stack([rng.uniform(0, 2, 11), rng.uniform(0.5, 3, 11)])
    J = system.performance(gains, contexts)
    unstable = 0
    for s, p, t in np.ndindex(J.shape):
        expected = -scipy_cost(system, gains.gain[s, p], contexts[t])
        unstable += expected == -np.inf
        np.testing.assert_allclose(J[s, p, t], expected, rtol=1e-9)
    assert 0 < unstable < J.size  # both kinds were seen


@given(st.integers(0, 2**32 - 1))
def test_fast_path_equals_general_path(seed):
    rng = np.random.default_rng(seed)
    system = MassSpringDamper()
    contexts = rng.uniform([0.0, 0.0, 0.2], [8, 8, 5], (9, 3))
    gains = LinearGain(rng.normal(0.5, 2.0, (3, 2, 1, 2)))
    fast = system.performance(gains, contexts)
    general = LinearSystem.performance(system, gains, contexts)
    a = gains.gain[..., 0, 0][..., None] + contexts[:, 0]
    b = gains.gain[..., 0, 1][..., None] + contexts[:, 1]
    clear = (abs(a) > 1e-3) & (abs(b) > 1e-3)  # not at the edge of stability
    np.testing.assert_array_equal(np.isinf(fast)[clear], np.isinf(general)[clear])
    clear &= np.isfinite(fast)
    np.testing.assert_allclose(fast[clear], general[clear], rtol=1e-9)
    index = tuple(np.argwhere(clear)[0]) if clear.any() else None
    if index:
        s, p, t = index
        expected = -scipy_cost(system, gains.gain[s, p], contexts[t])
        np.testing.assert_allclose(fast[index], expected, rtol=1e-9)


def test_fused_reduction_equals_plain_reduction_bit_for_bit():
    system = MassSpringDamper()
    rng = np.random.default_rng(5)
    sources = system.contexts(ts.Points(["k", "c"], rng.uniform(0.1, 8, (7, 2))))
    targets = system.contexts(ts.Grid(k=(0.1, 8.0, 23), c=(0.1, 8.0, 31)))
    gains = LinearGain(rng.normal(0.0, 3.0, (7, 5, 1, 2)))
    home = system.home_performance(gains, sources)
    assert np.isinf(home).any()  # some fail at home
    assert np.isfinite(home).any()
    fused = system.reduce_family(gains, home, targets)
    plain = reduce_family(system.performance(gains, targets), home)
    for name in REDUCED:
        np.testing.assert_array_equal(fused[name], plain[name], name)
        alone = system.reduce_family(gains, home, targets, (name,))
        assert list(alone) == [name]
        np.testing.assert_array_equal(alone[name], plain[name], name)


def test_optimal_gain_of_the_fast_path_solves_riccati():
    system = MassSpringDamper(
        position_weight=3.0, velocity_weight=0.5, input_weight=2.0
    )
    contexts = np.random.default_rng(0).uniform([0, 0, 0.2], [8, 8, 4], (50, 3))
    fast, _ = system.optimal_gain(contexts)
    general, _ = LinearSystem.optimal_gain(system, contexts)
    np.testing.assert_allclose(fast, general, rtol=1e-9)


@pytest.mark.parametrize(
    "system", [MassSpringDamper(), four_states()], ids=["msd", "4"]
)
@given(seed=st.integers(0, 2**32 - 1))
def test_optimal_gain_beats_any_other_at_its_own_context(system, seed):
    rng = np.random.default_rng(seed)
    low = [0.1 if axis.low == 0 else axis.low for axis in system.axes]
    contexts = rng.uniform(low, 4.0, (1, len(system.axes)))
    best, _ = system.optimal_gain(contexts)
    others = best + rng.normal(0, rng.uniform(0.01, 2), (20, *best.shape[1:]))
    J_best = system.performance(LinearGain(best[None]), contexts)[0, 0, 0]
    J = system.performance(LinearGain(others[None]), contexts)[0, :, 0]
    assert (J <= J_best + 1e-9 * abs(J_best)).all()
    assert system.optimum(contexts)[0] == J_best


def test_tiling_does_not_change_a_bit():
    system = four_states()
    rng = np.random.default_rng(0)
    gains = LinearGain(rng.normal(size=(5, 1, 2, 4)))
    contexts = rng.uniform([0, 0.5], [2, 3], (29, 2))
    whole = system.performance(gains, contexts)
    for tile in (1, 3, 8, 28):
        parts = [
            system.performance(gains, contexts[i : i + tile])
            for i in range(0, len(contexts), tile)
        ]
        np.testing.assert_array_equal(np.concatenate(parts, axis=2), whole)


def test_weights_may_depend_on_the_context():
    system = four_states(
        Q=lambda coupling, mass: np.diag([mass, 1.0, coupling, 1.0]),
        R=lambda coupling, mass: np.eye(2) * mass,
    )
    contexts = np.array([[0.5, 1.0], [0.5, 2.0]])
    gain = np.full((1, 1, 2, 4), 0.2)
    J = system.performance(LinearGain(gain), contexts)[0, 0]
    for t in range(2):
        assert -J[t] == pytest.approx(scipy_cost(system, gain[0, 0], contexts[t]))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"Q": np.array([[1.0, 2.0], [0.0, 1.0]])}, "Q must be symmetric"),
        ({"Q": -np.eye(4)}, "Q must be positive semidefinite"),
        ({"R": np.zeros((2, 2))}, "R must be positive definite"),
        ({"Q": np.eye(3)}, "Q must have shape (4, 4)"),
        ({"x0_covariance": np.eye(3)}, "x0_covariance must have shape"),
    ],
)
def test_bad_family_is_refused_at_construction(options, says):
    with pytest.raises(InvalidInputError) as error:
        four_states(**options)
    assert says in str(error.value)


def test_negative_mass_is_refused():
    with pytest.raises(InvalidInputError, match="0 < m must hold in msd-v1"):
        MassSpringDamper().contexts(ts.Grid(m=(-1.0, 1.0, 3)))


ONE = np.array([[0.0]])


def constant(A, B, Q, R, time="continuous") -> LinearFamily:
    return LinearFamily(
        context_axes=[ContextAxis("z", 0.0)],
        A=lambda z: A,
        B=lambda z: B,
        Q=Q,
        R=R,
        time=time,
    )


@pytest.mark.parametrize(
    ("time", "A", "gain", "best"),
    [("continuous", [[1.0]], 2.0, -2.0), ("discrete", [[2.0]], 1.5, -3.0)],
)
def test_a_plant_that_costs_nothing_is_still_stabilised(time, A, gain, best):
    # Q = 0: P = 0 solves the Riccati equation too, but does not stabilise.
    system = constant(A, [[1.0]], [[0.0]], [[1.0]], time)
    K, solved = system.optimal_gain(ONE)
    assert solved.all()
    assert K.item() == pytest.approx(gain, rel=1e-14)
    assert system.optimum(ONE)[0] == pytest.approx(best, rel=1e-14)
    trained = ts.trainers.Lqr(n_policies=1, noise=0.0).train(system, ONE, seed=0)
    assert trained.log["solved"].all()


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("time", "A"),
    [("continuous", [[0.0, 1.0], [0.0, 0.0]]), ("discrete", [[1.0, 1.0], [0.0, 1.0]])],
)
def test_an_optimum_that_no_gain_attains_is_not_claimed(time, A, turned):
    # The position costs nothing: slower and slower returns cost less and less.
    c, s = np.cos(0.7), np.sin(0.7)
    T = np.array([[c, -s], [s, c]]) if turned else np.eye(2)
    Q = T @ np.diag([0.0, 1.0]) @ T.T
    system = constant(
        T @ np.array(A) @ T.T, T @ [[0.0], [1.0]], (Q + Q.T) / 2, [[1.0]], time
    )
    K, solved = system.optimal_gain(ONE)
    assert not solved.any()
    optimum = system.optimum(ONE)
    assert optimum is not None
    assert np.isnan(optimum).all()
    assert np.isfinite(system.performance(LinearGain(K), ONE)).all()
    own = [np.array([[5.0, 5.0]]) @ T.T]
    table = ts.evaluate_policies(system, own, ts.Grid(z=(0.0, 1.0, 2))).table
    assert table.attrs["best_known_kind"] == "best of the table"


def test_the_kind_of_the_reference_says_what_is_known():
    # Controlled where z > 0; an unstable mode out of reach at z = 0.
    def family(weight):
        return LinearFamily(
            context_axes=[ContextAxis("z", 1.0)],
            A=lambda z: [[1.0, 0.0], [0.0, 0.0]],
            B=lambda z: [[z, 0.0], [0.0, 1.0]],
            Q=lambda z: np.diag([1.0, weight(z)]),
            R=np.eye(2),
        )

    gain = [np.eye(2) * 4]
    known = ts.evaluate_policies(
        family(lambda z: 1.0), gain, ts.Grid(z=(0.0, 1.0, 2))
    ).table
    assert known.attrs["best_known_kind"] == "optimum"
    assert known["best_known"].values[0] == -np.inf
    # Where the second state costs nothing its integrator has no best gain.
    partly = family(lambda z: float(z > 0.6))
    table = ts.evaluate_policies(partly, gain, ts.Grid(z=(0.5, 1.0, 2))).table
    assert table.attrs["best_known_kind"] == "optimum where known"
    best = table["best_known"].values
    assert best[0] == table["performance"].values[0, 0, 0]
    assert best[1] == partly.optimum(np.array([[1.0]]))[0]
    assert (ts.loss(table, ts.Question("regret", epsilon=0.0)).values >= 0).all()


def test_a_gain_does_not_depend_on_its_neighbours():
    system = four_states()
    contexts = np.random.default_rng(0).uniform([0, 0.5], [2, 3], (20, 2))
    whole, _ = system.optimal_gain(contexts)
    for rows in (slice(0, 1), slice(3, 9), slice(19, 20)):
        part, _ = system.optimal_gain(contexts[rows])
        np.testing.assert_array_equal(part, whole[rows])


@pytest.mark.parametrize(
    "system", [MassSpringDamper(), four_states()], ids=["msd", "4"]
)
def test_gains_of_any_leading_dims(system):
    m, n = system.matrices(np.ones((1, len(system.axes)))).B.shape[:0:-1]
    K = np.random.default_rng(0).normal(0.5, 0.1, (3, 2, 2, m, n))
    contexts = np.ones((4, len(system.axes)))
    J = system.performance(LinearGain(K[0]), contexts)
    np.testing.assert_array_equal(system.performance(LinearGain(K), contexts)[:2], J)
    np.testing.assert_array_equal(
        system.performance(LinearGain(K[0, :, 0]), contexts), J[:, :1]
    )
    np.testing.assert_array_equal(
        system.performance(LinearGain(K[0, 0, 0]), contexts), J[:1, :1]
    )
    np.testing.assert_array_equal(
        system.home_performance(LinearGain(K[0, :, 0]), contexts[:2]), J[:, :1, 0]
    )
    for wrong in (K[..., :1], K[0, 0, 0, 0], np.array(1.0)):
        with pytest.raises(InvalidInputError, match="Gains must have shape"):
            system.performance(LinearGain(wrong), contexts)


def test_given_gains_are_plain_arrays():
    system, targets = four_states(), ts.Grid(coupling=(0.1, 2.0, 3))
    K = 0.1 * np.random.default_rng(0).normal(size=(2, 2, 4))
    J = system.performance(LinearGain(K[:, None]), system.contexts(targets))
    for form in (
        [K[0], K[1]],
        K,
        K.tolist(),
        LinearGain(K),
        [LinearGain(K[0]), LinearGain(K[1])],
    ):
        table = ts.evaluate_policies(system, form, targets).table
        np.testing.assert_array_equal(table["performance"].values, J)
    single = ts.evaluate_policies(system, K[0], targets).table
    np.testing.assert_array_equal(single["performance"].values, J[:1])
    with pytest.raises(InvalidInputError, match="Gains must"):
        ts.evaluate_policies(system, [K[0], K[1][:1]], targets)
