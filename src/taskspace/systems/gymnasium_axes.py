"""Context axes of Gymnasium's own environments, with the fields that follow from them.

Every field that depends on the context is set, so no axis is dead.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from taskspace.systems.base import ContextAxis

PENDULUM_SPEED = 8.0
"""Largest speed of Pendulum-v1, rad/s."""


class ReadyAxes(NamedTuple):
    """Axes of one of Gymnasium's environments, with all fields that follow from them.

    Args:
        axes: the axes.
        attributes: attribute of each axis, as in `GymnasiumSystem`.
        derived: attributes that depend on others, likewise.
        bounds: least and largest return of an episode, of context and horizon.
    """

    axes: tuple[ContextAxis, ...]
    attributes: Mapping[str, str]
    derived: Mapping[str, Callable[[Any], Any]]
    bounds: Callable[[dict[str, float], int], tuple[float, float]]


def pendulum_bounds(max_torque: float, horizon: int) -> tuple[float, float]:
    """Return the least and the largest return of a Pendulum-v1.

    A step costs θ² + 0.1·θ̇² + 0.001·u², with |θ| ≤ π, |θ̇| ≤ 8 and |u| ≤
    `max_torque`. A thousandth is left for sums in single precision.

    Args:
        max_torque: limit of the torque, N·m.
        horizon: steps of an episode.
    """
    most = np.pi**2 + 0.1 * PENDULUM_SPEED**2 + 0.001 * max_torque**2
    return -1.001 * horizon * most, 0.0


def _torque_space(physics: Any) -> Any:
    from gymnasium.spaces import Box

    return Box(-physics.max_torque, physics.max_torque, (1,), np.float32)


_positive = ContextAxis.positive

READY: dict[str, ReadyAxes] = {
    "CartPole-v1": ReadyAxes(
        (
            _positive(
                "pole_length", 0.5, "m", "pivot to centre of mass: half of the pole"
            ),
            _positive("cart_mass", 1.0, "kg", "mass of the cart"),
            _positive("pole_mass", 0.1, "kg", "mass of the pole"),
            ContextAxis(
                "gravity", 9.8, "m/s²", 0.0, description="gravitational acceleration"
            ),
            ContextAxis("force", 10.0, "N", 0.0, description="size of the push"),
            _positive("time_step", 0.02, "s", "time between two actions"),
        ),
        {
            "pole_length": "length",
            "cart_mass": "masscart",
            "pole_mass": "masspole",
            "force": "force_mag",
            "time_step": "tau",
        },
        {
            "total_mass": lambda physics: physics.masscart + physics.masspole,
            "polemass_length": lambda physics: physics.masspole * physics.length,
        },
        lambda context, horizon: (1.0, float(horizon)),
    ),
    "Pendulum-v1": ReadyAxes(
        (
            _positive("mass", 1.0, "kg", "of the rod"),
            _positive("length", 1.0, "m", "of the rod"),
            ContextAxis(
                "gravity", 10.0, "m/s²", 0.0, description="gravitational acceleration"
            ),
            _positive("time_step", 0.05, "s", "time between two actions"),
            ContextAxis(
                "max_torque", 2.0, "N·m", 0.0, description="limit in both directions"
            ),
        ),
        {"mass": "m", "length": "l", "gravity": "g", "time_step": "dt"},
        {"action_space": _torque_space},
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
        {
            "link_length_1": "LINK_LENGTH_1",
            "link_length_2": "LINK_LENGTH_2",
            "link_mass_1": "LINK_MASS_1",
            "link_mass_2": "LINK_MASS_2",
            "moment_of_inertia": "LINK_MOI",
            "torque": "AVAIL_TORQUE",
            "time_step": "dt",
        },
        {
            # The centre of mass is in the middle of a link, as in the original.
            "LINK_COM_POS_1": lambda physics: physics.LINK_LENGTH_1 / 2,
            "LINK_COM_POS_2": lambda physics: physics.LINK_LENGTH_2 / 2,
            "AVAIL_TORQUE": lambda physics: [
                -physics.AVAIL_TORQUE,
                0.0,
                physics.AVAIL_TORQUE,
            ],
        },
        lambda context, horizon: (-float(horizon), 0.0),
    ),
}
"""Axes that need not be stated, by Gymnasium's id."""
