"""Proximal policy optimisation in JAX, the algorithm as Stable-Baselines3 has it.

Schulman et al. 2017 (arXiv:1707.06347) with generalised advantage estimation
(arXiv:1506.02438). The whole training of one policy is one compiled call. Context and
seed are arguments of it, so it is compiled once for all policies of a grid.

| step | method of `_Algorithm` |
|---|---|
| networks before training | `initial_parameters` |
| play `n_steps` steps in every environment | `start`, `rollout` |
| estimate advantages | `advantages` |
| gradient steps on random batches | `loss`, `learn` |
| updates and evaluations until the budget is spent | `train` |

Shapes: E environments, T steps of each between two updates, N = E·T samples of one
update.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.policies import Mlp
from taskspace.systems.base import System
from taskspace.systems.rollouts import (
    Head,
    Layers,
    episode_keys,
    network,
    play_pairs,
    where,
)
from taskspace.systems.simulated import SimulatedSystem
from taskspace.trainers.base import Region, RegionTrainer, Trained

__all__ = ["Ppo"]

# Contexts that a sampler holds at least: regions up to this size share one program.
MIN_SAMPLER_SIZE = 512


@dataclass(frozen=True)
class Ppo(RegionTrainer[Mlp]):
    """PPO with separate tanh networks for the policy and the value.

    The checkpoint with the best evaluation is kept, and training ends once that
    evaluation reaches `stop_return`. Where a default differs from that of
    Stable-Baselines3, it was chosen to solve CartPole at pole lengths of 0.25 to
    5 m and cart masses of 0.5 to 10 kg in little time; see docs/cartpole.md.

    Args:
        n_policies: policies per source, each from its own seed.
        total_steps: budget of environment steps per training, rounded up to whole
            evaluation periods.
        n_envs: environments that are rolled out side by side.
        n_steps: steps of each environment between two updates.
        batch_size: samples per gradient step; divides `n_envs * n_steps`.
        n_epochs: passes over the samples of one update.
        learning_rate: step size of Adam.
        anneal: let the step size fall linearly to zero over the budget.
        gamma: discount factor.
        gae_lambda: λ of generalised advantage estimation.
        clip_range: how far the ratio of probabilities may leave 1 with profit.
        value_coefficient: weight of the value's loss.
        entropy_coefficient: weight of the entropy bonus.
        max_gradient_norm: larger gradients are scaled down to this norm.
        normalise_observations: show the networks observations with mean 0 and
            standard deviation 1, by the statistics of all those seen before; the
            trained policy has them folded into its first layer.
        normalise_rewards: count rewards in units of the standard deviation of the
            discounted returns seen before, so that a step size fits rewards of any
            size; `None` does so where actions are continuous.
        normalise_advantages: give the advantages of each batch mean 0 and
            standard deviation 1.
        hidden: widths of the hidden layers of both networks.
        initial_log_std: logarithm of the first standard deviation of continuous
            actions.
        evaluate_every: environment steps between two evaluations, rounded up to
            whole updates.
        n_evaluation_episodes: episodes of one evaluation, with the deterministic
            policy and fresh initial states.
        stop_return: mean return that ends training; `None` takes the system's.
        patience: evaluations in a row without a new best one that end training; `None`
            spends the whole budget.
    """

    n_policies: int = 3
    total_steps: int = 300_000
    n_envs: int = 16
    n_steps: int = 64
    batch_size: int = 256
    n_epochs: int = 10
    learning_rate: float = 1e-3
    anneal: bool = True
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_range: float = 0.2
    value_coefficient: float = 0.5
    entropy_coefficient: float = 0.0
    max_gradient_norm: float = 0.5
    normalise_observations: bool = True
    normalise_rewards: bool | None = None
    normalise_advantages: bool = True
    hidden: tuple[int, ...] = (64, 64)
    initial_log_std: float = 0.0
    evaluate_every: int = 8192
    n_evaluation_episodes: int = 128
    stop_return: float | None = None
    patience: int | None = None

    id: ClassVar[str] = "ppo"
    sources_per_block: ClassVar[int] = 2

    def __post_init__(self):
        object.__setattr__(self, "hidden", tuple(self.hidden))
        counts = "n_policies total_steps n_envs n_steps batch_size n_epochs patience"
        for name in (*counts.split(), "evaluate_every", "n_evaluation_episodes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidInputError(
                    f"{name} >= 1 must hold, but got {name}={value}."
                )
        for name in ("gamma", "gae_lambda"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidInputError(
                    f"0 <= {name} <= 1 must hold, but got {getattr(self, name)}."
                )
        if self.n_samples % self.batch_size:
            raise InvalidInputError(
                f"batch_size must divide n_envs * n_steps = {self.n_samples}, but "
                f"got batch_size={self.batch_size}."
            )

    @property
    def n_samples(self) -> int:
        """Environment steps of one update."""
        return self.n_envs * self.n_steps

    @property
    def n_updates_per_period(self) -> int:
        """Updates between two evaluations."""
        return math.ceil(self.evaluate_every / self.n_samples)

    @property
    def n_periods(self) -> int:
        """Evaluation periods in the budget."""
        return math.ceil(
            self.total_steps / (self.n_updates_per_period * self.n_samples)
        )

    @property
    def steps_per_source(self) -> int:
        """Most environment steps that the family of one source takes."""
        updates = self.n_periods * self.n_updates_per_period
        return updates * self.n_samples * self.n_policies

    def train_region(
        self,
        system: System,
        region: Region,
        *,
        seed: int,
        start: Mlp | None = None,
    ) -> Trained[Mlp]:
        """Train one family for a region.

        A training that begins from a policy holds it for the first period, while the
        critic learns; so the kept checkpoint is evaluated no worse than the start.

        Args:
            system: a simulated system.
            region: where the contexts of the episodes are drawn from, in evaluations
                too.
            seed: all randomness comes from it.
            start: a network to begin from, without leading dims and with the widths
                `hidden`; from random weights if left out.

        Returns:
            A stack of `Mlp` with one source. The log has `home_return` (evaluation of
            the kept checkpoint on the region), `solved` (it reached the system's
            `solved_return`), `evaluations` (their number) and `since_best`
            (evaluations after the best one: 0 has not levelled off).
        """
        if not isinstance(system, SimulatedSystem):
            raise InvalidInputError(
                f"PPO trains systems in JAX (SimulatedSystem), but {system.id} is not "
                "JAX functions. Train Gymnasium environments with 'sb3'."
            )
        # One compilation serves every size of family, and every budget.
        algorithm = _Algorithm(replace(self, n_policies=1, total_steps=1), system)
        runs = []
        for child in region.seed(seed).spawn(self.n_policies):
            with jax.enable_x64(False):
                rng = np.random.default_rng(child)
                first = algorithm.initial_parameters(rng)
                if start is not None:
                    first = first._replace(actor=_layers_of(start, first.actor))
                trained = algorithm.train(
                    ContextSampler.of(region),
                    first,
                    jax.random.key(rng.integers(2**32, dtype=np.uint32)),
                    jnp.asarray(start is not None),
                    jnp.asarray(self.n_periods),
                )
                runs.append(jax.device_get(trained))
        layers, score, evaluations, since_best = jax.tree.map(
            lambda *leaves: np.stack(leaves)[None], *runs
        )
        solved = system.solved_return if system.solved_return is not None else np.inf
        log = {
            "home_return": score,
            "solved": score >= solved,
            "evaluations": evaluations,
            "since_best": since_best,
        }
        policies = Mlp(
            weights=tuple(weight for weight, _ in layers),
            biases=tuple(bias for _, bias in layers),
            head="argmax" if system.n_actions else "clip",
            action_low=system.action_low,
            action_high=system.action_high,
        )
        steps = evaluations.astype(np.int64) * self.n_updates_per_period
        return Trained(policies, steps * self.n_samples, log)


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
        learner: parameters of the networks, and moments of Adam.
        environments: where the last rollout left them.
        best: the actor with the best evaluation.
        score: its evaluation.
        since_best: evaluations after the best one.
    """

    n_evaluations: jax.Array
    key: jax.Array
    learner: tuple[Parameters, optax.OptState]
    environments: Environments
    best: Layers
    score: jax.Array
    since_best: jax.Array


