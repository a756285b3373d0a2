"""What to train next: selectors, and the loop that asks them until all is covered.

The package can be called: `taskspace.select(...)` is `taskspace.select.select(...)`.
"""

import sys
from types import ModuleType

from taskspace._lazy import callable_package
from taskspace.select.base import Candidates, Known, Offer, Selector, known
from taskspace.select.loop import Journal, Options, Selection
from taskspace.select.result import Budget, SelectResult
from taskspace.select.selecting import select
from taskspace.select.selectors import SELECTORS

__all__ = [
    "SELECTORS",
    "Budget",
    "Candidates",
    "Journal",
    "Known",
    "Offer",
    "Options",
    "SelectResult",
    "Selection",
    "Selector",
    "known",
    "select",
]


class _Callable(ModuleType):
    __call__ = staticmethod(select)


# `ts.select(...)` works whether or not someone imported this package before.
sys.modules[__name__].__class__ = _Callable

callable_package(__name__, "select")
