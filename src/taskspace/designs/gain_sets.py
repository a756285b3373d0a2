r"""Where the gains are that may serve a context: a body around its optimal gain.

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

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array, Mask
from taskspace.designs.tasks import Tasks
from taskspace.systems.linear.kernels.lyapunov import gramian

UNIT = 2.0**-53
TAU = 1e-4
"""Share of the quadratic term that pays for the linear one, which is next to zero."""


@dataclass(frozen=True, eq=False)
class Bodies:
    r"""Ellipsoids $\|T_R^{-\top} (K - \hat K) T_Y^{-1}\|_F \le \rho$ by context.

    Args:
        centre: $\hat K$, shape `(context, n_inputs, n_states)`.
        radius: ρ, rounded up; inf where nothing is proven.
        t_r: $T_R$, with $T_R R T_R^\top \approx I$.
        t_y: $T_Y$, with $T_Y Y T_Y^\top \approx I$.
    """

    centre: Array
    radius: Array
    t_r: Array
    t_y: Array

    def __len__(self) -> int:
        return len(self.centre)

    def __getitem__(self, rows: NDArray) -> "Bodies":
        return Bodies(
            self.centre[rows], self.radius[rows], self.t_r[rows], self.t_y[rows]
        )

    @cached_property
    def metrics(self) -> tuple[Array, Array]:
        """About R and Y of each context: the slopes of its norm, nothing proven."""
        R, Y = (np.linalg.inv(_t(x) @ x) for x in (self.t_r, self.t_y))
        return R.astype(np.float64), Y.astype(np.float64)

    def apart_from(self, which: int) -> Mask:
        """Return the contexts whose bodies a plane separates from that of another.

        Args:
            which: the other.
        """
        # The plane where the two distances of the best gain in common balance.
        R, Y = self.metrics
        common = self.centre[which] @ Y[which] + self.centre @ Y
        common = _t(np.linalg.solve(Y[which] + Y, _t(common)))
        plane = (R[which] + R) / 2 @ (common - self.centre[which]) @ Y[which]
        distance = (plane * (self.centre - self.centre[which])).sum((1, 2))
        rounding = (
            1e-13 * np.abs(plane) * (np.abs(self.centre) + np.abs(self.centre[which]))
        )
        one = np.full(len(self), which)
        reach = self.support(plane) + self[one].support(plane)
        return distance - rounding.sum((1, 2)) > reach * (1 + 1e-12)

    def support(self, directions: Array) -> Array:
        r"""Return bounds on $\langle W, K - \hat K \rangle$ over each body.

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
        """Return the least and the largest value of each entry over each body."""
        reach = np.empty_like(self.centre)
        for i, j in np.ndindex(*self.centre.shape[1:]):
            unit = np.zeros_like(self.centre)
            unit[:, i, j] = 1.0
            reach[:, i, j] = self.support(unit)
        slack = 4 * UNIT * (np.abs(self.centre) + reach)
        return self.centre - reach - slack, self.centre + reach + slack


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


