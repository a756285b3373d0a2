"""Actor and critic: parameters, first weights, actions and advantages.

What any actor-critic algorithm shares; what is PPO's own is in `ppo_update.py`.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from taskspace.systems.rollouts import Layers, network
from taskspace.systems.simulated import SimulatedSystem

__all__ = [
    "Parameters",
    "Statistics",
    "advantages",
    "distribution",
    "initial_parameters",
    "sample",
]


class Parameters(NamedTuple):
    """What gradient steps change; `log_std` is empty for discrete actions."""

    actor: Layers
    critic: Layers
    log_std: jax.Array


class Statistics(NamedTuple):
    """Mean and variance of the observations seen so far, and their number."""

    mean: jax.Array
    variance: jax.Array
    n_seen: jax.Array

    @classmethod
    def none(cls, size: int) -> "Statistics":
        """Return the statistics before anything is seen: mean 0 and variance 1."""
        return cls(jnp.zeros(size), jnp.ones(size), jnp.zeros(()))

    def normalise(self, observation: jax.Array) -> jax.Array:
        """Return the observation in units of its spread."""
        return (observation - self.mean) / jnp.sqrt(self.variance + 1e-8)

    def fold(self, layers: Layers) -> Layers:
        """Layers that do with raw observations what these do with normalised ones."""
        weight, bias = layers[0]
        scaled = weight / jnp.sqrt(self.variance + 1e-8)[:, None]
        return (scaled, bias - self.mean @ scaled), *layers[1:]

    def unfold(self, layers: Layers) -> Layers:
        """Return layers that do with normalised observations what these do with raw."""
        weight, bias = layers[0]
        spread = jnp.sqrt(self.variance + 1e-8)
        return (weight * spread[:, None], bias + self.mean @ weight), *layers[1:]

    def updated(self, observations: jax.Array) -> "Statistics":
        """Add further observations, one per row (Chan et al. 1979)."""
        n = observations.shape[0]
        total = self.n_seen + n
        mean, variance = observations.mean(0), observations.var(0)
        shift = mean - self.mean
        spread = self.variance * self.n_seen + variance * n
        spread += shift**2 * self.n_seen * n / total
        return Statistics(self.mean + shift * n / total, spread / total, total)


def initial_parameters(
    system: SimulatedSystem,
    rng: np.random.Generator,
    *,
    hidden: tuple[int, ...],
    log_std: float,
) -> Parameters:
    """Orthogonal weights of scale √2 (policy head 0.01, value head 1), zero biases.

    Made with NumPy, because the compilation of its decompositions would take JAX
    longer than a short training.

    Args:
        system: says how many observations and actions there are.
        rng: of the weights.
        hidden: widths of the hidden layers.
        log_std: logarithm of the standard deviation of a continuous action.
    """

    def layers(n_outputs: int, head_scale: float) -> Layers:
        sizes = system.n_observations, *hidden, n_outputs
        scales = *(math.sqrt(2) for _ in hidden), head_scale
        return tuple(
            (
                jnp.asarray(scale * _orthogonal(rng, n_in, n_out), jnp.float32),
                jnp.zeros(n_out, jnp.float32),
            )
            for scale, n_in, n_out in zip(scales, sizes, sizes[1:], strict=False)
        )

    return Parameters(
        actor=layers(system.n_actions or system.action_size, 0.01),
        critic=layers(1, 1.0),
        log_std=jnp.full(system.action_size, log_std, jnp.float32),
    )


def _orthogonal(rng: np.random.Generator, n_in: int, n_out: int) -> NDArray[Any]:
    """Return a random matrix with orthonormal columns, or rows if it is wide."""
    q, r = np.linalg.qr(rng.normal(size=(max(n_in, n_out), min(n_in, n_out))))
    q *= np.sign(np.diag(r))  # uniform over the orthogonal group
    return q if n_in >= n_out else q.T


def sample(
    system: SimulatedSystem,
    parameters: Parameters,
    observation: jax.Array,
    noise: jax.Array,
) -> jax.Array:
    """Random actions: Gumbel noise picks a category, normal noise a vector.

    Args:
        system: says whether actions are categories or vectors.
        parameters: of the networks.
        observation: one per row, normalised.
        noise: of the action's shape; for categories one number each.
    """
    output = network(parameters.actor, observation)
    if system.n_actions:
        return jnp.argmax(output + noise, axis=-1)
    return output + jnp.exp(parameters.log_std) * noise


def distribution(
    system: SimulatedSystem,
    parameters: Parameters,
    observation: jax.Array,
    action: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Log-probability of the actions, and the entropy at each observation.

    Args:
        system: says whether actions are categories or vectors.
        parameters: of the networks.
        observation: one per row, normalised.
        action: the action taken at each.
    """
    output = network(parameters.actor, observation)
    if system.n_actions:
        logs = jax.nn.log_softmax(output)
        chosen = jnp.take_along_axis(logs, action[..., None], axis=-1)[..., 0]
        return chosen, -(jnp.exp(logs) * logs).sum(-1)
    z = (action - output) * jnp.exp(-parameters.log_std)
    constant = 0.5 * math.log(2 * math.pi)
    log_probability = (-0.5 * z**2 - parameters.log_std - constant).sum(-1)
    entropy = (0.5 + constant + parameters.log_std).sum()
    return log_probability, jnp.broadcast_to(entropy, log_probability.shape)


def advantages(
    reward: jax.Array,
    value: jax.Array,
    value_after: jax.Array,
    terminated: jax.Array,
    truncated: jax.Array,
    *,
    gamma: float,
    gae_lambda: float,
) -> jax.Array:
    r"""Generalised advantage estimates, all arrays with leading dim `time`.

    $A_t = \delta_t + \gamma\lambda A_{t+1}$ within an episode, with
    $\delta_t = r_t + \gamma V(s_{t+1}) - V(s_t)$, where $V(s_{t+1}) = 0$ after a
    termination, but not where the step limit cut the episode.

    Args:
        reward: of each step.
        value: V before each step.
        value_after: V after each step, before any reset.
        terminated: the task ended with this step.
        truncated: the step limit cut the episode after this step.
        gamma: discount factor.
        gae_lambda: λ; 0 is one-step, 1 is Monte-Carlo.
    """
    delta = reward + gamma * jnp.where(terminated, 0, value_after) - value
    decay = gamma * gae_lambda * ~(terminated | truncated)

    def back(advantage, given):
        delta, decay = given
        advantage = delta + decay * advantage
        return advantage, advantage

    _, result = lax.scan(back, jnp.zeros_like(value[0]), (delta, decay), reverse=True)
    return result
