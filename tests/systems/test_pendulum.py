"""Pendulum's physics against Gymnasium."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taskspace.systems.pendulum import Pendulum, PendulumState

gymnasium = pytest.importorskip("gymnasium")

SYSTEM = Pendulum()
LOW = np.array([0.2, 0.3, 2.0, 0.01, 0.5])
HIGH = np.array([3.0, 2.0, 15.0, 0.08, 5.0])


def gymnasium_step(context, state, action):
    environment = gymnasium.make("Pendulum-v1").unwrapped
    environment.reset(seed=0)
    environment.m, environment.l, environment.g = context[:3]
    environment.dt, environment.max_torque = context[3:]
    environment.state = state
    observation, reward, terminated, _, _ = environment.step(action)
    return (*environment.state, reward, terminated, *observation)


def test_one_step_equals_gymnasium():
    rng = np.random.default_rng(0)
    n = 1000
    contexts = rng.uniform(LOW, HIGH, (n, 5))
    states = rng.uniform(-1, 1, (n, 2)) * [4 * np.pi, 8]
    actions = rng.normal(size=(n, 1)) * 3
    expected = np.array(
        [gymnasium_step(*case) for case in zip(contexts, states, actions, strict=True)]
    )
    with jax.enable_x64(True):
        state = PendulumState(*jnp.asarray(states.T))
        step = jax.vmap(SYSTEM.step, (0, 0, 0, None))
        new, reward, terminated = step(
            state, jnp.asarray(actions), jnp.asarray(contexts), jax.random.key(0)
        )
        seen = jax.vmap(SYSTEM.observe)(new, jnp.asarray(contexts))
        found = np.column_stack([*new, reward, terminated])
    np.testing.assert_allclose(found, expected[:, :4], rtol=1e-12, atol=1e-12)
    # Gymnasium rounds observations to float32.
    np.testing.assert_allclose(seen, expected[:, 4:], rtol=1e-6, atol=1e-6)


def test_start_covers_the_circle():
    keys = jax.random.split(jax.random.key(0), 2000)
    row = jnp.asarray([axis.default for axis in SYSTEM.axes])
    theta, theta_dot = jax.vmap(SYSTEM.reset, (0, None))(keys, row)
    assert 3.1 < np.abs(theta).max() <= np.pi
    assert 0.99 < np.abs(theta_dot).max() <= 1
    assert abs(float(theta.mean())) < 4 * np.pi / np.sqrt(3 * 2000)
