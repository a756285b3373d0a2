"""Few seeds: how much of a cover is chance, by resampling the runs of each source.

The policies of a source are taken for runs of it (seeds), and their scores are joined
into one: the mean, or the interquartile mean, which one lucky run cannot move
(Agarwal et al., NeurIPS 2021). Runs are drawn again with replacement, source by source,
and the cover is found again. This estimates; with fewer than about ten runs intervals
are too narrow, because a bootstrap cannot see what no run showed. Where scores are
bounded, intervals of their means by betting hold for any number of runs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace._util.betting import mean_interval
from taskspace.cover.base import Clock, Cover
from taskspace.cover.methods.greedy import greedy_cover
from taskspace.cover.methods.minimum import minimum_cover
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance.study import Study
from taskspace.questions import Question
from taskspace.sets import pack

__all__ = ["AGGREGATES", "Resampled", "aggregate_runs", "resampled_covers"]

AGGREGATES = ("mean", "iqm")
"""How the runs of a source are joined: mean, interquartile mean."""


@dataclass(frozen=True, eq=False)
class Resampled:
    """A cover of joined runs, and what became of it under resampling.

    Args:
        cover: of the joined scores, with its proof.
        aggregate: how runs were joined.
        n_runs: runs of each source.
        n_resamples: how often runs were drawn again.
        still_serves: in which share of resamples these sources serve every target
            that they serve in the table.
        same_size: in which share a cover by greedy has the size that greedy has in the
            table.
        sizes: sizes of greedy's covers, one per resample.
        selected: how often each source was selected by greedy.
        low: lower ends of the intervals of J at each target, by its assigned source.
        high: upper ends.
        confidence: of the intervals.
        bet: ends of intervals of the mean of J by betting, dims `(end, target)`. They
            hold for every number of runs, and though the same runs selected the
            sources, if bounds of the scores are known; None if they are not, or runs
            are not joined by their mean.
    """

    cover: Cover
    aggregate: str
    n_runs: int
    n_resamples: int
    still_serves: float
    same_size: float
    sizes: NDArray[np.int64]
    selected: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    confidence: float
    bet: NDArray[np.float64] | None = None

    @property
    def statement(self) -> str:
        """What resampling says, as a sentence."""
        few = " (few runs: intervals are too narrow)" if self.n_runs < 10 else ""
        return (
            f"Of {self.n_resamples:,} resamples of {self.n_runs} runs per source{few}, "
            f"these sources still serve all that they serve in "
            f"{100 * self.still_serves:.3g} %; greedy needs {self.sizes.min()} to "
            f"{self.sizes.max()} sources, as many as here in "
            f"{100 * self.same_size:.3g} %."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what programs need to know, as JSON."""
        return {
            "aggregate": self.aggregate,
            "n_runs": self.n_runs,
            "n_resamples": self.n_resamples,
            "still_serves": self.still_serves,
            "same_size": self.same_size,
            "sizes": [int(self.sizes.min()), int(self.sizes.max())],
            "selected": self.selected.tolist(),
            "low": self.low.tolist(),
            "high": self.high.tolist(),
            "confidence": self.confidence,
            "betting_low": None if self.bet is None else self.bet[0].tolist(),
            "betting_high": None if self.bet is None else self.bet[1].tolist(),
        }


def aggregate_runs(scores: NDArray[np.float64], how: str) -> NDArray[np.float64]:
    """Return one score of the runs along the second axis.

    Args:
        scores: J, dims `(source, run, target)`; a run that failed has −inf.
        how: one of `AGGREGATES`. The interquartile mean leaves out a quarter of the
            runs (rounded down) at both ends.
    """
    if how not in AGGREGATES:
        raise UnknownNameError("aggregate", how, AGGREGATES)
    cut = scores.shape[1] // 4 if how == "iqm" else 0
    middle = np.sort(scores, axis=1)[:, cut : scores.shape[1] - cut]
    return middle.mean(axis=1)


