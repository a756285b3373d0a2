"""All selectors; a new one is a file beside these and a name here."""

from taskspace.selection.base import Selector
from taskspace.selection.coverage import Coverage
from taskspace.selection.farthest import Farthest
from taskspace.selection.interpolated import Interpolated
from taskspace.selection.mbtl import Mbtl
from taskspace.selection.random import Random
from taskspace.selection.uncovered import Uncovered
from taskspace.selection.uniform import Uniform

__all__ = ["SELECTORS"]

SELECTORS: dict[str, type[Selector]] = {
    cls.name: cls
    for cls in (Random, Uniform, Uncovered, Farthest, Mbtl, Coverage, Interpolated)
}
"""All selectors by name."""
