"""The page: one HTML file that explains, explores and travels."""

from taskspace._util import cache as cache  # before kernels are compiled or loaded
from taskspace.show.page.build import build_page, collect, explore

__all__ = ["build_page", "collect", "explore"]
