"""Random covering problems, and brute force to compare with."""

from fractions import Fraction
from itertools import combinations

import numpy as np


def random_problem(seed, max_size=12):
    """A small problem: boolean sets (source, target), with all kinds of oddities."""
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, max_size + 1, 2)
    sets = rng.random((n, m)) < rng.choice([0.1, 0.25, 0.5, 0.8])
    oddity = seed % 8
    if oddity == 1:
        sets[rng.integers(n)] = False  # an empty set
    elif oddity == 2:
        sets[rng.integers(n)] = sets[rng.integers(n)]  # duplicates
    elif oddity == 3:
        sets[:, rng.integers(m)] = False  # an uncoverable target
    elif oddity == 4:
        sets[rng.integers(n)] = True  # one set covers all
    elif oddity == 5:
        sets = sets[:, :0]  # no targets
    elif oddity == 6:
        sets = sets[:, rng.integers(m, size=m)]  # duplicate targets
    return sets


def random_costs(seed, n, kind):
    rng = np.random.default_rng(seed + 1000)
    if kind == "unicost":
        return None
    if kind == "whole":
        return rng.integers(1, 6, n).astype(float)
    return rng.uniform(0.2, 3.0, n)


def brute_force(sets, costs=None):
    """Least cost of serving all that can be served, by trying every selection."""
    costs = np.ones(len(sets)) if costs is None else costs
    powers = 2 ** np.arange(sets.shape[1])
    served, spent = np.zeros(1, np.int64), np.zeros(1)
    for row, cost in zip(sets, costs, strict=True):
        served = np.concatenate([served, served | powers[row].sum()])
        spent = np.concatenate([spent, spent + cost])
    return spent[served == powers[sets.any(0)].sum()].min()


def exact_cost(costs, sources):
    """The cost of a selection, without rounding."""
    return sum((Fraction(float(costs[s])) for s in sources), Fraction(0))


def selections(n, include=(), exclude=(), most=None):
    """Every selection of n sources that keeps to the limits."""
    free = [s for s in range(n) if s not in include and s not in exclude]
    most = n if most is None else most
    for size in range(min(most - len(include), len(free)) + 1):
        for chosen in combinations(free, size):
            yield [*include, *chosen]


def least_cost(matrix, costs=None, n_served=None, include=(), exclude=()):
    """Least cost, in fractions, of serving all that can be, or so many targets."""
    costs = np.ones(len(matrix)) if costs is None else costs
    able = [s for s in range(len(matrix)) if s not in exclude]
    needed = matrix[able].any(0).sum() if n_served is None else n_served
    return min(
        exact_cost(costs, chosen)
        for chosen in selections(len(matrix), include, exclude)
        if matrix[chosen].any(0).sum() >= needed
    )


def naive_greedy(sets, costs=None, weights=None):
    """Greedy as the paper writes it, on the boolean matrix."""
    costs = np.ones(len(sets)) if costs is None else costs
    left = sets.any(0).astype(float)
    if weights is not None:
        left *= weights
    chosen = []
    while left.any():
        best = int(np.argmax(sets @ left / costs))
        chosen.append(best)
        left[sets[best]] = 0
    return chosen


def harmonic(n):
    return sum(1 / k for k in range(1, n + 1))


def blobs(side, radius=0.15, seed=0):
    """Discs of varying radius around the points of a grid."""
    rng = np.random.default_rng(seed)
    axis = (np.arange(side) + 0.5) / side
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    radii = radius * rng.uniform(0.5, 1.5, len(points))
    distance = np.linalg.norm(points[:, None] - points[None], axis=-1)
    return distance <= radii[:, None]
