"""The interface of a selector: what is known so far in, contexts to train out.

Candidates are the contexts that may be trained. Their coordinates are those of a box in
which every axis has length one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, TypeVar

import numpy as np
from scipy.spatial import KDTree

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace.errors import InvalidInputError
from taskspace.performance.ledger import Ledger
from taskspace.performance.work import TRAINED
from taskspace.questions import Question
from taskspace.selection.log import Proposal
from taskspace.spaces import Reach, Space, log_axes_of


class Candidates:
    """Contexts that may be trained, and their coordinates in the unit box.

    Args:
        space: the contexts.

    Examples:
        >>> from taskspace import Grid
        >>> candidates = Candidates(Grid(k=(1.0, 100.0, 3, "log"), c=(0.0, 4.0, 2)))
        >>> candidates.unit[:3].round(3).tolist()
        [[0.0, 0.0], [0.0, 1.0], [0.5, 0.0]]
        >>> candidates.middle
        2
    """

    def __init__(self, space: Space):
        self.space, self.points = space, space.points
        is_log = np.array(log_axes_of(space))
        self._reach = Reach(self.points.min(0), self.points.max(0), is_log)
        self.unit: Array = self.units_of(self.points)
        self.varies = np.flatnonzero(np.ptp(self.unit, axis=0) > 0)

    def units_of(self, points: Array) -> Array:
        """Return coordinates of contexts; the candidates' box is [0, 1] on each axis.

        Args:
            points: one row per context.
        """
        return self._reach.share(points)

    def points_of(self, units: Array) -> Array:
        """Return the contexts at some coordinates.

        Args:
            units: one row per context.
        """
        return np.clip(self._reach.at(units), self._reach.low, self._reach.high)

    @property
    def middle(self) -> int:
        """The candidate nearest to the middle of the box, the first among equals."""
        middle = np.full((1, self.unit.shape[1]), 0.5)
        return int(distances(self.unit, middle)[:, 0].argmin())

    def nearest(self, units: Array) -> Numbers:
        """Return the candidate nearest to each coordinate, the first among equals.

        Args:
            units: one row per context.
        """
        away, _ = self._tree.query(units)
        # Equal up to rounding is equal: all axes have length one.
        near = self._tree.query_ball_point(units, away + 1e-12)
        return np.fromiter(map(min, near), np.int64, len(units))

    @cached_property
    def _tree(self) -> KDTree:
        return KDTree(self.unit)

    def left(self, planned: Array) -> Mask:
        """Return which candidates are not planned yet.

        Args:
            planned: contexts of the planned sources.
        """
        remaining = np.ones(len(self.points), bool)
        for indices in self._at(planned):
            remaining[indices] = False
        return remaining

    def index_of(self, points: Array) -> Numbers:
        """Return the first candidate at each context, −1 where there is none.

        Args:
            points: one row per context.
        """
        return np.array([[*at, -1][0] for at in self._at(points)], np.int64)

    def _at(self, points: Array) -> list[list[int]]:
        """Return the indices of the candidates at each context."""
        rows = np.ascontiguousarray(points) + 0.0
        return [self._places.get(row.tobytes(), []) for row in rows]

    @cached_property
    def _places(self) -> dict[bytes, list[int]]:
        """Indices of the candidates at each context; −0 is 0."""
        places: dict[bytes, list[int]] = {}
        for index, row in enumerate(np.ascontiguousarray(self.points) + 0.0):
            places.setdefault(row.tobytes(), []).append(index)
        return places


def distances(some: Array, others: Array) -> Array:
    """Return Euclidean distances, `(some, other)`.

    Args:
        some: one row per point.
        others: likewise.
    """
    square = (some**2).sum(1)[:, None] + (others**2).sum(1) - 2 * some @ others.T
    return np.sqrt(np.maximum(square, 0.0))


@dataclass(frozen=True)
class Known:
    """What the rows of a ledger say about a question.

    Args:
        ledger: what is trained and evaluated; it may have grown since.
        question: what is asked.
        version: of the ledger, when this was known.
        indices: of the sources that are evaluated.
        losses: loss of each of them, dims `(source, target)`.
        sources: contexts of these sources, one row each.
        planned: contexts of all sources whose training is planned, done or not.
        pending: contexts of those that are being trained.
        judged: targets whose loss has a reference that counts. At the others `losses`
            are against the best policy seen, which is enough to choose what to train.
        reference: what the losses are against, where it may change.
    """

    ledger: Ledger
    question: Question
    version: int
    indices: Numbers
    losses: Array
    sources: Array
    planned: Array
    pending: Array
    judged: Mask
    reference: Array

    @classmethod
    def of(
        cls, ledger: Ledger, question: Question, before: "Known | None" = None
    ) -> "Known":
        """Return what a ledger says about a question.

        Args:
            ledger: what is trained and evaluated.
            question: what is asked.
            before: what it said before. Losses are computed of new sources only,
                unless the reference has changed.
        """
        indices, compares = np.flatnonzero(ledger.evaluated), False
        n_targets = ledger.target_space.size
        points = np.empty((0, len(ledger.target_space.names)))
        if ledger.n_sources:
            points = ledger.sources.points
        judged, reference = np.ones(n_targets, bool), np.empty(0)
        losses = np.empty((len(indices), n_targets))
        if len(indices):
            compares = question.rule.compares_with_best
        if compares:
            reference = ledger.best_seen()[0]
            judged = ~np.isnan(ledger.best_known()[0])
        is_new = np.ones(len(indices), bool)
        if before is not None and np.array_equal(
            reference, before.reference, equal_nan=True
        ):
            is_new = ~np.isin(indices, before.indices)
            losses[~is_new] = before.losses
        if is_new.any():
            table = ledger.table(against_seen=True, numbers=indices[is_new])
            losses[is_new] = question.losses(table).values
        return cls(
            ledger,
            question,
            ledger.version,
            indices,
            losses,
            sources=points[indices],
            planned=points[[kind == TRAINED for kind in ledger.kinds]],
            pending=points[ledger.pending],
            judged=judged,
            reference=reference,
        )

    @property
    def targets(self) -> Array:
        """Contexts of the targets, one row each."""
        return self.ledger.target_space.points

    @cached_property
    def served(self) -> Mask:
        """Which source serves which target, by evaluation."""
        return np.asarray(self.losses <= self.question.epsilon)

    @cached_property
    def covered(self) -> Mask:
        """Targets that some evaluated source serves, judged or not."""
        return np.asarray(self.served.any(0))

    @cached_property
    def counted(self) -> Mask:
        """Targets that count as covered: served, by a reference that counts."""
        return self.covered & self.judged


class Selector(ABC):
    """A way to choose what to train next.

    A selection calls a selector in this order, once per round, until it stops:

    1. `look(ledger, question)`: what is known; the selection stops if all is covered.
    2. `may_give_up`, only where the last trainings covered nothing new and every
       uncovered target was tried at its own context (`tries_homes`).
    3. `propose(ledger, question, n)`, n the trainings that may begin now. Contexts
       that are planned already are left out.
    4. `propose_region`, only where `propose` gave none. If it gives None too, and
       nothing is under way, the selection stops.

    A failed training counts as planned. While trainings are under way, their contexts
    are in `Known.pending`. Nothing else is called, and nothing is called in another
    process.

    `propose` is a pure function of the ledger, the question, n, and what the selector
    was made with: a selection that was killed asks again and gets the same answer.
    `@selector("name")` registers a class, and an object of any subclass can be handed
    to `taskspace.select` as it is. `taskspace.testing.check_selector` holds what it
    must satisfy.

    Args:
        space: contexts that may be trained.
        seed: of random choices.
    """

    name: ClassVar[str]
    """What users call it; `@selector` sets it."""

    anywhere: bool = False
    """Whether it may propose any point of the candidates' box, not only candidates."""

    needs_regions: ClassVar[bool] = False
    """Whether it needs a trainer that makes one policy for a set of contexts."""

    tries_homes: ClassVar[bool] = True
    """Whether it tries each uncovered target at its own context before it gives up."""

    def __init__(self, space: Space, seed: int = 0):
        self.candidates, self.seed = Candidates(space), seed
        self._last: Known | None = None

    @abstractmethod
    def propose(self, ledger: Ledger, question: Question, n: int) -> Array:
        """Return contexts to train next.

        Args:
            ledger: what is trained and evaluated so far; planned sources without a
                row are being trained at the moment.
            question: what shall be covered.
            n: how many contexts, at most; they know of each other.

        Returns:
            One row per context; fewer than n, or none, if no candidate is left.
        """

    def propose_region(self, ledger: Ledger, question: Question) -> Proposal | None:
        """Return a training on a region, or with other steps; None for none.

        Args:
            ledger: what is trained and evaluated so far.
            question: what shall be covered.
        """
        del ledger, question
        return None

    def may_give_up(self, ledger: Ledger, question: Question) -> bool:
        """Return whether the selection may stop after trainings without success.

        Args:
            ledger: what is trained and evaluated so far.
            question: what shall be covered.
        """
        del ledger, question
        return True

    def look(self, ledger: Ledger, question: Question) -> Known:
        """Return what a ledger says about a question.

        Args:
            ledger: what is trained so far, at targets with the candidates' axes.
            question: what is asked.
        """
        names, axes = ledger.target_space.names, self.candidates.space.names
        if tuple(axes) != tuple(names):
            raise InvalidInputError(
                f"Candidates must have the axes of the targets, {tuple(names)}, but "
                f"have {tuple(axes)}."
            )
        last = self._last
        if last and (last.ledger is not ledger or last.question != question):
            last = None
        if last is None or last.version != ledger.version:
            last = self._last = Known.of(ledger, question, last)
        return last

    def rng(self, seen: Known) -> np.random.Generator:
        """Return randomness of the next proposal: of the seed and the sources planned.

        Args:
            seen: what is known.
        """
        return np.random.default_rng([self.seed, len(seen.planned)])

    def homes(self, targets: Array) -> Numbers:
        """Return the candidate nearest to each target, the first among equals.

        Args:
            targets: contexts, one row each.
        """
        return self.candidates.nearest(self.candidates.units_of(targets))


