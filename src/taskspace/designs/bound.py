r"""How many gains any design needs: a bound over all gains, not over candidates.

The space of gains is cut into boxes, each with the contexts that some gain of it may
serve (`gain_boxes`); gains outside of the first box serve nothing (`bodies`). Any n
gains that serve all contexts lie in at most n boxes, so no fewer gains do than boxes
are needed. Boxes that a small cover uses are cut in two, with those around them. To
find all of these at once, a box that will be cut counts for what its middle serves.

Where gains have many entries, contexts are counted of which no two can have a gain in
common, because their bodies do not meet.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace._util.clock import Clock
from taskspace.certificates.boxes.search import counted_cover
from taskspace.cover import Cover, greedy_cover, local_cover
from taskspace.designs.gain_boxes import GainBoxes
from taskspace.designs.gain_sets import Bodies, make_bodies
from taskspace.designs.tasks import Tasks, linear_system, make_tasks
from taskspace.progress import Progress
from taskspace.questions import Question
from taskspace.sets import TargetSets, pack
from taskspace.sets.erosion import Windows, windows_of
from taskspace.spaces import Grid, Points, Space
from taskspace.systems.base import System
from taskspace.trainers.minimax import gain_mask

MOST_ENTRIES = 4
"""Of a gain, up to which boxes are tried; beyond, bodies alone."""
MOST_CONTEXTS = 1600
AROUND = 1.6
"""Boxes so near to one that is cut, in its own sides, are cut too."""
LOCAL_STEPS = 2000
MOST_BOXES = 60_000
LEAST_SECONDS = 2.0
"""For the last cover, also when time is up: it is what proves the bound."""
SMALLEST = 1e-5
"""Boxes are cut no smaller, in units of what serves a context."""
# At most so many contexts have their bodies compared pair by pair.
MOST_PACKED = 400


@dataclass(frozen=True)
class GainBound:
    """A lower bound on the number of gains, whatever they are.

    Args:
        value: no fewer gains of this structure serve the contexts.
        argument: `"boxes"` (of gains), `"packing"` (of contexts), or `"none"`.
        statement: what is proven, or why nothing is, as a sentence.
        n_contexts: at how many contexts.
        n_boxes: of gains, at the end.
        seconds: spent.
        smaller: fewer gains than the goal that serve, where the search met some.
    """

    value: int
    argument: str
    statement: str
    n_contexts: int
    n_boxes: int
    seconds: float
    smaller: Array | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return {name: x for name, x in asdict(self).items() if name != "smaller"}


def bound_all_gains(
    system: System,
    space: Space,
    question: Question,
    *,
    mask: ArrayLike | None = None,
    goal: int | None = None,
    time_limit: float = 60,
    max_boxes: int = MOST_BOXES,
    progress: Progress | None = None,
) -> GainBound:
    """Bound the number of static gains that serve a space, over all gains.

    Args:
        system: a linear family with the infinite horizon.
        space: the contexts; of more than 1,600 as many are taken, evenly. What serves
            all contexts serves these.
        question: what it means to serve: regret, ratio or cost.
        mask: which entries of a gain are free, shape `(n_inputs, n_states)`; the others
            are zero. All where None.
        goal: a number that is known to be enough, where the search ends.
        time_limit: processor seconds; the bound grows until then.
        max_boxes: boxes of gains at most.
        progress: told the bound and the goal.

    Example:
        >>> import taskspace as ts
        >>> space = ts.Grid(b=(0.1, 1.0, 8))
        >>> question = ts.Question("ratio", epsilon=0.5)
        >>> bound_all_gains(ts.systems.ScalarLqr(), space, question, goal=2).value
        2
    """
    clock = Clock(time_limit)
    family = linear_system(system)
    free = gain_mask(family, mask)
    some = fewer_contexts(space, MOST_CONTEXTS)
    tasks = make_tasks(family, family.contexts(some), question)
    bodies = make_bodies(tasks)
    known = np.flatnonzero(np.isfinite(bodies.radius))
    if not len(known):
        why = f"Nothing is proven over all gains: {_why_unbounded(tasks)}."
        return GainBound(1, "none", why, 0, 0, clock.seconds)
    tasks, bodies = tasks[known], bodies[known]
    windows = None
    if question.error is not None:
        nodes = Points(some.names, some.points[known])
        windows = windows_of(question.error, nodes)
    search = _Search(tasks, bodies, np.argwhere(free), windows)
    if search.n_entries <= MOST_ENTRIES:
        value = search.run(clock, goal, progress, max_boxes)
        argument, n_boxes = "boxes", len(search.boxes)
    else:
        value = _packing(bodies)
        argument, n_boxes = "packing", 0
    words = _statement(value, argument, len(known), free, question, tasks.assumption)
    return GainBound(
        value, argument, words, len(known), n_boxes, clock.seconds, search.smaller
    )


def _why_unbounded(tasks: Tasks) -> str:
    """Return why no context has a bounded set of gains that serve it."""
    if np.linalg.eigvalsh(tasks.sigma).min() <= 0:
        return "the second moment of the initial state is singular"
    if np.linalg.eigvalsh(tasks.R).min(1).max() <= 0:
        return "the weight R is singular at every context"
    loops = np.linalg.eigvals(tasks.A - tasks.B @ tasks.optimal)
    size = loops.real.max(1) if tasks.continuous else np.abs(loops).max(1) - 1
    if not (size < 0).any():
        return "the loop with the optimal gain is unstable at every context"
    if not np.isfinite(tasks.limit).any():
        return "no optimal cost is bounded from above"
    return "rounding leaves the set of gains that serve a context open everywhere"


def fewer_contexts(space: Space, n: int) -> Space:
    """Return at most n contexts of a space, evenly, with the ends of its axes.

    Args:
        space: contexts.
        n: how many, at most.
    """
    if space.size <= n:
        return space
    if isinstance(space, Grid):
        shape = np.array(space.shape)
        while np.prod(shape) > n:
            shape[shape.argmax()] -= 1
        axes = {
            axis.name: axis.values[np.linspace(0, axis.n - 1, k).round().astype(int)]
            for axis, k in zip(space.axes, shape, strict=True)
        }
        return Grid(**{name: values.tolist() for name, values in axes.items()})
    rows = np.linspace(0, space.size - 1, n).round().astype(int)
    return Points(space.names, space.points[rows])


class _Search:
    """Boxes of gains, cut where a small cover of the contexts uses them.

    Args:
        tasks: plants and limits, with bounded bodies.
        bodies: where gains that serve are.
        where: input and state of each free entry.
        windows: the contexts that each may stand for, where they are measured with an
            error. A gain that serves a measured context serves its whole window, so
            what a box may serve is eroded.
    """

    def __init__(
        self, tasks: Tasks, bodies: Bodies, where: Numbers, windows: Windows | None
    ):
        self.tasks, self.bodies, self.windows = tasks, bodies, windows
        self.where = np.ascontiguousarray(where)
        low, high = bodies.ranges()
        at = self.where[:, 0], self.where[:, 1]
        self.low = low[:, *at].min(0)
        self.high = high[:, *at].max(0)
        # Units of the entries: how far the bodies reach from their middles.
        self.scale = np.median((high - low)[:, *at], axis=0)
        every = np.ones((1, len(tasks)), bool)
        self.boxes = GainBoxes(self.low[None], self.high[None], every, ~every)
        self.smaller: Array | None = None

    @property
    def n_entries(self) -> int:
        """How many entries of a gain are free."""
        return len(self.where)

    def run(
        self,
        clock: Clock,
        goal: int | None,
        progress: Progress | None,
        max_boxes: int = MOST_BOXES,
    ) -> int:
        """Cut boxes until the bound is the goal or time is up; return the bound."""
        enough = goal
        while clock.left > 0 and len(self.boxes) <= max_boxes:
            if goal is None:
                enough = self._enough()
            marked = self._marked(enough, clock)
            small = (self.boxes.high - self.boxes.low <= SMALLEST * self.scale).all(1)
            marked &= ~small
            if self.smaller is not None and goal is not None:
                break
            if not marked.any():
                break
            self._cut(marked)
            if progress is not None:
                top = len(self.tasks) if enough is None else enough
                progress("bound", 0, top, f"{len(self.boxes):,} boxes of gains")
        last = Clock(max(LEAST_SECONDS, clock.left))
        cover = counted_cover(pack(self._eroded(self.boxes.may)), last)
        bound = int(cover.lower_bound)
        return max(1, bound if enough is None else min(bound, enough))

    def _enough(self) -> int | None:
        """Return how many middles of boxes serve all contexts, None if they do not."""
        cover = greedy_cover(pack(self._eroded(self.boxes.serves)))
        return cover.size if cover.is_full else None

    def _marked(self, enough: int | None, clock: Clock) -> Mask:
        """Return the boxes to cut: those of small covers, and those around them."""
        boxes, sets = self.boxes, self._eroded(self.boxes.may)
        marked = np.zeros(len(boxes), bool)
        sides = boxes.high - boxes.low
        while clock.left > 0:
            # A proof that there is none counts only for sets that are never too small.
            sources = _small_cover(sets, enough, clock, thorough=not marked.any())
            if sources is None:
                break
            used = sources[~marked[sources]]
            if not len(used):
                # The middles of boxes serve all contexts themselves.
                self.smaller = self._gains(boxes.middle[sources])
                break
            new = np.zeros(len(boxes), bool)
            for box in used:
                away = np.abs(boxes.middle - boxes.middle[box])
                new |= (away <= AROUND * sides[box]).all(1)
            new &= ~marked
            marked |= new
            # From here on they count for no more than what they surely serve.
            sets[new] = self._eroded(boxes.serves[new])
        return marked

    def _eroded(self, sets: Mask) -> Mask:
        """Return the measured contexts all of whose window is in each set."""
        return sets.copy() if self.windows is None else self.windows.erode(sets)

    def _gains(self, entries: Array) -> Array:
        gains = np.zeros((len(entries), *self.bodies.centre.shape[1:]))
        gains[:, self.where[:, 0], self.where[:, 1]] = entries
        return gains

    def _cut(self, marked: Mask) -> None:
        """Replace boxes by their halves, with what those may serve."""
        halves = self.boxes[marked].halves(self.scale)
        halves.exclude(self.tasks, self.bodies, self.where)
        parts = [self.boxes[~marked], halves[np.asarray(halves.may.any(1))]]
        self.boxes = GainBoxes.concatenate(parts)


def _small_cover(
    sets: Mask, enough: int | None, clock: Clock, *, thorough: bool
) -> Numbers | None:
    """Return a cover of fewer than `enough` sets, None where none is found."""
    packed = pack(sets)
    if not packed.coverable.all():
        return None
    for cover in _covers(packed, clock, thorough):
        if enough is None or cover.size < enough:
            return cover.sources
    return None


def _covers(sets: TargetSets, clock: Clock, thorough: bool) -> Iterator[Cover]:
    """Yield covers, each by a method that takes longer and finds smaller ones."""
    yield greedy_cover(sets)
    yield local_cover(sets, max_steps=LOCAL_STEPS, time_limit=clock.left)
    if thorough:
        yield counted_cover(sets, clock)


def _packing(bodies: Bodies) -> int:
    """Return how many contexts were found of which no two have a gain in common."""
    n = len(bodies)
    some = np.unique(np.linspace(0, n - 1, min(n, MOST_PACKED)).round().astype(int))
    bodies = bodies[some]
    apart = np.array([bodies.apart_from(i) for i in range(len(bodies))])
    apart |= apart.T
    chosen: list[int] = []
    free = np.ones(len(bodies), bool)
    while free.any():
        # The context with the most others still apart from it.
        counts = np.where(free, (apart & free).sum(1), -1)
        chosen.append(int(counts.argmax()))
        free &= apart[chosen[-1]]
    return len(chosen)


def _statement(
    value: int,
    argument: str,
    n_contexts: int,
    mask: Mask,
    question: Question,
    assumption: str,
) -> str:
    """Return what the bound says."""
    n_free = int(mask.sum())
    entries = "one free entry" if n_free == 1 else f"{n_free} free entries"
    kind = (
        f"static gains with {entries}"
        if mask.all()
        else (f"static gains of this structure ({entries} of {mask.size})")
    )
    how = {
        "boxes": "boxes in the space of gains, with rigorous rounding",
        "packing": "contexts of which no two have a gain in common",
    }[argument]
    if value == 1:
        return f"Nothing is proven of how many {kind} are needed."
    fewer = "No single gain serves" if value == 2 else f"No {value - 1} gains serve"
    tail = f", {assumption}" if assumption else ""
    if question.error is not None:
        tail = f", where contexts are measured with {question.error.words}{tail}"
    return (
        f"{fewer} these {n_contexts:,} contexts, whatever they are: proven over all "
        f"{kind}, by {how}, for {question.rule.sentence(question.epsilon)}{tail}."
    )
