"""Whether what was read from a file is of the types that it should be."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

__all__ = ["check_fields", "fits"]


def check_fields(record: Any, path: str = "") -> None:
    """Raise a `ValueError` that names the first field of a wrong type, if any.

    Args:
        record: a dataclass, other ones in it included.
        path: names that lead to it.
    """
    hints = get_type_hints(type(record))
    for field in fields(record):
        name, value = f"{path}{field.name}", getattr(record, field.name)
        if not fits(value, hints[field.name], f"{name}."):
            wanted = getattr(field.type, "__name__", field.type)
            raise ValueError(f"{name} must be {wanted}, but is {value!r:.60}")


def fits(value: Any, hint: Any, path: str = "") -> bool:
    """Whether a value is what an annotation says, as far as files need: no more.

    Args:
        value: any value.
        hint: a class, a union, `list[…]`, `tuple[…]`, `dict[…]`, `Literal[…]`, `Any`;
            an integer is a `float`, too, and a truth value is no integer.
        path: names that lead to it, for what `check_fields` says.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(fits(value, one, path) for one in inner)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray)
    if origin is tuple and inner[-1] is not Ellipsis:
        return (
            isinstance(value, tuple)
            and len(value) == len(inner)
            and all(fits(v, h, path) for v, h in zip(value, inner, strict=True))
        )
    if origin in (tuple, list):
        return isinstance(value, origin) and all(fits(v, inner[0], path) for v in value)
    if origin in (dict, Mapping):
        return isinstance(value, Mapping) and all(
            fits(k, inner[0], path) and fits(v, inner[1], path)
            for k, v in value.items()
        )
    if origin is Literal:
        return type(value) is str and value in inner
    if hint is float:
        return type(value) in (int, float)
    if hint in (int, bool, str, NoneType):
        return type(value) is hint
    if not isinstance(value, hint):
        return False
    if is_dataclass(value):
        check_fields(value, path)
    return True
