"""Copies of Python functions in which NumPy makes arrays that can hold symbols.

`np.zeros((4, 4))` is an array of floats, and writing a symbol into it fails. A followed
function is the same code with other globals: there `np` makes arrays of objects where
it would make floats, `math` passes symbols on, `control.ss` keeps the matrices that it
is given, `type` says what it says of numbers, and the Python functions that it calls
are followed too. Arrays of whole numbers, and of any other type, stay what they are. A
function of a library that fails with symbols is refused. The original is not touched.
"""

import builtins
import functools
import math
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from taskspace.systems.linear.tracing.symbols import (
    Symbol,
    SymbolArray,
    first_symbol,
    guard,
    hold_symbols,
    to_numbers,
)

NEW_ARRAYS = ("zeros", "ones", "empty", "eye", "identity", "full", "diag", "tri")
AS_ARRAYS = ("array", "asarray", "asanyarray", "ascontiguousarray", "atleast_2d")
MATH = ("sqrt", "exp", "log", "sin", "cos", "tan")
# Called as they are, not followed: their errors are refusals.
LIBRARIES = {"numpy", "scipy", "jax", "pandas", "numba", *sys.stdlib_module_names}


def _new(name: str) -> Callable[..., Any]:
    make = getattr(np, name)

    def made(*args: Any, **options: Any) -> Any:
        if name in ("diag", "full"):
            args = tuple(_as_array(a) if isinstance(a, list) else a for a in args)
        symbol = first_symbol((args, options))
        if symbol is None:
            array = make(*to_numbers(args), **to_numbers(options))
        else:
            _check_dtype(symbol, options)
            if name == "full":
                options["dtype"] = object
            array = guard(symbol, f"np.{name}", make, *args, **options)
        return hold_symbols(np.zeros_like(array) if name == "empty" else array)

    return made


def _as(name: str) -> Callable[..., Any]:
    make = getattr(np, name)

    def made(value: Any, *args: Any, **options: Any) -> Any:
        if name == "atleast_2d" and args:
            return [made(x) for x in (value, *args)]
        if args:
            options["dtype"] = args[0]
        symbol = first_symbol(value)
        if symbol is not None:
            _check_dtype(symbol, options)
        elif not isinstance(value, SymbolArray) or not _is_double(options):
            return hold_symbols(make(to_numbers(value), **options))
        options.pop("dtype", None)
        if symbol is not None and not isinstance(value, SymbolArray):
            value = hold_symbols(_as_objects(symbol, value))
        return make(value, **options).view(SymbolArray)

    return made


def _is_double(options: dict[str, Any]) -> bool:
    dtype = options.get("dtype")
    return dtype is None or np.dtype(dtype) in (np.float64, object)


def _check_dtype(symbol: Symbol, options: dict[str, Any]) -> None:
    if not _is_double(options):
        symbol.tape.refuse(f"an array of type {np.dtype(options['dtype'])}")
    options.pop("dtype", None)


def _as_array(value: Any) -> Any:
    symbol = first_symbol(value)
    return np.array(value) if symbol is None else _as_objects(symbol, value)


def _as_objects(symbol: Symbol, value: Any) -> Any:
    return guard(symbol, "np.array", np.array, value, dtype=object)


def _math(name: str) -> Callable[..., Any]:
    plain = getattr(math, name)

    def function(x: Any, *args: Any) -> Any:
        if type(x) is Symbol and not args:
            return getattr(x, name)()
        return plain(x, *args)

    return function


