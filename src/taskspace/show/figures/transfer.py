"""Losses of sources at targets, like beside like: the record, and the picture."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from taskspace._util.files import plain
from taskspace.cover import Cover
from taskspace.cover.answer import source_names, target_names
from taskspace.performance.study import Study
from taskspace.questions import Question
from taskspace.show.style import literal, panel

MAX_NAMES = 40
"""Names along an axis, at most."""


def transfer(
    study: Study | xr.Dataset, question: Question, *, cover: Cover | None = None
) -> Figure:
    """Draw the losses of all sources at all targets, like beside like.

    Args:
        study: what is known, or a performance table.
        question: criterion, judge and tolerance.
        cover: whose sources to mark.
    """
    table = question.table_of(study)
    record = matrix_plot(
        question.losses(table).values,
        title=question.statement,
        sources=source_names(table),
        targets=target_names(table),
        selected=() if cover is None else cover.sources.tolist(),
        epsilon=question.epsilon,
    )
    return draw_matrix(record)


@dataclass(frozen=True)
class MatrixPlot:
    """Losses of sources at targets, in an order that puts like beside like.

    Args:
        title: what this is.
        losses: dims `(source, target)` in the order shown; None for a failure.
        sources: labels of the rows.
        targets: labels of the columns.
        selected: rows that are selected.
        epsilon: what counts as served; None where no tolerance is meant.
    """

    title: str
    losses: list[list[float | None]]
    sources: list[str]
    targets: list[str]
    selected: list[int]
    epsilon: float | None


def matrix_plot(
    losses: NDArray[np.float64],
    *,
    title: str,
    sources: list[str] | None = None,
    targets: list[str] | None = None,
    selected: Sequence[int] = (),
    epsilon: float | None = None,
) -> MatrixPlot:
    """Return losses in a sensible order.

    Args:
        losses: dims `(source, target)`.
        title: what this is.
        sources: names of the rows.
        targets: names of the columns.
        selected: rows to mark.
        epsilon: what counts as served.
    """
    rows, columns = seriation(losses)
    sources = sources or [str(i) for i in range(losses.shape[0])]
    targets = targets or [str(i) for i in range(losses.shape[1])]
    chosen = {int(s) for s in selected}
    ordered = losses[rows][:, columns]
    return MatrixPlot(
        title=title,
        losses=plain(ordered),
        sources=[sources[i] for i in rows],
        targets=[targets[j] for j in columns],
        selected=[i for i, row in enumerate(rows.tolist()) if row in chosen],
        epsilon=epsilon,
    )


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


def draw_matrix(record: MatrixPlot) -> Figure:
    """Draw losses as an ordered heat map; what is not served is grey.

    Args:
        record: what to draw.
    """
    losses = np.array(
        [[np.inf if v is None else v for v in line] for line in record.losses]
    )
    n_rows, n_columns = losses.shape
    width = max(4.5, 2.2 + min(7.0, 0.22 * n_columns))
    height = max(2.6, 1.5 + min(6.5, 0.2 * n_rows))
    limit = record.epsilon
    if limit is None:
        limit = float(losses[np.isfinite(losses)].max(initial=0.0))
    with panel(width, height, grid=False) as (figure, axes):
        axes.set_facecolor("#dddddd")
        inside = np.ma.masked_where(losses > limit, losses)
        image = axes.imshow(
            inside, cmap="cividis_r", aspect="auto", interpolation="nearest"
        )
        figure.colorbar(image, label=f"loss ≤ {limit:.4g}; grey: not served")
        for row in record.selected:
            corner = (-0.5, row - 0.5)
            axes.add_patch(
                Rectangle(corner, n_columns, 1, fill=False, ec="#D55E00", lw=1.5)
            )
        axes.set_yticks(*_ticks(record.sources))
        axes.set_xticks(*_ticks(record.targets), rotation=90)
        axes.tick_params(labelsize=7)
        title = textwrap.fill(record.title, 60)
        axes.set(ylabel="sources", xlabel="targets")
        axes.set_title(title, fontsize=10)
    return figure


def _ticks(names: list[str]) -> tuple[range, list[str]]:
    """Return places and names along an axis, none of too many."""
    shown = names if len(names) <= MAX_NAMES else []
    return range(len(shown)), [_short(name) for name in shown]


def _short(name: str) -> str:
    return literal(textwrap.shorten(name, 24, placeholder="…"))
