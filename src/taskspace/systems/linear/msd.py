r"""The mass-spring-damper of the paper: $m \ddot x + c \dot x + k x = u$."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace._util.threads import over_rows
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearGain, Policy
from taskspace.systems.base import REDUCED, ContextAxis, Provenance
from taskspace.systems.linear.base import LinearSystem
from taskspace.systems.linear.kernels.lyapunov import LinearMatrices


@dataclass(frozen=True)
class MassSpringDamper(LinearSystem):
    r"""Mass-spring-damper with state feedback, in closed form.

    State (position, velocity), input force, $Q = \mathrm{diag}(q_x, q_v)$, $R = r$,
    $E[x_0 x_0^\top] = I$. Contexts: stiffness `k`, damping `c`, mass `m`.

    Args:
        position_weight: $q_x$.
        velocity_weight: $q_v$.
        input_weight: $r$.

    Version history:
        msd-v1: first version.
    """

    position_weight: float = 10.0
    velocity_weight: float = 4.0
    input_weight: float = 1.0
    id: ClassVar[str] = "msd-v1"
    provenance: ClassVar[Provenance] = "exact"

    def __post_init__(self):
        for name in ("position_weight", "velocity_weight", "input_weight"):
            if not 0 < getattr(self, name) < np.inf:
                raise InvalidInputError(
                    f"{name} > 0 must hold, but got {getattr(self, name)}."
                )

    @property
    def axes(self) -> tuple[ContextAxis, ...]:
        """Stiffness, damping and mass."""
        return (
            ContextAxis("k", 1.0, "N/m", low=0.0, description="spring stiffness"),
            ContextAxis("c", 1.0, "N s/m", low=0.0, description="damping"),
            ContextAxis("m", 1.0, "kg", low=0.0, low_open=True, description="mass"),
        )

    @property
    def states(self) -> tuple[str, ...]:
        """Position and velocity."""
        return "position [m]", "velocity [m/s]"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The force."""
        return ("force [N]",)

    @property
    def is_continuous(self) -> bool:
        """Time is continuous."""
        return True

    @property
    def initial_covariance(self) -> Array:
        """The identity."""
        return np.eye(2)

    def matrices(self, contexts: Array) -> LinearMatrices:
        """Return A, B, Q and R at each context row."""
        k, c, m = contexts.T
        zero, one = np.zeros_like(k), np.ones_like(k)
        A = np.stack([zero, one, -k / m, -c / m], -1).reshape(-1, 2, 2)
        B = np.stack([zero, 1 / m], -1)[:, :, None]
        Q = np.diag([self.position_weight, self.velocity_weight])
        R = np.array([[self.input_weight]])
        n = len(contexts)
        return LinearMatrices(A, B, np.tile(Q, (n, 1, 1)), np.tile(R, (n, 1, 1)))

    def optimal_gain(self, contexts: Array) -> tuple[Array, NDArray[np.bool_]]:
        """K* from the Riccati equation, which is two quadratics here."""
        k, c, m = contexts.T
        r = self.input_weight
        # √(k² + q) − k without cancellation: q / (k + √(k² + q)).
        q = self.position_weight / r
        on_position = q / (k + np.hypot(k, np.sqrt(q)))
        q = 2 * m * on_position + self.velocity_weight / r
        on_velocity = q / (c + np.hypot(c, np.sqrt(q)))
        gain = np.stack([on_position, on_velocity], -1)[:, None, :]
        return gain, np.ones(len(contexts), bool)

    def performance(self, policies: Policy, contexts: Array) -> Array:
        """J of every gain at every context, dims `(source, policy, target)`."""
        if not isinstance(policies, LinearGain):
            return super().performance(policies, contexts)
        gain = self.gains(policies).gain[..., 0, :]
        if gain[..., 0].size * len(contexts) < LARGE:
            return -self._cost(gain[..., None, :], contexts)
        # The worst of a family of one is J itself, and nothing else is held.
        alone = gain.reshape(-1, 1, 2)
        (worst,) = self._reduced(alone, np.zeros((len(alone), 1)), contexts, ("worst",))
        return worst.reshape(*gain.shape[:-1], len(contexts))

    def home_performance(self, policies: Policy, contexts: Array) -> Array:
        """J of every gain at its own source, dims `(source, policy)`."""
        if not isinstance(policies, LinearGain):
            return super().home_performance(policies, contexts)
        return -self._cost(self.gains(policies).gain[..., 0, :], contexts[:, None, :])

    def reduce_family(
        self,
        policies: Policy,
        home: Array,
        contexts: Array,
        names: Collection[str] = REDUCED,
    ) -> dict[str, Array]:
        """Worst and best over the family in one pass, J of no policy kept."""
        if not isinstance(policies, LinearGain):
            return super().reduce_family(policies, home, contexts, names)
        gains = self.gains(policies).gain[:, :, 0, :]
        return dict(
            zip(names, self._reduced(gains, home, contexts, names), strict=True)
        )

    def _reduced(
        self, gains: Array, home: Array, contexts: Array, names: Collection[str]
    ) -> list[Array]:
        """Return reductions over families of gains, dims `(source, policy, 2)`."""
        gains = np.ascontiguousarray(gains)
        columns = np.ascontiguousarray(contexts.T)
        weights = (self.position_weight, self.velocity_weight, self.input_weight)
        n_sources, n_targets = len(gains), len(contexts)
        # No columns for what is not wanted.
        arrays = [np.empty((n_sources, n_targets * (n in names))) for n in REDUCED]

        def kernel(first: int, stop: int) -> None:
            rows = tuple(array[first:stop] for array in arrays)
            _reduce_sources(gains[first:stop], home[first:stop], columns, weights, rows)

        over_rows(kernel, n_sources)
        return [arrays[REDUCED.index(name)] for name in names]

    def within_regret(
        self, policies: Policy, contexts: Array, reference: Array, epsilon: float
    ) -> NDArray[np.uint64] | None:
        """Bits of the targets where `reference − J <= epsilon`, without storing J."""
        if not isinstance(policies, LinearGain):
            return None
        gains = np.ascontiguousarray(self.gains(policies).gain[:, 0, 0, :])
        columns = np.ascontiguousarray(contexts.T)
        weights = (self.position_weight, self.velocity_weight, self.input_weight)
        words = np.zeros((len(gains), -(-len(contexts) // 64)), np.uint64)

        def kernel(first: int, stop: int) -> None:
            some = gains[first:stop], words[first:stop]
            _serve(some[0], columns, weights, reference, epsilon, some[1])

        over_rows(kernel, len(gains))
        return words

    def _cost(self, gain: Array, contexts: Array) -> Array:
        """Return the trace of P, by the same operations as in `_reduce_sources`."""
        k, c, m = np.moveaxis(contexts, -1, 0)
        g0, g1 = np.moveaxis(gain, -1, 0)
        q_position, q_velocity = self.position_weight, self.velocity_weight
        r = self.input_weight
        q11 = q_position + r * g0 * g0
        both = q11 + (q_velocity + r * g1 * g1)
        a, b = g0 + k, g1 + c
        with np.errstate(all="ignore"):
            d = g0 * c - g1 * k
            half = 0.5 / (a * b)
            held = q_position * b * b + q_velocity * a * a + r * d * d
            cost = (held + m * (a * both + m * q11)) * half
        return np.where((a > 0) & (b > 0), cost, np.inf)


# Values of J from which it pays to load the compiled kernel.
LARGE = 2**20
# Targets handled at once: what is known of them stays in the L1 cache.
CHUNK = 256


@njit(cache=True, error_model="numpy", nogil=True)
def _reduce_sources(gains, home, contexts, weights, reduced):
    r"""Family reductions of some sources, with the cost in closed form.

    For the closed loop $m\ddot x = -a x - b \dot x$ with $a = k + K_1$, $b = c + K_2$
    the Lyapunov equation gives, with $q_{11} = q_x + r K_1^2$ and
    $q_{22} = q_v + r K_2^2$, a sum without cancellation,
    $2ab\,\mathrm{tr} P = q_x b^2 + q_v a^2 + r (K_1 c - K_2 k)^2
    + m (a (q_{11} + q_{22}) + m q_{11})$; stable iff $a, b > 0$.
    """
    n_sources, n_policies, _ = gains.shape
    n_targets = contexts.shape[1]
    q_position, q_velocity, r = weights
    worst, best, gap_worst, gap_best = reduced
    cost = np.empty(CHUNK)
    high, low, most, least = np.empty((4, CHUNK))
    for s in range(n_sources):
        for first in range(0, n_targets, CHUNK):
            n = min(CHUNK, n_targets - first)
            k = contexts[0, first : first + n]
            c = contexts[1, first : first + n]
            m = contexts[2, first : first + n]
            high[:], low[:] = -np.inf, np.inf
            most[:], least[:] = -np.inf, np.inf
            for p in range(n_policies):
                g0 = gains[s, p, 0]
                g1 = gains[s, p, 1]
                q11 = q_position + r * g0 * g0
                both = q11 + (q_velocity + r * g1 * g1)
                for t in range(n):
                    a = g0 + k[t]
                    b = g1 + c[t]
                    d = g0 * c[t] - g1 * k[t]
                    half = 0.5 / (a * b)
                    held = q_position * b * b + q_velocity * a * a + r * d * d
                    total = (held + m[t] * (a * both + m[t] * q11)) * half
                    cost[t] = total if (a > 0) & (b > 0) else np.inf
                if worst.shape[1]:
                    for t in range(n):
                        high[t] = max(high[t], cost[t])
                if best.shape[1]:
                    for t in range(n):
                        low[t] = min(low[t], cost[t])
                if not gap_worst.shape[1] and not gap_best.shape[1]:
                    continue
                # −inf at home: no gap to another −inf, −inf to anything better.
                at_home = home[s, p]
                failed = at_home == -np.inf
                for t in range(n):
                    nothing = failed & (cost[t] == np.inf)
                    cost[t] = 0.0 if nothing else at_home + cost[t]
                if gap_worst.shape[1]:
                    for t in range(n):
                        most[t] = max(most[t], cost[t])
                if gap_best.shape[1]:
                    for t in range(n):
                        least[t] = min(least[t], cost[t])
            if worst.shape[1]:
                worst[s, first : first + n] = -high[:n]
            if best.shape[1]:
                best[s, first : first + n] = -low[:n]
            if gap_worst.shape[1]:
                gap_worst[s, first : first + n] = most[:n]
            if gap_best.shape[1]:
                gap_best[s, first : first + n] = least[:n]


@njit(cache=True, error_model="numpy", nogil=True)
def _serve(gains, contexts, weights, reference, epsilon, words):
    """Set the bits of the targets where `reference + cost <= epsilon`.

    Target `t` is bit `t % 64` of word `t // 64`; the operations on numbers are those of
    `_reduce_sources`.
    """
    for s in range(len(gains)):
        g0, g1 = gains[s]
        for first in range(0, contexts.shape[1], 64):
            k = contexts[0, first : first + 64]
            c = contexts[1, first : first + 64]
            m = contexts[2, first : first + 64]
            best = reference[first : first + 64]
            words[s, first // 64] = _word(g0, g1, k, c, m, weights, best, epsilon)


@njit(cache=True, error_model="numpy", nogil=True)
def _word(g0, g1, k, c, m, weights, best, epsilon):
    """Return the bits of up to 64 targets."""
    q_position, q_velocity, r = weights
    q11 = q_position + r * g0 * g0
    both = q11 + (q_velocity + r * g1 * g1)
    word = np.uint64(0)
    for t in range(len(k)):
        a = g0 + k[t]
        b = g1 + c[t]
        d = g0 * c[t] - g1 * k[t]
        half = 0.5 / (a * b)
        held = q_position * b * b + q_velocity * a * a + r * d * d
        total = (held + m[t] * (a * both + m[t] * q11)) * half
        served = (a > 0) & (b > 0) & (best[t] + total <= epsilon)
        word |= np.uint64(served) << np.uint64(t)  # without a branch: vectors
    return word
