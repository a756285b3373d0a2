"""A selection in a page: what was trained, in which order, and what that covered."""

from dataclasses import asdict

from taskspace.show.figures.history import COSTS, SelectionPlot
from taskspace.show.page.data import PageData

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
    for rival in record["rivals"]:
        every = max(1, -(-len(rival["coverage"]) // MAX_POINTS))
        for name in (*COSTS, "coverage"):
            rival[name] = rival[name][::every]
    page.header["selection"] = record
