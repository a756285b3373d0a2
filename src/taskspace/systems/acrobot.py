"""Acrobot: swing a double pendulum up by a torque at its middle joint."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from taskspace.systems.base import ContextAxis
from taskspace.systems.environment import Environment

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

    def episode_bounds(self) -> tuple[float, float]:
        """From `horizon` steps in vain to an end with the first."""
        return -float(self.horizon), 0.0

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
