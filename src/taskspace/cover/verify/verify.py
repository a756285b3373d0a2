"""An independent check of a cover's claims, in plain NumPy and exact fractions.

Nothing here is shared with the methods that make covers, so that a mistake there
cannot hide here. Costs are the exact numbers that their floats are.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.cover.base import Cover
from taskspace.cover.problem import sets_of
from taskspace.cover.verify.mean import mean_failures
from taskspace.cover.verify.parts import (
    asked_weight,
    coverage_claim,
    share_claim,
    share_failures,
)
from taskspace.cover.verify.reprove import (
    Problem,
    coverage_limit,
    knapsack_bound,
    price_bound,
    search_below,
)
from taskspace.cover.verify.tree import tree_fault
from taskspace.errors import InvalidInputError, require
from taskspace.performance.study import Study
from taskspace.sets import TargetSets

_MAX_DEPTH = 400  # sources of a cover, each a level of an exhaustive search


@dataclass(frozen=True, repr=False)
class Verification:
    """Which claims of a cover hold.

    Args:
        holds: whether no claim was refuted.
        failures: one sentence for each claim that does not hold.
        not_checked: claims that could be neither shown nor refuted.
        proven: one sentence for each bound that was proven again.
        conditions: one sentence for each restriction that the cover states itself.
            Bounds are about selections that keep to them; whether they were asked for
            is not in the sets.
    """

    holds: bool
    failures: tuple[str, ...]
    not_checked: tuple[str, ...] = ()
    proven: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.holds

    def __repr__(self) -> str:
        lines = ["Verification: " + ("the claim holds" if self.holds else "refuted")]
        lines += [f"  refuted: {sentence}" for sentence in self.failures]
        lines += [f"  {sentence}" for sentence in self.proven]
        lines += [f"  not checked: {sentence}" for sentence in self.not_checked]
        lines += [f"  provided that {sentence}" for sentence in self.conditions]
        return "\n".join(lines)


class CoverRefutedError(InvalidInputError):
    """A cover claims what the data do not bear out.

    Args:
        failures: one sentence for each claim that does not hold.
    """

    def __init__(self, failures: tuple[str, ...]):
        super().__init__(
            "Every claim of a cover must follow from its sets, but "
            + "; ".join(failures)
            + "."
        )
        self.failures = failures


def verify_cover(
    cover: Cover,
    problem: Study | TargetSets,
    costs: ArrayLike | None = None,
    *,
    target_weights: ArrayLike | None = None,
    raise_on_failure: bool = False,
    refute_bound: bool = True,
    effort: int = 3_000_000,
) -> Verification:
    """Recompute everything that a cover claims from the sets themselves.

    A lower bound is proven again from the prices kept with the cover, in one pass of
    integer arithmetic; that of a partial cover by computing it anew. Prices that a
    source's cost does not bear, or that do not prove the bound they are kept for,
    refute the cover. A bound that an exact solver found has no such prices: small
    problems are searched through, and where that is too much the bound is listed in
    `not_checked`, with the largest that is proven. A bound is also refuted by any
    cheaper selection that serves as much.

    Args:
        cover: the claim.
        problem: the study that the cover is about, which its question is asked of
            again; or the targets that each source serves.
        costs: cost of each source, as given to the method that made the cover.
        target_weights: weight of each target, as given to that method.
        raise_on_failure: raise `CoverRefutedError` instead of returning failures.
        refute_bound: look for a cheaper selection, which takes a while on large data.
        effort: (source, target) pairs that an exhaustive search may look at; 0 for
            no such search.

    Returns:
        Which claims fail, which bounds were proven and which were not.
    """
    require(cover, Cover, "a cover, e.g. of ts.minimum_cover")
    sets = sets_of(problem, cover.question if isinstance(problem, Study) else None)
    data = Problem.of(sets, costs, target_weights)
    failures = _shape_failures(cover, sets)
    proven: list[str] = []
    open_: list[str] = []
    if cover.mean_loss is not None and not failures:
        failures = _serving_failures(cover, sets)
        failures += mean_failures(cover, sets, target_weights, proven, open_)
        return _verified(cover, failures, proven, open_, raise_on_failure)
    if not failures:
        failures = _serving_failures(cover, sets)
        failures += _cost_failures(cover, data)
        failures += share_failures(cover, data)
    if not failures:
        asked = _Asked.of(cover, data)
        failures = _budget_failures(cover, asked, proven, open_)
        failures += _price_failures(cover, asked, proven, open_)
        if refute_bound and not failures:
            failures = _cheaper_failures(cover, asked)
        if effort and not failures and open_:
            failures = _search_failures(cover, asked, effort, proven, open_)
    return _verified(cover, failures, proven, open_, raise_on_failure)


def _verified(
    cover: Cover,
    failures: list[str],
    proven: list[str],
    open_: list[str],
    raise_on_failure: bool,
) -> Verification:
    if failures and raise_on_failure:
        raise CoverRefutedError(tuple(failures))
    return Verification(
        not failures, tuple(failures), tuple(open_), tuple(proven), _conditions(cover)
    )


def _conditions(cover: Cover) -> tuple[str, ...]:
    """Which selections the bounds are about, where not about all."""
    held = (("must be in", cover.include), ("must not be in", cover.exclude))
    return tuple(
        f"bounds are about selections in which {_sources(sources)} {what}"
        for what, sources in held
        if len(sources)
    )


def _sources(numbers: NDArray[np.int64]) -> str:
    first = ", ".join(map(str, numbers[:8].tolist()))
    return f"source{'s' * (len(numbers) > 1)} {first}{', ...' * (len(numbers) > 8)}"


@dataclass(frozen=True, eq=False)
class _Asked:
    """What a cover had to decide, and what was decided for it.

    Args:
        problem: the whole problem.
        rest: what was left to the sources that are free.
        chosen: the selected ones of these, in the order of selection.
        taken: the sources that had to be in.
        spent: what these cost.
    """

    problem: Problem
    rest: Problem
    chosen: NDArray[np.int64]
    taken: NDArray[np.int64]
    spent: Fraction

    @classmethod
    def of(cls, cover: Cover, problem: Problem) -> Self:
        include, exclude = set(cover.include.tolist()), set(cover.exclude.tolist())
        sources = np.asarray(cover.sources)
        if not include and not exclude:
            return cls(problem, problem, sources, sources[:0], Fraction(0))
        fixed = include | exclude
        free = np.array([s for s in range(cover.n_sources) if s not in fixed], np.int64)
        chosen = np.array([s for s in sources.tolist() if s not in include], np.int64)
        return cls(
            problem,
            problem.rest(include, exclude),
            np.searchsorted(free, chosen),
            np.array(sorted(include), np.int64),
            problem.cost(sorted(include)),
        )


def _shape_failures(cover: Cover, sets: TargetSets) -> list[str]:
    failures = []
    for name in ("n_sources", "n_targets"):
        claimed, found = getattr(cover, name), getattr(sets, name)
        if claimed != found:
            failures.append(f"{name}={claimed} is claimed, but the data have {found}")
    sources, assignment = np.asarray(cover.sources), np.asarray(cover.assignment)
    if sources.size and not (0 <= sources.min() <= sources.max() < sets.n_sources):
        failures.append("a selected source does not exist")
    if len(np.unique(sources)) != len(sources):
        failures.append("a source is selected twice")
    if assignment.shape != (sets.n_targets,):
        failures.append(
            f"the assignment names {assignment.size} targets of {sets.n_targets}"
        )
    for name in ("include", "exclude"):
        array = np.asarray(getattr(cover, name))
        if array.size and not (0 <= array.min() <= array.max() < sets.n_sources):
            failures.append(f"a source of {name} does not exist")
    if not set(cover.include.tolist()) <= set(sources.tolist()):
        failures.append("a source that must be in is not selected")
    if set(cover.exclude.tolist()) & set(sources.tolist()):
        failures.append("a source that must not be in is selected")
    return failures


def _serving_failures(cover: Cover, sets: TargetSets) -> list[str]:
    failures = []
    n_targets = sets.n_targets
    assignment = np.asarray(cover.assignment)
    is_served = np.zeros(n_targets, bool)
    is_right = assignment == -1
    for source in cover.sources:
        row = sets.row(int(source))
        is_served |= row
        is_right |= row & (assignment == source)
    is_right &= is_served == (assignment >= 0)
    wrong = np.flatnonzero(~is_right)
    if len(wrong):
        failures.append(
            f"target {wrong[0]} is assigned to {assignment[wrong[0]]}, which is no "
            f"selected source that serves it ({len(wrong)} such targets)"
        )
    served = int(is_served.sum())
    coverage = served / n_targets if n_targets else 1.0
    if not abs(cover.coverage - coverage) <= 1e-12:
        failures.append(f"coverage={cover.coverage} is claimed, but it is {coverage}")
    is_coverable = np.zeros(n_targets, bool)
    for source in np.setdiff1d(np.arange(sets.n_sources), cover.exclude).tolist():
        is_coverable |= sets.row(source)
    if not np.array_equal(cover.uncoverable, np.flatnonzero(~is_coverable)):
        failures.append(
            f"{len(cover.uncoverable)} uncoverable targets are claimed, but the "
            f"{int((~is_coverable).sum())} targets that no source serves are not these"
        )
    return failures


def _cost_failures(cover: Cover, problem: Problem) -> list[str]:
    failures = []
    if cover.size != len(cover.sources):
        failures.append(
            f"size={cover.size} is claimed, but {len(cover.sources)} are selected"
        )
    total = problem.cost(cover.sources)
    # A float cost is rounded, and costs may be rounded multiples of one unit.
    slack = total / 2**46
    if not (math.isfinite(cover.cost) and abs(Fraction(cover.cost) - total) <= slack):
        failures.append(f"cost={cover.cost} is claimed, but it is {float(total)}")
    if not (math.isfinite(cover.lower_bound) and cover.lower_bound >= 0):
        return [*failures, f"lower_bound={cover.lower_bound} is not a bound"]
    if Fraction(cover.lower_bound) > total:
        failures.append(
            f"lower_bound={cover.lower_bound} exceeds the cost {float(total)} of this "
            "cover"
        )
    is_least = abs(Fraction(cover.lower_bound) - total) <= slack
    if cover.optimal and cover.coverage_bound is None and not is_least:
        failures.append(
            f"optimal is claimed, but lower_bound={cover.lower_bound} is not the cost "
            f"{float(total)}"
        )
    return failures


def _budget_failures(
    cover: Cover, asked: _Asked, proven: list[str], open_: list[str]
) -> list[str]:
    """Whether no selection of as many sources serves more than is claimed."""
    if cover.coverage_bound is None:
        what = f"budget={cover.budget} is claimed without a coverage_bound"
        return [] if cover.budget is None else [what]
    problem = asked.problem
    served, total = problem.served_weight(cover.sources), problem.total_weight
    share = Fraction(served, total) if total else Fraction(1)
    claimed = Fraction(cover.coverage_bound)
    slack = Fraction(1, 2**50)  # shares are rounded
    failures = []
    if claimed < share * (1 - slack):
        failures.append(
            f"coverage_bound={cover.coverage_bound} is below the share "
            f"{float(share)} that this cover serves"
        )
    elif cover.optimal and not claimed <= share * (1 + slack):
        failures.append(
            f"optimal is claimed, but coverage_bound={cover.coverage_bound} is above "
            f"the share {float(share)} served"
        )
    elif cover.budget is not None:
        failures += _tree_failures(cover, asked, claimed, proven, open_)
    else:
        beyond = coverage_limit(asked.rest, asked.chosen)
        already = problem.served_weight(asked.taken)
        most = Fraction(already + beyond, total or 1)
        what = f"coverage_bound={cover.coverage_bound}"
        if most <= claimed * (1 + slack):
            proven.append(f"{what}: no {cover.size} sources serve a larger share")
        else:
            open_.append(f"{what} was not proven again; {float(most)} is")
    return failures


def _tree_failures(
    cover: Cover,
    asked: _Asked,
    coverage_bound: Fraction | None,
    proven: list[str],
    open_: list[str],
) -> list[str]:
    """Go through the tree that proves a share's cost or a budget's coverage."""
    problem, rest, proof = asked.problem, asked.rest, cover.proof
    what = f"lower_bound={cover.lower_bound} ({cover.lower_bound_kind})"
    already = problem.served_weight(asked.taken)
    total = problem.total_weight or 1
    servable = int(rest.weights[rest.needed].sum()) + already
    goal = asked_weight(cover.share or 0, problem.total_weight, servable)
    if coverage_bound is not None:
        what = f"coverage_bound={cover.coverage_bound} ({cover.lower_bound_kind})"
        if cover.size > (cover.budget or 0):
            return [f"{cover.size} sources are more than budget={cover.budget}"]
    elif problem.served_weight(cover.sources) < goal:
        return [f"share={cover.share} is claimed, but less is served"]
    if proof is None:
        open_.append(f"{what} was not refuted, and was not proven again: no proof")
        return []
    if coverage_bound is not None:
        room = (cover.budget or 0) - len(asked.taken)
        about = coverage_claim(rest, room, total, proof)
        if isinstance(about, str):
            return [f"the proof of {what} proves nothing: {about}"]
        # A share that is rounded up proves what the next smaller float would not.
        claim = Fraction(servable, total) - coverage_bound * (1 + Fraction(1, 2**50))
    else:
        about = share_claim(rest, max(0, goal - already), proof)
        claim = Fraction(cover.lower_bound) - asked.spent
    fault = tree_fault(proof, about, claim) if claim > 0 else ""
    if not fault:
        proven.append(f"{what} is proven again by its tree of prices")
    elif cover.lower_bound_kind == "exact":
        open_.append(f"{what} was not proven again: {fault}")
    else:
        return [f"the proof of {what} proves nothing: {fault}"]
    return []


def _price_failures(
    cover: Cover, asked: _Asked, proven: list[str], open_: list[str]
) -> list[str]:
    """Prove the lower bound again, from its prices or by the knapsack bound."""
    what = f"lower_bound={cover.lower_bound} ({cover.lower_bound_kind})"
    if cover.share is not None:
        return _tree_failures(cover, asked, None, proven, open_)
    if cover.lower_bound == 0:
        return []
    if cover.lower_bound_kind == "knapsack" or cover.budget is not None:
        needed = asked.rest.served_weight(asked.chosen)
        bound = asked.spent + knapsack_bound(asked.rest, needed)
        how, is_complete = "computing it anew", False
    elif cover.prices is None:
        open_.append(f"{what} was not refuted, and was not proven again: no prices")
        return []
    elif unserved := _unserved(asked):
        return [
            f"the prices of {what} prove nothing: they bound covers of all targets "
            f"that can be served, and this one leaves {unserved} of them"
        ]
    else:
        bound, fault = price_bound(cover.prices, asked.rest)
        if fault:
            return [f"the prices of {what} prove nothing: {fault}"]
        bound += asked.spent
        how = "its prices"
        is_complete = cover.lower_bound_kind != "exact"
    if bound >= Fraction(cover.lower_bound):
        proven.append(f"{what} is proven again by {how}")
    elif is_complete:
        return [f"{what} is not proven by its prices, which prove {float(bound)}"]
    else:
        open_.append(f"{what} was not proven again; {float(bound):.10g} is, by {how}")
    return []


def _unserved(asked: _Asked) -> int:
    """Targets that count, could be served and are not."""
    rest = asked.rest
    must = rest.needed & (rest.weights > 0)
    return int((must & ~rest.sets.union(asked.chosen)).sum())


def _cheaper_failures(cover: Cover, asked: _Asked) -> list[str]:
    """Look for a selection that serves as much for less than the bound."""
    problem = asked.rest
    matrix = problem.sets.to_bool()
    cost = problem.costs
    weights = problem.weights
    needed = problem.served_weight(asked.chosen)
    greedy = _greedy(matrix, cost, weights, needed)
    few = [
        None
        if sources is None
        else _without_redundant(sources, matrix, cost, weights, needed)
        for sources in (asked.chosen.tolist(), greedy)
    ]
    for selection in few:
        if selection is None:
            continue
        total = asked.spent + problem.cost(selection)
        if total < Fraction(cover.lower_bound):
            size = len(selection) + len(asked.taken)
            return [
                f"lower_bound={cover.lower_bound} is refuted: {size} sources "
                f"of cost {float(total)} serve as much"
            ]
    return []


def _search_failures(
    cover: Cover,
    asked: _Asked,
    effort: int,
    proven: list[str],
    open_: list[str],
) -> list[str]:
    """Settle an open lower bound of a full cover by exhaustive search, if small."""
    problem = asked.rest
    sets = problem.sets
    at = [k for k, text in enumerate(open_) if text.startswith("lower_bound")]
    max_nodes = effort // max(1, int(sets.sizes.sum()))
    # The search is for covers of all targets, those without weight too, and says
    # nothing of selections that need not serve all of them.
    is_full = not (problem.needed & ~sets.union(asked.chosen)).any()
    is_all_asked = cover.share in (None, 1) and (problem.weights > 0).all()
    is_small = cover.size <= min(max_nodes, _MAX_DEPTH)
    if not (at and is_full and is_all_asked and is_small):
        return []
    room = Fraction(cover.lower_bound) - asked.spent
    cheaper = search_below(problem, room, max_nodes)
    if cheaper is None:
        return []
    if cheaper:
        total = asked.spent + problem.cost(cheaper)
        size = len(cheaper) + len(asked.taken)
        return [
            f"lower_bound={cover.lower_bound} is refuted: {size} sources of "
            f"cost {float(total)} serve as much"
        ]
    del open_[at[0]]
    proven.append(
        f"lower_bound={cover.lower_bound} ({cover.lower_bound_kind}) is proven again "
        "by searching through all cheaper selections"
    )
    return []


def _greedy(
    matrix: NDArray[np.bool_],
    cost: NDArray[np.float64],
    weights: NDArray[Any],
    needed: int,
) -> list[int] | None:
    left = weights.copy()
    chosen: list[int] = []
    served = 0
    relative = cost / cost.max(initial=0.0)
    while served < needed:
        gains = matrix @ left
        best = int((gains.astype(np.float64) / relative).argmax())
        if gains[best] == 0:
            return None
        chosen.append(best)
        served += int(gains[best])
        left[matrix[best]] = 0
    return chosen


def _without_redundant(
    sources: list[int],
    matrix: NDArray[np.bool_],
    cost: NDArray[np.float64],
    weights: NDArray[Any],
    needed: int,
) -> list[int] | None:
    """Drop sources, dearest first, while enough stays served."""
    if not len(matrix):
        return []
    times = np.zeros(matrix.shape[1], np.int64)
    for source in sources:
        times += matrix[source]
    kept = list(sources)
    for source in sorted(sources, key=lambda s: -cost[s]):
        fewer = times - matrix[source]
        if int(weights[fewer > 0].sum()) >= needed:
            times = fewer
            kept.remove(source)
    return kept if int(weights[times > 0].sum()) >= needed else None
