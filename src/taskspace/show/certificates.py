"""Pictures of certificates: balls and tolerance sets, loss rates, certified boxes.

Each picture is a small record first (`tolerance_plot`, `rate_map`, `box_map`) and a
drawing second (`draw_*`); the record is saved beside the picture.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Patch

from taskspace._files import plain, write_atomically
from taskspace.certificates.balls import Balls
from taskspace.certificates.continuum import STATUS, ContinuumCover
from taskspace.certificates.engine import CertifyResult
from taskspace.certificates.rates import LossRates, contexts_of
from taskspace.errors import InvalidInputError
from taskspace.questions import Question
from taskspace.show.style import PALETTE, STYLE, new_figure, save

__all__ = [
    "BoxMap",
    "RateMap",
    "TolerancePlot",
    "box_map",
    "draw_box_map",
    "draw_rate_map",
    "draw_tolerance",
    "rate_map",
    "save_certificate_figures",
    "tolerance_plot",
]

STATUS_COLOURS = {"certified": "#009E73", "open": "#F0E442", "uncovered": "#D55E00"}


@dataclass(frozen=True)
class TolerancePlot:
    """The tolerance set of one source, with its inner and outer ball.

    Args:
        title: what this is.
        names: the one or two axes.
        source: context of the source.
        targets: contexts of the targets.
        served: which targets are in the tolerance set.
        inner: radius of the inner ball.
        outer: radius of the outer ball, None where there is none.
        outer_is_global: whether the outer ball holds the whole set.
    """

    title: str
    names: list[str]
    source: list[float]
    targets: list[list[float]]
    served: list[bool]
    inner: float
    outer: float | None
    outer_is_global: bool


@dataclass(frozen=True)
class RateMap:
    """Loss rates over the space.

    Args:
        title: what this is.
        names: the one or two axes.
        sources: contexts of the sources.
        rates: L of each source; None where no target is within r.
    """

    title: str
    names: list[str]
    sources: list[list[float]]
    rates: list[float | None]


@dataclass(frozen=True)
class BoxMap:
    """Which boxes of the space are certified.

    Args:
        title: what this is.
        names: the one or two axes that vary.
        low: lower corners of the boxes.
        high: upper corners.
        status: `certified`, `open` or `uncovered`, as numbers in this order.
        assignment: place of each box's source in `sources`, −1 for none.
        sources: contexts of the selected sources on the axes.
    """

    title: str
    names: list[str]
    low: list[list[float]]
    high: list[list[float]]
    status: list[int]
    assignment: list[int]
    sources: list[list[float]]


def tolerance_plot(
    table: xr.Dataset, balls: Balls, question: Question, source: int
) -> TolerancePlot:
    """The signed tolerance set of one source and its balls.

    Args:
        table: a performance table with contexts.
        balls: radii of every source.
        question: judge and tolerance; its criterion must be `signed`, for which
            balls are derived.
        source: number of the source.
    """
    if question.criterion != "signed":
        raise InvalidInputError(
            "Balls are derived for the signed criterion, but the question is about "
            f"{question.criterion!r}."
        )
    sources, targets = contexts_of(table)
    if not 0 <= source < sources.size:
        raise InvalidInputError(
            f"0 <= source < {sources.size} must hold, but got {source}."
        )
    loss = question.rows(table, slice(source, source + 1))[0]
    outer = float(balls.outer[source])
    return TolerancePlot(
        title=f"tolerance set of source {source}: {question.statement}",
        names=list(sources.names),
        source=sources.points[source].tolist(),
        targets=targets.points.tolist(),
        served=(loss <= question.epsilon).tolist(),
        inner=float(balls.inner[source]),
        outer=outer if np.isfinite(outer) else None,
        outer_is_global=bool(balls.outer_is_global[source]),
    )


def rate_map(rates: LossRates) -> RateMap:
    """The map of L over the sources.

    Args:
        rates: of every source.
    """
    return RateMap(
        title=f"largest loss rate L within r = {rates.radius:.3g}",
        names=list(rates.sources.names),
        sources=rates.sources.points.tolist(),
        rates=plain(rates.upper),
    )


def box_map(found: ContinuumCover, table: xr.Dataset) -> BoxMap:
    """Certified, open and uncovered boxes of a cover of the continuum.

    Args:
        found: the cover; at most two axes may vary.
        table: the performance table, for the contexts of the sources.
    """
    boxes = found.boxes
    live = [
        i
        for i in range(len(found.axes))
        if boxes.low[:, i].min() < boxes.high[:, i].max()
    ]
    if not 1 <= len(live) <= 2:
        raise InvalidInputError(
            f"A map of boxes needs one or two axes that vary, but {len(live)} do."
        )
    names = [found.axes[i] for i in live]
    sources, _ = contexts_of(table)
    columns = [sources.names.index(name) for name in names if name in sources.names]
    place = {int(s): i for i, s in enumerate(found.sources)}
    values = found.certificate.values
    return BoxMap(
        title=f"{values['criterion']} ≤ {values['epsilon']:g} on the whole box: "
        f"{found.size} sources",
        names=names,
        low=boxes.low[:, live].tolist(),
        high=boxes.high[:, live].tolist(),
        status=found.status.tolist(),
        assignment=[place.get(int(s), -1) for s in found.assignment],
        sources=sources.points[found.sources][:, columns].tolist(),
    )


def draw_tolerance(record: TolerancePlot) -> Figure:
    """Targets served and not, and the two balls.

    Args:
        record: what to draw.
    """
    with mpl.rc_context(STYLE):
        figure = new_figure(4.6, 4.2)
        axes: Axes = figure.subplots()
        points = np.array(record.targets)
        served = np.array(record.served)
        x = points[:, 0]
        y = points[:, 1] if points.shape[1] > 1 else np.zeros(len(x))
        axes.scatter(x[~served], y[~served], s=4, color="#cccccc", label="not served")
        axes.scatter(x[served], y[served], s=6, color=PALETTE[4], label="served")
        centre = (record.source[0], record.source[1] if points.shape[1] > 1 else 0.0)
        axes.plot(*centre, marker="*", markersize=12, color="black", linestyle="")
        axes.add_patch(
            Circle(centre, record.inner, fill=False, color=PALETTE[2], linewidth=2)
        )
        handles = [Patch(color=PALETTE[2], label=f"inner ball, {record.inner:.3g}")]
        if record.outer is not None:
            style = "-" if record.outer_is_global else "--"
            axes.add_patch(
                Circle(
                    centre,
                    record.outer,
                    fill=False,
                    color=PALETTE[5],
                    linestyle=style,
                    linewidth=2,
                )
            )
            note = "" if record.outer_is_global else ", within r only"
            handles.append(
                Patch(color=PALETTE[5], label=f"outer ball, {record.outer:.3g}{note}")
            )
        axes.set_title(record.title)
        axes.set_xlabel(record.names[0])
        axes.set_ylabel(record.names[1] if points.shape[1] > 1 else "")
        axes.set_xlim(x.min(), x.max() if x.max() > x.min() else x.min() + 1)
        if points.shape[1] > 1 and y.max() > y.min():
            axes.set_ylim(y.min(), y.max())
            if 0.2 < np.ptp(x) / np.ptp(y) < 5:
                axes.set_aspect("equal")
        axes.legend(handles=handles, loc="upper right", frameon=True, fontsize=8)
    return figure


def draw_rate_map(record: RateMap) -> Figure:
    """L in colour over two axes, or as a curve over one.

    Args:
        record: what to draw.
    """
    with mpl.rc_context(STYLE):
        figure = new_figure(5.0, 4.2)
        axes: Axes = figure.subplots()
        points = np.array(record.sources)
        rates = np.array([np.nan if r is None else r for r in record.rates])
        if points.shape[1] == 1:
            axes.plot(points[:, 0], rates, color=PALETTE[0])
            axes.set_ylabel("L")
        else:
            x, y = (np.unique(column) for column in points.T)
            if len(x) * len(y) == len(points):
                image = np.full((len(x), len(y)), np.nan)
                place = (
                    np.searchsorted(x, points[:, 0]),
                    np.searchsorted(y, points[:, 1]),
                )
                image[place] = rates
                drawn = axes.pcolormesh(x, y, image.T, shading="nearest")
                axes.grid(False)
            else:
                drawn = axes.scatter(points[:, 0], points[:, 1], c=rates, s=12)
            figure.colorbar(drawn, ax=axes, label="L (loss a unit of distance)")
            axes.set_ylabel(record.names[1])
        axes.set_xlabel(record.names[0])
        axes.set_title(record.title)
    return figure


def draw_box_map(record: BoxMap) -> Figure:
    """Boxes by source where certified, by status elsewhere.

    Args:
        record: what to draw.
    """
    with mpl.rc_context(STYLE):
        figure = new_figure(5.2, 4.4)
        axes: Axes = figure.subplots()
        low, high = np.array(record.low), np.array(record.high)
        if low.shape[1] == 1:
            low = np.concatenate([low, np.zeros_like(low)], 1)
            high = np.concatenate([high, np.ones_like(high)], 1)
        corners = np.stack(
            [
                low,
                np.stack([high[:, 0], low[:, 1]], 1),
                high,
                np.stack([low[:, 0], high[:, 1]], 1),
            ],
            axis=1,
        )
        shades = mpl.colormaps["summer"](
            np.linspace(0, 0.8, max(2, len(record.sources)))
        )
        colours = []
        for status, source in zip(record.status, record.assignment, strict=True):
            name = STATUS[status]
            colours.append(
                shades[source]
                if name == "certified" and source >= 0
                else to_rgba(STATUS_COLOURS[name])
            )
        axes.add_collection(
            PolyCollection(
                list(corners),
                facecolors=colours,
                edgecolors="none",
                antialiased=False,
                # Thousands of polygons make a PDF that no viewer likes.
                rasterized=len(corners) > 2000,
            )
        )
        axes.set_xlim(low[:, 0].min(), high[:, 0].max())
        axes.set_ylim(low[:, 1].min(), high[:, 1].max())
        marks = np.array(record.sources).reshape(len(record.sources), -1)
        if marks.size:
            y = marks[:, 1] if marks.shape[1] > 1 else np.full(len(marks), 0.5)
            axes.scatter(marks[:, 0], y, marker="*", color="black", s=40, zorder=3)
        counts = np.bincount(record.status, minlength=3)
        axes.legend(
            handles=[
                Patch(
                    color=shades[0] if name == "certified" else STATUS_COLOURS[name],
                    label=f"{name}: {count:,} boxes",
                )
                for name, count in zip(STATUS, counts, strict=True)
                if count
            ],
            loc="upper right",
            frameon=True,
            fontsize=8,
        )
        axes.set_title(record.title)
        axes.set_xlabel(record.names[0])
        axes.set_ylabel(record.names[1] if len(record.names) > 1 else "")
        axes.grid(False)
    return figure


def save_certificate_figures(
    result: CertifyResult, table: xr.Dataset, folder: Path
) -> list[Path]:
    """Every figure of a result that its axes allow, with its data as JSON.

    Args:
        result: what `certify` returned.
        table: the table it was about.
        folder: made if it is not there.

    Returns:
        The pictures (PNG and PDF).
    """
    folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    rates = result.rates
    flat = rates is not None and len(rates.sources.names) <= 2
    if flat and result.balls is not None:
        chosen = result.cover.sources
        if len(chosen):
            widest = int(chosen[result.balls.inner[chosen].argmax()])
        else:
            widest = int(result.balls.inner.argmax())
        plot = tolerance_plot(table, result.balls, result.question, widest)
        files += _write(folder / "tolerance-set", plot, draw_tolerance(plot))
    if flat and rates is not None:
        drawn = rate_map(rates)
        files += _write(folder / "loss-rates", drawn, draw_rate_map(drawn))
    if result.continuum is not None:
        boxes = result.continuum.boxes
        n_live = int((boxes.low.min(0) < boxes.high.max(0)).sum())
        if 1 <= n_live <= 2:
            record = box_map(result.continuum, table)
            files += _write(folder / "certified-boxes", record, draw_box_map(record))
    return files


def _write(
    path: Path, record: TolerancePlot | RateMap | BoxMap, figure: Figure
) -> list[Path]:
    write_atomically(path.with_name(f"{path.name}.json"), json.dumps(asdict(record)))
    return save(figure, path)
