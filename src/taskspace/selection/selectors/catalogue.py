"""All selectors; a new one is a file beside these and a name here."""

from taskspace.selection.selectors.base import Selector
from taskspace.selection.selectors.coverage.selector import Coverage
from taskspace.selection.selectors.farthest import Farthest
from taskspace.selection.selectors.mbtl import Mbtl
from taskspace.selection.selectors.noisy import Noisy, Regions
from taskspace.selection.selectors.random import Random
from taskspace.selection.selectors.uncovered import Uncovered
from taskspace.selection.selectors.uniform import Uniform

__all__ = ["SELECTORS"]

SELECTORS: dict[str, type[Selector]] = {
    cls.name: cls
    for cls in (
        Random,
        Uniform,
        Uncovered,
        Farthest,
        Mbtl,
        Coverage,
        Regions,
        Noisy,
    )
}
"""All selectors by name."""
