"""Environments of the benchmarks, one step at a time.

Acrobot and late pushes against Gymnasium, the quadrotor against Lagrange's equations.
"""

import importlib.util
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taskspace.systems.cartpole import CartPole
from taskspace.testing import system_checks
from tests.systems.steps import one_step, random_contexts

gymnasium = pytest.importorskip("gymnasium")
FILE = Path(__file__).parents[1] / "benchmarks" / "environments.py"
SPEC = importlib.util.spec_from_file_location("benchmark_environments", FILE)
assert SPEC is not None
assert SPEC.loader is not None
environments = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(environments)
ACROBOT, DELAYED = environments.Acrobot(), environments.DelayedCartPole()
QUADROTOR = environments.PlanarQuadrotor()


@pytest.mark.slow
@pytest.mark.parametrize("system", [ACROBOT, DELAYED, QUADROTOR], ids=lambda s: s.id)
def test_every_axis_is_alive(system):
    checks = {check.check: check for check in system_checks(system)}
    assert checks["axes alive"].ok, checks["axes alive"].detail


def gymnasium_step(context, state, action):
    environment = gymnasium.make("Acrobot-v1").unwrapped
    l1, l2, m1, m2, inertia, _, torque, h = context
    environment.LINK_LENGTH_1, environment.LINK_LENGTH_2 = l1, l2
    environment.LINK_COM_POS_1, environment.LINK_COM_POS_2 = l1 / 2, l2 / 2
    environment.LINK_MASS_1, environment.LINK_MASS_2 = m1, m2
    environment.LINK_MOI, environment.dt = inertia, h
    environment.AVAIL_TORQUE = [-torque, 0.0, torque]
    environment.state = state
    observation, reward, terminated, _, _ = environment.step(action)
    return (*environment.state, reward, terminated, *observation)


@pytest.mark.parametrize("varies", [False, True], ids=["default", "contexts"])
def test_acrobot_equals_gymnasium(rng, varies):
    n = 300
    contexts = (
        random_contexts(rng, ACROBOT, n)
        if varies
        else random_contexts(rng, ACROBOT, n, 1.0, 1.0)
    )
    contexts[:, 5] = 9.8  # Gymnasium's constant
    states = rng.uniform(-1, 1, (n, 4)) * [np.pi, np.pi, 10, 20]
    actions = rng.integers(3, size=n)
    expected = np.array(
        [gymnasium_step(*case) for case in zip(contexts, states, actions, strict=True)]
    )
    new, reward, over, seen = one_step(
        ACROBOT, environments.AcrobotState, states, actions, contexts
    )
    # Angles are equal on the circle.
    np.testing.assert_allclose(np.cos(new[:, :2] - expected[:, :2]), 1, atol=1e-9)
    np.testing.assert_allclose(new[:, 2:], expected[:, 2:4], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(seen, expected[:, 6:], rtol=1e-5, atol=1e-5)
    if not varies:
        np.testing.assert_array_equal(reward, expected[:, 4])
        np.testing.assert_array_equal(over, expected[:, 5])
        assert 0 < over.mean() < 1


def test_acrobots_gravity_and_the_end_of_other_lengths():
    """Upright links end a task at any length, hanging ones at none."""
    context = np.array([[axis.default for axis in ACROBOT.axes]] * 3)
    context[:, :2] = [[0.3, 2.0], [2.0, 0.3], [2.0, 0.3]]
    context[:, 7] = 1e-6
    states = np.array([[np.pi, 0.0, 0, 0], [np.pi, 0.0, 0, 0], [np.pi / 2, 0.0, 0, 0]])
    _, _, over, _ = one_step(
        ACROBOT, environments.AcrobotState, states, np.ones(3, int), context
    )
    assert over.tolist() == [True, True, False]
    # Two hanging links without inertia of their own, at rest and slightly moved: the
    # first acceleration is that of the linear equations.
    row = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 3.0, 1.0, 1e-5])
    state = np.array([[0.01, -0.02, 0.0, 0.0]])
    new, *_ = one_step(
        ACROBOT, environments.AcrobotState, state, np.array([1]), row[None]
    )
    mass = [[1 * 0.25 + 1 * (1 + 0.25 + 1) + 2, 0.25 + 0.5 + 1], [1.75, 1.25]]
    pull = [-(1.5 * 3 * np.sin(0.01) + 1.5 * np.sin(-0.01)), -1.5 * np.sin(-0.01)]
    expected = np.linalg.solve(mass, pull)
    np.testing.assert_allclose(new[0, 2:] / 1e-5, expected, rtol=1e-3)


def play(system, context, actions, key):
    """States of cart and pole after each step, and whether the pole fell."""
    with jax.enable_x64(True):
        row, step = jnp.asarray(context), jax.jit(system.step)
        state, seen = system.reset(key, row), []
        seen.append(np.append(system.observe(state, row), False))
        for action in actions:
            state, _, fell = step(state, jnp.asarray(action), row, key)
            seen.append(np.append(system.observe(state, row), fell))
        return np.array(seen)


