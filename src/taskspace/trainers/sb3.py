"""Stable-Baselines3 as a trainer: its algorithms, our evaluation.

Every source gets a Gymnasium environment made from its context. What is learned
becomes an `Mlp`: plain arrays that run at our speed, with nothing pickled.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError, MissingExtraError, UnknownNameError
from taskspace.policies import Mlp
from taskspace.systems.base import System
from taskspace.systems.episodic import FIRST_TRAINING, EpisodicSystem
from taskspace.trainers.base import Region, RegionTrainer, Trained

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

__all__ = ["Sb3", "mlp_from_sb3"]

ALGORITHMS = ("PPO", "A2C", "DQN", "SAC", "TD3", "DDPG")


@dataclass(frozen=True)
class Sb3(RegionTrainer[Mlp]):
    """An algorithm of Stable-Baselines3 on Gymnasium environments.

    The defaults are the library's own PPO, the paper's choice. The checkpoint with
    the best evaluation is kept, and training ends once it reaches `stop_return`.

    Args:
        n_policies: policies per source, each from its own seed.
        algorithm: `"PPO"`, `"A2C"`, `"DQN"`, `"SAC"`, `"TD3"` or `"DDPG"`.
        total_steps: environment steps per training.
        n_envs: environments that are stepped side by side.
        evaluate_every: environment steps between two evaluations.
        n_evaluation_episodes: episodes of one evaluation, with the deterministic
            policy and initial states other than those of the system's performance.
        stop_return: mean return that ends training; `None` takes the system's.
        options: further arguments of the algorithm, e.g. `{"learning_rate": 1e-3}`.
    """

    n_policies: int = 3
    algorithm: str = "PPO"
    total_steps: int = 200_000
    n_envs: int = 1
    evaluate_every: int = 10_000
    n_evaluation_episodes: int = 100
    stop_return: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    id: ClassVar[str] = "sb3"
    sources_per_block: ClassVar[int] = 1

    def __post_init__(self):
        if self.algorithm not in ALGORITHMS:
            raise UnknownNameError("SB3 algorithm", self.algorithm, ALGORITHMS)
        for name in ("n_policies", "total_steps", "n_envs", "evaluate_every"):
            if getattr(self, name) < 1:
                raise InvalidInputError(
                    f"{name} >= 1 must hold, but got {name}={getattr(self, name)}."
                )

    def train_region(
        self,
        system: System,
        region: Region,
        *,
        seed: int,
        start: Mlp | None = None,
    ) -> Trained[Mlp]:
        """Train one family for a region.

        Args:
            system: an episodic system with Gymnasium environments.
            region: where the contexts of the episodes are drawn from, in evaluations
                too.
            seed: all randomness comes from it. The random state of PyTorch, NumPy
                and Python is set by it, as Stable-Baselines3 does.
            start: a network to begin from, without leading dims and with the widths
                of the algorithm's actor; from random weights if left out.

        Returns:
            A stack of `Mlp` with one source, with the same log as `Ppo`.
        """
        if not isinstance(system, EpisodicSystem):
            raise InvalidInputError(
                "Sb3 trains systems that are played in episodes (EpisodicSystem), but "
                f"got {system.id}."
            )
        rows = []
        for child in region.seed(seed).spawn(self.n_policies):
            word = int(child.generate_state(1)[0] >> 1)
            n_steps, checkpoints = self._checkpoints(system, region, word, start)
            own = [score for _, score in checkpoints]
            last = len(own) - 1 - int(np.argmax(own[::-1]))  # of two equal ones
            since_best = len(own) - 1 - last
            rows.append((*checkpoints[last], n_steps, len(own), since_best))
        best, *columns = zip(*rows, strict=True)
        scores, steps, evaluations, since_best = np.array(columns, float)[:, None]
        solved = system.solved_return if system.solved_return is not None else np.inf
        log = {
            "home_return": scores.astype(np.float32),
            "solved": scores >= solved,
            "evaluations": evaluations.astype(np.int32),
            "since_best": since_best.astype(np.int32),
        }
        arrays = [policy.arrays() for policy in best]
        joined = {name: np.stack([a[name] for a in arrays])[None] for name in arrays[0]}
        stack = Mlp.from_arrays(joined, best[0].settings())
        return Trained(stack, steps.astype(np.int64), log)

    def _checkpoints(
        self, system: EpisodicSystem, region: Region, seed: int, start: Mlp | None
    ) -> tuple[int, list[tuple[Mlp, float]]]:
        """Return the steps of one training, and its policies with their evaluations."""
        try:
            import stable_baselines3
            from stable_baselines3.common.vec_env import DummyVecEnv
        except ImportError as error:
            raise MissingExtraError("The Sb3 trainer", "rl") from error

        stop = self.stop_return if self.stop_return is not None else system.stop_return
        stop = np.inf if stop is None else stop
        found: list[tuple[Mlp, float]] = []
        due = self.evaluate_every

        def evaluate(model: "BaseAlgorithm") -> bool:
            """Note the policy and its evaluation; return whether training goes on."""
            policy = mlp_from_sb3(model)
            found.append((policy, self._evaluate(system, region, policy)))
            return found[-1][1] < stop

        def on_step(variables: dict[str, Any], _: dict[str, Any]) -> bool:
            nonlocal due
            model = variables["self"]
            if model.num_timesteps < due:
                return True
            due += self.evaluate_every
            return evaluate(model)

        environments = DummyVecEnv(
            [
                partial(_environment, system, region, seed + i)
                for i in range(self.n_envs)
            ]
        )
        algorithm = getattr(stable_baselines3, self.algorithm)
        model = algorithm(
            "MlpPolicy", environments, seed=seed, device="cpu", **dict(self.options)
        )
        if start is not None:
            _begin_from(model, start)
            evaluate(model)
        model.learn(self.total_steps, callback=on_step)
        if not found or found[-1][1] < stop:
            evaluate(model)
        environments.close()
        return int(model.num_timesteps), found

    def _evaluate(self, system: EpisodicSystem, region: Region, policy: Mlp) -> float:
        """Return the mean return, with contexts spread evenly over the region."""
        n = self.n_evaluation_episodes
        rows = region.draw((np.arange(n) + 0.5) / n)
        kinds, place = np.unique(rows, axis=0, return_inverse=True)
        numbers = FIRST_TRAINING + np.arange(n)
        played = [
            system.returns(
                policy[None, None],
                kinds[k : k + 1],
                episodes=numbers[place.ravel() == k].tolist(),
            ).ravel()
            for k in range(len(kinds))
        ]
        return float(np.concatenate(played).mean(dtype=np.float64))


def _environment(system: EpisodicSystem, region: Region, seed: int) -> Any:
    """Return an environment whose episodes draw their contexts from a region."""
    import gymnasium

    if len(region.contexts) == 1:
        return system.environment(region.contexts[0])

    class Drawn(gymnasium.Wrapper):
        """Every episode in the environment of another context."""

        def __init__(self):
            self.rng = np.random.default_rng(seed)
            self.made: dict[bytes, gymnasium.Env] = {}
            super().__init__(self.at(region.contexts[0]))

        def at(self, row: NDArray[np.float64]) -> gymnasium.Env:
            if row.tobytes() not in self.made:
                self.made[row.tobytes()] = inner = system.environment(row)
                inner.reset(seed=int(self.rng.integers(2**31)))
            return self.made[row.tobytes()]

        def reset(self, *, seed=None, options=None):
            del seed  # that of the draws is given; environments are seeded by it
            self.env = self.at(region.draw(self.rng.random()))
            return self.env.reset(options=options)

        def close(self):
            for inner in self.made.values():
                inner.close()

    return Drawn()


def _begin_from(model: "BaseAlgorithm", start: Mlp) -> None:
    """Give the actor of a model the weights of a policy."""
    import torch

    linear = _actor(model)[0][::2]
    sizes = [tuple(module.weight.T.shape) for module in linear]
    shapes = [weight.shape for weight in start.weights]
    if shapes != sizes:
        raise InvalidInputError(
            f"A training that begins from a policy needs a network of {sizes}, but got "
            f"{shapes}. Set policy_kwargs={{'net_arch': …}} to its widths."
        )
    with torch.no_grad():
        for i, module in enumerate(linear):
            module.weight.copy_(torch.as_tensor(start.weights[i].T.copy()))
            module.bias.copy_(torch.as_tensor(start.biases[i].copy()))


def mlp_from_sb3(model: "BaseAlgorithm") -> Mlp:
    """Return the deterministic policy of a Stable-Baselines3 model with an MLP policy.

    Args:
        model: a trained model of one of `ALGORITHMS`, on vector observations.

    Returns:
        One network, without leading dims, that acts as `model.predict` does with
        `deterministic=True`.
    """
    from gymnasium.spaces import Box

    space = model.action_space
    modules, head = _actor(model)
    ends = -np.inf, np.inf
    if isinstance(space, Box):
        ends = (float(np.unique(bound).item()) for bound in (space.low, space.high))
    else:
        head = "argmax"
    linear = modules[::2]
    activations = {type(module).__name__ for module in modules[1::2]} or {"Tanh"}
    if activations not in ({"Tanh"}, {"ReLU"}):
        raise InvalidInputError(
            "An Mlp has tanh or ReLU layers, but the Stable-Baselines3 policy has "
            f"{sorted(activations)}. Set policy_kwargs={{'activation_fn': nn.Tanh}}."
        )
    return Mlp(
        tuple(m.weight.detach().cpu().numpy().T.copy() for m in linear),
        tuple(m.bias.detach().cpu().numpy().copy() for m in linear),
        head,
        "tanh" if activations == {"Tanh"} else "relu",
        *ends,
    )


def _actor(model: "BaseAlgorithm") -> tuple[list[Any], Any]:
    """Return linear layers with activations between them, and the head of `Mlp`."""
    policy: Any = model.policy
    if hasattr(policy, "mlp_extractor"):  # PPO, A2C
        return [*policy.mlp_extractor.policy_net, policy.action_net], "clip"
    if hasattr(policy, "q_net"):  # DQN
        return list(policy.q_net.q_net), "argmax"
    if hasattr(policy.actor, "latent_pi"):  # SAC
        return [*policy.actor.latent_pi, policy.actor.mu], "squash"
    # TD3, DDPG: the last module is the squashing tanh
    return list(policy.actor.mu)[:-1], "squash"
