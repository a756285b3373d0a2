r"""What gains lose from the worst of all initial states, many at a time.

From $x_0$ a gain costs $x_0^\top P_K x_0$, the best possible is $x_0^\top P_* x_0$. The
largest relative excess over all $x_0$ is the least $\epsilon$ with
$P_K \preceq (1 + \epsilon) P_*$. It does not change with the units of the states.

With $D = K - K_*$ and $\tilde R = R$ (discrete: $R + B^\top P_* B$), the difference
$P_K - P_*$ is the cost matrix of the loop of K for the weight $D^\top \tilde R D$: no
cancellation.
"""

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearController, Policy
from taskspace.systems.linear.kernels.lyapunov import closed_loop_cost, gramian
from taskspace.systems.linear.measures.base import Measure

if TYPE_CHECKING:
    from taskspace.systems.linear.base import LinearSystem

LEAST = 1e-7
"""P* counts as known if, states scaled to a cost of 1 each, no eigenvalue is smaller:
then the excess is right to about 1e-9 of itself."""
BLOCK_LOOPS = 200_000


class EveryStart(Measure):
    r"""The least ε with $P_K \preceq (1 + \epsilon) P_*$.

    From no initial state does the gain cost more than 1 + ε times the optimum from
    there. NaN where $P_*$ is not known or singular.
    """

    name: ClassVar[str] = "every_start"
    words: ClassVar[str] = "an excess of the cost from the worst initial state"
    larger_is_better: ClassVar[bool] = False

    def values(
        self, system: "LinearSystem", policies: Policy, contexts: Array
    ) -> Array:
        """Return the excess of every gain at every context.

        Args:
            system: the tasks, with an infinite horizon.
            policies: a stack of gains with leading dims `(source, policy)`.
            contexts: full context rows.
        """
        if np.isfinite(system.horizon):
            raise InvalidInputError(
                "every_start compares with the optimum of the infinite horizon, but "
                f"got horizon={system.horizon:g}. Use horizon=inf, or another "
                "criterion."
            )
        if isinstance(policies, LinearController):
            raise InvalidInputError(
                "every_start compares gains of the whole state with the best one, but "
                "got controllers. Use the criterion ratio."
            )
        gain = system.gains(policies).gain
        best, solved = system.optimal_gain(contexts)
        excess = worst_start_excess(
            np.ascontiguousarray(gain.reshape(-1, *gain.shape[2:])),
            best,
            solved,
            *system.matrices(contexts),
            continuous=system.is_continuous,
        )
        optimum = system.optimum(contexts)
        assert optimum is not None
        excess[:, np.isneginf(optimum)] = np.inf  # no gain stabilises
        return excess.reshape(*gain.shape[:2], len(contexts))


EVERY_START = EveryStart()


def worst_start_excess(
    gains: Array,
    best: Array,
    solved: NDArray[np.bool_],
    a: Array,
    b: Array,
    q: Array,
    r: Array,
    *,
    continuous: bool,
) -> Array:
    """Return the least ε with P_K ⪯ (1 + ε) P* of every gain at every context.

    Args:
        gains: K, shape `(policy, n_inputs, n_states)`.
        best: K* of each context, shape `(target, n_inputs, n_states)`.
        solved: where K* is the best gain.
        a: A, shape `(target, n_states, n_states)`.
        b: B, shape `(target, n_states, n_inputs)`.
        q: Q, shape `(target, n_states, n_states)`.
        r: R, shape `(target, n_inputs, n_inputs)`.
        continuous: continuous or discrete time.

    Returns:
        Dims `(policy, target)`: `inf` where the loop is unstable, NaN where P* is not
        known or some initial state costs (nearly) nothing under the best gain.
    """
    n = a.shape[1]
    weight = q + np.swapaxes(best, 1, 2) @ r @ best
    least = gramian(
        np.swapaxes(a - b @ best, 1, 2).copy(), weight, continuous=continuous
    )
    factor, is_known = _factor(least, solved)
    inner = r.copy()
    if not continuous:
        inner[is_known] += (np.swapaxes(b, 1, 2) @ least @ b)[is_known]
    # In coordinates z = Lᵀ x, P* = L Lᵀ, the best cost is |z|².
    inverse = np.linalg.inv(factor)
    back = np.swapaxes(inverse, 1, 2)
    excess = np.full((len(gains), len(a)), np.nan)
    stable = np.isfinite(
        closed_loop_cost(gains, a, b, q, r, np.eye(n), continuous, np.inf)
    )
    excess[~stable] = np.inf
    policy, target = np.nonzero(stable & is_known)
    for first in range(0, len(policy), BLOCK_LOOPS):
        p, t = policy[first : first + BLOCK_LOOPS], target[first : first + BLOCK_LOOPS]
        loop = np.swapaxes(factor[t], 1, 2) @ (a[t] - b[t] @ gains[p]) @ back[t]
        gap = (gains[p] - best[t]) @ back[t]
        weights = np.swapaxes(gap, 1, 2) @ inner[t] @ gap
        scale = np.trace(weights, axis1=1, axis2=2)[:, None, None]
        safe = np.where(scale > 0, scale, 1.0)
        extra = gramian(
            np.swapaxes(loop, 1, 2).copy(), weights / safe, continuous=continuous
        )
        fine = np.isfinite(extra).all((1, 2))
        largest = np.full(len(p), np.nan)
        largest[fine] = np.linalg.eigvalsh(extra[fine])[:, -1] * scale[fine, 0, 0]
        excess[p, t] = np.maximum(largest, 0.0)
    return excess


def _factor(least: Array, solved: NDArray[np.bool_]) -> tuple[Array, NDArray[np.bool_]]:
    """L with P* = L Lᵀ, and where P* is known and far from singular."""
    is_known = solved & np.isfinite(least).all((1, 2))
    diagonal = np.diagonal(least, axis1=1, axis2=2)
    size = np.sqrt(np.where(is_known[:, None], diagonal, 1.0))
    is_known &= (size > 0).all(1)
    eye = np.eye(least.shape[1])
    safe = np.where(is_known[:, None], size, 1.0)
    scaled = np.where(is_known[:, None, None], least, eye) / (
        safe[:, :, None] * safe[:, None, :]
    )
    scaled = (scaled + np.swapaxes(scaled, 1, 2)) / 2
    is_known &= np.linalg.eigvalsh(scaled)[:, 0] >= LEAST
    scaled[~is_known] = eye
    factor = safe[:, :, None] * np.linalg.cholesky(scaled)
    return np.asarray(factor, np.float64), is_known
