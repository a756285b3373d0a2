"""The tables of an experiment: `[[criteria]]`, `[cover]` and `[select]`."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from taskspace.cover import METHODS
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.measured import ErrorBounds
from taskspace.questions import Question

FORMER_KEYS = {
    "n_at_once": "n_parallel",
    "sparing": "evaluate_uncovered_only",
    "limit": "reference",
}
"""What keys of `[select]` were called in files that are there already."""


@dataclass(frozen=True)
class CriterionSpec:
    """One criterion and the tolerances to cover for.

    Args:
        criterion: one of `taskspace.criteria.CRITERIA`.
        epsilon: tolerances.
        judge: `worst` or `best`.
        measure: the score that counts, where it is not the criterion's own.
        also: further demands, each a table of criterion, epsilon, judge and measure.
        error: of the measured context, by axis: a number, or a percentage as text.
    """

    criterion: str
    epsilon: tuple[float, ...]
    judge: str = "worst"
    measure: str = ""
    also: tuple[Question, ...] = ()
    error: ErrorBounds | None = None

    def __post_init__(self):
        if not self.epsilon:
            raise InvalidInputError("criteria.epsilon must name a tolerance.")
        _ = self.questions

    @property
    def questions(self) -> tuple[Question, ...]:
        """One question a tolerance."""
        return tuple(
            Question(
                self.criterion,
                self.judge,
                epsilon=e,
                measure=self.measure,
                also=self.also,
                error=self.error,
            )
            for e in self.epsilon
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in a file."""
        values = self.questions[0].to_dict()
        return values | {"epsilon": self.epsilon}


@dataclass(frozen=True)
class CoverSpec:
    """How to cover.

    Args:
        methods: names of cover methods.
        n_repeats: random selections, for the spread of the `random` method.
        time_limit: seconds for each of the searches that can go on for ever.
    """

    methods: tuple[str, ...] = ("greedy", "uniform", "random")
    n_repeats: int = 100
    time_limit: float = 30.0

    def __post_init__(self):
        for method in self.methods:
            if method not in METHODS:
                raise UnknownNameError("cover method", method, METHODS)
        if self.n_repeats < 1:
            raise InvalidInputError(
                f"cover.n_repeats >= 1 must hold, but got {self.n_repeats}."
            )
        if not 0 < self.time_limit < np.inf:
            raise InvalidInputError(
                f"cover.time_limit > 0 must hold, but got {self.time_limit}."
            )


@dataclass(frozen=True)
class SelectSpec:
    """How to choose what to train, for `taskspace select`.

    Args:
        selector: name of a selector; if left out `noisy` for trainers that learn,
            `coverage` for others.
        candidates: points scattered over the box of the space in addition to it, or
            `"box"` for any point of the box.
        budget: trainings, at most.
        environment_steps: simulated steps of all trainings, at most.
        hours: wall-clock time, at most.
        n_parallel: trainings under way at a time.
        deterministic: heed results in the order of proposals.
        retries: trainings with another seed after one that is bad at home.
        patience: trainings in vain after which no candidate is expected to help.
        evaluate_uncovered_only: evaluate a new policy only where nothing serves yet.
        reference: the best performance there is, as stated, that regret is against.
        price: environment steps that a policy kept is worth, for `noisy`.
    """

    selector: str | None = None
    candidates: int | str | None = None
    budget: int | None = None
    environment_steps: int | None = None
    hours: float | None = None
    n_parallel: int = 1
    deterministic: bool = True
    retries: int = 0
    patience: int | None = None
    evaluate_uncovered_only: bool = False
    reference: float | None = None
    price: float | None = None

    def __post_init__(self):
        from taskspace.selection import SELECTORS, Budget, Options
        from taskspace.selection.candidates import BOX

        if self.selector is not None and self.selector not in SELECTORS:
            raise UnknownNameError("selector", self.selector, SELECTORS)
        if self.candidates not in (None, BOX) and (
            not isinstance(self.candidates, int) or self.candidates < 1
        ):
            raise InvalidInputError(
                f"select.candidates must be a number >= 1 or {BOX!r}, but got "
                f"{self.candidates!r}."
            )
        Budget(self.budget, self.environment_steps, self.hours)
        patience = 1 if self.patience is None else self.patience
        Options(n_parallel=self.n_parallel, retries=self.retries, patience=patience)

    def to_dict(self) -> dict[str, Any]:
        """Return what is set, as plain values."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def rename_former_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a stored file, with the keys of `[select]` as they are called today.

    Args:
        values: of an experiment, or of what a selection was asked.
    """
    spec = values.get("select")
    if not isinstance(spec, Mapping):
        return dict(values)
    renamed = {FORMER_KEYS.get(key, key): value for key, value in spec.items()}
    return {**values, "select": renamed}
