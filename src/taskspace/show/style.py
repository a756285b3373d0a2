"""One look for every figure: readable in print, safe for colour-blind readers."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from taskspace._util.files import replacing
from taskspace.cover import METHODS

__all__ = ["METHOD_COLOURS", "PALETTE", "literal", "new_figure", "save"]

# Okabe & Ito (2008), without black.
PALETTE = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#F0E442",
    "#999999",
)
METHOD_COLOURS = {name: method.colour for name, method in METHODS.items()}
STYLE: Any = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
}


def literal(text: str) -> str:
    """Text as it is, for matplotlib: a dollar sign would start mathematics.

    Args:
        text: what a user may have written.
    """
    return text.replace("$", r"\$")


def new_figure(width: float, height: float) -> Figure:
    """An empty figure in our style; no window is ever opened.

    Args:
        width: in inches.
        height: in inches.
    """
    with mpl.rc_context(STYLE):
        return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, path: Path) -> list[Path]:
    """Write a figure as PNG and PDF.

    Args:
        figure: what to write.
        path: without a suffix.

    Returns:
        The files. They are the same bytes for the same picture.
    """
    # Not `with_suffix`: a name may hold a tolerance such as 0.2.
    files = [path.with_name(f"{path.name}.{kind}") for kind in ("png", "pdf")]
    notes = {"Software": None}, {"CreationDate": None, "Creator": None}
    with mpl.rc_context(STYLE):
        for file, metadata in zip(files, notes, strict=True):
            with replacing(file) as temporary:
                kind = file.suffix.removeprefix(".")
                figure.savefig(temporary, metadata=metadata, format=kind)
    return files
