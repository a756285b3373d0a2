"""Certificate files that a program without taskspace can check.

A file states a linear family as formulas, some gains, a range of contexts, and for each
box of the range a gain and two matrices that depend on the context linearly: P bounds
the cost of the gain from above, S the least cost from below. The program
`tools/check_certificate.py` proves the rest by ball arithmetic. The matrices are
candidates: nothing rests on how they were found. See docs/testing.md.
"""

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import (
    solve_continuous_are,
    solve_continuous_lyapunov,
    solve_discrete_are,
    solve_discrete_lyapunov,
)

from taskspace.errors import InvalidInputError
from taskspace.questions import Question
from taskspace.systems.linear import LinearSystem
from taskspace.systems.linear.tracing import symbols as ops
from taskspace.systems.linear.tracing.traced import Trace, trace_matrices

Array = NDArray[np.float64]

BINARY = {ops.ADD: "+", ops.SUBTRACT: "-", ops.MULTIPLY: "*", ops.DIVIDE: "/"}
# A box is written if its residuals are below this share of what bounds them.
RESIDUAL = 0.15
# Shares of the slack that the two bounds may use.
SHARE = 0.3


def write_certificate(
    path: str | Path,
    system: LinearSystem,
    gains: Array,
    ranges: dict[str, tuple[float, float]],
    question: Question | str,
    *,
    max_boxes: int = 20_000,
) -> int:
    """Write a certificate file: some gains serve every context of a box.

    Args:
        path: where to write it.
        system: a linear family; its matrices must be formulas of the context.
        gains: one K per row, u = −K x, shape `(gain, n_inputs, n_states)`.
        ranges: low and high of some axes; the others stay at their defaults.
        question: `regret <= …` or `ratio <= …`, without measured errors.
        max_boxes: give up beyond this number.

    Returns:
        The number of boxes. A range that is not served raises `InvalidInputError`.
    """
    question = Question(question) if isinstance(question, str) else question
    name = str(question).split(" ")[0]
    if name not in ("ratio", "regret") or len(question.demands) > 1 or question.error:
        raise InvalidInputError(
            "A certificate file is about one demand, regret <= … or ratio <= …, but "
            f"got {str(question)!r}."
        )
    axes = [axis.name for axis in system.axes if axis.name in ranges]
    low, high = np.array([ranges[axis] for axis in axes], np.float64).T
    trace = trace_matrices(system)
    names = [
        axis.name if axis.name in ranges else repr(float(axis.default))
        for axis in system.axes
    ]
    gains = np.asarray(gains, np.float64)
    candidates = _Candidates(system, axes, gains, name, question)
    boxes: list[dict[str, Any]] = []
    open_boxes = [(low, high)]
    while open_boxes:
        box = open_boxes.pop()
        found = candidates.on(*box)
        if found is not None:
            boxes.append(found)
            continue
        if len(boxes) + len(open_boxes) > max_boxes:
            where = dict(zip(axes, (box[0] + box[1]) / 2, strict=True))
            raise InvalidInputError(
                f"These gains were not shown to serve the range with {max_boxes} "
                f"boxes: around {where} one must be smaller. Ask for a larger "
                "tolerance, or add gains."
            )
        axis = int(((box[1] - box[0]) / (high - low)).argmax())
        middle = 0.5 * (box[0][axis] + box[1][axis])
        for side in (0, 1):
            half = box[0].copy(), box[1].copy()
            half[1 - side][axis] = middle
            open_boxes.append(half)
    file = {
        "format": "taskspace-certificate",
        "version": 1,
        "criterion": name,
        "epsilon": repr(question.epsilon),
        "time": "continuous" if system.is_continuous else "discrete",
        "axes": axes,
        "low": low.tolist(),
        "high": high.tolist(),
        **{name: _texts(trace, getattr(trace, name), names) for name in "ABQR"},
        "x0_covariance": system.initial_covariance.tolist(),
        "gains": gains.tolist(),
        "boxes": boxes,
    }
    Path(path).write_text(json.dumps(file))
    return len(boxes)


