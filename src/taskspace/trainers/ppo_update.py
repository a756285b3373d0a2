"""What PPO does between two evaluations: play, weigh what was seen, learn from it.

Functions of the settings (`Ppo`), to be traced inside its compiled training.
"""

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from taskspace.systems.rollouts import network, where
from taskspace.systems.simulated import SimulatedSystem
from taskspace.trainers.actor_critic import (
    Parameters,
    Statistics,
    advantages,
    distribution,
    sample,
)
from taskspace.trainers.region import Region

if TYPE_CHECKING:
    from taskspace.trainers.ppo import Ppo

__all__ = [
    "Environments",
    "Lots",
    "Samples",
    "learn",
    "loss",
    "make_optimiser",
    "rollout",
    "start",
]


class Environments(NamedTuple):
    """The environments that collect samples, and what has been seen in them."""

    state: Any
    context: jax.Array
    """Of the present episode of each."""
    time: jax.Array
    """Steps since the start of each episode."""
    statistics: Statistics
    """Of the observations."""
    gained: jax.Array
    """Discounted sum of the rewards of each episode so far."""
    gains: Statistics
    """Of all such sums; their spread is the unit of normalised rewards."""


class Lots(NamedTuple):
    """Contexts to draw from; room for more, so that few sizes are compiled."""

    contexts: jax.Array
    ends: jax.Array
    """Running sums of the weights, above 1 from the last context on."""

    @classmethod
    def of(cls, region: Region) -> "Lots":
        """Return the contexts of a region.

        Args:
            region: where the contexts of the episodes are drawn from.
        """
        n = len(region.contexts)
        room = max(ROOM, 1 << (n - 1).bit_length()) - n
        ends = np.cumsum(region.weights)
        ends[-1] = 2.0
        return cls(
            jnp.asarray(np.pad(region.contexts, ((0, room), (0, 0))), jnp.float32),
            jnp.asarray(np.pad(ends, (0, room), constant_values=2.0), jnp.float32),
        )

    def at(self, shares: jax.Array) -> jax.Array:
        """Return the contexts at some quantiles of the weights.

        Args:
            shares: numbers in [0, 1).
        """
        return self.contexts[jnp.searchsorted(self.ends, shares, side="right")]


class Samples(NamedTuple):
    """Samples of one update, each with one leading dim."""

    observation: jax.Array
    action: jax.Array
    log_probability: jax.Array
    advantage: jax.Array
    value_target: jax.Array


ROOM = 512
"""Contexts of a region that need no compilation of their own."""

CONTEXTS = 1
"""Stands for the draws of contexts among the uses of a key."""


