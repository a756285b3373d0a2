"""Acrobot against Gymnasium, and its end for links of any length."""

import numpy as np
import pytest

from taskspace.systems.acrobot import Acrobot, AcrobotState
from taskspace.testing import dead_axes, system_outcomes
from tests.systems.steps import one_step, random_contexts

gymnasium = pytest.importorskip("gymnasium")
SYSTEM = Acrobot()


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
def test_one_step_equals_gymnasium(rng, varies):
    n = 300
    contexts = (
        random_contexts(rng, SYSTEM, n)
        if varies
        else random_contexts(rng, SYSTEM, n, 1.0, 1.0)
    )
    contexts[:, 5] = 9.8  # Gymnasium's constant
    states = rng.uniform(-1, 1, (n, 4)) * [np.pi, np.pi, 10, 20]
    actions = rng.integers(3, size=n)
    expected = np.array(
        [gymnasium_step(*case) for case in zip(contexts, states, actions, strict=True)]
    )
    new, reward, over, seen = one_step(SYSTEM, AcrobotState, states, actions, contexts)
    # Angles are equal on the circle.
    np.testing.assert_allclose(np.cos(new[:, :2] - expected[:, :2]), 1, atol=1e-9)
    np.testing.assert_allclose(new[:, 2:], expected[:, 2:4], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(seen, expected[:, 6:], rtol=1e-5, atol=1e-5)
    if not varies:
        np.testing.assert_array_equal(reward, expected[:, 4])
        np.testing.assert_array_equal(over, expected[:, 5])
        assert 0 < over.mean() < 1


def test_gravity_and_the_end_of_other_lengths():
    """Upright links end a task at any length, hanging ones at none."""
    context = np.array([[axis.default for axis in SYSTEM.axes]] * 3)
    context[:, :2] = [[0.3, 2.0], [2.0, 0.3], [2.0, 0.3]]
    context[:, 7] = 1e-6
    states = np.array([[np.pi, 0.0, 0, 0], [np.pi, 0.0, 0, 0], [np.pi / 2, 0.0, 0, 0]])
    _, _, over, _ = one_step(SYSTEM, AcrobotState, states, np.ones(3, int), context)
    assert over.tolist() == [True, True, False]
    # Two hanging links without inertia of their own, at rest and slightly moved: the
    # first acceleration is that of the linear equations.
    row = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 3.0, 1.0, 1e-5])
    state = np.array([[0.01, -0.02, 0.0, 0.0]])
    new, *_ = one_step(SYSTEM, AcrobotState, state, np.array([1]), row[None])
    mass = [[1 * 0.25 + 1 * (1 + 0.25 + 1) + 2, 0.25 + 0.5 + 1], [1.75, 1.25]]
    pull = [-(1.5 * 3 * np.sin(0.01) + 1.5 * np.sin(-0.01)), -1.5 * np.sin(-0.01)]
    expected = np.linalg.solve(mass, pull)
    np.testing.assert_allclose(new[0, 2:] / 1e-5, expected, rtol=1e-3)


def test_every_axis_is_alive():
    assert dead_axes(system_outcomes(SYSTEM), SYSTEM.axes) == []
