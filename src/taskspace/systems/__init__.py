"""Families of tasks: physics, context axes and performance.

A new system is one file beside these and one line in `SYSTEMS`.
"""

from taskspace.systems.base import ContextAxis, FamilyReduction, System
from taskspace.systems.baselines import Baselines, baseline_performance
from taskspace.systems.cartpole import CartPole
from taskspace.systems.episodic import EpisodicSystem, fresh_episodes
from taskspace.systems.function import FunctionSystem, PythonPolicies
from taskspace.systems.gymnasium import GymnasiumSystem
from taskspace.systems.linear import LinearFamily, LinearMatrices, LinearSystem
from taskspace.systems.msd import MassSpringDamper
from taskspace.systems.pendulum import Pendulum
from taskspace.systems.preiss import Quadrotor, ScalarLqr
from taskspace.systems.simulated import SimulatedSystem
from taskspace.systems.tabular import (
    DirectionalityToy,
    TabularFamily,
    UnreachableState,
)

__all__ = [
    "SYSTEMS",
    "Baselines",
    "CartPole",
    "ContextAxis",
    "DirectionalityToy",
    "EpisodicSystem",
    "FamilyReduction",
    "FunctionSystem",
    "GymnasiumSystem",
    "LinearFamily",
    "LinearMatrices",
    "LinearSystem",
    "MassSpringDamper",
    "Pendulum",
    "PythonPolicies",
    "Quadrotor",
    "ScalarLqr",
    "SimulatedSystem",
    "System",
    "TabularFamily",
    "UnreachableState",
    "baseline_performance",
    "fresh_episodes",
]

SYSTEMS: dict[str, type[System]] = {
    cls.id: cls
    for cls in (
        MassSpringDamper,
        CartPole,
        Pendulum,
        DirectionalityToy,
        UnreachableState,
        ScalarLqr,
        Quadrotor,
    )
}
"""Built-in systems by id."""
