"""Systems and trainers of one's own, named as `package.module:object`.

Importing a module runs it. A TOML file that a user wrote and hands to `run`, `doctor`
or `select` may do that; a run directory or an archive may come from a stranger, so
what it names is imported and called only where the user says so (`--trust`).
"""

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from taskspace.errors import InvalidInputError, UnknownNameError, UntrustedCodeError


@dataclass(frozen=True)
class Code:
    """What may be imported for an experiment, and where modules are looked for.

    Args:
        trusted: whether code may be imported at all.
        folders: looked through besides the installed packages, before the working
            directory.
    """

    trusted: bool = True
    folders: tuple[Path, ...] = ()

    @property
    def places(self) -> list[str]:
        """All folders in which modules are looked for, without repetition."""
        found = [folder.absolute() for folder in self.folders] + [Path.cwd()]
        return list(dict.fromkeys(map(str, found)))


def is_reference(name: object) -> bool:
    """Whether a name is a reference to a Python object, not an id.

    Args:
        name: what an experiment calls its system or trainer.
    """
    return isinstance(name, str) and ":" in name and not is_gymnasium(name)


def is_gymnasium(name: object) -> bool:
    """Whether a name stands for a Gymnasium environment, `gymnasium:Pendulum-v1`.

    Args:
        name: what an experiment calls its system.
    """
    return isinstance(name, str) and name.startswith("gymnasium:")


def load_object(reference: str, code: Code | None = None) -> Any:
    """Return the Python object `package.module:object`.

    Args:
        reference: module and object, e.g. `"my_plant:pendulum"`.
        code: whether it may be imported, and from where.
    """
    code = Code() if code is None else code
    if not code.trusted:
        raise UntrustedCodeError(
            f"This needs the code {reference!r}, which a run or an archive names. It "
            "may come from anyone, so it is not imported. If you know where it comes "
            "from, say --trust."
        )
    module_name, _, path = reference.partition(":")
    if not module_name or not path:
        raise InvalidInputError(
            f"An object must be named as package.module:object, but got {reference!r}."
        )
    # Behind everything that is installed: a file here must not shadow a package.
    sys.path.extend(place for place in code.places if place not in sys.path)
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise InvalidInputError(
            f"The module {module_name!r} of {reference!r} cannot be imported: {error}. "
            f"It was looked for in {', '.join(code.places)} and among the installed "
            "packages."
        ) from error
    for part in path.split("."):
        if not hasattr(found, part):
            names = [name for name in dir(found) if not name.startswith("_")]
            raise UnknownNameError(f"object of {module_name}", part, names)
        found = getattr(found, part)
    return found


def takes_settings(reference: str, code: Code | None = None) -> bool:
    """Whether the object is a class whose fields are its settings.

    Args:
        reference: module and object.
        code: whether it may be imported, and from where.
    """
    found = load_object(reference, code)
    return isinstance(found, type) and is_dataclass(found)


def build_object(
    kind: str,
    reference: str,
    settings: Mapping[str, Any],
    base: type,
    code: Code | None = None,
) -> Any:
    """Return the system or trainer that a reference stands for.

    Args:
        kind: `"system"` or `"trainer"`.
        reference: `package.module:object`; the object is a system or trainer itself,
            or a class or function that makes one.
        settings: arguments for making it.
        base: what it must be an instance of.
        code: whether it may be imported, and from where.
    """
    code = Code() if code is None else code
    found = load_object(reference, code)
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
