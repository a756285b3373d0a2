"""Controllers with states: closed loops, transfer functions, costs, refusals."""

from typing import Any

import control
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import taskspace as ts
from taskspace.errors import InvalidInputError
from taskspace.policies import POLICY_KINDS, LinearController, LinearGain
from taskspace.systems import ContextAxis, LinearFamily, Pi, Pid
from taskspace.systems.linear.controllers import unheard_states, without_unheard
from taskspace.systems.linear.tracing.loops import loop_trace
from taskspace.systems.linear.tracing.traced import trace_matrices


def plant(time="continuous", **options) -> LinearFamily:
    scale = 1.0 if time == "continuous" else 0.1
    base = 0.0 if time == "continuous" else 1.0
    return LinearFamily(
        [ContextAxis("k", 1.0, low=0.0)],
        A=lambda k: [
            [base, scale, 0],
            [-scale * k, base - scale, scale],
            [0, 0, base - 2 * scale],
        ],
        B=lambda k: [[0, 0], [0, scale], [scale, 0]],
        Q=np.diag([2.0, 1.0, 0.0]),
        R=np.diag([1.0, 0.5]),
        **{"C": lambda k: [[1 + 0.3 * k, 0, 0], [0, 1, 0]], "time": time, **options},
    )


def random_controllers(rng, n_states, time: Any = "continuous", n=4):
    shrink = 0.3 if time == "discrete" else 1.0
    A = shrink * rng.normal(size=(n, n_states, n_states))
    if time == "continuous":
        A = A - 2 * np.eye(n_states)
    return LinearController(
        A,
        shrink * rng.normal(size=(n, n_states, 2)),
        shrink * rng.normal(size=(n, 2, n_states)),
        shrink * rng.normal(size=(n, 2, 2)),
        time=time,
    )


def closed_loop(system, controller, context):
    """The loop by python-control's own feedback, and the gain that gives u."""
    A, B, Q, R = (x[0] for x in system.matrices(context[None]))
    C = system.output_matrix(context[None])[0]
    dt = 0 if system.is_continuous else 1
    one = control.ss(A, B, C, 0, dt)
    other = control.ss(controller.A, controller.B, controller.C, controller.D, dt)
    loop: Any = control.feedback(one, other)  # negative feedback of `other`
    gain = np.hstack([controller.D @ C, controller.C])
    weight = scipy.linalg.block_diag(Q, np.zeros_like(controller.A))
    return loop, weight + gain.T @ R @ gain


def scipy_cost(system, controller, context) -> float:
    loop, weight = closed_loop(system, controller, context)
    roots = np.linalg.eigvals(loop.A)
    if system.is_continuous:
        if roots.real.max() >= 0:
            return np.inf
        P = scipy.linalg.solve_continuous_lyapunov(loop.A.T, -weight)
    else:
        if abs(roots).max() >= 1:
            return np.inf
        P = scipy.linalg.solve_discrete_lyapunov(loop.A.T, weight)
    n = len(system.initial_covariance)
    return float(np.trace(P[:n, :n] @ system.initial_covariance))


@pytest.mark.parametrize("time", ["continuous", "discrete"])
@pytest.mark.parametrize("n_states", [0, 1, 3])
def test_costs_are_those_of_the_loop_of_python_control(time, n_states):
    rng = np.random.default_rng(n_states)
    system = plant(time, x0_covariance=np.diag([1.0, 2.0, 0.5]))
    controllers = random_controllers(rng, n_states, time, n=8)
    contexts = np.array([[0.2], [1.0], [3.0]])
    costs = -system.performance(controllers, contexts)[:, 0]
    expected = np.array(
        [[scipy_cost(system, controllers[i], c) for c in contexts] for i in range(8)]
    )
    assert np.isfinite(expected).sum() >= 6
    assert (np.isinf(costs) == np.isinf(expected)).all()
    finite = np.isfinite(expected)
    np.testing.assert_allclose(costs[finite], expected[finite], rtol=1e-9)
    # The trace of the closed loop gives the same matrices.
    trace = loop_trace(trace_matrices(system), controllers[0])
    (A, _, Q, _, _), _ = trace.at(contexts)
    for i, context in enumerate(contexts):
        loop, weight = closed_loop(system, controllers[0], context)
        order = np.argsort(np.linalg.eigvals(loop.A))
        mine = np.linalg.eigvals(A[i])
        np.testing.assert_allclose(
            mine[np.argsort(mine)], np.linalg.eigvals(loop.A)[order], atol=1e-9
        )
        np.testing.assert_allclose(Q[i], weight, atol=1e-12)


