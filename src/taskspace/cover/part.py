"""Covers of a part, with proofs: the fewest for a share, the best and the least of k.

A share is met by the fewest sources of which some selection serves enough: one budget
after the other, downwards, until none does.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.clock import Clock
from taskspace.cover.branching import Branching
from taskspace.cover.costs import Exact, exact_weights, round_down
from taskspace.cover.cover import Cover
from taskspace.cover.greedy import greedy_sources
from taskspace.cover.location import (
    begin_greedily,
    maximum_coverage,
    swapped,
)
from taskspace.cover.location import least_mean as mean_problem
from taskspace.cover.prices import knapsack_bound
from taskspace.cover.problem import CoverProblem, check_budget, restrict
from taskspace.cover.verify import verify_cover
from taskspace.errors import InvalidInputError
from taskspace.progress import Progress, silent
from taskspace.questions import Question, tolerance_sets

_MAX_ROUNDED = 2_000_000  # entries up to which every rounding is improved by swaps
_MAX_VERIFIED = 20_000_000
_NONE = np.zeros(0, np.int64)


def share_cover(
    asked: CoverProblem, needed: int, clock: Clock, report: Progress
) -> Cover:
    """Return the fewest sources that serve a share of the target weight.

    Args:
        asked: the problem, in which every source costs 1.
        needed: weight that free sources must serve, less than they can.
        clock: whose time limit counts.
        report: called now and then with where the search stands.
    """
    sets, weights, n_in = asked.free_sets, asked.open_weights, len(asked.include)
    slack = asked.servable - needed
    best = greedy_sources(sets, np.ones(sets.n_sources), weights, needed)
    lower, kind, prices = 0, "prices", None
    while len(best) > lower:
        search = _coverage_search(asked, len(best) - 1, clock, slack)

        def tell(upper: int = n_in + len(best), low: int = n_in + lower) -> None:
            report("search", low, upper, "branching")

        search.run(clock, tell)
        if search.best_cost is not None and search.best_cost <= slack:
            assert search.best is not None
            best = search.best
            continue
        lower = search.excluded_budget(slack) + 1
        prices = search.proof(_priced(asked))
        if search.lower > slack and lower < len(best):
            lower, kind = len(best), "exact"
        break
    cover = asked.cover(
        "minimum",
        asked.selection(best),
        lower_bound=n_in + lower,
        lower_bound_kind=kind,
        stop_reason="time limit",
        clock=clock,
        share=asked.share,
        missed_share=asked.missed_share(asked.served(best) + asked.included_weight),
        prices=prices,
    )
    return replace(cover, stop_reason="proven optimal") if cover.optimal else cover


def budget_cover(asked: CoverProblem, clock: Clock, report: Progress) -> Cover:
    """Return the sources of a budget that serve the most target weight.

    Args:
        asked: the problem, with a budget.
        clock: whose time limit counts.
        report: called now and then with where the search stands.
    """
    assert asked.budget is not None
    search = _coverage_search(asked, asked.budget - len(asked.include), clock)
    total, servable = asked.total, asked.servable + asked.included_weight

    def as_share(unserved: Exact) -> Fraction:
        return Fraction(servable - unserved, total) if total else Fraction(1)

    def tell() -> None:
        low, high = as_share(search.best_cost or 0), as_share(search.lower)
        report("search", float(low), float(high), "branching")

    search.run(clock, tell)
    assert search.best is not None
    assert search.best_cost is not None
    is_best = search.lower >= search.best_cost
    # How many sources serve as much as these, at least.
    ones, served = np.ones(len(asked.free)), asked.served(search.best)
    fewest = knapsack_bound(asked.free_sets, ones, asked.open_weights, served)
    return asked.cover(
        "minimum",
        asked.selection(_needed_only(search.best, asked)),
        lower_bound=len(asked.include) + fewest,
        lower_bound_kind=search.kind,
        stop_reason="proven optimal" if is_best else "time limit",
        clock=clock,
        optimal=is_best,
        budget=asked.budget,
        most=as_share(search.lower),
        prices=search.proof(_priced(asked)),
    )


def _coverage_search(
    asked: CoverProblem, room: int, clock: Clock, enough: int | None = None
) -> Branching:
    """Return a search for the free sources that leave the least weight unserved."""
    problem = maximum_coverage(asked.free_sets, asked.open_weights, room)
    search = Branching(
        problem,
        lambda sources: asked.servable - asked.served(sources),
        lambda wanted: np.argsort(-wanted, kind="stable")[: problem.budget],
        enough,
    )
    search.offer(_NONE)
    search.offer(swapped(problem, begin_greedily(problem), clock))
    return search


def _priced(asked: CoverProblem) -> NDArray[np.int64]:
    """Return the targets that have a price: they count and can be served."""
    return np.flatnonzero((asked.open_weights > 0) & asked.free_sets.coverable)


def _needed_only(sources: NDArray[np.int64], asked: CoverProblem) -> NDArray[np.int64]:
    """Return the sources without which less is served, one after the other."""
    needed, served = sources.tolist(), asked.served(sources)
    for source in sorted(needed, reverse=True):
        fewer = [s for s in needed if s != source]
        if asked.served(np.array(fewer, np.int64)) == served:
            needed = fewer
    return np.array(needed, np.int64)


# --- the least mean: k-median -------------------------------------------------------


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
    clock, report = Clock(time_limit), progress or silent
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
    rule = Question(getattr(losses, "attrs", {}).get("criterion", "regret")).rule
    allowed = matrix
    if epsilon is not None:
        rule.check_epsilon(epsilon)
        allowed = np.where(matrix <= epsilon, matrix, np.inf)
    if leave_out:
        able = np.delete(allowed, limits[1], axis=0)
        weights = np.where(np.isfinite(able).any(axis=0), weights, 0.0)
    if not weights.any():
        raise InvalidInputError("Some target must have a weight above 0 and a source.")
    total = sum((Fraction(w) for w in weights.tolist()), Fraction(0))
    search, selection = _mean_search(allowed, weights, budget, *limits, clock)

    def tell() -> None:
        low, high = Fraction(search.lower) / total, Fraction(search.best_cost or 0)
        report("search", float(low), float(high / total), "mean loss")

    search.run(clock, tell)
    assert search.best is not None
    assert search.best_cost is not None
    chosen = selection(search.best)
    is_optimal = search.lower >= search.best_cost
    worst = float(allowed[np.ix_(chosen, weights > 0)].min(axis=0).max())
    if not rule.allows_negative_epsilon:
        worst = max(0.0, worst)
    sets = tolerance_sets(losses if hasattr(losses, "attrs") else matrix, worst)
    cover = CoverProblem(sets, include=include, exclude=exclude).cover(
        "minimum",
        chosen,
        lower_bound=0,
        lower_bound_kind=search.kind,
        stop_reason="proven optimal" if is_optimal else "time limit",
        clock=clock,
        budget=budget,
        mean_loss=round_down(Fraction(search.best_cost) / total),
        optimal=is_optimal,
        prices=search.proof(np.arange(len(weights))),
    )
    cover = replace(cover, lower_bound=round_down(Fraction(search.lower) / total))
    if matrix.size <= _MAX_VERIFIED:
        weighted = {"target_weights": target_weights}
        verify_cover(cover, sets, **weighted, raise_on_failure=True, effort=0)
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


def _mean_search(
    matrix: NDArray[np.float64],
    weights: NDArray[np.float64],
    budget: int,
    include: NDArray[np.int64],
    exclude: NDArray[np.int64],
    clock: Clock,
) -> tuple[Branching, Callable[[NDArray[np.int64]], NDArray[np.int64]]]:
    """Return a search with a first selection, and what makes a selection whole."""
    decided = np.concatenate([include, exclude])
    free = np.setdiff1d(np.arange(len(matrix)), decided)
    caps = matrix[include].min(axis=0, initial=np.inf)
    room = min(budget - len(include), len(free))
    problem = mean_problem(matrix[free], weights, max(1, room), caps)
    problem = replace(problem, budget=room)

    def selection(sources: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.sort(np.append(include, free[sources])).astype(np.int64)

    def cost_of(sources: NDArray[np.int64]) -> Exact | None:
        best = matrix[selection(sources)].min(axis=0, initial=np.inf)
        best = np.where(weights > 0, best, 0.0)
        if np.isinf(best).any():
            return None
        rough, least = float(best @ weights), search.best_cost
        if least is not None and rough > float(least) + 1e-9 * abs(rough):
            return Fraction(rough)  # not the best, whatever the roundings
        return _exact_sum(best, weights)

    def rounded(wanted: NDArray[np.float64]) -> NDArray[np.int64]:
        sources = np.argsort(-wanted, kind="stable")[:room]
        is_small = len(problem.lists.members) <= _MAX_ROUNDED
        return swapped(problem, sources, Clock()) if is_small else sources

    search = Branching(problem, cost_of, rounded)
    search.offer(swapped(problem, begin_greedily(problem), clock) if room else _NONE)
    if search.best is None:
        within = CoverProblem(
            tolerance_sets(matrix[:, weights > 0], np.finfo(float).max),
            include=include,
            exclude=exclude,
        )
        chosen = _serving_all(within, budget, clock)
        search.offer(np.searchsorted(free, np.setdiff1d(chosen, include)))
    return search, selection


def _serving_all(problem: CoverProblem, budget: int, clock: Clock) -> NDArray[np.int64]:
    """Return sources of a budget that serve every target, or refuse."""
    from taskspace.cover.minimum import full_cover  # which needs this module

    cover = full_cover(problem, clock)
    if cover.is_full and cover.size <= budget:
        return cover.sources
    if cover.is_full and cover.lower_bound <= budget:
        raise InvalidInputError(
            f"No {budget} sources that serve every target within the tolerance were "
            f"found in time. {cover.size} do: give a larger budget or more time."
        )
    few = (
        f"it takes {cover.lower_bound:g}" if cover.is_full else "no source serves some"
    )
    raise InvalidInputError(
        f"No {budget} sources serve every target within the tolerance: {few}, proven. "
        "Give a larger budget or tolerance, or leave such targets out."
    )


def _exact_sum(values: NDArray[np.float64], weights: NDArray[np.float64]) -> Fraction:
    """Return the sum of products of floats, without rounding."""
    parts = [np.frexp(array) for array in (values, weights)]
    first, second = (np.ldexp(m, 53).astype(np.int64).tolist() for m, _ in parts)
    powers = (parts[0][1] + parts[1][1]).tolist()
    low = min(powers, default=0)
    total = sum(
        a * b << (power - low)
        for a, b, power in zip(first, second, powers, strict=True)
    )
    return total * Fraction(2) ** (low - 106)
