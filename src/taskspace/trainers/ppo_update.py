"""The algorithm of `Ppo` as JAX functions, from top to bottom.

| step | function |
|---|---|
| networks before training | `initial_parameters` |
| play `n_steps` steps in every environment | `start`, `rollout` |
| estimate advantages | `advantages` |
| gradient steps on random batches | `loss`, `learn` |
| updates and evaluations until the budget is spent | `train` |

Shapes: E environments, T steps of each between two updates, N = E·T samples of one
update. All functions but `initial_parameters` are traced inside one compiled call.
"""

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from numpy.typing import NDArray

from taskspace.systems.rollouts import (
    Head,
    Layers,
    episode_keys,
    network,
    play_pairs,
    where,
)
from taskspace.systems.simulated import SimulatedSystem
from taskspace.trainers.base import Region

if TYPE_CHECKING:
    from taskspace.trainers.ppo import Ppo

# Contexts that a sampler holds at least: regions up to this size share one program.
MIN_SAMPLER_SIZE = 512


class ContextSampler(NamedTuple):
    """The contexts of a region, padded so that few sizes are compiled.

    Args:
        contexts: full context rows.
        ends: running sums of the weights, above 1 from the last context on.
    """

    contexts: jax.Array
    ends: jax.Array

    @classmethod
    def of(cls, region: Region) -> "ContextSampler":
        """Return the sampler of a region.

        Args:
            region: where the contexts of the episodes are drawn from.
        """
        n = len(region.contexts)
        padding = max(MIN_SAMPLER_SIZE, 1 << (n - 1).bit_length()) - n
        ends = np.cumsum(region.weights)
        ends[-1] = 2.0
        return cls(
            jnp.asarray(np.pad(region.contexts, ((0, padding), (0, 0))), jnp.float32),
            jnp.asarray(np.pad(ends, (0, padding), constant_values=2.0), jnp.float32),
        )

    def at(self, shares: jax.Array) -> jax.Array:
        """Return the contexts at some quantiles of the weights.

        Args:
            shares: numbers in [0, 1).
        """
        return self.contexts[jnp.searchsorted(self.ends, shares, side="right")]

    def draw(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """Return random contexts.

        Args:
            key: of the draws; it may serve other draws too.
            shape: how many.
        """
        return self.at(jax.random.uniform(jax.random.fold_in(key, 1), shape))


class RunningMoments(NamedTuple):
    """Mean and variance of the rows seen so far, and their number."""

    mean: jax.Array
    variance: jax.Array
    n_seen: jax.Array

    @classmethod
    def none(cls, size: int) -> "RunningMoments":
        """Return the moments before anything is seen: mean 0 and variance 1."""
        return cls(jnp.zeros(size), jnp.ones(size), jnp.zeros(()))

    @property
    def spread(self) -> jax.Array:
        """Standard deviation, never zero."""
        return jnp.sqrt(self.variance + 1e-8)

    def normalise(self, rows: jax.Array) -> jax.Array:
        """Return rows in units of their spread."""
        return (rows - self.mean) / self.spread

    def fold(self, layers: Layers) -> Layers:
        """Layers that do with raw observations what these do with normalised ones."""
        weight, bias = layers[0]
        scaled = weight / self.spread[:, None]
        return (scaled, bias - self.mean @ scaled), *layers[1:]

    def unfold(self, layers: Layers) -> Layers:
        """Return layers that do with normalised observations what these do with raw."""
        weight, bias = layers[0]
        return (weight * self.spread[:, None], bias + self.mean @ weight), *layers[1:]

    def updated(self, rows: jax.Array) -> "RunningMoments":
        """Add further rows (Chan et al. 1979)."""
        n = rows.shape[0]
        total = self.n_seen + n
        shift = rows.mean(0) - self.mean
        squares = self.variance * self.n_seen + rows.var(0) * n
        squares += shift**2 * self.n_seen * n / total
        return RunningMoments(self.mean + shift * n / total, squares / total, total)


class Parameters(NamedTuple):
    """What gradient steps change; `log_std` is empty for discrete actions."""

    actor: Layers
    critic: Layers
    log_std: jax.Array


class Environments(NamedTuple):
    """The E environments that collect samples, and what has been seen in them.

    Args:
        state: of the system, in each.
        context: of the present episode of each.
        time: steps since the start of each episode.
        observations: moments of all observations before this rollout.
        discounted_return: discounted sum of the rewards of each episode so far.
        returns: moments of all such sums; their spread is the unit of normalised
            rewards.
    """

    state: Any
    context: jax.Array
    time: jax.Array
    observations: RunningMoments
    discounted_return: jax.Array
    returns: RunningMoments


class Samples(NamedTuple):
    """Samples of one update, each with the leading dim N."""

    observation: jax.Array
    action: jax.Array
    log_probability: jax.Array
    advantage: jax.Array
    value_target: jax.Array


class Training(NamedTuple):
    """A training between two evaluations.

    Args:
        n_evaluations: so far.
        key: of everything random that follows.
        parameters: of the networks.
        optimiser_state: moments of Adam.
        environments: where the last rollout left them.
        best: the actor with the best evaluation.
        score: its evaluation.
        since_best: evaluations after the best one.
    """

    n_evaluations: jax.Array
    key: jax.Array
    parameters: Parameters
    optimiser_state: optax.OptState
    environments: Environments
    best: Layers
    score: jax.Array
    since_best: jax.Array


def initial_parameters(
    ppo: "Ppo", system: SimulatedSystem, rng: np.random.Generator
) -> Parameters:
    """Orthogonal weights of scale √2 (policy head 0.01, value head 1), zero biases.

    Made with NumPy, because the compilation of its decompositions would take JAX
    longer than a short training.

    Args:
        ppo: the settings.
        system: says how many observations and actions there are.
        rng: of the weights.
    """

    def orthogonal(n_in: int, n_out: int) -> NDArray[Any]:
        """Return a random matrix with orthonormal columns, or rows if it is wide."""
        q, r = np.linalg.qr(rng.normal(size=(max(n_in, n_out), min(n_in, n_out))))
        q *= np.sign(np.diag(r))  # uniform over the orthogonal group
        return q if n_in >= n_out else q.T

    def layers(n_outputs: int, head_scale: float) -> Layers:
        sizes = system.n_observations, *ppo.hidden, n_outputs
        scales = *(math.sqrt(2) for _ in ppo.hidden), head_scale
        return tuple(
            (
                jnp.asarray(scale * orthogonal(n_in, n_out), jnp.float32),
                jnp.zeros(n_out, jnp.float32),
            )
            for scale, n_in, n_out in zip(scales, sizes, sizes[1:], strict=False)
        )

    return Parameters(
        actor=layers(system.n_actions or system.action_size, 0.01),
        critic=layers(1, 1.0),
        log_std=jnp.full(system.action_size, ppo.initial_log_std, jnp.float32),
    )


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


def start(
    ppo: "Ppo", system: SimulatedSystem, sampler: ContextSampler, key: jax.Array
) -> Environments:
    """Fresh environments, before anything has been seen.

    Args:
        ppo: the settings.
        system: what is played.
        sampler: draws the contexts of episodes.
        key: of the first states and contexts.
    """
    context = sampler.draw(key, (ppo.n_envs,))
    return Environments(
        jax.vmap(system.reset)(jax.random.split(key, ppo.n_envs), context),
        context,
        jnp.zeros(ppo.n_envs, jnp.int32),
        RunningMoments.none(system.n_observations),
        jnp.zeros(ppo.n_envs),
        RunningMoments.none(1),
    )


def rollout(
    ppo: "Ppo",
    system: SimulatedSystem,
    parameters: Parameters,
    environments: Environments,
    sampler: ContextSampler,
    key: jax.Array,
) -> tuple[Environments, Samples]:
    """Play `n_steps` steps in every environment and estimate the advantages.

    The samples hold the observations as the networks saw them: normalised.

    Args:
        ppo: the settings.
        system: what is played.
        parameters: of the networks.
        environments: where the last rollout left them.
        sampler: draws the contexts of new episodes.
        key: of actions, steps and resets.
    """
    shape = ppo.n_steps, ppo.n_envs
    key_action, key_step, key_reset = jax.random.split(key, 3)
    # All random numbers at once: a generator inside the loop would dominate it.
    if system.n_actions:
        noise = jax.random.gumbel(key_action, (*shape, system.n_actions))
    else:
        noise = jax.random.normal(key_action, (*shape, system.action_size))
    context = sampler.draw(key_reset, shape)
    reset = jax.vmap(jax.vmap(system.reset))
    fresh = context, reset(jax.random.split(key_reset, shape), context)
    moments = environments.observations

    def observe(state: Any, context: jax.Array) -> jax.Array:
        raw = jax.vmap(system.observe)(state, context)
        return moments.normalise(raw) if ppo.normalise_observations else raw

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
        after = observe(state, context)
        context, state = jax.tree.map(partial(where, over), fresh, (context, state))
        total = ppo.gamma * environments.discounted_return + reward
        new = environments._replace(
            state=state,
            context=context,
            time=jnp.where(over, 0, time),
            discounted_return=jnp.where(over, 0, total),
        )
        return new, (observation, action, reward, terminated, truncated, after, total)

    given = noise, fresh, jax.random.split(key_step, shape)
    environments, seen = lax.scan(advance, environments, given)
    observation, action, reward, terminated, truncated, after, total = seen
    if ppo.normalises_rewards(system):
        returns = environments.returns.updated(total.reshape(-1, 1))
        environments = environments._replace(returns=returns)
        reward = reward / returns.spread
    value = network(parameters.critic, observation)[..., 0]
    value_after = network(parameters.critic, after)[..., 0]
    seen = reward, value, value_after, terminated, truncated
    advantage = advantages(*seen, gamma=ppo.gamma, gae_lambda=ppo.gae_lambda)
    log_probability, _ = distribution(system, parameters, observation, action)
    samples = Samples(
        observation, action, log_probability, advantage, advantage + value
    )
    samples = Samples(*(leaf.reshape(-1, *leaf.shape[2:]) for leaf in samples))
    if ppo.normalise_observations:
        raw = samples.observation * moments.spread + moments.mean
        environments = environments._replace(observations=moments.updated(raw))
    return environments, samples


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
    r"""Generalised advantage estimates, all arrays `(T, E)`.

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
    surrogate = jnp.minimum(ratio * advantage, clipped * advantage).mean()
    value = network(parameters.critic, samples.observation)[..., 0]
    value_loss = ((value - samples.value_target) ** 2).mean()
    return (
        -surrogate
        + ppo.value_coefficient * value_loss
        - ppo.entropy_coefficient * entropy.mean()
    )


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


def learn(
    ppo: "Ppo",
    system: SimulatedSystem,
    optimiser: optax.GradientTransformation,
    parameters: Parameters,
    optimiser_state: optax.OptState,
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
        optimiser_state: Adam's moments.
        samples: all of a rollout.
        key: of the batches.
        holds: the actor stays as it is; the critic learns.
    """

    def step(carry, indices):
        parameters, state = carry
        batch = jax.tree.map(lambda leaf: leaf[indices], samples)
        gradient = jax.grad(partial(loss, ppo, system))(parameters, batch)
        still = partial(jax.tree.map, lambda leaf: jnp.where(holds, 0, leaf))
        gradient = gradient._replace(
            actor=still(gradient.actor), log_std=still(gradient.log_std)
        )
        change, state = optimiser.update(gradient, state, parameters)
        new: Any = optax.apply_updates(parameters, change)
        return (new, state), None

    keys = jax.random.split(key, ppo.n_epochs)
    order = lax.map(lambda key: jax.random.permutation(key, ppo.n_samples), keys)
    batches = order.reshape(-1, ppo.batch_size)
    (parameters, state), _ = lax.scan(step, (parameters, optimiser_state), batches)
    return parameters, state


@partial(
    jax.jit,
    static_argnums=(0, 1),
    # Compiles in two thirds of the time, and runs no slower.
    compiler_options={"xla_backend_optimization_level": 1},
)
def train(
    ppo: "Ppo",
    system: SimulatedSystem,
    sampler: ContextSampler,
    parameters: Parameters,
    key: jax.Array,
    warm: jax.Array,
    n_periods: jax.Array,
) -> tuple[Layers, jax.Array, jax.Array, jax.Array]:
    """Train once: updates, evaluations, early stop.

    Args:
        ppo: the settings; its budget does not matter.
        system: what is played.
        sampler: draws the contexts of episodes.
        parameters: networks to begin from.
        key: of everything random.
        warm: the actor is trained already, and held for the first period.
        n_periods: evaluation periods of the budget.

    Returns:
        The actor with the best evaluation, and that; the number of evaluations, and
        how many came after the best one.
    """
    stop = ppo.stop_return if ppo.stop_return is not None else system.stop_return
    stop = jnp.inf if stop is None else stop
    kind = "argmax" if system.n_actions else "clip"
    head = Head(kind, "tanh", system.action_low, system.action_high)
    optimiser = make_optimiser(ppo, n_periods)
    patience = n_periods if ppo.patience is None else ppo.patience

    def evaluate(actor: Layers, key: jax.Array) -> jax.Array:
        """Return the mean return, with contexts spread evenly over the region."""
        n = ppo.n_evaluation_episodes
        jitter = jax.random.uniform(jax.random.fold_in(key, n), (n,))
        contexts = sampler.at((jnp.arange(n) + jitter) / n)
        keys = episode_keys(key, jnp.arange(n))
        return play_pairs(system, actor, head, contexts, keys).mean()

    def period(training: Training) -> Training:
        key, key_updates, key_evaluation = jax.random.split(training.key, 3)
        holds = warm & (training.n_evaluations == 0)

        def update(carry, key):
            parameters, optimiser_state, environments = carry
            key_rollout, key_learn = jax.random.split(key)
            before = environments.observations
            environments, samples = rollout(
                ppo, system, parameters, environments, sampler, key_rollout
            )
            parameters, optimiser_state = learn(
                ppo, system, optimiser, parameters, optimiser_state, samples,
                key_learn, holds,
            )  # fmt: skip
            # A policy that is held stays the same function of what is observed.
            same = environments.observations.unfold(before.fold(parameters.actor))
            actor = jax.tree.map(partial(jnp.where, holds), same, parameters.actor)
            parameters = parameters._replace(actor=actor)
            return (parameters, optimiser_state, environments), None

        keys = jax.random.split(key_updates, ppo.n_updates_per_period)
        carry = training.parameters, training.optimiser_state, training.environments
        (parameters, optimiser_state, environments), _ = lax.scan(update, carry, keys)
        actor = environments.observations.fold(parameters.actor)
        score = evaluate(actor, key_evaluation)
        is_kept = score >= training.score  # the newer of two equal ones has seen more
        best = jax.tree.map(partial(jnp.where, is_kept), actor, training.best)
        return Training(
            training.n_evaluations + 1,
            key,
            parameters,
            optimiser_state,
            environments,
            best,
            jnp.where(is_kept, score, training.score),
            jnp.where(score > training.score, 0, training.since_best + 1),
        )

    def goes_on(training: Training) -> jax.Array:
        return (
            (training.n_evaluations < n_periods)
            & (training.score < stop)
            & (training.since_best < patience)
        )

    key, key_reset = jax.random.split(key)
    first = Training(
        jnp.asarray(0),
        key,
        parameters,
        optimiser.init(parameters),
        start(ppo, system, sampler, key_reset),
        parameters.actor,
        jnp.asarray(-jnp.inf),
        jnp.asarray(0),
    )
    last = lax.while_loop(goes_on, period, first)
    return last.best, last.score, last.n_evaluations, last.since_best
