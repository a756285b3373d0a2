"""What proofs of shares and budgets are about, rebuilt from the sets alone."""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from taskspace.cover.base import Cover
from taskspace.cover.verify.reprove import Problem
from taskspace.cover.verify.tree import Selecting, TreeProof

__all__ = ["asked_weight", "coverage_claim", "share_claim", "share_failures"]


def asked_weight(share: float, total: int, servable: int) -> int:
    """Return the weight that a share asks for, or all that can be served if less.

    Args:
        share: of all target weight.
        total: all target weight.
        servable: what sources that may be selected serve of it.
    """
    if share == 1:
        return servable
    # Relative to the share's own rounding, as every method counts it.
    exact = Fraction(share) * (1 - Fraction(1, 2**50)) * total
    return min(math.ceil(exact), servable)


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

    def cost(sources: NDArray[np.int64]) -> Fraction | None:
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


def share_failures(cover: Cover, problem: Problem) -> list[str]:
    """Check whether a cover says truly that it misses the share asked for.

    Args:
        cover: the claim.
        problem: what it is about.
    """
    total = problem.total_weight
    served = problem.served_weight(cover.sources)
    for name in ("share", "missed_share"):
        share = getattr(cover, name)
        if share is not None and not 0 <= share <= 1:
            return [f"{name}={share} is no share"]
    missed, share = cover.missed_share, cover.share
    if missed is not None:
        if served >= asked_weight(missed, total, total):
            return [f"missed_share={missed} is claimed, but so much is served"]
        if share not in (None, missed):
            return [f"missed_share={missed} is not share={share}"]
    # A share of 1 is also recorded where everything that can be served was asked for.
    elif share is not None and share < 1 and served < asked_weight(share, total, total):
        return [f"share={share} is not served, and the cover does not say so"]
    return []
