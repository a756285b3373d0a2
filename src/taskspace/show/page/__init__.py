"""The page: one HTML file that explains, explores and travels."""

from taskspace.show.page.build import build_page, collect
from taskspace.show.page.html import render

__all__ = ["build_page", "collect", "render"]
