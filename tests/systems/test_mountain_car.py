"""The continuous mountain car against Gymnasium."""

import numpy as np
import pytest

from taskspace.policies import LinearGain
from taskspace.systems.mountain_car import MountainCar, MountainCarState
from taskspace.testing import never_alive, system_outcomes
from tests.systems.steps import one_step, random_contexts

gymnasium = pytest.importorskip("gymnasium")
SYSTEM = MountainCar()


def gymnasium_step(context, state, action):
    environment = gymnasium.make("MountainCarContinuous-v0").unwrapped
    environment.power, _, environment.max_speed, environment.goal_position = context
    environment.state = state
    _, reward, terminated, _, _ = environment.step(action)
    return (*environment.state, reward, terminated)


def test_one_step_equals_gymnasium(rng):
    n = 500
    contexts = random_contexts(rng, SYSTEM, n)
    contexts[:, 1] = 0.0025  # Gymnasium's constant
    contexts[:, 3] = rng.uniform(0.0, 0.6, n)
    states = np.column_stack([rng.uniform(-1.2, 0.6, n), rng.uniform(-0.14, 0.14, n)])
    actions = rng.normal(size=(n, 1))
    new, reward, over, _ = one_step(SYSTEM, MountainCarState, states, actions, contexts)
    expected = np.array(
        [gymnasium_step(*case) for case in zip(contexts, states, actions, strict=True)]
    )
    # Gymnasium keeps states in float32.
    np.testing.assert_allclose(new, expected[:, :2], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(reward, expected[:, 2], rtol=1e-12)
    np.testing.assert_array_equal(over, expected[:, 3])
    assert 0 < over.mean() < 1


def test_pushing_along_reaches_the_goal_and_a_steeper_hill_does_not_let_it():
    """Throttle in the direction of motion, 20·velocity: a known solution."""
    along = LinearGain(np.array([[[[0.0, -20.0]]]]))
    contexts = np.array([[axis.default for axis in SYSTEM.axes]] * 2)
    contexts[1, 1] = 0.02
    found = MountainCar(n_episodes=8).performance(along, contexts)[0, 0]
    assert found[0] > 90 > 0 > found[1]


def test_every_axis_is_alive():
    # A limit and a goal matter only where they are reached: they are moved far.
    assert never_alive(system_outcomes(SYSTEM), SYSTEM.axes) == []
