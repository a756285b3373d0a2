"""Recipes that turn a source context into a family of policies.

A new trainer is one file beside these and one line in `TRAINERS`.
"""

from taskspace.trainers.base import Trained, Trainer, context_seed
from taskspace.trainers.lqr import Lqr
from taskspace.trainers.ppo import Ppo
from taskspace.trainers.sb3 import Sb3

__all__ = ["TRAINERS", "Lqr", "Ppo", "Sb3", "Trained", "Trainer", "context_seed"]

TRAINERS: dict[str, type[Trainer]] = {cls.id: cls for cls in (Lqr, Ppo, Sb3)}
"""Built-in trainers by id."""
