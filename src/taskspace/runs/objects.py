"""Systems and trainers by name: built in, of Gymnasium, or `package.module:object`.

Importing a module runs it. A TOML file that a user wrote and hands to `run`, `doctor`
or `select` may do that; a run may come from a stranger, so
what it names is imported and called only where the user says so (`--trust`).
"""

import ast
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from taskspace.errors import InvalidInputError, UnknownNameError, UntrustedCodeError
from taskspace.systems import SYSTEMS, System, gymnasium_system
from taskspace.trainers import TRAINERS, Trainer


@dataclass(frozen=True)
class Code:
    """What may be imported for an experiment, and where modules are looked for.

    Args:
        trusted: whether code may be imported at all.
        folders: looked through besides the installed packages, before the working
            directory.
        key: stands for the code that work was planned with, see `code_key`; empty if
            any will do.
    """

    trusted: bool = True
    folders: tuple[Path, ...] = ()
    key: str = ""

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


ARGUMENTS = {"gymnasium": "arguments", "sb3": "options"}
"""Settings that are handed on as they are: a library may open a file that they name."""


def needs_trust(spec: Mapping[str, Any]) -> bool:
    """Whether building a system or a trainer does what its table says, not we.

    Args:
        spec: its `id` and settings.
    """
    name = spec.get("id")
    handed_on = ARGUMENTS.get(str(name).partition(":")[0], "")
    return is_reference(name) or bool(spec.get(handed_on))


