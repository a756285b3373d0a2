r"""Which contexts some gain of a box may serve: sets that are never too small.

Over a box of gains, context fixed, the closed loop $A - BK$ is affine in the entries of
$K$ and the weight $Q + K^\top R K$ quadratic, so the bounds that hold over boxes of
contexts (`taskspace.certificates.boxes.rigor`) hold with the gain's entries as their
variables. A context is left out of a box's set only if every gain of the box is proven
to cost more than its limit there: by the ellipsoid around the optimal gain, by
instability of the whole box, or by a polynomial below the cost. Where stability is not
decided, the cost with a discount $e^{-2 \delta t}$ is bounded instead, never above the
cost.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace._util.threads import over_rows
from taskspace.certificates.boxes.rigor.costs import (
    UNKNOWN,
    UNSTABLE,
    box_costs,
)
from taskspace.certificates.boxes.rigor.small_matrices import (
    inverse_cholesky,
    lyapunov_factors,
    lyapunov_solve,
)
from taskspace.certificates.boxes.rigor.taylor import (
    SLACK,
    TINY,
    UNIT,
    monomials,
    most,
)
from taskspace.designs.gain_sets import GainSets

ORDER = 2  # the weight is quadratic in the gain
# Discounts that are tried where stability is open, in units of what the box moves A by.
DISCOUNTS = (1.5, 6.0)


@dataclass(frozen=True, eq=False)
class GainBoxes:
    """Boxes of gains and the contexts that some gain in each may serve.

    Args:
        low: least entries, shape `(box, entry)`.
        high: largest entries.
        may: contexts that some gain of the box may serve, `(box, context)`.
        serves: contexts that the gain in the middle serves, in plain arithmetic.
    """

    low: Array
    high: Array
    may: Mask
    serves: Mask

    def __len__(self) -> int:
        return len(self.low)

    def __getitem__(self, rows: NDArray) -> "GainBoxes":
        return GainBoxes(
            self.low[rows], self.high[rows], self.may[rows], self.serves[rows]
        )

    @property
    def middle(self) -> Array:
        """The middle of each box."""
        return self.low / 2 + self.high / 2

    @staticmethod
    def concatenate(parts: "list[GainBoxes]") -> "GainBoxes":
        """Return all boxes of some parts.

        Args:
            parts: at least one.
        """
        names = ("low", "high", "may", "serves")
        return GainBoxes(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in names)
        )

    def halves(self, scale: Array) -> "GainBoxes":
        """Return the two halves of each box, cut across its widest side.

        Args:
            scale: one length per entry, in which sides are compared.
        """
        axis = ((self.high - self.low) / scale).argmax(1)
        rows, cut = np.arange(len(self)), self.middle
        first, second = self.high.copy(), self.low.copy()
        first[rows, axis] = second[rows, axis] = cut[rows, axis]
        none = np.zeros_like(self.serves)
        return GainBoxes.concatenate(
            [
                GainBoxes(self.low, first, self.may.copy(), none),
                GainBoxes(second, self.high, self.may.copy(), none.copy()),
            ]
        )

    def exclude(self, sets: GainSets, where: Numbers) -> None:
        """Take out of each box's set what no gain of the box serves, proven.

        Args:
            sets: plants, limits of their costs, and where gains that serve are.
            where: input and state of each entry of a box.
        """
        right = np.ascontiguousarray(sets.t_y.swapaxes(1, 2))
        _by_ellipsoids(
            self.low, self.high, where, sets.optimal, sets.radius,
            sets.metrics, (sets.t_r, right), self.may,
        )  # fmt: skip
        table = monomials(len(where), ORDER + 1)
        tables = table.product, table.even, int(table.counts[1])
        n_p = int(table.counts[ORDER])

        def kernel(first: int, stop: int) -> None:
            some = slice(first, stop)
            _by_costs(
                self.low[some], self.high[some], where, sets.plants, sets.sigma,
                sets.continuous, sets.limit, tables, n_p,
                self.serves[some], self.may[some],
            )  # fmt: skip

        over_rows(kernel, len(self))


@njit(cache=True, error_model="numpy", nogil=True)
def _by_ellipsoids(low, high, where, centre, radius, metrics, factors, may):
    """Take out contexts whose ellipsoid a plane separates from the box."""
    m, n = centre.shape[1:]
    w, scaled, size = np.zeros((m, n)), np.zeros((m, n)), np.zeros((m, n))
    near = np.zeros((m, n))
    for b in range(len(low)):
        for t in range(len(centre)):
            if not may[b, t] or not radius[t] < np.inf:
                continue
            # Entries that are not free are zero. Any plane W is allowed: here it is the
            # slope of the ellipsoid's norm at the nearest gain of the box.
            near[:] = -centre[t]
            for e in range(len(where)):
                i, j = where[e, 0], where[e, 1]
                x = min(max(centre[t, i, j], low[b, e]), high[b, e])
                near[i, j] = x - centre[t, i, j]
            _multiply(metrics[0][t], near, metrics[1][t], w, size)
            # ⟨W, K − K̂⟩ over the box is at least `least`; over the ellipsoid at most
            # `most`.
            least, total = 0.0, 0.0
            for i in range(m):
                for j in range(n):
                    x = -w[i, j] * centre[t, i, j]
                    least += x
                    total += abs(x)
            for e in range(len(where)):
                i, j = where[e, 0], where[e, 1]
                end = low[b, e] if w[i, j] > 0.0 else high[b, e]
                least += w[i, j] * end
                total += abs(w[i, j] * end)
            _multiply(factors[0][t], w, factors[1][t], scaled, size)
            norm = np.sqrt((scaled * scaled).sum()) + 1e-13 * np.sqrt(
                (size * size).sum()
            )
            if least - 1e-13 * total > radius[t] * norm * (1.0 + 1e-12) + TINY:
                may[b, t] = False


@njit(cache=True, error_model="numpy")
def _multiply(left, x, right, out, size):
    """Fill the product of three matrices, and that of their absolute values."""
    m, n = x.shape
    for i in range(m):
        for j in range(n):
            total, absolute = 0.0, 0.0
            for k in range(m):
                for l in range(n):  # noqa: E741
                    term = left[i, k] * x[k, l] * right[l, j]
                    total += term
                    absolute += abs(term)
            out[i, j] = total
            size[i, j] = absolute


@njit(cache=True, error_model="numpy", nogil=True)
def _by_costs(
    low, high, where, plants, sigma, continuous, limit, tables, n_p, serves, may

):  # fmt: skip
    """Take out contexts at which every gain of a box costs more than the limit."""
    A, B, Q, R, rest_a, rest_b, rest_q, rest_r = plants
    n, m = B.shape[1:]
    plant = (
        np.zeros((n_p, n, n)), np.zeros((n, n)), np.zeros((1, n, 1)), np.zeros((n, 1)),
        np.zeros((n_p, n, n)), np.zeros((n, n)), np.ones((1, 1, 1)), np.zeros((1, 1)),
    )  # fmt: skip
    nothing = np.zeros((1, 1, n))
    below, above = np.zeros(n_p), np.zeros(n_p)
    even = tables[1][:n_p]
    centre, radius = np.zeros((m, n)), np.zeros((m, n))
    of_gain = n_p < 0
    pivots = np.empty(n * (n + 1) // 2, np.int64)
    for b in range(len(low)):
        for e in range(len(where)):
            i, j = where[e, 0], where[e, 1]
            centre[i, j] = 0.5 * low[b, e] + 0.5 * high[b, e]
            reach = max(high[b, e] - centre[i, j], centre[i, j] - low[b, e])
            radius[i, j] = reach * (1.0 + 4 * UNIT) + TINY
        for t in range(len(A)):
            if not may[b, t] or not limit[t] < np.inf:
                continue
            moved = fill_loop(
                A[t], B[t], Q[t], R[t], rest_a[t], rest_b[t], rest_q[t], rest_r[t],
                centre, radius, where, tables[0], plant,
            )  # fmt: skip
            serves[b, t] = _middle_cost(plant, sigma, continuous, pivots) <= limit[t]
            if serves[b, t]:
                continue
            status = box_costs(
                plant, nothing, of_gain, sigma, tables, continuous, n_p, below, above,
            )  # fmt: skip
            if status == UNSTABLE or -most(-below, even) > limit[t]:
                may[b, t] = False
                continue
            if status != UNKNOWN or not continuous:
                continue
            spent = 0.0
            for k in range(len(DISCOUNTS)):
                step = DISCOUNTS[k] * moved - spent
                spent += step
                for i in range(n):
                    plant[0][0, i, i] -= step
                    plant[1][i, i] += 4 * UNIT * (abs(plant[0][0, i, i]) + step)
                box_costs(
                    plant, nothing, of_gain, sigma, tables, continuous, n_p, below,
                    above,
                )  # fmt: skip
                if -most(-below, even) > limit[t]:
                    may[b, t] = False
                    break


@njit(cache=True, error_model="numpy")
def _middle_cost(plant, sigma, continuous, pivots):
    """Return the cost of the middle gain, in plain arithmetic; inf if not stable."""
    factors, fine = lyapunov_factors(plant[0][0], continuous, pivots)
    if not fine:
        return np.inf
    n = sigma.shape[0]
    p = np.empty((n, n))
    lyapunov_solve(factors, pivots, plant[4][0], p)
    if not inverse_cholesky(p)[1]:
        return np.inf
    total = 0.0
    for i in range(n):
        for j in range(n):
            total += p[i, j] * sigma[i, j]
    return total


@njit(cache=True, error_model="numpy")
def fill_loop(
    A, B, Q, R, rest_a, rest_b, rest_q, rest_r, centre, radius, where, product, plant
):
    """Fill A − B K(s) and Q + K(s)ᵀ R K(s), K(s) = centre + radius · s, and rests.

    Returns:
        A bound on how much the box moves A − B K, entry by entry and in all.
    """
    n, m = B.shape
    a, a_rest, _, _, q, q_rest, _, _ = plant
    a[:] = 0.0
    q[:] = 0.0
    moved = 0.0
    gamma = (8 * m + 16) * UNIT
    for i in range(n):
        for j in range(n):
            x, y = A[i, j], Q[i, j]
            x_size, y_size = abs(x), abs(y)
            x_rest, y_rest = rest_a[i, j], rest_q[i, j]
            for k in range(m):
                most_j = abs(centre[k, j]) + radius[k, j]
                x -= B[i, k] * centre[k, j]
                x_size += abs(B[i, k]) * most_j
                x_rest += rest_b[i, k] * most_j
                for l in range(m):  # noqa: E741
                    most_i = abs(centre[l, i]) + radius[l, i]
                    y += centre[l, i] * R[l, k] * centre[k, j]
                    y_size += most_i * abs(R[l, k]) * most_j
                    y_rest += most_i * rest_r[l, k] * most_j
            a[0, i, j], q[0, i, j] = x, y
            a_rest[i, j] = (x_rest + gamma * x_size) * SLACK + TINY
            q_rest[i, j] = (y_rest + 4 * gamma * y_size) * SLACK + TINY
    for e in range(len(where)):
        u, j = where[e, 0], where[e, 1]
        for i in range(n):
            x = B[i, u] * radius[u, j]
            a[1 + e, i, j] -= x
            moved += abs(x)
            total = 0.0
            for k in range(m):
                total += R[u, k] * centre[k, i]
            q[1 + e, j, i] += radius[u, j] * total
            q[1 + e, i, j] += radius[u, j] * total
        for f in range(len(where)):
            v, k = where[f, 0], where[f, 1]
            q[product[1 + e, 1 + f], j, k] += radius[u, j] * R[u, v] * radius[v, k]
    for i in range(n):
        for j in range(i):
            for g in range(len(q)):
                x = 0.5 * (q[g, i, j] + q[g, j, i])
                q[g, i, j] = x
                q[g, j, i] = x
            q_rest[i, j] = max(q_rest[i, j], q_rest[j, i])
            q_rest[j, i] = q_rest[i, j]
    return moved
