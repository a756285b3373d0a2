"""Pictures of certified boxes: which source serves which box of the continuum.

The record comes first (`box_map`), the drawing second; the page shows the same record.
"""

import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from taskspace._util.files import plain
from taskspace.certificates.boxes.check import CERTIFIED, STATUS, ContinuumCover
from taskspace.certificates.certify import CertifyResult
from taskspace.certificates.paper.rates import contexts_of
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study, as_study
from taskspace.questions import Question
from taskspace.show.figures.map import n_sources, places_on
from taskspace.show.style import (
    colour,
    colour_numbers,
    draw_sources,
    literal,
    panels,
    touching_sources,
)

STATUS_COLOURS = {"certified": "#dddddd", "open": "#ffffff", "uncovered": "#ffffff"}
STATUS_HATCHES = {"certified": None, "open": "....", "uncovered": "////"}


@dataclass(frozen=True)
class BoxMap:
    """Which boxes of the space are certified.

    Args:
        title: what this is.
        kind: what the statement may call itself: `proof` or `estimate`.
        names: the axes that vary.
        labels: these with their units.
        low: lower corners of the boxes.
        high: upper corners.
        status: `certified`, `open` or `uncovered`, as numbers in this order.
        assignment: place of each box's source in `sources`, −1 for none.
        bound: the loss of that source is at most this on the whole box; None for none.
        sources: contexts of the selected sources on the axes, in order of selection;
            None where sources do not have these axes.
        numbers: numbers of the selected sources in the table.
    """

    title: str
    kind: str
    names: list[str]
    labels: list[str]
    low: list[list[float]]
    high: list[list[float]]
    status: list[int]
    assignment: list[int]
    bound: list[float | None]
    sources: list[list[float]] | None
    numbers: list[int]


def varies(found: ContinuumCover) -> bool:
    """Return whether an axis varies, so that there is something to draw.

    Args:
        found: a cover of the continuum.
    """
    return bool((found.boxes.low.min(0) < found.boxes.high.max(0)).any())


def box_map(found: ContinuumCover, study: Study) -> BoxMap:
    """Return the certified, open and uncovered boxes of a cover of the continuum.

    Args:
        found: the cover.
        study: what it is about: the contexts of the sources, the labels of the axes.
    """
    boxes = found.boxes
    if not varies(found):
        raise InvalidInputError("A map of boxes needs an axis that varies.")
    live = np.flatnonzero(boxes.low.min(0) < boxes.high.max(0))
    names = [found.axes[i] for i in live]
    sources, _ = contexts_of(study.table)
    place = {int(s): i for i, s in enumerate(found.sources)}
    values = found.certificate.values
    where = "the whole box"
    if not found.certificate.holds:
        where = f"{100 * found.share(CERTIFIED):.4g} % of the box"
    return BoxMap(
        title=f"{n_sources(found.size)}: {Question.from_dict(values).label} on "
        f"{where} ({found.certificate.kind})",
        kind=found.certificate.kind,
        names=names,
        labels=[study.labels.get(name, name) for name in names],
        low=boxes.low[:, live].tolist(),
        high=boxes.high[:, live].tolist(),
        status=found.status.tolist(),
        assignment=[place.get(int(s), -1) for s in found.assignment],
        bound=plain(found.loss_bound),
        sources=places_on(names, sources, found.sources),
        numbers=found.sources.tolist(),
    )


def boxes(result: CertifyResult, study: Study | xr.Dataset) -> Figure:
    """Draw the boxes of a continuum certificate: who serves which, what is open.

    Args:
        result: what `taskspace.certify` returned, with the system and its policies.
        study: what it is about, or its performance table.
    """
    if result.continuum is None:
        raise InvalidInputError(
            "No boxes are certified here: that needs a run of a system with bounds "
            f"over boxes. {result.certificates[-1].why}"
        )
    return draw_box_map(box_map(result.continuum, as_study(study)))


