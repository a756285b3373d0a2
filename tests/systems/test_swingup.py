"""Swing-up: Lagrange's equations solved as a linear system, and energy."""

import numpy as np

from taskspace.systems.cartpole import CartPoleState
from taskspace.systems.swingup import SwingUp
from taskspace.testing import dead_axes, system_outcomes
from tests.systems.steps import one_step, random_contexts

SYSTEM = SwingUp()


def plain_step(context, state, action):
    """M(q) q̈ = forces of the uniform rod on a cart, by numpy.linalg."""
    half, M, m, g, force, cart, joint, h = context
    x, v, theta, w = state
    sin, cos = np.sin(theta), np.cos(theta)
    matrix = [[M + m, m * half * cos], [m * half * cos, 4 / 3 * m * half**2]]
    push = force * np.clip(action, -1, 1) - cart * v
    right = [push + m * half * w**2 * sin, m * g * half * sin - joint * w]
    a, b = np.linalg.solve(matrix, right)
    v, w = v + h * a, w + h * b
    return x + h * v, v, theta + h * w, w


def test_one_step_equals_lagranges_equations(rng):
    n = 300
    contexts = random_contexts(rng, SYSTEM, n)
    states = rng.uniform(-1, 1, (n, 4)) * [2.4, 5, 2 * np.pi, 10]
    actions = rng.normal(size=(n, 1)) * 1.5
    new, reward, over, seen = one_step(SYSTEM, CartPoleState, states, actions, contexts)
    expected = np.array(
        [
            plain_step(*case)
            for case in zip(contexts, states, actions[:, 0], strict=True)
        ]
    )
    np.testing.assert_allclose(new, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(reward, np.cos(expected[:, 2] / 2) ** 2, atol=1e-12)
    np.testing.assert_array_equal(over, np.abs(expected[:, 0]) > 2.4)
    np.testing.assert_allclose(
        np.arctan2(seen[:, 3], seen[:, 2]) % (2 * np.pi),
        expected[:, 2] % (2 * np.pi),
        atol=1e-9,
    )


def test_energy_is_kept_without_friction_and_lost_with_it(rng):
    """Of short steps: the integrator is of first order and does not drift."""
    names = [axis.name for axis in SYSTEM.axes]
    changes = []
    for friction in (0.0, 0.2):
        context = np.array([axis.default for axis in SYSTEM.axes])
        context[names.index("time_step")] = 2e-4
        context[names.index("cart_friction")] = friction
        context[names.index("joint_friction")] = friction / 10
        state = np.array([0.0, 0.3, 2.0, 1.0])
        energies = [energy(context, state)]
        for _ in range(3000):
            state = np.array(plain_step(context, state, 0.0))
        energies.append(energy(context, state))
        changes.append(energies[1] - energies[0])
    assert abs(changes[0]) < 1e-3 < -changes[1]


def energy(context, state):
    half, M, m, g = context[:4]
    _, v, theta, w = state
    kinetic = (M + m) * v**2 / 2 + 2 / 3 * m * (half * w) ** 2
    kinetic += m * half * v * w * np.cos(theta)
    return kinetic + m * g * half * np.cos(theta)


def test_every_axis_is_alive():
    assert dead_axes(system_outcomes(SYSTEM), SYSTEM.axes) == []
