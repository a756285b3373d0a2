"""Episodic systems given by JAX functions.

A subclass says how one environment starts, moves and is seen; this module plays
every policy at every context, thousands of episodes side by side.
"""

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.policies import LinearGain, Mlp, Policy
from taskspace.systems.episodic import EpisodicSystem

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


class SimulatedSystem(EpisodicSystem):
    """A system simulated step by step in JAX.

    The three physics functions are pure, treat one environment, and compute every
    derived quantity from `context`: a 1-d array in the order of `axes`. They run in
    the precision of their arguments; training and evaluation use float32.
    """

    n_observations: ClassVar[int]
    """Length of an observation."""
    n_actions: ClassVar[int] = 0
    """Number of discrete actions `0, 1, …`; 0 for continuous actions."""
    action_size: ClassVar[int] = 0
    """Length of a continuous action; 0 for discrete actions."""
    action_low: ClassVar[float] = -np.inf
    """Smallest continuous action that a policy gives."""
    action_high: ClassVar[float] = np.inf
    """Largest continuous action that a policy gives."""

    @abstractmethod
    def reset(self, key: jax.Array, context: jax.Array) -> Any:
        """A random initial state: any pytree of scalars and arrays.

        Args:
            key: a JAX random key.
            context: context of this environment, shape `(len(axes),)`.
        """

    @abstractmethod
    def step(
        self, state: Any, action: jax.Array, context: jax.Array, key: jax.Array
    ) -> tuple[Any, jax.Array, jax.Array]:
        """One step of the environment.

        Args:
            state: the state before the step.
            action: an integer, or a vector of length `action_size`.
            context: context of this environment, shape `(len(axes),)`.
            key: a JAX random key for noise of this step.

        Returns:
            The next state, the reward, and whether the episode terminated.
        """

    @abstractmethod
    def observe(self, state: Any, context: jax.Array) -> jax.Array:
        """What a policy sees of a state, shape `(n_observations,)`.

        Args:
            state: a state of the environment.
            context: context of this environment, shape `(len(axes),)`.
        """

    def returns(
        self,
        policies: Policy,
        contexts: NDArray[np.float64],
        *,
        episodes: Sequence[int] | None = None,
    ) -> NDArray[np.float32]:
        """Return of every policy at every context in every episode.

        Policies act deterministically (most probable action, or the mean). A
        return that is not a number becomes −inf.

        Args:
            policies: a stack with leading dims `(source, policy)`: `Mlp`, or
                `LinearGain` for continuous actions.
            contexts: full context rows, shape `(target, len(axes))`.
            episodes: numbers of the episodes to play; those of J if left out.

        Returns:
            Sums of rewards, dims `(source, policy, target, episode)`.
        """
        numbers = self.episode_numbers(episodes)
        policies = self._checked(policies)
        leading = policies.biases[0].shape[:-1]
        layers = tuple(
            (
                np.asarray(weight, np.float32).reshape(-1, *weight.shape[-2:]),
                np.asarray(bias, np.float32).reshape(-1, bias.shape[-1]),
            )
            for weight, bias in zip(policies.weights, policies.biases, strict=True)
        )
        # Padded, so that few sizes are compiled when the number of targets changes.
        n_rows = 1 << (len(contexts) - 1).bit_length()
        rows = np.asarray(contexts, np.float32)
        rows = np.pad(rows, ((0, n_rows - len(rows)), (0, 0)), mode="edge")
        with jax.enable_x64(False):
            found = _play_stack(
                self,
                layers,
                Head.of(policies),
                rows,
                len(contexts),
                numbers.astype(np.int32),
            )
        played = np.asarray(found).reshape(*leading, n_rows, len(numbers))
        return np.ascontiguousarray(played[..., : len(contexts), :])

    def _checked(self, policies: Policy) -> Mlp:
        """The stack as networks whose head and sizes fit this system."""
        if isinstance(policies, LinearGain):
            gain = policies.gain.astype(np.float32)
            zero = np.zeros(gain.shape[:-1], np.float32)
            policies = Mlp((-gain.swapaxes(-1, -2),), (zero,), head="clip")
        if not isinstance(policies, Mlp):
            raise InvalidInputError(
                f"{self.id} plays policies of kind 'mlp' or 'linear-gain', "
                f"but got kind {policies.kind!r}."
            )
        heads = ("argmax",) if self.n_actions else ("clip", "squash")
        sizes = self.n_observations, self.n_actions or self.action_size
        got = policies.weights[0].shape[-2], policies.biases[-1].shape[-1]
        if policies.head not in heads or got != sizes:
            raise InvalidInputError(
                f"A policy of {self.id} must have {sizes[0]} inputs, {sizes[1]} "
                f"outputs and the head {' or '.join(map(repr, heads))}, but got "
                f"{got[0]} inputs, {got[1]} outputs and the head {policies.head!r}."
            )
        return policies


