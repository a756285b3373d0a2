r"""Decay rates and H∞ norms of closed loops: the measures, and the norms of many loops.

By level sets (Bruinsma & Steinbuch 1990): $\|G\|_\infty > \gamma$ if and only if the
Hamiltonian matrix of γ has eigenvalues on the imaginary axis, the frequencies at which
a singular value of $G(j\omega)$ is γ. From a first γ, the largest gain at a few
frequencies, the gain is taken at the middles of the intervals between the crossings
until there are none. What is returned is the gain at some frequency, in double
precision: up to rounding it is not above the norm, and within `TOLERANCE` of it (1e-6
if it is next to the gain at the infinite frequency). Rounding costs more than that
where modes are close to the boundary of stability or of very different speeds. So a
level at a context is an estimate; levels over boxes are proven (bounded real lemma).

Discrete time is mapped to continuous time by $z = (1 + s) / (1 - s)$, which changes no
norm.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace._util.threads import over_rows
from taskspace.errors import InvalidInputError
from taskspace.policies import Policy
from taskspace.systems.base import Provenance
from taskspace.systems.linear.measures import ClosedLoops, LoopMeasure

if TYPE_CHECKING:
    from taskspace.systems.linear.base import LinearSystem

BLOCK = 500
TOLERANCE = 1e-9
MAX_STEPS = 40
# Next to the gain at the infinite frequency the Hamiltonian matrix has huge entries and
# shows no crossings, so levels come down to it step by step.
SLACKS = (1e-2, 1e-4, 1e-6, TOLERANCE)
# Eigenvalues so close to the imaginary axis count as on it, relative to their size.
ON_AXIS = 1e-7


class DecayRate(LoopMeasure):
    r"""$-\max \mathrm{Re}\,\lambda$ of the loop (discrete: $-\log \max |\lambda|$)."""

    name: str = "decay_rate"
    words: str = "a decay rate"
    unit: str = "per unit of time"
    larger_is_better: bool = True
    provenance: Provenance = "computed"  # by plain eigenvalues

    def loop_values(self, loops: ClosedLoops) -> Array:
        """Return the rate of each loop.

        Args:
            loops: of every policy at every context.
        """
        roots = np.linalg.eigvals(loops.F)
        with np.errstate(divide="ignore"):
            edge = roots.real if loops.continuous else np.log(np.abs(roots))
        return -edge.max(-1)


@dataclass(frozen=True)
class NormMeasure(LoopMeasure):
    r"""An H∞ norm of a channel, $\|C_z (sI - F)^{-1} B_w + d I\|_\infty$.

    Levels of it are proven over boxes by the bounded real lemma
    (`certificates.boxes.loops`) for every channel that is stated so.

    Args:
        name: what users call it.
        words: what it is, for sentences.
        channel: names of B_w and C_z among the matrices of `ClosedLoops`.
        direct: d, for as many inputs as outputs.
        larger_is_better: which way it is good.
        provenance: what its values may be called for a system whose J is exact.
    """

    name: str
    words: str
    channel: tuple[str, str]
    direct: float = 0.0
    larger_is_better: bool = False
    provenance: Provenance = "computed"

    def values(
        self, system: "LinearSystem", policies: Policy, contexts: Array
    ) -> Array:
        """Return the norm of every policy at every context, inf if unstable.

        Args:
            system: the tasks, with a channel if the norm is about the stated one.
            policies: a stack with leading dims `(source, policy)`.
            contexts: full context rows.
        """
        if "W" in self.channel and system.channel is None:
            raise InvalidInputError(
                "channel_norm is about a channel that the family states, but it has "
                "none. Say LinearFamily(..., channel=(B_w, C_z)), or ask for hinf."
            )
        return super().values(system, policies, contexts)

    def loop_values(self, loops: ClosedLoops) -> Array:
        """Return the norm of each loop.

        Args:
            loops: of every policy at every context.
        """
        entry, exit_rows = (getattr(loops, name) for name in self.channel)
        through = self.direct * np.eye(exit_rows.shape[-2], entry.shape[-1])
        return hinf_norms(loops.F, entry, exit_rows, through, loops.continuous)

    def level(self, epsilon: float) -> float:
        """Return the norm that a loss of at most `epsilon` asks for, NaN for none.

        Args:
            epsilon: tolerance of the loss, which is minus the score.
        """
        return epsilon


class DiskMargin(NormMeasure):
    r"""How much gain and phase a loop may lose or win at its inputs.

    The balanced disk margin is $\alpha = 1 / \|S - \tfrac12 I\|_\infty$: the loop stays
    stable for every factor $(1 + \delta/2) / (1 - \delta/2)$, $|\delta| < \alpha$, in
    all inputs at once. Guaranteed gains are from $(2 - \alpha) / (2 + \alpha)$ to its
    inverse, the guaranteed phase is $2 \arctan(\alpha / 2)$.
    """

    def loop_values(self, loops: ClosedLoops) -> Array:
        """Return the margin of each loop.

        Args:
            loops: of every policy at every context.
        """
        return 1 / super().loop_values(loops)

    def level(self, epsilon: float) -> float:
        """Return the norm that a margin of at least −ε asks for.

        Args:
            epsilon: minus the margin; a margin of nothing asks for stability alone.
        """
        return -1 / epsilon if epsilon < 0 else np.nan


DECAY_RATE = DecayRate()
# From a disturbance added to the plant's inputs to the measured outputs y = C x.
HINF = NormMeasure("hinf", "an H∞ norm from input disturbances to outputs", ("E", "Y"))
# Of `channel=(B_w, C_z)` of a family.
CHANNEL_NORM = NormMeasure(
    "channel_norm", "an H∞ norm of the stated channel", ("W", "Z")
)
# S = (I + L)⁻¹ at the plant's inputs. The Nyquist curve of L of a loop with one input
# stays 1 / ‖S‖∞ away from −1.
SENSITIVITY = NormMeasure(
    "sensitivity", "a peak of the sensitivity at the inputs", ("E", "U"), 1.0
)
# T = I − S.
COMPLEMENTARY = NormMeasure(
    "complementary_sensitivity",
    "a peak of the complementary sensitivity at the inputs",
    ("E", "U"),
)
DISK_MARGIN = DiskMargin(
    "disk_margin", "a disk margin at the inputs", ("E", "U"), 0.5, True
)


def hinf_norms(F: Array, E: Array, C: Array, D: Array, continuous: bool) -> Array:
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
    singular = np.linalg.slogdet(x).sign == 0  # a condition number is one of units
    return np.linalg.inv(np.where(singular[:, None, None], np.eye(x.shape[-1]), x))


def _norms(f: Array, e: Array, c: Array, d: Array) -> Array:
    roots = np.linalg.eigvals(f)
    first = np.hstack([np.abs(roots), np.abs(roots.imag), 0 * roots.real])
    best = np.maximum(_gains(f, e, c, d, first.astype(np.float64)).max(1), _largest(d))
    at_end = _largest(d)
    is_open = (best > 0) & (best < np.inf)
    for slack in SLACKS:
        _raise(f, e, c, d, best, at_end * (1 + slack), is_open)
        is_open &= best < at_end * (1 + slack)  # the others were at their own level
    return best


def _raise(
    f: Array,
    e: Array,
    c: Array,
    d: Array,
    best: Array,
    least: Array,
    is_open: NDArray[np.bool_],
) -> None:
    """Raise gains to the norm, where that is above a level."""
    open_ones = np.flatnonzero(is_open)
    for _ in range(MAX_STEPS):
        if not len(open_ones):
            break
        some = [x[open_ones] for x in (f, e, c, d)]
        level = np.maximum(best[open_ones] * (1 + TOLERANCE), least[open_ones])
        where = _crossings(*some, level)
        before = np.concatenate([np.zeros((len(where), 1)), where[:, :-1]], 1)
        tried = np.concatenate([where, 0.5 * (before + where)], 1)
        higher = _gains(*some, tried).max(1)
        rises = (higher > level) & (where > 0).any(1)
        best[open_ones[rises]] = higher[rises]
        open_ones = open_ones[rises]


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
