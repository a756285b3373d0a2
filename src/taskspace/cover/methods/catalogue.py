"""Cover methods as data: a new one is a file beside these and an entry here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from taskspace.cover.base import Cover
from taskspace.cover.methods.baselines import random_cover, uniform_cover
from taskspace.cover.methods.greedy import greedy_cover
from taskspace.cover.methods.local import local_cover
from taskspace.cover.methods.minimum import minimum_cover
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance.study import Study
from taskspace.progress import Progress
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
    shape: Sequence[int] | None = None,
    costs: ArrayLike | None = None,
    share: float | None = None,
    target_weights: ArrayLike | None = None,
    budget: int | None = None,
    include: ArrayLike = (),
    exclude: ArrayLike = (),
    time_limit: float = 60.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> Cover:
    """Find a cover by a method's name.

    Args:
        problem: a study, or the targets that each source serves.
        question: what is asked of a study.
        method: one of `METHODS`.
        shape: points on each axis of the source grid, for `uniform`; a study knows it.
        costs: cost of each source, for `greedy`, `local` and `minimum`.
        share: share of the targets that is enough, for `greedy` and `minimum`.
        target_weights: weight of each target, likewise.
        budget: sources to take at most, likewise.
        include: sources that must be in, for `greedy`, `local` and `minimum`.
        exclude: sources that must not be in, likewise.
        time_limit: seconds for `local` and `minimum`.
        seed: for `local`, `minimum` and `random`.
        progress: called now and then by `local` and `minimum`.
    """
    if method not in METHODS:
        raise UnknownNameError("cover method", method, METHODS)
    chosen = METHODS[method]
    asked = {
        name: value
        for name, value in (
            ("costs", costs),
            ("share", share),
            ("target_weights", target_weights),
            ("budget", budget),
            ("include", include if np.size(include) else None),
            ("exclude", exclude if np.size(exclude) else None),
        )
        if value is not None
    }
    for name in asked:
        if name not in chosen.takes:
            able = ", ".join(m.name for m in METHODS.values() if name in m.takes)
            raise InvalidInputError(f"method={method!r} knows no {name}. Use {able}.")
    always = {
        "shape": shape,
        "time_limit": time_limit,
        "seed": seed,
        "progress": progress,
    }
    options = {name: value for name, value in always.items() if name in chosen.takes}
    return chosen.find(problem, question, **options, **asked)
