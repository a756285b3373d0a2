"""Is a given Lipschitz constant possible? Against the targets of each cell of a grid.

A constant that two known losses contradict proves nothing, so it is refused with the
two contexts. One that nothing contradicts is still only as good as the user's word.
"""

from itertools import product

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace.certificates.boxes.enclosures.lipschitz import (
    largest_change,
    refuse_rates,
)
from taskspace.certificates.lipschitz.grid import axis_values, places
from taskspace.performance import family_rows, row_blocks
from taskspace.questions import Question
from taskspace.spaces import Space

# Losses err by this share of the scores they are made of, far above rounding.
SLACK = 1e-9


def refute_rates(
    table: xr.Dataset, question: Question, targets: Space, rates: Array
) -> str:
    """Refuse Lipschitz constants that two targets of one cell of the grid contradict.

    With one constant per axis, or on a line, these stand for all pairs: between any
    two nodes there is a way of steps along the axes that is as long as their distance.

    Args:
        table: a performance table.
        question: which losses.
        targets: contexts of its targets.
        rates: one number (Euclidean norm), or one per axis of `targets`.

    Returns:
        How the constants were compared with the table, for people.

    Raises:
        InvalidInputError: naming the two contexts.
    """
    if axis_values(targets) is None:
        return "its targets are no grid, so it was not compared with the table"
    first, second = _neighbours(targets)
    points = targets.points
    margin = largest_change(points[first] - points[second], rates)
    for rows in row_blocks(table):
        losses, sizes = _losses(table, question, rows)
        with np.errstate(invalid="ignore"):
            step = np.abs(losses[:, first] - losses[:, second])
        allowed = margin * (1 + SLACK) + SLACK * (sizes[:, first] + sizes[:, second])
        for row, number in np.argwhere(step > allowed)[:1].tolist():
            pair = [first[number], second[number]]
            source = f"source {rows.start + row}"
            refuse_rates(rates, source, targets.names, points[pair], losses[row, pair])
    return "no two targets of a cell of the grid contradict it"


def _losses(table: xr.Dataset, question: Question, rows: slice) -> tuple[Array, Array]:
    """Return losses, and the size of the scores that they are differences of."""
    losses = question.rows(table, rows)
    rule = question.rule
    if rule.is_relative:
        sizes = 1 + np.abs(losses)
    else:
        sizes = np.abs(family_rows(table, question.judge, rows))
        if rule.compares_with_best:
            sizes = sizes + np.abs(table["best_known"].values)
        elif rule.compares_with_home:
            sizes = sizes + np.abs(losses)
    return losses, np.where(np.isfinite(sizes), sizes, 0.0)


def _neighbours(targets: Space) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return all pairs of nodes of one cell, along the axes and across."""
    values, index = places(targets)
    number = np.empty(tuple(map(len, values)), np.int64)
    number[index] = np.arange(targets.size)
    sides = {
        -1: (slice(1, None), slice(None, -1)),
        0: (slice(None), slice(None)),
        1: (slice(None, -1), slice(1, None)),
    }
    pairs = []
    for step in product((-1, 0, 1), repeat=number.ndim):
        if step > (0,) * number.ndim:  # one of each two opposite ways
            here, there = zip(*(sides[s] for s in step), strict=True)
            pairs.append((number[here].ravel(), number[there].ravel()))
    first, second = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return first, second
