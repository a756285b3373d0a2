"""What a schedule loses on its cells, at targets.

A segment of an axis lies between two breakpoints, or beyond the first or the last one,
where the numbers stay as they are. A cell is one segment per axis. Which targets it
serves does not depend on the other breakpoints, so the losses of cells decide for every
schedule.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace.policies import Policy
from taskspace.progress import Progress
from taskspace.questions import Question
from taskspace.schedules.parameters import Structure
from taskspace.schedules.table import Scale, interpolate, share
from taskspace.systems.base import System

# Cells beyond the limit are set aside after so many targets.
COMPRESS_EVERY = 64


@dataclass(frozen=True, eq=False)
class Segments:
    """All segments between the candidates of one axis, and what they hold.

    They come in this order: below each candidate, above each candidate, then those
    between candidates i < j, by i and j.

    Args:
        name: of the axis.
        candidates: where breakpoints may be, ascending.
        measured: coordinates at which numbers are looked up.
        true: the coordinates of the plant there; the same unless contexts are measured
            with an error.
        scale: how the axis interpolates.
        include: candidates that must be breakpoints.
    """

    name: str
    candidates: Array
    measured: Array
    true: Array
    scale: Scale
    include: tuple[int, ...] = ()

    @property
    def n(self) -> int:
        """Number of candidates."""
        return len(self.candidates)

    @cached_property
    def ends(self) -> tuple[Numbers, Numbers]:
        """Numbers of the candidates at both ends, the same one beyond the ends."""
        one = np.arange(self.n)
        low, high = np.triu_indices(self.n, 1)
        return np.concatenate([one, one, low]), np.concatenate([one, one, high])

    def below(self, i: int | Numbers) -> Numbers:
        """Return the segment below candidate i.

        Args:
            i: number of a candidate, or several.
        """
        return np.asarray(i, np.int64)

    def above(self, i: int | Numbers) -> Numbers:
        """Return the segment above candidate i.

        Args:
            i: number of a candidate, or several.
        """
        return self.n + np.asarray(i, np.int64)

    def between(self, i: int | Numbers, j: int | Numbers) -> Numbers:
        """Return the segment between candidates i < j.

        Args:
            i: number of a candidate, or several.
            j: likewise, of the one above it.
        """
        i, j = np.asarray(i, np.int64), np.asarray(j, np.int64)
        return 2 * self.n + i * (2 * self.n - i - 1) // 2 + j - i - 1

    def path(self, breakpoints: Sequence[int]) -> Numbers:
        """Return the segments of some breakpoints, from below to above.

        Args:
            breakpoints: numbers of candidates, ascending.
        """
        chosen = np.asarray(breakpoints, np.int64)
        first, last = self.below(chosen[:1]), self.above(chosen[-1:])
        return np.concatenate([first, self.between(chosen[:-1], chosen[1:]), last])

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

    @cached_property
    def allowed(self) -> Mask:
        """Which segments pass over no candidate that must be a breakpoint."""
        low, high = self.ends
        allowed = np.ones(len(low), np.bool_)
        kinds = np.repeat([0, 1, 2], [self.n, self.n, len(low) - 2 * self.n])
        for i in self.include:
            allowed &= ~((kinds == 0) & (low > i))
            allowed &= ~((kinds == 1) & (low < i))
            allowed &= ~((kinds == 2) & (low < i) & (high > i))
        return allowed


class CellLosses:
    """The largest loss of each cell at the targets that it holds.

    Args:
        system: the tasks.
        question: what is asked.
        structure: makes policies.
        numbers: of the candidates, shape `(*candidates, number)`; NaN where a source
            failed.
        axes: the segments of each axis.
        contexts: full context rows of the targets, one per combination of `true`
            coordinates, the last axis fastest.
        best: best score at each of them, NaN where there is none.
        progress: told how far it is.
    """

    def __init__(
        self,
        system: System,
        question: Question,
        structure: Structure,
        numbers: Array,
        axes: Sequence[Segments],
        contexts: Array,
        best: Array,
        progress: Progress,
    ):
        self.system, self.question, self.structure = system, question, structure
        self.numbers, self.axes = numbers, list(axes)
        self.contexts, self.best, self.progress = contexts, best, progress
        self.shape = tuple(len(axis.measured) for axis in axes)
        # Targets from far apart come first: one bad target is enough.
        self._order = np.random.default_rng(0).permutation(len(contexts))
        self._known: dict[tuple[int, ...], tuple[float, int]] = {}

    @property
    def bound_of(self) -> str:
        """What a proof over these cells is about: candidates and targets."""
        candidates = " × ".join(str(axis.n) for axis in self.axes)
        return f"{candidates} candidates on {' × '.join(map(str, self.shape))} targets"

    def worst(self, cells: Numbers, limit: float) -> tuple[Array, Numbers]:
        """Return the largest loss of each cell, and the target where it is.

        Args:
            cells: one row of segments per cell.
            limit: a loss above this is infinite: its cell is not looked at further.

        Returns:
            Losses, −inf for cells without a target, and numbers of targets, −1 there.
        """
        cells = np.asarray(cells, np.int64).reshape(-1, len(self.axes))
        worst, where = np.full(len(cells), -np.inf), np.full(len(cells), -1)
        ends = [
            [axis.ends[side][cells[:, a]] for side in (0, 1)]
            for a, axis in enumerate(self.axes)
        ]
        worst[~self._has_numbers(ends)] = np.inf
        alive = np.flatnonzero(worst <= limit)
        coordinates = np.array(np.unravel_index(self._order, self.shape)).T
        for step, (target, places) in enumerate(
            zip(self._order.tolist(), coordinates.tolist(), strict=True)
        ):
            inside = np.ones(len(alive), np.bool_)
            for a, (axis, place) in enumerate(zip(self.axes, places, strict=True)):
                inside &= axis.holds[cells[alive, a], place]
            asked = alive[inside]
            if len(asked):
                losses = self._losses(ends, asked, places, target)
                more = losses > worst[asked]
                worst[asked[more]], where[asked[more]] = losses[more], target
            if step % COMPRESS_EVERY == 0:
                alive = alive[worst[alive] <= limit]
                self.progress("cells", step, len(self._order))
        self.progress("cells", len(self._order), len(self._order))
        worst[worst > limit] = np.inf
        return worst, where

    def cached(self, cells: Numbers, limit: float) -> Array:
        """Return `worst`, and remember it for this limit and smaller ones.

        Args:
            cells: one row of segments per cell.
            limit: as in `worst`.
        """
        keys = list(map(tuple, np.asarray(cells).tolist()))
        new = list(dict.fromkeys(key for key in keys if key not in self._known))
        if new:
            losses, where = self.worst(np.array(new), limit)
            found = zip(losses.tolist(), where.tolist(), strict=True)
            self._known.update(zip(new, found, strict=True))
        return np.array([self._known[key][0] for key in keys])

    def _has_numbers(self, ends: list[list[Numbers]]) -> Mask:
        """Whether no vertex of a cell is a source that failed."""
        there = np.asarray(np.isfinite(self.numbers).all(-1))
        has = np.ones(len(ends[0][0]), np.bool_)
        for sides in np.ndindex((2,) * len(ends)):
            has &= there[tuple(pair[s] for pair, s in zip(ends, sides, strict=True))]
        return has

    def _losses(
        self,
        ends: list[list[Numbers]],
        cells: Numbers,
        places: Sequence[int],
        target: int,
    ) -> Array:
        """Return the loss of some cells at one target that each of them holds."""
        at = []
        for axis, (low, high), place in zip(self.axes, ends, places, strict=True):
            i, j = low[cells], high[cells]
            below, above = axis.candidates[i], axis.candidates[j]
            x = np.full(len(cells), axis.measured[place])
            at.append((i, j, share(np.clip(x, below, above), below, above, axis.scale)))
        return self.losses_of(interpolate(self.numbers, at), target)

    def losses_of(self, numbers: Array, target: int) -> Array:
        """Return the losses of policies at one target, by all demands.

        Args:
            numbers: of each policy.
            target: number of the target.
        """
        policies = self.structure.policies(numbers[:, None])
        context = self.contexts[target : target + 1]
        return _losses_by_demands(
            self.question,
            lambda measure: self.system.scores(measure, policies, context)[:, 0, 0],
            lambda: self.best[target : target + 1],
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
    total: Array | None = None
    for demand in question.demands:
        reference = demand.rule.against(best=best, home=lambda: np.zeros(1))
        losses = demand.rule.loss(scores(demand.measure), reference)
        if total is None:
            total = losses
        else:
            total = np.where(losses <= demand.epsilon, total, np.inf)
    assert total is not None
    return total
