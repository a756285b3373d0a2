"""A planar quadrotor that holds its place, with a payload on a cable, in wind."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from taskspace.systems.base import ContextAxis
from taskspace.systems.environment import Environment

MAX_DISTANCE = 3.0


class PlanarQuadrotorState(NamedTuple):
    """Place, tilt and cable angle (0: straight down), then their rates."""

    x: jax.Array
    z: jax.Array
    tilt: jax.Array
    swing: jax.Array
    x_dot: jax.Array
    z_dot: jax.Array
    tilt_dot: jax.Array
    swing_dot: jax.Array


@dataclass(frozen=True)
class PlanarQuadrotor(Environment):
    """Two rotors on a beam, a point mass on a massless cable below its centre.

    A step is worth 1/(1 + x² + z²). An episode ends 3 m from the origin on either axis,
    or tilted by more than 90°. An action in [−1, 1] per rotor goes from no thrust to
    `max_thrust`. Air drags the quadrotor towards the wind's speed; the payload feels
    the cable and gravity only. Steps are semi-implicit Euler.
    """

    horizon: int = 250

    id: ClassVar[str] = "planar-quadrotor-v1"
    n_observations: ClassVar[int] = 10
    action_size: ClassVar[int] = 2
    action_low: ClassVar[float] = -1.0
    action_high: ClassVar[float] = 1.0
    context_axes: ClassVar[tuple[ContextAxis, ...]] = (
        ContextAxis.positive("mass", 1.0, "kg", "of the quadrotor"),
        ContextAxis("payload", 0.2, "kg", low=0.0, description="mass on the cable"),
        ContextAxis.positive("cable_length", 0.5, "m", "quadrotor to payload"),
        ContextAxis.positive("arm", 0.2, "m", "centre to rotor"),
        ContextAxis.positive("max_thrust", 12.0, "N", "of one rotor"),
        ContextAxis.positive("drag", 0.1, "N s/m", "of the air on the quadrotor"),
        ContextAxis("wind", 1.0, "m/s", description="horizontal"),
        ContextAxis("gravity", 9.81, "m/s²", low=0.0, description="gravitation"),
        ContextAxis.positive("time_step", 0.02, "s", "time between two actions"),
    )

    def episode_bounds(self) -> tuple[float, float]:
        """From one step far away to always at the origin."""
        return 0.0, 1.001 * self.horizon

    def reset(self, key: jax.Array, context: jax.Array) -> PlanarQuadrotorState:
        """Within 1 m of the origin, all angles and rates within ±0.2."""
        most = jnp.asarray([1.0, 1.0, *[0.2] * 6], context.dtype)
        start = jax.random.uniform(key, (8,), context.dtype, -1, 1) * most
        return PlanarQuadrotorState(*start)

    def step(
        self,
        state: PlanarQuadrotorState,
        action: jax.Array,
        context: jax.Array,
        key: jax.Array,
    ) -> tuple[PlanarQuadrotorState, jax.Array, jax.Array]:
        """One semi-implicit Euler step; the cable's pull is eliminated in closed form.

        With n the direction from quadrotor to payload, F the force of rotors and air on
        the quadrotor: pull = m·(L·φ̇² − F·n/M) / (1 + m/M).
        """
        del key
        mass, payload, cable, arm, max_thrust, drag, wind, gravity, h = context
        thrust = (jnp.clip(action, -1, 1) + 1) / 2 * max_thrust
        total, turn = thrust[0] + thrust[1], (thrust[1] - thrust[0]) * arm
        fx = -total * jnp.sin(state.tilt) + drag * (wind - state.x_dot)
        fz = total * jnp.cos(state.tilt) - drag * state.z_dot
        nx, nz = jnp.sin(state.swing), -jnp.cos(state.swing)
        pull = cable * state.swing_dot**2 - (fx * nx + fz * nz) / mass
        pull *= payload / (1 + payload / mass)
        ax, az = (fx + pull * nx) / mass, (fz + pull * nz) / mass - gravity
        # The beam is a uniform rod of half-length `arm`.
        rates = (
            state.x_dot + h * ax,
            state.z_dot + h * az,
            state.tilt_dot + h * turn / (mass * arm**2 / 3),
            state.swing_dot - h * (-ax * nz + (az + gravity) * nx) / cable,
        )
        places = (old + h * rate for old, rate in zip(state[:4], rates, strict=True))
        new = PlanarQuadrotorState._make((*places, *rates))
        far = jnp.maximum(jnp.abs(new.x), jnp.abs(new.z)) > MAX_DISTANCE
        reward = 1 / (1 + new.x**2 + new.z**2)
        return new, reward, far | (jnp.abs(new.tilt) > jnp.pi / 2)

    def observe(self, state: PlanarQuadrotorState, context: jax.Array) -> jax.Array:
        """Return the state, with sine and cosine in place of the angles."""
        del context
        waves = (f(angle) for angle in state[2:4] for f in (jnp.sin, jnp.cos))
        return jnp.stack([*state[:2], *waves, *state[4:]])
