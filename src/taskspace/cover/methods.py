"""All cover methods: those of this package are registered by importing them."""

from taskspace.cover import greedy, local, minimum, baselines  # noqa: F401, I001
from taskspace.cover.registry import METHODS, find_cover

__all__ = ["METHODS", "find_cover"]
