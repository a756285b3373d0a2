"""Multiplicative weights on the cover game, for a lower bound.

One player spreads weight on sources to serve the least served target well, the other
on targets to find the ones that are served badly. Both update their weights
multiplicatively and optimistically (Rakhlin & Sridharan 2013); the averaged weights
of the second player are dual prices.
"""

import numba
import numpy as np
from numpy.typing import NDArray

from taskspace.cover.base import Clock
from taskspace.cover.prices import multiply_runs, run_loads
from taskspace.sets import RunSets

_STEP = 0.3  # over the value of the game; larger ones diverge on grids
_CHUNK = 50


def multiplicative_weights(
    sets: RunSets,
    costs: NDArray[np.float64],
    clock: Clock,
    *,
    max_iterations: int = 10**9,
) -> NDArray[np.float64]:
    """Dual prices by optimistic multiplicative weights.

    Args:
        sets: the targets that each source serves; every target must have a source.
        costs: cost of each source.
        clock: whose time limit counts.
        max_iterations: iterations to make at most.

    Returns:
        The best averaged prices seen, not scaled.
    """
    inverse = sets.inverse
    n, m = sets.n_sources, sets.n_targets
    scale = costs.min() / costs
    logits, before = (np.zeros(n), np.zeros(m)), (np.zeros(n), np.zeros(m))
    best, best_value = np.ones(m), -1.0
    total, n_summed = np.zeros(m), 0
    for done in range(0, max_iterations, _CHUNK):
        _play(sets.arrays, inverse.arrays, scale, logits, before, total, done == 0)
        n_summed += _CHUNK
        value = float(total.sum() / np.max(run_loads(sets, total) * scale))
        if value > best_value:
            best, best_value = total / n_summed, value
        if n_summed > 0.5 * done + 2 * _CHUNK:  # forget the first half
            total[:] = 0
            n_summed = 0
        if clock.left <= 0:
            break
    return best


@numba.njit(cache=True)
def _softmax(logits):
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


@numba.njit(cache=True)
def _play(sources, targets, scale, logits, before, total, is_first):
    """Some rounds, in place; pairs belong to sources and targets."""
    log_x, log_y = logits
    old_load, old_serve = before
    for k in range(_CHUNK):
        x, y = _softmax(log_x), _softmax(log_y)
        load = multiply_runs(sources, y) * scale
        serve = multiply_runs(targets, x * scale)
        if is_first and k == 0:
            old_load[:], old_serve[:] = load, serve
        step = _STEP / max((serve * y).sum(), 1e-9)
        log_x += step * (2 * load - old_load)
        log_y -= step * (2 * serve - old_serve)
        old_load[:], old_serve[:] = load, serve
        total += y
