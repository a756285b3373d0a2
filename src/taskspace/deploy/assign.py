"""Which of several policies that serve a target is used there."""

from collections.abc import Callable

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
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


def _by_connection(
    serves: Mask, performance: Array, loss: Array, nodes: Regions
) -> Numbers:
    """Few connected regions: two heuristics, the better of them."""
    graph = neighbours(nodes)
    covered = serves.any(0)
    start = np.where(covered, _by_performance(serves, performance, loss, nodes), -1)
    starts = start, _largest_first(serves, graph)
    tries = [_absorb(policy, serves, graph) for policy in starts]
    return min(tries, key=lambda policy: _n_regions(policy, graph))


def _largest_first(serves: Mask, graph: sparse.csr_array) -> Numbers:
    """Again and again the largest connected stretch that one policy can take."""
    policy = np.full(serves.shape[1], -1)
    unassigned = np.asarray(serves.any(0))
    # The largest stretch of each policy; only those that lost targets are redone.
    stretches: dict[int, Numbers] = {}
    while unassigned.any():
        for p in range(len(serves)):
            if p not in stretches or not unassigned[stretches[p]].all():
                stretches[p] = _largest_component(serves[p] & unassigned, graph)
        best = max(stretches, key=lambda p: (len(stretches[p]), -p))
        policy[stretches[best]] = best
        unassigned[stretches[best]] = False
    return policy


def _absorb(policy: Numbers, serves: Mask, graph: sparse.csr_array) -> Numbers:
    """Give small regions to a neighbour that serves all of them, until none is left."""
    policy = policy.copy()
    changed = True
    while changed:
        changed = False
        label = _labels(policy, graph)
        sizes = np.bincount(label)
        for region in np.argsort(sizes, kind="stable"):
            inside = np.flatnonzero(label == region)
            if policy[inside[0]] < 0:
                continue
            around = np.unique(policy[graph[inside].indices])
            for other in around[(around >= 0) & (around != policy[inside[0]])]:
                if serves[other, inside].all():
                    policy[inside] = other
                    changed = True
                    break
            if changed:
                break
    return policy


def _largest_component(mask: Mask, graph: sparse.csr_array) -> Numbers:
    inside = np.flatnonzero(mask)
    if not len(inside):
        return inside
    _, label = connected_components(graph[inside][:, inside], directed=False)
    return inside[label == np.bincount(label).argmax()]


def _labels(policy: Numbers, graph: sparse.csr_array) -> Numbers:
    """Return number of the connected region of each target; equal policies connect."""
    edges = sparse.coo_array(graph)
    same = policy[edges.row] == policy[edges.col]
    within = sparse.coo_array(
        (np.ones(int(same.sum())), (edges.row[same], edges.col[same])), graph.shape
    )
    _, label = connected_components(within, directed=False)
    return np.asarray(label)


def _n_regions(policy: Numbers, graph: sparse.csr_array) -> int:
    label = _labels(policy, graph)
    return len(np.unique(label[policy >= 0]))


def count_regions(regions: Regions) -> int:
    """Return number of connected regions with one policy each.

    Args:
        regions: the map; nodes are neighbours as in `neighbours`.
    """
    return _n_regions(regions.policy, neighbours(regions))


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
    "connected": _by_connection,
}
"""Rules by name: best performance, deepest inside, fewest connected regions."""