def load_object(reference: str, code: Code | None = None) -> Any:
    """Return the Python object `package.module:object`.

    Args:
        reference: module and object, e.g. `"my_plant:pendulum"`.
        code: whether it may be imported, and from where.
    """
    code = Code() if code is None else code
    if not code.trusted:
        raise UntrustedCodeError(
            f"This needs the code {reference!r}, which a run names. It "
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
    _remember(found)
    for part in path.split("."):
        if not hasattr(found, part):
            names = [name for name in dir(found) if not name.startswith("_")]
            raise UnknownNameError(f"object of {module_name}", part, names)
        found = getattr(found, part)
    return found


_texts: WeakKeyDictionary[ModuleType, bytes] = WeakKeyDictionary()
"""The file of each module of the user's, as it was when it was imported."""


def _remember(module: ModuleType) -> None:
    """Keep the text of a module, and of those beside it that it uses."""
    file = getattr(module, "__file__", None)
    if module in _texts or not file or not Path(file).is_file():
        return
    _texts[module] = Path(file).read_bytes()
    for other in _beside(module):
        _remember(other)


def _beside(module: ModuleType) -> list[ModuleType]:
    """Return the modules of the same folder or package that a module imports.

    By its text, and not by what it holds: submodules that others imported hang on a
    package in one process and not in another.
    """
    root = str(Path(str(module.__file__)).parent)
    if package := module.__name__.partition(".")[0] if "." in module.__name__ else "":
        root = str(Path(str(sys.modules[package].__file__)).parent)
    names: list[str] = []
    for line in ast.parse(_texts[module]).body:
        if isinstance(line, ast.Import):
            names += [alias.name for alias in line.names]
        elif isinstance(line, ast.ImportFrom):
            start = "." * line.level + (line.module or "")
            base = importlib.util.resolve_name(start, module.__package__)
            names += [base, *(f"{base}.{alias.name}" for alias in line.names)]
    modules = [sys.modules.get(name) for name in names]
    return [
        other
        for other in modules
        if other is not None
        and str(getattr(other, "__file__", None) or "").startswith(root)
    ]


def code_key(names: Sequence[object], code: Code | None = None) -> str:
    """Return what stands for the code that names refer to; empty if there is none.

    Two processes with different versions of a file have different keys.

    Args:
        names: ids of systems and trainers.
        code: whether it may be imported, and from where.
    """
    total, found = hashlib.sha256(), set()
    modules = []
    for name in filter(is_reference, names):
        load_object(str(name), code)
        modules.append(sys.modules[str(name).partition(":")[0]])
    while modules:
        module = modules.pop()
        if module in _texts and module not in found:
            found.add(module)
            modules += _beside(module)
    for module in sorted(found, key=lambda each: each.__name__):
        total.update(module.__name__.encode() + b"\0" + _texts[module])
    return total.hexdigest() if found else ""


def takes_settings(reference: str, code: Code | None = None) -> bool:
    """Whether the object is a class whose fields are its settings.

    Args:
        reference: module and object.
        code: whether it may be imported, and from where.
    """
    found = load_object(reference, code)
    return isinstance(found, type) and is_dataclass(found)


def _settings_of(make: Any) -> list[str] | None:
    """Return the settings of a class of fields, and of an environment's function."""
    if isinstance(make, type) and is_dataclass(make):
        return [field.name for field in fields(make)]
    if isinstance(make, partial) and make.func is gymnasium_system:
        return list(inspect.signature(make).parameters)
    return None


def build_system(spec: Mapping[str, Any], code: Code | None = None) -> System:
    """Return the system that the table `[system]` describes.

    Args:
        spec: its `id` and settings.
        code: what may be imported.
    """
    name = spec.get("id")
    if is_gymnasium(name):
        _check_trust(spec, code)
        make: Any = partial(gymnasium_system, str(name).removeprefix("gymnasium:"))
        return _build("system", {name: make}, spec, System, code)
    return _build("system", SYSTEMS, spec, System, code)


def build_trainer(spec: Mapping[str, Any], code: Code | None = None) -> Trainer:
    """Return the trainer that the table `[trainer]` describes.

    Args:
        spec: its `id` and settings.
        code: what may be imported.
    """
    _check_trust(spec, code)
    return _build("trainer", TRAINERS, spec, Trainer, code)


def _check_trust(spec: Mapping[str, Any], code: Code | None) -> None:
    """Refuse arguments of a stranger for an environment or a learning library."""
    name = str(spec.get("id"))
    if code is None or code.trusted or is_reference(name) or not needs_trust(spec):
        return
    raise UntrustedCodeError(
        f"{name} takes arguments that a run names ({ARGUMENTS[name.partition(':')[0]]}"
        "). They may name any file, so it is not built. If you know where the run "
        "comes from, say --trust."
    )


def _build(
    kind: str,
    registry: Mapping[Any, Any],
    spec: Mapping[str, Any],
    base: type,
    code: Code | None,
) -> Any:
    """Return an object: one that is there, or what a class or function makes."""
    settings = dict(spec)
    name = settings.pop("id", None)
    if is_reference(name):
        make = load_object(name, code)
    elif isinstance(name, str) and name in registry:
        make = registry[name]
        settings = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in settings.items()
        }
    else:
        raise UnknownNameError(kind, name, registry)
    if isinstance(make, base):
        if settings:
            raise InvalidInputError(
                f"{name} is finished and takes no settings, but got "
                f"{', '.join(settings)}. Name a class or function to use settings."
            )
        return make
    if not callable(make):
        raise InvalidInputError(
            f"{name} must be a {kind}, or make one when it is called, but is "
            f"{type(make).__name__}."
        )
    known = _settings_of(make)
    if known is not None:
        check_keys(f"[{kind}] of {name}", settings, known)
    try:
        made = make(**settings)
    except TypeError as error:
        raise InvalidInputError(
            f"[{kind}] of {name} does not take these settings, or one is of a wrong "
            f"type: {error}."
        ) from error
    if not isinstance(made, base):
        raise InvalidInputError(
            f"{name} must make a {base.__name__}, but made {type(made).__name__}."
        )
    return made


def check_keys(where: str, values: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse a key that a table does not have.

    Args:
        where: what to call the table.
        values: what it holds.
        known: the keys that it may have.
    """
    for key in values:
        if key not in known:
            raise UnknownNameError(f"key of {where}:", key, known)
