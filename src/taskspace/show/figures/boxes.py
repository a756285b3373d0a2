"""Certified boxes: which source serves which box of the continuum."""

import textwrap
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from taskspace._util.words import round_to_side
from taskspace.certificates.boxes.check import CERTIFIED, STATUS, ContinuumCover
from taskspace.certificates.certify import CertifyResult
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study, as_study
from taskspace.questions import Question
from taskspace.show.figures.map import AxisRecord, axes_of, n_sources
from taskspace.show.style import (
    colour,
    colour_numbers,
    draw_sources,
    legend_below,
    literal,
    panels,
    set_axis,
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
    axes = _records(study, found, live)
    low, high = found.boxes.low[:, live], found.boxes.high[:, live]
    if len(live) == 1:
        low = np.concatenate([low, np.zeros_like(low)], 1)
        high = np.concatenate([high, np.ones_like(high)], 1)
    place = np.full(study.n_sources + 1, -1)
    place[found.sources] = np.arange(found.size)
    status = found.status
    source = np.where(status == CERTIFIED, place[found.assignment], -1)
    cuts = _cuts(low, high, axes)
    shown = [
        ((low[:, 2:] <= cut[2:]) & (cut[2:] <= high[:, 2:])).all(1) for cut in cuts
    ]
    near: list[set[int]] = [set() for _ in range(found.size)]
    for inside in shown:
        plane = _raster(low[inside, :2], high[inside, :2], source[inside])
        for number, more in enumerate(touching_sources(plane, found.size)):
            near[number] |= more
    shades = [colour(number) for number in colour_numbers(near)]
    width = 5.2 if len(cuts) == 1 else 3.6 * len(cuts)
    with panels(width, 4.6, 1, len(cuts), grid=False) as (figure, (row,)):
        for plane, cut, inside in zip(row, cuts, shown, strict=True):
            drawn = low[inside], high[inside], status[inside], source[inside]
            _draw_boxes(plane, *drawn, shades)
            for axis, record in zip((plane.xaxis, plane.yaxis), axes, strict=False):
                set_axis(axis, record.label, record.scale, record.low, record.high)
            if len(axes) == 1:
                plane.set(yticks=[], ylim=(0, 1))
            fixed = zip(axes[2:], cut[2:], strict=True)
            words = ", ".join(f"{a.name} = {v:.3g}" for a, v in fixed)
            plane.set_title(literal(words), fontsize=9)
        names = [axis.name for axis in axes]
        homes = study.sources
        if len(cuts) == 1 and homes is not None and set(names) <= set(homes.names):
            columns = [homes.names.index(name) for name in names]
            marks = homes.points[found.sources][:, columns].tolist()
            places = [(mark[0], mark[1] if len(mark) > 1 else 0.5) for mark in marks]
            draw_sources(row[0], places, range(len(places)), shades)
        legend_below(figure, handles=_patches(status))
        title = textwrap.fill(boxes_title(found), 60)
        figure.suptitle(literal(title), fontsize=10)
    return figure


def live_axes(found: ContinuumCover) -> list[int]:
    """Return columns of the boxes that vary; none of them: nothing can be drawn.

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
    targets = study.targets
    known = {} if targets is None else {a.name: a for a in axes_of(targets)}
    records = []
    for column in live:
        name = found.axes[column]
        low = float(found.boxes.low[:, column].min())
        high = float(found.boxes.high[:, column].max())
        scale = known[name].scale if name in known and low > 0 else "linear"
        label = study.labels.get(name, name)
        records.append(AxisRecord(name, label, low, high, scale, None))
    return records


def _cuts(
    low: NDArray[np.float64], high: NDArray[np.float64], axes: list[AxisRecord]
) -> list[NDArray[np.float64]]:
    """Return where to cut: three places along the third axis, the middle of others."""
    least, most = low.min(0), high.max(0)
    middle = least / 2 + most / 2
    for i, axis in enumerate(axes):
        if axis.scale == "log":
            middle[i] = np.sqrt(axis.low * axis.high)
    if len(middle) <= 2:
        return [middle]
    cuts = np.tile(middle, (3, 1))
    cuts[0, 2], cuts[2, 2] = least[2], most[2]
    return list(cuts)


def _patches(status: NDArray[np.int8]) -> list[Patch]:
    """Return what each colour and hatch means, with how many boxes there are."""
    counts = np.bincount(status, minlength=3)
    return [
        Patch(
            facecolor=COLOURS[name],
            hatch=HATCHES[name],
            edgecolor="#555555",
            label=f"{name}: {count:,} boxes",
        )
        for name, count in zip(STATUS, counts, strict=True)
        if count
    ]


def _raster(
    low: NDArray[np.float64], high: NDArray[np.float64], source: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return which source serves where, on the finest grid of the boxes' own edges."""
    edges = [np.unique(np.concatenate([low[:, i], high[:, i]])) for i in range(2)]
    plane = np.full([max(1, len(e) - 1) for e in edges], -1, np.int64)
    first = [np.searchsorted(edges[i], low[:, i]) for i in range(2)]
    last = [np.searchsorted(edges[i], high[:, i]) for i in range(2)]
    for x, xx, y, yy, who in zip(first[0], last[0], first[1], last[1], source,
                                 strict=True):  # fmt: skip
        plane[x:xx, y:yy] = who
    return plane


def _draw_boxes(
    axes: Axes,
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    status: NDArray[np.int8],
    source: NDArray[np.int64],
    shades: list[str],
) -> None:
    (x, y), (xx, yy) = low[:, :2].T, high[:, :2].T
    corners = np.stack([[x, y], [xx, y], [xx, yy], [x, yy]]).transpose(2, 0, 1)
    for code, name in enumerate(STATUS):
        chosen = status == code
        if not chosen.any():
            continue
        face: Any = COLOURS[name]
        if code == CERTIFIED:
            face = [shades[i] if i >= 0 else face for i in source[chosen]]
        axes.add_collection(
            PolyCollection(
                list(corners[chosen]),
                facecolors=face,
                edgecolors="none" if code == CERTIFIED else "#555555",
                linewidths=0,
                hatch=HATCHES[name],
                antialiased=False,
                # Thousands of polygons make a PDF that no viewer likes.
                rasterized=int(chosen.sum()) > 2000,
            )
        )
