"""The page: one HTML file that explains, explores and travels."""

from taskspace._util import cache as cache  # before kernels are compiled or loaded
from taskspace.show.page.build import build_page, collect
from taskspace.show.page.html import render
from taskspace.show.page.subject import Reader, Subject, explore

__all__ = [
    "Reader",
    "Subject",
    "build_page",
    "collect",
    "explore",
    "render",
]
