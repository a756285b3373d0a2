r"""The accumulated covariance of one closed loop that the fast kernel left open.

Stiff, nearly marginal or badly scaled loops: the states are scaled by powers of two
(which is exact), the eigenvalues decide on stability, and SciPy's Schur or direct
method is refined with residuals in twice the precision, until nothing changes.

A loop whose eigenvalues touch the boundary to rounding, or whose refinement does not
converge, counts as unstable: its X is infinite.
"""

import warnings

import numpy as np
import scipy.linalg
from numba import njit
from numpy.typing import NDArray

__all__ = ["careful_gramian", "excited_and_seen"]

MAX_REFINEMENTS = 60
# Refinement ends when no entry of X changes by more, relative to its size.
SETTLED = 1e-14
# A refinement that gains less than this factor a step has come to its end.
PROGRESS = 0.5
# More than that left to change then: not even the first digits are determined.
HOPELESS = 1e-3


def careful_gramian(
    loop: NDArray[np.float64], x0: NDArray[np.float64], continuous: bool
) -> NDArray[np.float64]:
    """X of one loop with an infinite horizon, `inf` where it is unstable.

    Args:
        loop: F, shape `(n_states, n_states)`.
        x0: second moment of the initial state, symmetric positive semidefinite.
        continuous: continuous or discrete time.
    """
    unstable = np.full_like(x0, np.inf)
    if not np.isfinite(loop).all():
        return unstable
    with np.errstate(all="ignore"), warnings.catch_warnings():
        # SciPy warns of ill-conditioning; the refinement finds out itself.
        warnings.simplefilter("ignore")
        shifted = None if continuous else _without_identity(loop)
        if shifted is not None:
            loop = shifted
        balanced, (scale, _) = scipy.linalg.matrix_balance(
            loop, permute=False, separate=True
        )
        unit = _power_of_two(np.abs(balanced).max()) if continuous else 1.0
        balanced = balanced / unit
        roots = np.linalg.eigvals(balanced)
        if continuous:
            edge = roots.real
        elif shifted is None:
            edge = np.abs(roots) - 1
        else:  # |1 + d| < 1 without rounding 1 + d
            edge = 2 * roots.real + np.abs(roots) ** 2
        if not edge.max() < 0:
            return unstable
        start = x0 / np.outer(scale, scale)
        size = _power_of_two(np.abs(start).max())
        try:
            x = _refined(balanced, start / size, continuous, shifted is not None)
        except (np.linalg.LinAlgError, ValueError):
            return unstable
        x = x * np.outer(scale, scale) * (size / unit)
    return np.where(np.isfinite(x), x, np.inf)


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


def _without_identity(loop: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """D = F − I or −F − I, None where neither is exact: F and −F have the same X.

    Where eigenvalues are next to ±1, their distance from it is what decides, and
    states of other units hide in the ones of F from whoever would balance it.
    """
    for signed in (loop, -loop):
        shifted, lost = _two_sum(signed, -np.eye(len(loop)))
        if not lost.any() and np.abs(np.diag(shifted)).max() <= 0.5:
            return shifted
    return None


def _power_of_two(value: float) -> float:
    return float(2.0 ** np.floor(np.log2(value))) if 0 < value < np.inf else 1.0


def _refined(
    loop: NDArray[np.float64],
    x0: NDArray[np.float64],
    continuous: bool,
    is_shifted: bool,
) -> NDArray[np.float64]:
    """X of a stable loop; raises LinAlgError where no digit of it is determined."""
    excited = _reached(loop != 0, np.diag(x0) > 0)
    x = np.zeros_like(x0)
    if not excited.any():
        return x
    part = np.ix_(excited, excited)
    f = np.ascontiguousarray(loop[part])
    start = np.ascontiguousarray(x0[part])
    high, low = np.zeros_like(f), np.zeros_like(f)
    residual, last = start, np.inf
    for _ in range(MAX_REFINEMENTS):
        step = _solve(f, residual, continuous, is_shifted)
        step = (step + step.T) / 2
        new = high + step
        diagonal = np.maximum(np.diag(new), np.diag(high))
        change = float((np.abs(step) / np.sqrt(np.outer(diagonal, diagonal))).max())
        if not change <= max(PROGRESS * last, SETTLED):
            break
        high, low = _two_sum(high, step + low)
        last = change
        if change <= SETTLED:
            break
        residual = _residual(f, high, low, start, continuous, is_shifted)
    if not last <= HOPELESS or not (np.diag(high) > 0).all():
        raise np.linalg.LinAlgError("This loop is marginal to rounding.")
    x[part] = high
    return x


def _solve(
    f: NDArray[np.float64],
    right: NDArray[np.float64],
    continuous: bool,
    is_shifted: bool,
) -> NDArray[np.float64]:
    if continuous:
        return scipy.linalg.solve_continuous_lyapunov(f, -right)
    if not is_shifted:
        return scipy.linalg.solve_discrete_lyapunov(f, right)
    # As SciPy's bilinear method, for F = I + D without forming F.
    inverse = np.linalg.inv(2 * np.eye(len(f)) + f)
    return scipy.linalg.solve_continuous_lyapunov(
        inverse @ f, -2 * inverse @ right @ inverse.T
    )


def _two_sum(
    a: NDArray[np.float64], b: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The sum as a rounded value and its rounding error (Knuth)."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


@njit(cache=True, error_model="numpy")
def _accumulate(high, low, a, b):
    """(high, low) += a b in twice the precision (Ogita, Rump & Oishi 2005)."""
    p = a * b
    t = 134217729.0 * a  # 2^27 + 1: Veltkamp's split
    a1 = t - (t - a)
    a2 = a - a1
    t = 134217729.0 * b
    b1 = t - (t - b)
    b2 = b - b1
    error = a2 * b2 - (((p - a1 * b1) - a2 * b1) - a1 * b2)
    total = high + p
    back = total - high
    return total, low + ((high - (total - back)) + (p - back)) + error


@njit(cache=True, error_model="numpy")
def _residual(f, high, low, x0, continuous, is_shifted):
    """X₀ + F X + X Fᵀ; X₀ + F X Fᵀ − X; or with F = I + D the sum of D's terms in both.

    X = high + low.
    """
    n = len(f)
    out = np.empty((n, n))
    y = np.zeros((n, n))
    y_low = np.zeros((n, n))
    if not continuous:
        for i in range(n):
            for j in range(n):
                s = 0.0
                c = 0.0
                for k in range(n):
                    s, c = _accumulate(s, c, f[i, k], high[k, j])
                    c += f[i, k] * low[k, j]
                y[i, j] = s + c
                y_low[i, j] = c - (y[i, j] - s)
    for i in range(n):
        for j in range(i, n):
            s = x0[i, j]
            c = 0.0
            if not continuous and not is_shifted:
                s, c = _accumulate(s, c, -1.0, high[i, j])
                c -= low[i, j]
            for k in range(n):
                if continuous or is_shifted:
                    s, c = _accumulate(s, c, f[i, k], high[k, j])
                    s, c = _accumulate(s, c, high[i, k], f[j, k])
                    c += f[i, k] * low[k, j] + low[i, k] * f[j, k]
                if not continuous:
                    s, c = _accumulate(s, c, y[i, k], f[j, k])
                    c += y_low[i, k] * f[j, k]
            out[i, j] = s + c
            out[j, i] = out[i, j]
    return out
