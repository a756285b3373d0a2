"""What one source is worth: the best answer without it, and the best with it."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from taskspace.cover.base import Clock, Cover
from taskspace.cover.methods.minimum import minimum_cover
from taskspace.cover.tolerance.budget import SmallestEpsilon
from taskspace.errors import InvalidInputError
from taskspace.progress import Progress
from taskspace.sets import TargetSets

__all__ = ["Best", "SourceValue", "best_of", "source_values"]


class Best(NamedTuple):
    """What the best selection that was found comes to.

    Args:
        value: its cost; with a budget its mean loss, its worst loss, or the share of
            the targets that it leaves unserved.
        bound: no selection has less.
        n_unserved: targets that no allowed source serves.
    """

    value: float
    bound: float
    n_unserved: int


Solve = Callable[[list[int], list[int], float], Best]
"""From sources that must be in, sources that must not, and seconds: the best."""


@dataclass(frozen=True)
class SourceValue:
    """The best selection without a selected source, or with one that is not selected.

    Args:
        source: the source.
        selected: whether the cover holds it; then the rest is about selections without
            it, else about selections with it.
        value: of the best such selection that was found, see `Best`; inf if none was.
        lower_bound: no such selection has less.
        extra: how much more that is than the cover itself has, at least.
        unserved: targets that only this source serves.
    """

    source: int
    selected: bool
    value: float
    lower_bound: float
    extra: float
    unserved: int

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain JSON values."""
        return asdict(self)


def best_of(
    cover: Cover,
    least: SmallestEpsilon | None = None,
    target_weights: ArrayLike | None = None,
) -> Best:
    """Return what a cover comes to, in the measure of its question.

    Args:
        cover: the cover.
        least: the smallest tolerance of a budget, where that was asked for.
        target_weights: weight of each target; all 1 where not given.
    """
    n_unserved = len(cover.uncoverable)
    if least is not None:
        return Best(least.upper, least.lower, n_unserved)
    if cover.mean_loss is not None:
        return Best(cover.mean_loss, cover.lower_bound, n_unserved)
    if cover.coverage_bound is not None:
        weights = np.ones(cover.n_targets)
        if target_weights is not None:
            weights = np.asarray(target_weights, np.float64)
        unserved = float(weights[cover.assignment < 0].sum() / (weights.sum() or 1.0))
        bound = unserved if cover.optimal else 1 - cover.coverage_bound
        return Best(unserved, bound, n_unserved)
    return Best(cover.cost, cover.lower_bound, n_unserved)


def source_values(
    cover: Cover,
    problem: TargetSets | Solve,
    *,
    own: Best | None = None,
    costs: ArrayLike | None = None,
    target_weights: ArrayLike | None = None,
    sources: Sequence[int] | None = None,
    time_limit: float = 60.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[SourceValue]:
    """Find what each source adds to a cover: of all targets, a share or a budget.

    Args:
        cover: the cover.
        problem: the targets that each source serves; or what finds the best selection,
            such as one of least mean loss.
        own: what the cover itself comes to, `best_of(cover)` if left out.
        costs: cost of each source, as given for the cover.
        target_weights: weight of each target, likewise.
        sources: whose values; all that are free if left out.
        time_limit: seconds for all together.
        seed: of the random choices.
        progress: called after each source.

    Returns:
        One value per source, the selected ones first, the worthiest first.
    """

    def solve_sets(include: list[int], exclude: list[int], seconds: float) -> Best:
        assert isinstance(problem, TargetSets)
        return best_of(
            minimum_cover(
                problem,
                costs=costs,
                target_weights=target_weights,
                share=cover.share,
                budget=cover.budget,
                include=include,
                exclude=exclude,
                time_limit=seconds,
                seed=seed,
            ),
            target_weights=target_weights,
        )

    solve = solve_sets if isinstance(problem, TargetSets) else problem
    own = own or best_of(cover, target_weights=target_weights)
    clock = Clock(time_limit)
    fixed = {*cover.include.tolist(), *cover.exclude.tolist()}
    chosen = set(cover.sources.tolist())
    every = range(cover.n_sources) if sources is None else sources
    asked = [s for s in every if s not in fixed]
    values = []
    for k, source in enumerate(asked):
        include, exclude = cover.include.tolist(), cover.exclude.tolist()
        (exclude if source in chosen else include).append(source)
        try:
            best = solve(include, exclude, clock.left / (len(asked) - k))
        except InvalidInputError:  # so few sources do not serve all targets
            best = Best(float("inf"), own.bound, own.n_unserved)
        values.append(
            SourceValue(
                source=source,
                selected=source in chosen,
                value=best.value,
                lower_bound=best.bound,
                extra=best.bound - own.value,
                unserved=best.n_unserved - own.n_unserved,
            )
        )
        if progress is not None:
            progress("values", k + 1, len(asked), "")
    return sorted(
        values,
        key=lambda v: (
            not v.selected,
            -v.unserved,
            -v.value if v.selected else v.value,
            v.source,
        ),
    )
