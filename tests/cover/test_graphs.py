"""Covers of graphs: closed forms, brute force, HiGHS, and bounds at any time."""

from itertools import combinations

import numpy as np
import pytest
from scipy import optimize

from taskspace.cover import minimum_cover
from taskspace.cover.base import Clock
from taskspace.cover.exact.graph import GraphSearch, is_graph_like
from taskspace.sets import PackedSets


def sets_of(n, targets):
    """Sets of `n` sources; each target is the tuple of the sources that serve it."""
    serves = np.zeros((n, len(targets)), bool)
    for t, sources in enumerate(targets):
        serves[list(sources), t] = True
    return serves, PackedSets.from_bool(serves)


def deepened(sets, max_nodes=None, lower=0):
    """All bounds on the way, and the cover that was seen last."""
    search, bounds = GraphSearch(sets.to_runs()), [lower]
    best = [sets.n_sources]

    def on_bound(bound):
        bounds.append(bound)
        if search.best is not None:
            best[0] = min(best[0], len(search.best))

    search.deepen(lower, lambda: best[0], Clock(60), on_bound, max_nodes)
    return bounds, search.best


def highs(serves):
    n, m = serves.shape
    found = optimize.milp(
        np.ones(n), integrality=np.ones(n), bounds=optimize.Bounds(0, 1),
        constraints=optimize.LinearConstraint(serves.T.astype(float), lb=np.ones(m)),
    )  # fmt: skip
    return round(found.fun)


PETERSEN = [(i, (i + 1) % 5) for i in range(5)] + [(i, i + 5) for i in range(5)]
PETERSEN += [(5 + i, 5 + (i + 2) % 5) for i in range(5)]


@pytest.mark.parametrize(
    ("n", "edges", "least"),
    [
        (9, list(combinations(range(9), 2)), 8),
        (11, [(i, (i + 1) % 11) for i in range(11)], 6),
        (12, [(i, (i + 1) % 12) for i in range(12)], 6),
        (10, PETERSEN, 6),
        (13, [(a, b) for a in range(5) for b in range(5, 13)], 5),
    ],
    ids=["complete", "odd cycle", "even cycle", "Petersen", "bipartite"],
)
def test_graphs_whose_smallest_covers_are_known(n, edges, least):
    _, sets = sets_of(n, edges)
    bounds, best = deepened(sets)
    assert bounds[-1] == least
    assert bounds == sorted(bounds)
    if best is not None:
        assert len(best) == least
        assert sets.union(best).all()
    # Without one of its edges a complete graph needs one vertex fewer: bounds can fall.
    if n == 9:
        assert deepened(sets_of(n, edges[1:])[1])[0][-1] == least - 1


def random_targets(rng, n):
    pairs = list(combinations(range(n), 2))
    m = int(rng.integers(n // 2, min(4 * n, len(pairs))))
    return [pairs[k] for k in rng.choice(len(pairs), m, replace=False)]


def test_random_graphs_need_as_many_as_highs_finds():
    rng = np.random.default_rng(0)
    for _ in range(25):
        n = int(rng.integers(5, 40))
        serves, sets = sets_of(n, random_targets(rng, n))
        truth = highs(serves)
        assert deepened(sets)[0][-1] == truth
        few = deepened(sets, max_nodes=1)[0]  # out of nodes: what it says holds
        assert few[-1] <= truth


def test_targets_of_more_sources_leave_a_bound():
    rng = np.random.default_rng(1)
    for _ in range(10):
        n = int(rng.integers(8, 30))
        targets = random_targets(rng, n)
        more = [
            tuple(rng.choice(n, 3, replace=False)) for _ in range(len(targets) // 4)
        ]
        serves, sets = sets_of(n, targets + more)
        assert is_graph_like(sets.to_runs())
        truth = highs(serves)
        assert deepened(sets)[0][-1] <= truth
        cover = minimum_cover(sets, time_limit=20)
        assert cover.optimal
        assert cover.size == truth


def test_a_graph_beyond_prices_is_proven():
    """The LP proves half of the vertices here, and so do prices."""
    rng = np.random.default_rng(0)
    _, sets = sets_of(90, {tuple(sorted(rng.choice(90, 2, False))) for _ in range(400)})
    cover = minimum_cover(sets, time_limit=60)
    assert cover.optimal
    assert cover.lower_bound_kind == "exact"
    assert cover.size == minimum_cover(sets, time_limit=60, seed=1).size > 45
