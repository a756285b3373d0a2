"""A planar lander: come down softly, upright and on the spot, with little fuel."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from taskspace.systems.base import ContextAxis
from taskspace.systems.environment import Environment

MAX_DISTANCE, MAX_HEIGHT = 6.0, 12.0
TURN = 0.1
"""Thrust of the side engines, as a part of that of the main engine."""


class LanderState(NamedTuple):
    """Place of the centre above the pad, tilt to the left, then their rates."""

    x: jax.Array
    z: jax.Array
    tilt: jax.Array
    x_dot: jax.Array
    z_dot: jax.Array
    tilt_dot: jax.Array


@dataclass(frozen=True)
class Lander(Environment):
    """A body with a main engine below and side engines on top, in wind.

    The first action, in [−1, 1], goes from no thrust to `max_thrust` along the body;
    the second is the push of the side engines, a tenth as strong, at the distance `arm`
    from the centre. The episode ends at the ground (z ≤ 0), 6 m from the pad, 12 m up,
    or tilted by more than 90°. At the ground it is worth 100/(1 + x² + ẋ² + ż² +
    (4·tilt)²), elsewhere nothing; a step costs 0.05 at full thrust. Steps are
    semi-implicit Euler.
    """

    horizon: int = 300

    id: ClassVar[str] = "lander-v1"
    n_observations: ClassVar[int] = 7
    action_size: ClassVar[int] = 2
    action_low: ClassVar[float] = -1.0
    action_high: ClassVar[float] = 1.0
    context_axes: ClassVar[tuple[ContextAxis, ...]] = (
        ContextAxis.positive("mass", 1.0, "kg", "of the lander"),
        ContextAxis.positive("inertia", 0.2, "kg m²", "about its centre"),
        ContextAxis.positive("arm", 0.5, "m", "centre to side engines"),
        ContextAxis.positive("max_thrust", 8.0, "N", "of the main engine"),
        ContextAxis.positive("drag", 0.1, "N s/m", "of the air"),
        ContextAxis("wind", 0.0, "m/s", description="horizontal"),
        ContextAxis.positive("gravity", 3.7, "m/s²", "gravitational acceleration"),
        ContextAxis.positive("time_step", 0.04, "s", "time between two actions"),
    )

    def episode_bounds(self) -> tuple[float, float]:
        """From fuel spent in vain to a perfect touch-down for nothing."""
        return -0.0501 * self.horizon, 100.0

    def reset(self, key: jax.Array, context: jax.Array) -> LanderState:
        """Return a start 5 m up, ±1 m on both axes, with small tilt and speeds."""
        most = jnp.asarray([1.0, 1.0, 0.2, 0.5, 0.5, 0.2], context.dtype)
        start = jax.random.uniform(key, (6,), context.dtype, -1, 1) * most
        return LanderState(*start.at[1].add(5.0))

    def step(
        self,
        state: LanderState,
        action: jax.Array,
        context: jax.Array,
        key: jax.Array,
    ) -> tuple[LanderState, jax.Array, jax.Array]:
        """Return the state after one semi-implicit Euler step."""
        del key
        mass, inertia, arm, max_thrust, drag, wind, gravity, h = context
        throttle = (jnp.clip(action[0], -1, 1) + 1) / 2
        main = throttle * max_thrust
        side = TURN * jnp.clip(action[1], -1, 1) * max_thrust
        sin, cos = jnp.sin(state.tilt), jnp.cos(state.tilt)
        fx = -main * sin - side * cos + drag * (wind - state.x_dot)
        fz = main * cos - side * sin - drag * state.z_dot
        rates = (
            state.x_dot + h * fx / mass,
            state.z_dot + h * (fz / mass - gravity),
            state.tilt_dot + h * side * arm / inertia,
        )
        places = (old + h * rate for old, rate in zip(state[:3], rates, strict=True))
        new = LanderState._make((*places, *rates))
        landed = new.z <= 0
        miss = new.x**2 + new.x_dot**2 + new.z_dot**2 + (4 * new.tilt) ** 2
        worth = jnp.where(landed, 100 / (1 + miss), 0.0) - 0.05 * throttle
        lost = (jnp.abs(new.x) > MAX_DISTANCE) | (new.z > MAX_HEIGHT)
        return new, worth, landed | lost | (jnp.abs(new.tilt) > jnp.pi / 2)

    def observe(self, state: LanderState, context: jax.Array) -> jax.Array:
        """Return the state, with sine and cosine in place of the tilt."""
        del context
        waves = jnp.sin(state.tilt), jnp.cos(state.tilt)
        return jnp.stack([*state[:2], *waves, *state[3:]])
