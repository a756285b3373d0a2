"""What taskspace raises: one root, and leaves that are also the builtin error.

Every message says what must hold, what arrived, and what to do about it. The
command line prints the message and exits with code 2.
"""

import difflib
from collections.abc import Iterable


class TaskspaceError(Exception):
    """Root of all errors that taskspace raises on purpose."""


class InvalidInputError(TaskspaceError, ValueError):
    """An argument or a file does not satisfy what the function needs."""


def require(value: object, kind: type, what: str) -> None:
    """Refuse a value of another type, in words.

    Args:
        value: what a caller gave.
        kind: the type that it must have.
        what: what is needed, with an example.
    """
    if isinstance(value, kind):
        return
    if isinstance(value, type):
        arrived = f"the class {value.__name__}: call it, {value.__name__}(...)"
    else:
        arrived = "none" if value is None else f"{type(value).__name__} {value!r:.60}"
    raise InvalidInputError(f"This needs {what}, but got {arrived}.")


class UnknownNameError(TaskspaceError, LookupError):
    """A name is not in the list of known ones.

    Args:
        kind: what the name stands for, e.g. `"system"`.
        name: the name that was given.
        known: the names that exist.
    """

    def __init__(self, kind: str, name: object, known: Iterable[str]):
        known = list(known)
        close = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        super().__init__(
            f"Unknown {kind} {name!r}.{hint} Known: {', '.join(known) or 'none'}."
        )
        self.kind, self.name, self.known = kind, name, known

    def __reduce__(self):
        return type(self), (self.kind, self.name, self.known)


EXTRA_OF = {
    "clarabel": "operation",
    "control": "control",
    "distributed": "dask",
    "gymnasium": "rl",
    "jax": "sim",
    "mujoco": "mujoco",
    "onnx": "export",
    "optax": "sim",
    "stable_baselines3": "rl",
    "torch": "rl",
}
"""The extra of taskspace that installs a module."""


class MissingExtraError(TaskspaceError, ImportError):
    """An optional dependency is not installed.

    Args:
        what: what needs it, e.g. `"The ONNX export"`.
        extra: the extra of taskspace that installs it.
    """

    def __init__(self, what: str, extra: str):
        super().__init__(
            f"{what} needs the extra {extra!r}: pip install 'taskspace[{extra}]'"
        )
        self.what, self.extra = what, extra

    def __reduce__(self):
        return type(self), (self.what, self.extra)

    @classmethod
    def of(cls, error: ModuleNotFoundError, what: str) -> "MissingExtraError | None":
        """Return the error that names the extra of a missing module, None without one.

        Args:
            error: what Python said of the module.
            what: what needs the module.
        """
        extra = EXTRA_OF.get((error.name or "").partition(".")[0])
        return None if extra is None else cls(what, extra)


class ContradictionError(TaskspaceError, RuntimeError):
    """Two statements that were both called established exclude each other.

    One of the two is wrong, and neither may be used.
    """


class DamagedFileError(TaskspaceError, ValueError):
    """A file is not what was written: cut short, changed, or unreadable."""


class UntrustedCodeError(TaskspaceError, RuntimeError):
    """A file that may come from anyone names code, which is not imported."""


class RunStoreError(TaskspaceError, RuntimeError):
    """A run directory is damaged, or belongs to another experiment."""


class OutOfMemoryError(TaskspaceError, MemoryError):
    """Something would take more memory than there is, or than was allowed."""


NOT_OF_A_TRAINING = (TaskspaceError, MemoryError, SystemError)
"""What ends a command though a training raised it; other errors are the training's.

A signal that arrives in compiled code comes out of it as a SystemError.
"""
