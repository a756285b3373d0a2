"""Cover methods as data: a new one is a file beside these and an entry here."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from taskspace.cover.base import Cover
from taskspace.cover.methods.baselines import random_cover, uniform_cover
from taskspace.cover.methods.greedy import greedy_cover
from taskspace.cover.methods.local import local_cover
from taskspace.cover.methods.minimum import minimum_cover
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance.study import Study
from taskspace.questions import Question
from taskspace.sets import TargetSets

__all__ = ["METHODS", "CoverMethod", "find_cover"]


@dataclass(frozen=True)
class CoverMethod:
    """What the rest of taskspace must know of a way to cover.

    Args:
        name: what users call it.
        find: finds a cover; takes the sets, and the options it `takes`.
        takes: names of its options.
        has_curve: whether `coverage_curve` knows it.
        needs_whole_table: every source must be trained before it can choose.
        needs_grid: sources must be on a grid.
        colour: of its curve in pictures (Okabe & Ito 2008).
    """

    name: str
    find: Callable[..., Cover]
    takes: tuple[str, ...]
    has_curve: bool
    needs_whole_table: bool
    needs_grid: bool
    colour: str


_ANY = ("costs", "include", "exclude")
_SEARCH = (*_ANY, "time_limit", "seed", "progress")
_PART = ("share", "target_weights", "budget")
_GREEDY = (*_ANY, *_PART)
_MINIMUM = (*_SEARCH, *_PART)
_USUAL = {"time_limit": 60.0, "seed": 0}

METHODS: dict[str, CoverMethod] = {
    method.name: method
    for method in (
        CoverMethod("greedy", greedy_cover, _GREEDY, True, True, False, "#0072B2"),
        CoverMethod("local", local_cover, _SEARCH, False, True, False, "#CC79A7"),
        CoverMethod("minimum", minimum_cover, _MINIMUM, False, True, False, "#E69F00"),
        CoverMethod("uniform", uniform_cover, ("shape",), True, False, True, "#D55E00"),
        CoverMethod("random", random_cover, ("seed",), True, False, False, "#009E73"),
    )
}
"""All methods by name."""


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
            left out. Demands that it does not know (`costs`, `share`,
            `target_weights`, `budget`, `include`, `exclude`) are refused unless they
            are None or empty; `shape`, `time_limit`, `seed` and `progress` are passed
            on to methods that take them.
    """
    if method not in METHODS:
        raise UnknownNameError("cover method", method, METHODS)
    chosen = METHODS[method]
    stated = {
        name: value
        for name, value in (_USUAL | options).items()
        if value is not None and np.size(value)
    }
    for name in stated:
        if name in (*_ANY, *_PART) and name not in chosen.takes:
            able = ", ".join(m.name for m in METHODS.values() if name in m.takes)
            raise InvalidInputError(f"method={method!r} knows no {name}. Use {able}.")
    passed = {
        name: value
        for name, value in stated.items()
        if name in chosen.takes or name not in ("shape", *_SEARCH)
    }
    return chosen.find(problem, question, **passed)
