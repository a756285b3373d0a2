"""What to train next: selectors, and the loop that asks them until all is covered."""

from typing import TYPE_CHECKING

from taskspace._util.lazy import lazy_names

if TYPE_CHECKING:
    from taskspace.selection.loop import Options, Selection
    from taskspace.selection.result import Budget, SelectResult
    from taskspace.selection.selecting import select
    from taskspace.selection.selectors.base import (
        Candidates,
        Known,
        Offer,
        Selector,
        known,
    )
    from taskspace.selection.selectors.catalogue import SELECTORS

_HOMES = {
    "selectors.base": ("Candidates", "Known", "Offer", "Selector", "known"),
    "loop": ("Options", "Selection"),
    "result": ("Budget", "SelectResult"),
    "selecting": ("select",),
    "selectors.catalogue": ("SELECTORS",),
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
    "Known",
    "Offer",
    "Options",
    "SelectResult",
    "Selection",
    "Selector",
    "known",
    "select",
]
