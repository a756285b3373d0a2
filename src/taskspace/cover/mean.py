"""The sources of a budget whose best-of-selection mean loss is least: k-median."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.clock import Clock
from taskspace.cover.costs import Exact, exact_weights, round_down
from taskspace.cover.cover import Cover
from taskspace.cover.location import (
    Branching,
    begin_greedily,
    exact_sum,
    swapped,
)
from taskspace.cover.location import least_mean as mean_problem
from taskspace.cover.minimum import N_ROUNDS, full_cover
from taskspace.cover.part import most_wanted
from taskspace.cover.problem import CoverProblem, check_budget, restrict
from taskspace.cover.verify import verify_cover
from taskspace.criteria import Criterion
from taskspace.errors import InvalidInputError
from taskspace.progress import Progress, silent
from taskspace.questions import Question, tolerance_sets

_MAX_ROUNDED = 2_000_000  # entries up to which every rounding is improved by swaps
_MAX_VERIFIED = 20_000_000


def least_mean(
    losses: Any,
    budget: int,
    *,
    epsilon: float | None = None,
    target_weights: ArrayLike | None = None,
    include: Sequence[int] = (),
    exclude: Sequence[int] = (),
    leave_out: bool = False,
    time_limit: float = 60.0,
    progress: Progress | None = None,
) -> Cover:
    """Find the sources of least mean loss, every target served by the best of them.

    Args:
        losses: loss matrix `(source, target)`, xarray or NumPy; +inf where a source
            cannot be used.
        budget: sources at most, `>= 1`.
        epsilon: no target may lose more than this; None for no limit.
        target_weights: weight of each target in the mean, `>= 0`; all 1 where not
            given.
        include: sources that must be selected.
        exclude: sources that must not be.
        leave_out: take the mean over the targets that some source serves (within
            epsilon); the others are the cover's `uncoverable`.
        time_limit: processor seconds.
        progress: called now and then with the bounds of the least mean.

    Returns:
        The cover: `mean_loss`, `lower_bound` of all such means, `optimal` if they are
        equal. Its tolerance is the largest loss that it leaves.
    """
    clock = Clock(time_limit)
    matrix = np.asarray(losses, np.float64)
    if matrix.ndim != 2 or np.isnan(matrix).any() or (matrix == -np.inf).any():
        raise InvalidInputError(
            "A mean needs a loss matrix (source, target) of numbers above −inf, but "
            f"got shape {matrix.shape} with NaN or −inf in it."
        )
    limits = restrict(len(matrix), include, exclude)
    check_budget(budget, limits[0], least=1)
    exact_weights(target_weights, matrix.shape[1])  # refuses what are no weights
    weights = np.ones(matrix.shape[1])
    if target_weights is not None:
        weights = np.asarray(target_weights, np.float64)
    allowed = matrix
    if epsilon is not None:
        _rule(losses).check_epsilon(epsilon)
        allowed = np.where(matrix <= epsilon, matrix, np.inf)
    if leave_out:
        able = np.delete(allowed, limits[1], axis=0)
        weights = np.where(np.isfinite(able).any(axis=0), weights, 0.0)
    if not weights.any():
        raise InvalidInputError("Some target must have a weight above 0 and a source.")
    search = _Search(allowed, weights, budget, *limits)
    _begin(search, clock, epsilon)
    search.run(clock, progress or silent)
    chosen = search.selection
    worst = float(allowed[np.ix_(chosen, weights > 0)].min(axis=0).max())
    if not _rule(losses).allows_negative_epsilon:
        worst = max(0.0, worst)
    sets = tolerance_sets(losses if hasattr(losses, "attrs") else matrix, worst)
    total = sum((Fraction(w) for w in weights.tolist()), Fraction(0))
    cover = CoverProblem(sets, include=include, exclude=exclude).cover(
        "minimum",
        chosen,
        lower_bound=0,
        lower_bound_kind=search.branching.kind,
        stop_reason="proven optimal" if search.is_optimal else "time limit",
        clock=clock,
        budget=budget,
        mean_loss=round_down(search.cost / total),
        optimal=search.is_optimal,
        prices=search.branching.proof(Fraction(1), np.arange(len(weights))),
    )
    cover = replace(cover, lower_bound=round_down(search.lower / total))
    if matrix.size <= _MAX_VERIFIED:
        verify_cover(
            cover,
            sets,
            target_weights=target_weights,
            raise_on_failure=True,
            effort=0,
        )
    return cover


def mean_cover(problem: CoverProblem, budget: int, **options: Any) -> Cover:
    """Return the sources of a budget whose mean loss over a study is least.

    Args:
        problem: what is to be covered.
        budget: number of sources.
        options: `epsilon`, `leave_out`, `time_limit`, `progress`: see `least_mean`.
    """
    question = problem.question
    cover = least_mean(
        question.losses(problem.study),
        budget,
        target_weights=problem.target_weights,
        include=problem.include,
        exclude=problem.exclude,
        **options,
    )
    assert cover.question is not None
    return replace(cover, question=question.at(cover.question.epsilon))


def _rule(losses: Any) -> Criterion:
    """Return the criterion that losses are of; regret where they do not say it."""
    return Question(getattr(losses, "attrs", {}).get("criterion", "regret")).rule


class _Search:
    """Branching on the sources that are free."""

    def __init__(
        self,
        matrix: NDArray[np.float64],
        weights: NDArray[np.float64],
        budget: int,
        include: NDArray[np.int64],
        exclude: NDArray[np.int64],
    ):
        self.matrix, self.weights = matrix, weights
        self.include, self.exclude = include, exclude
        decided = np.concatenate([include, exclude])
        self.free = np.setdiff1d(np.arange(len(matrix)), decided)
        caps = matrix[include].min(axis=0, initial=np.inf)
        self.room = budget - len(include)
        part = matrix if len(self.free) == len(matrix) else matrix[self.free]
        self.problem = mean_problem(part, weights, max(1, self.room), caps)
        self.problem = replace(self.problem, budget=min(self.room, len(self.free)))
        self.branching = Branching(self.problem, self.cost_of, self._rounded)

    def cost_of(self, sources: NDArray[np.int64]) -> Exact | None:
        """Weighted loss of free sources with those that must be in, unrounded."""
        rows = np.append(self.include, self.free[sources])
        best = self.matrix[rows].min(axis=0, initial=np.inf)
        best = np.where(self.weights > 0, best, 0.0)
        if np.isinf(best).any():
            return None
        least = self.branching.best_cost
        rough = float(best @ self.weights)
        if least is not None and rough > float(least) + 1e-9 * abs(rough):
            return Fraction(rough)  # not the best, whatever the roundings
        return exact_sum(best, self.weights)

    def _rounded(self, wanted: NDArray[np.float64]) -> NDArray[np.int64]:
        sources = most_wanted(wanted, self.problem.budget)
        if len(self.problem.lists.members) > _MAX_ROUNDED:
            return sources
        return swapped(self.problem, sources, Clock())

    @property
    def selection(self) -> NDArray[np.int64]:
        """All sources of the best selection."""
        assert self.branching.best is not None
        chosen = self.free[self.branching.best]
        return np.sort(np.append(self.include, chosen)).astype(np.int64)

    @property
    def cost(self) -> Fraction:
        """Weighted loss of the best selection."""
        assert self.branching.best_cost is not None
        return Fraction(self.branching.best_cost)

    @property
    def lower(self) -> Fraction:
        """No selection has a smaller weighted loss."""
        return min(Fraction(self.branching.lower), self.cost)

    @property
    def is_optimal(self) -> bool:
        """Whether bound and selection meet."""
        return self.lower >= self.cost

    def run(self, clock: Clock, report: Progress) -> None:
        """Branch until solved or out of time."""
        total = float(self.weights.sum())

        def tell() -> None:
            low, high = float(self.lower) / total, float(self.cost) / total
            report("search", low, high, "mean loss")

        self.branching.run(clock, tell)


def _begin(search: _Search, clock: Clock, epsilon: float | None) -> None:
    """Find a selection that serves every target, or say that there is none."""
    offer, problem = search.branching.offer, search.problem
    if search.room:
        start = begin_greedily(problem, np.zeros(0, np.int64))
        offer(swapped(problem, start, clock))
    else:
        offer(np.zeros(0, np.int64))
    if search.branching.best is not None:
        return
    counts = search.weights > 0
    sets = tolerance_sets(search.matrix[:, counts], np.finfo(float).max)
    instance = CoverProblem(sets, include=search.include, exclude=search.exclude)
    most, n_stages = search.room + len(search.include), N_ROUNDS
    cover = full_cover(instance, clock, n_stages=n_stages)
    while cover.lower_bound <= most < cover.size and clock.left > 0:
        n_stages += 1
        cover = full_cover(instance, clock, n_stages=n_stages)
    if cover.is_full and cover.size <= most:
        fewest = np.setdiff1d(cover.sources, search.include)
        offer(np.searchsorted(search.free, fewest))
        return
    within = "" if epsilon is None else f" within ε = {epsilon:g}"
    if cover.is_full and cover.lower_bound <= most:
        raise InvalidInputError(
            f"No {most} sources that serve every target{within} were found in time. "
            f"{cover.size} do: give a larger budget or more time."
        )
    few = (
        f"it takes {cover.lower_bound:g}" if cover.is_full else "no source serves some"
    )
    raise InvalidInputError(
        f"No {most} sources serve every target{within}: {few}, proven. Give a larger "
        "budget or tolerance, or leave such targets out."
    )
