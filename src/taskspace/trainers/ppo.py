"""Proximal policy optimisation in JAX, the algorithm as Stable-Baselines3 has it.

Schulman et al. 2017 (arXiv:1707.06347) with generalised advantage estimation
(arXiv:1506.02438). The whole training of one policy (rollouts, updates, periodic
evaluation, early stop) is one compiled call. Context and seed are arguments of it,
so it is compiled once for all policies of a grid. The settings are here, the algorithm
is in `ppo_update.py`.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from taskspace.errors import InvalidInputError
from taskspace.policies import Mlp
from taskspace.systems.base import System
from taskspace.systems.rollouts import Layers
from taskspace.systems.simulated import SimulatedSystem
from taskspace.trainers.base import Region, RegionTrainer, Trained
from taskspace.trainers.ppo_update import ContextSampler, initial_parameters, train

__all__ = ["Ppo"]


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
        # One compilation serves every size of family, and every budget.
        recipe = replace(self, n_policies=1, total_steps=1)
        runs = []
        for child in region.seed(seed).spawn(self.n_policies):
            with jax.enable_x64(False):
                rng = np.random.default_rng(child)
                first = initial_parameters(self, system, rng)
                if start is not None:
                    first = first._replace(actor=_layers_of(start, first.actor))
                trained = train(
                    recipe,
                    system,
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
