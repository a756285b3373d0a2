"""The fewest breakpoints of which every cell serves its targets.

A segment of an axis lies between two breakpoints, or beyond the first or the last one,
where the numbers stay as they are. A cell is one segment per axis. Which targets it
serves does not depend on the other breakpoints.

One axis: a shortest path over good segments. Two axes: for every set of rows the fewest
columns are a shortest path, over the segments that are good with all rows. A schedule
with fewer vertices than the best one has few rows or few columns; all sets of that few
are looked at. More axes: shortest paths on one axis at a time, from several starts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

import numpy as np

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace.policies import Policy
from taskspace.progress import Progress
from taskspace.questions import Question
from taskspace.schedules.table import Scale, Schedule, interpolate, share
from taskspace.spaces import Axis, Grid
from taskspace.systems.base import System

# Indices of the candidates that are breakpoints, per axis.
Breakpoints = tuple[tuple[int, ...], ...]

# Targets after which cells beyond the limit are set aside.
COMPRESS_EVERY = 64
# Sets of rows that are looked at before the search gives up the proof.
MAX_SETS = 300_000
MAX_STARTS = 48


@dataclass(frozen=True, eq=False)
class Segments:
    """All segments between the candidates of one axis, and what they hold.

    They come in this order: below each candidate, above each candidate, then those
    between candidates i < j, by i and j.

    Args:
        candidates: where breakpoints may be, ascending.
        measured: coordinates at which numbers are looked up.
        true: the coordinates of the plant there; the same unless contexts are measured
            with an error.
        scale: how the axis interpolates.
    """

    candidates: Array
    measured: Array
    true: Array
    scale: Scale

    @property
    def n(self) -> int:
        """Number of candidates."""
        return len(self.candidates)

    @cached_property
    def ends(self) -> tuple[Numbers, Numbers]:
        """Indices of the candidates at both ends, the same one beyond the ends."""
        one = np.arange(self.n)
        low, high = np.triu_indices(self.n, 1)
        return np.concatenate([one, one, low]), np.concatenate([one, one, high])

    def path(self, breakpoints: Sequence[int]) -> Numbers:
        """Return the segments of some breakpoints, from below to above.

        Args:
            breakpoints: indices of candidates, ascending.
        """
        chosen = np.asarray(breakpoints, np.int64)
        i, j = chosen[:-1], chosen[1:]
        between = 2 * self.n + i * (2 * self.n - i - 1) // 2 + j - i - 1
        return np.concatenate([chosen[:1], between, self.n + chosen[-1:]])

    @cached_property
    def holds(self) -> Mask:
        """Whether each segment holds each coordinate, `(segment, coordinate)`.

        A coordinate on a breakpoint counts to the segment below it.
        """
        low, high = self.ends
        x, at = self.measured, self.candidates
        holds = (x > at[low][:, None]) & (x <= at[high][:, None])
        holds[: self.n] = x <= at[:, None]
        holds[self.n : 2 * self.n] = x > at[:, None]
        return holds

    def fewest(
        self, losses: Array, limit: float, most: int | None = None
    ) -> tuple[int, ...] | None:
        """Return the fewest candidates whose segments all lose at most `limit`.

        Among as few the one that loses least; among these the lowest indices.

        Args:
            losses: of every segment.
            limit: the largest loss.
            most: look no further than this number; no limit if left out.
        """
        n, most = self.n, self.n if most is None else min(most, self.n)
        losses = np.where(losses <= limit, losses, np.inf)
        step = np.full((n, n), np.inf)
        step[np.triu_indices(n, 1)] = losses[2 * n :]
        reach, above, back = losses[:n], losses[n : 2 * n], []
        for _ in range(most):
            whole = np.maximum(reach, above)
            if whole.min() < np.inf:
                path = [int(whole.argmin())]
                for before in reversed(back):
                    path.append(int(before[path[-1]]))
                return tuple(reversed(path))
            through = np.maximum(reach[:, None], step)
            back.append(through.argmin(0))
            reach = through.min(0)
            if reach.min() == np.inf:
                break
        return None


@dataclass(frozen=True, eq=False)
class Cells:
    """All cells between the candidates, and the targets that they must serve.

    Args:
        system: the tasks.
        question: what is asked.
        table: the candidates, as a schedule; numbers are NaN where a source failed.
        axes: the segments of each axis.
        contexts: full context rows of the targets, one per combination of `true`
            coordinates, the last axis fastest.
        best: best score at each of them, NaN where there is none.
        progress: told how far it is.
    """

    system: System
    question: Question
    table: Schedule
    axes: Sequence[Segments]
    contexts: Array
    best: Array
    progress: Progress

    @property
    def shape(self) -> tuple[int, ...]:
        """Targets per axis."""
        return tuple(len(axis.measured) for axis in self.axes)

    @property
    def targets(self) -> Grid:
        """The true contexts of the targets."""
        axes = zip(self.table.names, self.axes, strict=True)
        return Grid(
            **{name: Axis(name, values=np.unique(own.true)) for name, own in axes}
        )

    @property
    def bound_of(self) -> str:
        """What a proof over these cells is about: candidates and targets."""
        candidates, targets = (
            " × ".join(map(str, shape)) for shape in (self.table.shape, self.shape)
        )
        return f"{candidates} candidates on {targets} targets"

    def worst(self, cells: Numbers, limit: float) -> tuple[Array, Numbers]:
        """Return the largest loss of each cell, and the target where it is.

        Args:
            cells: one row of segments per cell.
            limit: a loss above this is infinite: its cell is not looked at further.

        Returns:
            Losses, −inf for cells without a target, and indices of targets, −1 there.
        """
        worst, where = np.full(len(cells), -np.inf), np.full(len(cells), -1)
        ends = [
            [axis.ends[side][cells[:, a]] for side in (0, 1)]
            for a, axis in enumerate(self.axes)
        ]
        there = np.asarray(np.isfinite(self.table.gains).all(-1))
        for corner in product(*ends):
            worst[~there[corner]] = np.inf  # a source that failed
        alive = np.flatnonzero(worst <= limit)
        # Targets from far apart come first: one bad target is enough.
        order = np.random.default_rng(0).permutation(len(self.contexts))
        coordinates = np.array(np.unravel_index(order, self.shape)).T
        pairs = zip(order.tolist(), coordinates.tolist(), strict=True)
        for step, (target, places) in enumerate(pairs):
            inside = np.ones(len(alive), np.bool_)
            for a, (axis, place) in enumerate(zip(self.axes, places, strict=True)):
                inside &= axis.holds[cells[alive, a], place]
            asked = alive[inside]
            if len(asked):
                some = [[side[asked] for side in pair] for pair in ends]
                losses = self._losses(some, places, target)
                more = losses > worst[asked]
                worst[asked[more]], where[asked[more]] = losses[more], target
            if step % COMPRESS_EVERY == 0:
                alive = alive[worst[alive] <= limit]
                self.progress("cells", step, len(order))
        self.progress("cells", len(order), len(order))
        worst[worst > limit] = np.inf
        return worst, where

    def _losses(
        self, ends: list[list[Numbers]], places: Sequence[int], target: int
    ) -> Array:
        """Return the loss of some cells at one target that each of them holds."""
        at = []
        for axis, (i, j), place in zip(self.axes, ends, places, strict=True):
            low, high = axis.candidates[i], axis.candidates[j]
            x = np.clip(axis.measured[place], low, high)
            at.append((i, j, share(x, low, high, axis.scale)))
        numbers = interpolate(self.table.gains, at)
        policies = self.table.structure.policies(numbers[:, None])
        row = slice(target, target + 1)
        return _losses_by_demands(
            self.question,
            lambda m: self.system.scores(m, policies, self.contexts[row])[:, 0, 0],
            lambda: self.best[row],
        )


def losses_at(
    system: System,
    question: Question,
    policies: Policy,
    contexts: Array,
    best: Array | None = None,
) -> Array:
    """Return the loss of each policy at its own context, by all demands.

    Args:
        system: the tasks.
        question: what is asked.
        policies: a stack with dims `(context, policy)`, one policy per context.
        contexts: full context rows.
        best: best score at each; that of the system if left out.
    """
    if not len(contexts):
        return np.zeros(0)

    def scores(measure: str) -> Array:
        if measure == "performance":
            return system.home_performance(policies, contexts)[:, 0]
        pairs = ((policies[i : i + 1], row[None]) for i, row in enumerate(contexts))
        return np.array([system.scores(measure, *pair)[0, 0, 0] for pair in pairs])

    def best_scores() -> Array:
        found = system.optimum(contexts) if best is None else best
        return np.full(len(contexts), np.nan) if found is None else found

    return _losses_by_demands(question, scores, best_scores)


def _losses_by_demands(
    question: Question, scores: Callable[[str], Array], best: Callable[[], Array]
) -> Array:
    """Return losses of the first demand, infinite where another one is not met."""

    def losses(demand: Question) -> Array:
        reference = demand.rule.against(best=best, home=lambda: np.zeros(1))
        return demand.rule.loss(scores(demand.measure), reference)

    total = losses(question.demands[0])
    for demand in question.also:
        total = np.where(losses(demand) <= demand.epsilon, total, np.inf)
    return total


def search(
    cells: Cells, limits: Sequence[float]
) -> list[tuple[Breakpoints | None, float]]:
    """Return the fewest vertices of the candidates for each limit.

    Args:
        cells: between the candidates.
        limits: the largest loss of a target, descending.

    Returns:
        For each limit the breakpoints, None if none were found that serve, and a lower
        bound on the number of vertices; infinite if no schedule of the candidates
        serves.
    """
    if len(cells.axes) > 2:
        return [(_many_axes(cells, limit), 1) for limit in limits]
    counts = [len(axis.holds) for axis in cells.axes]
    mesh = np.stack(np.meshgrid(*map(np.arange, counts), indexing="ij"), -1)
    losses = cells.worst(mesh.reshape(-1, len(counts)), limits[0])[0].reshape(counts)
    if len(counts) == 2:
        return [_two_axes(cells.axes, losses, limit) for limit in limits]
    paths = [cells.axes[0].fewest(losses, limit) for limit in limits]
    return [(None, np.inf) if path is None else ((path,), len(path)) for path in paths]


def _two_axes(
    axes: Sequence[Segments], losses: Array, limit: float
) -> tuple[Breakpoints | None, float]:
    """Return the smallest of all tensor grids of two axes, from the losses of cells."""

    def judged(a: int, others: Breakpoints) -> Array:
        chosen = axes[1 - a].path(others[1 - a])
        return losses[:, chosen].max(1) if a == 0 else losses[chosen].max(0)

    whole = tuple(tuple(range(axis.n)) for axis in axes)
    best = _descend(axes, [whole, *_spread_evenly(axes)], judged, limit)
    top, n_looked = _size(best), 0
    for k in range(1, min(axis.n for axis in axes) + 1):
        if k * k >= top:
            break
        for a in (0, 1):
            most = int(min(axes[1 - a].n, np.ceil(top / k) - 1))
            sets = _sets_of(axes, losses if a == 0 else losses.T, a, k, most, limit)
            for start in sets:
                n_looked += 1
                if start is not None:
                    found = _descend(axes, [start], judged, limit)
                    if _size(found) < top:
                        best, top = found, _size(found)
                if n_looked > MAX_SETS:
                    return best, min(k * k, top)
    return best, top


def _size(breakpoints: Breakpoints | None) -> float:
    return np.inf if breakpoints is None else prod(map(len, breakpoints))


def _sets_of(
    axes: Sequence[Segments], losses: Array, a: int, k: int, most: int, limit: float
) -> Iterator[Breakpoints | None]:
    """Yield sets of k breakpoints of axis a with at most `most` of the other one.

    A set is built from below. A part of it is given up where the other axis needs too
    many breakpoints already. For every set that is looked at, something is yielded:
    None where it is not whole or was given up.

    Args:
        axes: both axes.
        losses: of each cell, axis a first.
        a: the axis.
        k: breakpoints of it.
        most: breakpoints of the other axis.
        limit: the largest loss.
    """
    axis, other = axes[a], axes[1 - a]
    stack: list[tuple[tuple[int, ...], Array]] = [
        ((i,), losses[i]) for i in reversed(range(axis.n))
    ]
    while stack:
        chosen, worst = stack.pop()
        if len(chosen) == k:
            worst = np.maximum(worst, losses[axis.n + chosen[-1]])
        path = other.fewest(worst, limit, most)
        if path is None or len(chosen) < k:
            yield None
        else:
            most = len(path) - 1  # only fewer are of interest from now on
            yield (chosen, path) if a == 0 else (path, chosen)
        if path is None or len(chosen) == k:
            continue
        for j in reversed(range(chosen[-1] + 1, axis.n - (k - len(chosen)) + 1)):
            segment = int(axis.path((chosen[-1], j))[1])
            stack.append(((*chosen, j), np.maximum(worst, losses[segment])))


def _many_axes(cells: Cells, limit: float) -> Breakpoints | None:
    """Return the smallest schedule that shortest paths on one axis at a time find."""
    axes = cells.axes
    known: dict[tuple[int, ...], float] = {}

    def judged(a: int, others: Breakpoints) -> Array:
        chosen = [axis.path(own) for axis, own in zip(axes, others, strict=True)]
        chosen[a] = np.arange(len(axes[a].holds))
        mesh = np.stack(np.meshgrid(*chosen, indexing="ij"), -1)
        keys = list(map(tuple, mesh.reshape(-1, len(axes)).tolist()))
        new = list(dict.fromkeys(key for key in keys if key not in known))
        if new:
            losses, _ = cells.worst(np.array(new), limit)
            known.update(zip(new, losses.tolist(), strict=True))
        every = np.array([known[key] for key in keys]).reshape(mesh.shape[:-1])
        return np.moveaxis(every, a, 0).reshape(len(chosen[a]), -1).max(1)

    best = _descend(axes, list(_spread_evenly(axes)), judged, limit)
    if best is None:  # few breakpoints do not do: begin with all of them
        whole = tuple(tuple(range(axis.n)) for axis in axes)
        best = _descend(axes, [whole], judged, limit)
    return best


def _spread_evenly(axes: Sequence[Segments]) -> Iterator[Breakpoints]:
    """Yield breakpoints that are evenly spread, few first."""
    counts = [sorted({1, 2, 3, 5, 9} & set(range(1, axis.n + 1))) for axis in axes]
    shapes = sorted(product(*counts), key=lambda shape: (np.prod(shape), shape))
    for shape in shapes[:MAX_STARTS]:
        yield tuple(
            tuple(np.round(np.linspace(0, axis.n - 1, m)).astype(int).tolist())
            if m > 1
            else ((axis.n - 1) // 2,)
            for axis, m in zip(axes, shape, strict=True)
        )


def _descend(
    axes: Sequence[Segments],
    starts: Sequence[Breakpoints],
    judged: Callable[[int, Breakpoints], Array],
    limit: float,
) -> Breakpoints | None:
    """Return the smallest schedule from some starts, one axis at a time.

    Args:
        axes: the segments of each.
        starts: breakpoints to begin with.
        judged: the largest loss of each segment of an axis, the others as they are.
        limit: the largest loss.
    """
    best: Breakpoints | None = None
    for start in starts:
        current, serves = start, False
        while True:
            before, served = current, serves
            for a, axis in enumerate(axes):
                path = axis.fewest(judged(a, current), limit)
                if path is not None:
                    current = (*current[:a], path, *current[a + 1 :])
                    serves = True
            is_smaller = _size(current) < _size(before)
            if not serves or (served and not is_smaller):
                break
        if serves and _size(current) < _size(best):
            best = current
    return best
