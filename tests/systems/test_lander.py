"""The lander: Newton's law with rotated forces, free fall, and what a landing pays."""

import numpy as np

from taskspace.systems.lander import Lander, LanderState
from taskspace.testing import dead_axes, system_outcomes
from tests.systems.steps import one_step, random_contexts

SYSTEM = Lander()


def plain_step(context, state, action):
    """Forces in the body's frame, turned by a rotation matrix."""
    mass, inertia, arm, thrust, drag, wind, g, h = context
    main, side = (np.clip(action[0], -1, 1) + 1) / 2, np.clip(action[1], -1, 1)
    tilt = state[2]
    turn = np.array([[np.cos(tilt), -np.sin(tilt)], [np.sin(tilt), np.cos(tilt)]])
    force = turn @ np.array([-0.1 * side * thrust, main * thrust])
    force += drag * (np.array([wind, 0.0]) - state[3:5]) - [0.0, mass * g]
    rates = state[3:] + h * np.append(force / mass, 0.1 * side * thrust * arm / inertia)
    return np.concatenate([state[:3] + h * rates, rates])


def test_one_step_equals_newtons_law(rng):
    n = 300
    contexts = random_contexts(rng, SYSTEM, n)
    contexts[:, 5] = rng.uniform(-5, 5, n)
    states = rng.uniform(-1, 1, (n, 6)) * [6, 1, 1.6, 2, 2, 2] + [0, 0.5, 0, 0, 0, 0]
    actions = rng.normal(size=(n, 2))
    new, reward, over, seen = one_step(SYSTEM, LanderState, states, actions, contexts)
    expected = np.array(
        [plain_step(*case) for case in zip(contexts, states, actions, strict=True)]
    )
    np.testing.assert_allclose(new, expected, rtol=1e-9, atol=1e-9)
    x, z, tilt, vx, vz, _ = expected.T
    fuel = 0.05 * (np.clip(actions[:, 0], -1, 1) + 1) / 2
    worth = np.where(z <= 0, 100 / (1 + x**2 + vx**2 + vz**2 + 16 * tilt**2), 0)
    np.testing.assert_allclose(reward, worth - fuel, rtol=1e-9, atol=1e-12)
    lost = (np.abs(x) > 6) | (z > 12) | (np.abs(tilt) > np.pi / 2)
    np.testing.assert_array_equal(over, (z <= 0) | lost)
    assert 0 < (z <= 0).mean() < 1
    np.testing.assert_allclose(
        np.arctan2(seen[:, 2], seen[:, 3]), np.angle(np.exp(1j * tilt)), atol=1e-9
    )


def test_a_perfect_touch_down_and_a_fall():
    context = np.array([[axis.default for axis in SYSTEM.axes]] * 2)
    context[:, 7] = 1e-9
    states = np.array([[0.0, 0, 0, 0, 0, 0], [0.0, 0, 0, 0, -3, 0]])
    states[:, 1] = -1e-12
    actions = np.full((2, 2), [-1.0, 0.0])
    _, reward, over, _ = one_step(SYSTEM, LanderState, states, actions, context)
    assert over.all()
    np.testing.assert_allclose(reward, [100.0, 10.0], rtol=1e-6)
    low, high = SYSTEM.return_bounds(context)[0]
    assert low < -0.05 * SYSTEM.horizon
    assert high == 100.0


def test_every_axis_is_alive():
    assert dead_axes(system_outcomes(SYSTEM), SYSTEM.axes) == []
