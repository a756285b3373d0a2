"""One network that sees the context: the alternative to a library of networks.

PPO on episodes whose contexts are drawn from a box, with the context, scaled to
[−1, 1], beside the observation. Such a network, *frozen* at a context, is an ordinary
`Mlp`: what it sees of the context goes into the bias of its first layer. So it can be
played, exported and covered with like any other policy, at the cost of an evaluation.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.errors import InvalidInputError
from taskspace.policies import Mlp
from taskspace.systems.base import ContextAxis
from taskspace.systems.simulated import SimulatedSystem

if TYPE_CHECKING:
    from taskspace.trainers.ppo import Ppo

__all__ = ["ConditionedNetwork", "train_conditioned"]


@dataclass(frozen=True, eq=False)
class ConditionedNetwork:
    """A network that sees the observation and, behind it, the context.

    Args:
        network: one `Mlp` whose last inputs are the contexts of `axes`, scaled.
        axes: names of the axes that it sees, in the order of its inputs.
        low: lower end of each of them in training, scaled to −1.
        high: upper end, scaled to 1.
        environment_steps: simulated steps of its training.
        seed: of its training.
    """

    network: Mlp
    axes: tuple[str, ...]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    environment_steps: int = 0
    seed: int = 0
    kind: ClassVar[str] = "conditioned"

    def __post_init__(self):
        if not (
            len(self.axes) == len(self.low) == len(self.high) < self._n_inputs
            and (np.asarray(self.low) < np.asarray(self.high)).all()
        ):
            raise InvalidInputError(
                "A network that sees the context must have an input, and low < high, "
                f"for each axis and more inputs for observations, but got "
                f"{self._n_inputs} inputs, axes {self.axes}, low={self.low} and "
                f"high={self.high}."
            )

    @property
    def _n_inputs(self) -> int:
        return self.network.weights[0].shape[-2]

    def scaled(self, contexts: ArrayLike) -> NDArray[np.float64]:
        """Contexts as the network sees them.

        Args:
            contexts: values of `axes`, one context per row.
        """
        low, high = np.asarray(self.low), np.asarray(self.high)
        return 2 * (np.asarray(contexts, np.float64) - low) / (high - low) - 1

    def frozen(self, contexts: ArrayLike) -> Mlp:
        """Return the network at fixed contexts: a stack along contexts.

        Args:
            contexts: values of `axes`, one context per row. Outside of `low` to `high`
                the network was never trained.
        """
        seen = self.scaled(contexts)
        n = len(seen)
        weight, bias = self.network.weights[0], self.network.biases[0]
        own, rest = weight[: -len(self.axes)], weight[-len(self.axes) :]
        first = bias + seen @ rest.astype(np.float64)
        tile: Any = [np.broadcast_to(w, (n, *w.shape)) for w in self.network.weights]
        biases: Any = [np.broadcast_to(b, (n, *b.shape)) for b in self.network.biases]
        tile[0] = np.broadcast_to(own, (n, *own.shape))
        biases[0] = first.astype(bias.dtype)
        return replace(self.network, weights=tuple(tile), biases=tuple(biases))

    def returns(
        self,
        system: SimulatedSystem,
        contexts: NDArray[np.float64],
        seen: ArrayLike | None = None,
        *,
        episodes: Sequence[int] | None = None,
    ) -> NDArray[np.float32]:
        """Return at every context in every episode, all in one compiled call.

        The same as that of `frozen` networks, each at its own context.

        Args:
            system: what it was trained for.
            contexts: full context rows, shape `(target, len(system.axes))`.
            seen: what the network is told of each, values of `axes`; the truth where
                not given.
            episodes: numbers of the episodes to play; those of J if left out.
        """
        shown = _columns(system, self.axes)
        rows = np.asarray(contexts, np.float64)
        told = np.zeros_like(rows)
        told[:, shown] = self.scaled(rows[:, shown] if seen is None else seen)
        stage = Sighted(system, shown, draws=False)
        stack = self.network[None, None]
        both = np.concatenate([rows, told], axis=1)
        return stage.returns(stack, both, episodes=episodes)[0, 0]


@dataclass(frozen=True)
class Sighted(SimulatedSystem):
    """A system whose observation ends with its context.

    In place of a context it takes two rows of the inner system's axes: `low` and
    `high`, from which every episode draws its context (`draws`); or the context and,
    scaled, what the policy is told of it.

    Args:
        inner: the system.
        shown: columns of the axes that are seen.
        draws: whether episodes draw their contexts.
    """

    inner: SimulatedSystem
    shown: tuple[int, ...]
    draws: bool
    horizon: int = field(init=False)
    n_episodes: int = field(init=False)
    episode_seed: int = field(init=False)

    id: ClassVar[str] = "sighted"

    def __post_init__(self):
        inner = self.inner
        values = {
            name: getattr(inner, name)
            for name in (
                "horizon", "n_episodes", "episode_seed", "n_actions", "action_size",
                "action_low", "action_high",
            )
        }  # fmt: skip
        values["n_observations"] = inner.n_observations + len(self.shown)
        for name, value in values.items():
            object.__setattr__(self, name, value)
        super().__post_init__()

    @property
    def axes(self) -> tuple[ContextAxis, ...]:
        """Those of the inner system."""
        return self.inner.axes

    @property
    def stop_return(self) -> float | None:
        """That of the inner system."""
        return self.inner.stop_return

    @property
    def solved_return(self) -> float | None:
        """That of the inner system."""
        return self.inner.solved_return

    def reset(self, key: jax.Array, context: jax.Array) -> Any:
        """Return a state of the inner system, its context, and what is told of it."""
        first, second = jnp.split(context, 2)
        if self.draws:
            key_context, key = jax.random.split(key)
            share = jax.random.uniform(key_context, first.shape, context.dtype)
            first, second = first + share * (second - first), 2 * share - 1
        told = second[jnp.asarray(self.shown)]
        return self.inner.reset(key, first), first, told

    def step(
        self, state: Any, action: jax.Array, context: jax.Array, key: jax.Array
    ) -> tuple[Any, jax.Array, jax.Array]:
        """Take a step of the inner system in the context of the episode."""
        del context
        inner, own, told = state
        inner, reward, terminated = self.inner.step(inner, action, own, key)
        return (inner, own, told), reward, terminated

    def observe(self, state: Any, context: jax.Array) -> jax.Array:
        """Return the inner observation, and behind it the context."""
        del context
        inner, own, told = state
        return jnp.concatenate([self.inner.observe(inner, own), told])


def train_conditioned(
    system: SimulatedSystem,
    low: ArrayLike,
    high: ArrayLike,
    *,
    recipe: "Ppo",
    total_steps: int,
    seed: int,
) -> ConditionedNetwork:
    """One network for every context of a box, by PPO.

    Each episode draws its context uniformly from the box. Periodic evaluations, by
    which the kept checkpoint is chosen, do so too.

    Args:
        system: the tasks.
        low: full context row, the lower ends; axes with equal ends are not shown.
        high: full context row, the upper ends.
        recipe: settings of PPO; its budget and its family do not matter.
        total_steps: environment steps, rounded up to whole evaluation periods.
        seed: all randomness comes from it.
    """
    rows = np.asarray(low, np.float64), np.asarray(high, np.float64)
    shown = tuple(np.flatnonzero(rows[0] < rows[1]).tolist())
    if not isinstance(system, SimulatedSystem) or not shown:
        raise InvalidInputError(
            "A network that sees the context is trained in JAX (SimulatedSystem) and "
            "needs low < high on some axis, but got the system "
            f"{system.id!r}, low={rows[0]} and high={rows[1]}."
        )
    alone = replace(recipe, n_policies=1, family="seeds", total_steps=total_steps)
    stage = Sighted(system, shown, draws=True)
    trained = alone.train(stage, np.concatenate(rows)[None], seed=seed)
    return ConditionedNetwork(
        trained.policies[0, 0],
        tuple(system.axes[k].name for k in shown),
        rows[0][list(shown)],
        rows[1][list(shown)],
        int(trained.environment_steps.sum()),
        seed,
    )


def _columns(system: SimulatedSystem, names: Sequence[str]) -> tuple[int, ...]:
    known = [axis.name for axis in system.axes]
    for name in names:
        if name not in known:
            raise InvalidInputError(
                f"The network sees the axis {name!r}, but {system.id} has "
                f"{', '.join(known)}."
            )
    return tuple(known.index(name) for name in names)
