"""CartPole: balance a pole on a cart, with Gymnasium's physics in every context."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from taskspace.systems.base import ContextAxis
from taskspace.systems.gymnasium import READY
from taskspace.systems.simulated import Environment

MAX_POSITION = 2.4
MAX_ANGLE = 12 * 2 * np.pi / 360
START = 0.05


class CartPoleState(NamedTuple):
    """Position and velocity of the cart, angle and angular velocity of the pole."""

    x: jax.Array
    x_dot: jax.Array
    theta: jax.Array
    theta_dot: jax.Array


@dataclass(frozen=True)
class CartPole(Environment):
    """Gymnasium's CartPole-v1 with six context axes.

    `pole_length` is the parameter that Gymnasium and CARL call `length`: the
    distance from the pivot to the pole's centre of mass, which is **half** of the
    pole. The total mass and the pole's moment follow the context in every step.
    The return is the number of steps that the pole stays up, `horizon` at most.
    """

    id: ClassVar[str] = "cartpole-v1"
    n_observations: ClassVar[int] = 4
    n_actions: ClassVar[int] = 2
    context_axes: ClassVar[tuple[ContextAxis, ...]] = READY["CartPole-v1"].axes
    gymnasium_id: ClassVar[str | None] = "CartPole-v1"

    @property
    def solved_return(self) -> float | None:
        """Gymnasium's own threshold: 475 of 500 steps."""
        return 0.95 * self.horizon

    @property
    def stop_return(self) -> float | None:
        """One step short of the most that there is: 499 of 500."""
        return self.horizon - 1.0

    def return_bounds(self, contexts: NDArray[np.float64]) -> NDArray[np.float64]:
        """From one step, after which the pole has fallen, to `horizon`."""
        return np.tile((1.0, float(self.horizon)), (len(contexts), 1))

    def reset(self, key: jax.Array, context: jax.Array) -> CartPoleState:
        """All four coordinates uniform in ±0.05, in every context."""
        start = jax.random.uniform(key, (4,), context.dtype, -START, START)
        return CartPoleState(*start)

    def step(
        self,
        state: CartPoleState,
        action: jax.Array,
        context: jax.Array,
        key: jax.Array,
    ) -> tuple[CartPoleState, jax.Array, jax.Array]:
        """One Euler step; action 1 pushes to the right, 0 to the left."""
        del key
        push = jnp.where(action == 1, context[4], -context[4])
        return advance(state, push, context)

    def observe(self, state: CartPoleState, context: jax.Array) -> jax.Array:
        """Return the whole state."""
        del context
        return jnp.stack(state)


def advance(
    state: CartPoleState, push: jax.Array, context: jax.Array
) -> tuple[CartPoleState, jax.Array, jax.Array]:
    """Return the state after one Euler step, the reward, and whether the pole fell.

    The equations are those of https://coneural.org/florian/papers/05_cart_pole.pdf
    without friction, as in Gymnasium.

    Args:
        state: the state before.
        push: force on the cart.
        context: context row of CartPole.
    """
    x, x_dot, theta, theta_dot = state
    pole_length, cart_mass, pole_mass, gravity, _, time_step = context
    total_mass = cart_mass + pole_mass
    sin, cos = jnp.sin(theta), jnp.cos(theta)
    swing = (push + pole_mass * pole_length * theta_dot**2 * sin) / total_mass
    theta_acc = (gravity * sin - cos * swing) / (
        pole_length * (4 / 3 - pole_mass * cos**2 / total_mass)
    )
    x_acc = swing - pole_mass * pole_length * theta_acc * cos / total_mass
    new = CartPoleState(
        x + time_step * x_dot,
        x_dot + time_step * x_acc,
        theta + time_step * theta_dot,
        theta_dot + time_step * theta_acc,
    )
    fell = (jnp.abs(new.x) > MAX_POSITION) | (jnp.abs(new.theta) > MAX_ANGLE)
    return new, jnp.ones_like(x), fell
