"""Systems and trainers of one's own, named as `package.module:object`."""

import importlib
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from taskspace.errors import InvalidInputError, UnknownNameError

__all__ = ["build_object", "is_reference", "load_object", "takes_settings"]


def is_reference(name: object) -> bool:
    """Whether a name is a reference to a Python object, not an id."""
    return isinstance(name, str) and ":" in name


def load_object(reference: str) -> Any:
    """The Python object `package.module:object`; also from the working directory.

    Args:
        reference: module and object, e.g. `"my_plant:pendulum"`.
    """
    module_name, _, path = reference.partition(":")
    if not module_name or not path:
        raise InvalidInputError(
            f"An object must be named as package.module:object, but got {reference!r}."
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise InvalidInputError(
            f"The module {module_name!r} of {reference!r} cannot be imported from "
            f"{here}: {error}."
        ) from error
    for part in path.split("."):
        if not hasattr(found, part):
            names = [name for name in dir(found) if not name.startswith("_")]
            raise UnknownNameError(f"object of {module_name}", part, names)
        found = getattr(found, part)
    return found


def takes_settings(reference: str) -> bool:
    """Whether the object is a class whose fields are its settings."""
    found = load_object(reference)
    return isinstance(found, type) and is_dataclass(found)


def build_object(
    kind: str, reference: str, settings: Mapping[str, Any], base: type
) -> Any:
    """The system or trainer that a reference stands for.

    Args:
        kind: `"system"` or `"trainer"`.
        reference: `package.module:object`; the object is a system or trainer itself,
            or a class or function that makes one.
        settings: arguments for making it.
        base: what it must be an instance of.
    """
    found = load_object(reference)
    if not isinstance(found, base):
        if not callable(found):
            raise InvalidInputError(
                f"{reference} must be a {kind}, or make one when it is called, but is "
                f"{type(found).__name__}."
            )
        if isinstance(found, type) and is_dataclass(found):
            known = [f.name for f in fields(found)]
            for key in settings:
                if key not in known:
                    raise UnknownNameError(
                        f"key of [{kind}] of {reference}:", key, known
                    )
        try:
            found = found(**settings)
        except TypeError as error:
            raise InvalidInputError(
                f"{reference} does not take these settings: {error}."
            ) from error
        settings = {}
    if not isinstance(found, base):
        raise InvalidInputError(
            f"{reference} must make a {base.__name__}, but made {type(found).__name__}."
        )
    if settings:
        raise InvalidInputError(
            f"{reference} is finished and takes no settings, but got "
            f"{', '.join(settings)}. Name a class or function to use settings."
        )
    return found
