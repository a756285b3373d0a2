"""Environments that only benchmarks use: Acrobot, late pushes, a planar quadrotor."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from taskspace.systems.base import ContextAxis
from taskspace.systems.cartpole import CartPole, CartPoleState, advance
from taskspace.systems.simulated import Environment

MAX_DELAY = 8
MAX_DISTANCE = 3.0
MAX_SPEEDS = (4 * np.pi, 9 * np.pi)
TORQUES = (-1.0, 0.0, 1.0)


class AcrobotState(NamedTuple):
    """Angle of link 1 from hanging, of link 2 from link 1, and their speeds."""

    theta1: jax.Array
    theta2: jax.Array
    speed1: jax.Array
    speed2: jax.Array


@dataclass(frozen=True)
class Acrobot(Environment):
    """Gymnasium's Acrobot-v1 with eight context axes.

    The task ends when the tip is as high above the pivot as the first link is long; in
    Gymnasium both links count as 1 m there, and its second length changes nothing.
    Centres of mass are in the middle of the links. Each step before the end costs 1.
    """

    id: ClassVar[str] = "acrobot-v1"
    n_observations: ClassVar[int] = 6
    n_actions: ClassVar[int] = 3
    context_axes: ClassVar[tuple[ContextAxis, ...]] = (
        ContextAxis.positive("link_length_1", 1.0, "m", "upper link"),
        ContextAxis.positive("link_length_2", 1.0, "m", "lower link"),
        ContextAxis.positive("link_mass_1", 1.0, "kg", "upper link"),
        ContextAxis.positive("link_mass_2", 1.0, "kg", "lower link"),
        ContextAxis.positive("moment_of_inertia", 1.0, "kg m²", "of each link"),
        ContextAxis.positive("gravity", 9.8, "m/s²", "gravitational acceleration"),
        ContextAxis.positive("torque", 1.0, "N·m", "size of the torque at the joint"),
        ContextAxis.positive("time_step", 0.2, "s", "time between two actions"),
    )

    @property
    def solved_return(self) -> float | None:
        """Gymnasium's own threshold: 100 steps."""
        return -100.0

    def return_bounds(self, contexts: NDArray[np.float64]) -> NDArray[np.float64]:
        """From `horizon` steps in vain to an end with the first."""
        return np.tile((-float(self.horizon), 0.0), (len(contexts), 1))

    def reset(self, key: jax.Array, context: jax.Array) -> AcrobotState:
        """All four coordinates uniform in ±0.1, in every context."""
        return AcrobotState(*jax.random.uniform(key, (4,), context.dtype, -0.1, 0.1))

    def step(
        self,
        state: AcrobotState,
        action: jax.Array,
        context: jax.Array,
        key: jax.Array,
    ) -> tuple[AcrobotState, jax.Array, jax.Array]:
        """One Runge-Kutta step with constant torque."""
        del key
        torque = jnp.asarray(TORQUES, context.dtype)[action] * context[6]
        h = context[7]
        start = jnp.stack(state)
        k1 = _slopes(start, torque, context)
        k2 = _slopes(start + h / 2 * k1, torque, context)
        k3 = _slopes(start + h / 2 * k2, torque, context)
        k4 = _slopes(start + h * k3, torque, context)
        moved = start + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        angles = (moved[:2] + jnp.pi) % (2 * jnp.pi) - jnp.pi
        most = jnp.asarray(MAX_SPEEDS, context.dtype)
        new = AcrobotState(*angles, *jnp.clip(moved[2:], -most, most))
        length1, length2 = context[:2]
        height = -length1 * jnp.cos(new.theta1)
        height -= length2 * jnp.cos(new.theta1 + new.theta2)
        over = height > length1
        return new, jnp.where(over, 0.0, -1.0).astype(context.dtype), over

    def observe(self, state: AcrobotState, context: jax.Array) -> jax.Array:
        """Cosine and sine of both angles, and the speeds."""
        del context
        one, two, speed1, speed2 = state
        waves = jnp.cos(one), jnp.sin(one), jnp.cos(two), jnp.sin(two)
        return jnp.stack([*waves, speed1, speed2])


def _slopes(state: jax.Array, torque: jax.Array, context: jax.Array) -> jax.Array:
    """Time derivative of the state (Sutton and Barto 2018, as in Gymnasium)."""
    theta1, theta2, w1, w2 = state
    l1, l2, m1, m2, inertia, g = context[:6]
    c1, c2 = l1 / 2, l2 / 2
    sin2, cos2 = jnp.sin(theta2), jnp.cos(theta2)
    d1 = m1 * c1**2 + m2 * (l1**2 + c2**2 + 2 * l1 * c2 * cos2) + 2 * inertia
    d2 = m2 * (c2**2 + l1 * c2 * cos2) + inertia
    phi2 = m2 * c2 * g * jnp.sin(theta1 + theta2)
    phi1 = -m2 * l1 * c2 * w2 * (w2 + 2 * w1) * sin2
    phi1 += (m1 * c1 + m2 * l1) * g * jnp.sin(theta1) + phi2
    a2 = torque + d2 / d1 * phi1 - m2 * l1 * c2 * w1**2 * sin2 - phi2
    a2 /= m2 * c2**2 + inertia - d2**2 / d1
    return jnp.stack([w1, w2, -(d2 * a2 + phi1) / d1, a2])


class DelayedState(NamedTuple):
    """Cart and pole, and the directions of the last pushes, the newest first."""

    body: CartPoleState
    pushes: jax.Array


@dataclass(frozen=True)
class DelayedCartPole(CartPole):
    """CartPole with a delay between action and push, the seventh context axis.

    A policy sees what it sees in CartPole, not the pushes that are under way. A delay
    between two whole numbers changes the push within the step: its mean force acts.
    Before the first action nothing pushes. Without delay it is CartPole.
    """

    id: ClassVar[str] = "cartpole-delayed-v1"
    gymnasium_id: ClassVar[str | None] = None
    context_axes: ClassVar[tuple[ContextAxis, ...]] = (
        *CartPole.context_axes,
        ContextAxis("delay", 1.0, "steps", 0.0, MAX_DELAY, description="of a push"),
    )

    def reset(self, key: jax.Array, context: jax.Array) -> DelayedState:  # pyright: ignore
        """Return a start of CartPole, with no push under way."""
        none = jnp.zeros(MAX_DELAY + 1, context.dtype)
        return DelayedState(super().reset(key, context), none)

    def step(  # pyright: ignore
        self,
        state: DelayedState,
        action: jax.Array,
        context: jax.Array,
        key: jax.Array,
    ) -> tuple[DelayedState, jax.Array, jax.Array]:
        """Return the state after a step in which an earlier action pushes."""
        del key
        new = jnp.where(action == 1, 1.0, -1.0).astype(context.dtype)
        pushes = jnp.concatenate([new[None], state.pushes[:-1]])
        late = jnp.interp(context[6], jnp.arange(MAX_DELAY + 1.0), pushes)
        body, reward, fell = advance(state.body, late * context[4], context[:6])
        return DelayedState(body, pushes), reward, fell

    def observe(self, state: DelayedState, context: jax.Array) -> jax.Array:  # pyright: ignore
        """Return cart and pole."""
        return super().observe(state.body, context)


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

    def return_bounds(self, contexts: NDArray[np.float64]) -> NDArray[np.float64]:
        """From one step far away to always at the origin."""
        return np.tile((0.0, 1.001 * self.horizon), (len(contexts), 1))

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
