"""The tolerance set of a source, and all figures of a certificate."""

import textwrap
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from taskspace.certificates.certify import CertifyResult
from taskspace.certificates.paper import contexts_of
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study, as_study
from taskspace.questions import Question
from taskspace.show.figures.boxes import boxes, live_axes
from taskspace.show.figures.map import axes_of, draw_axes, on_plane
from taskspace.show.style import (
    PALETTE,
    legend_below,
    literal,
    panel,
    save,
    title_of,
)


def tolerance(
    study: Study | xr.Dataset,
    question: Question,
    *,
    source: int | None = None,
) -> Figure:
    """Draw the tolerance set of a source.

    Of more than two axes the plane of the source is drawn.

    Args:
        study: what is known, or a performance table, with contexts.
        question: criterion, judge and tolerance.
        source: index of the source; the one that serves most targets if left out.
    """
    study = as_study(study)
    table = question.table_of(study)
    sources, targets = contexts_of(table)
    if source is None:
        source = int(question.sets(study).sizes.argmax())
    if not 0 <= source < sources.size:
        raise InvalidInputError(
            f"0 <= source < {sources.size} must hold, but got {source}."
        )
    home = sources.points[source]
    near = np.ones(targets.size, bool)
    for axis in range(2, len(home)):  # the plane that the source lies in
        apart = np.abs(targets.points[:, axis] - home[axis])
        near &= apart == apart.min()
    fixed = zip(sources.names[2:], home[2:], strict=True)
    where = "".join(f", {name} = {value:g}" for name, value in fixed)
    title = f"tolerance set of source {source}: {title_of(question)}{where}"
    served = question.rows(table, slice(source, source + 1))[0] <= question.epsilon
    records = axes_of(targets, study.labels)[:2]
    points, (centre,) = on_plane(targets.points[near, :2]), on_plane(home[None, :2])
    with panel(4.8, 4.8 if len(records) == 2 else 2.4) as (figure, axes):
        for mine, size, shade, word in (
            (~served[near], 4, "#bbbbbb", "not served"),
            (served[near], 8, PALETTE[0], "served"),
        ):
            label = f"{word}: {int(mine.sum()):,}"
            axes.scatter(*points[mine].T, s=size, color=shade, label=label)
        axes.plot(*centre, "*", markersize=12, color="black", label="the source")
        draw_axes(axes, records, pad=0.03)
        spans = [record.high - record.low for record in records]
        is_linear = all(record.scale == "linear" for record in records)
        if is_linear and len(spans) == 2 and 0.2 * max(spans) < min(spans):
            axes.set_aspect("equal")
        axes.set_title(literal(textwrap.fill(title, 52)), fontsize=9.5)
        legend_below(figure)
    return figure


def save_certificate_figures(
    result: CertifyResult, study: Study, folder: Path
) -> list[Path]:
    """Write every figure of a result that its axes allow.

    Args:
        result: what `certify` returned.
        study: what it is about.
        folder: made if there is something to draw.

    Returns:
        The pictures (PNG and PDF).
    """
    files = []
    if result.continuum is not None and live_axes(result.continuum):
        files += save(boxes(study, result), folder / "certified-boxes")
    return files
