"""Systems and trainers by name: built in, of Gymnasium, or `package.module:object`.

Importing a module runs it. A TOML file that a user wrote and hands to `run`, `doctor`
or `select` may do that; a run may come from a stranger, so what it names is imported
and called only where the user says so (`--trust`).

Code of a user is no part of a run: a file may be edited while the run stays. The run's
own numbers tell: `check_code` computes some of them again. New numbers must not join
those of other code.
"""

import ast
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import (
    DamagedFileError,
    InvalidInputError,
    RunStoreError,
    UnknownNameError,
    UntrustedCodeError,
)
from taskspace.performance.work import REGION
from taskspace.systems import SYSTEMS, System, gymnasium_system
from taskspace.trainers import TRAINERS, Trainer

if TYPE_CHECKING:
    from taskspace.runs.folder import RunFolder

# Machines round differently, and simulations in float32 more than solved equations.
ROUNDING = 1e-6
SAMPLED_ROUNDING = 1e-3
# Of a simulation, means over episodes; the other variables follow from them.
COMPARED = ("performance", "worst", "best")


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


def build_system(spec: Mapping[str, Any], code: Code | None = None) -> System:
    """Return the system that the table `[system]` describes.

    Args:
        spec: its `id` and settings.
        code: what may be imported.
    """
    name, registry = spec.get("id"), SYSTEMS
    if is_gymnasium(name):
        make = partial(gymnasium_system, str(name).removeprefix("gymnasium:"))
        registry = {name: make}
    return _build("system", registry, spec, System, code)


def build_trainer(spec: Mapping[str, Any], code: Code | None = None) -> Trainer:
    """Return the trainer that the table `[trainer]` describes.

    Args:
        spec: its `id` and settings.
        code: what may be imported.
    """
    return _build("trainer", TRAINERS, spec, Trainer, code)


def _build(
    kind: str,
    registry: Mapping[Any, Any],
    spec: Mapping[str, Any],
    base: type[Any],
    code: Code | None,
) -> Any:
    settings = dict(spec)
    name = settings.pop("id", None)
    if is_reference(name):
        make = load_object(name, code)
    elif isinstance(name, str) and name in registry:
        if code is not None and not code.trusted and needs_trust(spec):
            raise UntrustedCodeError(
                f"{name} takes arguments that a run names. They may name any file, so "
                "it is not built. If you know where the run comes from, say --trust."
            )
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
    if isinstance(make, type) and is_dataclass(make):
        check_keys(f"[{kind}] of {name}", settings, [f.name for f in fields(make)])
    elif is_gymnasium(name):
        known = list(inspect.signature(make).parameters)
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


# --- is the code still the one that a run was made with? -----------------------------


def check_code(run: "RunFolder", *, is_edited: bool = False) -> None:
    """Refuse a run whose numbers the user's system or trainer does not give any more.

    One row is computed again. Built-in systems are not compared: their id says which
    version they are.

    Args:
        run: the run; what is damaged in it is not compared.
        is_edited: files of the user were edited, so the trainer is compared too.
    """
    trainer = run.experiment.trainer.get("id")
    is_own_system = ":" in str(run.experiment.system.get("id"))
    is_own_trainer = is_edited and is_reference(trainer)
    if not (is_own_system or is_own_trainer):
        return
    found, task = run.trainings, run.experiment.task()
    system, targets = task.system, task.system.contexts(run.targets)
    columns = np.arange(len(targets))
    if system.provenance != "exact":
        columns = columns[[0, -1]]  # others may be simulations of minutes each
    task = replace(task, targets=targets[columns])
    names = [name for name in COMPARED if name in run.info.layout.stored]
    points = np.array([kind != REGION for kind in found.kinds], bool)
    for number in np.flatnonzero(found.evaluated & points).tolist():
        try:
            block = found.policies([number])
            rows = [found.rows(n, np.array([number]))[..., columns] for n in names]
            # What was not evaluated counts as a failure: no number.
            rows = [np.where(np.isfinite(row), row, np.nan) for row in rows]
            break
        except DamagedFileError:
            continue  # it is computed again
    else:
        return
    context, seed = system.contexts(found.sources)[[number]], found.seeds[number]
    policies, home, what = block.trained.policies, _words(system, context[0]), ""

    def score() -> list[NDArray[Any]]:
        values = task.variables(block, names)
        return [*(values[n] for n in names), system.home_performance(policies, context)]

    def train() -> list[NDArray[Any]]:
        return [*task.train(context, seed).trained.policies.arrays().values()]

    if is_own_system:
        rounding = SAMPLED_ROUNDING if system.n_episodes else ROUNDING
        if changed := _changed([*rows, block.home], score, rounding):
            kind, place, values = changed
            at = task.targets[place[-1]] if kind < len(names) else context[0]
            what = f"system was edited since: J of the policy trained at {home} is "
            what += values.format(f" at {_words(system, at)}")
    if is_own_trainer and not what:
        gains = [*policies.arrays().values()]
        if _changed(gains, train, SAMPLED_ROUNDING):
            what = f"trainer {trainer} was edited since: it makes another policy at "
            what += home
    if what:
        raise RunStoreError(
            f"{run.origin} holds another experiment: its {what}. Nothing was changed. "
            "Choose another directory with --out, or bring back the code that it was "
            "made with."
        )


def _changed(
    then: Sequence[NDArray[Any]], compute: Callable[[], list[Any]], rounding: float
) -> tuple[int, tuple[int, ...], str] | None:
    """Return which array, where and how a number changed, None if none did.

    NaN is not compared, nor what differs from call to call.
    """
    now, again = compute(), compute()
    if [*map(np.shape, now)] != [*map(np.shape, then)]:
        return 0, (0,), "of another shape now{}"
    for kind, (old, new, twice) in enumerate(zip(then, now, again, strict=True)):
        repeats = np.isclose(new, twice, rtol=rounding, atol=0, equal_nan=True)
        same = np.isclose(old, new, rtol=rounding, atol=0) | np.isnan(old)
        for place in map(tuple, np.argwhere(repeats & ~same)[:1]):
            words = f"{old[place]:.9g}{{}} in the run and {new[place]:.9g} now"
            return kind, place, words
    return None


def _words(system: System, row: NDArray[np.float64]) -> str:
    names = [axis.name for axis in system.axes]
    return ", ".join(f"{n} = {v:g}" for n, v in zip(names, row, strict=True))