def episode_keys(key: jax.Array, episodes: jax.Array) -> jax.Array:
    """Keys of the initial state and of the noise, shape `(episode, 2)`.

    Args:
        key: of all episodes.
        episodes: their numbers; the keys of an episode depend on its own alone.
    """
    one = partial(jax.random.fold_in, key)
    return jax.vmap(lambda episode: jax.random.split(one(episode)))(episodes)


def network(
    layers: Layers, observations: jax.Array, activation: str = "tanh"
) -> jax.Array:
    """Outputs of a network for a batch of observations, one a row.

    Args:
        layers: weight and bias of each layer, from the first to the output.
        observations: one a row.
        activation: of the hidden layers: `"tanh"` or `"relu"`.
    """
    bend = {"tanh": jnp.tanh, "relu": jax.nn.relu}[activation]
    x = observations
    for weight, bias in layers[:-1]:
        x = bend(x @ weight + bias)
    weight, bias = layers[-1]
    return x @ weight + bias


@partial(jax.jit, static_argnums=(0, 2))
def _play_stack(
    system: SimulatedSystem,
    layers: Layers,
    head: Head,
    contexts: jax.Array,
    n_contexts: jax.Array,
    episodes: jax.Array,
) -> jax.Array:
    """Returns of a stack of policies, shape `(policy, target * episode)`."""
    keys = episode_keys(jax.random.key(system.episode_seed), episodes)
    # One policy after the other: a vmap over networks would break the matrix
    # products into small ones, which is several times slower on a CPU.
    return lax.map(
        lambda one: play(system, one, head, contexts, keys, n_contexts), layers
    )


def play(
    system: SimulatedSystem,
    layers: Layers,
    head: Head,
    contexts: jax.Array,
    keys: jax.Array,
    n_contexts: jax.Array | None = None,
) -> jax.Array:
    """Returns of one policy at all contexts; to be traced inside a jit.

    Args:
        system: the environment.
        layers: the network.
        head: how its outputs become actions.
        contexts: shape `(target, len(axes))`.
        keys: of the initial state and of the noise, shape `(episode, 2)`.
        n_contexts: how many of the contexts are played, the first ones; all if left
            out.

    Returns:
        Sums of rewards, shape `(target * episode,)`, episodes running fastest.
    """
    n_episodes = keys.shape[0]
    return play_pairs(
        system,
        layers,
        head,
        jnp.repeat(contexts, n_episodes, axis=0),
        jnp.tile(keys, (contexts.shape[0], 1)),
        None if n_contexts is None else n_contexts * n_episodes,
    )


def play_pairs(
    system: SimulatedSystem,
    layers: Layers,
    head: Head,
    contexts: jax.Array,
    keys: jax.Array,
    end: jax.Array | None = None,
) -> jax.Array:
    """Returns of one policy, each episode at its own context; traced inside a jit.

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
        action = act(layers, head, observation)
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


def act(layers: Layers, head: Head, observations: jax.Array) -> jax.Array:
    """Return deterministic actions, one per row of observations.

    Args:
        layers: weights and biases of one network.
        head: what its outputs mean.
        observations: what is seen.
    """
    output = network(layers, observations, head.activation)
    if head.kind == "argmax":
        return jnp.argmax(output, axis=-1)
    if head.kind == "squash":
        return head.low + (jnp.tanh(output) + 1) / 2 * (head.high - head.low)
    return jnp.clip(output, head.low, head.high)


def where(mask: jax.Array, new: jax.Array, old: jax.Array) -> jax.Array:
    """`new` where the mask holds, for arrays with further dims behind the mask's.

    Args:
        mask: boolean, over the leading dim.
        new: values where it holds.
        old: values elsewhere, of the same shape.
    """
    return jnp.where(mask.reshape(mask.shape + (1,) * (new.ndim - 1)), new, old)
