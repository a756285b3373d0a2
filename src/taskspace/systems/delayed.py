"""CartPole whose pushes come late."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from taskspace.systems.base import ContextAxis
from taskspace.systems.cartpole import Balancing, CartPole, CartPoleState, advance

MAX_DELAY = 8


class DelayedState(NamedTuple):
    """Cart and pole, and the directions of the last pushes, the newest first."""

    body: CartPoleState
    pushes: jax.Array


@dataclass(frozen=True)
class DelayedCartPole(Balancing):
    """CartPole with a delay between action and push, the seventh context axis.

    A policy sees what it sees in CartPole, not the pushes that are under way. A delay
    between two whole numbers changes the push within the step: its mean force acts.
    Before the first action nothing pushes. Without delay it is CartPole.
    """

    id: ClassVar[str] = "cartpole-delayed-v1"
    context_axes: ClassVar[tuple[ContextAxis, ...]] = (
        *CartPole.context_axes,
        ContextAxis("delay", 1.0, "steps", 0.0, MAX_DELAY, description="of a push"),
    )

    def reset(self, key: jax.Array, context: jax.Array) -> DelayedState:
        """Return a start of CartPole, with no push under way."""
        none = jnp.zeros(MAX_DELAY + 1, context.dtype)
        return DelayedState(CartPole().reset(key, context), none)

    def step(
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

    def observe(self, state: DelayedState, context: jax.Array) -> jax.Array:
        """Return cart and pole."""
        return CartPole().observe(state.body, context)
