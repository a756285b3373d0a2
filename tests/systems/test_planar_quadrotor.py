"""The planar quadrotor: a mass matrix solved by NumPy, energy, and hovering."""

import numpy as np

from taskspace.systems.planar_quadrotor import PlanarQuadrotor, PlanarQuadrotorState
from taskspace.testing import dead_axes, system_outcomes
from tests.systems.steps import one_step, random_contexts

SYSTEM = PlanarQuadrotor()


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
    contexts = random_contexts(rng, SYSTEM, n)
    states = rng.uniform(-1, 1, (n, 8)) * [3, 3, 1.6, 3, 4, 4, 4, 6]
    actions = rng.normal(size=(n, 2))
    new, reward, over, seen = one_step(
        SYSTEM, PlanarQuadrotorState, states, actions, contexts
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
    context = np.array([axis.default for axis in SYSTEM.axes])
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
    context = np.array([[axis.default for axis in SYSTEM.axes]])
    context[0, 6] = 0.0
    M, m, _, _, most, _, _, g, _ = context[0]
    share = 2 * ((M + m) * g / 2) / most - 1
    new, reward, _, _ = one_step(
        SYSTEM, PlanarQuadrotorState, np.zeros((1, 8)), np.full((1, 2), share), context
    )
    np.testing.assert_allclose(new, 0, atol=1e-12)
    assert reward[0] == 1


def test_every_axis_is_alive():
    assert dead_axes(system_outcomes(SYSTEM), SYSTEM.axes) == []
