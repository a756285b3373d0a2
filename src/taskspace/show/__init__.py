"""Pictures: small records of what to draw, and the renderers that draw them."""

from taskspace.show.figures import (
    ContextMap,
    CoveragePlot,
    context_map,
    coverage_plot,
    draw_context_map,
    draw_coverage,
    save_figures,
)

__all__ = [
    "ContextMap",
    "CoveragePlot",
    "context_map",
    "coverage_plot",
    "draw_context_map",
    "draw_coverage",
    "save_figures",
]
