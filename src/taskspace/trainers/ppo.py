"""Proximal policy optimisation in JAX, the algorithm as Stable-Baselines3 has it.

Schulman et al. 2017 (arXiv:1707.06347) with generalised advantage estimation
(arXiv:1506.02438). The whole training of one policy (rollouts, updates, periodic
evaluation, early stop) is one compiled call. Context and seed are arguments of it,
so it is compiled once for all policies of a grid. What happens in one update is in
`ppo_update.py`.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.policies import Mlp
from taskspace.systems.base import System
from taskspace.systems.rollouts import Head, Layers, episode_keys, play_pairs
from taskspace.systems.simulated import SimulatedSystem
from taskspace.trainers.actor_critic import Parameters, initial_parameters
from taskspace.trainers.base import Trained
from taskspace.trainers.ppo_update import (
    Environments,
    Lots,
    learn,
    make_optimiser,
    rollout,
    start,
)
from taskspace.trainers.region import Region, RegionTrainer

__all__ = ["Ppo"]


@dataclass(frozen=True)
class Ppo(RegionTrainer[Mlp]):
    """PPO with separate tanh networks for the policy and the value.

    The checkpoint with the best evaluation is kept, and training ends once that
    evaluation reaches `stop_return`. Where a default differs from that of
    Stable-Baselines3, it was chosen to solve CartPole at pole lengths of 0.25 to
    5 m and cart masses of 0.5 to 10 kg in little time; see docs/cartpole.md.

    Args:
        n_policies: policies a source.
        family: `"seeds"` trains `n_policies` times with different seeds;
            `"checkpoints"` trains once and keeps the `n_policies` best evaluated
            checkpoints.
        total_steps: budget of environment steps a training, rounded up to whole
            evaluation periods.
        n_envs: environments that are rolled out side by side.
        n_steps: steps of each environment between two updates.
        batch_size: samples a gradient step; divides `n_envs * n_steps`.
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
        bootstrap_truncated: where the step limit cuts an episode, count its future
            by the value there. `False` takes the cut for an end of the task, a
            common mistake kept for comparison.
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
    family: Literal["seeds", "checkpoints"] = "seeds"
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
    bootstrap_truncated: bool = True
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
        counts = "n_policies total_steps n_envs n_steps batch_size n_epochs"
        for name in (*counts.split(), "evaluate_every", "n_evaluation_episodes"):
            if getattr(self, name) < 1:
                raise InvalidInputError(
                    f"{name} >= 1 must hold, but got {name}={getattr(self, name)}."
                )
        for name in ("gamma", "gae_lambda"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidInputError(
                    f"0 <= {name} <= 1 must hold, but got {getattr(self, name)}."
                )
        if self.patience is not None and self.patience < 1:
            raise InvalidInputError(
                f"patience >= 1 must hold, but got patience={self.patience}."
            )
        if self.n_samples % self.batch_size:
            raise InvalidInputError(
                f"batch_size must divide n_envs * n_steps = {self.n_samples}, but "
                f"got batch_size={self.batch_size}."
            )
        if self.family not in ("seeds", "checkpoints"):
            raise UnknownNameError("family", self.family, ["seeds", "checkpoints"])
        if self.family == "checkpoints" and self.n_periods < self.n_policies:
            raise InvalidInputError(
                f"A family of {self.n_policies} checkpoints needs as many "
                f"evaluations, but total_steps={self.total_steps} has "
                f"{self.n_periods}. Raise total_steps or lower evaluate_every."
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

    def normalises_rewards(self, system: SimulatedSystem) -> bool:
        """Return whether rewards are normalised.

        Args:
            system: what is played.
        """
        if self.normalise_rewards is None:
            return system.n_actions == 0
        return self.normalise_rewards

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
        family = self._train_family(system, region, seed, start)
        kept = jax.tree.map(lambda leaf: leaf[None], family)
        solved = system.solved_return if system.solved_return is not None else np.inf
        policies = Mlp(
            weights=tuple(weight for weight, _ in kept.layers),
            biases=tuple(bias for _, bias in kept.layers),
            head="argmax" if system.n_actions else "clip",
            action_low=system.action_low,
            action_high=system.action_high,
        )
        log = {
            "home_return": kept.score,
            "solved": kept.score >= solved,
            "evaluations": kept.evaluations,
            "since_best": kept.since_best,
        }
        return Trained(policies, kept.steps.astype(np.int64), log)

    def initial_parameters(
        self, system: SimulatedSystem, rng: np.random.Generator
    ) -> Parameters:
        """Networks before training."""
        return initial_parameters(
            system, rng, hidden=self.hidden, log_std=self.initial_log_std
        )

    def _train_family(
        self, system: SimulatedSystem, region: Region, seed: int, start: Mlp | None
    ) -> "Kept":
        """Return one family: NumPy leaves with the leading dim `policy`."""
        if self.family == "seeds":
            n_runs, n_kept = self.n_policies, 1
        else:
            n_runs, n_kept = 1, self.n_policies
        # One compilation serves every size of family, and every budget.
        recipe = replace(self, n_policies=1, family="seeds", total_steps=1)
        parts = []
        for child in region.seed(seed).spawn(n_runs):
            with jax.enable_x64(False):
                rng = np.random.default_rng(child)
                first = self.initial_parameters(system, rng)
                if start is not None:
                    first = first._replace(actor=_layers_of(start, first.actor))
                key = jax.random.key(rng.integers(2**32, dtype=np.uint32))
                warm = jnp.asarray(start is not None)
                lots = Lots.of(region)
                n_periods = jnp.asarray(self.n_periods)
                kept = _train(recipe, n_kept, system, lots, first, key, warm, n_periods)
                parts.append(jax.device_get(kept))
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


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


class Carry(NamedTuple):
    """A training between two evaluations."""

    n_periods: jax.Array
    key: jax.Array
    parameters: Parameters
    moments: optax.OptState
    environments: Environments
    kept: Layers
    score: jax.Array
    since_best: jax.Array
    """Evaluations after the best one."""


class Kept(NamedTuple):
    """The kept checkpoints of a training, each leaf with a leading dim."""

    layers: Layers
    score: jax.Array
    steps: jax.Array
    evaluations: jax.Array
    since_best: jax.Array


@partial(
    jax.jit,
    static_argnums=(0, 1, 2),
    # Compiles in two thirds of the time, and runs no slower.
    compiler_options={"xla_backend_optimization_level": 1},
)
def _train(
    ppo: Ppo,
    n_kept: int,
    system: SimulatedSystem,
    lots: Lots,
    parameters: Parameters,
    key: jax.Array,
    warm: jax.Array,
    n_periods: jax.Array,
) -> Kept:
    """One training; the best `n_kept` evaluated checkpoints of it."""
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
        contexts = lots.at((jnp.arange(n) + jitter) / n)
        return play_pairs(
            system, actor, head, contexts, episode_keys(key, jnp.arange(n))
        ).mean()

    def period(carry: Carry) -> Carry:
        key, key_updates, key_evaluation = jax.random.split(carry.key, 3)
        holds = warm & (carry.n_periods == 0)

        def update(state, key):
            parameters, moments, environments = state
            key_rollout, key_learn = jax.random.split(key)
            before = environments.statistics
            environments, samples = rollout(
                ppo, system, parameters, environments, lots, key_rollout
            )
            parameters, moments = learn(
                ppo, system, optimiser, parameters, moments, samples, key_learn, holds
            )
            # A policy that is held stays the same function of what is observed.
            same = environments.statistics.unfold(before.fold(parameters.actor))
            actor = jax.tree.map(partial(jnp.where, holds), same, parameters.actor)
            return (parameters._replace(actor=actor), moments, environments), None

        keys = jax.random.split(key_updates, ppo.n_updates_per_period)
        state = carry.parameters, carry.moments, carry.environments
        (parameters, moments, environments), _ = lax.scan(update, state, keys)
        actor = environments.statistics.fold(parameters.actor)
        new = evaluate(actor, key_evaluation)
        # The newer of two equal checkpoints has seen more, so it is kept.
        worst = jnp.argmin(carry.score)
        put = partial(_put, index=worst, when=new >= carry.score[worst])
        return Carry(
            carry.n_periods + 1,
            key,
            parameters,
            moments,
            environments,
            jax.tree.map(put, carry.kept, actor),
            put(carry.score, new),
            jnp.where(new > carry.score.max(), 0, carry.since_best + 1),
        )

    def goes_on(carry: Carry) -> jax.Array:
        return (
            (carry.n_periods < n_periods)
            & (carry.score.min() < stop)
            & (carry.since_best < patience)
        )

    key, key_reset = jax.random.split(key)
    first = Carry(
        jnp.asarray(0),
        key,
        parameters,
        optimiser.init(parameters),
        start(ppo, system, lots, key_reset),
        jax.tree.map(lambda leaf: jnp.stack([leaf] * n_kept), parameters.actor),
        jnp.full(n_kept, -jnp.inf),
        jnp.asarray(0),
    )
    last = lax.while_loop(goes_on, period, first)
    steps = last.n_periods * ppo.n_updates_per_period * ppo.n_samples
    return Kept(
        last.kept,
        last.score,
        jnp.full(n_kept, steps),
        jnp.full(n_kept, last.n_periods),
        jnp.full(n_kept, last.since_best),
    )


def _put(
    stack: jax.Array, new: jax.Array, *, index: jax.Array, when: jax.Array
) -> jax.Array:
    """Return the stack with `new` at an index, if the condition holds."""
    return stack.at[index].set(jnp.where(when, new, stack[index]))
