"""Bounds for covers of a part: what a share costs at least, what a budget can serve."""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.cover.bounds.prices import run_loads
from taskspace.cover.costs import Exact, has_whole_costs
from taskspace.sets import RunSets, TargetSets

_MAX_PREFIXES = 64  # of a selection that are tried for a bound on its coverage


def exact_loads(runs: RunSets, weights: NDArray[Any]) -> NDArray[Any]:
    """For each source the weight of its targets, without rounding.

    Args:
        runs: the targets that each source serves.
        weights: weight of each target, integers.
    """
    if weights.dtype == np.int64:
        return run_loads(runs, weights)
    prefix = np.concatenate([[0], np.cumsum(weights, dtype=object)])
    gains = prefix[runs.stops] - prefix[runs.starts]
    until = np.concatenate([[0], np.cumsum(gains, dtype=object)])
    return until[runs.offsets[1:]] - until[runs.offsets[:-1]]


def knapsack_bound(
    sets: TargetSets,
    costs: NDArray[np.float64],
    weights: NDArray[Any],
    needed: int,
) -> Exact:
    r"""Least cost of sources whose sets would weigh `needed` if they were disjoint.

    For every rate $\lambda \ge 0$, sources $X$ of that weight cost at least
    $\lambda\,\mathrm{needed} - \sum_s \max(0, \lambda g_s - c_s)$; the best rate is
    that of the last source which fractional filling takes.

    Args:
        sets: the targets that each source serves.
        costs: cost of each source, scaled.
        weights: weight of each target, as `exact_weights` gives them.
        needed: weight to serve, `<=` that of all coverable targets.
    """
    if needed <= 0:
        return 0
    gains = exact_loads(sets.to_runs(), weights)
    useful = np.flatnonzero(gains > 0)
    largest = max(gains[useful].tolist())
    shares = [float(Fraction(int(gain), largest)) for gain in gains[useful].tolist()]
    ratios = np.array(shares) / costs[useful]
    order = useful[np.argsort(-ratios, kind="stable")]
    filled, n_taken = 0, 0
    for gain in gains[order].tolist():
        filled += gain
        n_taken += 1
        if filled >= needed:
            break
    last = order[n_taken - 1]
    rate = Fraction(float(costs[last])) / int(gains[last])
    # Whichever source gains from the rate is among the first; ratios that floats
    # cannot tell apart from the last one's are looked at too.
    least = (1 - 2.0**-40) * ratios[np.searchsorted(useful, last)]
    candidates = useful[ratios >= least]
    surplus = sum(
        max(Fraction(0), rate * int(gains[s]) - Fraction(float(costs[s])))
        for s in candidates
    )
    bound = max(Fraction(0), rate * needed - surplus)
    return math.ceil(bound) if has_whole_costs(costs) else bound


def coverage_limit(
    sets: TargetSets,
    weights: NDArray[Any],
    sources: Iterable[int],
    budget: int,
) -> int:
    """Return a weight of targets that no selection of `budget` sources exceeds.

    What a selection serves beyond any given sources is at most the sum of the
    `budget` largest gains beyond them (coverage is submodular); the given sources are
    the beginnings of `sources`.

    Args:
        sets: the targets that each source serves.
        weights: weight of each target, as `exact_weights` gives them.
        sources: a good selection.
        budget: number of sources.
    """
    runs = sets.to_runs()
    rest = weights.copy()
    limit = int(weights[sets.coverable].sum())
    served = 0
    chosen = list(sources)
    tried = {round(k) for k in np.linspace(0, len(chosen), _MAX_PREFIXES)}
    for k in range(len(chosen) + 1):
        if k in tried:
            gains = np.sort(exact_loads(runs, rest))[::-1]
            limit = min(limit, served + int(gains[:budget].sum()))
        if k < len(chosen):
            new = sets.row(int(chosen[k]))
            served += int(rest[new].sum())
            rest[new] = 0
    return limit
