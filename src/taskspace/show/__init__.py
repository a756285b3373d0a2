"""Pictures: small records of what to draw, and the renderers that draw them.

`map`, `coverage`, `profile`, `transfer`, `tolerance`, `boxes` and `history` return
matplotlib figures, one for each kind of `taskspace plot`; `page` makes the HTML
explorer.
"""

from typing import TYPE_CHECKING

from taskspace._util.lazy import lazy_names

if TYPE_CHECKING:
    from taskspace.show import page as page
    from taskspace.show.figures.boxes import BoxMap as BoxMap
    from taskspace.show.figures.boxes import box_map as box_map
    from taskspace.show.figures.boxes import boxes as boxes
    from taskspace.show.figures.boxes import draw_box_map as draw_box_map
    from taskspace.show.figures.coverage import CoveragePlot as CoveragePlot
    from taskspace.show.figures.coverage import coverage as coverage
    from taskspace.show.figures.coverage import coverage_plot as coverage_plot
    from taskspace.show.figures.coverage import draw_coverage as draw_coverage
    from taskspace.show.figures.coverage import save_figures as save_figures
    from taskspace.show.figures.history import SelectionPlot as SelectionPlot
    from taskspace.show.figures.history import draw_selection as draw_selection
    from taskspace.show.figures.history import history as history
    from taskspace.show.figures.history import selection_plot as selection_plot
    from taskspace.show.figures.history import stored_selection as stored_selection
    from taskspace.show.figures.map import draw_context_map as draw_context_map
    from taskspace.show.figures.map import draw_matrix as draw_matrix
    from taskspace.show.figures.map import map as map
    from taskspace.show.figures.map import transfer as transfer
    from taskspace.show.figures.profile import draw_profile as draw_profile
    from taskspace.show.figures.profile import profile as profile
    from taskspace.show.figures.records import ContextMap as ContextMap
    from taskspace.show.figures.records import MatrixPlot as MatrixPlot
    from taskspace.show.figures.records import context_map as context_map
    from taskspace.show.figures.records import matrix_plot as matrix_plot
    from taskspace.show.figures.tolerance import TolerancePlot as TolerancePlot
    from taskspace.show.figures.tolerance import draw_tolerance as draw_tolerance
    from taskspace.show.figures.tolerance import tolerance as tolerance
    from taskspace.show.figures.tolerance import tolerance_plot as tolerance_plot

_HOMES = {
    "taskspace.show.figures.boxes": ("BoxMap", "box_map", "boxes", "draw_box_map"),
    "taskspace.show.figures.tolerance": (
        "TolerancePlot",
        "draw_tolerance",
        "tolerance",
        "tolerance_plot",
    ),
    "taskspace.show.figures.coverage": (
        "CoveragePlot",
        "coverage",
        "coverage_plot",
        "draw_coverage",
        "save_figures",
    ),
    "taskspace.show.figures.map": (
        "draw_context_map",
        "draw_matrix",
        "map",
        "transfer",
    ),
    "taskspace.show.figures.profile": ("draw_profile", "profile"),
    "taskspace.show.figures.records": (
        "ContextMap",
        "MatrixPlot",
        "context_map",
        "matrix_plot",
    ),
    "taskspace.show.figures.history": (
        "SelectionPlot",
        "draw_selection",
        "history",
        "selection_plot",
        "stored_selection",
    ),
}
__getattr__, __dir__ = lazy_names(
    __name__,
    {name: module for module, names in _HOMES.items() for name in names}
    | {"page": f"{__name__}.page"},
)

__all__ = [  # noqa: PLE0604
    "page",
    *(name for names in _HOMES.values() for name in names),
]
