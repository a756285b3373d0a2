"""What one source is worth: the best cover without it, and the best with it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from numpy.typing import ArrayLike

from taskspace.cover.base import Clock, Cover
from taskspace.cover.methods.minimum import minimum_cover
from taskspace.progress import Progress
from taskspace.sets import TargetSets

__all__ = ["SourceValue", "source_values"]


@dataclass(frozen=True)
class SourceValue:
    """A cover without a selected source, or with one that is not selected.

    Args:
        source: the source.
        selected: whether the cover holds it; then the rest is about covers without
            it, else about covers with it.
        cost: of the best such cover that was found.
        lower_bound: no such cover costs less.
        extra: how much more that is than the cover itself costs, at least.
        unserved: targets that only this source serves.
    """

    source: int
    selected: bool
    cost: float
    lower_bound: float
    extra: float
    unserved: int

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain JSON values."""
        return asdict(self)


def source_values(
    cover: Cover,
    sets: TargetSets,
    *,
    costs: ArrayLike | None = None,
    sources: Sequence[int] | None = None,
    time_limit: float = 60.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[SourceValue]:
    """Find what each source adds to a cover of all targets.

    Args:
        cover: of the sets.
        sets: the targets that each source serves.
        costs: cost of each source, as given for the cover.
        sources: whose values; all that are free if left out.
        time_limit: seconds for all together.
        seed: of the random choices.
        progress: called after each source.

    Returns:
        One value per source, the selected ones first, the worthiest first.
    """
    clock = Clock(time_limit)
    fixed = {*cover.include.tolist(), *cover.exclude.tolist()}
    chosen = set(cover.sources.tolist())
    every = range(cover.n_sources) if sources is None else sources
    asked = [s for s in every if s not in fixed]
    values = []
    for k, source in enumerate(asked):
        include, exclude = cover.include.tolist(), cover.exclude.tolist()
        (exclude if source in chosen else include).append(source)
        best = minimum_cover(
            sets,
            costs=costs,
            include=include,
            exclude=exclude,
            time_limit=clock.left / (len(asked) - k),
            seed=seed,
        )
        values.append(
            SourceValue(
                source=source,
                selected=source in chosen,
                cost=best.cost,
                lower_bound=best.lower_bound,
                extra=best.lower_bound - cover.cost,
                unserved=len(best.uncoverable) - len(cover.uncoverable),
            )
        )
        if progress is not None:
            progress("values", k + 1, len(asked), "")
    return sorted(
        values,
        key=lambda v: (
            not v.selected,
            -v.unserved,
            -v.extra if v.selected else v.extra,
            v.source,
        ),
    )
