"""Losses of sources at targets, like beside like."""

import textwrap

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from taskspace.cover import Cover
from taskspace.cover.cover import names_of
from taskspace.performance.study import Study
from taskspace.questions import Question
from taskspace.show.style import literal, panel, title_of

MAX_NAMES = 40
"""Names along an axis, at most."""


def transfer(
    study: Study | xr.Dataset, question: Question, *, cover: Cover | None = None
) -> Figure:
    """Draw the losses of all sources at all targets; what is not served is grey.

    Sources that are alike stand beside each other, and so do targets.

    Args:
        study: what is known, or a performance table.
        question: criterion, judge and tolerance.
        cover: whose sources to mark.
    """
    table = question.table_of(study)
    losses = question.losses(table).values
    rows, columns = seriation(losses)
    n_rows, n_columns = losses.shape
    limit = question.epsilon
    if limit is None:
        limit = float(losses[np.isfinite(losses)].max(initial=0.0))
    width = max(4.5, 2.2 + min(7.0, 0.22 * n_columns))
    height = max(2.6, 1.5 + min(6.5, 0.2 * n_rows))
    with panel(width, height, grid=False) as (figure, axes):
        axes.set_facecolor("#dddddd")
        shown = np.ma.masked_where(losses > limit, losses)[rows][:, columns]
        image = axes.imshow(
            shown, cmap="cividis_r", aspect="auto", interpolation="nearest"
        )
        figure.colorbar(image, label="loss; grey: not served")
        chosen = [] if cover is None else cover.sources
        for row in np.flatnonzero(np.isin(rows, chosen)).tolist():
            corner = (-0.5, row - 0.5)
            axes.add_patch(
                Rectangle(corner, n_columns, 1, fill=False, ec="#D55E00", lw=1.5)
            )
        axes.set_yticks(*_ticks(names_of(table, "source"), rows))
        axes.set_xticks(*_ticks(names_of(table, "target"), columns), rotation=90)
        axes.tick_params(labelsize=7)
        axes.set(ylabel="sources", xlabel="targets")
        title = textwrap.fill(title_of(question), 60)
        if cover is not None and cover.size:
            title += "\nframed: the selected sources"
        axes.set_title(literal(title), fontsize=10)
    return figure


def seriation(
    losses: NDArray[np.float64],
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return orders of sources and targets in which like stands beside like.

    By the second singular vectors of the ranks of the losses (correspondence
    analysis), which also orders matrices with failures and of any unit.

    Args:
        losses: dims `(source, target)`; infinities count as the largest.
    """
    if min(losses.shape) < 3:
        score = np.where(np.isfinite(losses), losses, np.nanmax(losses))
        return score.mean(1).argsort(kind="stable"), score.mean(0).argsort(
            kind="stable"
        )
    order = losses.ravel().argsort(kind="stable")
    rank = np.empty(losses.size)
    rank[order] = np.arange(losses.size)
    likeness = 1.0 - rank.reshape(losses.shape) / losses.size
    by_source = likeness / np.sqrt(likeness.sum(1, keepdims=True))
    scaled = by_source / np.sqrt(likeness.sum(0, keepdims=True))
    left, _, right = np.linalg.svd(scaled, full_matrices=False)
    rows, columns = left[:, 1], right[1]
    if abs(rows.min()) > rows.max():  # a sign that does not depend on the machine
        rows, columns = -rows, -columns
    return rows.argsort(kind="stable"), columns.argsort(kind="stable")


def _ticks(names: list[str] | None, order: NDArray[np.intp]) -> tuple[range, list[str]]:
    """Return places and names along an axis, none of too many."""
    if len(order) > MAX_NAMES:
        return range(0), []
    shown = [str(i) if names is None else names[i] for i in order.tolist()]
    short = [literal(textwrap.shorten(n, 24, placeholder="…")) for n in shown]
    return range(len(short)), short