def make_bodies(tasks: Tasks) -> Bodies:
    """Return for each context an ellipsoid that holds all gains that serve it.

    Args:
        tasks: the plants and their limits.
    """
    n_tasks, m, n = tasks.optimal.shape
    gamma = 1.01 * (8 * (n + m) + 50) * UNIT
    loop, weight = _closed_loops(tasks, gamma)
    sigma = np.broadcast_to(tasks.sigma, loop.value.shape)
    radius = np.full(n_tasks, np.inf)
    t_r, fine_r, phi_r = _inverse_factor(_Rested(tasks.R, tasks.rests[3]))
    with np.errstate(all="ignore"):
        Y = gramian(loop.value, sigma, continuous=tasks.continuous)
        P = gramian(_t(loop.value), weight.value, continuous=tasks.continuous)
        solved = np.asarray(np.isfinite(Y + P).all((1, 2)))
        Y, P = (np.where(solved[:, None, None], x, np.eye(n)) for x in (Y, P))
        t_y, fine_y, phi_y = _inverse_factor(_exact(Y))
        P, fine_p = _below_optimum(tasks, loop, weight, P, t_r, gamma)
        least = (P * sigma).sum((1, 2))
        least -= 2 * gamma * n * (np.abs(P) * np.abs(sigma)).sum((1, 2))
        t_s, fine_s, phi_s = _inverse_factor(_exact(sigma[:1]))
        # A Y + Y Aᵀ, or A Y Aᵀ − Y, at K̂: about −Σ.
        nothing = _exact(np.zeros_like(Y))
        spread = _residual(loop.transposed, nothing, Y, tasks.continuous, gamma)
        spread = spread.between(t_s, _t(t_s), gamma)
        gap = np.abs(spread.value + np.eye(n)) + spread.rest + gamma * np.eye(n)
        omega = gap.sum(-1).max(-1)
        # κ = ‖T_Σ B T_Rᵀ‖ ‖T_Y Y T_Σᵀ‖ (discrete: Y A_K̂ᵀ in place of Y), rounded up.
        inputs = _Rested(tasks.B, tasks.rests[1]).between(t_s, _t(t_r), gamma)
        inner = _exact(Y)
        if not tasks.continuous:
            inner = loop.transposed.between(Y, np.eye(n), gamma)
        kappa = _norm(inputs) * _norm(inner.between(t_y, _t(t_s), gamma))
        # c = top / (1 + ω + 2κ‖Δ̃‖); serve only if share · c ‖Δ̃‖² <= room.
        top = 1 - phi_s
        share = (1 - TAU) * top * (1 - phi_r) * (1 - phi_y)
        room = np.maximum(tasks.limit - least, 0.0) / share
        sure = solved & fine_p & fine_r & fine_y & fine_s & (share > 0) & (omega < 1)
        half = kappa * room
        reach = half + np.sqrt(half * half + room * (1 + omega))
        sure &= np.isfinite(reach)
        radius[sure] = reach[sure] * (1 + 1e-10)
    return Bodies(tasks.optimal, radius, t_r, t_y)


def _closed_loops(tasks: Tasks, gamma: float) -> tuple[_Rested, _Rested]:
    """Return A − B K̂ and Q + K̂ᵀ R K̂ at the optimal gains."""
    K, K_size = tasks.optimal, np.abs(tasks.optimal)
    rest_a, rest_b, rest_q, rest_r = tasks.rests
    loop_rest = rest_a + rest_b @ K_size
    loop_rest += gamma * (np.abs(tasks.A) + np.abs(tasks.B) @ K_size)
    weight_rest = rest_q + _t(K_size) @ rest_r @ K_size
    weight_rest += gamma * (np.abs(tasks.Q) + _t(K_size) @ np.abs(tasks.R) @ K_size)
    loop, weight = tasks.A - tasks.B @ K, tasks.Q + _t(K) @ tasks.R @ K
    return _Rested(loop, loop_rest), _Rested(weight, weight_rest)


def _below_optimum(
    tasks: Tasks, loop: _Rested, weight: _Rested, P: Array, t_r: Array, gamma: float
) -> tuple[Array, Mask]:
    """Lower P by so much that E(K̂) − NᵀR⁻¹N/τ ⪰ 0 is proven; say where it is.

    Rows are compared in units of √P_ii, and by sums of their entries (Gershgorin).
    """
    n = P.shape[1]
    scale = 1 / np.sqrt(np.maximum(np.diagonal(P, axis1=1, axis2=2), 1e-300))
    units = scale[:, :, None] * scale[:, None, :]
    E, E_rest = _residual(loop, weight, P, tasks.continuous, gamma)
    size = ((np.abs(E) + E_rest) * units).sum(-1).max(-1)
    margin = np.zeros_like(P)
    margin[:, range(n), range(n)] = 100 * size[:, None] / scale**2
    lower = gramian(_t(loop.value), margin, continuous=tasks.continuous)
    P = P - (lower + _t(lower)) / 2
    E, E_rest = _residual(loop, weight, P, tasks.continuous, gamma)
    K_size, P_size = np.abs(tasks.optimal), np.abs(P)
    B_size, rest_b = np.abs(_t(tasks.B)), _t(tasks.rests[1])
    PA, PA_size, PA_rest = P, P_size, gamma * P_size
    if not tasks.continuous:
        PA, PA_size = P @ loop.value, P_size @ (np.abs(loop.value) + loop.rest)
        PA_rest = gamma * PA_size + P_size @ loop.rest
    N = tasks.R @ tasks.optimal - _t(tasks.B) @ PA
    N_rest = gamma * (np.abs(tasks.R) @ K_size + B_size @ PA_size)
    N_rest = N_rest + tasks.rests[3] @ K_size + rest_b @ PA_size + B_size @ PA_rest
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
