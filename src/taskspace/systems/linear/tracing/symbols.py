"""Numbers that are not known yet: symbols, arrays of them, and the tape they write.

A symbol stands for a float. Arithmetic on it is written down on its tape. Whatever
needs its value (a branch, a look-up, a conversion to a number, to text or to an array
of numbers) is refused, and the refusal stays on the tape: code that swallows the
exception gives no formula either. The type of a symbol is said to be `float`,
and an array of symbols says that its dtype is `float64`, so that code takes the way
that it takes for numbers.
"""

import math
import sys
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

CONSTANT, AXIS, ADD, SUBTRACT, MULTIPLY, DIVIDE, NEGATE = range(7)
SQUARE_ROOT, EXPONENTIAL, LOGARITHM, SINE, COSINE = range(7, 12)
# f, and the derivative of z = f(x) from x, z and the derivative of x.
FUNCTIONS = {
    SQUARE_ROOT: (np.sqrt, lambda x, z, dx: dx / (z + z)),
    EXPONENTIAL: (np.exp, lambda x, z, dx: dx * z),
    LOGARITHM: (np.log, lambda x, z, dx: dx / x),
    SINE: (np.sin, lambda x, z, dx: dx * np.cos(x)),
    COSINE: (np.cos, lambda x, z, dx: -(dx * np.sin(x))),
}
MAX_POWER = 64
MAX_NODES = 200_000
# NumPy functions that write into their first argument.
IN_PLACE = (np.fill_diagonal, np.copyto, np.put, np.place, np.putmask)


class RefusedOperation(BaseException):
    """An operation on a symbol that has no formula.

    No `Exception`: the user's `except Exception` is not meant for it.
    """


class Tape:
    """The operations on symbols, in the order in which they were made."""

    def __init__(self):
        self.nodes: list[tuple[int, int, int, float]] = []
        self.places: dict[tuple[int, int, int, float], int] = {}
        self.refusal: str | None = None

    def refuse(self, what: str) -> NoReturn:
        """Stop the followed code, and spoil the tape for good.

        Args:
            what: what cannot be followed.
        """
        sentence = (
            f"The dependence on the context cannot be followed through {what}: only "
            "+, -, *, /, powers, sqrt, exp, log, sin, cos and tan of the context can. "
            "Write the matrices with these, or ask about the contexts of a grid only."
        )
        self.refusal = self.refusal or sentence
        raise RefusedOperation(sentence)

    def add(self, op: int, left: int = 0, right: int = 0, value: float = 0.0) -> int:
        """Return the place of an operation, written down unless it was already.

        Args:
            op: code of the operation.
            left: place of its first operand.
            right: place of its second operand, where it has one.
            value: the number of a constant.
        """
        node = (op, left, right, value)
        if node not in self.places:
            if len(self.nodes) >= MAX_NODES:
                self.refuse(f"more than {MAX_NODES} operations")
            self.places[node] = len(self.nodes)
            self.nodes.append(node)
        return self.places[node]

    def constant(self, value: Any) -> int:
        """Return the place of a number; one that no float equals gets an error bound.

        Args:
            value: a real number, of Python or in double precision.
        """
        if isinstance(value, np.generic | np.ndarray):
            self.check_precision(value)
            value = value.item() if value.size == 1 else value
        if not isinstance(value, int | float | Fraction):
            self.refuse(f"an object of type {type(value).__name__}")
        try:
            number = float(value)
        except OverflowError:
            self.refuse("a number beyond double precision")
        if not math.isfinite(number):
            self.refuse(f"the number {number}")
        return self.add(CONSTANT, 0, int(number != value), number)

    def check_precision(self, array: Any) -> None:
        """Refuse numbers with which NumPy computes in another precision than double.

        Args:
            array: a NumPy array or number.
        """
        dtype = _dtype(array) if isinstance(array, np.ndarray) else array.dtype
        if dtype.kind not in "biufO" or (dtype.kind == "f" and dtype.itemsize != 8):
            self.refuse(f"numbers of type {dtype}")


