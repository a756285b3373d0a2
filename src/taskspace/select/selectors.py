"""All selectors; a new one is a file beside these and a name here."""

from taskspace.select.base import Selector
from taskspace.select.coverage import Coverage
from taskspace.select.farthest import Farthest
from taskspace.select.interpolated import Interpolated
from taskspace.select.mbtl import Mbtl
from taskspace.select.random import Random
from taskspace.select.uncovered import Uncovered
from taskspace.select.uniform import Uniform

__all__ = ["SELECTORS"]

SELECTORS: dict[str, type[Selector]] = {
    cls.name: cls
    for cls in (Random, Uniform, Uncovered, Farthest, Mbtl, Coverage, Interpolated)
}
"""All selectors by name."""
