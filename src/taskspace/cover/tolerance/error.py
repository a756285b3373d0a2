"""How much error of the measured context some sources stand, on the targets.

A larger error makes windows larger, so sets only shrink: the largest error is found by
bisection over the finitely many at which a window of targets changes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from taskspace.cover.methods.minimum import minimum_cover
from taskspace.errors import InvalidInputError
from taskspace.measured import ErrorBounds
from taskspace.performance.study import Study, as_study
from taskspace.questions import Question
from taskspace.sets import TargetSets
from taskspace.spaces import Grid, Points

__all__ = ["LargestError", "largest_error"]

# Scattered targets of which all pairs are compared, at most.
MAX_POINTS = 3000


@dataclass(frozen=True, eq=False)
class LargestError:
    """How much error some sources stand, as a multiple of the error that was stated.

    Args:
        error: that was stated.
        holds_below: every smaller multiple of it leaves all targets served; infinite
            if every multiple does.
        sources: that serve all targets up to there.
        unserved: targets that stay without a source at `holds_below`.
        is_proven: whether no other sources of that number stand more: False where a
            search ended early, or sources were given.
    """

    error: ErrorBounds
    holds_below: float
    sources: NDArray[np.int64]
    unserved: NDArray[np.int64]
    is_proven: bool

    @property
    def words(self) -> str:
        """The result for people."""
        n = len(self.sources)
        who = "1 source stands" if n == 1 else f"{n} sources stand"
        if np.isinf(self.holds_below):
            return f"{who} any multiple of the error {self.error.words}."
        if self.holds_below == 0:
            return f"{n} source{'s' * (n != 1)} do not serve all targets at any error."
        scaled = self.error.times(self.holds_below)
        assert scaled is not None
        return f"{who} every error below {scaled.words} (of the targets)."

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; an infinite multiple is None."""
        finite = np.isfinite(self.holds_below)
        scaled = self.error.times(self.holds_below) if finite else None
        return {
            "holds_below": self.holds_below if finite else None,
            "error": None if scaled is None else scaled.to_dict(),
            "sources": self.sources.tolist(),
            "unserved": self.unserved.tolist(),
            "is_proven": self.is_proven,
        }


def largest_error(
    study: Study | xr.Dataset,
    question: Question,
    *,
    sources: ArrayLike | None = None,
    n_sources: int | None = None,
    time_limit: float = 60.0,
    seed: int = 0,
) -> LargestError:
    """Find the largest multiple of an error at which all targets stay served.

    Args:
        study: what is known, or a performance table.
        question: with the error whose multiples are tried.
        sources: these very sources; otherwise any `n_sources` of them.
        n_sources: how many sources there may be.
        time_limit: seconds for each cover of the search.
        seed: of the cover engine.
    """
    study = as_study(study)
    error, targets = question.error, study.targets
    if error is None or targets is None or (sources is None) == (n_sources is None):
        raise InvalidInputError(
            "The largest error needs a question with an error to multiply, targets "
            "with contexts, and either sources or how many there may be."
        )
    fixed = None if sources is None else np.unique(np.asarray(sources, np.int64))
    proven = fixed is None

    def serve(multiple: float) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
        """Return sources that serve all targets, None if none do; the unserved."""
        nonlocal proven
        sets = question.measured_with(error.times(multiple)).sets(study)
        if fixed is not None:
            unserved = np.flatnonzero(~sets.union(fixed))
            return (None if len(unserved) else fixed), unserved
        chosen, unserved, settled = _few(sets, n_sources, time_limit, seed)
        proven &= settled
        return chosen, unserved

    steps = _multiples(error, targets)
    best, unserved = serve(0.0)
    if best is None:
        none = np.zeros(0, np.int64) if fixed is None else fixed
        return LargestError(error, 0.0, none, unserved, proven)
    # Windows change at each step: `first` is the first step that fails.
    low, first = -1, len(steps)
    fails = np.zeros(0, np.int64)
    while first - low > 1:
        middle = (low + first) // 2
        chosen, unserved = serve(float(steps[middle]))
        if chosen is None:
            first, fails = middle, unserved
        else:
            low, best = middle, chosen
    limit = float(steps[first]) if first < len(steps) else _most(error)
    return LargestError(error, limit, np.asarray(best), fails, proven)


def _few(
    sets: TargetSets, n_sources: int | None, time_limit: float, seed: int
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64], bool]:
    """Return so many sources that serve all, what none serves, and if that is sure."""
    unserved = np.flatnonzero(~sets.coverable)
    if len(unserved):
        return None, unserved, True
    cover = minimum_cover(sets, time_limit=time_limit, seed=seed)
    assert n_sources is not None
    if cover.size <= n_sources:
        return cover.sources, unserved, True
    return None, unserved, cover.lower_bound > n_sources


def _multiples(error: ErrorBounds, targets: Grid | Points) -> NDArray[np.float64]:
    """Return the multiples of an error at which a window of targets changes."""
    if isinstance(targets, Grid):
        values = [axis.values for axis in targets.axes]
        candidates = [
            np.abs(v[:, None] - v) / (axis.reach(v) + 0.0)
            for v, axis in zip(values, error.columns(targets.names), strict=True)
            if axis is not None
        ]
        steps = np.unique(np.concatenate([x.ravel() for x in candidates]))
    else:
        if targets.size > MAX_POINTS:
            raise InvalidInputError(
                f"The largest error is found for grids and for at most {MAX_POINTS:,} "
                f"scattered targets, but got {targets.size:,}."
            )
        steps = np.zeros((targets.size, targets.size))
        columns = error.columns(targets.names)
        for column, axis in zip(targets.points.T, columns, strict=True):
            distance = np.abs(column[:, None] - column)
            with np.errstate(divide="ignore", invalid="ignore"):
                reach = 0.0 if axis is None else axis.reach(column)
                share = np.where(distance == 0, 0.0, distance / reach)
            steps = np.maximum(steps, share)
        steps = np.unique(steps)
    return steps[(steps > 0) & (steps < _most(error))]


def _most(error: ErrorBounds) -> float:
    """Return the multiple at which a percentage reaches 100; inf without one."""
    shares = [axis.amount for _, axis in error.axes if axis.is_relative]
    return 100 / max(shares) if shares else np.inf
