"""A system of your own in JAX: a boat that holds its place in a current.

Written in JAX, a system is played by thousands of policies at once and trained by the
built-in PPO. Say how one environment starts, moves and is seen; the rest is done.

    python examples/jax_system.py
    taskspace doctor jax_system:Boat          (in the directory of this file)
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

import taskspace as ts
from taskspace.systems import ContextAxis, SimulatedSystem
from taskspace.testing import system_checks

TIME_STEP = 0.1


class BoatState(NamedTuple):
    """Place and speed along the river."""

    place: jax.Array
    speed: jax.Array


@dataclass(frozen=True)
class Boat(SimulatedSystem):
    """A boat that is pushed by a current and drives against it."""

    horizon: int = 60
    n_episodes: int = 16
    episode_seed: int = 0

    id: ClassVar[str] = "boat-v1"
    n_observations: ClassVar[int] = 2
    action_size: ClassVar[int] = 1
    action_low: ClassVar[float] = -1.0
    action_high: ClassVar[float] = 1.0

    @property
    def axes(self) -> tuple[ContextAxis, ...]:
        """Mass of the boat and speed of the current."""
        return (
            ContextAxis("mass", 1.0, "t", low=0.0, low_open=True),
            ContextAxis("current", 0.2, "m/s"),
        )

    def reset(self, key: jax.Array, context: jax.Array) -> BoatState:
        """Somewhere near the mooring, at rest."""
        place = jax.random.uniform(key, (), context.dtype, -1, 1)
        return BoatState(place, jnp.zeros_like(place))

    def step(
        self, state: BoatState, action: jax.Array, context: jax.Array, key: jax.Array
    ) -> tuple[BoatState, jax.Array, jax.Array]:
        """Drag pulls the boat along with the current, the motor drives it."""
        del key
        mass, current = context
        force = jnp.clip(action[0], -1.0, 1.0) + 0.5 * (current - state.speed)
        speed = state.speed + TIME_STEP * force / mass
        new = BoatState(state.place + TIME_STEP * speed, speed)
        reward = -(new.place**2) - 0.01 * action[0] ** 2
        return new, reward, jnp.zeros_like(reward, bool)

    def observe(self, state: BoatState, context: jax.Array) -> jax.Array:
        """Place and speed; the context is hidden from the policy."""
        del context
        return jnp.stack(state)


def main(n: int = 3, total_steps: int = 100_000) -> None:
    boat = Boat()
    for check in system_checks(boat):
        print(f"{check.check}: {check.detail}")
    space = ts.Grid(mass=(0.5, 4.0, n, "log"), current=(-0.6, 0.6, n))
    trainer = ts.trainers.Ppo(n_policies=1, total_steps=total_steps)
    study = ts.evaluate(boat, trainer, space, seed=0)
    for epsilon in (0.5, 1.0, 2.0, 5.0):
        cover = ts.minimum_cover(study, ts.Question("regret", epsilon=epsilon))
        print(f"ε = {epsilon}: {cover.size} of {space.size} policies are enough")


if __name__ == "__main__":
    main()
