"""CartPole's physics against Gymnasium, and the check for dead axes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taskspace.errors import InvalidInputError
from taskspace.spaces import Grid
from taskspace.systems.cartpole import CartPole, CartPoleState
from taskspace.testing import (
    system_checks,
)

gymnasium = pytest.importorskip("gymnasium")

SYSTEM = CartPole()
LOW = np.array([0.25, 0.5, 0.05, 5.0, 5.0, 0.01])
HIGH = np.array([5.0, 10.0, 1.0, 15.0, 20.0, 0.04])


def independent_environment(context):
    """Gymnasium's environment with every field set by hand, derived ones too."""
    environment = gymnasium.make("CartPole-v1").unwrapped
    length, cart, pole, gravity, force, tau = (float(v) for v in context)
    environment.length, environment.gravity, environment.tau = length, gravity, tau
    environment.masscart, environment.masspole = cart, pole
    environment.force_mag = force
    environment.total_mass = cart + pole
    environment.polemass_length = pole * length
    return environment


def random_cases(seed, n):
    rng = np.random.default_rng(seed)
    contexts = rng.uniform(LOW, HIGH, (n, 6))
    states = rng.uniform(-1, 1, (n, 4)) * [3.0, 3.0, 0.3, 3.0]
    return contexts, states, rng.integers(2, size=n)


def gymnasium_steps(contexts, states, actions):
    environment = independent_environment(contexts[0])
    rows = []
    for context, state, action in zip(contexts, states, actions, strict=True):
        fields = ("length", "masscart", "masspole", "gravity", "force_mag", "tau")
        for name, value in zip(fields, context.tolist(), strict=True):
            setattr(environment, name, value)
        environment.total_mass = environment.masspole + environment.masscart
        environment.polemass_length = environment.masspole * environment.length
        environment.state = state
        environment.steps_beyond_terminated = None
        _, reward, terminated, _, _ = environment.step(int(action))
        rows.append((*environment.state, reward, terminated))
    return np.array(rows, float)


def test_one_step_equals_gymnasium():
    contexts, states, actions = random_cases(0, 4000)
    expected = gymnasium_steps(contexts, states, actions)
    assert 0.1 < expected[:, 5].mean() < 0.9  # both outcomes are well represented
    with jax.enable_x64(True):
        step = jax.jit(jax.vmap(SYSTEM.step, (0, 0, 0, None)))
        state = CartPoleState(*jnp.asarray(states.T))
        given = jnp.asarray(actions), jnp.asarray(contexts), jax.random.key(0)
        new, reward, terminated = step(state, *given)
        found = np.stack([*new, reward, terminated], axis=1)
    # Only the order of a few products differs.
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_environment_follows_the_context():
    context = np.array([2.0, 7.0, 0.3, 9.0, 12.0, 0.03])
    made = SYSTEM.environment(context)
    other = independent_environment(context)
    made.reset(seed=3)
    other.reset(seed=3)
    for action in (0, 1, 1, 0, 1):
        np.testing.assert_array_equal(made.step(action)[0], other.step(action)[0])
    assert made.spec.max_episode_steps == 500


def test_start_is_uniform_and_the_same_in_every_context():
    keys = jax.random.split(jax.random.key(1), 4000)
    contexts = [jnp.asarray(LOW, jnp.float32), jnp.asarray(HIGH, jnp.float32)]
    one, two = (
        np.stack(jax.vmap(SYSTEM.reset, (0, None))(keys, context))
        for context in contexts
    )
    np.testing.assert_array_equal(one, two)
    assert np.abs(one).max() <= 0.05
    # Standard error of the mean is 0.05/sqrt(3·4000) = 0.00046.
    np.testing.assert_allclose(one.mean(1), 0, atol=0.002)
    np.testing.assert_allclose(one.std(1), 0.05 / np.sqrt(3), rtol=0.03)


def test_check_finds_a_planted_dead_axis_of_a_simulated_system():
    class Stale(CartPole):
        def step(self, state, action, context, key):
            return super().step(state, action, context.at[1].set(1.0), key)

    failed = [check for check in system_checks(Stale()) if check.ok is False]
    assert [check.check for check in failed] == ["axes alive"]
    assert "Moving cart_mass changes" in failed[0].detail


def test_contexts_outside_the_physics_are_refused():
    with pytest.raises(InvalidInputError, match="0 < cart_mass"):
        SYSTEM.contexts(Grid(cart_mass=(-1.0, 1.0, 3)))
    with pytest.raises(InvalidInputError, match="n_episodes >= 1"):
        CartPole(n_episodes=0)
