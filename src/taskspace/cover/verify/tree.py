r"""Proofs of shares, budgets and means: a tree of decisions with prices at its nodes.

See `taskspace.cover.location` for why prices bound every selection that agrees with
the decisions of a node. Here the tree is gone through again, in Python and NumPy
integers and in fractions, with nothing shared with the search that found it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taskspace.cover.verify.proof import TreeNode, TreeProof

__all__ = ["Selecting", "tree_fault"]

Ints = NDArray[np.int64]
_MOST = 2**61  # sums of prices stay below this


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
