"""Names whose modules are imported when they are first used.

Commands that need no physics stay light: JAX, for one, takes longer to load than a
small matrix takes to cover.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import lazy_loader

from taskspace.errors import MissingExtraError

T = TypeVar("T")


@contextmanager
def _extras_named(what: str) -> Iterator[None]:
    """Name the extra to install where a module of an extra is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (missing := MissingExtraError.of(error, what)) is None:
            raise
        raise missing from error


def lazy_names(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package, from its stub.

    Args:
        package: its `__name__`.
        file: its `__file__`; the stub stands beside it.
    """
    get, names, public = lazy_loader.attach_stub(package, file)

    def get_or_say(name: str) -> Any:
        with _extras_named(f"{package}.{name}"):
            return get(name)

    return get_or_say, names, public


class Registry(Mapping[str, T], Generic[T]):
    """Registered objects by name, imported when they are first used.

    Args:
        homes: for each name `module:object`.
    """

    def __init__(self, homes: Mapping[str, str]):
        self._homes = dict(homes)
        self._things: dict[str, T] = {}

    def __setitem__(self, name: str, thing: T) -> None:
        """Register a thing that exists already."""
        self._homes[name], self._things[name] = "", thing

    def __delitem__(self, name: str) -> None:
        """Forget a thing that was registered."""
        del self._homes[name], self._things[name]

    def __getitem__(self, name: str) -> T:
        if name in self._things:
            return self._things[name]
        module, _, thing = self._homes[name].partition(":")
        with _extras_named(repr(name)):
            return getattr(importlib.import_module(module), thing)

    def __contains__(self, name: object) -> bool:
        return name in self._homes

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)
