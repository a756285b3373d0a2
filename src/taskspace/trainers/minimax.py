r"""Gains for a set of contexts: the least worst loss over all of them.

For $u = -Kx$ the cost at a context is $\mathrm{tr}((Q + K^\top R K) X_K)$, its slope
$\nabla_K = 2 (R K - B^\top P) X_K$ (discrete: $B^\top P A_K$ in place of $B^\top P$),
where $X_K$ and $P$ solve two Lyapunov equations. Of several gains the best at a context
counts there. Both are softened, $\tau \log \sum_t \exp(\text{loss}_t / \tau)$ and
$-\tau \log \sum_i \exp(-\text{loss}_{it} / \tau)$, with a temperature that falls, and
minimised by BFGS. It starts from the curvature $2 \sum_t w_t R \otimes X_K$, so units
do not matter; its line search takes a context that no gain stabilises for a wall.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array, Mask
from taskspace.errors import InvalidInputError
from taskspace.systems.linear import LinearSystem
from taskspace.systems.linear.kernels.lyapunov import gramian

__all__ = ["GainRegion", "RegionGains", "design_gains", "gain_mask"]

OF_CONTEXTS = ("A", "B", "Q", "R", "offset", "scale")
# Of the first spread of the losses; the last leaves the worst loss a trifle too high.
TEMPERATURES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 3e-4, 1e-4)
N_HOT = 3  # of these are too hot for gains that are nearly right
MOST_STEPS = 60  # at one temperature
# What pairs of less weight add to the slope is below its rounding.
NO_WEIGHT = 1e-12
SUFFICIENT, CURVATURE = 1e-4, 0.9  # of the weak Wolfe conditions
MOST_TRIALS = 30


@dataclass(frozen=True)
class RegionGains:
    """Gains for a set of contexts.

    Args:
        gains: one K per row, shape `(gain, n_inputs, n_states)`.
        worst: the largest loss over the contexts of the gain that does best there; inf
            if no gain stabilises one of them.
    """

    gains: Array
    worst: float


@dataclass(frozen=True, eq=False)
class GainRegion:
    r"""Contexts with their plants, and losses $(\text{cost} - a) / b$ of gains there.

    Args:
        A: shape `(context, n_states, n_states)`.
        B: shape `(context, n_states, n_inputs)`.
        Q: like A.
        R: shape `(context, n_inputs, n_inputs)`.
        sigma: second moment of the initial state.
        continuous: kind of time.
        offset: a, one per context.
        scale: b > 0, one per context.
    """

    A: Array
    B: Array
    Q: Array
    R: Array
    sigma: Array
    continuous: bool
    offset: Array
    scale: Array

    @classmethod
    def of(
        cls,
        system: LinearSystem,
        contexts: Array,
        offset: ArrayLike = 0.0,
        scale: ArrayLike = 1.0,
    ) -> "GainRegion":
        """Return the region of some contexts of a family.

        Args:
            system: a linear family with the infinite horizon.
            contexts: full context rows.
            offset: what is subtracted from the cost.
            scale: what the difference is divided by.
        """
        n = len(contexts)
        return cls(
            *system.matrices(np.asarray(contexts, np.float64)),
            sigma=system.initial_covariance,
            continuous=system.is_continuous,
            offset=np.broadcast_to(np.asarray(offset, np.float64), n),
            scale=np.broadcast_to(np.asarray(scale, np.float64), n),
        )

    def __len__(self) -> int:
        return len(self.A)

    def at(self, contexts: NDArray) -> "GainRegion":
        """Return some of the contexts.

        Args:
            contexts: their indices.
        """
        return replace(self, **{n: getattr(self, n)[contexts] for n in OF_CONTEXTS})

    @staticmethod
    def concatenate(parts: "list[GainRegion]") -> "GainRegion":
        """Return all contexts of some regions of one family.

        Args:
            parts: at least one.
        """
        joined = {
            n: np.concatenate([getattr(p, n) for p in parts]) for n in OF_CONTEXTS
        }
        return replace(parts[0], **joined)

    def losses(self, gains: Array) -> Array:
        """Return losses `(gain, context)`, inf where a loop is unstable.

        Args:
            gains: shape `(gain, n_inputs, n_states)`.
        """
        return self.pair_losses(gains[:, None])[0]

    def pair_losses(self, gains: Array) -> tuple[Array, Array]:
        """Return the loss of `gains[i]` at context i, and X of each pair.

        Args:
            gains: shape `(…, context, n_inputs, n_states)`, or 1 for all contexts.
        """
        K = gains
        loop = self.A - self.B @ K
        X = self._gramian(loop, np.broadcast_to(self.sigma, loop.shape))
        with np.errstate(invalid="ignore"):
            cost = ((self.Q + K.swapaxes(-1, -2) @ self.R @ K) * X).sum((-1, -2))
        cost = np.where(np.isfinite(X).all((-1, -2)), cost, np.inf)
        return (cost - self.offset) / self.scale, X

    def slopes(self, gains: Array, X: Array) -> Array:
        """Return the gradient of the loss of `gains[i]` at context i, for every i.

        Args:
            gains: one per context, stabilising there.
            X: of each pair, see `losses`.
        """
        loop = self.A - self.B @ gains
        weight = self.Q + gains.swapaxes(-1, -2) @ self.R @ gains
        P = self._gramian(loop.swapaxes(-1, -2), weight)
        if not self.continuous:
            P = P @ loop
        slope = 2 * (self.R @ gains - self.B.swapaxes(-1, -2) @ P) @ X
        return slope / self.scale[:, None, None]

    def _gramian(self, loops: Array, x0: Array) -> Array:
        n = loops.shape[-1]
        flat = (array.reshape(-1, n, n) for array in (loops, x0))
        return gramian(*flat, continuous=self.continuous).reshape(loops.shape)


def gain_mask(system: LinearSystem, free: ArrayLike | None) -> Mask:
    """Return which entries of a gain are free; the others stay zero.

    Args:
        system: a linear family.
        free: of shape `(n_inputs, n_states)`; all entries where None.
    """
    default = np.array([[axis.default for axis in system.axes]])
    shape = system.matrices(default).B.shape[:0:-1]
    if free is None:
        return np.ones(shape, bool)
    mask = np.asarray(free)
    if mask.shape != shape or mask.dtype.kind not in "bi" or not mask.any():
        raise InvalidInputError(
            f"A mask must say of each of {shape[0]} inputs and {shape[1]} states if "
            f"that entry of the gain is free, at least one, but got {free!r}."
        )
    return mask.astype(bool)


def design_gains(
    region: GainRegion,
    starts: Array,
    mask: Mask,
    *,
    weights: Array | None = None,
    stop_at: float = -np.inf,
    should_stop: Callable[[], bool] = lambda: False,
    is_warm: bool = False,
) -> RegionGains:
    """Return gains of least worst loss over a region, as a descent finds them.

    Args:
        region: contexts and losses.
        starts: gains of which one at least stabilises each context, shape `(gain,
            n_inputs, n_states)`; else they are returned with `worst` inf.
        mask: which entries are free; the others are zero, to the bit.
        weights: where gains are not chosen from but mixed, their weights at each
            context, `(context, gain)`.
        stop_at: a worst loss that is good enough.
        should_stop: asked now and then, to end early with the best gains so far.
        is_warm: the starts are nearly right, so only low temperatures are used.
    """
    descent = _Descent(region, np.where(mask, starts, 0.0), mask, weights)
    losses = descent.losses.min(0)
    if not np.isfinite(descent.best.worst):
        return descent.best
    first = max(float(np.ptp(losses)), 1e-9 * abs(descent.best.worst))
    if first == 0:  # all lose nothing
        return descent.best
    for temperature in TEMPERATURES[N_HOT * is_warm :]:
        if descent.best.worst <= stop_at or should_stop():
            break
        descent.run(temperature * first, stop_at, should_stop)
    return descent.best


class _Look(NamedTuple):
    """One look at the soft maximum: its value, and what its slope needs."""

    value: float
    gains: Array
    X: Array
    shares: Array


class _Descent:
    """BFGS on the soft maximum; keeps the best gains that it met on its way."""

    def __init__(
        self, region: GainRegion, gains: Array, mask: Mask, weights: Array | None
    ):
        self.region, self.mask, self.weights = region, mask, weights
        self.free = np.broadcast_to(mask, gains.shape)
        self.losses, _ = self.choices(gains)
        self.best = RegionGains(gains, float(self.losses.min(0).max()))

    def run(
        self, temperature: float, stop_at: float, should_stop: Callable[[], bool]
    ) -> None:
        """Descend at one temperature from the best gains."""
        x = self.best.gains[self.free]
        here = self.look(x, temperature)
        slope, inverse = self.slope(here), self.inverse_curvature(here)
        for _ in range(MOST_STEPS):
            direction = -inverse @ slope
            descent = float(slope @ direction)
            enough = self.best.worst <= stop_at or should_stop()
            if enough or not descent < -1e-6 * temperature:
                return
            step = self.line_search(x, here.value, direction, descent, temperature)
            if step is None:
                return
            moved, here, new_slope = step
            s, y = moved - x, new_slope - slope
            x, slope = moved, new_slope
            if (curve := float(s @ y)) > 0:
                inverse = _updated(inverse, s, y, curve)

    def choices(self, gains: Array) -> tuple[Array, Array]:
        """Return losses `(choice, context)` and X: of each gain, or of their mix."""
        if self.weights is None:
            return self.region.pair_losses(gains[:, None])
        return self.region.pair_losses(np.tensordot(self.weights, gains, 1)[None])

    def look(self, x: Array, temperature: float) -> _Look:
        """Return the soft maximum over contexts of the soft minimum over gains."""
        gains = np.zeros(self.free.shape)
        gains[self.free] = x
        losses, X = self.choices(gains)
        least = losses.min(0)
        worst = float(least.max())
        if not np.isfinite(worst):
            return _Look(np.inf, gains, X, losses)
        if worst < self.best.worst:
            self.best = RegionGains(gains, worst)
        of_gains = np.exp((least - losses) / temperature)
        totals = of_gains.sum(0)
        soft = least - temperature * np.log(totals)
        top = soft.max()
        of_contexts = np.exp((soft - top) / temperature)
        value = top + temperature * np.log(of_contexts.sum())
        shares = of_gains / totals * (of_contexts / of_contexts.sum())
        return _Look(float(value), gains, X, shares)

    def slope(self, here: _Look) -> Array:
        """Return the slope of the soft maximum along the free entries."""
        which, contexts = np.nonzero(here.shares > NO_WEIGHT)
        used, total = here.gains[which], np.zeros_like(here.gains)
        if self.weights is not None:
            used = np.tensordot(self.weights[contexts], here.gains, 1)
        slopes = self.region.at(contexts).slopes(used, here.X[which, contexts])
        slopes *= here.shares[which, contexts][:, None, None]
        if self.weights is not None:
            total += np.tensordot(self.weights[contexts].T, slopes, 1)
        else:
            np.add.at(total, which, slopes)
        return total[self.free]

    def inverse_curvature(self, here: _Look) -> Array:
        """Return the inverse of 2 Σ w R ⊗ X gain by gain: a first guess of Newton's."""
        region, (inputs, states) = self.region, np.nonzero(self.mask)
        n = len(inputs)
        out = np.zeros((len(here.gains) * n,) * 2)
        for i, shares in enumerate(here.shares):
            # A little weight everywhere, for a gain that nothing depends on.
            stable = np.isfinite(here.X[i]).all((-1, -2))
            weights = np.where(stable, shares + 1e-3 / len(region), 0.0) / region.scale
            X = np.where(stable[:, None, None], here.X[i], 0.0)
            R, S = region.R[:, inputs][:, :, inputs], X[:, states][:, :, states]
            curvature, block = (
                2 * np.tensordot(weights, R * S, 1),
                slice(i * n, (i + 1) * n),
            )
            if self.weights is not None:  # the same of all gains that are mixed
                parts = weights, self.weights, self.weights, 2 * R * S
                curvature = np.einsum("t,tv,tu,tef->veuf", *parts).reshape(out.shape)
                block = slice(None)
            curvature[np.diag_indices(len(curvature))] *= 1 + 1e-9
            try:
                out[block, block] = np.linalg.inv(curvature)
            except np.linalg.LinAlgError:
                # A gain that stabilises no context, or an entry that nothing excites.
                out[block, block] = np.linalg.pinv(curvature, hermitian=True)
        return out

    def line_search(
        self,
        x: Array,
        value: float,
        direction: Array,
        descent: float,
        temperature: float,
    ) -> tuple[Array, _Look, Array] | None:
        """Return a step that meets the weak Wolfe conditions, None if there is none.

        By bisection: where no gain is stable the value is infinite, a step too long.
        """
        low, high, length = 0.0, np.inf, 1.0
        for _ in range(MOST_TRIALS):
            moved = x + length * direction
            there = self.look(moved, temperature)
            if not there.value <= value + SUFFICIENT * length * descent:
                high = length
            else:
                slope = self.slope(there)
                if slope @ direction >= CURVATURE * descent:
                    return moved, there, slope
                low = length
            length = 2 * low if high == np.inf else (low + high) / 2
        return None


def _updated(
    inverse: Array,
    s: Array,
    y: Array,
    curve: float,
) -> Array:
    """Return the inverse Hessian after one update of BFGS."""
    ys = inverse @ y
    outer = np.outer(s, ys)
    factor = 1 + float(y @ ys) / curve
    return inverse - (outer + outer.T) / curve + factor * np.outer(s, s) / curve
