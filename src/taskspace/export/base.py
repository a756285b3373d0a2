"""Exporters by name, and what they share.

An exporter is a function `(library, folder, *, …, command=None) -> folder`. Register it
beside its definition:

```python
@exporter("python")
def export_python(library, folder, *, indent=4, command=None):
    ...
```

`taskspace export --as python` then calls it, and fills its keywords from the options of
the same names. The policy and the status of every context must be those of
`library.select`; `taskspace.testing.check_exporter` checks that. With `schedules=True`
an exporter gets a `ScheduleLibrary` (`taskspace export --schedule FILE`).
"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from taskspace.deploy.base import Status
from taskspace.deploy.policies import PolicyLibrary
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearController, LinearGain

Write = TypeVar("Write", bound=Callable[..., Path])

EXPORTERS: dict[str, Callable[..., Path]] = {}
"""Exporters of policy libraries by the name of the folder that they write."""
SCHEDULE_EXPORTERS: dict[str, Callable[..., Path]] = {}
"""Exporters of interpolated schedules, likewise."""


def exporter(name: str, *, schedules: bool = False) -> Callable[[Write], Write]:
    """Register an exporter under a name.

    Args:
        name: what `--as` calls it, and the folder that it writes; none may have it.
        schedules: whether it writes interpolated schedules, not policy libraries.
    """
    exporters = SCHEDULE_EXPORTERS if schedules else EXPORTERS

    def register(write: Write) -> Write:
        known = exporters.get(name)
        if known is not None and known.__qualname__ != write.__qualname__:
            raise InvalidInputError(
                f"The export {name!r} is that of {known.__qualname__}. Choose another "
                "name."
            )
        exporters[name] = write
        return write

    return register


def options_of(write: Callable[..., Path]) -> dict[str, inspect.Parameter]:
    """Return the options of an exporter: its keywords but `command`.

    Args:
        write: the exporter.
    """
    parameters = inspect.signature(write).parameters.values()
    keywords = [p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    return {p.name: p for p in keywords if p.name != "command"}


def require_kind(library: object, kind: type) -> None:
    """Refuse another kind of library than an exporter writes.

    Args:
        library: what it was given.
        kind: `PolicyLibrary` or `ScheduleLibrary`.
    """
    if not isinstance(library, kind):
        raise InvalidInputError(
            f"This exporter writes a {kind.__name__}, but got {type(library).__name__}."
        )


def memoryless(library: PolicyLibrary, what: str) -> PolicyLibrary:
    """Return a library whose policies act on what is seen now; refuse states.

    Controllers without states become gains of what is measured.

    Args:
        library: the library.
        what: what has no place for states.
    """
    stack, refused = library.policies, ""
    if isinstance(stack, LinearController):
        library = replace(library, policies=LinearGain(stack.D))
        refused = "controllers with states of their own" if stack.n_states else ""
    elif stack is not None and library.signal_sizes is None:
        refused = f"of kind {stack.kind!r}"
    if refused:
        raise InvalidInputError(
            f"{what} can be written for gains and networks, but these policies are "
            f"{refused}. PI and PID controllers run as C with export_pid (--as pid "
            "--dt STEP); tables (--as tables) hold them all."
        )
    return library


def as_estimate(library: PolicyLibrary, about: str, advice: str = "") -> PolicyLibrary:
    """Return a library whose proof, or confidence, becomes an estimate.

    What was proven of switching is left out.

    Args:
        library: the library.
        about: what was judged, and what runs instead.
        advice: what to do to keep the proof.
    """
    values = {k: v for k, v in library.guarantee.values.items() if k != "operation"}
    guarantee = replace(library.guarantee, values=values)
    if guarantee.status == Status.GUARANTEED:
        statement = (
            f"{guarantee.statement} This is a {guarantee.kind} for {about}, so it is "
            f"an estimate.{advice}"
        )
        guarantee = replace(guarantee, kind="estimate", statement=statement)
    return replace(library, guarantee=guarantee)
