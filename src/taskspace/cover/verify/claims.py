"""What the trees of shares, budgets and means are about, rebuilt from the sets."""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from taskspace.cover.verify.proof import TreeProof
from taskspace.cover.verify.reprove import Problem
from taskspace.cover.verify.tree import Selecting
from taskspace.sets import TargetSets

__all__ = ["coverage_claim", "mean_claim", "share_claim"]

_LARGEST = 2.0**60  # integers in units of a proof, so that sums fit 64 bits

Sources = NDArray[np.int64]


def _priced(problem: Problem) -> NDArray[np.int64]:
    """Targets that have a price: they count and can be served."""
    return np.flatnonzero(problem.needed & (problem.weights > 0))


def _loads(problem: Problem, priced: NDArray[np.int64], units: NDArray[np.int64]):
    dense = np.zeros(problem.sets.n_targets, np.int64)
    dense[priced] = units
    return problem.loads(dense)


def share_claim(problem: Problem, needed: int, proof: TreeProof) -> Selecting:
    """Return what the proof of a share is about: the cheapest that serve enough.

    Args:
        problem: what is left to free sources.
        needed: weight that these must serve.
        proof: whose unit and shift count.
    """
    priced = _priced(problem)
    weights = [int(w) for w in problem.weights[priced]]
    slack = sum(weights) - needed
    scale = Fraction(2) ** proof.shift
    costs = []
    for price in problem.costs.tolist():
        value = Fraction(price) / proof.unit
        rounded = math.floor(value) * scale if proof.is_whole else value * scale
        costs.append(min(math.floor(rounded), 2**61))

    def price_fault(units: NDArray[np.int64], rate: Fraction | None) -> str:
        if (units < 0).any():
            return "a price is negative"
        if rate is None:
            return "" if slack == 0 else "a node has no rate for unserved weight"
        pairs = zip(units.tolist(), weights, strict=True)
        if rate < 0 or any(u > rate * w for u, w in pairs):
            return "a target has a price above the rate of unserved weight"
        return ""

    def cost(sources: Sources) -> Fraction | None:
        if problem.served_weight(sources) < needed:
            return None
        return problem.cost(sources.tolist())

    return Selecting(
        n_sources=problem.sets.n_sources,
        n_targets=len(priced),
        budget=problem.sets.n_sources,
        costs=np.array(costs, np.int64),
        loads=lambda units: _loads(problem, priced, units),
        price_fault=price_fault,
        slack=slack,
        cost=cost,
    )


def coverage_claim(
    problem: Problem, budget: int, total: int, proof: TreeProof
) -> Selecting | str:
    """Return what the proof of a budget is about: the least share left unserved.

    Args:
        problem: what is left to free sources.
        budget: of these, at most.
        total: weight of all targets.
        proof: whose unit and shift count.

    Returns:
        Or what is wrong with its unit.
    """
    priced = _priced(problem)
    shares = [Fraction(int(w), total) / proof.unit for w in problem.weights[priced]]
    if proof.is_whole and any(share.denominator != 1 for share in shares):
        return "its unit does not divide the weights"
    scale = Fraction(2) ** proof.shift
    servable = int(problem.weights[priced].sum())

    def price_fault(units: NDArray[np.int64], rate: Fraction | None) -> str:
        del rate
        pairs = zip(units.tolist(), shares, strict=True)
        if any(not 0 <= u <= share * scale for u, share in pairs):
            return "a target has a price above its weight"
        return ""

    return Selecting(
        n_sources=problem.sets.n_sources,
        n_targets=len(priced),
        budget=min(budget, problem.sets.n_sources),
        costs=np.zeros(problem.sets.n_sources, np.int64),
        loads=lambda units: _loads(problem, priced, units),
        price_fault=price_fault,
        slack=0,
        cost=lambda s: Fraction(servable - problem.served_weight(s), total),
    )


def mean_claim(
    sets: TargetSets,
    weights: NDArray[np.float64],
    budget: int,
    include: Sources,
    exclude: Sources,
    proof: TreeProof,
) -> Selecting:
    """Return what the proof of a mean is about: the least weighted sum of losses.

    Args:
        sets: the targets that each source serves, with their losses.
        weights: weight of each target.
        budget: sources at most, those that must be in among them.
        include: sources that must be in.
        exclude: sources that must not be in.
        proof: whose shift counts.
    """
    exact = [Fraction(w) for w in weights.tolist()]

    def row(source: int) -> NDArray[np.float64]:
        """Losses of one source, inf where it does not serve."""
        assert sets.losses is not None
        losses = np.asarray(sets.losses(source), np.float64)
        return np.where(sets.row(source), losses, np.inf)

    def loads(units: NDArray[np.int64]) -> NDArray[np.int64] | None:
        sums = np.zeros(sets.n_sources, np.int64)
        for source in range(sets.n_sources):
            losses = row(source)
            with np.errstate(invalid="ignore", over="ignore"):
                product = np.where(weights == 0, 0.0, losses * weights)
            # One step down, unless it is exact: the true product is not below that.
            is_exact = (weights == 1) | (weights == 0) | (losses == 0)
            down = np.where(is_exact, product, np.nextafter(product, -np.inf))
            with np.errstate(over="ignore"):
                floor = np.floor(np.ldexp(down, proof.shift))
            if not floor.min(initial=0.0) >= -_LARGEST:
                return None
            saved = np.maximum(units - np.minimum(floor, _LARGEST).astype(np.int64), 0)
            if saved.sum(dtype=np.float64) >= 2 * _LARGEST:
                return None
            sums[source] = saved.sum()
        return sums

    def cost(sources: Sources) -> Fraction | None:
        best = np.full(sets.n_targets, np.inf)
        for source in sources.tolist():
            best = np.minimum(best, row(source))
        if np.isinf(best[weights > 0]).any():
            return None
        pairs = zip(best.tolist(), exact, strict=True)
        return sum((Fraction(v) * w for v, w in pairs if w), Fraction(0))

    return Selecting(
        n_sources=sets.n_sources,
        n_targets=sets.n_targets,
        budget=budget,
        costs=np.zeros(sets.n_sources, np.int64),
        loads=loads,
        price_fault=lambda units, rate: "" if proof.unit == 1 else "its unit is not 1",
        slack=0,
        cost=cost,
        include=include,
        exclude=exclude,
    )
