"""Pendulum: swing up and hold with a limited torque, Gymnasium's physics."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from taskspace.systems.base import ContextAxis
from taskspace.systems.gymnasium import (
    PENDULUM_SPEED,
    READY,
    pendulum_bounds,
)
from taskspace.systems.simulated import Environment


class PendulumState(NamedTuple):
    """Angle from upright and angular velocity."""

    theta: jax.Array
    theta_dot: jax.Array


@dataclass(frozen=True)
class Pendulum(Environment):
    """Gymnasium's Pendulum-v1 with five context axes.

    The reward of a step is −(θ² + 0.1·θ̇² + 0.001·u²), θ the angle from upright in
    [−π, π) and u the torque. The actuator limits the torque to ±`max_torque` of
    the context, so a policy's output is not limited otherwise.
    """

    horizon: int = 200

    id: ClassVar[str] = "pendulum-v1"
    n_observations: ClassVar[int] = 3
    action_size: ClassVar[int] = 1
    context_axes: ClassVar[tuple[ContextAxis, ...]] = READY["Pendulum-v1"].axes
    gymnasium_id: ClassVar[str | None] = "Pendulum-v1"

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
        speed = jnp.clip(speed, -PENDULUM_SPEED, PENDULUM_SPEED)
        new = PendulumState(theta + speed * time_step, speed)
        return new, -cost, jnp.zeros_like(theta, bool)

    def observe(self, state: PendulumState, context: jax.Array) -> jax.Array:
        """Cosine and sine of the angle, and the velocity."""
        del context
        theta, theta_dot = state
        return jnp.stack([jnp.cos(theta), jnp.sin(theta), theta_dot])
