"""Ways to choose what to train next; each registers itself by `@selector`."""

from taskspace.selection.selectors import baselines, mbtl, coverage, noisy  # noqa: F401, I001
from taskspace.selection.selectors.base import SELECTORS, selector

__all__ = ["SELECTORS", "selector"]
