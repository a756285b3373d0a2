"""Pictures: small records of what to draw, and the renderers that draw them.

`map`, `coverage`, `profile`, `transfer`, `tolerance`, `boxes` and `history` return
matplotlib figures, one for each kind of `taskspace plot`; `page` makes the HTML
explorer.
"""

from typing import TYPE_CHECKING

from taskspace._lazy import lazy_names

if TYPE_CHECKING:
    from taskspace.show import page as page
    from taskspace.show.box_maps import BoxMap as BoxMap
    from taskspace.show.box_maps import box_map as box_map
    from taskspace.show.box_maps import boxes as boxes
    from taskspace.show.box_maps import draw_box_map as draw_box_map
    from taskspace.show.certificates import TolerancePlot as TolerancePlot
    from taskspace.show.certificates import draw_tolerance as draw_tolerance
    from taskspace.show.certificates import tolerance as tolerance
    from taskspace.show.certificates import tolerance_plot as tolerance_plot
    from taskspace.show.figures import CoveragePlot as CoveragePlot
    from taskspace.show.figures import coverage as coverage
    from taskspace.show.figures import coverage_plot as coverage_plot
    from taskspace.show.figures import draw_coverage as draw_coverage
    from taskspace.show.figures import save_figures as save_figures
    from taskspace.show.maps import draw_context_map as draw_context_map
    from taskspace.show.maps import draw_matrix as draw_matrix
    from taskspace.show.maps import map as map
    from taskspace.show.maps import transfer as transfer
    from taskspace.show.profiles import draw_profile as draw_profile
    from taskspace.show.profiles import profile as profile
    from taskspace.show.records import ContextMap as ContextMap
    from taskspace.show.records import MatrixPlot as MatrixPlot
    from taskspace.show.records import context_map as context_map
    from taskspace.show.records import matrix_plot as matrix_plot
    from taskspace.show.selection import SelectionPlot as SelectionPlot
    from taskspace.show.selection import draw_selection as draw_selection
    from taskspace.show.selection import history as history
    from taskspace.show.selection import selection_plot as selection_plot
    from taskspace.show.selection import stored_selection as stored_selection

_HOMES = {
    "taskspace.show.box_maps": ("BoxMap", "box_map", "boxes", "draw_box_map"),
    "taskspace.show.certificates": (
        "TolerancePlot",
        "draw_tolerance",
        "tolerance",
        "tolerance_plot",
    ),
    "taskspace.show.figures": (
        "CoveragePlot",
        "coverage",
        "coverage_plot",
        "draw_coverage",
        "save_figures",
    ),
    "taskspace.show.maps": (
        "draw_context_map",
        "draw_matrix",
        "map",
        "transfer",
    ),
    "taskspace.show.profiles": ("draw_profile", "profile"),
    "taskspace.show.records": (
        "ContextMap",
        "MatrixPlot",
        "context_map",
        "matrix_plot",
    ),
    "taskspace.show.selection": (
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
