"""Which of several policies that serve a target is used there."""

from collections.abc import Callable

import numpy as np
from scipy import sparse
from scipy.spatial import KDTree

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace.deploy.regions import GridRegions, Regions
from taskspace.errors import UnknownNameError


def assign(
    loss: Array,
    performance: Array,
    epsilon: float,
    nodes: Regions,
    rule: str = "performance",
) -> tuple[Numbers, Mask]:
    """Policy of each target, by a rule among those that serve it.

    A target that no policy serves within ε gets the one of least loss, unless all
    fail there.

    Args:
        loss: of each policy at each target, +inf for a failure.
        performance: J of each policy at each target.
        epsilon: tolerance.
        nodes: the targets, for rules that look at neighbours.
        rule: one of `ASSIGN_RULES`.

    Returns:
        Number of the policy at each target (−1 where all fail), and whether it
        serves.
    """
    if rule not in ASSIGN_RULES:
        raise UnknownNameError("rule of assignment", rule, ASSIGN_RULES)
    serves = loss <= epsilon
    served = np.asarray(serves.any(0))
    policy = loss.argmin(0)
    policy[np.isposinf(loss).all(0)] = -1
    if served.any():
        chosen = ASSIGN_RULES[rule](serves, performance, loss, nodes)
        policy[served] = chosen[served]
    return policy.astype(np.int64), served


def _by_performance(
    serves: Mask, performance: Array, loss: Array, nodes: Regions
) -> Numbers:
    """Return the largest J; of equals the least loss, then the lowest number."""
    del nodes
    best = np.where(serves, performance, -np.inf)
    tied = serves & (best == best.max(0))
    return np.where(tied, loss, np.inf).argmin(0)


def _by_margin(
    serves: Mask, performance: Array, loss: Array, nodes: Regions
) -> Numbers:
    """Return the one whose nearest failed target is farthest; then of least loss."""
    del performance
    width = nodes.high - nodes.low
    points = nodes.centres / np.where(width > 0, width, 1.0)
    depth = np.full(serves.shape, -np.inf)
    for row, ok in zip(depth, serves, strict=True):
        if ok.all():
            row[:] = np.inf
        elif ok.any():
            row[ok] = KDTree(points[~ok]).query(points[ok])[0]
    tied = serves & (depth == depth.max(0))
    return np.where(tied, loss, np.inf).argmin(0)


def _by_majority(
    serves: Mask, performance: Array, loss: Array, nodes: Regions
) -> Numbers:
    """Few connected regions: each target takes the policy that most neighbours use.

    Of the policies that serve it. A target changes only if more of its neighbours then
    agree with it, so the number of neighbours that agree grows until nothing changes.
    """
    policy = _by_performance(serves, performance, loss, nodes)
    graph = neighbours(nodes)
    covered = np.flatnonzero(serves.any(0))
    around = [np.intersect1d(graph[[t]].indices, covered) for t in covered]
    is_settled = False
    while not is_settled:
        is_settled = True
        for target, near in zip(covered, around, strict=True):
            votes = np.bincount(policy[near], minlength=len(serves))
            votes = np.where(serves[:, target], votes, -1)
            if votes.max() > votes[policy[target]]:
                policy[target] = votes.argmax()
                is_settled = False
    return policy


def neighbours(nodes: Regions) -> sparse.csr_array:
    """Which regions lie side by side.

    On a grid one step along one axis; among points the `2 · n_axes` nearest, each
    axis in widths of its range.

    Args:
        nodes: regions with coordinates.
    """
    n = nodes.n_regions
    if isinstance(nodes, GridRegions):
        number = np.arange(n).reshape(nodes.shape)
        pairs = [
            (np.take(number, range(m - 1), axis), np.take(number, range(1, m), axis))
            for axis, m in enumerate(nodes.shape)
        ]
        first = np.concatenate([a.ravel() for a, _ in pairs])
        second = np.concatenate([b.ravel() for _, b in pairs])
    else:
        centres = nodes.centres
        n_near = min(n - 1, 2 * centres.shape[1])
        if n_near < 1:
            return sparse.csr_array((n, n))
        width = nodes.high - nodes.low
        scaled = centres / np.where(width > 0, width, 1.0)
        _, number = KDTree(scaled).query(scaled, k=n_near + 1)
        near = np.asarray(number)[:, 1:]
        first, second = np.repeat(np.arange(n), n_near), near.ravel()
    graph = sparse.coo_array((np.ones(len(first)), (first, second)), (n, n))
    return sparse.csr_array(graph + graph.T)


ASSIGN_RULES: dict[str, Callable[[Mask, Array, Array, Regions], Numbers]] = {
    "performance": _by_performance,
    "margin": _by_margin,
    "connected": _by_majority,
}
"""Rules by name: best performance, deepest inside, fewest connected regions."""
