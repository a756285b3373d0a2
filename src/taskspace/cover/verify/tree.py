r"""Proofs of shares, budgets and means: a tree of decisions with prices at its nodes.

See `taskspace.cover.location` for why prices bound every selection that agrees with
the decisions of a node. Here the tree is gone through again, in Python and NumPy
integers and in fractions, with nothing shared with the search that found it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taskspace.cover.verify.proof import TreeNode, TreeProof
from taskspace.cover.verify.reprove import Problem
from taskspace.sets import TargetSets

__all__ = ["Selecting", "coverage_claim", "mean_claim", "share_claim", "tree_fault"]

Ints = NDArray[np.int64]
_MOST = 2**61  # sums of prices stay below this
_LARGEST = 2.0**60  # integers in units of a proof, so that sums fit 64 bits


@dataclass(frozen=True, eq=False)
class Selecting:
    """What a proof is about, as the verifier sees it.

    Args:
        n_sources: sources to choose from.
        n_targets: targets with a price.
        budget: sources at most.
        costs: cost of each source, in units of `2**-shift`, rounded down.
        loads: from prices, what each source saves at them, not below the truth; None
            if that is too large for 64 bits.
        price_fault: what is wrong with prices and a rate; empty if nothing is.
        slack: weight that may stay unserved at the rate.
        cost: exact cost of a selection; None if it does not serve enough.
        include: sources that must be in.
        exclude: sources that must not be in.
    """

    n_sources: int
    n_targets: int
    budget: int
    costs: Ints
    loads: Callable[[Ints], Ints | None]
    price_fault: Callable[[Ints, Fraction | None], str]
    slack: int
    cost: Callable[[NDArray[np.int64]], Fraction | None]
    include: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    exclude: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))


def tree_fault(proof: TreeProof, about: Selecting, claim: Fraction) -> str:
    """Return what is wrong with a proof that no selection costs less than a claim.

    Args:
        proof: the tree.
        about: what it is about.
        claim: the bound that it shall prove.

    Returns:
        An empty text if it proves the claim.
    """
    exact = claim / proof.unit
    scale = Fraction(2) ** proof.shift
    goal = -(-exact * scale // 1)
    if proof.is_whole:  # more than the largest integer below the claim
        goal = (-(-exact // 1) - 1) * scale // 1 + 1
    nodes = iter(proof.nodes)
    state = np.zeros(about.n_sources, np.int8)
    state[about.include], state[about.exclude] = 1, 2
    open_: list[_Node] = [_Node(state, None, None)]
    while open_:  # children of the last node come next
        node = open_.pop()
        record = next(nodes, None)
        if record is None:
            return "its tree ends before all selections are bounded"
        fault, children = _visit(node, record, about, int(goal), claim)
        if fault:
            return fault
        open_ += children
    return "" if next(nodes, None) is None else "its tree has nodes left over"


class _Node(NamedTuple):
    """Decisions (0 free, 1 in, 2 out), and what the prices above come to."""

    state: NDArray[np.int8]
    values: Ints | None
    total: int | None


def _visit(
    node: _Node, record: TreeNode, about: Selecting, goal: int, claim: Fraction
) -> tuple[str, list[_Node]]:
    """Return what is wrong with a node, and the nodes that remain below it."""
    values, total = node.values, node.total
    if record.units is not None:
        fault = _price_fault(record, about)
        if fault:
            return fault, []
        loads = about.loads(record.units)
        if loads is None:
            return "its losses are too large in its unit", []
        values = loads - about.costs
        total = int(record.units.sum())
        if record.rate is not None:
            total -= int(-(-record.rate * about.slack // 1))
    if values is None or total is None:
        return "its first node has no prices", []
    state, is_closed = _decide(node.state, values, total, about, goal, claim)
    if record.source < 0:
        if is_closed:
            return "", []
        return "a leaf of its tree holds selections that may cost less", []
    if record.source >= about.n_sources:
        return "its tree decides a source that does not exist", []
    below = []
    for decision in (2, 1):  # the last is taken first
        child = state.copy()
        if state[record.source] in (0, decision):
            child[record.source] = decision
        else:  # no selection is left: everything is out and in
            child[:] = 3
        below.append(_Node(child, values, total))
    return "", below


def _price_fault(record: TreeNode, about: Selecting) -> str:
    units = record.units
    assert units is not None
    if units.shape != (about.n_targets,):
        return f"a node has {units.size} prices for {about.n_targets} targets"
    if int(np.abs(units.astype(object)).sum()) >= _MOST:
        return "the prices of a node are too large"
    return about.price_fault(units, record.rate)


def _decide(
    state: NDArray[np.int8],
    values: Ints,
    total: int,
    about: Selecting,
    goal: int,
    claim: Fraction,
) -> tuple[NDArray[np.int8], bool]:
    """Decide what prices decide; whether no selection below the claim is left."""
    while True:
        if (state == 3).any() or int((state == 1).sum()) > about.budget:
            return state, True
        chosen, free = np.flatnonzero(state == 1), np.flatnonzero(state == 0)
        room = about.budget - len(chosen)
        base = total - int(values[chosen].sum())
        if room == 0 or not len(free):
            cost = about.cost(chosen)
            return state, cost is None or cost >= claim
        gains = sorted((max(0, int(v)) for v in values[free]), reverse=True)
        bound = base - sum(gains[:room])
        if bound >= goal:
            return state, True
        last = gains[room - 1] if room <= len(gains) else 0
        after = gains[room] if room < len(gains) else 0
        decided = state.copy()
        for s in free.tolist():
            value = int(values[s])
            taken = value if value >= last else last
            if bound + taken - value >= goal:  # with it in, at least this
                decided[s] = 2
            if value >= last and bound + max(0, value) - after >= goal:
                decided[s] = 1 if decided[s] == 0 else 3
        if np.array_equal(decided, state):
            able = np.flatnonzero(state != 2)
            return state, about.cost(able) is None
        state = decided


# --- what trees are about, rebuilt from the sets alone ------------------------------


def _priced(problem: Problem) -> Ints:
    """Targets that have a price: they count and can be served."""
    return np.flatnonzero(problem.needed & (problem.weights > 0))


def _loads(problem: Problem, priced: Ints, units: Ints):
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

    def price_fault(units: Ints, rate: Fraction | None) -> str:
        if (units < 0).any():
            return "a price is negative"
        if rate is None:
            return "" if slack == 0 else "a node has no rate for unserved weight"
        pairs = zip(units.tolist(), weights, strict=True)
        if rate < 0 or any(u > rate * w for u, w in pairs):
            return "a target has a price above the rate of unserved weight"
        return ""

    def cost(sources: Ints) -> Fraction | None:
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

    def price_fault(units: Ints, rate: Fraction | None) -> str:
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
    include: Ints,
    exclude: Ints,
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

    def loads(units: Ints) -> Ints | None:
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

    def cost(sources: Ints) -> Fraction | None:
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
