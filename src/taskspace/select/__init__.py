"""What to train next: selectors, and the loop that asks them until all is covered.

The package can be called: `taskspace.select(...)` is `taskspace.select.select(...)`.
"""

from typing import TYPE_CHECKING

from taskspace._lazy import callable_package, lazy_names

if TYPE_CHECKING:
    from taskspace.select.base import Candidates, Known, Offer, Selector, known
    from taskspace.select.loop import Journal, Options, Selection
    from taskspace.select.result import Budget, SelectResult
    from taskspace.select.selecting import select
    from taskspace.select.selectors import SELECTORS

_HOMES = {
    "base": ("Candidates", "Known", "Offer", "Selector", "known"),
    "loop": ("Journal", "Options", "Selection"),
    "result": ("Budget", "SelectResult"),
    "selecting": ("select",),
    "selectors": ("SELECTORS",),
}
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        name: f"{__name__}.{module}"
        for module, names in _HOMES.items()
        for name in names
    },
)

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

callable_package(__name__, "select")
