"""Stable-Baselines3 as a trainer: its algorithms, our evaluation.

Every source gets a Gymnasium environment made from its context. What is learned
becomes an `Mlp`: plain arrays that run at our speed, with nothing pickled.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError, MissingExtraError, UnknownNameError
from taskspace.policies import Mlp
from taskspace.progress import Progress
from taskspace.systems.base import System
from taskspace.systems.episodic import FIRST_TRAINING, EpisodicSystem
from taskspace.trainers.base import Trained, Trainer, context_seed

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

__all__ = ["Sb3", "mlp_from_sb3"]

ALGORITHMS = ("PPO", "A2C", "DQN", "SAC", "TD3", "DDPG")


@dataclass(frozen=True)
class Sb3(Trainer):
    """An algorithm of Stable-Baselines3 on Gymnasium environments.

    The defaults are the library's own PPO, the paper's choice. The checkpoint with
    the best evaluation is kept, and training ends once it reaches `stop_return`.

    Args:
        n_policies: policies a source, each from its own seed.
        algorithm: `"PPO"`, `"A2C"`, `"DQN"`, `"SAC"`, `"TD3"` or `"DDPG"`.
        total_steps: environment steps a training.
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
            system: an episodic system with Gymnasium environments.
            contexts: full context rows, shape `(source, len(system.axes))`.
            seed: all randomness comes from it. The random state of PyTorch, NumPy
                and Python is set by it, as Stable-Baselines3 does.
            progress: told how many sources are finished.

        Returns:
            A stack of `Mlp`, with the same log as `Ppo`.
        """
        if not isinstance(system, EpisodicSystem):
            raise InvalidInputError(
                "Sb3 trains systems that are played in episodes (EpisodicSystem), but "
                f"got {system.id}."
            )
        stacks, numbers = [], []
        for row in contexts:
            children = context_seed(seed, row).spawn(self.n_policies)
            family = [self._train_one(system, row, child) for child in children]
            policies, *columns = zip(*family, strict=True)
            stacks.append([policy[None, None] for policy in policies])
            numbers.append(columns)
            if progress is not None:
                progress("train", len(stacks), len(contexts))
        steps, scores, evaluations = np.swapaxes(np.array(numbers, float), 0, 1)
        solved = system.solved_return if system.solved_return is not None else np.inf
        log = {
            "home_return": scores.astype(np.float32),
            "solved": scores >= solved,
            "evaluations": evaluations.astype(np.int32),
        }
        rows = [_join_family(stack) for stack in stacks]
        return Trained(Mlp.concatenate(rows), steps.astype(np.int64), log)

    def _train_one(
        self,
        system: EpisodicSystem,
        context: NDArray[np.float64],
        seed: np.random.SeedSequence,
    ) -> tuple[Mlp, int, float, int]:
        """Best checkpoint, environment steps, its evaluation, and their number."""
        try:
            import stable_baselines3
            from stable_baselines3.common.callbacks import BaseCallback
            from stable_baselines3.common.vec_env import DummyVecEnv
        except ImportError as error:
            raise MissingExtraError("The Sb3 trainer", "rl") from error

        stop = self.stop_return if self.stop_return is not None else system.stop_return
        episodes = range(FIRST_TRAINING, FIRST_TRAINING + self.n_evaluation_episodes)
        kept: list[tuple[Mlp, float]] = []
        evaluated: list[float] = []

        def evaluate(model: "BaseAlgorithm") -> bool:
            """Keep the model if it is the best so far; whether training goes on."""
            policy = mlp_from_sb3(model)
            played = system.returns(
                policy[None, None], context[None], episodes=episodes
            )
            score = float(played.mean(dtype=np.float64))
            evaluated.append(score)
            if not kept or score >= kept[0][1]:
                kept[:] = [(policy, score)]
            return stop is None or score < stop

        class Evaluation(BaseCallback):
            def __init__(self, every: int):
                super().__init__()
                self.every, self.due = every, every

            def _on_step(self) -> bool:
                if self.num_timesteps < self.due:
                    return True
                self.due += self.every
                return evaluate(self.model)

        environments = DummyVecEnv([lambda: system.environment(context)] * self.n_envs)
        algorithm = getattr(stable_baselines3, self.algorithm)
        model = algorithm(
            "MlpPolicy",
            environments,
            seed=int(seed.generate_state(1)[0] >> 1),
            device="cpu",
            **dict(self.options),
        )
        model.learn(self.total_steps, callback=Evaluation(self.evaluate_every))
        if stop is None or kept == [] or kept[0][1] < stop:
            evaluate(model)
        environments.close()
        policy, score = kept[0]
        return policy, int(model.num_timesteps), score, len(evaluated)


def mlp_from_sb3(model: "BaseAlgorithm") -> Mlp:
    """The deterministic policy of a Stable-Baselines3 model with an MLP policy.

    Args:
        model: a trained model of one of `ALGORITHMS`, on vector observations.

    Returns:
        One network, without leading dims, that acts as `model.predict` does with
        `deterministic=True`.
    """
    from gymnasium.spaces import Box

    policy: Any = model.policy
    space = model.action_space
    if hasattr(policy, "mlp_extractor"):  # PPO, A2C
        modules = [*policy.mlp_extractor.policy_net, policy.action_net]
        head = "clip"
    elif hasattr(policy, "q_net"):  # DQN
        modules, head = list(policy.q_net.q_net), "argmax"
    elif hasattr(policy.actor, "latent_pi"):  # SAC
        modules, head = [*policy.actor.latent_pi, policy.actor.mu], "squash"
    else:  # TD3, DDPG: the last module is the squashing tanh
        modules, head = list(policy.actor.mu)[:-1], "squash"
    low, high = -np.inf, np.inf
    if isinstance(space, Box):
        low, high = (
            float(np.unique(bound).item()) for bound in (space.low, space.high)
        )
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
        weights=tuple(m.weight.detach().cpu().numpy().T.copy() for m in linear),
        biases=tuple(m.bias.detach().cpu().numpy().copy() for m in linear),
        head=head,
        activation="tanh" if activations == {"Tanh"} else "relu",
        action_low=low,
        action_high=high,
    )


def _join_family(members: list[Mlp]) -> Mlp:
    """Stacks of shape `(1, 1)` joined along `policy`."""
    arrays = [member.arrays() for member in members]
    return Mlp.from_arrays(
        {name: np.concatenate([a[name] for a in arrays], axis=1) for name in arrays[0]},
        members[0].settings(),
    )
