"""The interface of a selector: what is known so far in, contexts to train out."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, TypeVar

import numpy as np

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace.errors import InvalidInputError
from taskspace.performance.ledger import Ledger
from taskspace.performance.work import TRAINED
from taskspace.questions import Question
from taskspace.selection.candidates import Candidates, distances
from taskspace.selection.log import Proposal
from taskspace.spaces import Space


@dataclass(frozen=True)
class Known:
    """What the rows of a ledger say about a question.

    Args:
        question: what is asked.
        losses: loss of every evaluated source, dims `(source, target)`.
        sources: contexts of these sources, one row each.
        planned: contexts of all sources whose training is planned, done or not.
        pending: contexts of those that are being trained.
        judged: targets whose loss has a reference that counts. At the others `losses`
            are against the best policy seen, which is enough to choose what to train.
    """

    question: Question
    losses: Array
    sources: Array
    planned: Array
    pending: Array
    judged: Mask

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


class Looking:
    """What a ledger says about a question; a look computes new rows only.

    Args:
        ledger: what is trained and evaluated; it may grow between two looks.
        question: what is asked.
    """

    def __init__(self, ledger: Ledger, question: Question):
        self.ledger, self.question = ledger, question
        self._compares = question.rule.compares_with_best
        self._version, self._known = -1, None
        self._indices = np.empty(0, np.int64)
        self._reference: Array | None = None
        self._losses = np.empty((0, ledger.target_space.size))

    def now(self) -> Known:
        """Return what the ledger says now."""
        if self._known is None or self._version != self.ledger.version:
            self._known, self._version = self._look(), self.ledger.version
        return self._known

    def _look(self) -> Known:
        ledger = self.ledger
        judged = np.ones(ledger.target_space.size, bool)
        points = np.empty((0, len(ledger.target_space.names)))
        if ledger.n_sources:
            points = ledger.sources.points
        done = ledger.evaluated
        if done.any():
            self._update(np.flatnonzero(done))
            if self._compares:
                judged = ~np.isnan(ledger.best_known()[0])
        return Known(
            self.question,
            self._losses,
            points[done],
            points[[kind == TRAINED for kind in ledger.kinds]],
            points[ledger.pending],
            judged,
        )

    def _update(self, indices: Numbers) -> None:
        """Compute losses of new sources; of all if the reference changed."""
        reference = self.ledger.best_seen()[0] if self._compares else np.empty(0)
        before, self._reference = self._reference, reference
        if before is None or not np.array_equal(reference, before, equal_nan=True):
            self._indices, self._losses = indices[:0], self._losses[:0]
        is_new = ~np.isin(indices, self._indices)
        if is_new.any():
            table = self.ledger.table(against_seen=True, numbers=indices[is_new])
            losses = np.empty((len(indices), self._losses.shape[1]))
            losses[is_new] = self.question.losses(table).values
            losses[~is_new] = self._losses
            self._indices, self._losses = indices, losses


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
    def pick(self, ledger: Ledger, seen: Known, left: Mask) -> int | None:
        """Return the index of a candidate that is left, None if none is worth it.

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
            index = self.pick(ledger, seen, left) if left.any() else None
            if index is None:
                break
            row = self.candidates.points[index : index + 1]
            seen = replace(
                seen,
                planned=np.concatenate([seen.planned, row]),
                pending=np.concatenate([seen.pending, row]),
            )
        return seen.planned[before:]


__all__ = [
    "SELECTORS",
    "Candidates",
    "Known",
    "Looking",
    "OneByOne",
    "Selector",
    "distances",
    "selector",
]
