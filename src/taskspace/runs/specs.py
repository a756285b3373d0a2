"""The tables of an experiment: `[[criteria]]`, `[cover]` and `[select]`."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import msgspec
import numpy as np

from taskspace.cover import METHODS
from taskspace.criteria import Level
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.questions import Question
from taskspace.runs.objects import check_keys

if TYPE_CHECKING:
    from taskspace.selection import Options

DEMAND_KEYS = ("criterion", "epsilon", "judge", "measure")
CRITERION_KEYS = (*DEMAND_KEYS, "also", "error")

T = TypeVar("T")


@dataclass(frozen=True)
class CriterionSpec:
    """One criterion and the tolerances to cover for.

    Args:
        question: what is asked, with the first tolerance.
        epsilon: all tolerances.
    """

    question: Question
    epsilon: tuple[float, ...]

    @classmethod
    def from_dict(cls, spec: Mapping[str, Any]) -> "CriterionSpec":
        """Read a table `[[criteria]]`.

        Args:
            spec: criterion, judge, measure; epsilon, one or several; further demands
                `also`, each a table; the `error` of the measured context.
        """
        _check_criterion("[[criteria]]", spec, CRITERION_KEYS)
        also = spec.get("also", [])
        if not isinstance(also, list | tuple) or not all(
            isinstance(each, dict) for each in also
        ):
            raise InvalidInputError(
                "criteria.also must be a list of tables, one per further demand, but "
                f"got {also!r}."
            )
        for each in also:
            _check_criterion("criteria.also", each, DEMAND_KEYS)
        epsilon = spec["epsilon"]
        several = epsilon if isinstance(epsilon, list | tuple) else [epsilon]
        numbers = _typed_value("[[criteria]]", "epsilon", several, tuple[float, ...])
        if not numbers:
            raise InvalidInputError("criteria.epsilon must name a tolerance.")
        found = cls(_question_of({**spec, "epsilon": numbers[0]}), numbers)
        _ = found.questions
        return found

    @property
    def questions(self) -> tuple[Question, ...]:
        """One question per tolerance."""
        return tuple(self.question.at(each) for each in self.epsilon)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in a file."""
        first, *others = map(_demand_record, self.question.demands)
        if others:
            first["also"] = others
        if self.question.error is not None:
            first["error"] = self.question.error.to_dict()
        return first | {"epsilon": self.epsilon}


def _question_of(spec: Mapping[str, Any]) -> Question:
    """Return the question of a table `[[criteria]]`, or of one of its `also`."""
    return Question(
        spec["criterion"],
        spec.get("judge", "worst"),
        epsilon=spec["epsilon"],
        measure=spec.get("measure", ""),
        error=spec.get("error"),
        also=[_question_of(each) for each in spec.get("also", ())],
    )


def _demand_record(demand: Question) -> dict[str, Any]:
    """Return a demand as a table of a file states it."""
    record = {"judge": demand.judge, "epsilon": demand.epsilon}
    if not isinstance(demand.rule, Level):
        return {"criterion": demand.criterion, **record}
    own = {} if demand.measure == "performance" else {"measure": demand.measure}
    return {"criterion": "floor", **record, **own}


def _check_criterion(
    where: str, spec: Mapping[str, Any], known: tuple[str, ...]
) -> None:
    check_keys(where, spec, known)
    if "criterion" not in spec or "epsilon" not in spec:
        raise InvalidInputError(
            f"{where} needs criterion and epsilon, but got {dict(spec)}."
        )


@dataclass(frozen=True)
class CoverSpec:
    """How to cover.

    Args:
        methods: names of cover methods.
        n_repeats: random selections, for the spread of the `random` method.
        time_limit: processor seconds for each of the searches that can go on for ever.
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
        from taskspace.selection import SELECTORS
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
        self.options(n_axes=1)

    def options(self, n_axes: int) -> "Options":
        """Return the options of the selection.

        Args:
            n_axes: context axes; they say how patient it is, where nothing else does.
        """
        from taskspace.selection import Budget, Options

        return Options(
            budget=Budget(self.budget, self.environment_steps, self.hours),
            n_parallel=self.n_parallel,
            deterministic=self.deterministic,
            retries=self.retries,
            patience=2 * n_axes + 1 if self.patience is None else self.patience,
            evaluate_uncovered_only=self.evaluate_uncovered_only,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what is set, as plain values."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def read_table(where: str, spec: Mapping[str, Any], kind: type[T]) -> T:
    """Return a table of an experiment as what it should be, or raise a sentence.

    Args:
        where: what to call the table.
        spec: its values.
        kind: a dataclass.
    """
    kinds = get_type_hints(kind)
    check_keys(where, spec, list(kinds))
    return kind(
        **{
            name: _typed_value(where, name, value, kinds[name])
            for name, value in spec.items()
        }
    )


def _typed_value(where: str, name: str, value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        said = str(error).partition(" - at ")[0]
        raise InvalidInputError(
            f"{name} of {where} has a value of a wrong type, {value!r}: {said}."
        ) from None
