"""Ways to choose what to train next; each registers itself by `@selector`."""

from taskspace.selection.selectors import baselines, coverage, noisy  # noqa: F401
from taskspace.selection.selectors.base import SELECTORS, selector

__all__ = ["SELECTORS", "selector"]