class _Algorithm(NamedTuple):
    """PPO with its settings on a system, as functions that one compiled call traces.

    The settings' budget does not matter.
    """

    ppo: Ppo
    system: SimulatedSystem

    def initial_parameters(self, rng: np.random.Generator) -> Parameters:
        """Orthogonal weights of scale √2 (policy head 0.01, value head 1), zero biases.

        Made with NumPy, because the compilation of its decompositions would take JAX
        longer than a short training.
        """
        ppo, system = self

        def orthogonal(n_in: int, n_out: int) -> NDArray[Any]:
            """Return a random matrix of orthonormal columns, or rows if it is wide."""
            q, r = np.linalg.qr(rng.normal(size=(max(n_in, n_out), min(n_in, n_out))))
            q *= np.sign(np.diag(r))  # uniform over the orthogonal group
            return q if n_in >= n_out else q.T

        def layers(n_outputs: int, head_scale: float) -> Layers:
            sizes = system.n_observations, *ppo.hidden, n_outputs
            scales = *(math.sqrt(2) for _ in ppo.hidden), head_scale
            weights = [
                scale * orthogonal(n_in, n_out)
                for scale, n_in, n_out in zip(scales, sizes, sizes[1:], strict=False)
            ]
            return tuple(
                (jnp.asarray(w, jnp.float32), jnp.zeros(w.shape[1], jnp.float32))
                for w in weights
            )

        return Parameters(
            actor=layers(system.n_actions or system.action_size, 0.01),
            critic=layers(1, 1.0),
            log_std=jnp.full(system.action_size, ppo.initial_log_std, jnp.float32),
        )

    def sample(self, parameters: Parameters, observation: Any, noise: Any) -> jax.Array:
        """Random actions: Gumbel noise picks a category, normal noise a vector."""
        output = network(parameters.actor, observation)
        if self.system.n_actions:
            return jnp.argmax(output + noise, axis=-1)
        return output + jnp.exp(parameters.log_std) * noise

    def distribution(
        self, parameters: Parameters, observation: Any, action: Any
    ) -> tuple[jax.Array, jax.Array]:
        """Log-probability of the actions, and the entropy at each observation."""
        output = network(parameters.actor, observation)
        if self.system.n_actions:
            logs = jax.nn.log_softmax(output)
            chosen = jnp.take_along_axis(logs, action[..., None], axis=-1)[..., 0]
            return chosen, -(jnp.exp(logs) * logs).sum(-1)
        z = (action - output) * jnp.exp(-parameters.log_std)
        constant = 0.5 * math.log(2 * math.pi)
        log_probability = (-0.5 * z**2 - parameters.log_std - constant).sum(-1)
        entropy = (0.5 + constant + parameters.log_std).sum()
        return log_probability, jnp.broadcast_to(entropy, log_probability.shape)

    def start(self, sampler: ContextSampler, key: jax.Array) -> Environments:
        """Fresh environments, before anything has been seen."""
        n = self.ppo.n_envs
        context = sampler.draw(key, (n,))
        return Environments(
            jax.vmap(self.system.reset)(jax.random.split(key, n), context),
            context,
            jnp.zeros(n, jnp.int32),
            RunningMoments.none(self.system.n_observations),
            jnp.zeros(n),
            RunningMoments.none(1),
        )

    def rollout(
        self,
        parameters: Parameters,
        environments: Environments,
        sampler: ContextSampler,
        key: jax.Array,
    ) -> tuple[Environments, Samples]:
        """Play `n_steps` steps in every environment and estimate the advantages.

        The samples hold the observations as the networks saw them: normalised.
        """
        ppo, system = self
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
            action = self.sample(parameters, observation, noise)
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
            ends = terminated, truncated
            return new, (observation, action, reward, ends, after, total)

        given = noise, fresh, jax.random.split(key_step, shape)
        environments, seen = lax.scan(advance, environments, given)
        observation, action, reward, ends, after, total = seen
        normalises = ppo.normalise_rewards
        if system.n_actions == 0 if normalises is None else normalises:
            returns = environments.returns.updated(total.reshape(-1, 1))
            environments = environments._replace(returns=returns)
            reward = reward / returns.spread
        value = network(parameters.critic, observation)[..., 0]
        value_after = network(parameters.critic, after)[..., 0]
        advantage = self.advantages(reward, value, value_after, *ends)
        log_probability, _ = self.distribution(parameters, observation, action)
        samples = Samples(
            observation, action, log_probability, advantage, advantage + value
        )
        samples = Samples(*(leaf.reshape(-1, *leaf.shape[2:]) for leaf in samples))
        if ppo.normalise_observations:
            raw = samples.observation * moments.spread + moments.mean
            environments = environments._replace(observations=moments.updated(raw))
        return environments, samples

    def advantages(
        self, reward: Any, value: Any, value_after: Any, terminated: Any, truncated: Any
    ) -> jax.Array:
        r"""Generalised advantage estimates, all arrays `(T, E)`.

        $A_t = \delta_t + \gamma\lambda A_{t+1}$ within an episode, with
        $\delta_t = r_t + \gamma V(s_{t+1}) - V(s_t)$, where $V(s_{t+1})$, the value
        before any reset, is 0 after a termination, but not where the step limit cut
        the episode.
        """
        gamma = self.ppo.gamma
        delta = reward + gamma * jnp.where(terminated, 0, value_after) - value
        decay = gamma * self.ppo.gae_lambda * ~(terminated | truncated)

        def back(advantage, given):
            delta, decay = given
            advantage = delta + decay * advantage
            return advantage, advantage

        first = jnp.zeros_like(value[0])
        _, result = lax.scan(back, first, (delta, decay), reverse=True)
        return result

    def loss(self, parameters: Parameters, samples: Samples) -> jax.Array:
        """Clipped objective, plus value loss, minus entropy bonus, of one batch."""
        ppo, advantage = self.ppo, samples.advantage
        if ppo.normalise_advantages and advantage.shape[0] > 1:
            advantage = (advantage - advantage.mean()) / (advantage.std(ddof=1) + 1e-8)
        log_probability, entropy = self.distribution(
            parameters, samples.observation, samples.action
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

    def optimiser(self, n_periods: jax.Array | int) -> optax.GradientTransformation:
        """Return Adam behind a clip of the gradient's norm."""
        ppo = self.ppo
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
        self,
        optimiser: optax.GradientTransformation,
        learner: tuple[Parameters, optax.OptState],
        samples: Samples,
        key: jax.Array,
        holds: jax.Array | bool = False,
    ) -> tuple[Parameters, optax.OptState]:
        """`n_epochs` passes over the samples, in random batches.

        Where `holds`, the actor stays as it is, and only the critic learns.
        """
        ppo = self.ppo

        def step(learner, indices):
            parameters, state = learner
            batch = jax.tree.map(lambda leaf: leaf[indices], samples)
            gradient = jax.grad(self.loss)(parameters, batch)
            still = partial(jax.tree.map, lambda leaf: jnp.where(holds, 0, leaf))
            gradient = gradient._replace(
                actor=still(gradient.actor), log_std=still(gradient.log_std)
            )
            change, state = optimiser.update(gradient, state, parameters)
            new: Any = optax.apply_updates(parameters, change)
            return (new, state), None

        keys = jax.random.split(key, ppo.n_epochs)
        order = lax.map(lambda key: jax.random.permutation(key, ppo.n_samples), keys)
        return lax.scan(step, learner, order.reshape(-1, ppo.batch_size))[0]

    @partial(
        jax.jit,
        static_argnums=0,
        # Compiles in two thirds of the time, and runs no slower.
        compiler_options={"xla_backend_optimization_level": 1},
    )
    def train(
        self,
        sampler: ContextSampler,
        parameters: Parameters,
        key: jax.Array,
        warm: jax.Array,
        n_periods: jax.Array,
    ) -> tuple[Layers, jax.Array, jax.Array, jax.Array]:
        """Train once: updates, evaluations, early stop.

        Args:
            sampler: draws the contexts of episodes.
            parameters: networks to begin from.
            key: of everything random.
            warm: the actor is trained already, and held for the first period.
            n_periods: evaluation periods of the budget.

        Returns:
            The actor with the best evaluation, and that; the number of evaluations,
            and how many came after the best one.
        """
        ppo, system = self
        stop = ppo.stop_return if ppo.stop_return is not None else system.stop_return
        stop = jnp.inf if stop is None else stop
        kind = "argmax" if system.n_actions else "clip"
        head = Head(kind, "tanh", system.action_low, system.action_high)
        optimiser = self.optimiser(n_periods)
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
                learner, environments = carry
                key_rollout, key_learn = jax.random.split(key)
                before = environments.observations
                environments, samples = self.rollout(
                    learner[0], environments, sampler, key_rollout
                )
                parameters, state = self.learn(
                    optimiser, learner, samples, key_learn, holds
                )
                # A policy that is held stays the same function of what is observed.
                same = environments.observations.unfold(before.fold(parameters.actor))
                actor = jax.tree.map(partial(jnp.where, holds), same, parameters.actor)
                return ((parameters._replace(actor=actor), state), environments), None

            keys = jax.random.split(key_updates, ppo.n_updates_per_period)
            carry = training.learner, training.environments
            (learner, environments), _ = lax.scan(update, carry, keys)
            actor = environments.observations.fold(learner[0].actor)
            score = evaluate(actor, key_evaluation)
            is_kept = score >= training.score  # the newer of two has seen more
            best = jax.tree.map(partial(jnp.where, is_kept), actor, training.best)
            return Training(
                training.n_evaluations + 1,
                key,
                learner,
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
            (parameters, optimiser.init(parameters)),
            self.start(sampler, key_reset),
            parameters.actor,
            jnp.asarray(-jnp.inf),
            jnp.asarray(0),
        )
        last = lax.while_loop(goes_on, period, first)
        return last.best, last.score, last.n_evaluations, last.since_best


def _layers_of(start: Mlp, like: Layers) -> Layers:
    """Return a network as layers, of the sizes that this training has."""
    sizes = [tuple(weight.shape) for weight, _ in like]
    shapes = [weight.shape for weight in start.weights]
    if shapes != sizes or start.activation != "tanh":
        raise InvalidInputError(
            f"A training that begins from a policy needs a tanh network of {sizes}, "
            f"but got {start.activation} and {shapes}. Set hidden to its widths."
        )
    return tuple(
        (jnp.asarray(weight, jnp.float32), jnp.asarray(bias, jnp.float32))
        for weight, bias in zip(start.weights, start.biases, strict=True)
    )
