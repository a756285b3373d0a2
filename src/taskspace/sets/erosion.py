"""Erosion: of the targets that a source serves, those whose whole window it serves.

Each target has a window of targets, those that may be meant where it is measured. On a
grid windows are products of stretches of the axes, so one pass along each axis does.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numba
import numpy as np
from numpy.typing import NDArray

from taskspace._util import memory as _memory
from taskspace._util.threads import over_rows
from taskspace.measured import ErrorBounds
from taskspace.spaces import Grid, Points

# Below this many cells a thread costs more than it gives.
MIN_THREADED_CELLS = 2**18


@final
@dataclass(frozen=True, eq=False)
class Windows:
    """For each target the targets that may be meant where it is measured.

    Args:
        axes: on a grid, the stretches to look along one after the other: targets
            before and behind each step of the axis, and first and last place of the
            window of each place. Empty for scattered targets.
        offsets: of scattered targets: where the window of each begins in `members`.
        members: the targets of all windows, one after the other.
    """

    axes: tuple[tuple[int, NDArray[np.int64], NDArray[np.int64]], ...]
    offsets: NDArray[np.int64] | None = None
    members: NDArray[np.int32] | None = None

    def erode(self, served: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which targets are served together with all of their window.

        Args:
            served: which targets each source serves, `(source, target)`.
        """
        out = np.array(served, np.bool_, order="C")
        for inner, first, last in self.axes:
            _erode_along(out, inner, first, last)
        if self.members is not None:
            _over(
                lambda a, b: _erode_lists(
                    served[a:b], self.offsets, self.members, out[a:b]
                ),
                out,
            )
        return out

    def worst(self, losses: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the largest loss of each window.

        Args:
            losses: dims `(source, target)`.
        """
        out = np.array(losses, np.float64, order="C")
        for inner, first, last in self.axes:
            _widen_along(out, inner, first, last)
        if self.members is not None:
            values = np.ascontiguousarray(losses, np.float64)
            _over(
                lambda a, b: _worst_lists(
                    values[a:b], self.offsets, self.members, out[a:b]
                ),
                out,
            )
        return out


def _erode_along(
    out: NDArray[np.bool_],
    inner: int,
    first: NDArray[np.int64],
    last: NDArray[np.int64],
) -> None:
    """Erode rows in place along one axis of their grid."""
    n = len(first)
    if inner == 1:
        lines = out.reshape(len(out), -1, n)
        _over(lambda a, b: _erode_lines(lines[a:b], first, last), out)
        return
    # Small numbers, so that many fit a register.
    gap = np.empty(0, np.int16 if n < 2**15 else np.int32)
    grid = out.reshape(len(out), -1, n, inner)
    _over(lambda a, b: _erode_grid(grid[a:b], first, last, gap), out)


def _widen_along(
    out: NDArray[np.float64],
    inner: int,
    first: NDArray[np.int64],
    last: NDArray[np.int64],
) -> None:
    """Replace rows by the largest of each window along one axis, in place."""
    n = len(first)
    # A window is two stretches of 2^level places, which may overlap.
    level = np.frexp(last - first + 1)[1].astype(np.int64) - 1
    second = last + 1 - 2**level
    if inner == 1:
        lines = out.reshape(len(out), -1, n)
        _over(lambda a, b: _worst_lines(lines[a:b], level, first, second), out)
        return
    grid = out.reshape(len(out), -1, n, inner)
    _over(lambda a, b: _worst_grid(grid[a:b], level, first, second), out)


def _over(kernel: Callable[[int, int], None], out: NDArray) -> None:
    over_rows(kernel, len(out), in_threads=out.size >= MIN_THREADED_CELLS)


@lru_cache(maxsize=8)
def windows_of(error: ErrorBounds, space: Grid | Points) -> Windows:
    """Return the window of each context of a space: those within the error of it.

    Args:
        error: of the measured context.
        space: the contexts, measured and true ones alike.
    """
    if isinstance(space, Grid):
        axes = []
        for number, (axis, one) in enumerate(
            zip(space.axes, error.columns(space.names), strict=True)
        ):
            if one is not None:
                low, high = axis.values - one.reach(axis.values), axis.values
                high = high + one.reach(high)
                first = np.searchsorted(axis.values, low, side="left")
                last = np.searchsorted(axis.values, high, side="right") - 1
                inner = math.prod(space.shape[number + 1 :])
                axes.append((inner, first.astype(np.int64), last.astype(np.int64)))
        return Windows(tuple(axes))
    low, high = error.dilate(space.names, space.points, space.points)
    offsets = np.zeros(space.size + 1, np.int64)
    _count_members(space.points, low, high, offsets[1:])
    np.cumsum(offsets, out=offsets)
    _memory.check(4 * int(offsets[-1]), "The contexts within the error of each other")
    members = np.empty(offsets[-1], np.int32)
    _list_members(space.points, low, high, offsets, members)
    return Windows((), offsets, members)


def coarse_sentence(error: ErrorBounds | None, space: Grid | Points | None) -> str:
    """Return that no context has another within the error; empty where one has.

    Args:
        error: of the measured context, None for none.
        space: the targets.
    """
    if error is None or space is None:
        return ""
    windows = windows_of(error, space)
    if windows.members is None:
        alone = all((first == last).all() for _, first, last in windows.axes)
    else:
        alone = len(windows.members) == space.size
    if not alone:
        return ""
    return (
        f"No target has another within the error ({error.words}), so this is the "
        "answer for contexts that are known exactly; certify, or take a finer grid."
    )


@numba.njit(cache=True, nogil=True)
def _erode_grid(grids, first, last, kind):  # pragma: no cover
    n_rows, n_outer, n, inner = grids.shape
    # The last place before each at which the row is not served, −1 for none.
    gap = np.empty((n + 1, inner), kind.dtype)
    gap[0] = -1
    for r in range(n_rows):
        for o in range(n_outer):
            for i in range(n):
                line, before, here = grids[r, o, i], gap[i], gap[i + 1]
                for k in range(inner):
                    here[k] = before[k] if line[k] else i
            for i in range(n):
                line, latest, a = grids[r, o, i], gap[last[i] + 1], first[i]
                for k in range(inner):
                    line[k] = latest[k] < a


@numba.njit(cache=True, nogil=True)
def _erode_lines(grids, first, last):  # pragma: no cover
    n_rows, n_outer, n = grids.shape
    gap = np.empty(n, np.int32)
    for r in range(n_rows):
        for o in range(n_outer):
            line = grids[r, o]
            latest = np.int32(-1)
            for i in range(n):
                latest = latest if line[i] else np.int32(i)
                gap[i] = latest
            for i in range(n):
                line[i] = gap[last[i]] < first[i]


@numba.njit(cache=True, nogil=True)
def _worst_grid(grids, level, first, second):  # pragma: no cover
    n_rows, n_outer, n, inner = grids.shape
    # Stretch l holds the largest of 2^l places from each on.
    most = np.empty((np.max(level) + 1, n, inner))
    for r in range(n_rows):
        for o in range(n_outer):
            most[0] = grids[r, o]
            for up in range(1, len(most)):
                half = 2 ** (up - 1)
                for i in range(n - 2 * half + 1):
                    one, other = most[up - 1, i], most[up - 1, i + half]
                    for k in range(inner):
                        most[up, i, k] = one[k] if one[k] > other[k] else other[k]
            for i in range(n):
                one, other = most[level[i], first[i]], most[level[i], second[i]]
                for k in range(inner):
                    grids[r, o, i, k] = one[k] if one[k] > other[k] else other[k]


@numba.njit(cache=True, nogil=True)
def _worst_lines(grids, level, first, second):  # pragma: no cover
    n_rows, n_outer, n = grids.shape
    most = np.empty((np.max(level) + 1, n))
    for r in range(n_rows):
        for o in range(n_outer):
            most[0] = grids[r, o]
            for up in range(1, len(most)):
                half = 2 ** (up - 1)
                below, here = most[up - 1], most[up]
                for i in range(n - 2 * half + 1):
                    x, y = below[i], below[i + half]
                    here[i] = x if x > y else y
            for i in range(n):
                x, y = most[level[i], first[i]], most[level[i], second[i]]
                grids[r, o, i] = x if x > y else y


@numba.njit(cache=True, nogil=True)
def _erode_lists(rows, offsets, members, out):  # pragma: no cover
    for r in range(len(rows)):
        for t in range(rows.shape[1]):
            fine = True
            for m in range(offsets[t], offsets[t + 1]):
                if not rows[r, members[m]]:
                    fine = False
                    break
            out[r, t] = fine


@numba.njit(cache=True, nogil=True)
def _worst_lists(rows, offsets, members, out):  # pragma: no cover
    for r in range(len(rows)):
        for t in range(rows.shape[1]):
            worst = -np.inf
            for m in range(offsets[t], offsets[t + 1]):
                worst = max(worst, rows[r, members[m]])
            out[r, t] = worst


@numba.njit(cache=True)
def _within(points, low, high, i, j):  # pragma: no cover
    for k in range(points.shape[1]):
        if points[j, k] < low[i, k] or points[j, k] > high[i, k]:
            return False
    return True


@numba.njit(cache=True)
def _count_members(points, low, high, counts):  # pragma: no cover
    for i in range(len(points)):
        for j in range(len(points)):
            counts[i] += _within(points, low, high, i, j)


@numba.njit(cache=True)
def _list_members(points, low, high, offsets, members):  # pragma: no cover
    for i in range(len(points)):
        n = offsets[i]
        for j in range(len(points)):
            if _within(points, low, high, i, j):
                members[n] = j
                n += 1
