"""How the matrices of a linear family depend on the context, found from its own code.

The functions of a family are called once with symbols in place of numbers. Every
operation on a symbol is written down, so what comes back is a program of +, −, ·, /
and a few functions, a `Trace`, that can be evaluated on whole boxes of contexts with
proven error bounds (`taskspace.certificates.rigor`).

Inside the followed functions NumPy makes arrays that can hold symbols, so
`A = np.zeros((4, 4)); A[2, 1] = k / m` works as it stands, and so do helper functions,
`math.sqrt` and `control.ss`. What has no formula (a table look-up, `np.linalg`, a
branch on the context) is refused with a sentence. A trace is compared with the numbers
that the family itself gives, at random contexts, before anything is proven from it.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.systems.following import follow
from taskspace.systems.linear import LinearFamily, LinearSystem

__all__ = ["Trace", "UntraceableError", "check_trace", "trace_matrices"]

CONSTANT, AXIS, ADD, SUBTRACT, MULTIPLY, DIVIDE, NEGATE = range(7)
SQUARE_ROOT, EXPONENTIAL, LOGARITHM, SINE, COSINE, ENCLOSED = range(7, 13)
FUNCTIONS = {
    "sqrt": (SQUARE_ROOT, math.sqrt),
    "exp": (EXPONENTIAL, math.exp),
    "log": (LOGARITHM, math.log),
    "sin": (SINE, math.sin),
    "cos": (COSINE, math.cos),
}
# The trace and the family compute the same formula in another order, so they differ
# by rounding only; a missed dependence differs by far more.
AGREEMENT = 1e-9
MAX_POWER = 64
MAX_NODES = 200_000


class UntraceableError(InvalidInputError):
    """The dependence of a family on its context cannot be found from its code."""


def _refuse(what: str) -> NoReturn:
    raise UntraceableError(
        f"The dependence on the context cannot be followed through {what}: only +, -, "
        "*, /, powers, sqrt, exp, log, sin, cos and tan of the context can. State the "
        "matrices as taskspace.systems.AffineFamily, with an enclosure for what is no "
        "formula."
    )


class Tape:
    """The operations on symbols, in the order in which they were made."""

    def __init__(self):
        self.nodes: list[tuple[int, int, int, float]] = []
        self.known: dict[tuple[int, int, int, float], int] = {}

    def add(self, op: int, left: int = 0, right: int = 0, value: float = 0.0) -> int:
        """The place of an operation, written down unless it was already.

        Args:
            op: code of the operation.
            left: place of its first operand.
            right: place of its second operand, where it has one.
            value: the number of a constant.
        """
        node = (op, left, right, value)
        if node not in self.known:
            if len(self.nodes) >= MAX_NODES:
                _refuse(f"more than {MAX_NODES} operations")
            self.known[node] = len(self.nodes)
            self.nodes.append(node)
        return self.known[node]

    def constant(self, value: Any) -> int:
        """The place of a number; one that no float equals gets an error bound.

        Args:
            value: the number, or what `float` makes one of.
        """
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            _refuse(f"an object of type {type(value).__name__}")
        if not math.isfinite(number):
            _refuse(f"the number {number}")
        return self.add(CONSTANT, 0, int(number != value), number)


class Symbol:
    """A number that is not known yet: a function of the context."""

    __slots__ = ("index", "tape")
    __array_priority__ = 1000

    def __init__(self, tape: Tape, index: int):
        self.tape, self.index = tape, index

    def _number(self) -> float | None:
        op, _, inexact, value = self.tape.nodes[self.index]
        return value if op == CONSTANT and not inexact else None

    def _other(self, other: Any) -> "Symbol":
        if isinstance(other, Symbol):
            return other
        return Symbol(self.tape, self.tape.constant(other))

    def _make(self, op: int, left: "Symbol", right: "Symbol") -> "Symbol":
        x, y = left._number(), right._number()
        # Exact simplifications; a skipped operand stays on the tape, so that a
        # division by zero in it is still noticed.
        if op == ADD and x == 0:
            return right
        if op in (ADD, SUBTRACT) and y == 0:
            return left
        if op == MULTIPLY and (x == 0 or y == 0):
            return self._other(0.0)
        if op == MULTIPLY and x == 1:
            return right
        if op in (MULTIPLY, DIVIDE) and y == 1:
            return left
        return Symbol(self.tape, self.tape.add(op, left.index, right.index))

    def _binary(self, op: int, other: Any, *, swap: bool = False) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        symbol = self._other(other)
        return self._make(op, symbol, self) if swap else self._make(op, self, symbol)

    def __add__(self, other: Any) -> Any:
        return self._binary(ADD, other)

    def __radd__(self, other: Any) -> Any:
        return self._binary(ADD, other, swap=True)

    def __sub__(self, other: Any) -> Any:
        return self._binary(SUBTRACT, other)

    def __rsub__(self, other: Any) -> Any:
        return self._binary(SUBTRACT, other, swap=True)

    def __mul__(self, other: Any) -> Any:
        return self._binary(MULTIPLY, other)

    def __rmul__(self, other: Any) -> Any:
        return self._binary(MULTIPLY, other, swap=True)

    def __truediv__(self, other: Any) -> Any:
        return self._binary(DIVIDE, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._binary(DIVIDE, other, swap=True)

    def __neg__(self) -> "Symbol":
        return Symbol(self.tape, self.tape.add(NEGATE, self.index))

    def __pos__(self) -> "Symbol":
        return self

    def __pow__(self, power: Any) -> Any:
        if isinstance(power, np.ndarray):
            return NotImplemented
        if isinstance(power, Symbol):
            if power._number() is None:
                return (power * self.log()).exp()
            power = power._number()
        number = float(power)
        if number == 0.5:
            return self.sqrt()
        if number != int(number) or abs(number) > MAX_POWER:
            return (number * self.log()).exp()
        result, square, left = self._other(1.0), self, abs(int(number))
        while left:
            if left & 1:
                result = result * square
            left >>= 1
            if left:
                square = square * square
        return result if number >= 0 else 1.0 / result

    def __rpow__(self, base: Any) -> Any:
        if isinstance(base, np.ndarray):
            return NotImplemented
        return (self * self._other(base).log()).exp()

    def _unary(self, name: str) -> "Symbol":
        return Symbol(self.tape, self.tape.add(FUNCTIONS[name][0], self.index))

    def sqrt(self) -> "Symbol":
        """Square root."""
        return self._unary("sqrt")

    def exp(self) -> "Symbol":
        """Exponential."""
        return self._unary("exp")

    def log(self) -> "Symbol":
        """Natural logarithm."""
        return self._unary("log")

    def sin(self) -> "Symbol":
        """Sine."""
        return self._unary("sin")

    def cos(self) -> "Symbol":
        """Cosine."""
        return self._unary("cos")

    def tan(self) -> "Symbol":
        """Tangent."""
        return self.sin() / self.cos()

    def square(self) -> "Symbol":
        """Square."""
        return self * self

    def reciprocal(self) -> "Symbol":
        """One over it."""
        return 1.0 / self

    def conjugate(self) -> "Symbol":
        """The same: contexts are real."""
        return self

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any):
        if method != "__call__" or options.get("out") is not None:
            _refuse(f"np.{ufunc.__name__}.{method} into an array of numbers")
        arrays = [_objects(x) for x in inputs]
        try:
            result = ufunc(*arrays, dtype=object)
        except UntraceableError:
            raise
        except (TypeError, AttributeError):
            _refuse(f"np.{ufunc.__name__}")
        return result[()] if isinstance(result, np.ndarray) else result

    def _no_number(self, *_: Any) -> NoReturn:
        _refuse(
            "a conversion to a plain number (float(), int(), dtype=float, np.interp)"
        )

    def _no_branch(self, *_: Any) -> NoReturn:
        _refuse("a comparison or a branch (if, max, abs, np.where, np.clip)")

    def _no_lookup(self, *_: Any) -> NoReturn:
        _refuse("a look-up by the context (a dict, a cache)")

    __float__ = __int__ = __index__ = __complex__ = __round__ = _no_number
    __floor__ = __ceil__ = __trunc__ = __floordiv__ = __mod__ = _no_number
    __bool__ = __lt__ = __le__ = __gt__ = __ge__ = __abs__ = _no_branch
    __eq__ = __ne__ = _no_branch  # pyright: ignore
    __hash__ = _no_lookup  # pyright: ignore


def _objects(value: Any) -> NDArray[Any]:
    if isinstance(value, np.ndarray):
        return value.astype(object)
    box = np.empty((), object)
    # A NumPy number would call its ufunc on the symbol again, and again.
    box[()] = value.item() if isinstance(value, np.generic) else value
    return box


@dataclass(frozen=True, eq=False)
class Trace:
    """The matrices of a family as a program on the context.

    Args:
        op: what each step does; see the constants of this module.
        left: place of its first operand; of `AXIS` the axis, of `ENCLOSED` which.
        right: place of its second operand; of `CONSTANT` 1 if no float equals it.
        value: of `CONSTANT`.
        A: place of each entry, `(n_states, n_states)`; B, Q and R likewise.
        B: see A.
        Q: see A.
        R: see A.
        enclosures: for each `ENCLOSED` parameter, its value at a context and bounds
            on a box, see `taskspace.systems.affine.Enclosed`.
    """

    op: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    value: NDArray[np.float64]
    A: NDArray[np.int64]
    B: NDArray[np.int64]
    Q: NDArray[np.int64]
    R: NDArray[np.int64]
    enclosures: tuple[Any, ...] = ()

    def at(self, context: Iterable[float]) -> list[NDArray[np.float64]]:
        """A, B, Q and R at one context, in plain floating point.

        Args:
            context: value of every axis.
        """
        row = [float(x) for x in context]
        x: list[float] = []
        for op, i, j, value in zip(
            self.op.tolist(),
            self.left.tolist(),
            self.right.tolist(),
            self.value.tolist(),
            strict=True,
        ):
            if op == CONSTANT:
                x.append(value)
            elif op == AXIS:
                x.append(row[i])
            elif op == ENCLOSED:
                x.append(float(self.enclosures[i].value(row)))
            elif op == ADD:
                x.append(x[i] + x[j])
            elif op == SUBTRACT:
                x.append(x[i] - x[j])
            elif op == MULTIPLY:
                x.append(x[i] * x[j])
            elif op == DIVIDE:
                x.append(x[i] / x[j] if x[j] else math.nan)
            elif op == NEGATE:
                x.append(-x[i])
            else:
                function = next(f for code, f in FUNCTIONS.values() if code == op)
                try:
                    x.append(function(x[i]))
                except (ValueError, OverflowError):
                    x.append(math.nan)
        values = np.array(x)
        return [values[m] for m in (self.A, self.B, self.Q, self.R)]


def trace_matrices(system: LinearSystem) -> Trace:
    """The dependence of a linear family's matrices on the context.

    Args:
        system: any `LinearSystem`: its functions, or its method `matrices`, are called
            once with symbols.

    Returns:
        The program; what cannot be followed raises `UntraceableError`.
    """
    stated = getattr(system, "stated_trace", None)
    if stated is not None:
        return stated()
    tape = Tape()
    symbols = [Symbol(tape, tape.add(AXIS, i)) for i in range(len(system.axes))]
    if isinstance(system, LinearFamily):
        context = dict(zip((a.name for a in system.axes), symbols, strict=True))
        made = {}
        for name in "ABQR":
            given = getattr(system, name)
            if callable(given):
                made[name] = call_with_symbols(
                    f"{name}(context)", follow(given), **context
                )
            else:
                made[name] = given
    else:
        row = np.empty((1, len(symbols)), object)
        row[0] = symbols
        method = follow(type(system).matrices)
        stacks = call_with_symbols("matrices(contexts)", method, system, row)
        made = dict(zip("ABQR", (np.asarray(x)[0] for x in stacks), strict=True))
    n, m = system.matrices(np.array([[a.default for a in system.axes]])).B.shape[1:]
    shapes = {"A": (n, n), "B": (n, m), "Q": (n, n), "R": (m, m)}
    return finish_trace(tape, {k: entries(tape, k, made[k], shapes[k]) for k in "ABQR"})


def finish_trace(
    tape: Tape, places: dict[str, NDArray[np.int64]], enclosures: tuple[Any, ...] = ()
) -> Trace:
    """The trace of a tape whose matrices are known.

    Args:
        tape: the operations written down.
        places: for each matrix by name the places of its entries.
        enclosures: bounds of what the tape could not write down, where there are any.
    """
    columns = list(zip(*tape.nodes, strict=True))
    op, left, right = (np.array(c, np.int64) for c in columns[:3])
    value = np.array(columns[3], np.float64)
    return Trace(op, left, right, value, **places, enclosures=enclosures)


def call_with_symbols(
    what: str, function: Callable[..., Any], *args: Any, **context: Any
) -> Any:
    """What a followed function gives for symbols, or a sentence why it cannot.

    Args:
        what: name of the function, for the message.
        function: the copy from `follow`.
        args: its arguments.
        context: its arguments by name.
    """
    try:
        return function(*args, **context)
    except UntraceableError as error:
        raise UntraceableError(f"{what}: {error}") from error
    except Exception as error:
        raise UntraceableError(
            f"{what} was called with symbols in place of numbers, to find how it "
            f"depends on the context, and raised {type(error).__name__}: {error}. Use "
            "arithmetic only, or state the matrices as taskspace.systems.AffineFamily."
        ) from error


def entries(
    tape: Tape, name: str, matrix: Any, shape: tuple[int, int]
) -> NDArray[np.int64]:
    """The places of a matrix's entries on the tape.

    Args:
        tape: where they are, or are put if they are numbers.
        name: of the matrix, for the message.
        matrix: nested lists or an array, of symbols and numbers.
        shape: what it must have.
    """
    array = np.array(matrix, dtype=object)
    if array.shape != shape:
        raise UntraceableError(
            f"{name} must have shape {shape}, but with symbols in place of numbers it "
            f"has {array.shape}."
        )
    places = np.empty(shape, np.int64)
    for index, entry in np.ndenumerate(array):
        places[index] = (
            entry.index if isinstance(entry, Symbol) else tape.constant(entry)
        )
    return places


def check_trace(
    trace: Trace, system: LinearSystem, contexts: NDArray[np.float64]
) -> None:
    """Refuse a trace that does not give the family's own matrices.

    Args:
        trace: what was followed.
        system: the family.
        contexts: rows at which to compare.
    """
    given = system.matrices(contexts)
    for row, context in enumerate(contexts):
        for name, formula, true in zip("ABQR", trace.at(context), given, strict=True):
            wanted = true[row]
            found = (formula + formula.T) / 2 if name in "QR" else formula
            gap = np.abs(found - wanted)
            scale = np.maximum(np.abs(found), np.abs(wanted))
            rough = AGREEMENT * (scale + 1e-3 * scale.max(initial=0.0))
            if not (gap <= rough).all():
                i, j = np.argwhere(~(gap <= rough))[0].tolist()
                place = ", ".join(
                    f"{axis.name} = {x:.6g}"
                    for axis, x in zip(system.axes, context, strict=True)
                )
                raise UntraceableError(
                    f"The formula followed through the family's code must give its "
                    f"matrices, but at {place} {name}[{i}, {j}] is {wanted[i, j]:.17g} "
                    f"and the formula gives {found[i, j]:.17g}. The code may branch on "
                    "the type of its arguments or keep a state. State the matrices as "
                    "taskspace.systems.AffineFamily."
                )
