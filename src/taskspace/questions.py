"""The question that a cover answers: by which criterion, judged how, within what."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.criteria import (
    Criterion,
    assigned_losses,
    criterion_named,
    judge_named,
    loss,
    loss_blocks,
    loss_rows,
    table_sets,
    without_reference,
)
from taskspace.errors import InvalidInputError
from taskspace.sets import TargetSets

__all__ = ["Question"]


@dataclass(frozen=True)
class Question:
    """Criterion, judge and tolerance; they travel together, always.

    Args:
        criterion: name of a criterion, see `taskspace.criteria.CRITERIA`.
        judge: which policy of a family counts, `"worst"` or `"best"`.
        epsilon: tolerance, in the unit of the criterion.

    Example:
        >>> question = Question("regret", epsilon=0.2)
        >>> question.statement
        'regret ≤ 0.2 by the worst policy of each source'
        >>> question.to_dict()
        {'criterion': 'regret', 'judge': 'worst', 'epsilon': 0.2}
    """

    criterion: str = "regret"
    judge: str = "worst"
    epsilon: float = field(kw_only=True)

    def __post_init__(self):
        object.__setattr__(self, "judge", judge_named(self.judge))
        if isinstance(self.epsilon, bool) or not isinstance(
            self.epsilon, int | float | np.number
        ):
            raise InvalidInputError(
                f"epsilon must be a number, but got {self.epsilon!r}."
            )
        object.__setattr__(self, "epsilon", float(self.epsilon))
        self.rule.check_epsilon(self.epsilon)

    @property
    def rule(self) -> Criterion:
        """The criterion itself."""
        return criterion_named(self.criterion)

    @property
    def statement(self) -> str:
        """The question as one clause, for tables, figures and certificates."""
        return (
            f"{self.rule.sentence(self.epsilon)} by the {self.judge} policy of each "
            "source"
        )

    @property
    def label(self) -> str:
        """The question in a few words, for the title of a picture."""
        return f"{self.criterion} ≤ {self.epsilon:g}, {self.judge} policy"

    def at(self, epsilon: float) -> Self:
        """The same question with another tolerance.

        Args:
            epsilon: the tolerance.
        """
        return replace(self, epsilon=epsilon)

    def losses(self, table: xr.Dataset) -> xr.DataArray:
        """Loss of every source at every target, dims `(source, target)`.

        Args:
            table: a performance table.
        """
        return loss(table, self.criterion, self.judge)

    def blocks(self, table: xr.Dataset) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """The rows of `losses`, a stretch of sources at a time.

        Args:
            table: a performance table, in memory or opened from a store.
        """
        return loss_blocks(table, self.criterion, self.judge)

    def rows(self, table: xr.Dataset, rows: slice) -> NDArray[np.float64]:
        """Losses of one stretch of sources.

        Args:
            table: a performance table.
            rows: the sources.
        """
        return loss_rows(table, self.criterion, self.judge, rows)

    def sets(self, table: xr.Dataset) -> TargetSets:
        """The targets that each source serves, never holding all losses at once.

        Args:
            table: a performance table, in memory or opened from a store.
        """
        return table_sets(table, self.criterion, self.judge, self.epsilon)

    def left(
        self, table: xr.Dataset, assignment: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """Loss that an assignment leaves at each target, +inf where none serves.

        Args:
            table: a performance table.
            assignment: source of each target, −1 for none.
        """
        return assigned_losses(table, self.criterion, self.judge, assignment)

    def without_reference(self, table: xr.Dataset) -> NDArray[np.int64]:
        """Numbers of the targets whose loss has no reference; none serves them.

        Args:
            table: a performance table.
        """
        return without_reference(table, self.criterion)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, which `from_dict` reads."""
        return {
            "criterion": self.criterion,
            "judge": self.judge,
            "epsilon": self.epsilon,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The question that `to_dict` wrote.

        Args:
            values: plain values; other keys are ignored.
        """
        return cls(values["criterion"], values["judge"], epsilon=values["epsilon"])
