"""Recipes that turn a source context into a family of policies.

A new trainer is one file beside these and one line in `TRAINERS`.
"""

from taskspace.trainers.base import Trained, Trainer, context_seed
from taskspace.trainers.lqr import Lqr

__all__ = ["TRAINERS", "Lqr", "Trained", "Trainer", "context_seed"]

TRAINERS: dict[str, type[Trainer]] = {cls.id: cls for cls in (Lqr,)}
"""Built-in trainers by id."""