def make_optimiser(
    ppo: "Ppo", n_periods: jax.Array | int
) -> optax.GradientTransformation:
    """Return Adam behind a clip of the gradient's norm.

    Args:
        ppo: the settings; its budget does not matter.
        n_periods: evaluation periods of the budget.
    """
    n_updates = n_periods * ppo.n_updates_per_period
    n_gradients = n_updates * ppo.n_epochs * (ppo.n_samples // ppo.batch_size)

    def falling(count: Any) -> jax.Array:
        """`optax.linear_schedule`, for an end that is not known to the compiler."""
        part = jnp.clip(count, 0, n_gradients) * (1.0 / n_gradients)
        return ppo.learning_rate * (1 - part)

    return optax.chain(
        optax.clip_by_global_norm(ppo.max_gradient_norm),
        optax.adam(falling if ppo.anneal else ppo.learning_rate, eps=1e-5),
    )


def start(
    ppo: "Ppo", system: SimulatedSystem, lots: Lots, key: jax.Array
) -> Environments:
    """Fresh environments, before anything has been seen.

    Args:
        ppo: the settings.
        system: what is played.
        lots: where the contexts of episodes are drawn from.
        key: of the first states and contexts.
    """
    keys = jax.random.split(key, ppo.n_envs)
    context = lots.at(_shares(key, (ppo.n_envs,)))
    return Environments(
        jax.vmap(system.reset)(keys, context),
        context,
        jnp.zeros(ppo.n_envs, jnp.int32),
        Statistics.none(system.n_observations),
        jnp.zeros(ppo.n_envs),
        Statistics.none(1),
    )


def rollout(
    ppo: "Ppo",
    system: SimulatedSystem,
    parameters: Parameters,
    environments: Environments,
    lots: Lots,
    key: jax.Array,
) -> tuple[Environments, Samples]:
    """Play `n_steps` steps in every environment and estimate the advantages.

    The samples hold the observations as the networks saw them: normalised.

    Args:
        ppo: the settings.
        system: what is played.
        parameters: of the networks.
        environments: where the last rollout left them.
        lots: where the contexts of new episodes are drawn from.
        key: of actions, steps and resets.
    """
    shape = ppo.n_steps, ppo.n_envs
    key_action, key_step, key_reset = jax.random.split(key, 3)
    # All random numbers at once: a generator inside the loop would dominate it.
    if system.n_actions:
        noise = jax.random.gumbel(key_action, (*shape, system.n_actions))
    else:
        noise = jax.random.normal(key_action, (*shape, system.action_size))
    context = lots.at(_shares(key_reset, shape))
    reset = jax.vmap(jax.vmap(system.reset))
    fresh = context, reset(jax.random.split(key_reset, shape), context)
    statistics = environments.statistics

    def observe(state: Any, context: jax.Array) -> jax.Array:
        raw = jax.vmap(system.observe)(state, context)
        return statistics.normalise(raw) if ppo.normalise_observations else raw

    def advance(environments: Environments, given):
        noise, fresh, key = given
        context = environments.context
        observation = observe(environments.state, context)
        action = sample(system, parameters, observation, noise)
        applied = action
        if not system.n_actions:
            applied = jnp.clip(action, system.action_low, system.action_high)
        state, reward, terminated = jax.vmap(system.step)(
            environments.state, applied, context, key
        )
        time = environments.time + 1
        truncated = ~terminated & (time >= system.horizon)
        over = terminated | truncated
        seen = (
            observation,
            action,
            reward,
            terminated,
            truncated,
            observe(state, context),
        )
        context, state = jax.tree.map(partial(where, over), fresh, (context, state))
        gained = ppo.gamma * environments.gained + reward
        new = environments._replace(
            state=state,
            context=context,
            time=jnp.where(over, 0, time),
            gained=jnp.where(over, 0, gained),
        )
        return new, (*seen, gained)

    given = noise, fresh, jax.random.split(key_step, shape)
    environments, seen = lax.scan(advance, environments, given)
    observation, action, reward, terminated, truncated, after, gained = seen
    if ppo.normalises_rewards(system):
        gains = environments.gains.updated(gained.reshape(-1, 1))
        environments = environments._replace(gains=gains)
        reward = reward / jnp.sqrt(gains.variance + 1e-8)
    value = network(parameters.critic, observation)[..., 0]
    value_after = network(parameters.critic, after)[..., 0]
    if not ppo.bootstrap_truncated:
        terminated = terminated | truncated
    advantage = advantages(
        reward,
        value,
        value_after,
        terminated,
        truncated,
        gamma=ppo.gamma,
        gae_lambda=ppo.gae_lambda,
    )
    log_probability, _ = distribution(system, parameters, observation, action)
    samples = Samples(
        observation, action, log_probability, advantage, advantage + value
    )
    samples = Samples(*(leaf.reshape(-1, *leaf.shape[2:]) for leaf in samples))
    if ppo.normalise_observations:
        raw = samples.observation * jnp.sqrt(statistics.variance + 1e-8)
        statistics = statistics.updated(raw + statistics.mean)
    return environments._replace(statistics=statistics), samples


def _shares(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Draw quantiles of the weights of a region, beside what the key is used for."""
    return jax.random.uniform(jax.random.fold_in(key, CONTEXTS), shape)


def loss(
    ppo: "Ppo", system: SimulatedSystem, parameters: Parameters, samples: Samples
) -> jax.Array:
    """PPO's clipped objective, plus value loss, minus entropy bonus, of one batch.

    Args:
        ppo: the settings.
        system: says what an action is.
        parameters: of the networks.
        samples: one batch.
    """
    advantage = samples.advantage
    if ppo.normalise_advantages and advantage.shape[0] > 1:
        advantage = (advantage - advantage.mean()) / (advantage.std(ddof=1) + 1e-8)
    log_probability, entropy = distribution(
        system, parameters, samples.observation, samples.action
    )
    ratio = jnp.exp(log_probability - samples.log_probability)
    clipped = jnp.clip(ratio, 1 - ppo.clip_range, 1 + ppo.clip_range)
    gain = jnp.minimum(ratio * advantage, clipped * advantage).mean()
    value = network(parameters.critic, samples.observation)[..., 0]
    value_loss = ((value - samples.value_target) ** 2).mean()
    return (
        -gain
        + ppo.value_coefficient * value_loss
        - ppo.entropy_coefficient * entropy.mean()
    )


def learn(
    ppo: "Ppo",
    system: SimulatedSystem,
    optimiser: optax.GradientTransformation,
    parameters: Parameters,
    moments: optax.OptState,
    samples: Samples,
    key: jax.Array,
    holds: jax.Array | bool = False,
) -> tuple[Parameters, optax.OptState]:
    """`n_epochs` passes over the samples, in random batches.

    Args:
        ppo: the settings.
        system: says what an action is.
        optimiser: as `make_optimiser` makes it.
        parameters: of the networks.
        moments: the optimiser's state.
        samples: all of a rollout.
        key: of the batches.
        holds: the actor stays as it is; the critic learns.
    """

    def step(carry, indices):
        parameters, moments = carry
        batch = jax.tree.map(lambda leaf: leaf[indices], samples)
        gradient = jax.grad(partial(loss, ppo, system))(parameters, batch)
        still = partial(jax.tree.map, lambda leaf: jnp.where(holds, 0, leaf))
        gradient = gradient._replace(
            actor=still(gradient.actor), log_std=still(gradient.log_std)
        )
        change, moments = optimiser.update(gradient, moments, parameters)
        new: Any = optax.apply_updates(parameters, change)
        return (new, moments), None

    keys = jax.random.split(key, ppo.n_epochs)
    order = lax.map(lambda key: jax.random.permutation(key, ppo.n_samples), keys)
    batches = order.reshape(-1, ppo.batch_size)
    (parameters, moments), _ = lax.scan(step, (parameters, moments), batches)
    return parameters, moments