@pytest.mark.parametrize("delay", [0.0, 2.0, 3.25])
def test_steps_equal_gymnasium_with_the_force_of_earlier_actions(rng, delay):
    context = np.array([0.4, 1.3, 0.2, 9.8, 7.0, 0.02, delay])
    actions = rng.integers(2, size=12)
    seen = play(DELAYED, context, actions, jax.random.key(3))
    environment = gymnasium.make("CartPole-v1").unwrapped
    environment.reset(seed=0)
    environment.length, environment.masscart, environment.masspole = 0.4, 1.3, 0.2
    environment.total_mass, environment.polemass_length = 1.5, 0.08
    environment.state = seen[0, :4]
    environment.steps_beyond_terminated = None
    signs, whole = 2.0 * actions - 1, int(delay)
    for place in range(len(actions)):
        early, late = (
            signs[place - d] if place >= d else 0.0 for d in (whole, whole + 1)
        )
        share = delay - whole
        environment.force_mag = 7.0 * ((1 - share) * early + share * late)
        environment.step(1)
        np.testing.assert_allclose(seen[place + 1, :4], environment.state, rtol=1e-9)


def test_without_delay_it_is_cartpole(rng):
    row = np.array([axis.default for axis in CartPole().axes])
    actions = rng.integers(2, size=30)
    late = play(DELAYED, np.append(row, 0.0), actions, jax.random.key(0))
    np.testing.assert_array_equal(
        late, play(CartPole(), row, actions, jax.random.key(0))
    )


def accelerations(context, state, thrust):
    """Lagrange's equations of quadrotor and payload, in (x, z, tilt, swing)."""
    M, m, L, arm, _, drag, wind, g, _ = context
    _, _, tilt, phi, vx, vz, _, w = state
    sin, cos = np.sin(phi), np.cos(phi)
    matrix = np.zeros((4, 4))
    matrix[0, 0] = matrix[1, 1] = M + m
    matrix[0, 3] = matrix[3, 0] = m * L * cos
    matrix[1, 3] = matrix[3, 1] = m * L * sin
    matrix[2, 2], matrix[3, 3] = M * arm**2 / 3, m * L**2
    total = thrust.sum()
    right = [
        -total * np.sin(tilt) + drag * (wind - vx) + m * L * w**2 * sin,
        total * np.cos(tilt) - drag * vz - (M + m) * g - m * L * w**2 * cos,
        (thrust[1] - thrust[0]) * arm,
        -m * L * g * sin,
    ]
    return np.linalg.solve(matrix, right)


def plain_step(context, state, action):
    thrust = (np.clip(action, -1, 1) + 1) / 2 * context[4]
    rates = state[4:] + context[8] * accelerations(context, state, thrust)
    return np.concatenate([state[:4] + context[8] * rates, rates])


def test_one_step_equals_lagranges_equations(rng):
    n = 300
    contexts = random_contexts(rng, QUADROTOR, n)
    states = rng.uniform(-1, 1, (n, 8)) * [3, 3, 1.6, 3, 4, 4, 4, 6]
    actions = rng.normal(size=(n, 2))
    new, reward, over, seen = one_step(
        QUADROTOR, environments.PlanarQuadrotorState, states, actions, contexts
    )
    expected = np.array(
        [plain_step(*case) for case in zip(contexts, states, actions, strict=True)]
    )
    np.testing.assert_allclose(new, expected, rtol=1e-9, atol=1e-9)
    x, z, tilt = expected[:, :3].T
    np.testing.assert_allclose(reward, 1 / (1 + x**2 + z**2), rtol=1e-12)
    outside = (np.abs(x) > 3) | (np.abs(z) > 3) | (np.abs(tilt) > np.pi / 2)
    np.testing.assert_array_equal(over, outside)
    assert 0 < over.mean() < 1
    np.testing.assert_allclose(seen[:, 2], np.sin(tilt), atol=1e-9)


def test_energy_of_a_falling_pair_is_kept():
    """No thrust, no air: what is lost in height is gained in speed."""
    context = np.array([axis.default for axis in QUADROTOR.axes])
    context[5], context[8] = 0.0, 1e-4
    M, m, L, arm, _, _, _, g, _ = context
    state = np.array([0.0, 0.0, 0.3, 0.8, 0.5, 0.1, 1.0, 2.0])

    def energy(state):
        _, z, _, phi, vx, vz, turn, w = state
        px, pz = vx + L * w * np.cos(phi), vz + L * w * np.sin(phi)
        motion = M * (vx**2 + vz**2) + m * (px**2 + pz**2) + M * arm**2 / 3 * turn**2
        return motion / 2 + M * g * z + m * g * (z - L * np.cos(phi))

    before = energy(state)
    for _ in range(5000):
        state = plain_step(context, state, np.array([-1.0, -1.0]))
    assert abs(energy(state) - before) < 2e-3 * M * g


def test_it_hovers_with_the_thrust_of_its_weight():
    context = np.array([[axis.default for axis in QUADROTOR.axes]])
    context[0, 6] = 0.0
    M, m, _, _, most, _, _, g, _ = context[0]
    share = 2 * ((M + m) * g / 2) / most - 1
    new, reward, _, _ = one_step(
        QUADROTOR,
        environments.PlanarQuadrotorState,
        np.zeros((1, 8)),
        np.full((1, 2), share),
        context,
    )
    np.testing.assert_allclose(new, 0, atol=1e-12)
    assert reward[0] == 1