def _operators(op: int) -> tuple[Any, Any]:
    """Return the methods of a symbol for an operator, and for it with sides swapped."""

    def forward(self: "Symbol", other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        return self._make(op, self, self._other(other))

    def backward(self: "Symbol", other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        return self._make(op, self._other(other), self)

    return forward, backward


def _function(op: int) -> Any:
    """Return the method of a symbol for a function of one number."""
    return lambda self: Symbol(self.tape, self.tape.add(op, self.index))


class Symbol:
    """A number that is not known yet: a function of the context."""

    __slots__ = ("index", "tape")
    __array_priority__ = 1000

    def __init__(self, tape: Tape, index: int):
        self.tape, self.index = tape, index

    @property
    def __class__(self) -> type:  # pyright: ignore
        """`float`: code that asks for the type goes where it goes for numbers."""
        return float

    def _number(self) -> float | None:
        op, _, inexact, value = self.tape.nodes[self.index]
        return value if op == CONSTANT and not inexact else None

    def _other(self, other: Any) -> "Symbol":
        if type(other) is Symbol:
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

    __add__, __radd__ = _operators(ADD)
    __sub__, __rsub__ = _operators(SUBTRACT)
    __mul__, __rmul__ = _operators(MULTIPLY)
    __truediv__, __rtruediv__ = _operators(DIVIDE)

    def __neg__(self) -> "Symbol":
        return Symbol(self.tape, self.tape.add(NEGATE, self.index))

    def __pos__(self) -> "Symbol":
        return self

    def __pow__(self, power: Any) -> Any:
        if isinstance(power, np.ndarray):
            return NotImplemented
        symbol = self._other(power)
        number = symbol._number()
        if number is None:
            return (symbol * self.log()).exp()
        if number == 0.5:
            return self.sqrt()
        if number != int(number) or abs(number) > MAX_POWER:
            return (number * self.log()).exp()
        result, square, rest = self._other(1.0), self, abs(int(number))
        while rest:
            if rest & 1:
                result = result * square
            rest >>= 1
            if rest:
                square = square * square
        return result if number >= 0 else 1.0 / result

    def __rpow__(self, base: Any) -> Any:
        if isinstance(base, np.ndarray):
            return NotImplemented
        return (self * self._other(base).log()).exp()

    sqrt = _function(SQUARE_ROOT)
    exp = _function(EXPONENTIAL)
    log = _function(LOGARITHM)
    sin = _function(SINE)
    cos = _function(COSINE)

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
        """Return the same: contexts are real."""
        return self

    @property
    def real(self) -> "Symbol":
        """The same: contexts are real."""
        return self

    @property
    def imag(self) -> float:
        """Zero: contexts are real."""
        return 0.0

    def __copy__(self) -> "Symbol":
        return self

    def __deepcopy__(self, memo: Any) -> "Symbol":
        return self

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any):
        return _apply(ufunc, method, inputs, options)

    def _no_number(self, *_: Any) -> NoReturn:
        self.tape.refuse(
            "a conversion to a plain number (float(), int(), dtype=int, np.interp)"
        )

    def _no_branch(self, *_: Any) -> NoReturn:
        self.tape.refuse("a comparison or a branch (if, max, abs, np.where, np.clip)")

    def _no_lookup(self, *_: Any) -> NoReturn:
        self.tape.refuse("a look-up by the context (a dict, a cache)")

    def _no_text(self, *_: Any) -> NoReturn:
        self.tape.refuse("a conversion to text (str, repr, an f-string, a file)")

    __float__ = __int__ = __complex__ = __round__ = _no_number
    __floor__ = __ceil__ = __trunc__ = _no_number
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _no_number
    __divmod__ = __rdivmod__ = is_integer = as_integer_ratio = _no_number
    __bool__ = __lt__ = __le__ = __gt__ = __ge__ = __abs__ = _no_branch
    __eq__ = __ne__ = _no_branch  # pyright: ignore
    __hash__ = _no_lookup  # pyright: ignore
    __str__ = __repr__ = __format__ = hex = __reduce_ex__ = _no_text  # pyright: ignore


class SymbolArray(np.ndarray):
    """An array of symbols and floats, in place of an array of floats.

    Only NumPy itself hears that it holds objects. Functions of arrays without symbols
    are called with the numbers; with symbols, what NumPy cannot do is refused.
    """

    @property
    def dtype(self) -> Any:
        """`float64`, as of the array that it stands for."""
        asker = sys._getframe(1).f_globals.get("__name__", "")
        return _dtype(self) if asker.partition(".")[0] == "numpy" else np.dtype(float)

    def astype(self, dtype: Any, *args: Any, **options: Any) -> Any:
        """Return a copy in another type: of symbols only as floats, or objects.

        Args:
            dtype: the type.
            args: as NumPy's.
            options: as NumPy's.
        """
        if np.dtype(dtype) == np.float64:
            return self.copy()
        return self.view(np.ndarray).astype(dtype, *args, **options)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any):
        return _apply(ufunc, method, inputs, options)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        symbol = first_symbol((args, kwargs))
        into = func in IN_PLACE or kwargs.get("out") is not None
        if symbol is None and not into:
            return hold_symbols(func(*to_numbers(args), **to_numbers(kwargs)))
        call = super().__array_function__
        if symbol is None:
            return call(func, types, args, kwargs)
        return guard(symbol, f"np.{func.__name__}", call, func, types, args, kwargs)


