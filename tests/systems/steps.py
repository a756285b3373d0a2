"""One step of a simulated system from many states, in double precision."""

import jax
import jax.numpy as jnp
import numpy as np


def random_contexts(rng, system, n, low=0.5, high=2.0):
    """Contexts around the defaults, each axis by its own factor."""
    defaults = np.array([axis.default for axis in system.axes])
    return defaults * rng.uniform(low, high, (n, len(defaults)))


def one_step(system, kind, states, actions, contexts):
    """New states, rewards, terminations and observations, a row per case."""
    with jax.enable_x64(True):
        rows = jnp.asarray(contexts)
        step = jax.jit(jax.vmap(system.step, (0, 0, 0, None)))
        state = kind(*jnp.asarray(states.T))
        new, reward, over = step(state, jnp.asarray(actions), rows, jax.random.key(0))
        seen = jax.jit(jax.vmap(system.observe))(new, rows)
        return tuple(map(np.asarray, (jnp.stack(new, 1), reward, over, seen)))
