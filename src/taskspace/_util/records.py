"""Records of ours in files: plain values, read and checked by their types."""

from collections.abc import Collection
from dataclasses import MISSING, fields
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from taskspace.errors import InvalidInputError

T = TypeVar("T")


def read_record(values: Any, kind: type[T], what: str, **given: Any) -> T:
    """Return plain values as a record; refuse those of wrong types in a sentence.

    Args:
        values: what a file holds: dicts, lists, texts and numbers. Keys that the
            record does not have are passed over.
        kind: a dataclass or a `msgspec.Struct`.
        what: what to call it, the subject of a sentence.
        given: fields of a dataclass that are not plain values, and were read before.
    """
    try:
        if not given:
            return msgspec.convert(values, kind, dec_hook=_decoded)
        rest = msgspec.convert(values, _without(kind, given), dec_hook=_decoded)
        return kind(**msgspec.structs.asdict(rest), **given)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidInputError(
            f"{what} must be as taskspace writes it, but is not: {error}."
        ) from error


def _without(kind: Any, given: Collection[str]) -> type[msgspec.Struct]:
    """Return the type of a dataclass without some of its fields."""
    hints = get_type_hints(kind)
    rest: list[Any] = []
    for each in fields(kind):
        defaults = {
            name: value
            for name in ("default", "default_factory")
            if (value := getattr(each, name)) is not MISSING
        }
        if each.name not in given:
            more = [msgspec.field(**defaults)] if defaults else []
            rest.append((each.name, hints[each.name], *more))
    return msgspec.defstruct(kind.__name__, rest, kw_only=True)


def _decoded(kind: Any, value: Any) -> Any:
    """Return a list as the array that an annotation asks for."""
    if get_origin(kind) is not np.ndarray:
        raise NotImplementedError(f"{kind} has no reader.")
    dtype = get_args(get_args(kind)[1])[0]
    array = np.array(value)
    if array.size and not np.can_cast(array.dtype, dtype):
        raise ValueError(f"expected a list of {np.dtype(dtype)}")
    return array.astype(dtype).reshape(-1)
