"""Families of tasks: physics, context axes and performance.

A new system is one file beside these and one line in `SYSTEMS`.
"""

from taskspace.systems.base import ContextAxis, FamilyReduction, System
from taskspace.systems.linear import LinearFamily, LinearMatrices, LinearSystem
from taskspace.systems.msd import MassSpringDamper

__all__ = [
    "SYSTEMS",
    "ContextAxis",
    "FamilyReduction",
    "LinearFamily",
    "LinearMatrices",
    "LinearSystem",
    "MassSpringDamper",
    "System",
]

SYSTEMS: dict[str, type[System]] = {cls.id: cls for cls in (MassSpringDamper,)}
"""Built-in systems by id."""
