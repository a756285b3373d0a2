"""Recipes that turn a source context into a family of policies.

A new trainer is one file beside these and one line in `TRAINERS`.
"""

from taskspace._util.lazy import Registry, lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

# Built-in trainers by id.
TRAINERS = Registry(
    {
        "lqr": "taskspace.trainers.lqr:Lqr",
        "ppo": "taskspace.trainers.ppo:Ppo",
        "sb3": "taskspace.trainers.sb3:Sb3",
        "structured": "taskspace.trainers.structured:Structured",
    }
)
