r"""Where the gains are that may serve a context: a body around its optimal gain.

With $K = \hat K + \Delta$, any symmetric $P$ and $X_K$ the accumulated covariance of
the closed loop, cost$(K) = \mathrm{tr}(P\Sigma) + \mathrm{tr}(E(K) X_K)$ with
$E(K) = E(\hat K) + \Delta^\top N + N^\top \Delta + \Delta^\top \tilde R \Delta$,
$N = R\hat K - B^\top P$ (discrete: $R \hat K - B^\top P A_{\hat K}$),
$\tilde R \succeq R$. $P$ is next to the optimum, a trifle below, so that
$E(\hat K) - N^\top R^{-1} N / \tau \succeq 0$ can be proven and
cost$(K) \ge \mathrm{tr}(P\Sigma) + (1 - \tau)\,\mathrm{tr}(\Delta^\top R \Delta X_K)$.

For $Y$ next to $X_{\hat K}$ and every stabilising $K$: $X_K \succeq c\,Y$ where
$c\,(Y - A_K Y A_K^\top) \preceq \Sigma$ (continuous: $-c(A_K Y + Y A_K^\top)$), and the
left side is about $c\,(\Sigma + B\Delta Y + Y \Delta^\top B^\top)$. So
$c = 1/(1 + 2\kappa\|\tilde\Delta\|)$ will do, where
$\tilde\Delta = R^{1/2} \Delta Y^{1/2}$ and κ is a product of two norms, and a gain that
serves has
$\|\tilde\Delta\|^2 / (1 + 2\kappa\|\tilde\Delta\|) \le (\text{limit} -
\mathrm{tr}(P\Sigma))$: an ellipsoid, whatever the units. Outside of all of them no gain
serves anything; contexts whose ellipsoids do not meet need different gains.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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

    centre: NDArray[np.float64]
    radius: NDArray[np.float64]
    t_r: NDArray[np.float64]
    t_y: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.centre)

    def __getitem__(self, rows: NDArray) -> "Bodies":
        return Bodies(
            self.centre[rows], self.radius[rows], self.t_r[rows], self.t_y[rows]
        )

    def apart_from(self, which: int) -> NDArray[np.bool_]:
        """Return the contexts whose bodies a plane separates from that of another.

        Args:
            which: the other.
        """
        # The plane where the two distances of the best gain in common balance.
        r_inverse, y_inverse = (_t(x) @ x for x in (self.t_r, self.t_y))
        R, Y = (np.linalg.inv(x) for x in (r_inverse, y_inverse))
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

    def support(self, directions: NDArray[np.float64]) -> NDArray[np.float64]:
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

    def ranges(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the least and the largest value of each entry over each body."""
        reach = np.empty_like(self.centre)
        for i, j in np.ndindex(*self.centre.shape[1:]):
            unit = np.zeros_like(self.centre)
            unit[:, i, j] = 1.0
            reach[:, i, j] = self.support(unit)
        slack = 4 * UNIT * (np.abs(self.centre) + reach)
        return self.centre - reach - slack, self.centre + reach + slack


