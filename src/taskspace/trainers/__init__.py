"""Recipes that turn a source context into a family of policies.

A new trainer is one file beside these and one line in `TRAINERS`.
"""

from typing import TYPE_CHECKING

from taskspace._util.lazy import Registry, lazy_names
from taskspace.trainers.base import Trained, Trainer, context_seed

if TYPE_CHECKING:
    from taskspace.trainers.lqr import Lqr
    from taskspace.trainers.ppo import Ppo
    from taskspace.trainers.sb3 import Sb3
    from taskspace.trainers.structured import Structured

_HERE = "taskspace.trainers"
__getattr__, __dir__ = lazy_names(
    _HERE,
    {
        name: f"{_HERE}.{module}"
        for module, cls in (
            ("lqr", "Lqr"),
            ("ppo", "Ppo"),
            ("sb3", "Sb3"),
            ("structured", "Structured"),
        )
        for name in (module, cls)
    },
)

__all__ = [
    "TRAINERS",
    "Lqr",
    "Ppo",
    "Sb3",
    "Structured",
    "Trained",
    "Trainer",
    "context_seed",
]

TRAINERS: Registry[type[Trainer]] = Registry(
    {
        "lqr": f"{_HERE}.lqr:Lqr",
        "ppo": f"{_HERE}.ppo:Ppo",
        "sb3": f"{_HERE}.sb3:Sb3",
        "structured": f"{_HERE}.structured:Structured",
    }
)
"""Built-in trainers by id."""