def resampled_covers(
    study: Study,
    question: Question,
    *,
    aggregate: str = "mean",
    n_resamples: int = 200,
    bounds: tuple[float, float] | None = None,
    confidence: float = 0.95,
    time_limit: float = 60.0,
    seed: int = 0,
) -> Resampled:
    """Find a cover of joined runs, and how often it changes under resampling.

    Args:
        study: what is known; the policies of each source are its runs.
        question: criterion and tolerance; the joined score takes the place of a judge.
        aggregate: how runs are joined, one of `AGGREGATES`.
        n_resamples: how often runs are drawn again, `>= 1`.
        bounds: between which every score lies that a run can have, if that is known;
            then there are intervals by betting too.
        confidence: of the intervals of J, each.
        time_limit: seconds for the cover of the table.
        seed: of the draws.
    """
    table = question.table_of(study)
    question.check_exact("Resampling")
    question.check_single("Resampling")
    rule = question.rule
    if rule.reference == "home" or "performance" not in table or n_resamples < 1:
        raise InvalidInputError(
            "Resampling needs the scores of every run, a criterion that does not "
            "compare with a score at home (regret, ratio, floor), and n_resamples >= 1."
        )
    scores = np.asarray(table["performance"].values, np.float64)
    n_sources, n_runs, n_targets = scores.shape
    if bounds is not None and not (
        bounds[0] <= scores.min() <= scores.max() <= bounds[1]
    ):
        raise InvalidInputError(
            f"Every score must lie within its bounds, {bounds[0]:g} to {bounds[1]:g}, "
            f"but scores go from {scores.min():g} to {scores.max():g}."
        )
    if n_runs < 2:
        raise InvalidInputError(
            "Resampling needs at least two runs per source, but each has one. A long "
            "table tells runs apart by a column policy, seed or run."
        )
    stated = stated_reference(table)

    def losses(joined: NDArray[np.float64]) -> NDArray[np.float64]:
        if rule.reference == "none":
            return rule.loss(joined, np.zeros(1))
        return rule.loss(joined, joined.max(axis=0) if stated is None else stated)

    joined = aggregate_runs(scores, aggregate)
    own = losses(joined)
    sets = pack(own <= question.epsilon, losses=lambda s: own[s], question=question)
    cover = minimum_cover(sets, time_limit=Clock(time_limit).left, seed=seed)
    served = np.flatnonzero(cover.assignment >= 0)
    size = greedy_cover(sets).size
    rng = np.random.default_rng(seed)
    sizes, n_serving, selected = np.empty(n_resamples, np.int64), 0, np.zeros(n_sources)
    levels = np.empty((n_resamples, len(served)))
    for k in range(n_resamples):
        draw = rng.integers(0, n_runs, (n_sources, n_runs))
        again = aggregate_runs(scores[np.arange(n_sources)[:, None], draw], aggregate)
        serves = losses(again) <= question.epsilon
        n_serving += bool(serves[np.ix_(cover.sources, served)].any(axis=0).all())
        greedy = greedy_cover(pack(serves))
        sizes[k] = greedy.size
        selected[greedy.sources] += 1
        levels[k] = again[cover.assignment[served], served]
    tail = (1 - confidence) / 2
    low, high = np.full(n_targets, np.nan), np.full(n_targets, np.nan)
    low[served], high[served] = np.quantile(
        levels, [tail, 1 - tail], axis=0, method="closest_observation"
    )
    bet = None
    if bounds is not None and aggregate == "mean":
        bet = np.full((2, n_targets), np.nan)
        width = bounds[1] - bounds[0]
        own = (scores[cover.assignment[served], :, served] - bounds[0]) / width
        # The same runs selected the source of a target, among all of them.
        each = 1 - (1 - confidence) / n_sources
        ends = mean_interval(np.clip(own, 0.0, 1.0), each)
        bet[:, served] = bounds[0] + width * np.array(ends)
    return Resampled(
        cover, aggregate, n_runs, n_resamples, n_serving / n_resamples,
        float((sizes == size).mean()), sizes, selected / n_resamples, low, high,
        confidence, bet,
    )  # fmt: skip


def stated_reference(table: xr.Dataset) -> NDArray[np.float64] | None:
    """Return the reference of each target, None where it is the best of the table.

    Args:
        table: a performance table.
    """
    if table.attrs.get("best_known_kind") in (None, "best of the table"):
        return None
    return table["best_known"].values


def run_losses(study: Study, question: Question) -> NDArray[np.float64] | None:
    """Return the loss of every run, None where runs are not independent in it.

    A reference that is the best of the same runs ties them together.

    Args:
        study: what is known; the policies of each source are its runs.
        question: criterion; each run is judged by itself.

    Returns:
        Dims `(source, run, target)`.
    """
    table, rule = question.table_of(study), question.rule
    reference = np.zeros(1) if rule.reference == "none" else stated_reference(table)
    if "performance" not in table or rule.reference == "home" or reference is None:
        return None
    scores = np.asarray(table["performance"].values, np.float64)
    return np.stack([rule.loss(run, reference) for run in scores.swapaxes(0, 1)], 1)
