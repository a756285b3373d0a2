"""Ways to cover, one per file; those of this package are registered here."""

from taskspace.cover.methods import greedy, local, minimum, baselines  # noqa: F401, I001
from taskspace.cover.methods.registry import METHODS, find_cover

__all__ = ["METHODS", "find_cover"]