def test_a_full_state_gain_is_the_case_without_states():
    system = ts.systems.MassSpringDamper()
    contexts = system.contexts(ts.Grid(k=(0.5, 2.0, 3), c=(0.5, 2.0, 3)))
    gains, _ = system.optimal_gain(contexts)
    static = LinearController(
        np.zeros((9, 0, 0)), np.zeros((9, 0, 2)), np.zeros((9, 1, 0)), gains
    )
    one = system.performance(static, contexts)
    other = system.performance(LinearGain(gains[:, None]), contexts)
    np.testing.assert_allclose(one, other, rtol=1e-12)


@given(
    kp=st.floats(-3, 3),
    ki=st.floats(-3, 3),
    kd=st.floats(-3, 3),
    tau=st.floats(0.01, 2.0),
    b=st.floats(0, 1),
    w=st.floats(0.01, 100),
)
@settings(max_examples=50, deadline=None)
def test_pid_is_its_transfer_function(kp, ki, kd, tau, b, w):
    s = 1j * w
    pid = Pid(kp, ki, kd, filter_time=tau, setpoint_weight=b)
    inverse = np.linalg.inv(s * np.eye(2) - pid.A)
    from_y = (pid.C @ inverse @ pid.B + pid.D).item()
    from_r = (pid.C @ inverse @ pid.B_r + pid.D_r).item()
    assert from_y == pytest.approx(kp + ki / s + kd * s / (1 + tau * s), abs=1e-9)
    assert from_r == pytest.approx(-(b * kp + ki / s), abs=1e-9)
    pi = Pi(kp, ki, setpoint_weight=b)
    assert (pi.C @ pi.B / s + pi.D).item() == pytest.approx(kp + ki / s, abs=1e-9)
    assert pid.parameters.tolist() == [kp, ki, kd, tau]


def test_sampled_is_tustin_of_python_control():
    pid = Pid(2.0, 0.5, 0.1, filter_time=0.05)
    mine = pid.sampled(0.02)
    for B, D, B_d, D_d in (
        (pid.B, pid.D, mine.B, mine.D),
        (pid.B_r, pid.D_r, mine.B_r, mine.D_r),
    ):
        whole: Any = control.ss(pid.A, B, pid.C, D)
        other = whole.sample(0.02, "tustin")
        own = control.ss(mine.A, B_d, mine.C, D_d, 0.02)
        for w in (0.1, 1.0, 50.0):
            z = np.exp(1j * w * 0.02)
            assert own(z) == pytest.approx(other(z), rel=1e-9)
    with pytest.raises(InvalidInputError, match="continuous"):
        mine.sampled(0.1)


