"""Linear families of your own: by functions of the context, at points, in rates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from taskspace._util.arrays import Array
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.spaces import Space
from taskspace.systems.base import ContextAxis
from taskspace.systems.linear.base import LinearSystem, weight_matrix
from taskspace.systems.linear.kernels.lyapunov import LinearMatrices

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
        name: what to call it in reports.
        state_names: names of the states, in their order, with a unit in brackets if
            you like (`"speed [m/s]"`); x1, x2, … if left out.
        input_names: names of the inputs, likewise; u1, u2, … if left out.
        C: what is measured, y = C x, a matrix or a function; all states if left out.
            Only controllers (`LinearController`) act on it.
        output_names: names of the outputs, likewise; y1, y2, … if left out.
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
    name: str = "linear family"
    state_names: Sequence[str] | None = None
    input_names: Sequence[str] | None = None
    C: MatrixOfContext | ArrayLike | None = None
    output_names: Sequence[str] | None = None
    channel: tuple[ArrayLike, ArrayLike] | None = None  # pyright: ignore
    id: ClassVar[str] = "linear-family"

    def __post_init__(self):
        if self.time not in ("continuous", "discrete"):
            raise UnknownNameError("time", self.time, ["continuous", "discrete"])
        default = self.defaults
        A, B, Q, R = (matrix[0] for matrix in self.matrices(default))
        C, start = self.output_matrix(default)[0], self.initial_covariance
        n, m = B.shape
        for symbol, matrix, wanted in (
            ("A", A, (n, n)),
            ("Q", Q, (n, n)),
            ("R", R, (m, m)),
            ("x0_covariance", start, (n, n)),
            ("C", C, (len(C), n)),
        ):
            if matrix.shape != wanted:
                raise InvalidInputError(
                    f"{symbol} must have shape {wanted} to fit B of shape {(n, m)}, "
                    f"but has {matrix.shape}."
                )
        for what, names, count in (
            ("state", self.state_names, n),
            ("input", self.input_names, m),
            ("output", self.output_names, len(C)),
        ):
            if names is None:
                continue
            if isinstance(names, str) or len(names) != count or len({*names}) < count:
                raise InvalidInputError(
                    f"{what}_names must be {count} different names, one per {what}, "
                    f"but got {names!r}."
                )
        if self.channel is not None:
            entry, exit_rows = (np.array(x, np.float64) for x in self.channel)
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
        return {"name": self.name, "time": self.time}

    @property
    def varying_weights(self) -> tuple[str, ...]:
        """Which of Q and R are functions."""
        return tuple(symbol for symbol in "QR" if callable(getattr(self, symbol)))

    def matrices(self, contexts: Array) -> LinearMatrices:
        """Return A, B, Q and R at each context row."""
        stacks = []
        for symbol in "ABQR":
            varies = callable(getattr(self, symbol))
            rows = (contexts if varies else contexts[:1]).tolist()
            found = [self._matrix(symbol, row) for row in rows]
            if symbol in "QR":
                found = [weight_matrix(symbol, m, symbol == "R") for m in found]
            stack = np.stack(found)
            stack = np.broadcast_to(stack, (len(contexts), *stack.shape[1:]))
            stacks.append(np.ascontiguousarray(stack))
        return LinearMatrices(*stacks)

    def output_matrix(self, contexts: Array) -> Array:
        """C at each context row, the identity unless given."""
        if self.C is None:
            return super().output_matrix(contexts)
        return np.stack([self._matrix("C", row) for row in contexts.tolist()])

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


def points_family(
    points: Space,
    A: ArrayLike,
    B: ArrayLike,
    *,
    Q: ArrayLike,
    R: ArrayLike,
    C: ArrayLike | None = None,
    x0_covariance: ArrayLike | None = None,
    time: Literal["continuous", "discrete"] = "continuous",
    name: str = "plant at operating points",
) -> LinearFamily:
    """Return a linear family that is known at some contexts, and nowhere else.

    Linearisations of a simulator. Covers, profiles and libraries are about these
    points; between them nothing is known, so there are no proofs over boxes, and other
    contexts are refused.

    Args:
        points: the contexts, in the order of the matrices.
        A: shape `(point, n_states, n_states)`; B and C likewise, or one matrix for all.
        B: see A.
        Q: state weight.
        R: input weight.
        C: what is measured; all states if left out.
        x0_covariance: second moment of the initial state; the identity if left out.
        time: `"continuous"` or `"discrete"`.
        name: what to call it in reports.

    Example:
        >>> from taskspace.spaces import Points
        >>> speeds = Points(("speed",), [[10.0], [20.0]])
        >>> plant = points_family(
        ...     speeds, A=[[[-1.0]], [[-2.0]]], B=[[1.0]], Q=[[1.0]], R=[[1.0]]
        ... )
        >>> plant.matrices(np.array([[20.0]])).A[0].tolist()
        [[-2.0]]
    """
    from taskspace.systems.linear.tracing.symbols import Symbol
    from taskspace.systems.linear.tracing.traced import UntraceableError

    rows = {tuple(row): i for i, row in enumerate(points.points.tolist())}
    if len(rows) < points.size:
        raise InvalidInputError("Operating points must differ, but some are the same.")

    def looked_up(symbol: str, given: ArrayLike) -> MatrixOfContext:
        stack = np.array(given, np.float64)
        if stack.ndim == 2:
            stack = np.broadcast_to(stack, (points.size, *stack.shape))
        if stack.ndim != 3 or len(stack) != points.size:
            raise InvalidInputError(
                f"{symbol} must hold one matrix per point, {points.size} in all, or "
                f"one for all, but has shape {stack.shape}."
            )

        def at(**context: float) -> Array:
            if any(isinstance(value, Symbol) for value in context.values()):
                raise UntraceableError(
                    f"The plant is known at {points.size} points only, so nothing is "
                    "said of what lies between them."
                )
            row = tuple(float(context[axis]) for axis in points.names)
            if row not in rows:
                raise InvalidInputError(
                    f"The plant is known at {points.size} operating points, but not "
                    f"at {context}. Use these points as sources and targets."
                )
            return stack[rows[row]]

        return at

    defaults = zip(points.names, points.points[0].tolist(), strict=True)
    return LinearFamily(
        [ContextAxis(name, default) for name, default in defaults],
        A=looked_up("A", A),
        B=looked_up("B", B),
        Q=Q,
        R=R,
        x0_covariance=x0_covariance,
        time=time,
        name=name,
        C=None if C is None else looked_up("C", C),
    )


@dataclass(frozen=True, eq=False)
class RateForm(LinearFamily):
    """A plant in rates, made by `rate_form`; takes `Pi` and `Pid` as they are."""

    id: ClassVar[str] = "rate-form"
    is_in_rates: ClassVar[bool] = True


def rate_form(
    plant: LinearFamily,
    *,
    output_weight: ArrayLike,
    disturbance: ArrayLike | None = None,
    set_point: float = 1.0,
) -> RateForm:
    r"""Return a plant in rates, for controllers with integral action.

    A step moves the state in which a plant rests, and a cost of states and inputs that
    do not go to zero is infinite. Their rates do go to zero, and so does the error y of
    a loop with integral action. So the plant is written in $(\dot x, y)$ with the
    input $\dot u$: $\ddot x = A \dot x + B \dot u$, $\dot y = C \dot x$,
    $J = -\int y^\top W y + \dot u^\top R \dot u$.

    A set point that jumps by 1 is $y(0) = -1$; a disturbance d that jumps, entering as
    $\dot x = A x + B u + E d$, is $\dot x(0) = E$. A PI controller is static feedback
    of $(\dot y, y)$ here, $\dot u = -(K_p \dot y + K_i y)$, with the set-point weight
    0, and the best feedback of the whole state is the LQR with integral action.

    Args:
        plant: in continuous time, with C; R weighs the rates of its inputs, and its Q
            and initial covariance are not used.
        output_weight: W, weight of the outputs, a number or a matrix.
        disturbance: E, how disturbances that jump by 1 enter, a matrix with as many
            rows as the plant has states; none if left out.
        set_point: how far each set point jumps; 0 for none.

    Example:
        >>> plant = LinearFamily(
        ...     [ContextAxis("k", 1.0)],
        ...     A=lambda k: [[-k]],
        ...     B=lambda k: [[1.0]],
        ...     Q=[[1.0]],
        ...     R=[[0.1]],
        ... )
        >>> servo = rate_form(plant, output_weight=1.0)
        >>> servo.matrices(np.array([[2.0]])).A[0].tolist()
        [[-2.0, 0.0], [1.0, 0.0]]
    """
    if not isinstance(plant, LinearFamily) or not plant.is_continuous:
        raise InvalidInputError(
            "rate_form takes a LinearFamily in continuous time, but got "
            f"{type(plant).__name__}."
        )
    p, n = plant.output_matrix(plant.defaults).shape[1:]
    m = plant.matrices(plant.defaults).B.shape[2]
    weight = np.array(output_weight, np.float64)
    W = weight_matrix("output_weight", weight if weight.ndim else weight * np.eye(p))
    entry = np.zeros((n, 1)) if disturbance is None else np.array(disturbance, float)
    if entry.ndim != 2 or len(entry) != n or W.shape != (p, p):
        raise InvalidInputError(
            f"disturbance must have {n} rows and output_weight shape {(p, p)}, but got "
            f"{entry.shape} and {W.shape}."
        )
    whole = np.zeros((n + p, n + p))
    whole[:n, :n] = entry @ entry.T
    whole[n:, n:] = set_point**2 * np.eye(p)
    Q = np.zeros((n + p, n + p))
    Q[n:, n:] = W
    errors = [f"error of {y}" for y in plant.outputs]
    given_A, given_B = _function(plant.A), _function(plant.B)
    given_C = _function(np.eye(n) if plant.C is None else plant.C)

    def A(**context: Any) -> Any:
        top = np.hstack([np.array(given_A(**context)), np.zeros((n, p))])
        bottom = np.hstack([np.array(given_C(**context)), np.zeros((p, p))])
        return np.vstack([top, bottom])

    def B(**context: Any) -> Any:
        return np.vstack([np.array(given_B(**context)), np.zeros((p, m))])

    def C(**context: Any) -> Any:
        top = np.hstack([np.array(given_C(**context)), np.zeros((p, p))])
        bottom = np.hstack([np.zeros((p, n)), np.eye(p)])
        return np.vstack([top, bottom])

    return RateForm(
        plant.context_axes,
        A=A,
        B=B,
        Q=Q,
        R=plant.R,
        x0_covariance=whole,
        name=f"{plant.name}, in rates",
        state_names=[*(f"rate of {x}" for x in plant.states), *errors],
        input_names=[f"rate of {u}" for u in plant.inputs],
        C=C,
        output_names=[*(f"rate of {y}" for y in plant.outputs), *errors],
    )


def _function(value: Any) -> Callable[..., Any]:
    """Return a matrix as a function of the context."""
    if callable(value):
        return value
    matrix = np.array(value, np.float64)
    return lambda **context: matrix
