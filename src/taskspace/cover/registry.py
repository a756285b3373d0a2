"""Cover methods by name. A new one is a function with the decorator `cover_method`."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from taskspace.cover.cover import Cover
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance.study import Study
from taskspace.questions import Question
from taskspace.sets import TargetSets

__all__ = ["METHODS", "CoverMethod", "Curve", "cover_method", "find_cover"]

Find = TypeVar("Find", bound=Callable[..., Cover])

Curve = Callable[
    [TargetSets, Sequence[int] | None, int, int],
    tuple[NDArray[np.int64], NDArray[np.int64]],
]
"""From sets, the shape of the grid, repeats and a seed: numbers of sources, ascending,
and how many targets they serve, dims `(repeat, number)`."""

DEMANDS = ("costs", "include", "exclude", "share", "target_weights", "budget")
"""Options that a method refuses if it does not support them."""

_USUAL = {"time_limit": 60.0, "seed": 0}


@dataclass(frozen=True)
class CoverMethod:
    """A cover method and its properties.

    Args:
        name: what users call it.
        find: finds a cover of a study under a question, or of sets; its keyword
            arguments are the options that it takes.
        colour: of its curve in pictures (Okabe & Ito 2008).
        curve: gives coverage against the number of sources, None if it has no order.
        needs_whole_table: every source must be trained before it can choose.
    """

    name: str
    find: Callable[..., Cover]
    colour: str
    curve: Curve | None
    needs_whole_table: bool

    @property
    def takes(self) -> tuple[str, ...]:
        """Names of its options."""
        return tuple(inspect.signature(self.find).parameters)[2:]

    @property
    def needs_grid(self) -> bool:
        """Whether sources must be on a grid."""
        return "shape" in self.takes


METHODS: dict[str, CoverMethod] = {}
"""All methods by name, in the order in which they were defined."""


def cover_method(
    name: str,
    *,
    colour: str,
    curve: Curve | None = None,
    needs_whole_table: bool = True,
) -> Callable[[Find], Find]:
    """Return a decorator that makes a function a cover method.

    Args:
        name: what users call it.
        colour: of its curve in pictures.
        curve: gives coverage against the number of sources, None if it has no order.
        needs_whole_table: every source must be trained before it can choose.
    """

    def register(find: Find) -> Find:
        METHODS[name] = CoverMethod(name, find, colour, curve, needs_whole_table)
        return find

    return register


def find_cover(
    problem: Study | TargetSets,
    question: Question | None = None,
    *,
    method: str,
    **options: Any,
) -> Cover:
    """Find a cover by a method's name.

    Args:
        problem: a study, or the targets that each source serves.
        question: what is asked of a study.
        method: one of `METHODS`.
        options: what the function of the method takes; 60 seconds and seed 0 where
            left out. Demands that it does not support (`costs`, `share`,
            `target_weights`, `budget`, `include`, `exclude`) are refused unless they
            are None or empty; `shape`, `time_limit`, `seed` and `progress` are passed
            on to methods that take them.
    """
    if method not in METHODS:
        raise UnknownNameError("cover method", method, METHODS)
    takes = METHODS[method].takes
    passed = {}
    for name, value in (_USUAL | options).items():
        if value is None or not np.size(value):
            continue
        if name in DEMANDS and name not in takes:
            able = [m.name for m in METHODS.values() if name in m.takes]
            raise InvalidInputError(
                f"method={method!r} does not support {name}; {' and '.join(able)} do."
            )
        if name in takes or name not in ("shape", "time_limit", "seed", "progress"):
            passed[name] = value
    return METHODS[method].find(problem, question, **passed)
