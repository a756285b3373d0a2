"""Episodes of simulated systems, played side by side in JAX.

Every policy meets every context; thousands of environments advance at once.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from taskspace.policies import Mlp
from taskspace.systems.simulated import SimulatedSystem

SLOTS = 1024
"""Environments that are played side by side: enough rows for efficient matrix
products, few enough that hidden layers stay in the cache of one core."""

REFILL_EVERY = 8
"""Steps between two refills of the slots whose episode is over."""

Layers = tuple[tuple[jax.Array, jax.Array], ...]
"""`(weight, bias)` of each layer, input layer first."""


class Head(NamedTuple):
    """What turns the outputs of a network into actions, as `Mlp` names it."""

    kind: str
    activation: str
    low: float
    high: float

    @classmethod
    def of(cls, policies: Mlp) -> "Head":
        """Return the head of some networks.

        Args:
            policies: the networks.
        """
        low, high = float(policies.action_low), float(policies.action_high)
        return cls(policies.head, policies.activation, low, high)


def episode_keys(key: jax.Array, episodes: jax.Array) -> jax.Array:
    """Return keys of the initial state and of the noise, shape `(episode, 2)`.

    Args:
        key: of all episodes.
        episodes: their numbers; the keys of an episode depend on its own alone.
    """
    one = partial(jax.random.fold_in, key)
    return jax.vmap(lambda episode: jax.random.split(one(episode)))(episodes)


def network(
    layers: Layers, observations: jax.Array, activation: str = "tanh"
) -> jax.Array:
    """Return the outputs of a network for a batch of observations.

    Args:
        layers: weight and bias of each layer, from the first to the output.
        observations: one row per observation.
        activation: of the hidden layers: `"tanh"` or `"relu"`.
    """
    bend = {"tanh": jnp.tanh, "relu": jax.nn.relu}[activation]
    x = observations
    for weight, bias in layers[:-1]:
        x = bend(x @ weight + bias)
    weight, bias = layers[-1]
    return x @ weight + bias


@partial(jax.jit, static_argnums=(0, 2))
def play_stack(
    system: SimulatedSystem,
    layers: Layers,
    head: Head,
    contexts: jax.Array,
    n_contexts: jax.Array,
    episodes: jax.Array,
) -> jax.Array:
    """Play a stack of policies, one after the other.

    Args:
        system: the environment.
        layers: of all policies; the leading dim is the policy.
        head: how their outputs become actions.
        contexts: shape `(target, len(axes))`, possibly padded.
        n_contexts: how many of the contexts are played, the first ones.
        episodes: numbers of the episodes.

    Returns:
        Sums of rewards, shape `(policy, target * episode)`, episodes running fastest.
    """
    keys = episode_keys(jax.random.key(system.episode_seed), episodes)
    n_episodes, n_targets = keys.shape[0], contexts.shape[0]

    def play(layers: Layers) -> jax.Array:
        return play_pairs(
            system,
            layers,
            head,
            jnp.repeat(contexts, n_episodes, axis=0),
            jnp.tile(keys, (n_targets, 1)),
            n_contexts * n_episodes,
        )

    # One policy after the other: a vmap over networks would break the matrix
    # products into small ones, which is several times slower on a CPU.
    return lax.map(play, layers)


def play_pairs(
    system: SimulatedSystem,
    layers: Layers,
    head: Head,
    contexts: jax.Array,
    keys: jax.Array,
    end: jax.Array | None = None,
) -> jax.Array:
    """Play one policy, each episode at its own context; traced inside a jit.

    The pairs wait in a queue. A fixed number of slots plays them side by side, and a
    slot whose episode is over takes the next pair, so policies that fail early cost
    only the steps they live.

    Args:
        system: the environment.
        layers: the network.
        head: how its outputs become actions.
        contexts: of each episode, shape `(pair, len(axes))`.
        keys: of the initial state and of the noise, shape `(pair, 2)`.
        end: how many of the pairs are played, the first ones; all if left out.

    Returns:
        Sums of rewards, shape `(pair,)`.
    """
    n_pairs = contexts.shape[0]
    n_slots = min(SLOTS, n_pairs)
    end = jnp.asarray(n_pairs) if end is None else end

    def advance(_, slots):
        pair, time, total, alive, (context, noise, state) = slots
        observation = jax.vmap(system.observe)(state, context)
        action = _act(layers, head, observation)
        key = jax.vmap(jax.random.fold_in)(noise, time)
        new, reward, terminated = jax.vmap(system.step)(state, action, context, key)
        time = time + alive
        total = total + jnp.where(alive, reward, 0)
        # A finished episode stands still, so that it cannot overflow while waiting.
        state = jax.tree.map(partial(where, alive), new, state)
        alive = alive & ~terminated & (time < system.horizon)
        return pair, time, total, alive, (context, noise, state)

    def refill(carry):
        waiting, result, slots = carry
        slots = lax.fori_loop(0, REFILL_EVERY, advance, slots)
        pair, time, total, alive, playing = slots
        over = ~alive
        result = result.at[jnp.where(over, pair, n_pairs)].set(total)
        ahead = jnp.cumsum(over)
        pair = jnp.where(over, jnp.minimum(waiting + ahead - 1, n_pairs), pair)
        fresh = jax.tree.map(lambda table: table[jnp.minimum(pair, n_pairs - 1)], table)
        playing = jax.tree.map(partial(where, over), fresh, playing)
        time = jnp.where(over, 0, time)
        total = jnp.where(over, 0, total)
        return waiting + ahead[-1], result, (pair, time, total, pair < end, playing)

    table = contexts, keys[:, 1], jax.vmap(system.reset)(keys[:, 0], contexts)
    pair = jnp.arange(n_slots)
    slots = (
        pair,
        jnp.zeros(n_slots, pair.dtype),
        jnp.zeros(n_slots, contexts.dtype),
        pair < end,
        jax.tree.map(lambda rows: rows[:n_slots], table),
    )
    result = jnp.zeros(n_pairs + 1, contexts.dtype)
    carry = jnp.asarray(n_slots, pair.dtype), result, slots
    carry = lax.while_loop(lambda carry: (carry[2][0] < end).any(), refill, carry)
    total = carry[1][:n_pairs]
    return jnp.where(jnp.isnan(total), -jnp.inf, total)


def _act(layers: Layers, head: Head, observations: jax.Array) -> jax.Array:
    """Return deterministic actions, one per row of observations."""
    output = network(layers, observations, head.activation)
    if head.kind == "argmax":
        return jnp.argmax(output, axis=-1)
    if head.kind == "squash":
        return head.low + (jnp.tanh(output) + 1) / 2 * (head.high - head.low)
    return jnp.clip(output, head.low, head.high)


def where(mask: jax.Array, new: jax.Array, old: jax.Array) -> jax.Array:
    """Take `new` where the mask holds, for arrays with further dims behind the mask's.

    Args:
        mask: boolean, over the leading dim.
        new: values where it holds.
        old: values elsewhere, of the same shape.
    """
    return jnp.where(mask.reshape(mask.shape + (1,) * (new.ndim - 1)), new, old)


def trajectories(
    system: SimulatedSystem, layers: Any, head: Head, contexts: NDArray[np.float32]
) -> tuple[Any, jax.Array, jax.Array]:
    """Play the first episode of policy `i` at context `i`, and keep its states.

    Args:
        system: the environment.
        layers: of all policies; the leading dim is the pair.
        head: how their outputs become actions.
        contexts: shape `(pair, len(axes))`.

    Returns:
        The states (leading dims `(pair, moment)`), steps until the end, and returns.
    """
    keys = episode_keys(jax.random.key(system.episode_seed), jnp.arange(1))[0]

    def episode(one: Layers, context: jax.Array) -> Any:
        def advance(carry: Any, time: jax.Array) -> Any:
            state, alive, total, end = carry
            action = _act(one, head, system.observe(state, context))
            noise = jax.random.fold_in(keys[1], time)
            new, reward, terminated = system.step(state, action, context, noise)
            total = total + jnp.where(alive, reward, 0)
            new = jax.tree.map(lambda n, o: jnp.where(alive, n, o), new, state)
            end = end + alive
            return (new, alive & ~terminated, total, end), new

        start = system.reset(keys[0], context)
        zero = jnp.zeros((), context.dtype)
        carry = (start, jnp.asarray(True), zero, jnp.zeros((), int))
        last, states = lax.scan(advance, carry, jnp.arange(system.horizon))
        first = jax.tree.map(
            lambda s, rest: jnp.concatenate([s[None], rest]), start, states
        )
        return first, last[3], last[2]

    return jax.jit(jax.vmap(episode))(layers, contexts)
