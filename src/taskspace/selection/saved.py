"""Records of what a selection saved; `compare` makes them."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from taskspace.errors import ContradictionError

__all__ = ["Rival", "Saved"]


@dataclass(frozen=True)
class Rival:
    """What another way to choose would have spent.

    Args:
        name: who chooses.
        coverage: share of the targets covered after 1, 2, … trainings.
        environment_steps: simulated steps, likewise.
        evaluations: pairs of a policy and a target, likewise.
    """

    name: str
    coverage: tuple[float, ...]
    environment_steps: tuple[int, ...]
    evaluations: tuple[int, ...]

    @property
    def trainings(self) -> int | None:
        """Trainings until everything is covered, None if it did not come to that."""
        done = np.flatnonzero(np.array(self.coverage) == 1.0)
        return int(done[0]) + 1 if len(done) else None


@dataclass(frozen=True)
class Saved:
    """A selection beside what the table of all candidates allows.

    Args:
        n_candidates: trainings behind every cover of the whole table.
        environment_steps: simulated steps behind it; None where not known.
        evaluations: pairs of a policy and a target behind it.
        greedy: coverage of the oracle's greedy after 1, 2, … sources.
        minimum: proven lower bound and size of the smallest cover found.
        rivals: other selectors; `random` is the mean of a hundred.
        lower_bound: no selector that serves with trained policies needs fewer.
        why_no_bound: why the table says nothing about this selection; empty if it does.
    """

    n_candidates: int
    environment_steps: int | None
    evaluations: int
    greedy: tuple[float, ...]
    minimum: tuple[int, int]
    rivals: tuple[Rival, ...]
    lower_bound: int
    why_no_bound: str = ""

    def check(self, trainings: int) -> None:
        """Refuse a selection that covers all with fewer trainings than are needed.

        Args:
            trainings: what the selection took to cover every target.
        """
        if trainings < self.lower_bound:
            raise ContradictionError(
                f"The table of all candidates says that at least {self.lower_bound} "
                f"trainings are needed, and the selection that {trainings} cover every "
                "target. One of them is wrong, so neither is reported. Please report "
                "this with its data."
            )

    def record(self) -> dict[str, Any]:
        """One JSON record."""
        record = asdict(self)
        for rival, each in zip(record["rivals"], self.rivals, strict=True):
            rival["trainings"] = each.trainings
        return record
