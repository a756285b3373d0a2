"""An independent check of a cover's claims, in plain NumPy.

Nothing here is shared with the methods that make covers, so that a mistake there
cannot hide here.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.cover.base import Cover, check_costs
from taskspace.errors import InvalidInputError
from taskspace.sets import TargetSets


@dataclass(frozen=True)
class Verification:
    """Which claims of a cover hold.

    Args:
        holds: whether no claim was refuted.
        failures: one sentence for each claim that does not hold.
        not_checked: claims that could be neither shown nor refuted.
    """

    holds: bool
    failures: tuple[str, ...]
    not_checked: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.holds


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
    sets: TargetSets,
    costs: ArrayLike | None = None,
    *,
    raise_on_failure: bool = False,
    refute_bound: bool = True,
) -> Verification:
    """Recompute everything that a cover claims from the sets themselves.

    A lower bound is refuted where it exceeds the cost of this cover, or of another
    selection that the verifier finds to serve as many targets; to prove one takes
    the method that made it, so a bound that is not refuted is listed in
    `not_checked` unless it is trivially true.

    Args:
        cover: the claim.
        sets: the targets that each source serves.
        costs: cost of each source, as given to the method that made the cover.
        raise_on_failure: raise `CoverRefutedError` instead of returning failures.
        refute_bound: look for a cheaper selection, which takes a while on large data.

    Returns:
        Which claims fail.
    """
    cost = check_costs(costs, sets.n_sources)
    failures = _shape_failures(cover, sets)
    unproven: list[str] = []
    if not failures:
        failures = _serving_failures(cover, sets) + _cost_failures(cover, cost)
        if refute_bound:
            failures += _bound_failures(cover, sets, cost)
        if cover.lower_bound > 1:
            unproven.append(
                f"lower_bound={cover.lower_bound} ({cover.lower_bound_kind}) "
                "was not refuted, and was not proven again"
            )
    if failures and raise_on_failure:
        raise CoverRefutedError(tuple(failures))
    return Verification(not failures, tuple(failures), tuple(unproven))


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
    return failures


def _serving_failures(cover: Cover, sets: TargetSets) -> list[str]:
    failures = []
    n_targets = sets.n_targets
    expected = np.full(n_targets, -1)
    for source in cover.sources[::-1]:
        expected[sets.row(int(source))] = source
    wrong = np.flatnonzero(expected != cover.assignment)
    if len(wrong):
        failures.append(
            f"target {wrong[0]} is assigned to {cover.assignment[wrong[0]]}, but the "
            f"first selected source that serves it is {expected[wrong[0]]} "
            f"({len(wrong)} such targets)"
        )
    served = int((expected >= 0).sum())
    coverage = served / n_targets if n_targets else 1.0
    if not abs(cover.coverage - coverage) <= 1e-12:
        failures.append(f"coverage={cover.coverage} is claimed, but it is {coverage}")
    coverable = np.zeros(n_targets, bool)
    for source in range(sets.n_sources):
        coverable |= sets.row(source)
    if not np.array_equal(cover.uncoverable, np.flatnonzero(~coverable)):
        failures.append(
            f"{len(cover.uncoverable)} uncoverable targets are claimed, but the "
            f"{int((~coverable).sum())} targets that no source serves are not these"
        )
    return failures


def _cost_failures(cover: Cover, cost: NDArray[np.float64]) -> list[str]:
    failures = []
    if cover.size != len(cover.sources):
        failures.append(
            f"size={cover.size} is claimed, but {len(cover.sources)} are selected"
        )
    total = float(cost[cover.sources].sum())
    if not abs(cover.cost - total) <= 1e-9 * max(1.0, total):
        failures.append(f"cost={cover.cost} is claimed, but it is {total}")
    if not cover.lower_bound >= 0:
        failures.append(f"lower_bound={cover.lower_bound} is not a bound")
    slack = 1e-9 * max(1.0, total)
    if cover.lower_bound > total + slack:
        failures.append(
            f"lower_bound={cover.lower_bound} exceeds the cost {total} of this cover"
        )
    if cover.optimal and not abs(cover.lower_bound - total) <= slack:
        failures.append(
            f"optimal is claimed, but lower_bound={cover.lower_bound} != cost {total}"
        )
    return failures


def _bound_failures(
    cover: Cover, sets: TargetSets, cost: NDArray[np.float64]
) -> list[str]:
    """Look for a selection that serves as many targets for less than the bound."""
    matrix = np.zeros((sets.n_sources, sets.n_targets), bool)
    for source in range(sets.n_sources):
        matrix[source] = sets.row(source)
    n_served = int((np.asarray(cover.assignment) >= 0).sum())
    slack = 1e-9 * max(1.0, abs(cover.lower_bound))
    greedy = _greedy(matrix, cost, n_served)
    for sources in (cover.sources.tolist(), greedy):
        if sources is None:
            continue
        selection = _without_redundant(sources, matrix, cost, n_served)
        if selection is None:
            continue
        total = float(cost[np.array(selection, np.int64)].sum())
        if total < cover.lower_bound - slack:
            return [
                f"lower_bound={cover.lower_bound} is refuted: {len(selection)} sources "
                f"of cost {total} serve {n_served} targets too"
            ]
    return []


def _greedy(
    matrix: NDArray[np.bool_], cost: NDArray[np.float64], n_needed: int
) -> list[int] | None:
    if not len(matrix) or n_needed == 0:
        return [] if n_needed == 0 else None
    left = np.ones(matrix.shape[1], bool)
    gains = matrix.sum(1)
    chosen: list[int] = []
    while (~left).sum() < n_needed:
        best = int((gains / cost).argmax())
        if gains[best] == 0:
            return None
        chosen.append(best)
        gains = gains - matrix[:, matrix[best] & left].sum(1)
        left &= ~matrix[best]
    return chosen


def _without_redundant(
    sources: list[int],
    matrix: NDArray[np.bool_],
    cost: NDArray[np.float64],
    n_needed: int,
) -> list[int] | None:
    """Drop sources, dearest first, while enough targets stay served."""
    if not len(matrix):
        return []
    times = np.zeros(matrix.shape[1], np.int64)
    for source in sources:
        times += matrix[source]
    kept = list(sources)
    for source in sorted(sources, key=lambda s: -cost[s]):
        fewer = times - matrix[source]
        if (fewer > 0).sum() >= n_needed:
            times = fewer
            kept.remove(source)
    return kept if (times > 0).sum() >= n_needed else None
