"""Linear plants with a quadratic cost: families, controllers, kernels, tracing.

`base.py` has the interface; a family is one file beside it. `kernels/` computes costs
and best gains of many loops at once, `tracing/` finds how matrices depend on the
context.
"""

from typing import TYPE_CHECKING

from taskspace._util.lazy import lazy_names

if TYPE_CHECKING:
    from taskspace.systems.linear.affine import AffineFamily, Enclosed
    from taskspace.systems.linear.base import LinearSystem
    from taskspace.systems.linear.control import control_family
    from taskspace.systems.linear.controllers import Lqg, Pi, Pid
    from taskspace.systems.linear.family import LinearFamily
    from taskspace.systems.linear.matrices import LinearMatrices
    from taskspace.systems.linear.msd import MassSpringDamper
    from taskspace.systems.linear.preiss import Quadrotor, ScalarLqr
    from taskspace.systems.linear.rates import RateForm, rate_form

_HERE = "taskspace.systems.linear"
HOMES = {
    "AffineFamily": f"{_HERE}.affine",
    "Enclosed": f"{_HERE}.affine",
    "LinearFamily": f"{_HERE}.family",
    "LinearMatrices": f"{_HERE}.matrices",
    "LinearSystem": f"{_HERE}.base",
    "Lqg": f"{_HERE}.controllers",
    "MassSpringDamper": f"{_HERE}.msd",
    "Pi": f"{_HERE}.controllers",
    "Pid": f"{_HERE}.controllers",
    "Quadrotor": f"{_HERE}.preiss",
    "RateForm": f"{_HERE}.rates",
    "ScalarLqr": f"{_HERE}.preiss",
    "control_family": f"{_HERE}.control",
    "rate_form": f"{_HERE}.rates",
}
"""The module of each public name; it is loaded on first use."""
__getattr__, __dir__ = lazy_names(_HERE, HOMES)

__all__ = [
    "AffineFamily",
    "Enclosed",
    "LinearFamily",
    "LinearMatrices",
    "LinearSystem",
    "Lqg",
    "MassSpringDamper",
    "Pi",
    "Pid",
    "Quadrotor",
    "RateForm",
    "ScalarLqr",
    "control_family",
    "rate_form",
]
