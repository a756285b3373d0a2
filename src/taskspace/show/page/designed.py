"""Loss against the number of designed gains, on a page."""

from typing import Any

import xarray as xr

from taskspace.designs import CURVE
from taskspace.show.page.data import PageData


def add_design(page: PageData, table: xr.Dataset) -> None:
    """Put the curve of a designed study into a page, where there is one.

    Args:
        page: gets a part `design`: the record that the figure is drawn from.
        table: its attributes may have a curve.
    """
    record: dict[str, Any] | None = table.attrs.get(CURVE)
    if record is not None:
        page.header["design"] = record
