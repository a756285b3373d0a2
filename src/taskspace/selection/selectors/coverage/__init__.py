"""Our own selector: a model of transfer, a plan on one axis, and who uses both."""

from taskspace.selection.selectors.coverage.selector import Coverage

__all__ = ["Coverage"]
