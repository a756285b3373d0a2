"""Linear families stated by coefficients, with parameters lifted from the context.

For a plant whose code cannot be followed (a table of tyre data, a matrix exponential),
or whose dependence is simply known: `A = A_0 + v A_1 + (1/v) A_2`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.systems.base import ContextAxis
from taskspace.systems.linear.base import weight_matrix
from taskspace.systems.linear.family import StatedFamily
from taskspace.systems.linear.matrices import LinearMatrices
from taskspace.systems.linear.tracing.following import follow
from taskspace.systems.linear.tracing.symbols import AXIS, ENCLOSED, Symbol, Tape
from taskspace.systems.linear.tracing.traced import (
    ASSUMPTION,
    Trace,
    call_with_symbols,
    entries,
    finish_trace,
)

# Widening of stated bounds, for the rounding of the user's own code.
WIDEN = 1e-12


@dataclass(frozen=True)
class Enclosed:
    """A parameter that is no formula: its value, and bounds on it over boxes.

    What is proven with it holds if the bounds do. They are compared with the value
    at the boxes' centres.

    Args:
        value: function of the context, by name, giving a number.
        bounds: function of two dicts, the lower and the upper corners of boxes, by name
            and each an array; gives the arrays of lower and upper bounds.

    Examples:
        A table of a quantity that grows with the speed:

        >>> speeds, stiffness = [0.0, 10.0, 30.0], [4.0, 5.0, 9.0]
        >>> tyre = Enclosed(
        ...     value=lambda speed: np.interp(speed, speeds, stiffness),
        ...     bounds=lambda low, high: (
        ...         np.interp(low["speed"], speeds, stiffness),
        ...         np.interp(high["speed"], speeds, stiffness),
        ...     ),
        ... )
        >>> float(tyre.value(speed=20.0))
        7.0
    """

    value: Callable[..., float]
    bounds: Callable[[dict[str, Any], dict[str, Any]], tuple[Any, Any]]


@dataclass(frozen=True, eq=False)
class AffineFamily(StatedFamily):
    """A linear family given by the coefficients of its matrices.

    Each matrix is a sum of terms: a product of parameters times a constant matrix. The
    key of a term names the parameters with `*` between them (`"v*v"`), `""` is the
    constant term. A parameter is a context axis or one of `parameters`.

    Args:
        context_axes: the context.
        A: terms of A, by key; B, Q and R likewise. A plain matrix is constant.
        B: terms of B.
        Q: terms of the state weight.
        R: terms of the input weight.
        parameters: lifted parameters, by name: functions of the context, or `Enclosed`.
        x0_covariance: second moment of the initial state; the identity if left out.
        time: `"continuous"` or `"discrete"`.
        horizon: time or number of steps; infinite by default.
        name: what to call it in reports.
        state_names: names of the states, in their order; x1, x2, … if left out.
        input_names: names of the inputs, likewise; u1, u2, … if left out.
        C: terms of what is measured, y = C x; all states if left out.
        output_names: names of the outputs, likewise; y1, y2, … if left out.

    Examples:
        >>> car = AffineFamily(
        ...     context_axes=[ContextAxis("v", 20.0, "m/s", low=0.0, low_open=True)],
        ...     A={"1/v": [[-80.0, 0.0], [0.0, -90.0]], "v": [[0, -0.05], [0, 0]]},
        ...     B=[[50.0], [30.0]],
        ...     Q=np.eye(2),
        ...     R=[[1.0]],
        ...     parameters={"1/v": lambda v: 1 / v},
        ... )
        >>> car.matrices(np.array([[10.0]])).A[0].tolist()
        [[-8.0, -0.5], [0.0, -9.0]]
    """

    context_axes: Sequence[ContextAxis]
    A: Mapping[str, ArrayLike] | ArrayLike
    B: Mapping[str, ArrayLike] | ArrayLike
    Q: Mapping[str, ArrayLike] | ArrayLike
    R: Mapping[str, ArrayLike] | ArrayLike
    parameters: Mapping[str, Callable[..., Any] | Enclosed] = field(
        default_factory=dict
    )
    x0_covariance: ArrayLike | None = None
    time: Literal["continuous", "discrete"] = "continuous"
    horizon: float = np.inf
    name: str = "affine family"
    state_names: Sequence[str] | None = None
    input_names: Sequence[str] | None = None
    C: Mapping[str, ArrayLike] | ArrayLike | None = None
    output_names: Sequence[str] | None = None
    id: ClassVar[str] = "affine-family"

    def __post_init__(self):
        allowed = [axis.name for axis in self.axes] + list(self.parameters)
        shapes = {}
        for symbol in "ABQRC":
            for names, matrix in self._terms(symbol):
                for name in names:
                    if name not in allowed:
                        raise UnknownNameError(f"parameter of {symbol}", name, allowed)
                shapes.setdefault(symbol, matrix.shape)
                if matrix.ndim != 2 or matrix.shape != shapes[symbol]:
                    raise InvalidInputError(
                        f"All terms of {symbol} must be matrices of one shape, but "
                        f"there are {shapes[symbol]} and {matrix.shape}."
                    )
        self._check(shapes)

    @property
    def varying_weights(self) -> tuple[str, ...]:
        """Which of Q and R have terms with a parameter."""
        return tuple(x for x in "QR" if any(names for names, _ in self._terms(x)))

    def matrices(self, contexts: Array) -> LinearMatrices:
        """Return A, B, Q and R at each context row."""
        stacks = self._stacks("ABQR", contexts)
        for symbol in "QR":
            definite = symbol == "R"
            stacks[symbol] = np.array(
                [weight_matrix(symbol, x, definite) for x in stacks[symbol]]
            )
        return LinearMatrices(**stacks)

    def output_matrix(self, contexts: Array) -> Array:
        """C at each context row, the identity unless given."""
        return self._stacks("C", contexts)["C"]

    def _stacks(self, symbols: str, contexts: Array) -> dict[str, Array]:
        values = [self._parameters(row) for row in contexts.tolist()]
        stacks = {}
        for symbol in symbols:
            terms = self._terms(symbol)
            stack = np.zeros((len(values), *terms[0][1].shape))
            for names, matrix in terms:
                factor = [np.prod([row[name] for name in names]) for row in values]
                stack += np.array(factor).reshape(-1, 1, 1) * matrix
            stacks[symbol] = stack
        return stacks

    def stated_trace(self) -> Trace:
        """Return the dependence on the context, as stated."""
        tape = Tape()
        context = {
            axis.name: Symbol(tape, tape.add(AXIS, i))
            for i, axis in enumerate(self.axes)
        }
        symbols: dict[str, Any] = dict(context)
        enclosed = []
        for name, parameter in self.parameters.items():
            if isinstance(parameter, Enclosed):
                symbols[name] = Symbol(tape, tape.add(ENCLOSED, len(enclosed)))
                enclosed.append(_BoxParameter(name, parameter, tuple(context)))
            else:
                what = f"The parameter {name!r}"
                function = follow(parameter)
                symbols[name] = call_with_symbols(tape, what, function, **context)
        places = {
            symbol: call_with_symbols(tape, symbol, self._places, tape, symbol, symbols)
            for symbol in "ABQRC"
        }
        has_code = len(self.parameters) > len(enclosed)
        return finish_trace(
            tape, places, tuple(enclosed), ASSUMPTION if has_code else ""
        )

    def _places(
        self, tape: Tape, symbol: str, symbols: Mapping[str, Any]
    ) -> NDArray[np.int64]:
        """Where the entries of a matrix are on the tape."""
        terms = self._terms(symbol)
        total = np.zeros(terms[0][1].shape, object)
        for names, matrix in terms:
            factor: Any = 1.0
            for name in names:
                factor = symbols[name] * factor
            # Zeros stay zeros: an entry must not depend on what it does not.
            for index in np.argwhere(matrix != 0.0):
                i, j = index.tolist()
                total[i, j] = total[i, j] + factor * float(matrix[i, j])
        return entries(tape, symbol, total, terms[0][1].shape)

    def _terms(self, symbol: str) -> list[tuple[tuple[str, ...], Array]]:
        value = getattr(self, symbol)
        if symbol == "C" and value is None:
            value = np.eye(self._terms("A")[0][1].shape[0])
        terms = value if isinstance(value, Mapping) else {"": value}
        return [
            (
                tuple(part.strip() for part in key.split("*")) if key.strip() else (),
                np.array(matrix, dtype=np.float64),
            )
            for key, matrix in terms.items()
        ]

    def _parameters(self, row: Sequence[float]) -> dict[str, float]:
        context = dict(zip((axis.name for axis in self.axes), row, strict=True))
        values = dict(context)
        for name, parameter in self.parameters.items():
            function = parameter.value if isinstance(parameter, Enclosed) else parameter
            values[name] = float(function(**context))
            if not np.isfinite(values[name]):
                raise InvalidInputError(
                    f"The parameter {name!r} must be finite, but at {context} it is "
                    f"{values[name]}."
                )
        return values


@dataclass(frozen=True)
class _BoxParameter:
    """An `Enclosed` parameter on rows of contexts."""

    name: str
    given: Enclosed
    axes: tuple[str, ...]

    def value(self, row: Sequence[float]) -> float:
        return float(self.given.value(**dict(zip(self.axes, row, strict=True))))

    def bounds(self, low: Array, high: Array) -> Array:
        """Lower and upper bounds on each box, checked at its centre, `(box, 2)`."""
        corners = [
            {name: rows[:, i] for i, name in enumerate(self.axes)}
            for rows in (low, high)
        ]
        found = np.empty((len(low), 2))
        found[:, 0], found[:, 1] = self.given.bounds(*corners)
        found += WIDEN * np.abs(found).max(1, keepdims=True) * [-1.0, 1.0]
        centre = np.clip(0.5 * low + 0.5 * high, low, high)
        values = np.array([self.value(row) for row in centre.tolist()])
        wrong = ~((found[:, 0] <= values) & (values <= found[:, 1]))
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            context = dict(zip(self.axes, centre[i].tolist(), strict=True))
            raise InvalidInputError(
                f"The bounds of the parameter {self.name!r} must hold its value, but "
                f"at {context} it is {values[i]:.17g} and they are {found[i].tolist()}."
            )
        return found
