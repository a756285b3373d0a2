"""Families of tasks: physics, context axes and performance.

A new system is one file beside these and one line in `SYSTEMS`.
"""

from typing import TYPE_CHECKING

from taskspace._util import cache as cache  # before kernels are compiled or loaded
from taskspace._util.lazy import Registry, lazy_names
from taskspace.systems.base import ContextAxis, System
from taskspace.systems.linear import HOMES as LINEAR
from taskspace.systems.objective import Objective

if TYPE_CHECKING:
    from taskspace.systems.acrobot import Acrobot
    from taskspace.systems.baselines import Baselines, baseline_performance
    from taskspace.systems.cartpole import CartPole
    from taskspace.systems.episodic import EpisodicSystem, fresh_episodes
    from taskspace.systems.function import FunctionSystem, PythonPolicies
    from taskspace.systems.gymnasium import GymnasiumSystem, gymnasium_system
    from taskspace.systems.linear import (
        AffineFamily,
        Enclosed,
        LinearFamily,
        LinearMatrices,
        LinearSystem,
        Lqg,
        MassSpringDamper,
        Pi,
        Pid,
        Quadrotor,
        RateForm,
        ScalarLqr,
        control_family,
        rate_form,
    )
    from taskspace.systems.mountain_car import MountainCar
    from taskspace.systems.pendulum import Pendulum
    from taskspace.systems.planar_quadrotor import PlanarQuadrotor
    from taskspace.systems.simulated import SimulatedSystem
    from taskspace.systems.swingup import SwingUp
    from taskspace.systems.tabular import (
        DirectionalityToy,
        TabularFamily,
        UnreachableState,
    )

_HERE = "taskspace.systems"
_HOMES = {
    "acrobot": ("Acrobot",),
    "baselines": ("Baselines", "baseline_performance"),
    "cartpole": ("CartPole",),
    "episodic": ("EpisodicSystem", "fresh_episodes"),
    "function": ("FunctionSystem", "PythonPolicies"),
    "gymnasium": ("GymnasiumSystem", "gymnasium_system"),
    "linear": (),
    "mountain_car": ("MountainCar",),
    "pendulum": ("Pendulum",),
    "planar_quadrotor": ("PlanarQuadrotor",),
    "simulated": ("SimulatedSystem",),
    "swingup": ("SwingUp",),
    "tabular": ("DirectionalityToy", "TabularFamily", "UnreachableState"),
}
__getattr__, __dir__ = lazy_names(
    _HERE,
    {
        name: f"{_HERE}.{module}"
        for module, names in _HOMES.items()
        for name in (module, *names)
    }
    | LINEAR,
)

__all__ = [
    "SYSTEMS",
    "Acrobot",
    "AffineFamily",
    "Baselines",
    "CartPole",
    "ContextAxis",
    "DirectionalityToy",
    "Enclosed",
    "EpisodicSystem",
    "FunctionSystem",
    "GymnasiumSystem",
    "LinearFamily",
    "LinearMatrices",
    "LinearSystem",
    "Lqg",
    "MassSpringDamper",
    "MountainCar",
    "Objective",
    "Pendulum",
    "Pi",
    "Pid",
    "PlanarQuadrotor",
    "PythonPolicies",
    "Quadrotor",
    "RateForm",
    "ScalarLqr",
    "SimulatedSystem",
    "SwingUp",
    "System",
    "TabularFamily",
    "UnreachableState",
    "baseline_performance",
    "control_family",
    "fresh_episodes",
    "gymnasium_system",
    "rate_form",
]

SYSTEMS: Registry[type[System]] = Registry(
    {
        "msd-v1": f"{_HERE}.linear.msd:MassSpringDamper",
        "cartpole-v1": f"{_HERE}.cartpole:CartPole",
        "pendulum-v1": f"{_HERE}.pendulum:Pendulum",
        "swingup-v1": f"{_HERE}.swingup:SwingUp",
        "acrobot-v1": f"{_HERE}.acrobot:Acrobot",
        "mountaincar-v1": f"{_HERE}.mountain_car:MountainCar",
        "planar-quadrotor-v1": f"{_HERE}.planar_quadrotor:PlanarQuadrotor",
        "directionality-toy-v1": f"{_HERE}.tabular:DirectionalityToy",
        "unreachable-state-v1": f"{_HERE}.tabular:UnreachableState",
        "scalar-lqr-v1": f"{_HERE}.linear.preiss:ScalarLqr",
        "quadrotor-v1": f"{_HERE}.linear.preiss:Quadrotor",
    }
)
"""Built-in systems by id."""
