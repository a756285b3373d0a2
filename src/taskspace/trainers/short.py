"""A trainer with a smaller budget, to try things out."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from taskspace.trainers.base import Trainer

__all__ = ["shortened"]


def shortened(trainer: Trainer, most: Mapping[str, int]) -> Trainer:
    """Return the trainer with some settings no larger than given.

    Args:
        trainer: any trainer; one without a `total_steps` comes back as it is.
        most: largest value of each setting, where the trainer has it.
    """
    names = {f.name for f in fields(trainer)} if is_dataclass(trainer) else set()
    if "total_steps" not in names:
        return trainer
    changes = {n: m for n, m in most.items() if n in names and getattr(trainer, n) > m}
    copied: Any = trainer
    return replace(copied, **changes)
