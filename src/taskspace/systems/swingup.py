"""CartPole swing-up: the pole hangs, must be swung up by a limited force, and held."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from taskspace.systems.base import ContextAxis
from taskspace.systems.cartpole import (
    MAX_POSITION,
    CartPole,
    CartPoleState,
    accelerations,
)
from taskspace.systems.environment import Environment


@dataclass(frozen=True)
class SwingUp(Environment):
    """A cart on a rail of ±2.4 m, with a pole that hangs down at the start.

    A step is worth (1 + cos θ)/2, θ the angle from upright; leaving the rail ends the
    episode. The action, in [−1, 1], is the part of `force` that pushes the cart. Steps
    are semi-implicit Euler. The pole is a uniform rod, as in CartPole.
    """

    id: ClassVar[str] = "swingup-v1"
    n_observations: ClassVar[int] = 5
    action_size: ClassVar[int] = 1
    action_low: ClassVar[float] = -1.0
    action_high: ClassVar[float] = 1.0
    context_axes: ClassVar[tuple[ContextAxis, ...]] = (
        *CartPole.context_axes[:5],
        ContextAxis("cart_friction", 0.1, "N s/m", low=0.0, description="of the cart"),
        ContextAxis(
            "joint_friction", 0.001, "N m s", low=0.0, description="of the pole"
        ),
        CartPole.context_axes[5],
    )

    def episode_bounds(self) -> tuple[float, float]:
        """From a pole that always hangs to one that is always upright."""
        return 0.0, 1.001 * self.horizon

    def reset(self, key: jax.Array, context: jax.Array) -> CartPoleState:
        """All coordinates within ±0.05 of rest in the middle of the rail, hanging."""
        start = jax.random.uniform(key, (4,), context.dtype, -0.05, 0.05)
        return CartPoleState(start[0], start[1], start[2] + jnp.pi, start[3])

    def step(
        self,
        state: CartPoleState,
        action: jax.Array,
        context: jax.Array,
        key: jax.Array,
    ) -> tuple[CartPoleState, jax.Array, jax.Array]:
        """One semi-implicit Euler step; both frictions are proportional to speed."""
        del key
        x, x_dot, theta, theta_dot = state
        pole_length, cart_mass, pole_mass, gravity, force = context[:5]
        cart_friction, joint_friction, time_step = context[5:]
        x_acc, theta_acc = accelerations(
            theta,
            theta_dot,
            force * jnp.clip(action[0], -1, 1) - cart_friction * x_dot,
            pole_length=pole_length,
            cart_mass=cart_mass,
            pole_mass=pole_mass,
            gravity=gravity,
            drag=joint_friction * theta_dot,
        )
        x_dot = x_dot + time_step * x_acc
        theta_dot = theta_dot + time_step * theta_acc
        new = CartPoleState(
            x + time_step * x_dot, x_dot, theta + time_step * theta_dot, theta_dot
        )
        reward = (1 + jnp.cos(new.theta)) / 2
        return new, reward, jnp.abs(new.x) > MAX_POSITION

    def observe(self, state: CartPoleState, context: jax.Array) -> jax.Array:
        """Return the state, with cosine and sine in place of the angle."""
        del context
        x, x_dot, theta, theta_dot = state
        return jnp.stack([x, x_dot, jnp.cos(theta), jnp.sin(theta), theta_dot])
