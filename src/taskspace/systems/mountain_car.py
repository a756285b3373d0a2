"""Mountain car: a car too weak for a hill must gather speed; continuous throttle."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from taskspace.systems.base import ContextAxis
from taskspace.systems.environment import Environment

POSITIONS = (-1.2, 0.6)


class MountainCarState(NamedTuple):
    """Position and velocity, in Gymnasium's units of a step."""

    position: jax.Array
    velocity: jax.Array


@dataclass(frozen=True)
class MountainCar(Environment):
    """Gymnasium's MountainCarContinuous-v0 with four context axes.

    Reaching the goal is worth 100 and ends the episode; a step with the throttle a, in
    [−1, 1], costs 0.1·a². Doing nothing is worth 0, and random throttles seldom reach
    the goal, so PPO often learns to stand still.
    """

    horizon: int = 999

    id: ClassVar[str] = "mountaincar-v1"
    n_observations: ClassVar[int] = 2
    action_size: ClassVar[int] = 1
    action_low: ClassVar[float] = -1.0
    action_high: ClassVar[float] = 1.0
    context_axes: ClassVar[tuple[ContextAxis, ...]] = (
        ContextAxis.positive("power", 0.0015, "", "acceleration of full throttle"),
        ContextAxis.positive("gravity", 0.0025, "", "steepness of the hills"),
        ContextAxis.positive("max_speed", 0.07, "1/step", "limit in both directions"),
        ContextAxis(
            "goal",
            0.45,
            "",
            low=-0.4,
            high=POSITIONS[1],
            description="position to reach",
        ),
    )

    @property
    def solved_return(self) -> float | None:
        """Gymnasium's own threshold."""
        return 90.0

    def episode_bounds(self) -> tuple[float, float]:
        """From full throttle in vain to the goal for nothing."""
        return -0.1001 * self.horizon, 100.0

    def reset(self, key: jax.Array, context: jax.Array) -> MountainCarState:
        """At rest, uniform in −0.6 to −0.4, about the valley's floor."""
        position = jax.random.uniform(key, (), context.dtype, -0.6, -0.4)
        return MountainCarState(position, jnp.zeros_like(position))

    def step(
        self,
        state: MountainCarState,
        action: jax.Array,
        context: jax.Array,
        key: jax.Array,
    ) -> tuple[MountainCarState, jax.Array, jax.Array]:
        """One step of a car on the curve sin 3x; a wall stops it on the left."""
        del key
        power, gravity, max_speed, goal = context
        throttle = jnp.clip(action[0], -1, 1)
        velocity = state.velocity + throttle * power
        velocity -= gravity * jnp.cos(3 * state.position)
        velocity = jnp.clip(velocity, -max_speed, max_speed)
        low, high = POSITIONS
        position = jnp.clip(state.position + velocity, low, high)
        velocity = jnp.where((position <= low) & (velocity < 0), 0, velocity)
        over = (position >= goal) & (velocity >= 0)
        reward = jnp.where(over, 100.0, 0.0) - 0.1 * action[0] ** 2
        new = MountainCarState(position, velocity)
        return new, reward.astype(context.dtype), over

    def observe(self, state: MountainCarState, context: jax.Array) -> jax.Array:
        """Return the state."""
        del context
        return jnp.stack(state)
