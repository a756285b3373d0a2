"""Pendulum: swing up and hold with a limited torque, Gymnasium's physics."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.errors import MissingExtraError
from taskspace.systems.base import ContextAxis
from taskspace.systems.gymnasium_axes import MAX_SPEED, pendulum_bounds
from taskspace.systems.simulated import SimulatedSystem

if TYPE_CHECKING:
    import gymnasium

__all__ = ["Pendulum", "PendulumState"]


class PendulumState(NamedTuple):
    """Angle from upright and angular velocity."""

    theta: jax.Array
    theta_dot: jax.Array


@dataclass(frozen=True)
class Pendulum(SimulatedSystem):
    """Gymnasium's Pendulum-v1 with five context axes.

    The reward of a step is −(θ² + 0.1·θ̇² + 0.001·u²), θ the angle from upright in
    [−π, π) and u the torque. The actuator limits the torque to ±`max_torque` of
    the context, so a policy's output is not limited otherwise.

    Args:
        horizon: steps of an episode; it never ends before.
        n_episodes: episodes that make up one performance.
        episode_seed: seed of the initial states.
    """

    horizon: int = 200
    n_episodes: int = 32
    episode_seed: int = 0

    id: ClassVar[str] = "pendulum-v1"
    n_observations: ClassVar[int] = 3
    action_size: ClassVar[int] = 1

    @property
    def axes(self) -> tuple[ContextAxis, ...]:
        """Mass, length, gravity, time step and largest torque."""
        return _AXES

    def return_bounds(self, contexts: NDArray[np.float64]) -> NDArray[np.float64]:
        """From the dearest possible step, `horizon` times, to none.

        Args:
            contexts: full context rows, shape `(target, len(axes))`.
        """
        column = [axis.name for axis in self.axes].index("max_torque")
        return np.array([pendulum_bounds(u, self.horizon) for u in contexts[:, column]])

    def reset(self, key: jax.Array, context: jax.Array) -> PendulumState:
        """Angle uniform in ±π, velocity uniform in ±1, in every context."""
        high = jnp.asarray([jnp.pi, 1.0], context.dtype)
        start = jax.random.uniform(key, (2,), context.dtype, -1, 1) * high
        return PendulumState(*start)

    def step(
        self,
        state: PendulumState,
        action: jax.Array,
        context: jax.Array,
        key: jax.Array,
    ) -> tuple[PendulumState, jax.Array, jax.Array]:
        """One semi-implicit Euler step of a rod; no step terminates an episode."""
        del key
        theta, theta_dot = state
        mass, length, gravity, time_step, max_torque = context
        torque = jnp.clip(action[0], -max_torque, max_torque)
        angle = (theta + jnp.pi) % (2 * jnp.pi) - jnp.pi
        cost = angle**2 + 0.1 * theta_dot**2 + 0.001 * torque**2
        acceleration = 1.5 * gravity / length * jnp.sin(theta)
        acceleration += 3 / (mass * length**2) * torque
        speed = theta_dot + acceleration * time_step
        speed = jnp.clip(speed, -MAX_SPEED, MAX_SPEED)
        new = PendulumState(theta + speed * time_step, speed)
        return new, -cost, jnp.zeros_like(theta, bool)

    def observe(self, state: PendulumState, context: jax.Array) -> jax.Array:
        """Cosine and sine of the angle, and the velocity."""
        del context
        theta, theta_dot = state
        return jnp.stack([jnp.cos(theta), jnp.sin(theta), theta_dot])

    def environment(self, context: ArrayLike, **kwargs: Any) -> "gymnasium.Env":
        """A Gymnasium Pendulum-v1 whose physics is that of one context.

        Args:
            context: full context row, in the order of `axes`.
            kwargs: passed on to `gymnasium.make`.
        """
        try:
            import gymnasium
        except ImportError as error:
            raise MissingExtraError("A Gymnasium environment", "rl") from error
        kwargs.setdefault("max_episode_steps", self.horizon)
        # The checker would compare actions with the bounds of the default torque.
        kwargs.setdefault("disable_env_checker", True)
        environment = gymnasium.make("Pendulum-v1", **kwargs)
        physics: Any = environment.unwrapped
        row = np.asarray(context, float).tolist()
        physics.m, physics.l, physics.g, physics.dt, physics.max_torque = row
        physics.action_space = gymnasium.spaces.Box(
            -physics.max_torque, physics.max_torque, (1,), np.float32
        )
        return environment


_AXES = (
    ContextAxis.positive("mass", 1.0, "kg", "of the rod"),
    ContextAxis.positive("length", 1.0, "m", "of the rod"),
    ContextAxis(
        "gravity", 10.0, "m/s²", low=0.0, description="gravitational acceleration"
    ),
    ContextAxis.positive("time_step", 0.05, "s", "time between two actions"),
    ContextAxis(
        "max_torque",
        2.0,
        "N·m",
        low=0.0,
        description="limit of the torque in both directions",
    ),
)
