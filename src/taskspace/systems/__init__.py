"""Families of tasks: physics, context axes and performance.

A new system is one file beside these and one line in `SYSTEMS`.
"""

from taskspace._util import cache as cache  # before kernels are compiled or loaded
from taskspace._util.lazy import Registry, lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

SYSTEMS = Registry(
    {
        "msd-v1": "taskspace.systems.linear.msd:MassSpringDamper",
        "cartpole-v1": "taskspace.systems.cartpole:CartPole",
        "pendulum-v1": "taskspace.systems.pendulum:Pendulum",
        "scalar-lqr-v1": "taskspace.systems.linear.preiss:ScalarLqr",
        "quadrotor-v1": "taskspace.systems.linear.preiss:Quadrotor",
    }
)
"""Built-in systems by id."""
