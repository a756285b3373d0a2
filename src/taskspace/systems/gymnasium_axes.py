"""Context axes of Gymnasium's own environments, with their derived fields.

Each entry sets every field that follows from the context, so no axis is dead.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from taskspace.systems.base import ContextAxis

_positive = ContextAxis.positive


def _from_zero(name: str, default: float, unit: str, description: str) -> ContextAxis:
    return ContextAxis(name, default, unit, low=0.0, description=description)


MAX_SPEED = 8.0
"""Of Pendulum-v1, rad/s."""


class ReadyAxes(NamedTuple):
    """Axes of an environment, how a context is applied to it, and its returns."""

    axes: tuple[ContextAxis, ...]
    apply: Callable[[Any, dict[str, float]], None]
    bounds: Callable[[dict[str, float], int], tuple[float, float]] | None = None
    """Least and largest return of an episode, of the context and the horizon."""


def pendulum_bounds(max_torque: float, horizon: int) -> tuple[float, float]:
    """Least and largest return of a Pendulum-v1.

    A step costs θ² + 0.1·θ̇² + 0.001·u², with |θ| ≤ π, |θ̇| ≤ 8 and |u| ≤
    `max_torque`. A thousandth is left for sums in single precision.

    Args:
        max_torque: limit of the torque, N·m.
        horizon: steps of an episode.
    """
    most = np.pi**2 + 0.1 * MAX_SPEED**2 + 0.001 * max_torque**2
    return -1.001 * horizon * most, 0.0


def _apply_cartpole(environment: Any, context: dict[str, float]) -> None:
    physics = environment.unwrapped
    physics.length = context["pole_length"]
    physics.masscart = context["cart_mass"]
    physics.masspole = context["pole_mass"]
    physics.gravity = context["gravity"]
    physics.force_mag = context["force"]
    physics.tau = context["time_step"]
    physics.total_mass = physics.masscart + physics.masspole
    physics.polemass_length = physics.masspole * physics.length


def _apply_pendulum(environment: Any, context: dict[str, float]) -> None:
    from gymnasium.spaces import Box

    physics = environment.unwrapped
    physics.m, physics.l = context["mass"], context["length"]
    physics.g, physics.dt = context["gravity"], context["time_step"]
    physics.max_torque = torque = context["max_torque"]
    physics.action_space = Box(-torque, torque, (1,), np.float32)


def _apply_acrobot(environment: Any, context: dict[str, float]) -> None:
    physics = environment.unwrapped
    for link in (1, 2):
        length = context[f"link_length_{link}"]
        setattr(physics, f"LINK_LENGTH_{link}", length)
        # The centre of mass is in the middle of a link, as in the original.
        setattr(physics, f"LINK_COM_POS_{link}", length / 2)
        setattr(physics, f"LINK_MASS_{link}", context[f"link_mass_{link}"])
    physics.LINK_MOI = context["moment_of_inertia"]
    physics.dt = context["time_step"]
    torque = context["torque"]
    physics.AVAIL_TORQUE = [-torque, 0.0, torque]


def _apply_mountain_car(environment: Any, context: dict[str, float]) -> None:
    from gymnasium.spaces import Box

    physics = environment.unwrapped
    physics.power = context["power"]
    physics.goal_position = context["goal_position"]
    physics.max_speed = speed = context["max_speed"]
    physics.low_state = np.array([physics.min_position, -speed], np.float32)
    physics.high_state = np.array([physics.max_position, speed], np.float32)
    physics.observation_space = Box(physics.low_state, physics.high_state)


def _apply_mujoco(environment: Any, context: dict[str, float]) -> None:
    """Scale the model that was loaded, and compute anew what follows from it."""
    mujoco: Any = import_module("mujoco")
    physics = environment.unwrapped
    model = physics.model
    if not hasattr(physics, "as_loaded"):
        names = ("body_mass", "body_inertia", "dof_damping", "geom_friction")
        names = (*names, "actuator_gear")
        physics.as_loaded = {name: getattr(model, name).copy() for name in names}
    loaded = physics.as_loaded
    model.body_mass[:] = loaded["body_mass"] * context["mass"]
    model.body_inertia[:] = loaded["body_inertia"] * context["mass"]
    model.dof_damping[:] = loaded["dof_damping"] * context["damping"]
    model.actuator_gear[:] = loaded["actuator_gear"] * context["strength"]
    model.geom_friction[:] = loaded["geom_friction"] * context.get("friction", 1.0)
    model.opt.gravity[2] = -context["gravity"]
    mujoco.mj_setConst(model, physics.data)


_MUJOCO = (
    _from_zero("gravity", 9.81, "m/s²", "gravitational acceleration"),
    _positive("mass", 1.0, "", "factor of all masses and moments of inertia"),
    _from_zero("damping", 1.0, "", "factor of the damping of all joints"),
    _positive("strength", 1.0, "", "factor of the forces of all actuators"),
)
_FRICTION = _from_zero("friction", 1.0, "", "factor of the friction of all surfaces")


READY: dict[str, ReadyAxes] = {
    "CartPole-v1": ReadyAxes(
        (
            _positive(
                "pole_length", 0.5, "m", "pivot to centre of mass: half of the pole"
            ),
            _positive("cart_mass", 1.0, "kg", "mass of the cart"),
            _positive("pole_mass", 0.1, "kg", "mass of the pole"),
            _from_zero("gravity", 9.8, "m/s²", "gravitational acceleration"),
            _from_zero("force", 10.0, "N", "size of the push"),
            _positive("time_step", 0.02, "s", "time between two actions"),
        ),
        _apply_cartpole,
        lambda context, horizon: (1.0, float(horizon)),
    ),
    "Pendulum-v1": ReadyAxes(
        (
            _positive("mass", 1.0, "kg", "of the rod"),
            _positive("length", 1.0, "m", "of the rod"),
            _from_zero("gravity", 10.0, "m/s²", "gravitational acceleration"),
            _positive("time_step", 0.05, "s", "time between two actions"),
            _from_zero("max_torque", 2.0, "N·m", "limit in both directions"),
        ),
        _apply_pendulum,
        lambda context, horizon: pendulum_bounds(context["max_torque"], horizon),
    ),
    "Acrobot-v1": ReadyAxes(
        (
            _positive("link_length_1", 1.0, "m", "upper link"),
            _positive("link_length_2", 1.0, "m", "lower link"),
            _positive("link_mass_1", 1.0, "kg", "upper link"),
            _positive("link_mass_2", 1.0, "kg", "lower link"),
            _positive("moment_of_inertia", 1.0, "kg m²", "of each link"),
            _positive("torque", 1.0, "N·m", "size of the torque at the joint"),
            _positive("time_step", 0.2, "s", "time between two actions"),
        ),
        _apply_acrobot,
        lambda context, horizon: (-float(horizon), 0.0),
    ),
    "MountainCarContinuous-v0": ReadyAxes(
        (
            _positive("power", 0.0015, "", "acceleration of full throttle"),
            _positive("max_speed", 0.07, "1/step", "limit in both directions"),
            ContextAxis("goal_position", 0.45, low=-0.3, high=0.6),
        ),
        _apply_mountain_car,
    ),
    "InvertedPendulum-v5": ReadyAxes(
        _MUJOCO,
        _apply_mujoco,
        lambda context, horizon: (0.0, float(horizon)),
    ),
    "Hopper-v5": ReadyAxes((*_MUJOCO, _FRICTION), _apply_mujoco),
}
"""By Gymnasium's id."""