def make_bodies(tasks: Tasks) -> Bodies:
    """Return for each context an ellipsoid that holds all gains that serve it.

    Args:
        tasks: the plants and their limits.
    """
    n_tasks, m, n = tasks.optimal.shape
    K, Kt = tasks.optimal, _t(tasks.optimal)
    rest_a, rest_b, rest_q, rest_r = tasks.rests
    gamma = 1.01 * (8 * (n + m) + 50) * UNIT
    loop = tasks.A - tasks.B @ K
    loop_rest = rest_a + rest_b @ np.abs(K)
    loop_rest += gamma * (np.abs(tasks.A) + np.abs(tasks.B) @ np.abs(K))
    weight = tasks.Q + Kt @ tasks.R @ K
    weight_rest = rest_q + np.abs(Kt) @ rest_r @ np.abs(K)
    weight_rest += gamma * (np.abs(tasks.Q) + np.abs(Kt) @ np.abs(tasks.R) @ np.abs(K))
    sigma = np.broadcast_to(tasks.sigma, loop.shape)
    radius = np.full(n_tasks, np.inf)
    t_r, fine_r, phi_r = _inverse_factor(tasks.R, rest_r)
    with np.errstate(all="ignore"):
        Y = gramian(loop, sigma, continuous=tasks.continuous)
        P = gramian(_t(loop), weight, continuous=tasks.continuous)
        solved = np.asarray(np.isfinite(Y + P).all((1, 2)))
        Y, P = (np.where(solved[:, None, None], x, np.eye(n)) for x in (Y, P))
        t_y, fine_y, phi_y = _inverse_factor(Y, np.zeros_like(Y))
        P, fine_p = _below_optimum(
            tasks, loop, loop_rest, weight, weight_rest, P, t_r, gamma
        )
        least = (P * sigma).sum((1, 2))
        least -= 2 * gamma * n * (np.abs(P) * np.abs(sigma)).sum((1, 2))
        t_s, fine_s, phi_s = _inverse_factor(sigma[:1], np.zeros_like(sigma[:1]))
        spread, spread_rest = _spread(tasks, loop, loop_rest, Y, gamma)
        gap = t_s @ spread @ _t(t_s) - np.eye(n)
        gap_rest = np.abs(t_s) @ spread_rest @ np.abs(_t(t_s)) + gamma * (
            np.abs(t_s) @ np.abs(spread) @ np.abs(_t(t_s)) + np.eye(n)
        )
        omega = (np.abs(gap) + gap_rest).sum(-1).max(-1)
        kappa = _kappa(tasks, loop, loop_rest, Y, t_s, t_r, t_y, gamma)
        # c = top / (1 + ω + 2κ‖Δ̃‖); serve only if share · c ‖Δ̃‖² <= room.
        top = 1 - phi_s
        share = (1 - TAU) * top * (1 - phi_r) * (1 - phi_y)
        room = np.maximum(tasks.limit - least, 0.0) / share
        known = solved & fine_p & fine_r & fine_y & fine_s & (share > 0) & (omega < 1)
        half = kappa * room
        reach = half + np.sqrt(half * half + room * (1 + omega))
        known &= np.isfinite(reach)
        radius[known] = reach[known] * (1 + 1e-10)
    return Bodies(K, radius, t_r, t_y)


