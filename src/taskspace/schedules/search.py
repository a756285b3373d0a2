"""The fewest breakpoints whose cells are all good.

One axis: a shortest path over good segments. Two axes: whether a segment of columns is
good depends on the rows only through their segments, so for every set of rows the
fewest columns are a shortest path. A schedule with fewer vertices than the best one has
few rows or few columns; all sets of so few are looked at. More axes: shortest paths on
one axis at a time, from several starts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array, Numbers
from taskspace.schedules.cells import CellLosses, Segments

Breakpoints = tuple[tuple[int, ...], ...]
"""Numbers of the candidates that are breakpoints, per axis."""
Size = Callable[[Sequence[int]], float]
"""The size of a schedule, which grows with the number of breakpoints of each axis."""

MAX_SETS = 300_000
"""Sets of rows that are looked at before the search gives up the proof."""
N_STARTS = 12


@dataclass(frozen=True)
class Found:
    """The best schedule of a search.

    Args:
        breakpoints: per axis, None if no schedule was found that serves.
        lower_bound: no schedule of the candidates has a smaller size; infinite if none
            of them serves.
    """

    breakpoints: Breakpoints | None
    lower_bound: float


class Paths:
    """Shortest paths over the segments of one axis.

    Args:
        axis: the segments.
    """

    def __init__(self, axis: Segments):
        self.n = n = axis.n
        self.allowed = axis.allowed
        self._first, self._second = np.triu_indices(n, 1)

    def fewest(
        self, losses: Array, limit: float, most: int | None = None
    ) -> tuple[int, ...] | None:
        """Return the fewest candidates whose segments all lose at most `limit`.

        Among as few the one that loses least; among these the lowest numbers.

        Args:
            losses: of every segment.
            limit: the largest loss.
            most: at most so many candidates; any number if left out.
        """
        n, most = self.n, self.n if most is None else min(most, self.n)
        losses = np.where(self.allowed & (losses <= limit), losses, np.inf)
        below, above = losses[:n], losses[n : 2 * n]
        step = np.full((n, n), np.inf)
        step[self._first, self._second] = losses[2 * n :]
        reach, back = below, []
        for count in range(1, most + 1):
            whole = np.maximum(reach, above)
            if whole.min() < np.inf:
                last = int(whole.argmin())
                path = [last]
                for before in reversed(back):
                    path.append(int(before[path[-1]]))
                return tuple(reversed(path))
            if count < most:
                through = np.maximum(reach[:, None], step)
                back.append(through.argmin(0))
                reach = through.min(0)
                if reach.min() == np.inf:
                    return None
        return None

    def length(self, good: NDArray[np.bool_], most: int) -> int:
        """Return the fewest candidates over good segments, `most + 1` if more.

        Args:
            good: of every segment.
            most: look no further.
        """
        n, good = self.n, good & self.allowed
        reach, above = good[:n], good[n : 2 * n]
        step = np.zeros((n, n), np.bool_)
        step[self._first, self._second] = good[2 * n :]
        for count in range(1, most + 1):
            if (reach & above).any():
                return count
            reach = step[reach].any(0)
            if not reach.any():
                break
        return most + 1


def search(cells: CellLosses, limits: Sequence[float], size: Size) -> list[Found]:
    """Return the smallest schedule of the candidates for each limit.

    Args:
        cells: what cells lose.
        limits: the largest loss of a target, descending.
        size: of a schedule.
    """
    if len(cells.axes) == 1:
        return [_one_axis(cells, limit, size) for limit in limits]
    if len(cells.axes) == 2:
        losses = _all_losses(cells, limits[0])
        return [two_axes(cells.axes, losses, limit, size) for limit in limits]
    return [_many_axes(cells, limit, size) for limit in limits]


def _one_axis(cells: CellLosses, limit: float, size: Size) -> Found:
    """Return the fewest breakpoints of one axis, layer by layer.

    A layer holds the candidates that n breakpoints reach, and no fewer. Segments are
    judged when they are needed, the short ones first: one that is good is enough.
    """
    axis = cells.axes[0]
    n, paths = axis.n, Paths(axis)
    losses = np.full(len(axis.holds), np.inf)
    ends = np.arange(2 * n)
    ends = ends[axis.allowed[ends]]
    losses[ends] = cells.worst(ends[:, None], limit)[0]
    last = np.flatnonzero(losses[n : 2 * n] <= limit)
    open_nodes = np.ones(n, np.bool_)
    front = np.flatnonzero(losses[:n] <= limit)
    while len(front) and len(last):
        path = paths.fewest(losses, limit)
        if path is None:  # is there an end within one more breakpoint?
            _judge(cells, losses, front, last, limit, per_end=False)
            path = paths.fewest(losses, limit)
        if path is not None:
            return Found((path,), size([len(path)]))
        open_nodes[front] = False
        front = _judge(cells, losses, front, np.flatnonzero(open_nodes), limit)
    return Found(None, np.inf)


def _judge(
    cells: CellLosses,
    losses: Array,
    first: Numbers,
    second: Numbers,
    limit: float,
    *,
    per_end: bool = True,
) -> Numbers:
    """Fill the losses of segments from one set to another, until good ones are found.

    Args:
        cells: what segments lose.
        losses: of every segment, filled.
        first: where segments may begin.
        second: where they may end.
        limit: the largest loss.
        per_end: look for a good segment to each end, and not for any one.

    Returns:
        The ends of good segments.
    """
    axis = cells.axes[0]
    i, j = (x.ravel() for x in np.meshgrid(first, second, indexing="ij"))
    forward = i < j
    i, j = i[forward], j[forward]
    order = np.lexsort((i, j, j - i))
    segments, j = axis.between(i, j)[order], j[order]
    segments, j = segments[axis.allowed[segments]], j[axis.allowed[segments]]
    reached = np.zeros(axis.n, np.bool_)
    chunk = max(64, len(second))
    while len(segments) and (per_end or not reached.any()):
        some = segments[:chunk]
        new = some[np.isinf(losses[some])]
        losses[new] = cells.worst(new[:, None], limit)[0]
        reached[j[:chunk][losses[some] <= limit]] = True
        rest = np.arange(len(segments)) >= chunk
        rest &= ~reached[j]
        segments, j = segments[rest], j[rest]
        chunk *= 4
    return np.flatnonzero(reached)


def _all_losses(cells: CellLosses, limit: float) -> Array:
    """Return the losses of all cells of two axes, infinite beyond the limit."""
    counts = [len(axis.holds) for axis in cells.axes]
    mesh = np.stack(np.meshgrid(*map(np.arange, counts), indexing="ij"), -1)
    return cells.worst(mesh.reshape(-1, 2), limit)[0].reshape(counts)


def two_axes(
    axes: Sequence[Segments], losses: Array, limit: float, size: Size
) -> Found:
    """Return the smallest of all tensor grids of two axes, from the losses of cells.

    Args:
        axes: the segments of both.
        losses: of each cell, `(segment, segment)`.
        limit: the largest loss of a target.
        size: of a schedule.
    """
    paths = [Paths(axis) for axis in axes]
    good = losses <= limit

    def judged(a: int, others: Breakpoints) -> Array:
        chosen = axes[1 - a].path(others[1 - a])
        return losses[:, chosen].max(1) if a == 0 else losses[chosen].max(0)

    whole = tuple(tuple(range(axis.n)) for axis in axes)
    best = _descend(paths, [whole, *_subsets(axes)], judged, limit, size)
    top = _size_of(best, size)
    n_looked = 0
    for k in range(1, min(axis.n for axis in axes) + 1):
        if size((k, k)) >= top:
            break
        for a in (0, 1):
            counts = [(k, m) if a == 0 else (m, k) for m in range(1, axes[1 - a].n + 1)]
            bound = sum(size(pair) < top for pair in counts)
            sets = _sets_of(axes[a], paths[1 - a], good if a == 0 else good.T, k, bound)
            for chosen, columns in sets:
                n_looked += 1
                if columns is not None:
                    start = (chosen, columns) if a == 0 else (columns, chosen)
                    found = _descend(paths, [start], judged, limit, size)
                    if _size_of(found, size) < top:
                        best, top = found, _size_of(found, size)
                if n_looked > MAX_SETS:
                    return Found(best, min(size((k, k)), top))
    return Found(best, top)


def _size_of(breakpoints: Breakpoints | None, size: Size) -> float:
    return np.inf if breakpoints is None else size([*map(len, breakpoints)])


def _sets_of(
    axis: Segments,
    others: Paths,
    good: NDArray[np.bool_],
    k: int,
    bound: int,
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...] | None]]:
    """Yield sets of k breakpoints of an axis, with the fewest of the other one.

    A set is built from below. A part of it is given up where the other axis needs more
    than `bound` breakpoints already.

    Yields:
        The set so far and the other axis' breakpoints; None instead of these where
        the set is not whole or was given up.
    """
    stack: list[tuple[tuple[int, ...], NDArray[np.bool_]]] = [
        ((i,), good[int(axis.below(i))])
        for i in reversed(range(axis.n))
        if axis.allowed[int(axis.below(i))]
    ]
    while stack:
        chosen, columns = stack.pop()
        if others.length(columns, bound) > bound:
            yield chosen, None
            continue
        last = chosen[-1]
        if len(chosen) == k:
            top = int(axis.above(last))
            if not axis.allowed[top]:
                continue
            columns = columns & good[top]
            length = others.length(columns, bound)
            if length > bound:
                yield chosen, None
                continue
            bound = length - 1  # only fewer are of interest from now on
            path = others.fewest(np.where(columns, 0.0, np.inf), 0.0)
            yield chosen, path
            continue
        for j in reversed(range(last + 1, axis.n - (k - len(chosen)) + 1)):
            segment = int(axis.between(last, j))
            if axis.allowed[segment]:
                stack.append(((*chosen, j), columns & good[segment]))
        yield chosen, None


def _many_axes(cells: CellLosses, limit: float, size: Size) -> Found:
    """Return the smallest schedule that shortest paths on one axis at a time find."""
    axes = cells.axes
    paths = [Paths(axis) for axis in axes]

    def judged(a: int, others: Breakpoints) -> Array:
        chosen = [axis.path(others[b]) for b, axis in enumerate(axes)]
        chosen[a] = np.flatnonzero(axes[a].allowed)
        mesh = np.stack(np.meshgrid(*chosen, indexing="ij"), -1)
        losses = cells.cached(mesh.reshape(-1, len(axes)), limit)
        losses = np.moveaxis(losses.reshape(mesh.shape[:-1]), a, 0)
        out = np.full(len(axes[a].holds), np.inf)
        out[chosen[a]] = losses.reshape(len(chosen[a]), -1).max(1)
        return out

    best = _descend(paths, list(_subsets(axes)), judged, limit, size)
    if best is None:  # few breakpoints do not do: begin with all of them
        whole = tuple(tuple(range(axis.n)) for axis in axes)
        best = _descend(paths, [whole], judged, limit, size)
    return Found(best, size([max(1, len(axis.include)) for axis in axes]))


def _subsets(axes: Sequence[Segments]) -> Iterator[Breakpoints]:
    """Yield evenly spread breakpoints, few first."""
    counts = [sorted({1, 2, 3, 5, 9} & set(range(1, axis.n + 1))) for axis in axes]
    shapes = sorted(product(*counts), key=lambda shape: (np.prod(shape), shape))
    for shape in shapes[: 4 * N_STARTS]:
        yield tuple(
            tuple(
                sorted(
                    {
                        *np.round(np.linspace(0, axis.n - 1, m)).astype(int),
                        *axis.include,
                    }
                )
            )
            if m > 1
            else tuple(sorted({(axis.n - 1) // 2, *axis.include}))
            for axis, m in zip(axes, shape, strict=True)
        )


def _descend(
    paths: Sequence[Paths],
    starts: Sequence[Breakpoints],
    judged: Callable[[int, Breakpoints], Array],
    limit: float,
    size: Size,
) -> Breakpoints | None:
    """Return the smallest schedule from some starts, one axis at a time.

    Args:
        paths: of each axis.
        starts: breakpoints to begin with.
        judged: the largest loss of each segment of an axis, the others as they are.
        limit: the largest loss.
        size: of a schedule.
    """
    best: Breakpoints | None = None
    for start in starts:
        current, serves = start, False
        while True:
            before = (serves, current)
            for a in range(len(paths)):
                path = paths[a].fewest(judged(a, current), limit)
                if path is not None:
                    current = (*current[:a], path, *current[a + 1 :])
                    serves = True
            if (serves, current) == before or not serves:
                break
            if [*map(len, before[1])] == [*map(len, current)] and before[0]:
                break
        if serves and _size_of(current, size) < _size_of(best, size):
            best = current
    return best
