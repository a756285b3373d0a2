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
from jax import lax
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.policies import Mlp
from taskspace.progress import Progress
from taskspace.systems.base import System
from taskspace.systems.simulated import (
    Head,
    Layers,
    SimulatedSystem,
    episode_keys,
    play,
)
from taskspace.trainers.actor_critic import Parameters, initial_parameters
from taskspace.trainers.base import Trained, Trainer, context_seed
from taskspace.trainers.ppo_update import learn, make_optimiser, rollout, start

__all__ = ["Ppo"]


@dataclass(frozen=True)
class Ppo(Trainer):
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
    normalise_advantages: bool = True
    bootstrap_truncated: bool = True
    hidden: tuple[int, ...] = (64, 64)
    initial_log_std: float = 0.0
    evaluate_every: int = 8192
    n_evaluation_episodes: int = 128
    stop_return: float | None = None

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

    def train(
        self,
        system: System,
        contexts: NDArray[np.float64],
        *,
        seed: int,
        progress: Progress | None = None,
    ) -> Trained[Mlp]:
        """Policies for some sources.

        Args:
            system: a simulated system.
            contexts: full context rows, shape `(source, len(system.axes))`.
            seed: all randomness comes from it.
            progress: told how many sources are finished.

        Returns:
            A stack of `Mlp`. The log has `home_return` (evaluation of the kept
            checkpoint at its source), `solved` (it reached the system's
            `solved_return`) and `evaluations` (their number).
        """
        if not isinstance(system, SimulatedSystem):
            raise InvalidInputError(
                f"PPO trains systems in JAX (SimulatedSystem), but {system.id} is not "
                "JAX functions. Train Gymnasium environments with 'sb3'."
            )
        results = []
        for row in contexts:
            results.append(self._train_source(system, row, seed))
            if progress is not None:
                progress("train", len(results), len(contexts))
        # Leaves gain the leading dims (source, policy).
        kept = jax.tree.map(lambda *leaves: np.stack(leaves), *results)
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
        }
        return Trained(policies, kept.steps.astype(np.int64), log)

    def initial_parameters(
        self, system: SimulatedSystem, rng: np.random.Generator
    ) -> Parameters:
        """Networks before training."""
        return initial_parameters(
            system, rng, hidden=self.hidden, log_std=self.initial_log_std
        )

    def _train_source(
        self, system: SimulatedSystem, context: NDArray[np.float64], seed: int
    ) -> "Kept":
        """The family of one source, NumPy leaves with the leading dim `policy`."""
        if self.family == "seeds":
            n_runs, n_kept = self.n_policies, 1
        else:
            n_runs, n_kept = 1, self.n_policies
        # One compilation serves every size of family.
        recipe = replace(self, n_policies=1, family="seeds")
        parts = []
        for child in context_seed(seed, context).spawn(n_runs):
            with jax.enable_x64(False):
                rng = np.random.default_rng(child)
                start = self.initial_parameters(system, rng)
                key = jax.random.key(rng.integers(2**32, dtype=np.uint32))
                row = jnp.asarray(context, jnp.float32)
                kept = _train(recipe, n_kept, system, row, start, key)
                parts.append(jax.device_get(kept))
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


class Kept(NamedTuple):
    """The kept checkpoints of a training, each leaf with a leading dim."""

    layers: Layers
    score: jax.Array
    steps: jax.Array
    evaluations: jax.Array


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
    context: jax.Array,
    parameters: Parameters,
    key: jax.Array,
) -> Kept:
    """One training; the best `n_kept` evaluated checkpoints of it."""
    stop = ppo.stop_return if ppo.stop_return is not None else system.stop_return
    stop = jnp.inf if stop is None else stop
    kind = "argmax" if system.n_actions else "clip"
    head = Head(kind, "tanh", system.action_low, system.action_high)
    optimiser = make_optimiser(ppo)

    def period(carry):
        n_periods, key, parameters, moments, environments, kept, score = carry
        key, key_updates, key_evaluation = jax.random.split(key, 3)

        def update(carry, key):
            parameters, moments, environments = carry
            key_rollout, key_learn = jax.random.split(key)
            environments, samples = rollout(
                ppo, system, parameters, environments, context, key_rollout
            )
            parameters, moments = learn(
                ppo, system, optimiser, parameters, moments, samples, key_learn
            )
            return (parameters, moments, environments), None

        keys = jax.random.split(key_updates, ppo.n_updates_per_period)
        state, _ = lax.scan(update, (parameters, moments, environments), keys)
        parameters, moments, environments = state
        keys = episode_keys(key_evaluation, jnp.arange(ppo.n_evaluation_episodes))
        actor = environments.statistics.fold(parameters.actor)
        new = play(system, actor, head, context[None], keys).mean()
        # The newer of two equal checkpoints has seen more, so it is kept.
        worst = jnp.argmin(score)
        better = new >= score[worst]
        put = partial(_put, index=worst, when=better)
        kept = jax.tree.map(put, kept, actor)
        score = put(score, new)
        return n_periods + 1, key, parameters, moments, environments, kept, score

    def goes_on(carry):
        n_periods, score = carry[0], carry[-1]
        return (n_periods < ppo.n_periods) & (score.min() < stop)

    key, key_reset = jax.random.split(key)
    environments = start(ppo, system, context, key_reset)
    kept = jax.tree.map(lambda leaf: jnp.stack([leaf] * n_kept), parameters.actor)
    carry = (
        jnp.asarray(0),
        key,
        parameters,
        optimiser.init(parameters),
        environments,
        kept,
        jnp.full(n_kept, -jnp.inf),
    )
    n_periods, *_, kept, score = lax.while_loop(goes_on, period, carry)
    steps = n_periods * ppo.n_updates_per_period * ppo.n_samples
    return Kept(kept, score, jnp.full(n_kept, steps), jnp.full(n_kept, n_periods))


def _put(
    stack: jax.Array, new: jax.Array, *, index: jax.Array, when: jax.Array
) -> jax.Array:
    """The stack with `new` at an index, if the condition holds."""
    return stack.at[index].set(jnp.where(when, new, stack[index]))
