"""A selection in a page: what was trained, in which order, and what that covered."""

from dataclasses import asdict

from taskspace.show.page.data import PageData
from taskspace.show.selection import SelectionPlot

__all__ = ["add_selection"]

MAX_POINTS = 2_000
"""Points of a curve of another selector that go into a page."""


def add_selection(page: PageData, plot: SelectionPlot) -> None:
    """Put the record of a selection into a page.

    Args:
        page: gets a part `selection`: the record that figures are drawn from.
        plot: the record.
    """
    record = asdict(plot)
    for other in record["others"]:
        every = -(-len(other["trainings"]) // MAX_POINTS)
        for name in ("trainings", "coverage", "low", "high"):
            other[name] = other[name][::every]
    page.header["selection"] = record
