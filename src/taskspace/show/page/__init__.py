"""The page: one HTML file that explains, explores and travels."""

from taskspace.show.page.build import build_page, collect, explore

__all__ = ["build_page", "collect", "explore"]
