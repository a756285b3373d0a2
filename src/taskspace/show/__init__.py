"""Pictures: small records of what to draw, and the renderers that draw them.

`map`, `coverage`, `complexity` and `matrix` make a matplotlib figure of any table in
one line; `page` makes the HTML explorer.
"""

from typing import TYPE_CHECKING

from taskspace._lazy import lazy_names

if TYPE_CHECKING:
    from taskspace.show import page as page
    from taskspace.show.figures import CoveragePlot as CoveragePlot
    from taskspace.show.figures import coverage as coverage
    from taskspace.show.figures import coverage_plot as coverage_plot
    from taskspace.show.figures import draw_coverage as draw_coverage
    from taskspace.show.figures import save_figures as save_figures
    from taskspace.show.maps import draw_context_map as draw_context_map
    from taskspace.show.maps import draw_matrix as draw_matrix
    from taskspace.show.maps import map as map
    from taskspace.show.maps import matrix as matrix
    from taskspace.show.profile import complexity as complexity
    from taskspace.show.profile import draw_profile as draw_profile
    from taskspace.show.records import ContextMap as ContextMap
    from taskspace.show.records import MatrixPlot as MatrixPlot
    from taskspace.show.records import context_map as context_map
    from taskspace.show.records import matrix_plot as matrix_plot

_HOMES = {
    "taskspace.show.figures": (
        "CoveragePlot",
        "coverage",
        "coverage_plot",
        "draw_coverage",
        "save_figures",
    ),
    "taskspace.show.maps": ("draw_context_map", "draw_matrix", "map", "matrix"),
    "taskspace.show.profile": ("complexity", "draw_profile"),
    "taskspace.show.records": (
        "ContextMap",
        "MatrixPlot",
        "context_map",
        "matrix_plot",
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
