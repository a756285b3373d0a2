r"""Where the gains are that may serve a context: an ellipsoid around its optimal gain.

A gain serves a context by `regret`, `ratio` or `cost` iff its cost there is at most a
limit: $C^* + \epsilon$, $(1 + \epsilon) C^*$, or $\epsilon$. The limits here are
rounded up, so whatever is proven to cost more does not serve.

With $K = \hat K + \Delta$, any symmetric $P$ and $X_K$ the accumulated covariance of
the closed loop, cost$(K) = \mathrm{tr}(P\Sigma) + \mathrm{tr}(E(K) X_K)$ with
$E(K) = E(\hat K) + \Delta^\top N + N^\top \Delta + \Delta^\top \tilde R \Delta$,
$N = R\hat K - B^\top P$ (discrete: $R \hat K - B^\top P A_{\hat K}$),
$\tilde R \succeq R$. $P$ is close to the optimum and slightly below, so that
$E(\hat K) - N^\top R^{-1} N / \tau \succeq 0$ can be proven and
cost$(K) \ge \mathrm{tr}(P\Sigma) + (1 - \tau)\,\mathrm{tr}(\Delta^\top R \Delta X_K)$.

For $Y$ next to $X_{\hat K}$ and every stabilising $K$: $X_K \succeq c\,Y$ where
$c\,(Y - A_K Y A_K^\top) \preceq \Sigma$ (continuous: $-c(A_K Y + Y A_K^\top)$), and the
left side is about $c\,(\Sigma + B\Delta Y + Y \Delta^\top B^\top)$. So
$c = 1/(1 + 2\kappa\|\tilde\Delta\|)$ is enough, where
$\tilde\Delta = R^{1/2} \Delta Y^{1/2}$ and κ is a product of two norms, and a gain that
serves has
$\|\tilde\Delta\|^2 / (1 + 2\kappa\|\tilde\Delta\|) \le (\text{limit} -
\mathrm{tr}(P\Sigma))$: an ellipsoid, whatever the units. Outside of all of them no gain
serves anything; contexts whose ellipsoids do not meet need different gains.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from taskspace._util.arrays import Array, Mask
from taskspace.certificates.boxes.rigor.costs import STABLE, box_costs
from taskspace.certificates.boxes.rigor.taylor import monomials, most
from taskspace.questions import Question
from taskspace.systems.linear import LinearSystem
from taskspace.systems.linear.kernels.lyapunov import gramian
from taskspace.systems.linear.tracing.traced import (
    UntraceableError,
    check_trace,
    trace_matrices,
)

UNIT = 2.0**-53
# Share of the quadratic term that pays for the linear one, which is next to zero.
TAU = 1e-4


@dataclass(frozen=True, eq=False)
class GainSets:
    r"""Linear plants at some contexts, and where gains are that may serve each.

    The ellipsoid of a context is $\|T_R^{-\top} (K - \hat K) T_Y^{-1}\|_F \le \rho$.

    Args:
        plants: A, B, Q and R by context, then for each how far the true entry may be
            from the one here.
        sigma: second moment of the initial state.
        continuous: kind of time.
        optimal: $\hat K$, nearly optimal gains, `(context, n_inputs, n_states)`.
        limit: a gain that costs more does not serve; inf where that is not known.
        radius: ρ, rounded up; inf where nothing is proven.
        t_r: $T_R$, with $T_R R T_R^\top \approx I$.
        t_y: $T_Y$, with $T_Y Y T_Y^\top \approx I$.
        assumption: what must hold for these to be the family's matrices.
    """

    plants: tuple[Array, ...]
    sigma: Array
    continuous: bool
    optimal: Array
    limit: Array
    radius: Array
    t_r: Array
    t_y: Array
    assumption: str = ""

    def __len__(self) -> int:
        return len(self.optimal)

    def __getitem__(self, rows: NDArray) -> "GainSets":
        names = ("optimal", "limit", "radius", "t_r", "t_y")
        parts = {name: getattr(self, name)[rows] for name in names}
        return replace(self, plants=tuple(x[rows] for x in self.plants), **parts)

    @cached_property
    def metrics(self) -> tuple[Array, Array]:
        """About R and Y of each context: the slopes of its norm, nothing proven."""
        R, Y = (np.linalg.inv(_t(x) @ x) for x in (self.t_r, self.t_y))
        return R.astype(np.float64), Y.astype(np.float64)

    def apart_from(self, which: int) -> Mask:
        """Return the contexts whose ellipsoids a plane separates from that of another.

        Args:
            which: the other.
        """
        # The plane where the two distances of the best gain in common balance.
        R, Y = self.metrics
        common = self.optimal[which] @ Y[which] + self.optimal @ Y
        common = _t(np.linalg.solve(Y[which] + Y, _t(common)))
        plane = (R[which] + R) / 2 @ (common - self.optimal[which]) @ Y[which]
        distance = (plane * (self.optimal - self.optimal[which])).sum((1, 2))
        rounding = (
            1e-13 * np.abs(plane) * (np.abs(self.optimal) + np.abs(self.optimal[which]))
        )
        one = np.full(len(self), which)
        reach = self.support(plane) + self[one].support(plane)
        return distance - rounding.sum((1, 2)) > reach * (1 + 1e-12)

    def support(self, directions: Array) -> Array:
        r"""Return bounds on $\langle W, K - \hat K \rangle$ over each ellipsoid.

        Args:
            directions: W, one per context, shape `(context, n_inputs, n_states)`.
        """
        scaled = self.t_r @ directions @ _t(self.t_y)
        size = np.abs(self.t_r) @ np.abs(directions) @ np.abs(_t(self.t_y))
        norm = _frobenius(scaled) + 1e-13 * _frobenius(size)
        with np.errstate(invalid="ignore"):
            reach = self.radius * norm * (1 + 1e-12)
        return np.where(np.isfinite(self.radius), reach, np.inf)

    def ranges(self) -> tuple[Array, Array]:
        """Return the least and the largest value of each entry over each ellipsoid."""
        reach = np.empty_like(self.optimal)
        for i, j in np.ndindex(*self.optimal.shape[1:]):
            unit = np.zeros_like(self.optimal)
            unit[:, i, j] = 1.0
            reach[:, i, j] = self.support(unit)
        slack = 4 * UNIT * (np.abs(self.optimal) + reach)
        return self.optimal - reach - slack, self.optimal + reach + slack


class _Rested(NamedTuple):
    """Matrices, and how far each of their entries may be from the true one."""

    value: Array
    rest: Array

    @property
    def transposed(self) -> "_Rested":
        """The transposed matrices."""
        return _Rested(_t(self.value), _t(self.rest))

    def between(self, left: Array, right: Array, gamma: float) -> "_Rested":
        """Return the products with two exact matrices; γ bounds their rounding."""
        rest = np.abs(left) @ (self.rest + gamma * np.abs(self.value)) @ np.abs(right)
        return _Rested(left @ self.value @ right, rest)


def _exact(matrices: Array) -> _Rested:
    return _Rested(matrices, np.zeros_like(matrices))


def make_gain_sets(
    system: LinearSystem, contexts: Array, question: Question
) -> GainSets:
    """Return the plants at some contexts, and an ellipsoid of gains for each.

    Args:
        system: a linear family with the infinite horizon.
        contexts: full context rows.
        question: what it means to serve.
    """
    contexts = np.ascontiguousarray(contexts, np.float64)
    try:
        trace = trace_matrices(system)
        check_trace(trace, system, contexts)
        matrices, rests = (stacks[:4] for stacks in trace.at(contexts))
        assumption = trace.assumption
    except UntraceableError:
        matrices = list(system.matrices(contexts))
        rests = [np.zeros_like(matrix) for matrix in matrices]
        assumption = (
            "for the matrices at these contexts as the family's code gives them"
        )
    for i in (2, 3):  # only the symmetric part of a weight counts
        rests[i] = (
            rests[i] / 2 + rests[i].swapaxes(1, 2) / 2 + UNIT * np.abs(matrices[i])
        )
        matrices[i] = matrices[i] / 2 + matrices[i].swapaxes(1, 2) / 2
    optimal = np.ascontiguousarray(system.optimal_gain(contexts)[0])
    n, (m, n_states) = len(optimal), optimal.shape[1:]
    sets = GainSets(
        tuple(map(np.ascontiguousarray, (*matrices, *rests))),
        np.ascontiguousarray(system.initial_covariance, np.float64),
        system.is_continuous,
        optimal,
        limit=np.full(n, np.inf),
        radius=np.full(n, np.inf),
        t_r=np.empty((n, m, m)),
        t_y=np.empty((n, n_states, n_states)),
        assumption=assumption,
    )
    _fill_limits(sets, question)
    _fill_ellipsoids(sets)
    return sets


def _fill_limits(sets: GainSets, question: Question) -> None:
    """Fill the largest cost that serves each context, rounded up."""
    if question.rule.is_absolute:
        sets.limit[:] = question.epsilon
        return
    best = sets.limit
    table = monomials(0, 1)
    _point_costs(
        sets.plants, sets.sigma, sets.continuous, sets.optimal,
        (table.product, table.even, int(table.counts[1])), best,
    )  # fmt: skip
    if question.rule.is_difference:
        best += question.epsilon
    else:
        best *= 1.0 + question.epsilon
        best += 4 * UNIT * np.abs(best)
    best += 4 * UNIT * np.abs(best)


def _fill_ellipsoids(sets: GainSets) -> None:
    """Fill for each context an ellipsoid that holds all gains that serve it."""
    m, n = sets.optimal.shape[1:]
    gamma = 1.01 * (8 * (n + m) + 50) * UNIT
    loop, weight = _closed_loops(sets, gamma)
    sigma = np.broadcast_to(sets.sigma, loop.value.shape)
    t_r, fine_r, phi_r = _inverse_factor(_Rested(sets.plants[3], sets.plants[7]))
    with np.errstate(all="ignore"):
        Y = gramian(loop.value, sigma, continuous=sets.continuous)
        P = gramian(_t(loop.value), weight.value, continuous=sets.continuous)
        solved = np.asarray(np.isfinite(Y + P).all((1, 2)))
        Y, P = (np.where(solved[:, None, None], x, np.eye(n)) for x in (Y, P))
        t_y, fine_y, phi_y = _inverse_factor(_exact(Y))
        P, fine_p = _below_optimum(sets, loop, weight, P, t_r, gamma)
        least = (P * sigma).sum((1, 2))
        least -= 2 * gamma * n * (np.abs(P) * np.abs(sigma)).sum((1, 2))
        t_s, fine_s, phi_s = _inverse_factor(_exact(sigma[:1]))
        # A Y + Y Aᵀ, or A Y Aᵀ − Y, at K̂: about −Σ.
        nothing = _exact(np.zeros_like(Y))
        spread = _residual(loop.transposed, nothing, Y, sets.continuous, gamma)
        spread = spread.between(t_s, _t(t_s), gamma)
        gap = np.abs(spread.value + np.eye(n)) + spread.rest + gamma * np.eye(n)
        omega = gap.sum(-1).max(-1)
        # κ = ‖T_Σ B T_Rᵀ‖ ‖T_Y Y T_Σᵀ‖ (discrete: Y A_K̂ᵀ in place of Y), rounded up.
        inputs = _Rested(sets.plants[1], sets.plants[5]).between(t_s, _t(t_r), gamma)
        inner = _exact(Y)
        if not sets.continuous:
            inner = loop.transposed.between(Y, np.eye(n), gamma)
        kappa = _norm(inputs) * _norm(inner.between(t_y, _t(t_s), gamma))
        # c = top / (1 + ω + 2κ‖Δ̃‖); serve only if share · c ‖Δ̃‖² <= room.
        top = 1 - phi_s
        share = (1 - TAU) * top * (1 - phi_r) * (1 - phi_y)
        room = np.maximum(sets.limit - least, 0.0) / share
        sure = solved & fine_p & fine_r & fine_y & fine_s & (share > 0) & (omega < 1)
        half = kappa * room
        reach = half + np.sqrt(half * half + room * (1 + omega))
        sure &= np.isfinite(reach)
        sets.radius[sure] = reach[sure] * (1 + 1e-10)
    sets.t_r[:], sets.t_y[:] = t_r, t_y


@njit(cache=True, error_model="numpy")
def _point_costs(plants, sigma, continuous, gains, tables, best):
    """Fill a bound above the cost of one gain per context; inf where not stable."""
    A, B, Q, R, ra, rb, rq, rr = plants
    n, m = B.shape[1:]
    low, high = np.zeros(1), np.zeros(1)
    gain = np.empty((1, m, n))
    of_gain = n < 0
    for t in range(len(A)):
        plant = (
            A[t : t + 1], ra[t], B[t : t + 1], rb[t],
            Q[t : t + 1], rq[t], R[t : t + 1], rr[t],
        )  # fmt: skip
        gain[0] = gains[t]
        status = box_costs(
            plant, gain, of_gain, sigma, tables, continuous, 1, low, high
        )
        if status == STABLE:
            best[t] = most(high, tables[1][:1])


def _closed_loops(sets: GainSets, gamma: float) -> tuple[_Rested, _Rested]:
    """Return A − B K̂ and Q + K̂ᵀ R K̂ at the optimal gains."""
    K, K_size = sets.optimal, np.abs(sets.optimal)
    A, B, Q, R, rest_a, rest_b, rest_q, rest_r = sets.plants
    loop_rest = rest_a + rest_b @ K_size
    loop_rest += gamma * (np.abs(A) + np.abs(B) @ K_size)
    weight_rest = rest_q + _t(K_size) @ rest_r @ K_size
    weight_rest += gamma * (np.abs(Q) + _t(K_size) @ np.abs(R) @ K_size)
    loop, weight = A - B @ K, Q + _t(K) @ R @ K
    return _Rested(loop, loop_rest), _Rested(weight, weight_rest)


def _below_optimum(
    sets: GainSets, loop: _Rested, weight: _Rested, P: Array, t_r: Array, gamma: float
) -> tuple[Array, Mask]:
    """Lower P by so much that E(K̂) − NᵀR⁻¹N/τ ⪰ 0 is proven; say where it is.

    Rows are compared in units of √P_ii, and by sums of their entries (Gershgorin).
    """
    n = P.shape[1]
    _, B, _, R, _, rest_b, _, rest_r = sets.plants
    scale = 1 / np.sqrt(np.maximum(np.diagonal(P, axis1=1, axis2=2), 1e-300))
    units = scale[:, :, None] * scale[:, None, :]
    E, E_rest = _residual(loop, weight, P, sets.continuous, gamma)
    size = ((np.abs(E) + E_rest) * units).sum(-1).max(-1)
    margin = np.zeros_like(P)
    margin[:, range(n), range(n)] = 100 * size[:, None] / scale**2
    lower = gramian(_t(loop.value), margin, continuous=sets.continuous)
    P = P - (lower + _t(lower)) / 2
    E, E_rest = _residual(loop, weight, P, sets.continuous, gamma)
    K_size, P_size = np.abs(sets.optimal), np.abs(P)
    B_size, rest_b = np.abs(_t(B)), _t(rest_b)
    PA, PA_size, PA_rest = P, P_size, gamma * P_size
    if not sets.continuous:
        PA, PA_size = P @ loop.value, P_size @ (np.abs(loop.value) + loop.rest)
        PA_rest = gamma * PA_size + P_size @ loop.rest
    N = R @ sets.optimal - _t(B) @ PA
    N_rest = gamma * (np.abs(R) @ K_size + B_size @ PA_size)
    N_rest = N_rest + rest_r @ K_size + rest_b @ PA_size + B_size @ PA_rest
    # R⁻¹ ⪯ 2 T_RᵀT_R where the factor is fine.
    through = np.abs(t_r) @ (np.abs(N) + N_rest)
    cross = 2 / TAU * _t(through) @ through
    diagonal = np.diagonal(E * units, axis1=1, axis2=2)
    others = (np.abs(E) + E_rest + cross) * units
    need = others.sum(-1) - np.abs(diagonal)
    sure = (diagonal > need * (1 + 1e-9)).all(-1)
    # The discrete R̃ = R + BᵀPB needs P ⪰ 0.
    _, positive, phi = _inverse_factor(_exact(P))
    return P, sure & positive & (phi < 0.5)


def _residual(
    loop: _Rested, weight: _Rested, P: Array, continuous: bool, gamma: float
) -> _Rested:
    """Return E = L(P) + W: P A + Aᵀ P + W, or Aᵀ P A − P + W."""
    size, P_size = np.abs(loop.value) + loop.rest, np.abs(P)
    if continuous:
        half, half_size, half_rest = P @ loop.value, P_size @ size, P_size @ loop.rest
        rounding = gamma * (half_size + _t(half_size) + np.abs(weight.value))
        rest = weight.rest + half_rest + _t(half_rest) + rounding
        return _Rested(half + _t(half) + weight.value, rest)
    E = _t(loop.value) @ P @ loop.value - P + weight.value
    cross = _t(loop.rest) @ P_size @ size
    rounding = 2 * gamma * (_t(size) @ P_size @ size + P_size + np.abs(weight.value))
    return _Rested((E + _t(E)) / 2, weight.rest + cross + _t(cross) + rounding)


def _inverse_factor(matrices: _Rested) -> tuple[Array, Mask, Array]:
    """Return T with T M Tᵀ ≈ I, if any, and φ with T M Tᵀ ⪰ (1 − φ) I for all M."""
    n = matrices.value.shape[-1]
    fine = np.asarray(np.isfinite(matrices.value).all((1, 2)))
    safe = np.where(fine[:, None, None], matrices.value, np.eye(n))
    factors = np.broadcast_to(np.eye(n), safe.shape).copy()
    for i, matrix in enumerate(safe):
        try:
            factors[i] = np.linalg.inv(np.linalg.cholesky(matrix))
        except np.linalg.LinAlgError:
            fine[i] = False
    gamma = 1.01 * (4 * n + 50) * UNIT
    units = _Rested(safe, matrices.rest).between(factors, _t(factors), gamma)
    off = np.abs(units.value - np.eye(n)) + units.rest + 2 * UNIT
    phi = off.sum(-1).max(-1) * (1 + 1e-12)
    return factors, fine & (phi < 0.5), np.where(fine, phi, 1.0)


def _t(stack: Array) -> Array:
    return np.swapaxes(stack, -1, -2)


def _frobenius(stack: Array) -> Array:
    return np.sqrt((stack * stack).sum((-1, -2))) * (1 + 1e-12)


def _norm(stack: _Rested) -> Array:
    """Return a bound on the largest singular value, rounded up.

    The backward error of the singular values is below the slack.
    """
    value = np.linalg.norm(stack.value, 2, axis=(-2, -1)) * (1 + 1e-12)
    return value + 1e-12 * _frobenius(stack.value) + _frobenius(stack.rest)
