"""Episodic systems given by JAX functions.

A subclass says how one environment starts, moves and is seen; `rollouts`
plays every policy at every context. JAX is imported when episodes are played.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.errors import InvalidInputError
from taskspace.policies import LinearGain, Mlp, Policy
from taskspace.systems.base import ContextAxis
from taskspace.systems.episodic import EpisodicSystem, Head
from taskspace.systems.gymnasium import GymnasiumSystem

if TYPE_CHECKING:
    import gymnasium
    import jax


class SimulatedSystem(EpisodicSystem):
    """A system simulated step by step in JAX.

    The three physics functions are pure, treat one environment, and compute every
    derived quantity from `context`: a 1-d array in the order of `axes`. They run in
    the precision of their arguments; training and evaluation use float32.
    """

    n_observations: ClassVar[int]
    """Length of an observation."""
    n_actions: ClassVar[int] = 0
    """Number of discrete actions `0, 1, …`; 0 for continuous actions."""
    action_size: ClassVar[int] = 0
    """Length of a continuous action; 0 for discrete actions."""
    action_low: ClassVar[float] = -np.inf
    """Smallest continuous action that a policy gives."""
    action_high: ClassVar[float] = np.inf
    """Largest continuous action that a policy gives."""

    @abstractmethod
    def reset(self, key: "jax.Array", context: "jax.Array") -> Any:
        """Draw an initial state: any pytree of scalars and arrays.

        Args:
            key: a JAX random key.
            context: context of this environment, shape `(len(axes),)`.
        """

    @abstractmethod
    def step(
        self, state: Any, action: "jax.Array", context: "jax.Array", key: "jax.Array"
    ) -> "tuple[Any, jax.Array, jax.Array]":
        """Advance the environment by one step.

        Args:
            state: the state before the step.
            action: an integer, or a vector of length `action_size`.
            context: context of this environment, shape `(len(axes),)`.
            key: a JAX random key for noise of this step.

        Returns:
            The next state, the reward, and whether the episode terminated.
        """

    @abstractmethod
    def observe(self, state: Any, context: "jax.Array") -> "jax.Array":
        """Return what a policy sees of a state, shape `(n_observations,)`.

        Args:
            state: a state of the environment.
            context: context of this environment, shape `(len(axes),)`.
        """

    def network_sizes(self) -> tuple[int, int, Head]:
        """Return inputs, outputs and head of a network that plays it."""
        n_out = self.n_actions or self.action_size
        return self.n_observations, n_out, "argmax" if self.n_actions else "clip"

    def returns(
        self,
        policies: Policy,
        contexts: NDArray[np.float64],
        *,
        episodes: Sequence[int] | None = None,
    ) -> NDArray[np.float32]:
        """Play every policy at every context in every episode.

        Policies act deterministically (most probable action, or the mean). A
        return that is not a number becomes −inf.

        Args:
            policies: a stack with leading dims `(source, policy)`: `Mlp`, or
                `LinearGain` for continuous actions.
            contexts: full context rows, shape `(target, len(axes))`.
            episodes: numbers of the episodes to play; those of J if left out.

        Returns:
            Sums of rewards, dims `(source, policy, target, episode)`.
        """
        import jax

        from taskspace.systems.rollouts import Head, play_stack

        numbers = self.episode_numbers(episodes)
        policies = self._checked(policies)
        leading = policies.biases[0].shape[:-1]
        layers = tuple(
            (
                np.asarray(weight, np.float32).reshape(-1, *weight.shape[-2:]),
                np.asarray(bias, np.float32).reshape(-1, bias.shape[-1]),
            )
            for weight, bias in zip(policies.weights, policies.biases, strict=True)
        )
        head = Head.of(policies)
        # Padded, so that few sizes are compiled when the number of targets changes.
        n_rows = 1 << (len(contexts) - 1).bit_length()
        rows = np.asarray(contexts, np.float32)
        rows = np.pad(rows, ((0, n_rows - len(rows)), (0, 0)), mode="edge")
        with jax.enable_x64(False):
            sums = play_stack(
                self, layers, head, rows, len(contexts), numbers.astype(np.int32)
            )
        played = np.asarray(sums).reshape(*leading, n_rows, len(numbers))
        return np.ascontiguousarray(played[..., : len(contexts), :])

    def _checked(self, policies: Policy) -> Mlp:
        """Return the stack as networks whose head and sizes fit this system."""
        if isinstance(policies, LinearGain):
            gain = policies.gain.astype(np.float32)
            zero = np.zeros(gain.shape[:-1], np.float32)
            policies = Mlp((-gain.swapaxes(-1, -2),), (zero,), head="clip")
        if not isinstance(policies, Mlp):
            raise InvalidInputError(
                f"{self.id} plays policies of kind 'mlp' or 'linear-gain', "
                f"but got kind {policies.kind!r}."
            )
        heads = ("argmax",) if self.n_actions else ("clip", "squash")
        sizes = self.n_observations, self.n_actions or self.action_size
        got = policies.weights[0].shape[-2], policies.biases[-1].shape[-1]
        if policies.head not in heads or got != sizes:
            raise InvalidInputError(
                f"A policy of {self.id} must have {sizes[0]} inputs, {sizes[1]} "
                f"outputs and the head {' or '.join(map(repr, heads))}, but got "
                f"{got[0]} inputs, {got[1]} outputs and the head {policies.head!r}."
            )
        return policies


@dataclass(frozen=True)
class Environment(SimulatedSystem):
    """A simulated system with the usual settings.

    Args:
        horizon: steps after which an episode is cut.
        n_episodes: episodes that make up one performance.
        episode_seed: seed of the initial states.
    """

    horizon: int = 500
    n_episodes: int = 32
    episode_seed: int = 0

    context_axes: ClassVar[tuple[ContextAxis, ...]]
    """The axes, in the order of a context."""
    gymnasium_id: ClassVar[str | None] = None
    """Gymnasium's name of an environment with the same axes and physics."""

    @property
    def axes(self) -> tuple[ContextAxis, ...]:
        """The context axes."""
        return self.context_axes

    def environment(self, context: ArrayLike, **kwargs: Any) -> "gymnasium.Env":
        """Return Gymnasium's environment with the physics of one context.

        Args:
            context: full context row, in the order of `axes`.
            kwargs: passed on to `gymnasium.make`.
        """
        if self.gymnasium_id is None:
            return super().environment(context, **kwargs)
        system = GymnasiumSystem(self.gymnasium_id, horizon=self.horizon)
        return system.environment(context, **kwargs)
