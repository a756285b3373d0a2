r"""H∞ norms of many linear loops, by level sets (Bruinsma & Steinbuch 1990).

$\|G\|_\infty > \gamma$ if and only if the Hamiltonian matrix of γ has eigenvalues on
the imaginary axis: the frequencies at which a singular value of $G(j\omega)$ is γ.
From a first γ, the largest gain at a few frequencies, the gain is taken at the middles
of the intervals between the crossings until there are none. What is returned is the
gain at some frequency: never above the norm, and within `TOLERANCE` of it.

Discrete time is mapped to continuous time by $z = (1 + s) / (1 - s)$, which changes no
norm.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.threads import over_rows

Array = NDArray[np.float64]
BLOCK = 500
TOLERANCE = 1e-9
MAX_STEPS = 40
# Eigenvalues so close to the imaginary axis count as on it, relative to their size.
ON_AXIS = 1e-7


def hinf_norms(
    F: Array,
    E: Array,
    C: Array,
    D: Array,
    continuous: bool,
) -> Array:
    """Return the norm of C (sI − F)⁻¹ E + D of each loop; they must be stable.

    Args:
        F: loops, shape `(…, n, n)`.
        E: shape `(…, n, n_in)`.
        C: shape `(…, n_out, n)`.
        D: shape `(…, n_out, n_in)`, or one of all loops.
        continuous: continuous or discrete time.

    Returns:
        Shape `(…)`; what it is for an unstable loop means nothing.
    """
    front, n = F.shape[:-2], F.shape[-1]
    loops, entries, exits = (x.reshape(-1, *x.shape[-2:]) for x in (F, E, C))
    through = np.broadcast_to(D, (*front, *D.shape[-2:])).reshape(-1, *D.shape[-2:])
    if not continuous:
        with np.errstate(all="ignore"):
            inverse = _inverse(loops + np.eye(n))
            through = through - exits @ inverse @ entries
            entries = np.sqrt(2.0) * inverse @ entries
            exits = np.sqrt(2.0) * exits @ inverse
            loops = inverse @ (loops - np.eye(n))
    norms = np.empty(len(loops))

    def kernel(first: int, stop: int) -> None:
        for start in range(first, stop, BLOCK):
            some = slice(start, min(start + BLOCK, stop))
            norms[some] = _norms(*(x[some] for x in (loops, entries, exits, through)))

    over_rows(kernel, len(loops))
    return norms.reshape(front)


def _inverse(x: Array) -> Array:
    """Return inverses; a loop with a singular one is unstable."""
    singular = np.linalg.cond(x) > 1e15
    return np.linalg.inv(np.where(singular[:, None, None], np.eye(x.shape[-1]), x))


def _norms(f: Array, e: Array, c: Array, d: Array) -> Array:
    roots = np.linalg.eigvals(f)
    first = np.hstack([np.abs(roots), np.abs(roots.imag), 0 * roots.real])
    best = np.maximum(_gains(f, e, c, d, first.astype(np.float64)).max(1), _largest(d))
    open_ones = np.flatnonzero((best > 0) & (best < np.inf))
    for _ in range(MAX_STEPS):
        if not len(open_ones):
            break
        some = [x[open_ones] for x in (f, e, c, d)]
        level = best[open_ones] * (1 + TOLERANCE)
        where = _crossings(*some, level)
        before = np.concatenate([np.zeros((len(where), 1)), where[:, :-1]], 1)
        tried = np.concatenate([where, 0.5 * (before + where)], 1)
        higher = _gains(*some, tried).max(1)
        rises = (higher > level) & (where > 0).any(1)
        best[open_ones[rises]] = higher[rises]
        open_ones = open_ones[rises]
    return best


def _largest(x: NDArray[Any]) -> Array:
    """Return the largest singular value of each matrix, inf where it has no number."""
    fine = np.asarray(np.isfinite(x).all((-1, -2)))
    safe = np.where(fine[..., None, None], x, 0.0)
    return np.where(fine, np.linalg.svd(safe, compute_uv=False)[..., 0], np.inf)


def _gains(f: Array, e: Array, c: Array, d: Array, w: Array) -> Array:
    """Return the largest singular value at some frequencies of each loop."""
    eye = np.eye(f.shape[-1])
    shifted = 1j * w[..., None, None] * eye - f[:, None]
    broad = np.broadcast_to(e[:, None], (*w.shape, *e.shape[1:]))
    try:
        states = np.linalg.solve(shifted, broad)
    except np.linalg.LinAlgError:  # only a loop that is not stable has such a pole
        states = np.linalg.pinv(shifted) @ broad
    return _largest(d[:, None] + c[:, None] @ states)


def _crossings(f: Array, e: Array, c: Array, d: Array, gamma: Array) -> Array:
    """Return frequencies at which a singular value is γ, ascending; 0 for none."""
    m, n = e.shape[-1], f.shape[-1]
    d_t, c_t = np.swapaxes(d, 1, 2), np.swapaxes(c, 1, 2)
    inside = (gamma**2)[:, None, None] * np.eye(m) - d_t @ d
    half = np.linalg.solve(inside, np.swapaxes(e, 1, 2))
    cross = np.linalg.solve(inside, d_t @ c)
    top = f + e @ cross
    h = np.empty((len(f), 2 * n, 2 * n))
    h[:, :n, :n], h[:, :n, n:] = top, e @ half
    h[:, n:, :n], h[:, n:, n:] = -(c_t @ c + c_t @ d @ cross), -np.swapaxes(top, 1, 2)
    roots = np.linalg.eigvals(h)
    size = np.abs(roots).max(1, keepdims=True)
    close = np.abs(roots.real) <= ON_AXIS * (np.abs(roots) + ON_AXIS * size)
    return np.sort(np.where(close & (roots.imag > 0), roots.imag, 0.0), axis=1)
