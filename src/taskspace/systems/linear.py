r"""Linear families: $\dot x = A(\theta) x + B(\theta) u$ with a quadratic cost."""

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.policies import LinearGain, Policy
from taskspace.systems.base import ContextAxis, Provenance, System
from taskspace.systems.lyapunov import closed_loop_cost

__all__ = ["LinearFamily", "LinearMatrices", "LinearSystem"]

RICCATI_DOUBLINGS = 60
RICCATI_DONE = 1e-12
MatrixOfContext = Callable[..., ArrayLike]


class LinearMatrices(NamedTuple):
    """The matrices of a linear family at some contexts, each `(context, …, …)`."""

    A: NDArray[np.float64]
    B: NDArray[np.float64]
    Q: NDArray[np.float64]
    R: NDArray[np.float64]


class LinearSystem(System):
    r"""Interface of linear families with a quadratic cost.

    $J(\theta, K) = -E \int_0^T x^\top Q x + u^\top R u \, dt$ for $u = -Kx$ and
    $E[x_0 x_0^\top] = X_0$; sums over steps in discrete time. With $T = \infty$ it
    is $-\mathrm{tr}(P X_0)$, $P$ from the Lyapunov equation of the closed loop, and
    −inf where the loop is unstable.
    """

    provenance: ClassVar[Provenance] = "exact"
    horizon: float

    @property
    @abstractmethod
    def is_continuous(self) -> bool:
        """Whether time is continuous, or counted in steps."""

    @property
    @abstractmethod
    def initial_covariance(self) -> NDArray[np.float64]:
        """X₀, the second moment of the initial state."""

    @abstractmethod
    def matrices(self, contexts: NDArray[np.float64]) -> LinearMatrices:
        """A, B, Q and R at each context row."""

    def performance(
        self, policies: Policy, contexts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """J of every gain at every context, dims `(source, policy, target)`."""
        gain = _gains(policies)
        cost = closed_loop_cost(
            np.ascontiguousarray(gain.reshape(-1, *gain.shape[2:])),
            *self.matrices(contexts),
            self.initial_covariance,
            self.is_continuous,
            float(self.horizon),
        )
        return -cost.reshape(*gain.shape[:2], len(contexts))

    def optimal_gain(
        self, contexts: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """K* of the infinite horizon from the Riccati equation, and where it exists.

        Args:
            contexts: full context rows, shape `(context, len(axes))`.

        Returns:
            Gains `(context, n_inputs, n_states)`, zero where the Riccati equation
            has no stabilising solution, and a mask of where it has one.
        """
        return riccati_gain(*self.matrices(contexts), continuous=self.is_continuous)

    def optimum(self, contexts: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """J of K*, the best of all policies; unknown for a finite horizon."""
        if np.isfinite(self.horizon):
            return None
        gains, _ = self.optimal_gain(contexts)
        return self.home_performance(LinearGain(gains[:, None]), contexts)[:, 0]


def riccati_gain(
    A: NDArray[np.float64],
    B: NDArray[np.float64],
    Q: NDArray[np.float64],
    R: NDArray[np.float64],
    *,
    continuous: bool,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """K* of many infinite-horizon LQR problems (u = −K x), and where it exists.

    The structure-preserving doubling algorithm (Chu, Fan & Lin 2005) on all
    problems at once: H converges quadratically to the stabilising solution P.

    Args:
        A: shape `(context, n_states, n_states)`.
        B: shape `(context, n_states, n_inputs)`.
        Q: shape `(context, n_states, n_states)`.
        R: shape `(context, n_inputs, n_inputs)`.
        continuous: continuous or discrete time.

    Returns:
        Gains `(context, n_inputs, n_states)`, zero where there is no stabilising
        solution, and a mask of where there is one.
    """
    eye = np.eye(A.shape[1])
    G = B @ np.linalg.solve(R, _transpose(B))
    with np.errstate(all="ignore"):
        if continuous:
            # Any shift > 0 will do; one of the size of A converges soonest.
            scale = np.sqrt(
                np.linalg.norm(G, axis=(1, 2)) * np.linalg.norm(Q, axis=(1, 2))
            )
            shift = (np.linalg.norm(A, axis=(1, 2)) + scale + 1e-300)[:, None, None]
            inverse = _invert(A - shift * eye)
            W = _invert(_transpose(A) - shift * eye + Q @ inverse @ G)
            E = eye + 2 * shift * _transpose(W)
            H = 2 * shift * W @ Q @ inverse
            G = 2 * shift * inverse @ G @ W
        else:
            E, H = A, Q
        for _ in range(RICCATI_DOUBLINGS):
            W = _invert(eye + G @ H)
            G, H, E = (
                G + E @ W @ G @ _transpose(E),
                H + _transpose(E) @ H @ W @ E,
                E @ W @ E,
            )
            G, H = (G + _transpose(G)) / 2, (H + _transpose(H)) / 2
            if not np.abs(E).max() > RICCATI_DONE:
                break
        if continuous:
            K = np.linalg.solve(R, _transpose(B) @ H)
        else:
            K = _invert(R + _transpose(B) @ H @ B) @ _transpose(B) @ H @ A
    finite = np.asarray(np.isfinite(K).all((1, 2)))
    K = np.where(finite[:, None, None], K, 0.0)
    roots = np.linalg.eigvals(A - B @ K)
    stable = roots.real.max(1) < 0 if continuous else abs(roots).max(1) < 1
    solved = finite & stable
    return np.where(solved[:, None, None], K, 0.0), solved


def _transpose(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.swapaxes(x, 1, 2)


def _invert(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Inverses, NaN where a matrix is singular or already NaN."""
    try:
        return np.asarray(np.linalg.inv(x), np.float64)
    except np.linalg.LinAlgError:
        out = np.full_like(x, np.nan)
        for i, matrix in enumerate(x):
            with contextlib.suppress(np.linalg.LinAlgError):
                out[i] = np.linalg.inv(matrix)
        return out


@dataclass(frozen=True, eq=False)
class LinearFamily(LinearSystem):
    """A linear family of one's own: functions of the context that give matrices.

    Args:
        context_axes: the parameters that the functions take, by name.
        A: function of the context giving A, as nested lists or an array.
        B: function of the context giving B.
        Q: state weight, symmetric and positive semidefinite, or a function.
        R: input weight, symmetric and positive definite, or a function.
        x0_covariance: second moment of the initial state; the identity if left out.
        time: `"continuous"` or `"discrete"`.
        horizon: time or number of steps; infinite by default.
        name: what to call it in reports.

    Example:
        >>> pendulum = LinearFamily(
        ...     context_axes=[ContextAxis("length", 1.0, "m", low=0.0, low_open=True)],
        ...     A=lambda length: [[0, 1], [9.81 / length, 0]],
        ...     B=lambda length: [[0], [1]],
        ...     Q=np.eye(2),
        ...     R=[[1.0]],
        ... )
        >>> gain, solved = pendulum.optimal_gain(np.array([[0.5], [2.0]]))
        >>> gain.shape, bool(solved.all())
        ((2, 1, 2), True)
    """

    context_axes: Sequence[ContextAxis]
    A: MatrixOfContext
    B: MatrixOfContext
    Q: MatrixOfContext | ArrayLike
    R: MatrixOfContext | ArrayLike
    x0_covariance: ArrayLike | None = None
    time: Literal["continuous", "discrete"] = "continuous"
    horizon: float = np.inf
    name: str = "linear family"
    id: ClassVar[str] = "linear-family"

    def __post_init__(self):
        if self.time not in ("continuous", "discrete"):
            raise UnknownNameError("time", self.time, ["continuous", "discrete"])
        check_horizon(self.horizon, continuous=self.is_continuous)
        default = np.array([[axis.default for axis in self.axes]])
        A, B, Q, R = self.matrices(default)
        n, m = B.shape[1:]
        for symbol, matrix, size in (
            ("A", A, (n, n)),
            ("Q", Q, (n, n)),
            ("R", R, (m, m)),
            ("x0_covariance", self.initial_covariance[None], (n, n)),
        ):
            if matrix.shape[1:] != size:
                raise InvalidInputError(
                    f"{symbol} must have shape {size} to fit B of shape {(n, m)}, "
                    f"but has {matrix.shape[1:]}."
                )

    @property
    def is_continuous(self) -> bool:
        """Whether `time` is `"continuous"`."""
        return self.time == "continuous"

    @property
    def axes(self) -> tuple[ContextAxis, ...]:
        """The context axes given by the user."""
        return tuple(self.context_axes)

    @property
    def initial_covariance(self) -> NDArray[np.float64]:
        """X₀; the identity unless given."""
        if self.x0_covariance is None:
            return np.eye(self._matrix("A", [axis.default for axis in self.axes])[1])
        return weight_matrix("x0_covariance", self.x0_covariance)

    def matrices(self, contexts: NDArray[np.float64]) -> LinearMatrices:
        """A, B, Q and R at each context row."""
        rows = contexts.tolist()
        A = np.stack([self._matrix("A", row)[0] for row in rows])
        B = np.stack([self._matrix("B", row)[0] for row in rows])
        weights = []
        for symbol, definite in (("Q", False), ("R", True)):
            given = getattr(self, symbol)
            if callable(given):
                checked = [
                    weight_matrix(symbol, self._matrix(symbol, row)[0], definite)
                    for row in rows
                ]
                weights.append(np.stack(checked))
            else:
                fixed = weight_matrix(symbol, given, definite)
                weights.append(np.broadcast_to(fixed, (len(rows), *fixed.shape)))
        return LinearMatrices(A, B, *map(np.ascontiguousarray, weights))

    def settings(self) -> dict[str, Any]:
        """What can be written down: functions cannot."""
        return {"name": self.name, "time": self.time, "horizon": self.horizon}

    def _matrix(self, symbol: str, row: list[float]) -> tuple[NDArray[Any], int]:
        context = dict(zip((axis.name for axis in self.axes), row, strict=True))
        matrix = np.array(getattr(self, symbol)(**context), dtype=np.float64)
        if matrix.ndim != 2 or not np.isfinite(matrix).all():
            raise InvalidInputError(
                f"{symbol}(context) must give a finite matrix, but at {context} it "
                f"gave {matrix.tolist()}."
            )
        return matrix, matrix.shape[0]


def weight_matrix(
    symbol: str, given: ArrayLike, definite: bool = False
) -> NDArray[np.float64]:
    """A symmetric positive semidefinite (or definite) matrix, checked.

    Args:
        symbol: name for the message.
        given: the matrix.
        definite: whether a zero eigenvalue is refused.
    """
    matrix = np.array(given, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InvalidInputError(
            f"{symbol} must be a square matrix, but has shape {matrix.shape}."
        )
    if not np.isfinite(matrix).all():
        raise InvalidInputError(f"{symbol} must be finite, got {matrix.tolist()}.")
    scale = np.abs(matrix).max(initial=0.0)
    if np.abs(matrix - matrix.T).max(initial=0.0) > 1e-10 * scale:
        raise InvalidInputError(f"{symbol} must be symmetric, got {matrix.tolist()}.")
    smallest = np.linalg.eigvalsh(matrix).min()
    if smallest < -1e-10 * scale or (definite and smallest <= 1e-14 * scale):
        kind = "definite" if definite else "semidefinite"
        raise InvalidInputError(
            f"{symbol} must be positive {kind}, but its smallest eigenvalue is "
            f"{smallest:g}."
        )
    return (matrix + matrix.T) / 2


def check_horizon(horizon: float, *, continuous: bool) -> None:
    """Refuse a horizon that is not positive, or not whole in discrete time."""
    whole = continuous or np.isinf(horizon) or horizon == int(horizon)
    if not horizon > 0 or not whole:
        kind = "a time" if continuous else "a whole number of steps"
        raise InvalidInputError(f"horizon must be {kind} > 0, got {horizon}.")


def _gains(policies: Policy) -> NDArray[np.float64]:
    if not isinstance(policies, LinearGain):
        raise InvalidInputError(
            "A linear system evaluates LinearGain policies, but got "
            f"{type(policies).__name__}."
        )
    return policies.gain