def test_studies_take_controllers():
    family = LinearFamily(
        [ContextAxis("k", 1.0)],
        A=lambda k: [[0, 1], [-k, -1]],
        B=lambda k: [[0], [1]],
        Q=np.eye(2),
        R=[[1.0]],
        C=[[1.0, 0.0]],
        output_names=["angle"],
    )
    space = ts.Grid(k=(0.5, 2.0, 5))
    stack = Pi([0.5, 1.0], [0.2, 0.3])
    study = ts.evaluate_policies(family, stack, space)
    assert family.outputs == ("angle",)
    single = [Pi(0.5, 0.2), Pi(1.0, 0.3)]
    again = ts.evaluate_policies(family, single, space)
    assert (study.table["performance"] == again.table["performance"]).all()
    arrays, words = stack.arrays(), stack.settings()
    back: Any = POLICY_KINDS["linear-controller"].from_arrays(arrays, words)
    assert back.names == ("kp", "ki")
    u, rate = stack[1].step(np.array([2.0]), np.array([0.5]), np.array([1.0]))
    assert u.tolist() == [-(0.3 * 2 + 1.0 * 0.5 - 1.0)]
    assert rate.tolist() == [-0.5]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda s: s.performance(Pi(1.0, 1.0), np.ones((1, 1))), "D of shape"),
        (lambda s: LinearController(np.eye(2), np.eye(2), np.eye(2), [[1.0]]), "shape"),
        (lambda s: Pid(1.0, 1.0, 1.0, filter_time=0.0), "filter_time > 0"),
        (lambda s: Pi(1.0, np.nan), "finite"),
        (lambda s: Pi(1.0, 1.0).act(np.ones(1)), "step"),
        (lambda s: plant(C=[[1.0, 0.0]]), "C must have shape"),
        (
            lambda s: plant("discrete").performance(
                random_controllers(np.random.default_rng(0), 1), np.ones((1, 1))
            ),
            "sampled",
        ),
    ],
    ids=["outputs", "shapes", "filter", "finite", "act", "C", "time"],
)
def test_refusals(make, words):
    with pytest.raises((InvalidInputError, TypeError), match=words):
        make(plant())


@pytest.mark.parametrize("time", ["continuous", "discrete"])
def test_a_state_that_does_not_reach_the_output_does_not_count(time):
    """PI with ki = 0 is proportional feedback, in cost, measures and proofs."""
    sample = (lambda c: c) if time == "continuous" else (lambda c: c.sampled(0.05))
    family = LinearFamily(
        [ContextAxis("k", 1.0)],
        A=lambda k: (
            [[0, 1], [-k, -1.0]]
            if time == "continuous"
            else [[1, 0.05], [-0.05 * k, 0.95]]
        ),
        B=lambda k: [[0], [1.0 if time == "continuous" else 0.05]],
        Q=np.eye(2),
        R=[[1.0]],
        C=[[1.0, 0.0]],
        time=time,
    )
    contexts = np.array([[0.5], [1.0], [1.5]])
    static = np.array([[[[0.7, 0.0]]]])
    mixed = sample(Pi(kp=[0.7, 0.7], ki=[0.0, 0.3]))
    J = family.performance(mixed, contexts)[:, 0]
    np.testing.assert_allclose(
        J[0], family.performance(LinearGain(static), contexts)[0, 0], rtol=1e-12
    )
    assert (J[1] != J[0]).all()
    assert np.isfinite(J).all()
    for measure in ("decay_rate", "hinf", "disk_margin", "sensitivity"):
        one = family.scores(measure, mixed, contexts)[0, 0]
        other = family.scores(measure, LinearGain(static), contexts)[0, 0]
        np.testing.assert_allclose(one, other, rtol=1e-6)
    # Over a box, too.
    space = ts.Grid(k=(0.5, 1.5, 3))
    rate = float(family.scores("decay_rate", mixed, contexts)[0].min())
    for question in (
        ts.Question("floor", epsilon=float(-J[0].min()) * 1.01),
        ts.Question("floor", measure="decay_rate", epsilon=-0.9 * rate),
    ):
        study = ts.evaluate_policies(family, sample(Pi(kp=[0.7], ki=[0.0])), space)
        proofs = ts.certify(study, question, time_limit=10)
        assert proofs["grid cover"].holds
        assert proofs["continuum cover"].holds


def test_a_marginal_state_that_reaches_the_output_counts():
    """An integral behind a filter: its C is zero, but it feeds a state that acts."""
    A, B = np.array([[0.0, 0.0], [1.0, -1.0]]), np.array([[1.0], [0.0]])
    chain = LinearController(A, B, np.array([[0.0, 0.2]]), np.array([[0.5]]))
    assert not unheard_states(chain).any()
    behind = LinearController(A, B, np.array([[0.2, 0.0]]), np.array([[0.5]]))
    assert unheard_states(behind).tolist() == [False, True]
    assert without_unheard(behind).A.tolist() == [[0.0]]
