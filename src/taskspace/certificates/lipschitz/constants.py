"""Is a given Lipschitz constant possible? Against every pair of targets known.

A constant that two known losses contradict proves nothing, so it is refused with the
two contexts. One that nothing contradicts is still only as good as the user's word.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numba import njit
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace._util.threads import over_rows
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
# Sources whose pairs are looked at between two looks at the clock.
ROWS_AT_ONCE = 16


@dataclass(frozen=True)
class RateCheck:
    """How many pairs of losses a constant was checked against.

    Args:
        n_checked: pairs of targets, counted once for every source.
        n_known: all such pairs of the table.
    """

    n_checked: int
    n_known: int

    @property
    def sentence(self) -> str:
        """The count for people."""
        if self.n_checked >= self.n_known:
            return f"none of the {self.n_known:,} pairs of known losses contradicts it"
        return (
            f"{self.n_checked:,} of {self.n_known:,} pairs of known losses do not "
            "contradict it, and time was up for the others"
        )


def refute_rates(
    table: xr.Dataset, question: Question, targets: Space, rates: Array, *, clock: Clock
) -> RateCheck:
    """Refuse Lipschitz constants that two known losses contradict.

    Every pair of targets, for every source. With one constant per axis, or on a
    line, neighbours on a grid stand for all pairs: between any two nodes there is a
    way of steps along the axes that is as long as their distance.

    Args:
        table: a performance table.
        question: which losses.
        targets: contexts of its targets.
        rates: one number (Euclidean norm), or one per axis of `targets`.
        clock: when to stop; neighbours are checked in any case.

    Raises:
        InvalidInputError: naming the two contexts.
    """
    points = np.ascontiguousarray(targets.points)
    n = len(points)
    n_known = n * (n - 1) // 2 * table.sizes["source"]
    first, second = _neighbours(targets)
    for rows in row_blocks(table):
        losses, sizes = _losses(table, question, rows)
        margin = largest_change(points[first] - points[second], rates)
        with np.errstate(invalid="ignore"):
            step = np.abs(losses[:, first] - losses[:, second])
        allowed = margin * (1 + SLACK) + SLACK * (sizes[:, first] + sizes[:, second])
        bad = np.argwhere(step > allowed)
        if len(bad):
            row, number = bad[0].tolist()
            pair = [first[number], second[number]]
            source = f"source {rows.start + row}"
            refuse_rates(rates, source, targets.names, points[pair], losses[row, pair])
    if len(first) and (rates.ndim or points.shape[1] == 1):
        return RateCheck(n_known, n_known)
    n_rows = 0
    for rows in row_blocks(table):
        losses, sizes = _losses(table, question, rows)
        for start in range(0, len(losses), ROWS_AT_ONCE):
            if clock.left <= 0:
                return RateCheck(n_rows * n * (n - 1) // 2, n_known)
            part = slice(start, start + ROWS_AT_ONCE)
            pairs = np.full((len(losses[part]), 2), -1, np.int64)
            _all_pairs(losses[part], sizes[part], points, rates, pairs)
            bad = np.flatnonzero(pairs[:, 0] >= 0)
            if len(bad):
                row, pair = start + int(bad[0]), pairs[bad[0]]
                source = f"source {rows.start + row}"
                some = points[pair], losses[row, pair]
                refuse_rates(rates, source, targets.names, *some)
            n_rows += len(pairs)
    return RateCheck(n_known, n_known)


def _losses(table: xr.Dataset, question: Question, rows: slice) -> tuple[Array, Array]:
    """Return losses, and the size of the scores that they are differences of."""
    losses = question.rows(table, rows)
    rule = question.rule
    if rule.is_relative:
        sizes = 1 + np.abs(losses)
    else:
        sizes = np.abs(family_rows(table, question.judge, rows))
        if rule.reference == "best known":
            sizes = sizes + np.abs(table["best_known"].values)
        elif rule.reference == "home":
            sizes = sizes + np.abs(losses)
    sizes = np.where(np.isfinite(sizes), sizes, 0.0)
    return np.ascontiguousarray(losses), np.ascontiguousarray(sizes)


def _neighbours(targets: Space) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return pairs of neighbours along the axes; none if these are no whole grid."""
    if axis_values(targets) is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    values, index = places(targets)
    number = np.empty(tuple(map(len, values)), np.int64)
    number[index] = np.arange(targets.size)
    pairs = [
        (
            np.take(number, range(n - 1), axis).ravel(),
            np.take(number, range(1, n), axis).ravel(),
        )
        for axis, n in enumerate(number.shape)
    ]
    first, second = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return first, second


def _all_pairs(losses, sizes, points, rates, found) -> None:
    per_axis = rates.ndim == 1
    constants = np.atleast_1d(rates).astype(np.float64)

    def kernel(first: int, stop: int) -> None:
        part = slice(first, stop)
        _contradictions(
            losses[part], sizes[part], points, constants, per_axis, found[part]
        )

    over_rows(kernel, len(losses))


@njit(cache=True, nogil=True)
def _contradictions(losses, sizes, points, rates, per_axis, found):
    """Fill the first pair of each row whose losses differ by too much."""
    for s in range(len(losses)):
        for i in range(len(points)):
            if found[s, 0] >= 0:
                break
            for j in range(i):
                step = abs(losses[s, i] - losses[s, j])
                if not step > 0.0:
                    continue
                reach = 0.0
                for a in range(points.shape[1]):
                    width = points[i, a] - points[j, a]
                    reach += abs(width) * rates[a] if per_axis else width * width
                if not per_axis:
                    reach = np.sqrt(reach) * rates[0]
                slack = SLACK * (reach + sizes[s, i] + sizes[s, j])
                if step > reach + slack:
                    found[s, 0], found[s, 1] = j, i
                    break
