"""CartPole: balance a pole on a cart, with Gymnasium's physics in every context."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.errors import MissingExtraError
from taskspace.systems.base import ContextAxis
from taskspace.systems.simulated import SimulatedSystem

if TYPE_CHECKING:
    import gymnasium

__all__ = ["MAX_POSITION", "CartPole", "CartPoleState", "accelerations"]

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
class CartPole(SimulatedSystem):
    """Gymnasium's CartPole-v1 with six context axes.

    `pole_length` is the parameter that Gymnasium and CARL call `length`: the
    distance from the pivot to the pole's centre of mass, which is **half** of the
    pole. The total mass and the pole's moment follow the context in every step.
    The return is the number of steps that the pole stays up, `horizon` at most.

    Args:
        horizon: steps after which an episode is cut.
        n_episodes: episodes that make up one performance.
        episode_seed: seed of the initial states.
    """

    horizon: int = 500
    n_episodes: int = 32
    episode_seed: int = 0

    id: ClassVar[str] = "cartpole-v1"
    n_observations: ClassVar[int] = 4
    n_actions: ClassVar[int] = 2

    @property
    def axes(self) -> tuple[ContextAxis, ...]:
        """Pole length, cart mass, pole mass, gravity, force and time step."""
        return _AXES

    @property
    def solved_return(self) -> float | None:
        """Gymnasium's own threshold: 475 of 500 steps."""
        return 0.95 * self.horizon

    @property
    def stop_return(self) -> float | None:
        """One step short of the most that there is: 499 of 500."""
        return self.horizon - 1.0

    def return_bounds(self, contexts: NDArray[np.float64]) -> NDArray[np.float64]:
        """From one step, after which the pole has fallen, to `horizon`.

        Args:
            contexts: full context rows, shape `(target, len(axes))`.
        """
        return np.tile([1.0, float(self.horizon)], (len(contexts), 1))

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
        """One Euler step; action 1 pushes to the right, 0 to the left.

        The equations are those of https://coneural.org/florian/papers/05_cart_pole.pdf
        without friction, as in Gymnasium.
        """
        del key
        x, x_dot, theta, theta_dot = state
        pole_length, cart_mass, pole_mass, gravity, force, time_step = context
        push = jnp.where(action == 1, force, -force)
        x_acc, theta_acc = accelerations(
            theta,
            theta_dot,
            push,
            pole_length=pole_length,
            cart_mass=cart_mass,
            pole_mass=pole_mass,
            gravity=gravity,
        )
        new = CartPoleState(
            x + time_step * x_dot,
            x_dot + time_step * x_acc,
            theta + time_step * theta_dot,
            theta_dot + time_step * theta_acc,
        )
        fell = (jnp.abs(new.x) > MAX_POSITION) | (jnp.abs(new.theta) > MAX_ANGLE)
        return new, jnp.ones_like(x), fell

    def observe(self, state: CartPoleState, context: jax.Array) -> jax.Array:
        """The whole state."""
        del context
        return jnp.stack(state)

    def environment(self, context: ArrayLike, **kwargs: Any) -> "gymnasium.Env":
        """A Gymnasium CartPole-v1 whose physics is that of one context.

        Gymnasium computes `total_mass` and `polemass_length` once, when it makes
        the environment; they are computed again here, or the masses would have no
        effect.

        Args:
            context: full context row, in the order of `axes`.
            kwargs: passed on to `gymnasium.make`.
        """
        try:
            import gymnasium
        except ImportError as error:
            raise MissingExtraError("A Gymnasium environment", "rl") from error
        kwargs.setdefault("max_episode_steps", self.horizon)
        environment = gymnasium.make("CartPole-v1", **kwargs)
        physics: Any = environment.unwrapped
        for name, value in zip(_GYMNASIUM, np.asarray(context, float), strict=True):
            setattr(physics, name, float(value))
        physics.total_mass = physics.masspole + physics.masscart
        physics.polemass_length = physics.masspole * physics.length
        return environment


def accelerations(
    theta: jax.Array,
    theta_dot: jax.Array,
    push: jax.Array,
    *,
    pole_length: jax.Array,
    cart_mass: jax.Array,
    pole_mass: jax.Array,
    gravity: jax.Array,
    drag: jax.Array | float = 0.0,
) -> tuple[jax.Array, jax.Array]:
    """Return the accelerations of the cart and of the pole's angle.

    Args:
        theta: angle of the pole from upright.
        theta_dot: its angular velocity.
        push: horizontal force on the cart.
        pole_length: pivot to centre of mass, half of the pole.
        cart_mass: mass of the cart.
        pole_mass: mass of the pole.
        gravity: gravitational acceleration.
        drag: torque of the joint on the pole against its motion.
    """
    total_mass = cart_mass + pole_mass
    sin, cos = jnp.sin(theta), jnp.cos(theta)
    swing = (push + pole_mass * pole_length * theta_dot**2 * sin) / total_mass
    theta_acc = (gravity * sin - cos * swing - drag / (pole_mass * pole_length)) / (
        pole_length * (4 / 3 - pole_mass * cos**2 / total_mass)
    )
    return swing - pole_mass * pole_length * theta_acc * cos / total_mass, theta_acc


_AXES = (
    ContextAxis.positive(
        "pole_length",
        0.5,
        "m",
        "pivot to centre of mass: half of the pole (Gymnasium: length)",
    ),
    ContextAxis.positive(
        "cart_mass", 1.0, "kg", "mass of the cart (Gymnasium: masscart)"
    ),
    ContextAxis.positive(
        "pole_mass", 0.1, "kg", "mass of the pole (Gymnasium: masspole)"
    ),
    ContextAxis(
        "gravity",
        9.8,
        "m/s²",
        low=0.0,
        description="gravitational acceleration (Gymnasium: gravity)",
    ),
    ContextAxis(
        "force",
        10.0,
        "N",
        low=0.0,
        description="size of the push (Gymnasium: force_mag)",
    ),
    ContextAxis.positive(
        "time_step", 0.02, "s", "time between two actions (Gymnasium: tau)"
    ),
)
_GYMNASIUM = ("length", "masscart", "masspole", "gravity", "force_mag", "tau")
