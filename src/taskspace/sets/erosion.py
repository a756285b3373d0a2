"""Erosion: of the targets that a source serves, those whose whole window it serves.

Each target has a window of targets, those that may be meant where it is measured. On a
grid windows are products of stretches of the axes, so one pass along each axis does.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from taskspace._util.files import check_memory
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
            n = len(first)

            def change(grid: NDArray, first=first, last=last, n=n) -> None:
                # Targets of the line that are not served, up to each place.
                missed = np.zeros((*grid.shape[:2], n + 1, grid.shape[3]), np.int32)
                np.cumsum(~grid, axis=2, out=missed[:, :, 1:])
                grid[:] = missed[:, :, last + 1] == missed[:, :, first]

            _along_axis(out, inner, n, change)
        return self._over_lists(out, np.logical_and)

    def worst(self, losses: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the largest loss of each window.

        Args:
            losses: dims `(source, target)`.
        """
        out = np.array(losses, np.float64, order="C")
        for inner, first, last in self.axes:
            # A window is two stretches of 2^level places, which may overlap.
            level = np.frexp(last - first + 1)[1].astype(np.int64) - 1
            second = last + 1 - 2**level

            def change(grid: NDArray, first=first, second=second, level=level) -> None:
                most = grid.copy()  # the largest of 2^k places from each on
                for k in range(int(level.max(initial=0)) + 1):
                    at = np.flatnonzero(level == k)
                    grid[:, :, at] = np.maximum(
                        most[:, :, first[at]], most[:, :, second[at]]
                    )
                    most = np.maximum(most[:, :, : -(2**k)], most[:, :, 2**k :])

            _along_axis(out, inner, len(first), change)
        return self._over_lists(out, np.maximum)

    def _over_lists(self, rows: NDArray, join: np.ufunc) -> NDArray:
        """Return rows joined over the windows of scattered targets, if they are."""
        if self.offsets is None or self.members is None or not rows.size:
            return rows
        out = np.empty_like(rows)
        for k, row in enumerate(rows):
            out[k] = join.reduceat(row[self.members], self.offsets[:-1])
        return out


def _along_axis(
    out: NDArray, inner: int, n: int, change: Callable[[NDArray], None]
) -> None:
    """Call a function on stretches of rows as grids `(row, outer, place, inner)`."""
    grid = out.reshape(len(out), -1, n, inner)
    in_threads = out.size >= MIN_THREADED_CELLS
    over_rows(lambda a, b: change(grid[a:b]), len(out), in_threads=in_threads)


@lru_cache(maxsize=8)
def windows_of(error: ErrorBounds, space: Grid | Points) -> Windows:
    """Return the window of each context of a space: those within the error of it.

    Args:
        error: of the measured context.
        space: the contexts, measured and true ones alike.
    """
    if isinstance(space, Grid):
        axes = []
        for k, axis_error in enumerate(error.columns(space.names)):
            if axis_error is not None:
                values = space.axes[k].values
                reach = axis_error.reach(values)
                first = np.searchsorted(values, values - reach, side="left")
                last = np.searchsorted(values, values + reach, side="right") - 1
                inner = math.prod(space.shape[k + 1 :])
                axes.append((inner, first.astype(np.int64), last.astype(np.int64)))
        return Windows(tuple(axes))
    low, high = error.dilate(space.names, space.points, space.points)
    offsets, members = np.zeros(space.size + 1, np.int64), []
    for k in range(space.size):
        is_near = ((space.points >= low[k]) & (space.points <= high[k])).all(1)
        members.append(np.flatnonzero(is_near).astype(np.int32))
        offsets[k + 1] = offsets[k] + len(members[-1])
        check_memory(4 * int(offsets[k + 1]), "The contexts within the error")
    return Windows((), offsets, np.concatenate([np.zeros(0, np.int32), *members]))


def coarse_sentence(error: ErrorBounds | None, space: Grid | Points | None) -> str:
    """Return a sentence if no context has another within the error, else nothing.

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
