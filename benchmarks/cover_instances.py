"""Instances for the cover benchmarks: mass-spring-damper regret, and blobs.

Both are square: n sources and the same n targets on a grid.
"""

import numpy as np
from numpy.typing import NDArray


def msd_losses(side: int) -> dict[str, NDArray[np.float64]]:
    """Loss of LQR gains across a `side` x `side` grid of (stiffness, damping).

    x'' = -k x - c x' + u with (k, c) in [0.1, 8]^2, Q = diag(10, 4), R = 1. Row: the
    context that the gain was made for; column: the context where it is used. By
    criterion: `regret`, `ratio` and `signed`.
    """
    axis = np.linspace(0.1, 8.0, side)
    k, c = (a.ravel() for a in np.meshgrid(axis, axis, indexing="ij"))
    # Riccati equation of the double integrator with spring and damper, by hand.
    gain1 = -k + np.sqrt(k**2 + 10)
    gain2 = -c + np.sqrt(c**2 + 4 + 2 * gain1)
    best = _trace_cost(k, c, gain1, gain2)
    cost = _trace_cost(k, c, gain1[:, None], gain2[:, None])
    return {
        "regret": cost - best,
        "ratio": cost / best - 1,
        "signed": cost - best[:, None],
    }


def _trace_cost(k, c, gain1, gain2):
    a, b = k + gain1, c + gain2
    q11, q12, q22 = 10 + gain1**2, gain1 * gain2, 4 + gain2**2
    p2 = q11 / (2 * a)
    p3 = (q22 + 2 * p2) / (2 * b)
    return b * p2 + a * p3 - q12 + p3


def msd_sets(side: int, epsilon: float = 0.02) -> NDArray[np.bool_]:
    """Tolerance sets of the regret: a boolean matrix `(source, target)`."""
    return msd_losses(side)["regret"] <= epsilon


def blob_sets(
    side: int, *, radius: float = 0.1, spread: float = 0.5, seed: int = 0
) -> NDArray[np.bool_]:
    """Return a tilted ellipse around each grid point, radii varying by `spread`.

    Args:
        side: points on each axis of the unit square.
        radius: mean radius.
        spread: radii are uniform in `radius * (1 ± spread)`.
        seed: of the radii and angles.
    """
    rng = np.random.default_rng(seed)
    n = side * side
    axis = (np.arange(side) + 0.5) / side
    x, y = (a.ravel() for a in np.meshgrid(axis, axis, indexing="ij"))
    radii = radius * (1 + spread * rng.uniform(-1, 1, (2, n)))
    angle = rng.uniform(0, np.pi, n)
    sets = np.empty((n, n), bool)
    for s in range(n):
        dx, dy = x - x[s], y - y[s]
        u = np.cos(angle[s]) * dx + np.sin(angle[s]) * dy
        v = np.cos(angle[s]) * dy - np.sin(angle[s]) * dx
        sets[s] = (u / radii[0, s]) ** 2 + (v / radii[1, s]) ** 2 <= 1
    return sets
