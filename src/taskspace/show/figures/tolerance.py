"""Tolerance sets with their balls, loss rates, and all figures of a certificate."""

import textwrap
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from taskspace.certificates.certify import CertifyResult
from taskspace.certificates.paper.balls import Balls, check_balls
from taskspace.certificates.paper.certify import default_radius
from taskspace.certificates.paper.rates import LossRates, contexts_of
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study, as_study
from taskspace.questions import Question
from taskspace.show.figures.boxes import boxes, live_axes
from taskspace.show.figures.map import axes_of
from taskspace.show.style import (
    PALETTE,
    legend_below,
    literal,
    panel,
    save,
    set_axis,
    title_of,
)


def tolerance(
    study: Study | xr.Dataset,
    question: Question,
    *,
    source: int | None = None,
    balls: Balls | None = None,
) -> Figure:
    """Draw the tolerance set of a source, with its balls where they are derived.

    Of more than two axes the plane of the source is drawn.

    Args:
        study: what is known, or a performance table, with contexts.
        question: criterion, judge and tolerance.
        source: number of the source; the one that serves most targets if left out.
        balls: radii that are known already, e.g. from `taskspace.certify`; those of
            the table if left out, for the signed criterion.
    """
    study = as_study(study)
    table = question.table_of(study)
    sources, targets = contexts_of(table)
    if question.rule.compares_with_home:
        if balls is None:
            radius = default_radius(targets)
            balls = check_balls(
                table, question.epsilon, radius=radius, judge=question.judge
            ).balls
    elif balls is not None:
        raise InvalidInputError(
            "Balls are derived for the signed criterion, but the question is about "
            f"{question.criterion!r}."
        )
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
    # On one axis the dots lie on a line of height 0.
    points, centre = targets.points[near, :2], home[:2]
    if len(records) == 1:
        points = np.pad(points, ((0, 0), (0, 1)))
        centre = np.pad(centre, (0, 1))
    with panel(4.8, 4.8 if len(records) == 2 else 2.4) as (figure, axes):
        for mine, size, shade, word in (
            (~served[near], 4, "#bbbbbb", "not served"),
            (served[near], 8, PALETTE[0], "served"),
        ):
            label = f"{word}: {int(mine.sum()):,}"
            axes.scatter(*points[mine].T, s=size, color=shade, label=label)
        axes.plot(*centre, "*", markersize=12, color="black", label="the source")
        if balls is not None:
            turn = np.linspace(0, 2 * np.pi, 200)
            circle = np.stack([np.cos(turn), np.sin(turn)], 1)
            whole = bool(balls.outer_is_global[source])
            note = "" if whole else ", within r only"
            for word, radius, shade, line in (
                ("inner ball", float(balls.inner[source]), PALETTE[2], "-"),
                (
                    "outer ball",
                    float(balls.outer[source]),
                    PALETTE[5],
                    "-" * (2 - whole),
                ),
            ):
                if np.isfinite(radius):
                    ring = np.array(centre + radius * circle)
                    said = f"{word}, {radius:.3g}{note * (word == 'outer ball')}"
                    axes.plot(*ring.T, line, color=shade, linewidth=2, label=said)
        for axis, record in zip((axes.xaxis, axes.yaxis), records, strict=False):
            set_axis(axis, record.label, record.scale, record.low, record.high, 0.03)
        if len(records) == 1:
            axes.set(yticks=[], ylim=(-1, 1))
        elif all(r.scale == "linear" and r.high > r.low for r in records):
            spans = [r.high - r.low for r in records]
            if 0.2 < spans[0] / spans[1] < 5:
                axes.set_aspect("equal")
        axes.set_title(literal(textwrap.fill(title, 52)), fontsize=9.5)
        legend_below(figure)
    return figure


def loss_rates(rates: LossRates) -> Figure:
    """Draw the loss rate L of every source: in colour over two axes, or as a curve.

    Args:
        rates: of sources with one or two axes.
    """
    records, points = axes_of(rates.sources), rates.sources.points
    values = np.where(np.isfinite(rates.upper), rates.upper, np.nan)
    with panel(5.0, 4.2) as (figure, axes):
        if len(records) == 1:
            axes.plot(points[:, 0], values, color=PALETTE[0])
            axes.set_ylabel("L")
        else:
            if records[0].values is not None and records[1].values is not None:
                x, y = records[0].values, records[1].values
                image = values.reshape(len(x), len(y)).T
                drawn = axes.pcolormesh(x, y, image, shading="nearest")
                axes.grid(False)
            else:
                drawn = axes.scatter(*points.T, c=values, s=12)
            figure.colorbar(drawn, ax=axes, label="L (loss per unit of distance)")
        for axis, record in zip((axes.xaxis, axes.yaxis), records, strict=False):
            set_axis(axis, record.label, record.scale, record.low, record.high)
        axes.set_title(f"largest loss rate L within r = {rates.radius:.3g}")
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
    figures: dict[str, Figure] = {}
    rates, balls = result.rates, result.balls
    if rates is not None and len(rates.sources.names) <= 2:
        if balls is not None and result.cover is not None:
            chosen = result.cover.sources
            if not len(chosen):
                chosen = np.arange(len(balls.inner))
            widest = int(chosen[balls.inner[chosen].argmax()])
            figures["tolerance-set"] = tolerance(
                study, result.question, source=widest, balls=balls
            )
        figures["loss-rates"] = loss_rates(rates)
    if result.continuum is not None and live_axes(result.continuum):
        figures["certified-boxes"] = boxes(study, result)
    return [
        file for name, figure in figures.items() for file in save(figure, folder / name)
    ]
