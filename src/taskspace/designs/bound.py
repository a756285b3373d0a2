r"""How many gains any design needs: a bound over all gains, not over candidates.

The space of gains is cut into boxes, each with the contexts that some gain of it may
serve (`gain_boxes`); gains outside of the first box serve nothing (`gain_sets`). Any n
gains that serve all contexts lie in at most n boxes, so no fewer gains do than boxes
are needed. Boxes that a small cover uses are cut in two, with those around them. To
find all of these at once, a box that will be cut counts for what its middle serves.

Where gains have many entries, contexts are counted of which no two can have a gain in
common, because their ellipsoids do not meet.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace._util.clock import Clock
from taskspace.certificates.boxes.search import counted_cover
from taskspace.cover import greedy_cover, local_cover
from taskspace.designs.gain_boxes import GainBoxes
from taskspace.designs.gain_sets import GainSets, make_gain_sets
from taskspace.designs.problem import (
    MOST_CONTEXTS,
    check_question,
    fewer_contexts,
    linear_system,
)
from taskspace.progress import Progress
from taskspace.questions import Question
from taskspace.sets import pack
from taskspace.spaces import Space
from taskspace.systems.base import System
from taskspace.trainers.minimax import gain_mask

# Of a gain, up to which boxes are tried; beyond, ellipsoids alone.
MOST_ENTRIES = 4
# Boxes so near to one that is cut, in its own sides, are cut too.
AROUND = 1.6
LOCAL_STEPS = 2000
MOST_BOXES = 60_000
# For the last cover, also when time is up: it is what proves the bound.
LEAST_SECONDS = 2.0
# Boxes are cut no smaller, in units of what serves a context.
SMALLEST = 1e-5
# At most so many contexts have their ellipsoids compared pair by pair.
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
    check_question(question)
    free = gain_mask(family, mask)
    some = fewer_contexts(space, MOST_CONTEXTS)
    sets = make_gain_sets(family, family.contexts(some), question)
    known = np.flatnonzero(np.isfinite(sets.radius))
    if not len(known):
        why = (
            "Nothing is proven over all gains: at no context is the set of gains that "
            "serve it bounded. The initial covariance and R must be definite there, "
            "and the loop with the optimal gain stable beyond rounding."
        )
        return GainBound(1, "none", why, 0, 0, clock.seconds)
    sets, where = sets[known], np.argwhere(free)
    if len(where) <= MOST_ENTRIES:
        search = _Search(sets, where)
        value = search.run(clock, goal, progress, max_boxes)
        argument, n_boxes, smaller = "boxes", len(search.boxes), search.smaller
    else:
        value, argument, n_boxes, smaller = _packing(sets), "packing", 0, None
    words = _statement(value, argument, len(known), free, question, sets.assumption)
    return GainBound(
        value, argument, words, len(known), n_boxes, clock.seconds, smaller
    )


class _Search:
    """Boxes of gains, cut where a small cover of the contexts uses them.

    Args:
        sets: plants, limits, and where gains that serve are.
        where: input and state of each free entry.
    """

    def __init__(self, sets: GainSets, where: Numbers):
        self.sets, self.where = sets, np.ascontiguousarray(where)
        low, high = sets.ranges()
        at = self.where[:, 0], self.where[:, 1]
        # Units of the entries: how far the ellipsoids reach from their middles.
        self.scale = np.median((high - low)[:, *at], axis=0)
        every = np.ones((1, len(sets)), bool)
        ends = low[:, *at].min(0)[None], high[:, *at].max(0)[None]
        self.boxes = GainBoxes(*ends, every, ~every)
        self.smaller: Array | None = None

    def run(
        self,
        clock: Clock,
        goal: int | None,
        progress: Progress | None,
        max_boxes: int,
    ) -> int:
        """Cut boxes until the bound is the goal or time is up; return the bound."""
        while clock.left > 0 and len(self.boxes) <= max_boxes:
            marked = self._marked(goal, clock)
            small = (self.boxes.high - self.boxes.low <= SMALLEST * self.scale).all(1)
            marked &= ~small
            if not marked.any() or (self.smaller is not None and goal is not None):
                break
            self._cut(marked)
            if progress is not None:
                top = len(self.sets) if goal is None else goal
                progress("bound", 0, top, f"{len(self.boxes):,} boxes of gains")
        last = Clock(max(LEAST_SECONDS, clock.left))
        cover = counted_cover(pack(self.boxes.may), last)
        bound = int(cover.lower_bound)
        return max(1, bound if goal is None else min(bound, goal))

    def _marked(self, enough: int | None, clock: Clock) -> Mask:
        """Return the boxes to cut: those of small covers, and those around them."""
        boxes, sets = self.boxes, self.boxes.may.copy()
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
            sets[new] = boxes.serves[new]
        return marked

    def _gains(self, entries: Array) -> Array:
        gains = np.zeros((len(entries), *self.sets.optimal.shape[1:]))
        gains[:, self.where[:, 0], self.where[:, 1]] = entries
        return gains

    def _cut(self, marked: Mask) -> None:
        """Replace boxes by their halves, with what those may serve."""
        halves = self.boxes[marked].halves(self.scale)
        halves.exclude(self.sets, self.where)
        parts = [self.boxes[~marked], halves[np.asarray(halves.may.any(1))]]
        self.boxes = GainBoxes.concatenate(parts)


def _small_cover(
    sets: Mask, enough: int | None, clock: Clock, *, thorough: bool
) -> Numbers | None:
    """Return a cover of fewer than `enough` sets, None where none is found.

    By methods that take longer and find smaller ones, one after the other.
    """
    packed = pack(sets)
    if not packed.coverable.all():
        return None
    methods = [
        lambda: greedy_cover(packed),
        lambda: local_cover(packed, max_steps=LOCAL_STEPS, time_limit=clock.left),
    ]
    if thorough:
        methods.append(lambda: counted_cover(packed, clock))
    for method in methods:
        cover = method()
        if enough is None or cover.size < enough:
            return cover.sources
    return None


def _packing(sets: GainSets) -> int:
    """Return how many contexts were found of which no two have a gain in common."""
    n = len(sets)
    some = np.unique(np.linspace(0, n - 1, min(n, MOST_PACKED)).round().astype(int))
    sets = sets[some]
    apart = np.array([sets.apart_from(i) for i in range(len(sets))])
    apart |= apart.T
    n_chosen, free = 0, np.ones(len(sets), bool)
    while free.any():
        # The context with the most others still apart from it.
        counts = np.where(free, (apart & free).sum(1), -1)
        free &= apart[counts.argmax()]
        n_chosen += 1
    return n_chosen


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
    kind = f"static gains with {entries}"
    if not mask.all():
        kind = f"static gains of this structure ({entries} of {mask.size})"
    if value == 1:
        return f"Nothing is proven of how many {kind} are needed."
    how = {
        "boxes": "boxes in the space of gains, with rigorous rounding",
        "packing": "contexts of which no two have a gain in common",
    }[argument]
    fewer = "No single gain serves" if value == 2 else f"No {value - 1} gains serve"
    tail = f", {assumption}" if assumption else ""
    return (
        f"{fewer} these {n_contexts:,} contexts, whatever they are: proven over all "
        f"{kind}, by {how}, for {question.rule.sentence(question.epsilon)}{tail}."
    )