def draw_box_map(record: BoxMap) -> Figure:
    """Draw boxes by source where certified, by status elsewhere.

    Of more than two axes three slices are drawn, the others in their middle.

    Args:
        record: what to draw.
    """
    low, high = np.array(record.low), np.array(record.high)
    if low.shape[1] == 1:
        low = np.concatenate([low, np.zeros_like(low)], 1)
        high = np.concatenate([high, np.ones_like(high)], 1)
    marks = np.full((len(record.numbers), low.shape[1]), 0.5)
    if record.sources is not None:
        marks[:, : len(record.names)] = np.array(record.sources).reshape(len(marks), -1)
    status, source = np.array(record.status), np.array(record.assignment)
    source = np.where(status == CERTIFIED, source, -1)
    cuts = _cuts(low, high)
    shown = [
        ((low[:, 2:] <= cut[2:]) & (cut[2:] <= high[:, 2:])).all(1) for cut in cuts
    ]
    near: list[set[int]] = [set() for _ in record.numbers]
    for inside in shown:
        plane = _raster(low[inside, :2], high[inside, :2], source[inside])
        for place, more in enumerate(touching_sources(plane, len(near))):
            near[place] |= more
    shades = [colour(number) for number in colour_numbers(near)]
    width = 5.2 if len(cuts) == 1 else 3.6 * len(cuts)
    with panels(width, 4.6, 1, len(cuts), grid=False) as (figure, (row,)):
        for axes, cut, inside in zip(row, cuts, shown, strict=True):
            drawn = low[inside], high[inside], status[inside], source[inside]
            _draw_boxes(axes, *drawn, shades)
            if len(cuts) == 1 and record.sources is not None:
                places = [(float(mark[0]), float(mark[1])) for mark in marks]
                draw_sources(axes, places, range(len(places)), shades, size=10)
            axes.set_xlabel(literal(record.labels[0]))
            axes.set_ylabel(literal(record.labels[1]) if len(record.names) > 1 else "")
            if len(record.names) == 1:
                axes.set_yticks([])
            fixed = zip(record.names[2:], cut[2:], strict=True)
            words = ", ".join(f"{n} = {v:.3g}" for n, v in fixed)
            axes.set_title(literal(words), fontsize=9)
        figure.legend(
            handles=_patches(status),
            loc="outside lower center",
            ncols=3,
            frameon=False,
            fontsize=8,
        )
        figure.suptitle(textwrap.fill(record.title, 60), fontsize=10)
    return figure


def _cuts(
    low: NDArray[np.float64], high: NDArray[np.float64]
) -> list[NDArray[np.float64]]:
    """Return where to cut: three places along the third axis, the middle of others."""
    middle = low.min(0) / 2 + high.max(0) / 2
    if low.shape[1] <= 2:
        return [middle]
    cuts = np.tile(middle, (3, 1))
    places = low.min(0)[2] + np.linspace(0.0, 1.0, 3) * np.ptp(high, 0)[2]
    cuts[:, 2] = np.clip(places, low[:, 2].min(), high[:, 2].max())
    return list(cuts)


def _patches(status: NDArray[np.int64]) -> list[Patch]:
    """Return what each colour and hatch means, with how many boxes there are."""
    counts = np.bincount(status, minlength=3)
    return [
        Patch(
            facecolor=STATUS_COLOURS[name],
            hatch=STATUS_HATCHES[name],
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
    status: NDArray[np.int64],
    source: NDArray[np.int64],
    shades: list[str],
) -> None:
    (x, y), (xx, yy) = low[:, :2].T, high[:, :2].T
    corners = np.stack([[x, y], [xx, y], [xx, yy], [x, yy]]).transpose(2, 0, 1)
    for code, name in enumerate(STATUS):
        chosen = status == code
        if not chosen.any():
            continue
        face: Any = STATUS_COLOURS[name]
        if code == CERTIFIED:
            face = [shades[i] if i >= 0 else face for i in source[chosen]]
        axes.add_collection(
            PolyCollection(
                list(corners[chosen]),
                facecolors=face,
                edgecolors="none" if code == CERTIFIED else "#555555",
                linewidths=0,
                hatch=STATUS_HATCHES[name],
                antialiased=False,
                # Thousands of polygons make a PDF that no viewer likes.
                rasterized=int(chosen.sum()) > 2000,
            )
        )
    axes.set_xlim(low[:, 0].min(), high[:, 0].max())
    axes.set_ylim(low[:, 1].min(), high[:, 1].max())
