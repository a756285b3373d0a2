"""Linear families of your own, stated by functions of the context."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from taskspace._util.arrays import Array
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.systems.base import ContextAxis
from taskspace.systems.linear.base import LinearSystem, check_horizon, weight_matrix
from taskspace.systems.linear.matrices import LinearMatrices

MatrixOfContext = Callable[..., ArrayLike]


@dataclass(frozen=True, eq=False)
class LinearFamily(LinearSystem):
    """A linear family of your own: functions of the context that give matrices.

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
        state_names: names of the states, in their order, with a unit in brackets if
            you like (`"speed [m/s]"`); x1, x2, … if left out.
        input_names: names of the inputs, likewise; u1, u2, … if left out.
        C: what is measured, y = C x, a matrix or a function; all states if left out.
            Only controllers (`LinearController`) act on it.
        output_names: names of the outputs, likewise; y1, y2, … if left out.
        D: direct part of what is measured, y = C x + D u, a matrix or a function; none
            if left out. Bounds over boxes are for plants without one.
        channel: B_w and C_z, matrices of numbers: disturbances enter as B_w w, and
            z = C_z x counts in the measure `channel_norm`.

    Examples:
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
    state_names: Sequence[str] | None = None
    input_names: Sequence[str] | None = None
    C: MatrixOfContext | ArrayLike | None = None
    output_names: Sequence[str] | None = None
    D: MatrixOfContext | ArrayLike | None = None
    channel: tuple[ArrayLike, ArrayLike] | None = None  # pyright: ignore
    id: ClassVar[str] = "linear-family"

    def __post_init__(self):
        default = np.array([[axis.default for axis in self.axes]])
        matrices = self.matrices(default)._asdict() | {"C": self.output_matrix(default)}
        self._check({name: stack.shape[1:] for name, stack in matrices.items()})
        direct, wanted = self.direct_matrix(default), matrices["C"][0].shape[0]
        if direct is not None and direct.shape[1:] != (wanted, matrices["B"].shape[2]):
            raise InvalidInputError(
                f"D must have shape {(wanted, matrices['B'].shape[2])}, one row per "
                f"output and one column per input, but has {direct.shape[1:]}."
            )
        if self.channel is not None:
            entry, exit_rows = (np.array(x, np.float64) for x in self.channel)
            n = len(matrices["A"][0])
            shapes = entry.shape[:1], exit_rows.shape[1:]
            if entry.ndim != 2 or exit_rows.ndim != 2 or shapes != ((n,), (n,)):
                raise InvalidInputError(
                    f"channel must be B_w with {n} rows and C_z with {n} columns, but "
                    f"they have shapes {entry.shape} and {exit_rows.shape}."
                )
            object.__setattr__(self, "channel", (entry, exit_rows))

    @property
    def states(self) -> tuple[str, ...]:
        """The names of the states; x1, x2, … unless given."""
        return super().states if self.state_names is None else tuple(self.state_names)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs; u1, u2, … unless given."""
        return super().inputs if self.input_names is None else tuple(self.input_names)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs; those of the states or y1, y2, … unless given."""
        if self.output_names is None:
            return super().outputs
        return tuple(self.output_names)

    @property
    def is_continuous(self) -> bool:
        """Whether `time` is `"continuous"`."""
        return self.time == "continuous"

    @property
    def axes(self) -> tuple[ContextAxis, ...]:
        """The context axes given by the user."""
        return tuple(self.context_axes)

    @property
    def initial_covariance(self) -> Array:
        """X₀; the identity unless given."""
        if self.x0_covariance is None:
            return np.eye(self._sizes[0])
        return weight_matrix("x0_covariance", self.x0_covariance)

    def settings(self) -> dict[str, Any]:
        """Return what can be written down: functions cannot."""
        return {"name": self.name, "time": self.time, "horizon": self.horizon}

    @property
    def varying_weights(self) -> tuple[str, ...]:
        """Which of Q and R are functions."""
        return tuple(symbol for symbol in "QR" if callable(getattr(self, symbol)))

    def matrices(self, contexts: Array) -> LinearMatrices:
        """Return A, B, Q and R at each context row."""
        rows = contexts.tolist()
        A = np.stack([self._matrix("A", row) for row in rows])
        B = np.stack([self._matrix("B", row) for row in rows])
        weights = []
        for symbol, definite in (("Q", False), ("R", True)):
            value = getattr(self, symbol)
            if callable(value):
                checked = [
                    weight_matrix(symbol, self._matrix(symbol, row), definite)
                    for row in rows
                ]
                weights.append(np.stack(checked))
            else:
                fixed = weight_matrix(symbol, value, definite)
                weights.append(np.broadcast_to(fixed, (len(rows), *fixed.shape)))
        return LinearMatrices(A, B, *map(np.ascontiguousarray, weights))

    def output_matrix(self, contexts: Array) -> Array:
        """C at each context row, the identity unless given."""
        if self.C is None:
            return super().output_matrix(contexts)
        return np.stack([self._matrix("C", row) for row in contexts.tolist()])

    def direct_matrix(self, contexts: Array) -> Array | None:
        """D at each context row, None unless given."""
        if self.D is None:
            return None
        return np.stack([self._matrix("D", row) for row in contexts.tolist()])

    def _check(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Refuse settings that do not fit each other.

        Args:
            shapes: of A, B, Q and R, and of C.
        """
        if self.time not in ("continuous", "discrete"):
            raise UnknownNameError("time", self.time, ["continuous", "discrete"])
        check_horizon(self.horizon, continuous=self.is_continuous)
        n, m = shapes["B"]
        start = (n, n) if self.x0_covariance is None else self.initial_covariance.shape
        for symbol, shape, wanted in (
            ("A", shapes["A"], (n, n)),
            ("Q", shapes["Q"], (n, n)),
            ("R", shapes["R"], (m, m)),
            ("x0_covariance", start, (n, n)),
            ("C", shapes["C"], (shapes["C"][0], n)),
        ):
            if shape != wanted:
                raise InvalidInputError(
                    f"{symbol} must have shape {wanted} to fit B of shape {(n, m)}, "
                    f"but has {shape}."
                )
        _check_names("state", self.state_names, n)
        _check_names("input", self.input_names, m)
        _check_names("output", self.output_names, shapes["C"][0])

    def _matrix(self, symbol: str, row: list[float]) -> Array:
        context = dict(zip((axis.name for axis in self.axes), row, strict=True))
        value = getattr(self, symbol)
        entries = value(**context) if callable(value) else value
        matrix = np.array(entries, dtype=np.float64)
        if matrix.ndim != 2 or not np.isfinite(matrix).all():
            raise InvalidInputError(
                f"{symbol}(context) must give a finite matrix, but at {context} it "
                f"gave {matrix.tolist()}."
            )
        return matrix


def _check_names(what: str, names: Sequence[str] | None, n: int) -> None:
    """Refuse names of states or inputs that are not as many, or not different.

    Args:
        what: `"state"` or `"input"`.
        names: the names, None for the default ones.
        n: how many there must be.
    """
    if names is None:
        return
    if isinstance(names, str) or len(names) != n or len(set(names)) < n:
        raise InvalidInputError(
            f"{what}_names must be {n} different names, one per {what}, but got "
            f"{names!r}."
        )
