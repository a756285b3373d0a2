"""Pictures of certificates: balls and tolerance sets, loss rates.

Each picture is a small record first (`tolerance_plot`, `rate_map`) and a
drawing second (`draw_*`); the record is saved beside the picture.
"""

import textwrap
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Patch

from taskspace._util.files import plain
from taskspace.certificates.certify import CertifyResult
from taskspace.certificates.paper.balls import Balls, check_balls
from taskspace.certificates.paper.certify import default_radius
from taskspace.certificates.paper.rates import LossRates, contexts_of
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study, as_study
from taskspace.questions import Question
from taskspace.show.figures.boxes import box_map, draw_box_map, varies
from taskspace.show.style import PALETTE, literal, panel, save


@dataclass(frozen=True)
class TolerancePlot:
    """The tolerance set of one source, with its inner and outer ball.

    Args:
        title: what this is.
        names: the one or two axes.
        labels: these with their units.
        source: context of the source on these axes.
        targets: contexts of the targets; of more than two axes those in the plane of
            the source.
        served: which targets are in the tolerance set.
        inner: radius of the inner ball, None where none is derived.
        outer: radius of the outer ball, None where there is none.
        outer_is_global: whether the outer ball holds the whole set.
    """

    title: str
    names: list[str]
    labels: list[str]
    source: list[float]
    targets: list[list[float]]
    served: list[bool]
    inner: float | None
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


def tolerance_plot(
    study: Study, balls: Balls | None, question: Question, source: int
) -> TolerancePlot:
    """Return the tolerance set of one source and its balls.

    Args:
        study: what is known, with contexts.
        balls: radii of every source, which are derived for the signed criterion only;
            None for the set alone.
        question: criterion, judge and tolerance.
        source: number of the source.
    """
    if balls is not None and not question.rule.compares_with_home:
        raise InvalidInputError(
            "Balls are derived for the signed criterion, but the question is about "
            f"{question.criterion!r}."
        )
    table, labels = question.table_of(study), study.labels
    sources, targets = contexts_of(table)
    if not 0 <= source < sources.size:
        raise InvalidInputError(
            f"0 <= source < {sources.size} must hold, but got {source}."
        )
    loss = question.rows(table, slice(source, source + 1))[0]
    outer = np.inf if balls is None else float(balls.outer[source])
    home = sources.points[source]
    near = np.ones(targets.size, bool)
    for axis in range(2, len(sources.names)):  # the plane that the source lies in
        apart = np.abs(targets.points[:, axis] - home[axis])
        near &= apart == apart.min()
    where = "".join(
        f", {name} = {value:g}"
        for name, value in zip(sources.names[2:], home[2:], strict=True)
    )
    return TolerancePlot(
        title=f"tolerance set of source {source}: {question.statement}{where}",
        names=list(sources.names[:2]),
        labels=[labels.get(name, name) for name in sources.names[:2]],
        source=home[:2].tolist(),
        targets=targets.points[near, :2].tolist(),
        served=(loss <= question.epsilon)[near].tolist(),
        inner=None if balls is None else float(balls.inner[source]),
        outer=outer if np.isfinite(outer) else None,
        outer_is_global=balls is not None and bool(balls.outer_is_global[source]),
    )


def tolerance(
    study: Study | xr.Dataset,
    question: Question,
    *,
    source: int | None = None,
    balls: Balls | None = None,
) -> Figure:
    """Draw the tolerance set of a source, with its balls where they are derived.

    Args:
        study: what is known, or a performance table, with contexts.
        question: criterion, judge and tolerance.
        source: number of the source; the one that serves most targets if left out.
        balls: radii that are known already, e.g. from `taskspace.certify`; those of
            the table if left out, for the signed criterion.
    """
    study = as_study(study)
    if balls is None and question.rule.compares_with_home:
        balls = table_balls(study.table, question)
    if source is None:
        source = int(question.sets(study).sizes.argmax())
    record = tolerance_plot(study, balls, question, source)
    return draw_tolerance(record)


def table_balls(table: xr.Dataset, question: Question) -> Balls:
    """Return balls from the loss rates of the table itself.

    Args:
        table: a performance table with contexts.
        question: a question by the signed criterion.
    """
    radius = default_radius(contexts_of(table)[1])
    return check_balls(
        table, question.epsilon, radius=radius, judge=question.judge
    ).balls


def rate_map(rates: LossRates) -> RateMap:
    """Return the map of L over the sources.

    Args:
        rates: of every source.
    """
    return RateMap(
        title=f"largest loss rate L within r = {rates.radius:.3g}",
        names=list(rates.sources.names),
        sources=rates.sources.points.tolist(),
        rates=plain(rates.upper),
    )


