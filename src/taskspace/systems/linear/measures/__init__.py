"""Measures of a linear closed loop beside its quadratic cost.

A new measure is a class in a file beside these and one line in `MEASURES`; a measure
of your own is a function (`taskspace.measure`). Criteria read them:
`Question("floor", measure="disk_margin", epsilon=-0.5)` asks for margins of at least
0.5, `Question("floor", measure="hinf", epsilon=2.0)` for a norm of at most 2.
"""

from typing import TYPE_CHECKING

from taskspace._util.lazy import Registry

if TYPE_CHECKING:
    from taskspace.systems.linear.measures.base import Measure

__all__ = ["MEASURES"]

_HERE = "taskspace.systems.linear.measures"

MEASURES: "Registry[Measure]" = Registry(
    {
        "decay_rate": f"{_HERE}.norms:DECAY_RATE",
        "hinf": f"{_HERE}.norms:HINF",
        "channel_norm": f"{_HERE}.norms:CHANNEL_NORM",
        "sensitivity": f"{_HERE}.norms:SENSITIVITY",
        "complementary_sensitivity": f"{_HERE}.norms:COMPLEMENTARY",
        "disk_margin": f"{_HERE}.norms:DISK_MARGIN",
    }
)
"""Scores beside J that a criterion may read, by name."""
