r"""The accumulated covariance of one closed loop that the fast kernel left open.

Stiff, nearly marginal or badly scaled loops, and coordinates in which most digits
cancel. The states are scaled by powers of two (which is exact) and the loop is solved
in twice the precision (`kernels.twofold`). What that leaves undecided is
solved in whole numbers (`kernels.rational`), which decides everything: a loop
counts as unstable if it is, for A, B and K as given.
"""

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from taskspace.systems.linear.kernels.rational import rational_gramian
from taskspace.systems.linear.kernels.twofold import (
    UNDECIDED,
    UNSTABLE,
    twofold_gramian,
)
from taskspace.systems.linear.matrices import Loop

__all__ = ["careful_gramian", "excited_and_seen"]


def careful_gramian(
    loop: Loop, x0: NDArray[np.float64], continuous: bool
) -> tuple[NDArray[np.float64], float]:
    """X of u = −Kx with an infinite horizon and its cost, `inf` where it is unstable.

    Args:
        loop: the gain and the matrices of its context.
        x0: second moment of the initial state, symmetric positive semidefinite.
        continuous: continuous or discrete time.
    """
    a, b, q, r, gain = loop
    unstable = np.full_like(x0, np.inf), np.inf
    if not all(np.isfinite(m).all() for m in (*loop, x0)):
        return unstable
    with np.errstate(all="ignore"):
        scale = _state_scales(a - b @ gain)
        both = np.outer(scale, scale)
        A, B, Q = a / scale[:, None] * scale, b / scale[:, None], q * both
        K, X0 = gain * scale, x0 / both
        pairs = ((a, A), (b, B), (q, Q), (gain, K), (x0, X0))
        # Whole numbers do not overflow or vanish.
        fits = all(
            np.isfinite(y).all() and ((x == 0) == (y == 0)).all() for x, y in pairs
        )
        x, cost, state = x0, np.inf, UNDECIDED
        if fits:
            x, cost, state = twofold_gramian(A, B, Q, r, K, X0, continuous)
            x = x * both
    if state == UNSTABLE:
        return unstable
    if state == UNDECIDED or not np.isfinite(x).all():
        return rational_gramian(loop, x0, continuous)
    return x, cost


def _state_scales(loop: NDArray[np.float64]) -> NDArray[np.float64]:
    """Units of the states, powers of two, in which rows and columns are alike."""
    if not np.isfinite(loop).all():
        return np.ones(len(loop))
    _, (scale, _) = scipy.linalg.matrix_balance(loop, permute=False, separate=True)
    return scale


def excited_and_seen(
    loop: NDArray[np.float64], x0: NDArray[np.float64], weight: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """States that the initial state reaches and that reach a weighed state.

    Args:
        loop: F, whose zeros say what does not act on what.
        x0: second moment of the initial state.
        weight: weight of the states, positive semidefinite.
    """
    acts = loop != 0
    return _reached(acts, np.diag(x0) > 0) & _reached(acts.T, np.diag(weight) > 0)


def _reached(acts: NDArray[np.bool_], start: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Where one gets from `start` if `acts[i, j]` leads from j to i."""
    reached = start
    for _ in range(len(start)):
        reached = reached | acts[:, reached].any(1)
    return reached
