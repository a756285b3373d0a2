"""How covers, curves and profiles look in a notebook: a few lines and a table."""

import html
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["html_view", "listed"]

SHOWN = 12


def listed(things: Iterable[object], n_shown: int = SHOWN) -> str:
    """Return the first few of some things, and how many more there are.

    Args:
        things: numbers or names.
        n_shown: how many to show.
    """
    words = [str(thing) for thing in things]
    rest = len(words) - n_shown
    more = f", ... and {rest:,} more" if rest > 0 else ""
    return ", ".join(words[:n_shown]) + more


def html_view(text: str, frame: "pd.DataFrame") -> str:
    """Lines of text above a table of which the middle may be left out.

    Args:
        text: shown as it is, line by line.
        frame: the table.
    """
    lines = "<br>".join(html.escape(line) for line in text.splitlines())
    return f"<p>{lines}</p>{frame.to_html(max_rows=SHOWN, index=False, na_rep='')}"
