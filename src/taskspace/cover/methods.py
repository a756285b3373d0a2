"""All cover methods by name, and coverage against the number of selected sources."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from taskspace.cover.cover import html_view
from taskspace.cover.problem import grid_shape, sets_of
from taskspace.cover.registry import METHODS, find_cover
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance.study import Study
from taskspace.questions import Question
from taskspace.sets import TargetSets

# Methods are registered by importing their modules, in this order.
# isort: off
from taskspace.cover import greedy, local, minimum, baselines  # noqa: F401
# isort: on

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["METHODS", "CoverageCurve", "coverage_curve", "find_cover"]


@dataclass(frozen=True, eq=False, repr=False)
class CoverageCurve:
    """Share of all targets served, by the number of selected sources.

    Where a selection is not random, all coverage arrays are the same. Beyond the
    last number of sources nothing changes.

    Args:
        method: name of the cover method.
        n_sources: ascending numbers of selected sources.
        coverage: mean over the repeats at each number of sources.
        low: 5 % quantile over the repeats.
        high: 95 % quantile.
        sizes: for each repeat the sources needed to serve all coverable targets.
        n_repeats: number of repeats.
        max_coverage: share of targets that any source serves.
    """

    method: str
    n_sources: NDArray[np.int64]
    coverage: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    sizes: NDArray[np.int64]
    n_repeats: int
    max_coverage: float

    @property
    def size_spread(self) -> dict[str, float]:
        """Sources that it takes: mean, its standard error, least and most.

        The standard error is NaN where there is one repeat only.
        """
        n = self.n_repeats
        spread = float(self.sizes.std(ddof=1)) if n > 1 else np.nan
        return {
            "mean": float(self.sizes.mean()),
            "standard_error": spread / np.sqrt(n),
            "least": int(self.sizes.min()),
            "most": int(self.sizes.max()),
        }

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per number of sources, with all coverages."""
        import pandas as pd  # loads slowly

        names = ("n_sources", "coverage", "low", "high")
        return pd.DataFrame({name: getattr(self, name) for name in names})

    def __repr__(self) -> str:
        repeats = f", mean of {self.n_repeats:,} repeats" if self.n_repeats > 1 else ""
        lines = [f"CoverageCurve by {self.method}{repeats}"]
        for share in (0.5, 0.9, 1.0):
            # The last one is coverage of all that can be served, as counted.
            wanted = share * self.max_coverage if share < 1 else self.max_coverage
            met = self.n_sources[self.coverage >= wanted * (1 - 1e-12)]
            what = f"{100 * wanted:.4g} % of the targets"
            lines.append(
                f"  {what}: {met[0]:,} sources" if len(met) else f"  {what}: not met"
            )
        if self.n_repeats > 1:
            size = self.size_spread
            lines.append(
                f"  a selection takes {size['mean']:.4g} ± "
                f"{size['standard_error']:.2g} sources on average, "
                f"{size['least']:,} to {size['most']:,}"
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_view(repr(self), self.to_frame())


def coverage_curve(
    problem: Study | TargetSets,
    question: Question | str | None = None,
    *,
    method: str = "greedy",
    n_repeats: int = 100,
    seed: int = 0,
    shape: Sequence[int] | None = None,
) -> CoverageCurve:
    """Return how coverage grows with the number of selected sources.

    Args:
        problem: a study, or the targets that each source serves.
        question: what is asked of a study.
        method: `"greedy"` (its order of selection), `"uniform"` (sub-grids at every
            resolution) or `"random"` (sources drawn without replacement).
        n_repeats: repeats of a random selection.
        seed: of the random selection.
        shape: points on each axis of the source grid, for `"uniform"`; a study knows
            its own.

    Returns:
        The curve, up to the number of sources from which on it stays the same.
    """
    able = {name: each.curve for name, each in METHODS.items() if each.curve}
    if method not in able:
        raise UnknownNameError("curve method", method, able)
    if n_repeats < 1:
        raise InvalidInputError(f"n_repeats >= 1 must hold, but got {n_repeats}.")
    sets = sets_of(problem, question)
    if METHODS[method].needs_grid:
        shape = grid_shape(problem, shape)
    return _curve(method, sets, *able[method](sets, shape, n_repeats, seed))


def _curve(
    method: str,
    sets: TargetSets,
    n_sources: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> CoverageCurve:
    coverage = counts / max(1, sets.n_targets)
    n_servable = int(sets.coverable.sum())
    full = counts >= n_servable
    first = np.where(full.any(1), full.argmax(1), -1) if full.size else full.sum(1) - 1
    sizes = np.where(first >= 0, n_sources[first], 0) if full.size else first * 0
    low, high = np.quantile(coverage, [0.05, 0.95], axis=0)
    return CoverageCurve(
        method=method,
        n_sources=n_sources,
        coverage=coverage.mean(0),
        low=low,
        high=high,
        sizes=sizes.astype(np.int64),
        n_repeats=len(counts),
        max_coverage=n_servable / sets.n_targets if sets.n_targets else 1.0,
    )