def draw_tolerance(record: TolerancePlot) -> Figure:
    """Return targets served and not, and the two balls.

    Args:
        record: what to draw.
    """
    points, served = np.array(record.targets), np.array(record.served)
    is_plane = points.shape[1] > 1
    x, y = points[:, 0], points[:, 1] if is_plane else np.zeros(len(points))
    centre = (record.source[0], record.source[1] if is_plane else 0.0)
    balls = [("inner", record.inner, PALETTE[2], "-", "")]
    if record.outer_is_global:
        balls.append(("outer", record.outer, PALETTE[5], "-", ""))
    else:
        balls.append(("outer", record.outer, PALETTE[5], "--", ", within r only"))
    with panel(4.6, 4.2) as (figure, axes):
        axes.scatter(x[~served], y[~served], s=4, color="#cccccc")
        axes.scatter(x[served], y[served], s=6, color=PALETTE[4])
        axes.plot(*centre, marker="*", markersize=12, color="black", linestyle="")
        handles = [
            Patch(color=PALETTE[4], label=f"served: {int(served.sum()):,}"),
            Patch(color="#cccccc", label=f"not served: {int((~served).sum()):,}"),
        ]
        for name, radius, shade, style, note in balls:
            if radius is not None:
                ball = Circle(centre, radius, fill=False, color=shade, ls=style, lw=2)
                axes.add_patch(ball)
                label = f"{name} ball, {radius:.3g}{note}"
                handles.append(Patch(color=shade, label=label))
        axes.set_title(literal(textwrap.fill(record.title, 52)), fontsize=9.5)
        axes.set_xlabel(literal(record.labels[0]))
        axes.set_ylabel(literal(record.labels[1]) if is_plane else "")
        axes.set_xlim(x.min(), x.max() if x.max() > x.min() else x.min() + 1)
        if is_plane and y.max() > y.min():
            axes.set_ylim(y.min(), y.max())
            if 0.2 < np.ptp(x) / np.ptp(y) < 5:
                axes.set_aspect("equal")
        axes.legend(handles=handles, loc="upper right", frameon=True, fontsize=8)
    return figure


def draw_rate_map(record: RateMap) -> Figure:
    """Draw L in colour over two axes, or as a curve over one.

    Args:
        record: what to draw.
    """
    points = np.array(record.sources)
    rates = np.array([np.nan if r is None else r for r in record.rates])
    with panel(5.0, 4.2) as (figure, axes):
        if points.shape[1] == 1:
            axes.plot(points[:, 0], rates, color=PALETTE[0])
            axes.set_ylabel("L")
        else:
            x, y = (np.unique(column) for column in points.T)
            if len(x) * len(y) == len(points):
                image = np.full((len(x), len(y)), np.nan)
                columns = zip((x, y), points.T, strict=True)
                image[tuple(np.searchsorted(*pair) for pair in columns)] = rates
                drawn = axes.pcolormesh(x, y, image.T, shading="nearest")
                axes.grid(False)
            else:
                drawn = axes.scatter(points[:, 0], points[:, 1], c=rates, s=12)
            figure.colorbar(drawn, ax=axes, label="L (loss per unit of distance)")
            axes.set_ylabel(record.names[1])
        axes.set(xlabel=record.names[0], title=record.title)
    return figure


def save_certificate_figures(
    result: CertifyResult, study: Study, folder: Path
) -> list[Path]:
    """Return every figure of a result that its axes allow, with its data as JSON.

    Args:
        result: what `certify` returned.
        study: what it is about.
        folder: made if there is something to draw.

    Returns:
        The pictures (PNG and PDF).
    """
    files: list[Path] = []
    rates, balls = result.rates, result.balls
    if rates is not None and len(rates.sources.names) <= 2:
        if balls is not None:
            chosen = result.cover.sources
            if not len(chosen):
                chosen = np.arange(len(balls.inner))
            widest = int(chosen[balls.inner[chosen].argmax()])
            plot = tolerance_plot(study, balls, result.question, widest)
            files += save(draw_tolerance(plot), folder / "tolerance-set", plot)
        drawn = rate_map(rates)
        files += save(draw_rate_map(drawn), folder / "loss-rates", drawn)
    if result.continuum is not None and varies(result.continuum):
        record = box_map(result.continuum, study)
        files += save(draw_box_map(record), folder / "certified-boxes", record)
    return files
