"""The interface of a selector: what is known so far in, contexts to train out."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.performance.ledger import Ledger
from taskspace.performance.work import TRAINED
from taskspace.questions import Question
from taskspace.selection.candidates import Array, Candidates, distances
from taskspace.spaces import Space

__all__ = [
    "SELECTORS",
    "Array",
    "Candidates",
    "Known",
    "Looking",
    "OneByOne",
    "RegionPlan",
    "Selector",
    "distances",
    "selector",
]


@dataclass(frozen=True)
class Known:
    """What the rows of a ledger say about a question.

    Args:
        question: what is asked.
        losses: loss of every evaluated source, dims `(source, target)`.
        sources: contexts of these sources, one row each.
        planned: contexts of all sources whose training is planned, done or not.
        pending: contexts of those that are being trained.
        trained: which of the evaluated sources were trained, not made otherwise.
        judged: targets whose loss has a reference that counts. At the others `losses`
            are against the best policy seen, which is enough to choose what to train.
    """

    question: Question
    losses: Array
    sources: Array
    planned: Array
    pending: Array
    trained: NDArray[np.bool_]
    judged: NDArray[np.bool_]

    @cached_property
    def served(self) -> NDArray[np.bool_]:
        """Which source serves which target, by evaluation."""
        return np.asarray(self.losses <= self.question.epsilon)

    @cached_property
    def covered(self) -> NDArray[np.bool_]:
        """Targets that some evaluated source serves, judged or not."""
        return np.asarray(self.served.any(0))

    @cached_property
    def counted(self) -> NDArray[np.bool_]:
        """Targets that count as covered: served, by a reference that counts."""
        return self.covered & self.judged


class Looking:
    """What a ledger says about a question; a look computes new rows only.

    Args:
        ledger: what is trained and evaluated; it may grow between two looks.
        question: what is asked.
    """

    def __init__(self, ledger: Ledger, question: Question):
        self.ledger, self.question = ledger, question
        self._version, self._seen = -1, None
        self._numbers = np.empty(0, np.int64)
        self._reference: Array | None = None
        self._losses = np.empty((0, ledger.target_space.size))

    def now(self) -> Known:
        """Return what the ledger says now.

        All losses are computed again if the reference changed.
        """
        if self._seen is None or self._version != self.ledger.version:
            self._seen, self._version = self._look(), self.ledger.version
        return self._seen

    def _look(self) -> Known:
        ledger, question = self.ledger, self.question
        judged = np.ones(ledger.target_space.size, bool)
        if not ledger.n_sources:
            empty = np.empty((0, len(ledger.target_space.names)))
            none = np.empty(0, bool)
            return Known(question, self._losses, empty, empty, empty, none, judged)
        points, done = ledger.sources.points, ledger.evaluated
        if done.any():
            self._update(np.flatnonzero(done))
            if question.rule.compares_with_best:
                judged = ~np.isnan(ledger.best_known()[0])
        trained = np.array([kind == TRAINED for kind in ledger.kinds])
        return Known(
            question,
            self._losses,
            points[done],
            points[trained],
            points[ledger.pending],
            trained[done],
            judged,
        )

    def _update(self, numbers: NDArray[np.int64]) -> None:
        """Compute the losses of sources that are evaluated and were not before."""
        reference = None
        if self.question.rule.compares_with_best:
            reference = self.ledger.best_seen()[0]
            before = self._reference
            if before is None or not np.array_equal(reference, before, equal_nan=True):
                self._numbers, self._losses = numbers[:0], self._losses[:0]
        new = np.setdiff1d(numbers, self._numbers)
        if len(new):
            table = self.ledger.table(against_seen=True, numbers=new)
            merged = np.empty((len(numbers), self._losses.shape[1]))
            is_new = np.isin(numbers, new)
            merged[is_new] = self.question.losses(table).values
            merged[~is_new] = self._losses
            self._losses = merged
        self._numbers, self._reference = numbers, reference


@dataclass(frozen=True)
class RegionPlan:
    """A training of one family for a set of targets.

    Args:
        targets: ascending numbers of the targets; with one or none it is trained at
            `context` alone.
        context: the one of them nearest to their middle, which stands for them.
        seed: of the training.
        steps: most environment steps of each policy; those of the trainer if None.
        start: number of the source whose best policy it begins from, None for nothing.
    """

    targets: NDArray[np.int64]
    context: Array
    seed: int
    steps: int | None = None
    start: int | None = None


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
        self._looking: Looking | None = None

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

    def propose_region(self, ledger: Ledger, question: Question) -> RegionPlan | None:
        """Return a set of targets to train one family for, None for none.

        Args:
            ledger: what is trained and evaluated so far.
            question: what shall be covered.
        """
        del ledger, question
        return None

    def may_give_up(self, ledger: Ledger, question: Question) -> bool:
        """Return whether trainings in vain are a reason to stop.

        Args:
            ledger: what is trained and evaluated so far.
            question: what shall be covered.
        """
        del ledger, question
        return True

    def look(self, ledger: Ledger, question: Question) -> Known:
        """Return what a ledger says, after a check that it has the candidates' axes.

        Args:
            ledger: what is trained so far.
            question: what is asked.
        """
        names, axes = ledger.target_space.names, self.candidates.space.names
        if tuple(axes) != tuple(names):
            raise InvalidInputError(
                f"Candidates must have the axes of the targets, {tuple(names)}, but "
                f"have {tuple(axes)}."
            )
        last = self._looking
        if last is None or last.ledger is not ledger or last.question != question:
            last = self._looking = Looking(ledger, question)
        return last.now()

    def rng(self, seen: Known) -> np.random.Generator:
        """Return randomness of the next proposal: of the seed and the sources planned.

        Args:
            seen: what is known.
        """
        return np.random.default_rng([self.seed, len(seen.planned)])

    def homes(self, targets: Array) -> NDArray[np.int64]:
        """Return the candidate nearest to each target, the first among equals.

        Args:
            targets: contexts, one row each.
        """
        return self.candidates.nearest(self.candidates.units_of(targets))

    def wanted(
        self, seen: Known, targets: Array
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return targets to care for, and the candidate nearest to each that is left.

        An uncovered target whose own candidate was tried before is cared for only
        when there is no other.

        Args:
            seen: what is known.
            targets: contexts of all targets.

        Returns:
            Numbers of targets, and numbers of candidates; none if none is left.
        """
        left = self.candidates.left(seen.planned)
        uncovered = np.flatnonzero(~seen.covered)
        none = np.empty(0, np.int64)
        if not left.any() or not len(uncovered):
            return none, none
        homes = self.homes(targets[uncovered])
        fresh = left[homes]
        if fresh.any():
            return uncovered[fresh], homes[fresh]
        numbers = np.flatnonzero(left)
        away = distances(
            self.candidates.unit[numbers], self.candidates.units_of(targets[uncovered])
        )
        return uncovered, numbers[away.argmin(0)]


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
    """A selector that picks one candidate at a time, knowing those before."""

    @abstractmethod
    def pick(self, ledger: Ledger, seen: Known, left: NDArray[np.bool_]) -> int | None:
        """Return the number of a candidate that is left, None if none is worth it.

        Args:
            ledger: what is trained so far.
            seen: what it says, with what was picked before among the planned.
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
            place = self.pick(ledger, seen, left) if left.any() else None
            if place is None:
                break
            row = self.candidates.points[place : place + 1]
            seen = replace(
                seen,
                planned=np.concatenate([seen.planned, row]),
                pending=np.concatenate([seen.pending, row]),
            )
        return seen.planned[before:]
