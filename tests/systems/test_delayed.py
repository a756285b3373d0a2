"""CartPole with late pushes, against Gymnasium whose force is set in every step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taskspace.systems.cartpole import CartPole
from taskspace.systems.delayed import DelayedCartPole
from taskspace.testing import dead_axes, system_outcomes

gymnasium = pytest.importorskip("gymnasium")
SYSTEM = DelayedCartPole()


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
    seen = play(SYSTEM, context, actions, jax.random.key(3))
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
    late = play(SYSTEM, np.append(row, 0.0), actions, jax.random.key(0))
    np.testing.assert_array_equal(
        late, play(CartPole(), row, actions, jax.random.key(0))
    )


def test_every_axis_is_alive():
    assert dead_axes(system_outcomes(SYSTEM), SYSTEM.axes) == []