S = TypeVar("S", bound=type[Selector])

SELECTORS: dict[str, type[Selector]] = {}
"""All selectors by name."""


def selector(name: str) -> Callable[[S], S]:
    """Register a class of selectors under a name.

    Args:
        name: what users call it, in `select(..., selector=name)` and in TOML.
    """

    def register(cls: S) -> S:
        if SELECTORS.setdefault(name, cls) is not cls:
            known = SELECTORS[name].__name__
            raise InvalidInputError(
                f"The selector {name!r} is that of {known}. Choose another name."
            )
        cls.name = name
        return cls

    return register


class OneByOne(Selector):
    """A selector that picks one candidate at a time; each pick knows those before."""

    @abstractmethod
    def pick(self, seen: Known, left: Mask) -> int | None:
        """Return the index of a candidate that is left, None if none is worth it.

        Args:
            seen: what is known, with what was picked before among the planned.
            left: candidates that are not planned; at least one.
        """

    def propose(self, ledger: Ledger, question: Question, n: int) -> Array:
        """Return contexts to train next.

        Args:
            ledger: what is trained and evaluated so far.
            question: what shall be covered.
            n: how many contexts, at most.
        """
        seen = self.look(ledger, question)
        before = len(seen.planned)
        for _ in range(n):
            left = self.candidates.left(seen.planned)
            index = self.pick(seen, left) if left.any() else None
            if index is None:
                break
            row = self.candidates.points[index : index + 1]
            seen = replace(
                seen,
                planned=np.concatenate([seen.planned, row]),
                pending=np.concatenate([seen.pending, row]),
            )
        return seen.planned[before:]
