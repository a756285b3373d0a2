"""What is served between the targets: certified boxes, and tolerance sets."""

import textwrap

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from taskspace._util.arrays import Array, Numbers
from taskspace._util.decimals import round_to_side
from taskspace.certificates.boxes.check import CERTIFIED, STATUS, ContinuumCover
from taskspace.certificates.certify import CertifyResult
from taskspace.certificates.paper import contexts_of
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study, as_study
from taskspace.questions import Question
from taskspace.show.maps import (
    AxisRecord,
    axes_of,
    draw_axes,
    n_sources,
    on_plane,
    places_of,
    source_points,
)
from taskspace.show.style import (
    PALETTE,
    colour,
    colour_numbers,
    draw_sources,
    legend_below,
    literal,
    panel,
    panels,
    title_of,
    touching_sources,
)

COLOURS = {"certified": "#dddddd", "open": "#ffffff", "uncovered": "#ffffff"}
HATCHES = {"certified": None, "open": "....", "uncovered": "////"}


def boxes(study: Study | xr.Dataset, result: CertifyResult) -> Figure:
    """Draw the boxes of a continuum certificate: who serves which, what is open.

    Of more than two axes three slices are drawn, the others in their middle.

    Args:
        study: what it is about, or its performance table.
        result: what `taskspace.certify` returned, with the system and its policies.
    """
    study, found = as_study(study), result.continuum
    if found is None:
        raise InvalidInputError(
            "No boxes are certified here: that needs a run of a system with bounds "
            f"over boxes. {result.certificates[-1].why}"
        )
    live = live_axes(found)
    if not live:
        raise InvalidInputError("A map of boxes needs an axis that varies.")
    records = _records(study, found, live)
    low, high = found.boxes.low[:, live], found.boxes.high[:, live]
    if len(live) == 1:
        half = np.array([0.0, 0.5])
        low, high = on_plane(low) - half, on_plane(high) + half
    places = places_of(found.sources, study.n_sources)
    source = np.where(found.status == CERTIFIED, places[found.assignment], -1)
    cuts = _cuts(records)
    inside = [
        ((low[:, 2:] <= cut) & (cut <= high[:, 2:])).all(1) for cut in cuts
    ]  # the boxes of each slice
    near: list[set[int]] = [set() for _ in range(found.size)]
    for boxes in inside:
        raster = _raster(low[boxes, :2], high[boxes, :2], source[boxes])
        for number, more in enumerate(touching_sources(raster, found.size)):
            near[number] |= more
    shades = [colour(number) for number in colour_numbers(near)]
    width = 5.2 if len(cuts) == 1 else 3.6 * len(cuts)
    height = 4.6 if len(live) > 1 else 2.2
    with panels(width, height, 1, len(cuts), grid=False) as (figure, (row,)):
        for plane, cut, boxes in zip(row, cuts, inside, strict=True):
            corners = low[boxes, :2], high[boxes, :2]
            _draw_boxes(plane, *corners, found.status[boxes], source[boxes], shades)
            draw_axes(plane, records[:2])
            fixed = zip(records[2:], cut, strict=True)
            words = ", ".join(f"{record.name} = {v:.3g}" for record, v in fixed)
            plane.set_title(literal(words), fontsize=9)
        homes = source_points(study, [r.name for r in records], found.sources)
        if homes is not None and len(records) <= 2:
            draw_sources(row[0], on_plane(homes), list(range(found.size)), shades)
        counts = np.bincount(found.status, minlength=len(STATUS))
        legend_below(
            figure,
            handles=[
                Patch(
                    facecolor=COLOURS[name],
                    hatch=HATCHES[name],
                    edgecolor="#555555",
                    label=f"{name}: {count:,} boxes",
                )
                for name, count in zip(STATUS, counts, strict=True)
                if count
            ],
        )
        title = textwrap.fill(boxes_title(found), 60)
        figure.suptitle(literal(title), fontsize=10)
    return figure


def live_axes(found: ContinuumCover) -> list[int]:
    """Return the columns of the boxes that vary.

    Args:
        found: a cover of the continuum.
    """
    low, high = found.boxes.low, found.boxes.high
    return np.flatnonzero(low.min(0) < high.max(0)).tolist()


def boxes_title(found: ContinuumCover) -> str:
    """Return what is certified, in a line.

    Args:
        found: a cover of the continuum.
    """
    question = Question.from_dict(found.certificate.values)
    asked = f"{n_sources(found.size)}: {title_of(question)}"
    share = found.share(CERTIFIED)
    if found.holds:
        return f"{asked} on the whole box ({found.certificate.kind})"
    if share == 0:
        return f"{asked} is certified nowhere in the box"
    part = round_to_side(100 * share, up=False)
    return f"{asked} on {part} % of the box ({found.certificate.kind})"


def _records(study: Study, found: ContinuumCover, live: list[int]) -> list[AxisRecord]:
    """Return the axes of the boxes, with the scales of the targets."""
    known = {} if study.targets is None else {a.name: a for a in axes_of(study.targets)}
    records = []
    for column in live:
        name = found.axes[column]
        low = float(found.boxes.low[:, column].min())
        high = float(found.boxes.high[:, column].max())
        scale = known[name].scale if name in known and low > 0 else "linear"
        label = study.labels.get(name, name)
        records.append(AxisRecord(name, label, low, high, scale, None))
    return records


def _cuts(records: list[AxisRecord]) -> Array:
    """Return where axes beyond two are cut: the third at three places, others once."""
    middles = [
        np.sqrt(r.low * r.high) if r.scale == "log" else r.low / 2 + r.high / 2
        for r in records[2:]
    ]
    if not middles:
        return np.empty((1, 0))
    cuts = np.tile(middles, (3, 1))
    cuts[0, 0], cuts[2, 0] = records[2].low, records[2].high
    return cuts


def _raster(low: Array, high: Array, source: Numbers) -> Numbers:
    """Return which source serves where, on the finest grid of the boxes' edges."""
    edges = [np.unique(np.concatenate([low[:, i], high[:, i]])) for i in range(2)]
    plane = np.full([max(1, len(e) - 1) for e in edges], -1, np.int64)
    x, y = (np.searchsorted(edges[i], low[:, i]) for i in range(2))
    xx, yy = (np.searchsorted(edges[i], high[:, i]) for i in range(2))
    for box, who in enumerate(source):
        plane[x[box] : xx[box], y[box] : yy[box]] = who
    return plane


def _draw_boxes(
    axes: Axes,
    low: Array,
    high: Array,
    status: NDArray[np.int8],
    source: Numbers,
    shades: list,
) -> None:
    (x, y), (xx, yy) = low.T, high.T
    corners = np.stack([[x, y], [xx, y], [xx, yy], [x, yy]]).transpose(2, 0, 1)
    for code, name in enumerate(STATUS):
        chosen = status == code
        if not chosen.any():
            continue
        certified = code == CERTIFIED
        axes.add_collection(
            PolyCollection(
                list(corners[chosen]),
                facecolors=[shades[i] for i in source[chosen]]
                if certified
                else COLOURS[name],
                edgecolors="none" if certified else "#555555",
                linewidths=0,
                hatch=HATCHES[name],
                antialiased=False,
                # Thousands of polygons make a PDF that no viewer likes.
                rasterized=int(chosen.sum()) > 2000,
            )
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
