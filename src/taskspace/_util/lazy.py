"""Things by name that are imported when they are first used.

Commands that need no physics stay light: JAX, for one, takes longer to load than a
small matrix takes to cover.
"""

import importlib
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Things by name, imported when they are first asked for.

    Args:
        homes: for each name `module:object`.
    """

    def __init__(self, homes: Mapping[str, str]):
        self._homes = dict(homes)

    def __getitem__(self, name: str) -> T:
        module, _, thing = self._homes[name].partition(":")
        return getattr(importlib.import_module(module), thing)

    def __contains__(self, name: object) -> bool:
        return name in self._homes

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)
