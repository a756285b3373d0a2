"""Names that are imported when they are first used.

`import taskspace` and commands that need no physics stay light: JAX, for one, takes
longer to load than a small matrix takes to cover.
"""

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

__all__ = ["Registry", "lazy_names"]

T = TypeVar("T")


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package whose names load on first use.

    Args:
        package: `__name__` of the package.
        homes: for each name the module it lives in; the module's own name stands
            for the module itself.
    """

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(homes[name])
        is_module = homes[name] == f"{package}.{name}"
        found = module if is_module else getattr(module, name)
        setattr(sys.modules[package], name, found)
        return found

    def __dir__() -> list[str]:
        return sorted(homes)

    return __getattr__, __dir__


class Registry(Mapping[str, T], Generic[T]):
    """Things by name, imported when they are first asked for.

    Args:
        homes: for each name `module:object`.
    """

    def __init__(self, homes: Mapping[str, str]):
        self._homes = dict(homes)

    def __getitem__(self, name: str) -> T:
        module, _, found = self._homes[name].partition(":")
        return getattr(importlib.import_module(module), found)

    def __contains__(self, name: object) -> bool:
        return name in self._homes

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)
