"""The ledger: what is asked for, beside a store of what is there.

It is the only thing that trains and evaluates. `ask` names the work that is left,
anybody does it (`Task.do` is a pure function of the task and the work, in any process),
`tell` writes it down. Whatever is written is a valid table of the sources known so
far: `evaluate` is "ask all, tell all" in memory, a run is the same in a directory, and
a selector asks for the sources that it wants.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError, TaskspaceError
from taskspace.performance.store.base import TRAINED, MemoryStore, Source, Store
from taskspace.performance.study import Study
from taskspace.performance.table import (
    BLOCK_CELLS,
    best_reference,
    leave_out,
    table_notes,
    trained_at,
)
from taskspace.performance.work import Rows, Stage, Task, TrainedBlock, Work
from taskspace.progress import Progress
from taskspace.spaces import Points, Space

STATES = ("ok", "not solved", "unstable", "failed", "not trained")
"""What may be said of a source; every state but `ok` comes with a reason."""

WORKING = ("ok", "not solved")
"""States of a source whose policies work at home, well or not."""

STATED = "stated reference"
"""What regret is against where a person says what is possible."""


class Ledger:
    """What is asked for of some sources, what is known so far, and what is left to do.

    Args:
        task: what is trained and where it is tried.
        sources: the sources, in order; more can be planned later.
        targets: the targets, as the table will show them.
        store: where it is written; in memory if left out.
        rows: sources per block of training and of evaluation; as many as the trainer
            says, and as fit in memory, if left out.
        reference: the best performance at each target, as stated, which regret is
            against; NaN at targets for which none is stated.
        candidates: the contexts that could be trained, where sources are chosen from
            them one after the other; None where all sources are planned at once.
    """

    def __init__(
        self,
        task: Task,
        sources: Space | None,
        targets: Space,
        *,
        store: Store | None = None,
        rows: tuple[int, int] | None = None,
        reference: NDArray[np.float64] | None = None,
        candidates: Space | None = None,
    ):
        self.task, self.target_space, self.candidates = task, targets, candidates
        self.reference, self._reference_kind = reference, STATED
        self.store = MemoryStore() if store is None else store
        if rows is None:
            per_source = len(task.targets) * task.trainer.n_policies
            fits = max(1, BLOCK_CELLS // per_source)
            rows = min(fits, task.trainer.sources_per_block), fits
        self._rows: dict[Stage, int] = {"train": rows[0], "evaluate": rows[1]}
        self._sources: Space | None = None
        self._states: dict[Source, tuple[str, str]] = {}
        self.version = 0
        if sources is not None:
            self.plan(sources)

    @property
    def sources(self) -> Space:
        """All sources that are planned, trained or not."""
        if self._sources is None:
            raise InvalidInputError("The ledger has no source yet: plan one.")
        return self._sources

    @property
    def n_sources(self) -> int:
        """How many sources are planned."""
        return len(self.store.sources)

    def plan(
        self,
        sources: Space,
        *,
        seed: int | None = None,
        keys: Sequence[Source] | None = None,
    ) -> None:
        """Add sources to what is asked for.

        Args:
            sources: contexts over the same axes as those before.
            seed: seed of their training, where it is not that of the task.
            keys: their keys in the store, where they are not trained at these contexts
                by that seed.
        """
        rows = self.task.system.contexts(sources)
        if self._sources is None:
            self._sources = sources
        else:
            if tuple(sources.names) != tuple(self._sources.names):
                raise InvalidInputError(
                    f"Further sources must have the axes {self._sources.names}, but "
                    f"have {sources.names}."
                )
            points = np.concatenate([self._sources.points, sources.points])
            self._sources = Points(sources.names, points)
        self.version += 1
        seed = self.task.seed if seed is None else seed
        self.store.plan(keys or Source.at(rows, seed, TRAINED, self.store.how))

    @property
    def kinds(self) -> list[str]:
        """Where the policies of each source come from; see `plan`."""
        return [source.kind for source in self.store.sources]

    @property
    def seeds(self) -> list[int]:
        """The seed of each source."""
        return [source.seed for source in self.store.sources]

    def ask(self, among: NDArray[np.int64] | None = None) -> list[Work]:
        """Return what can be done now: evaluations of what is trained, and trainings.

        Args:
            among: only in blocks of these sources; all if left out.
        """
        store = self.store
        pieces: list[Work] = []
        for block, numbers in self._blocks("evaluate", among):
            rest = numbers[~store.evaluated[numbers]]
            rest = rest[store.trained[rest]]
            waits = store.missing(store.sources[n] for n in numbers)
            if len(rest) and not waits:
                pieces.append(self._work("evaluate", block, rest))
        for block, numbers in self._blocks("train", among):
            # The same source twice is trained once, where it is planned first.
            rest = [
                n
                for n in numbers[~store.trained[numbers]].tolist()
                if store.number(source := store.sources[n]) == n
                and source.kind == TRAINED
                and source not in store.failures
            ]
            for seed, part in groupby(rest, lambda n: store.sources[n].seed):
                work = self._work("train", block, np.array(list(part)))
                pieces.append(replace(work, seed=seed))
        return pieces

    def _blocks(
        self, stage: Stage, among: NDArray[np.int64] | None
    ) -> Iterator[tuple[int, NDArray[np.int64]]]:
        step = self._rows[stage]
        n_blocks = -(-self.n_sources // step)
        blocks = range(n_blocks) if among is None else np.unique(among // step).tolist()
        for block in blocks:
            yield (
                block,
                np.arange(block * step, min((block + 1) * step, self.n_sources)),
            )

    def _work(self, stage: Stage, block: int, numbers: NDArray[np.int64]) -> Work:
        rows = [self.store.sources[number].contexts[0] for number in numbers]
        return Work(stage, block, numbers, np.array(rows))

    def give(self, work: Work) -> Work:
        """Return the work with all that it needs, for a worker that does it.

        Args:
            work: one of `ask`.
        """
        if work.stage == "train":
            return work
        return replace(work, policies=self.store.read(self._of(work)))

    def _of(self, work: Work) -> list[Source]:
        return [self.store.sources[number] for number in work.numbers]

    def tell(
        self, work: Work, done: "TrainedBlock | Rows | Sequence[TrainedBlock | str]"
    ) -> None:
        """Write down what a piece of work gave.

        Args:
            work: what was asked.
            done: its result; where trainings failed one part per source, for those
                the reason.
        """
        self.version += 1
        if isinstance(done, TrainedBlock):
            self.store.append(self._of(work), done)
        elif isinstance(done, Rows):
            self.store.append_rows(work.numbers.tolist(), done)
        else:
            pairs = list(zip(self._of(work), done, strict=True))
            fine = [(s, part) for s, part in pairs if isinstance(part, TrainedBlock)]
            if fine:
                blocks = [block for _, block in fine]
                self.store.append(
                    [s for s, _ in fine], TrainedBlock.concatenate(blocks)
                )
            for source, part in pairs:
                if isinstance(part, str):
                    self.store.fail(source, part)

    def admit(self, number: int) -> None:
        """Count a row that the store has withheld.

        Args:
            number: the source.
        """
        self.version += 1
        self.store.admit(number)

    def work_off(self, progress: Progress | None = None) -> None:
        """Do everything that is left, here and now.

        Args:
            progress: told how many sources are trained and evaluated.
        """
        queue = self.ask()
        while queue:
            work = queue.pop(0)
            self.tell(work, self.task.do(self.give(work)))
            if progress:
                progress(work.stage, *self.done(work.stage))
            if work.stage == "train":
                more = self.ask(work.numbers)
                queue = [w for w in more if w.stage == "evaluate"] + queue

    def done(self, stage: Stage) -> tuple[int, int]:
        """How many sources are done with a stage, and how many there are.

        Args:
            stage: `"train"` or `"evaluate"`.
        """
        done = self.store.trained if stage == "train" else self.store.evaluated
        return int(done.sum()), self.n_sources

    @property
    def evaluated(self) -> NDArray[np.bool_]:
        """Which sources have their row of the table."""
        return self.store.evaluated

    @property
    def pending(self) -> NDArray[np.bool_]:
        """Which sources have no row yet, though their training did not fail."""
        waiting, failures = np.flatnonzero(~self.evaluated), self.store.failures
        pending = np.zeros(self.n_sources, bool)
        pending[[n for n in waiting if self.store.sources[n] not in failures]] = True
        return pending

    @property
    def states(self) -> list[tuple[str, str]]:
        """The state of every source, one of `STATES`, and the reason."""
        return [self._state(source) for source in self.store.sources]

    def _state(self, source: Source) -> tuple[str, str]:
        if source in self.store.failures:
            return "failed", self.store.failures[source]
        if not self.store.has(source):
            return "not trained", "it was not asked for yet"
        if source not in self._states:
            scores = self.store.read([source]).home[0]
            solved = self.task.system.solved_return
            self._states[source] = _state(scores, solved)
        return self._states[source]

    def state_reference(self, reference: NDArray[np.float64], kind: str) -> None:
        """Judge all targets by a reference that is stated later.

        Args:
            reference: of each target, NaN where none is stated.
            kind: where it comes from.
        """
        self.version += 1
        self.reference, self._reference_kind = reference, kind

    def best_seen(self) -> tuple[NDArray[np.float64], str]:
        """Return a stated reference, else the best policy seen so far, at each target.

        Against the best policy seen a single one loses nothing. So this is for
        choosing what to train next, and `best_known` for what is said of it.
        """
        if self.reference is not None:
            return np.fmax(self.reference, self.store.top()), self._reference_kind
        return best_reference(self._optimum, self.store.top())

    def best_known(self) -> tuple[NDArray[np.float64], str]:
        """Return the reference of regret at each target, and where it comes from.

        NaN at targets that have none, see `without_reference`.
        """
        return leave_out(*self.best_seen(), self.without_reference)

    @property
    def without_reference(self) -> NDArray[np.bool_]:
        """Targets at which it is not known what a policy of their own would reach.

        No reference is stated there and no optimum known, and the training at the
        target's own context failed. While sources are chosen from candidates, also
        where no training was tried yet.
        """
        stated = self._optimum if self.reference is None else self.reference
        lacking = np.ones(len(self.task.targets), bool)
        if stated is not None:
            lacking = np.isnan(stated)
        if not lacking.any() or self._sources is None:
            return lacking
        own = np.array([kind == TRAINED for kind in self.kinds])
        works = np.array([state in WORKING for state, _ in self.states])
        works &= own & self.evaluated
        lacking &= ~trained_at(self._sources, works, self.target_space)
        if self.candidates is not None:
            tried = own & ~self.pending
            if not trained_at(self._sources, tried, self.candidates).all():
                return lacking
        return lacking & trained_at(self._sources, own, self.target_space)

    @cached_property
    def _optimum(self) -> NDArray[np.float64] | None:
        return self.task.system.optimum(self.task.targets)

    def table(
        self,
        *,
        against_seen: bool = False,
        numbers: NDArray[np.int64] | None = None,
    ) -> xr.Dataset:
        """Return the performance table of the sources that are evaluated so far.

        Args:
            against_seen: with the reference of `best_seen`, to choose what to train.
            numbers: some of these sources; all if left out.
        """
        if not self.evaluated.any():
            raise TaskspaceError("The ledger holds no evaluated source yet.")
        if against_seen:
            reference = self.best_seen()[0], "best policy seen"
        else:
            reference = self.best_known()
        return self.store.table(
            self.task.keep,
            self.sources,
            self.target_space,
            reference,
            table_notes(self.task.system, **self.task.made_by),
            target_rows=self.task.targets,
            numbers=numbers,
        )

    def study(self) -> Study:
        """Return the study of the sources that are evaluated so far."""
        numbers = np.flatnonzero(self.evaluated)
        block = self.store.read([self.store.sources[n] for n in numbers])
        return Study.of(
            self.table(),
            system=self.task.system,
            policies=block.trained.policies,
            targets=self.target_space,
        )


def _state(scores: NDArray[np.float64], solved: float | None) -> tuple[str, str]:
    if (scores == -np.inf).all():
        return "unstable", "every policy fails at its own source"
    if solved is not None and not (scores >= solved).all():
        n_failed = int((scores < solved).sum())
        return "not solved", f"{n_failed} of {len(scores)} policies stay below {solved}"
    return "ok", ""