def _texts(trace: Trace, places: Any, axes: Sequence[str]) -> list[list[str]]:
    """Return the entries of a matrix as expressions of the axes."""

    def text(place: int) -> str:
        op, left, right = trace.op[place], int(trace.left[place]), trace.right[place]
        if op == ops.AXIS:
            return axes[left]
        if op == ops.CONSTANT:
            if right:
                raise InvalidInputError("A constant of the family is not a float.")
            return repr(float(trace.value[place]))
        if op == ops.NEGATE:
            return f"-({text(left)})"
        if op in BINARY:
            return f"({text(left)}) {BINARY[op]} ({text(int(right))})"
        return f"{ops.FUNCTIONS[op][0].__name__}({text(left)})"

    return [[text(int(place)) for place in row] for row in places]


class _Candidates:
    """Makes P and S of a box, and says whether they will be accepted."""

    def __init__(
        self,
        system: LinearSystem,
        axes: Sequence[str],
        gains: Array,
        criterion: str,
        question: Question,
    ):
        self.system, self.gains = system, gains
        self.columns = [[axis.name for axis in system.axes].index(a) for a in axes]
        self.defaults = np.array([axis.default for axis in system.axes], np.float64)
        self.is_ratio, self.epsilon = criterion == "ratio", question.epsilon

    def on(self, low: Array, high: Array) -> dict[str, Any] | None:
        """Return the record of a box, or None where it must be cut.

        Args:
            low: its lower corner.
            high: its upper corner.
        """
        centre, reach = 0.5 * (low + high), 0.5 * (high - low)
        matrices = [m[0] for m in self._matrices(centre[None])]
        steps = np.maximum(1e-5 * np.maximum(np.abs(centre), reach), 1e-12)
        shifted = centre + np.concatenate([np.diag(steps), -np.diag(steps)])
        around = self._matrices(shifted)
        d = len(steps)
        slopes = [(m[:d] - m[d:]) / (2 * steps[:, None, None]) for m in around]
        try:
            S = self._lower(matrices, slopes)
            costs = [self._upper(matrices, slopes, K) for K in self.gains]
        except np.linalg.LinAlgError:
            return None
        covariance = self.system.initial_covariance
        best = np.inf, -1
        for k, P in enumerate(costs):
            if P is not None:
                best = min(best, (float((P[0][0] * covariance).sum()), k))
        if best[1] < 0:
            return None
        P = costs[best[1]]
        assert P is not None
        (P0, X), (S0, Y) = P, S
        upper, lower = ((Z[0] * covariance).sum() for Z in (P0, S0))
        allowed = lower * (1 + self.epsilon) if self.is_ratio else lower + self.epsilon
        slack = allowed / upper - 1
        if slack <= 0:
            return None
        # P is raised and S lowered, by a factor and by what costs x as much.
        share = SHARE * slack
        P1 = (1 + share / 2) * P0
        P1[0] += share / 2 * upper / (X * covariance).sum() * X
        S1 = (1 - share / 2) * S0
        S1[0] -= share / 2 * lower / (Y * covariance).sum() * Y
        P1, S1 = (0.5 * (Z + Z.swapaxes(1, 2)) for Z in (P1, S1))
        if not self._holds(centre, reach, P1, S1, self.gains[best[1]]):
            return None
        return {
            "low": low.tolist(),
            "high": high.tolist(),
            "gain": best[1],
            "P": P1.tolist(),
            "S": S1.tolist(),
        }

    def _matrices(self, rows: Array) -> list[Array]:
        """Return A, B, Q and R at some values of the moving axes."""
        contexts = np.tile(self.defaults, (len(rows), 1))
        contexts[:, self.columns] = rows
        return list(self.system.matrices(contexts))

    def _lyapunov(self, loop: Array, weight: Array) -> Array:
        """Solve FᵀP + PF + W = 0, or FᵀPF − P + W = 0."""
        if self.system.is_continuous:
            return solve_continuous_lyapunov(loop.T, -weight)
        return solve_discrete_lyapunov(loop.T, weight)

    def _upper(
        self, matrices: list[Array], slopes: list[Array], K: Array
    ) -> tuple[Array, Array] | None:
        """Return P with its slopes, and the cost of x itself; None if unstable."""
        A, B, Q, R = matrices
        loop = A - B @ K
        poles = np.linalg.eigvals(loop)
        size = (
            poles.real.max() if self.system.is_continuous else np.abs(poles).max() - 1
        )
        if size >= 0:
            return None
        P = [self._lyapunov(loop, Q + K.T @ R @ K)]
        for dA, dB, dQ, dR in zip(*slopes, strict=True):
            P.append(self._slope(loop, dA - dB @ K, P[0], dQ + K.T @ dR @ K))
        return np.array(P), self._lyapunov(loop, np.eye(len(A)))

    def _slope(self, loop: Array, dloop: Array, P: Array, dW: Array) -> Array:
        """Return the derivative of a Lyapunov solution."""
        if self.system.is_continuous:
            return self._lyapunov(loop, dloop.T @ P + P @ dloop + dW)
        return self._lyapunov(loop, dloop.T @ P @ loop + loop.T @ P @ dloop + dW)

    def _lower(self, matrices: list[Array], slopes: list[Array]) -> tuple[Array, Array]:
        """Return S with its slopes, and the cost of x itself in the best loop."""
        A, B, Q, R = matrices
        if self.system.is_continuous:
            S = solve_continuous_are(A, B, Q, R)
            K = np.linalg.solve(R, B.T @ S)
        else:
            S = solve_discrete_are(A, B, Q, R)
            K = np.linalg.solve(R + B.T @ S @ B, B.T @ S @ A)
        found = self._upper(matrices, slopes, K)
        if found is None:
            raise np.linalg.LinAlgError("The best loop is not stable.")
        # At the optimum the gain's own change does not matter to first order.
        return found

    def _holds(self, centre: Array, reach: Array, P: Array, S: Array, K: Array) -> bool:
        """Return whether the inequalities hold with room at corners and middles."""
        steps = np.array(list(product((-1.0, 0.0, 1.0), repeat=len(reach)))) * reach
        A, B, Q, R = self._matrices(centre + steps)
        P_at, S_at = (Z[0] + np.einsum("nk,kij->nij", steps, Z[1:]) for Z in (P, S))
        loop, weight = A - B @ K, Q + K.T @ R @ K
        side = S_at @ B
        if self.system.is_continuous:
            PF, SA = P_at @ loop, S_at @ A
            decrease = -(PF + PF.swapaxes(1, 2) + weight)
            corner, last = SA + SA.swapaxes(1, 2) + Q, R
        else:
            decrease = P_at - loop.swapaxes(1, 2) @ P_at @ loop - weight
            corner = A.swapaxes(1, 2) @ S_at @ A - S_at + Q
            side = A.swapaxes(1, 2) @ side
            last = B.swapaxes(1, 2) @ S_at @ B + R
        block = np.block([[corner, side], [side.swapaxes(1, 2), last]])
        if not all(_is_steady(X) for X in (P_at, decrease, block)):
            return False
        covariance = self.system.initial_covariance
        upper, lower = ((Z * covariance).sum((1, 2)) for Z in (P_at, S_at))
        allowed = lower * (1 + self.epsilon) if self.is_ratio else lower + self.epsilon
        return bool((upper < allowed).all())


def _is_steady(X: Array) -> bool:
    """Return whether matrices at points of a box stay near that of the centre."""
    try:
        T = np.linalg.inv(np.linalg.cholesky(X[len(X) // 2]))
    except np.linalg.LinAlgError:
        return False
    moved = T @ X @ T.T - np.eye(len(T))
    return bool(np.abs(moved).sum(2).max() < RESIDUAL)