def _below_optimum(
    tasks: Tasks,
    loop: NDArray[np.float64],
    loop_rest: NDArray[np.float64],
    weight: NDArray[np.float64],
    weight_rest: NDArray[np.float64],
    P: NDArray[np.float64],
    t_r: NDArray[np.float64],
    gamma: float,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Lower P by so much that E(K̂) − NᵀR⁻¹N/τ ⪰ 0 is proven; say where it is.

    Rows are compared in units of √P_ii, and by sums of their entries (Gershgorin).
    """
    n = P.shape[1]
    scale = 1 / np.sqrt(np.maximum(np.diagonal(P, axis1=1, axis2=2), 1e-300))
    units = scale[:, :, None] * scale[:, None, :]
    E, E_rest = _residual(
        loop, loop_rest, weight, weight_rest, P, tasks.continuous, gamma
    )
    size = ((np.abs(E) + E_rest) * units).sum(-1).max(-1)
    margin = np.zeros_like(P)
    margin[:, range(n), range(n)] = 100 * size[:, None] / scale**2
    lower = gramian(_t(loop), margin, continuous=tasks.continuous)
    P = P - (lower + _t(lower)) / 2
    E, E_rest = _residual(
        loop, loop_rest, weight, weight_rest, P, tasks.continuous, gamma
    )
    K = tasks.optimal
    PA = P if tasks.continuous else P @ loop
    PA_size = np.abs(P) if tasks.continuous else np.abs(P) @ (np.abs(loop) + loop_rest)
    PA_rest = gamma * PA_size + (0 if tasks.continuous else np.abs(P) @ loop_rest)
    rest_b, rest_r = tasks.rests[1], tasks.rests[3]
    N = tasks.R @ K - _t(tasks.B) @ PA
    N_rest = gamma * (np.abs(tasks.R) @ np.abs(K) + np.abs(_t(tasks.B)) @ PA_size)
    N_rest = N_rest + rest_r @ np.abs(K) + _t(rest_b) @ PA_size
    N_rest = N_rest + np.abs(_t(tasks.B)) @ PA_rest
    # R⁻¹ ⪯ 2 T_RᵀT_R where the factor is fine.
    through = np.abs(t_r) @ (np.abs(N) + N_rest)
    cross = 2 / TAU * _t(through) @ through
    diagonal = np.diagonal(E * units, axis1=1, axis2=2)
    others = (np.abs(E) + E_rest + cross) * units
    need = others.sum(-1) - np.abs(diagonal)
    sure = (diagonal > need * (1 + 1e-9)).all(-1)
    # The discrete R̃ = R + BᵀPB needs P ⪰ 0.
    _, positive, phi = _inverse_factor(P, np.zeros_like(P))
    return P, sure & positive & (phi < 0.5)


def _residual(
    loop: NDArray[np.float64],
    loop_rest: NDArray[np.float64],
    weight: NDArray[np.float64],
    weight_rest: NDArray[np.float64],
    P: NDArray[np.float64],
    continuous: bool,
    gamma: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return E = L(P) + W and how far it may be off, entry by entry."""
    absolute = np.abs(loop) + loop_rest
    if continuous:
        half = P @ loop
        E = half + _t(half) + weight
        size = np.abs(P) @ absolute
        rest = np.abs(P) @ loop_rest
        return E, weight_rest + rest + _t(rest) + gamma * (
            size + _t(size) + np.abs(weight)
        )
    E = _t(loop) @ P @ loop - P + weight
    E = (E + _t(E)) / 2
    cross = _t(loop_rest) @ np.abs(P) @ absolute
    size = _t(absolute) @ np.abs(P) @ absolute + np.abs(P) + np.abs(weight)
    return E, weight_rest + cross + _t(cross) + 2 * gamma * size


def _spread(
    tasks: Tasks,
    loop: NDArray[np.float64],
    loop_rest: NDArray[np.float64],
    Y: NDArray[np.float64],
    gamma: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return −(A Y + Y Aᵀ), or Y − A Y Aᵀ, at K̂, and how far it may be off."""
    zero = np.zeros_like(Y)
    E, rest = _residual(_t(loop), _t(loop_rest), zero, zero, Y, tasks.continuous, gamma)
    return -E, rest


def _kappa(
    tasks: Tasks,
    loop: NDArray[np.float64],
    loop_rest: NDArray[np.float64],
    Y: NDArray[np.float64],
    t_s: NDArray[np.float64],
    t_r: NDArray[np.float64],
    t_y: NDArray[np.float64],
    gamma: float,
) -> NDArray[np.float64]:
    """Return ‖T_Σ B T_Rᵀ‖ ‖T_Y Y T_Σᵀ‖ (discrete: Y A_K̂ᵀ in place of Y), rounded up."""
    first = t_s @ tasks.B @ _t(t_r)
    first_rest = (
        np.abs(t_s) @ (tasks.rests[1] + gamma * np.abs(tasks.B)) @ np.abs(_t(t_r))
    )
    inner, inner_rest = Y, np.zeros_like(Y)
    if not tasks.continuous:
        inner = Y @ _t(loop)
        inner_rest = np.abs(Y) @ (_t(loop_rest) + gamma * np.abs(_t(loop)))
    second = t_y @ inner @ _t(t_s)
    second_rest = np.abs(t_y) @ (inner_rest + gamma * np.abs(inner)) @ np.abs(_t(t_s))
    return (_spectral(first) + _frobenius(first_rest)) * (
        _spectral(second) + _frobenius(second_rest)
    )


def _inverse_factor(
    matrices: NDArray[np.float64], rests: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
    """Return T with T M Tᵀ ≈ I, if any, and φ with T M Tᵀ ⪰ (1 − φ) I for all M."""
    n = matrices.shape[-1]
    fine = np.asarray(np.isfinite(matrices).all((1, 2)))
    safe = np.where(fine[:, None, None], matrices, np.eye(n))
    factors = np.broadcast_to(np.eye(n), safe.shape).copy()
    for i, matrix in enumerate(safe):
        try:
            factors[i] = np.linalg.inv(np.linalg.cholesky(matrix))
        except np.linalg.LinAlgError:
            fine[i] = False
    absolute = np.abs(factors)
    off = np.abs(factors @ safe @ _t(factors) - np.eye(n))
    gamma = 1.01 * (4 * n + 50) * UNIT
    off += absolute @ (rests + gamma * np.abs(safe)) @ _t(absolute) + 2 * UNIT
    phi = off.sum(-1).max(-1) * (1 + 1e-12)
    return factors, fine & (phi < 0.5), np.where(fine, phi, 1.0)


def _t(stack: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.swapaxes(stack, -1, -2)


def _frobenius(stack: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sqrt((stack * stack).sum((-1, -2))) * (1 + 1e-12)


def _spectral(stack: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest singular value; its backward error is below the slack."""
    return np.linalg.norm(stack, 2, axis=(-2, -1)) * (1 + 1e-12) + 1e-12 * _frobenius(
        stack
    )
