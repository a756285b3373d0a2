"""Worst and mean loss against the number of sources."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from taskspace.cover.base import Clock
from taskspace.cover.methods.mean import least_mean
from taskspace.cover.tolerance.budget import smallest_epsilon
from taskspace.errors import InvalidInputError
from taskspace.progress import Progress

__all__ = ["BudgetPoint", "budget_profile"]


@dataclass(frozen=True)
class BudgetPoint:
    """What a number of sources can reach.

    Args:
        budget: number of sources.
        worst: the largest loss that the best selection leaves; inf if none was found.
        worst_bound: no selection leaves less.
        mean: the mean loss of the best selection, None where none serves all targets.
        mean_bound: no selection has a smaller mean.
    """

    budget: int
    worst: float
    worst_bound: float
    mean: float | None
    mean_bound: float | None

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain JSON values."""
        return asdict(self)


def budget_profile(
    losses: Any,
    budgets: Sequence[int],
    *,
    time_limit: float = 60.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[BudgetPoint]:
    """Find the least worst loss and the least mean loss of each number of sources.

    Args:
        losses: loss matrix `(source, target)`, xarray or NumPy; may hold infinities,
            but each target must have a finite one.
        budgets: numbers of sources, each `>= 1`.
        time_limit: seconds for all together.
        seed: of the random choices.
        progress: called after each number.

    Returns:
        One point per number, ascending. A selection of fewer sources is one of more,
        so that no bound and no loss rises.
    """
    clock, numbers = Clock(time_limit), sorted(set(budgets))
    matrix = np.asarray(losses, np.float64)
    if not numbers or numbers[0] < 1:
        raise InvalidInputError(
            f"Budgets must be numbers >= 1, but got {list(budgets)}."
        )
    if not np.isfinite(matrix).any(axis=0).all():
        raise InvalidInputError(
            "Every target must have a source of finite loss, but target "
            f"{int(np.argmin(np.isfinite(matrix).any(axis=0)))} has none."
        )
    points: list[BudgetPoint] = []
    for k, budget in enumerate(numbers):
        share = clock.left / (2 * (len(numbers) - k))
        least = smallest_epsilon(matrix, budget, time_limit=share, seed=seed)
        try:
            mean = least_mean(losses, budget, time_limit=share)
        except InvalidInputError:  # so few sources do not serve all targets
            mean = None
        before = points[-1] if points else None
        points.append(
            BudgetPoint(
                budget=budget,
                worst=min(least.upper, before.worst if before else np.inf),
                worst_bound=least.lower,
                mean=None if mean is None else mean.mean_loss,
                mean_bound=None if mean is None else mean.lower_bound,
            )
        )
        if progress is not None:
            progress("budgets", k + 1, len(numbers), f"{budget} sources")
    return points