def _guarded(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function of a library: with symbols, its errors are refusals."""

    def call(*args: Any, **options: Any) -> Any:
        symbol = first_symbol((args, options))
        if symbol is None:
            return hold_symbols(function(*to_numbers(args), **to_numbers(options)))
        return guard(symbol, name, function, *args, **options)

    return call


class _Type(type):
    """`type` in a followed function."""

    def __call__(cls, *args: Any, **options: Any) -> Any:
        if len(args) == 1 and type(args[0]) in STAND_INS:
            return STAND_INS[type(args[0])]
        return type(*args, **options)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, type)


class FollowedType(metaclass=_Type):
    """Says `float` of a symbol."""


STAND_INS: dict[type, type] = {Symbol: float, SymbolArray: np.ndarray}


def _has(value: Any, name: str) -> bool:
    return hasattr(0.5 if type(value) is Symbol else value, name)


def _get(value: Any, name: str, *default: Any) -> Any:
    if type(value) is Symbol and not hasattr(0.5, name):
        return getattr(0.5, name, *default)
    return getattr(value, name, *default)


class _Module:
    """A module with some of its names replaced, and what it calls followed."""

    def __init__(self, module: Any, names: dict[str, Any], follower: "_Follower"):
        self._module, self._names, self._follower = module, names, follower

    def __getattr__(self, name: str) -> Any:
        if name in self._names:
            return self._names[name]
        return self._follower.value(getattr(self._module, name))


class FollowedStateSpace:
    """What `control.ss` gives in a followed function: the matrices as they came."""

    def __init__(self, A: Any, B: Any, C: Any, D: Any, *rest: Any, **options: Any):
        self.A, self.B, self.C = (hold_symbols(np.array(x, object)) for x in (A, B, C))
        self.D = D
        self.dt = rest[0] if rest else options.get("dt", 0)


_NUMPY = {name: _new(name) for name in NEW_ARRAYS} | {
    name: _as(name) for name in AS_ARRAYS
}
_MATH = {name: _math(name) for name in MATH}
_BUILTINS = {"type": FollowedType, "hasattr": _has, "getattr": _get}


def _replaced(follower: "_Follower") -> dict[int, Any]:
    """Return what stands for which object in a followed function, by identity."""
    swap: dict[int, Any] = {}
    replaced = {np: _NUMPY, math: _MATH, builtins: _BUILTINS}
    control = sys.modules.get("control")
    if control is not None:
        replaced[control] = dict.fromkeys(("ss", "StateSpace"), FollowedStateSpace)
    for module, names in replaced.items():
        swap[id(module)] = _Module(module, names, follower)
        for name, value in names.items():
            swap[id(getattr(module, name))] = value
    return swap


def follow(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a copy of a function that can be called with symbols.

    Args:
        function: any callable; one that is not plain Python is returned as it is.
    """
    call = type(function).__call__
    if isinstance(call, types.FunctionType) and not isinstance(function, type):
        # An object with a method __call__.
        return types.MethodType(_Follower().value(call), function)
    return _Follower().value(function)


class _Follower:
    def __init__(self):
        self.done: dict[int, Any] = {}
        self.kept: list[Any] = []
        self.swap = _replaced(self)

    def value(self, value: Any) -> Any:
        """Return what stands for a value in a followed function."""
        if id(value) in self.swap:
            return self.swap[id(value)]
        if id(value) in self.done:
            return self.done[id(value)]
        if isinstance(value, types.ModuleType):
            return self._keep(value, _Module(value, {}, self))
        if isinstance(value, functools.partial):
            inner = self.value(value.func)
            return functools.partial(inner, *value.args, **value.keywords)
        wrapped = getattr(value, "__wrapped__", None)
        if isinstance(value, functools._lru_cache_wrapper) and wrapped is not None:
            return self.value(wrapped)
        if _is_of_library(value):
            name = getattr(value, "__name__", type(value).__name__)
            return self._keep(value, _guarded(value, name))
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.MethodType):
            return types.MethodType(self.value(value.__func__), value.__self__)
        return value

    def _keep(self, original: Any, stand_in: Any) -> Any:
        self.done[id(original)] = stand_in
        self.kept.append(original)  # its id stays its own while this lives
        return stand_in

    def _function(self, function: types.FunctionType) -> Any:
        scope = dict(function.__globals__)
        scope["__builtins__"] = self._builtins()
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        copy = types.FunctionType(
            function.__code__, scope, function.__name__, function.__defaults__, cells
        )
        copy.__kwdefaults__ = function.__kwdefaults__
        self._keep(function, copy)
        for name in _names(function.__code__):
            if name in scope:
                scope[name] = self.value(scope[name])
        for cell, original in zip(cells, function.__closure__ or (), strict=True):
            try:
                cell.cell_contents = self.value(original.cell_contents)
            except ValueError:  # an empty cell stays empty
                continue
        return copy

    def _builtins(self) -> dict[str, Any]:
        def load(name: str, *args: Any, **options: Any) -> Any:
            module = builtins.__import__(name, *args, **options)
            return self.value(module)

        return {**vars(builtins), **_BUILTINS, "__import__": load}


def _is_of_library(value: Any) -> bool:
    """Whether it is a function, or an object to call, of a library."""
    if isinstance(value, type | np.ufunc) or not callable(value):
        return False
    plain = isinstance(value, types.FunctionType | types.BuiltinFunctionType)
    home = value if plain else type(value)
    root = (getattr(home, "__module__", None) or "").partition(".")[0]
    return root in LIBRARIES - {"builtins", "__main__"}


def _names(code: types.CodeType) -> set[str]:
    """Names that a function or one inside it may look up in its globals."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names
