r"""The two LQR families of Preiss & Sukhatme, to compare covers with published ones.

"Suboptimal coverings for continuous spaces of control tasks" (L4DC 2021) asks for the
fewest controllers such that every task $\phi$ of a set has one with
$J_\phi(\pi) / J^*_\phi \le \alpha$: the criterion `ratio` with $\epsilon = \alpha - 1$.
Their contexts are the singular values of the input matrix, in $[1/\theta, 1]$.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taskspace._util.arrays import Array
from taskspace.systems.base import ContextAxis
from taskspace.systems.linear.base import LinearSystem
from taskspace.systems.linear.kernels.lyapunov import LinearMatrices


@dataclass(frozen=True)
class ScalarLqr(LinearSystem):
    r"""The scalar plant $\dot x = a x + b u$ with $Q = R = 1$ and $E[x_0^2] = 1$.

    For $u = -kx$ with $bk > a$ the cost is $(1 + k^2) / (2 (bk - a))$; the least is
    $(a + \sqrt{a^2 + b^2}) / b^2$.

    Version history:
        scalar-lqr-v1: first version.
    """

    id: ClassVar[str] = "scalar-lqr-v1"

    @property
    def axes(self) -> tuple[ContextAxis, ...]:
        """Growth rate and input gain."""
        return (
            ContextAxis("b", 1.0, low=0.0, low_open=True, description="input gain"),
            ContextAxis("a", 1.0, "1/s", description="growth rate of the free plant"),
        )

    @property
    def is_continuous(self) -> bool:
        """Time is continuous."""
        return True

    @property
    def initial_covariance(self) -> Array:
        """One."""
        return np.eye(1)

    def matrices(self, contexts: Array) -> LinearMatrices:
        """Return A, B, Q and R at each context row."""
        b, a = contexts.T[:, :, None, None]
        one = np.ones_like(a)
        return LinearMatrices(a.copy(), b.copy(), one, one.copy())


@dataclass(frozen=True)
class Quadrotor(LinearSystem):
    r"""A quadrotor in hover, linearised: 12 states, 4 motors, 4 efficiencies.

    States: roll, pitch, yaw; their rates; velocity; position. The angles tilt the
    thrust: $\dot v = G \cdot \mathrm{angles}$ with gravity 1. The input matrix is
    $U \mathrm{diag}(\sigma) V^\top$: $V^\top$ mixes the motors into thrust, roll,
    pitch and yaw with entries ±1, σ scales each, $U$ puts the thrust on the vertical
    velocity and the torques on the rates. $Q = I$, $R = I$, $E[x_0 x_0^\top] = I$.

    Version history:
        quadrotor-v1: first version.
    """

    id: ClassVar[str] = "quadrotor-v1"

    @property
    def axes(self) -> tuple[ContextAxis, ...]:
        """Effectiveness of thrust and of the three torques."""
        return tuple(
            ContextAxis(
                name,
                1.0,
                low=0.0,
                low_open=True,
                description=f"effectiveness of {what}",
            )
            for name, what in (
                ("thrust", "the thrust"),
                ("roll", "the roll torque"),
                ("pitch", "the pitch torque"),
                ("yaw", "the yaw torque"),
            )
        )

    @property
    def states(self) -> tuple[str, ...]:
        """Angles, their rates, velocity, position."""
        angles = ("roll", "pitch", "yaw")
        moves = [
            f"{what} {axis}" for what in ("velocity", "position") for axis in "xyz"
        ]
        return (*angles, *(f"{angle} rate" for angle in angles), *moves)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The four motors."""
        return tuple(f"motor {i + 1}" for i in range(4))

    @property
    def is_continuous(self) -> bool:
        """Time is continuous."""
        return True

    @property
    def initial_covariance(self) -> Array:
        """The identity."""
        return np.eye(12)

    def matrices(self, contexts: Array) -> LinearMatrices:
        """Return A, B, Q and R at each context row."""
        A = np.zeros((12, 12))
        A[0:3, 3:6] = np.eye(3)
        A[6:9, 0:3] = [[0, -1, 0], [1, 0, 0], [0, 0, 0]]
        A[9:12, 6:9] = np.eye(3)
        U = np.zeros((12, 4))
        U[[8, 3, 4, 5], [0, 1, 2, 3]] = 1
        mixing = np.array(
            [[1, 1, 1, 1], [1, -1, -1, 1], [-1, -1, 1, 1], [1, -1, 1, -1]], float
        )
        B = U @ (contexts[:, :, None] * mixing)
        n = len(contexts)
        return LinearMatrices(
            np.tile(A, (n, 1, 1)),
            B,
            np.tile(np.eye(12), (n, 1, 1)),
            np.tile(np.eye(4), (n, 1, 1)),
        )