def guard(symbol: Symbol, name: str, function: Any, *args: Any, **options: Any) -> Any:
    """Return what a function of a library gives for symbols; its errors are refusals.

    Args:
        symbol: one of the symbols, for its tape.
        name: of the function, for the message.
        function: the function.
        args: its arguments.
        options: its arguments by name.
    """
    try:
        return hold_symbols(function(*args, **options))
    except Exception as error:
        symbol.tape.refuse(f"{name} ({type(error).__name__}: {error})")


def first_symbol(value: Any) -> Symbol | None:
    """Return a symbol inside a value, None where there is none.

    Args:
        value: anything; arrays, lists, tuples and dicts are searched.
    """
    if type(value) is Symbol:
        return value
    items: Any = ()
    if isinstance(value, np.ndarray):
        items = value.ravel().tolist() if _dtype(value).hasobject else ()
    elif isinstance(value, list | tuple):
        items = value
    elif isinstance(value, dict):
        items = value.values()
    for item in items:
        symbol = first_symbol(item)
        if symbol is not None:
            return symbol
    return None


def hold_symbols(value: Any) -> Any:
    """Arrays of floats or objects as arrays that can hold symbols; the rest as it is.

    Args:
        value: anything.
    """
    if isinstance(value, np.ndarray) and _dtype(value) in (np.float64, object):
        # Whole numbers among symbols are floats, as in an array of floats.
        array = np.empty(value.shape, object)
        for index, entry in np.ndenumerate(value.view(np.ndarray)):
            is_whole = type(entry) is not Symbol and isinstance(entry, int | np.integer)
            array[index] = float(entry) if is_whole else entry
        return array.view(SymbolArray)
    return value


def to_numbers(value: Any) -> Any:
    """Arrays without symbols as arrays of floats; inside lists, tuples and dicts too.

    Args:
        value: anything.
    """
    if type(value) is SymbolArray:
        if first_symbol(value) is None:
            return value.view(np.ndarray).astype(float)
    elif type(value) in (list, tuple):
        return type(value)(to_numbers(x) for x in value)
    elif type(value) is dict:
        return {key: to_numbers(x) for key, x in value.items()}
    return value


def _dtype(array: NDArray[Any]) -> Any:
    return np.ndarray.dtype.__get__(array)  # pyright: ignore


def _objects(tape: Tape, value: Any) -> NDArray[Any]:
    if isinstance(value, list | tuple):
        value = np.array(value, object)
    if isinstance(value, np.ndarray):
        tape.check_precision(value)
        plain = value.view(np.ndarray)
        return plain if plain.dtype.hasobject else plain.astype(object)
    box = np.empty((), object)
    # A NumPy number would call its ufunc on the symbol again, and again.
    if isinstance(value, np.generic):
        tape.check_precision(value)
        value = value.item()
    box[()] = value
    return box


def _on_tape(symbol: Symbol, array: NDArray[Any]) -> NDArray[Any]:
    """Return the same array, of symbols only."""
    out = np.empty(array.shape, object)
    for index, entry in np.ndenumerate(array):
        out[index] = symbol._other(entry)
    return out


def _apply(ufunc: Any, method: str, inputs: Any, options: dict[str, Any]) -> Any:
    """Return a universal function of symbols, arrays of them, and numbers."""
    out = options.pop("out", None)
    symbol = first_symbol((inputs, out))
    if symbol is None and method == "at":  # writes into its first input
        return ufunc.at(inputs[0].view(np.ndarray), *inputs[1:])
    if symbol is None:
        result = getattr(ufunc, method)(*to_numbers(inputs), **to_numbers(options))
    else:
        tape, name = symbol.tape, f"np.{ufunc.__name__}"
        if options.pop("dtype", None) not in (None, float, np.float64, object):
            tape.refuse(f"{name} with a dtype other than float")
        if method == "at":
            tape.refuse(f"{name}.at")
        arrays = [_objects(tape, x) for x in inputs]
        if ufunc is np.matmul:  # sums of numbers, in NumPy's own order: on the tape too
            arrays = [_on_tape(symbol, x) for x in arrays]
        result = guard(symbol, name, getattr(ufunc, method), *arrays, **options)
        if isinstance(result, np.ndarray) and result.ndim == 0:
            result = result[()]
    if out is None:
        return hold_symbols(result)
    if symbol is not None and not isinstance(out[0], SymbolArray):
        symbol.tape.refuse(f"np.{ufunc.__name__} into an array of numbers")
    out[0][...] = result
    return out[0]
