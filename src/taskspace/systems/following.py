"""Copies of Python functions in which NumPy makes arrays that can hold symbols.

`np.zeros((4, 4))` is an array of floats, and writing a symbol into it fails. A followed
function is the same code with other globals: there `np` makes arrays of objects, `math`
passes symbols on, `control.ss` keeps the matrices that it is given, and the Python
functions that it calls are followed too. The original is not touched.
"""

import builtins
import functools
import math
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["follow"]

NEW_ARRAYS = ("zeros", "ones", "empty", "eye", "identity", "full", "diag", "tri")
LIKE_ARRAYS = ("zeros_like", "ones_like", "empty_like", "full_like")
AS_ARRAYS = ("array", "asarray", "asanyarray", "ascontiguousarray", "atleast_2d")
MATH = ("sqrt", "exp", "log", "sin", "cos", "tan")


def _new(name: str) -> Callable[..., Any]:
    make = getattr(np, name)

    def made(*args: Any, dtype: Any = None, **options: Any) -> Any:
        del dtype
        if name in ("diag", "full"):
            args = tuple(_as_objects(a) if isinstance(a, list) else a for a in args)
        if name == "full":
            options["dtype"] = object
        found = np.asarray(make(*args, **options)).astype(object)
        return np.zeros_like(found) if name == "empty" else found

    return made


def _like(name: str) -> Callable[..., Any]:
    make = getattr(np, name)

    def made(array: Any, *args: Any, dtype: Any = None, **options: Any) -> Any:
        del dtype
        shape = np.shape(_as_objects(array))
        return make(np.zeros(shape), *args, **options).astype(object)

    return made


def _as(name: str) -> Callable[..., Any]:
    make = getattr(np, name)

    def made(value: Any, *args: Any, **options: Any) -> Any:
        del args
        options.pop("dtype", None)
        return make(_as_objects(value), **options)

    return made


def _as_objects(value: Any) -> Any:
    return np.array(value, dtype=object)


def _math(name: str) -> Callable[..., Any]:
    plain = getattr(math, name)

    def function(x: Any, *args: Any) -> Any:
        method = getattr(x, name, None)
        if method is None or args:
            return plain(x, *args)
        return method()

    return function


class _Module:
    """A module with some of its names replaced."""

    def __init__(self, module: Any, names: dict[str, Any]):
        self._module, self._names = module, names

    def __getattr__(self, name: str) -> Any:
        if name in self._names:
            return self._names[name]
        return getattr(self._module, name)


class FollowedStateSpace:
    """What `control.ss` gives in a followed function: the matrices as they came."""

    def __init__(self, A: Any, B: Any, C: Any, D: Any, *rest: Any, **options: Any):
        del C, D
        self.A, self.B = _as_objects(A), _as_objects(B)
        self.dt = rest[0] if rest else options.get("dt", 0)


_NUMPY = _Module(
    np,
    {name: _new(name) for name in NEW_ARRAYS}
    | {name: _like(name) for name in LIKE_ARRAYS}
    | {name: _as(name) for name in AS_ARRAYS},
)
_MATH = _Module(math, {name: _math(name) for name in MATH})


def _replaced() -> dict[int, Any]:
    """What stands for which object in a followed function, by identity."""
    swap: dict[int, Any] = {id(np): _NUMPY, id(math): _MATH}
    for module, stand_in in ((np, _NUMPY), (math, _MATH)):
        for name, value in stand_in._names.items():
            swap[id(getattr(module, name))] = value
    control = sys.modules.get("control")
    if control is not None:
        names = {"ss": FollowedStateSpace, "StateSpace": FollowedStateSpace}
        swap[id(control)] = _Module(control, names)
        for name in names:
            swap[id(getattr(control, name))] = FollowedStateSpace
    return swap


def follow(function: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of a function that can be called with symbols.

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
        self.swap = _replaced()
        self.done: dict[int, Any] = {}
        self.kept: list[Any] = []

    def value(self, value: Any) -> Any:
        """What stands for a value in a followed function."""
        if id(value) in self.swap:
            return self.swap[id(value)]
        if id(value) in self.done:
            return self.done[id(value)]
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.MethodType):
            return types.MethodType(self.value(value.__func__), value.__self__)
        if isinstance(value, functools.partial):
            inner = self.value(value.func)
            return functools.partial(inner, *value.args, **value.keywords)
        wrapped = getattr(value, "__wrapped__", None)
        if isinstance(value, functools._lru_cache_wrapper) and wrapped is not None:
            return self.value(wrapped)
        return value

    def _function(self, function: types.FunctionType) -> Any:
        if (function.__module__ or "").partition(".")[0] in ("numpy", "scipy", "jax"):
            return function
        scope = dict(function.__globals__)
        scope["__builtins__"] = self._builtins()
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        copy = types.FunctionType(
            function.__code__, scope, function.__name__, function.__defaults__, cells
        )
        copy.__kwdefaults__ = function.__kwdefaults__
        self.done[id(function)] = copy
        self.kept.append(function)  # its id stays its own while this lives
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
            return self.swap.get(id(module), module)

        return {**vars(builtins), "__import__": load}


def _names(code: types.CodeType) -> set[str]:
    """Names that a function or one inside it may look up in its globals."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found
