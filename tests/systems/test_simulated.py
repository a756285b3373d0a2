"""Playing policies: the queue of episodes against a plain loop."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taskspace.errors import InvalidInputError
from taskspace.policies import LinearGain, Mlp, TabularPolicy
from taskspace.spaces import Grid
from taskspace.systems.cartpole import CartPole
from taskspace.systems.pendulum import Pendulum
from taskspace.systems.rollouts import SLOTS, episode_keys
from tests.trainers.probes import Probe, random_mlp


def balancing(leading=(1, 1)):
    """A small network that balances: push where the pole leans."""
    gain = np.array([0.05, 0.1, 1.0, 0.3], np.float32)[:, None]
    weights = gain, np.array([[-1.0, 1.0]], np.float32)
    biases = np.zeros(1, np.float32), np.zeros(2, np.float32)
    return Mlp(
        tuple(np.broadcast_to(w, (*leading, *w.shape)) for w in weights),
        tuple(np.broadcast_to(b, (*leading, *b.shape)) for b in biases),
    )


def plain_returns(system, policy, context):
    """One episode after the other, in Python."""
    keys = episode_keys(
        jax.random.key(system.episode_seed), jnp.arange(system.n_episodes)
    )
    row = jnp.asarray(context, jnp.float32)
    step = jax.jit(system.step)
    observe = jax.jit(system.observe)
    totals = []
    for key in keys[:, 0]:
        state, total = system.reset(key, row), 0.0
        for _ in range(system.horizon):
            action = policy.act(np.asarray(observe(state, row)))
            state, reward, terminated = step(state, jnp.asarray(action), row, key)
            total += float(reward)
            if terminated:
                break
        totals.append(total)
    return np.array(totals)


def test_returns_equal_a_plain_loop(rng):
    system = CartPole(horizon=40, n_episodes=3)
    policies = random_mlp(rng, (2, 2), (4, 8, 2), scale=3.0)
    contexts = system.contexts(Grid(pole_length=(0.25, 5, 2)))
    found = system.returns(policies, contexts)
    assert found.shape == (2, 2, 2, 3)
    assert found.dtype == np.float32
    for i, j, k in np.ndindex(2, 2, 2):
        expected = plain_returns(system, policies[i, j], contexts[k])
        np.testing.assert_array_equal(found[i, j, k], expected)


def test_returns_equal_gymnasium_played_by_act():
    pytest.importorskip("gymnasium")
    system = CartPole(n_episodes=4)
    policy = balancing()
    rows = system.contexts(Grid(pole_length=(0.5, 2.0, 2)))
    found = system.returns(policy, rows)[0, 0]
    keys = episode_keys(jax.random.key(0), jnp.arange(4))
    for context, returns in zip(rows, found, strict=True):
        environment = system.environment(context)
        for key, expected in zip(keys[:, 0], returns, strict=True):
            environment.reset(seed=0)
            start = system.reset(key, jnp.asarray(context, jnp.float32))
            physics: Any = environment.unwrapped
            physics.state = np.array(start, float)
            observation, steps, over = np.array(start), 0, False
            while not over:
                action = int(policy[0, 0].act(observation))
                observation, _, terminated, truncated, _ = environment.step(action)
                steps, over = steps + 1, terminated or truncated
            # float32 against float64 over hundreds of bang-bang steps: the episode
            # may end a little earlier or later, unless it is cut.
            assert abs(steps - expected) <= 0.05 * expected + 1


def test_common_random_numbers_and_tiles(rng):
    """An episode is the same whichever policies and targets are played with it."""
    system = CartPole(horizon=100, n_episodes=6)
    policies = random_mlp(rng, (2, 1), (4, 64, 64, 2), scale=2.0)
    contexts = system.contexts(Grid(pole_length=(0.25, 5, 10), cart_mass=(0.5, 9, 20)))
    assert len(contexts) * system.n_episodes > SLOTS  # the queue is refilled
    whole = system.returns(policies, contexts)
    tile = system.returns(policies[1:2, :1], contexts[37:44])
    np.testing.assert_array_equal(whole[1:2, :1, 37:44], tile)
    other = CartPole(horizon=100, n_episodes=6, episode_seed=1)
    assert (other.returns(policies[:1], contexts[:4]) != whole[:1, :, :4]).any()


def test_episodes_are_cut_at_the_horizon():
    system = CartPole(n_episodes=3)
    context = system.contexts(Grid(pole_length=(0.5, 0.5, 1)))
    assert (system.returns(balancing(), context) <= 500).all()
    policy = random_mlp(np.random.default_rng(0), (1, 1), (1, 2))
    endless = Probe.context("endless", scale=2.0)[None]
    assert (Probe(horizon=13).returns(policy, endless) == 26).all()


def test_a_return_that_is_no_number_is_minus_infinity():
    policy = random_mlp(np.random.default_rng(0), (1, 1), (1, 2))
    contexts = [Probe.context("endless", scale) for scale in (np.nan, 1.0)]
    found = Probe().returns(policy, np.array(contexts))
    assert (found[0, 0, 0] == -np.inf).all()
    assert np.isfinite(found[0, 0, 1]).all()


def test_linear_gain_plays_continuous_systems():
    system = Pendulum(n_episodes=3)
    gain = np.array([[[[0.0, 3.0, 1.0]]]])
    context = np.array([[axis.default for axis in system.axes]])
    as_network = Mlp((-gain.swapaxes(-1, -2),), (np.zeros((1, 1, 1)),), head="clip")
    np.testing.assert_array_equal(
        system.returns(LinearGain(gain), context), system.returns(as_network, context)
    )


def test_policies_that_do_not_fit_are_refused(rng):
    contexts = np.array([[axis.default for axis in CartPole().axes]])
    with pytest.raises(InvalidInputError, match="4 inputs, 2 outputs"):
        CartPole().returns(random_mlp(rng, (1, 1), (3, 2)), contexts)
    with pytest.raises(InvalidInputError, match="head 'argmax'"):
        CartPole().returns(random_mlp(rng, (1, 1), (4, 2), head="clip"), contexts)
    with pytest.raises(InvalidInputError, match="kind 'mlp'"):
        CartPole().returns(TabularPolicy(np.ones((1, 1, 2, 1))), contexts)


def test_float64_mode_of_the_caller_does_not_matter(rng):
    system = CartPole(horizon=30, n_episodes=3)
    policies = random_mlp(rng, (1, 1), (4, 8, 2))
    contexts = system.contexts(Grid(cart_mass=(0.5, 10, 3)))
    with jax.enable_x64(True):
        wide = system.returns(policies, contexts)
    np.testing.assert_array_equal(wide, system.returns(policies, contexts))
