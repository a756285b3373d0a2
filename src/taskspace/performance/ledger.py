"""The ledger: what has been trained and evaluated so far, source by source.

It is the only thing that trains and evaluates. `ask` names the work that is left,
anybody does it (`do` is a pure function of the task and the work, in any process),
`tell` writes it down. Whatever is written is a valid table of the sources known so
far: `evaluate` is "ask all, tell all" in memory, a run is the same in a directory, and
a selector asks for the sources that it wants.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError, TaskspaceError, UnknownNameError
from taskspace.performance.study import Study
from taskspace.performance.table import (
    BLOCK_CELLS,
    REDUCTIONS,
    make_table,
    reduced_name,
)
from taskspace.performance.work import (
    MemoryStorage,
    Rows,
    Stage,
    Storage,
    Task,
    TrainedBlock,
    Work,
)
from taskspace.progress import Progress
from taskspace.spaces import Points, Space
from taskspace.systems.base import MEASURES, System

__all__ = [
    "STATED",
    "STATES",
    "TRAINED",
    "Ledger",
    "MemoryStorage",
    "Rows",
    "Stage",
    "Storage",
    "Task",
    "TrainedBlock",
    "Work",
    "assemble",
    "best_known",
    "contiguous",
    "kept_variables",
    "table_notes",
    "trained_at",
]

STATES = ("ok", "not solved", "unstable", "failed", "not trained")
"""What may be said of a source; every state but `ok` comes with a reason."""

WORKING = ("ok", "not solved")
"""States of a source whose policies work at home, well or not."""

BEST_OF_TABLE = "best of the table"
"""What regret is against where nothing better is known."""

STATED = "stated reference"
"""What regret is against where a person says what is possible."""

TRAINED = "trained"
"""The kind of a source whose policies the trainer made."""

# Up to this many values of J (256 MB) a table holds J itself.
FULL_TABLE_CELLS = 2**25


class Ledger:
    """What is known so far of some sources, and what is left to do.

    Args:
        task: what is trained and where it is tried.
        sources: the sources, in order; more can be planned later.
        targets: the targets, as the table will show them.
        storage: where it is written; in memory if left out.
        notes: attributes of the table, beside those the ledger knows itself.
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
        storage: Storage | None = None,
        notes: dict[str, Any] | None = None,
        reference: NDArray[np.float64] | None = None,
        candidates: Space | None = None,
    ):
        self.task, self.target_space, self.candidates = task, targets, candidates
        self.reference, self._reference_kind = reference, STATED
        self._sources: Space | None = None
        self._contexts = np.empty((0, len(task.system.axes)))
        self._seeds: list[int | None] = []
        self._kinds: list[str] = []
        self.version = 0
        self._failures: dict[int, str] = {}
        self._notes = dict(notes or {})
        if storage is None:
            per_source = len(task.targets) * task.trainer.n_policies
            storage = MemoryStorage(max(1, BLOCK_CELLS // per_source))
        self.storage: Storage = storage
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
        return 0 if self._sources is None else self._sources.size

    def plan(
        self, sources: Space, *, seed: int | None = None, kind: str = TRAINED
    ) -> None:
        """Add sources to what is asked for.

        Args:
            sources: contexts over the same axes as those before.
            seed: seed of their training, where it is not that of the task.
            kind: where their policies come from; `"trained"` by the trainer, others
                are told.
        """
        rows = self.task.system.contexts(sources)
        if self._sources is None:
            self._sources, self._contexts = sources, rows
        else:
            self._contexts = np.concatenate([self._contexts, rows])
            if tuple(sources.names) != tuple(self._sources.names):
                raise InvalidInputError(
                    f"Further sources must have the axes {self._sources.names}, but "
                    f"have {sources.names}."
                )
            points = np.concatenate([self._sources.points, sources.points])
            self._sources = Points(sources.names, points)
        self.version += 1
        self._seeds += [seed] * sources.size
        self._kinds += [kind] * sources.size
        if isinstance(self.storage, MemoryStorage):
            self.storage.plan(sources.size)

    @property
    def kinds(self) -> list[str]:
        """Where the policies of each source come from; see `plan`."""
        return list(self._kinds)

    @property
    def seeds(self) -> list[int]:
        """The seed of each source."""
        return [self.task.seed if seed is None else seed for seed in self._seeds]

    def ask(self) -> list[Work]:
        """What can be done now: trainings, and evaluations of what is trained."""
        contexts, storage = self._contexts, self.storage
        trained = np.zeros(self.n_sources, bool)
        found: list[Work] = []
        for block, rows in enumerate(storage.blocks("train")):
            if storage.has("train", block):
                trained[rows] = True
            elif block not in self._failures:
                seed = self._seeds[rows.start]
                found.append(Work("train", block, rows, contexts[rows], seed=seed))
        for block, rows in enumerate(storage.blocks("evaluate")):
            if trained[rows].all() and not storage.has("evaluate", block):
                found.append(Work("evaluate", block, rows, contexts[rows]))
        return found

    def give(self, work: Work) -> Work:
        """The work with all that it needs, to be handed to whoever does it.

        Args:
            work: one of `ask`.
        """
        if work.stage == "train":
            return work
        return replace(work, policies=self.storage.read_policies(work.rows))

    def tell(self, work: Work, done: "TrainedBlock | Rows | Exception") -> None:
        """Write down what a piece of work gave.

        Args:
            work: what was asked.
            done: its result; an exception says that this training failed.
        """
        self.version += 1
        if isinstance(done, TrainedBlock):
            self.storage.write_policies(work.block, done)
        elif isinstance(done, Rows):
            self.storage.write_rows(work.block, done)
        else:
            self._failures[work.block] = f"{type(done).__name__}: {done}"

    def work_off(self, progress: Progress | None = None) -> None:
        """Do everything that is left, here and now.

        Args:
            progress: told how many blocks of a stage are done.
        """
        while todo := self.ask():
            for work in todo:
                self.tell(work, self.task.do(self.give(work)))
                if progress:
                    progress(work.stage, *self.done(work.stage))

    def done(self, stage: Stage) -> tuple[int, int]:
        """How many blocks of a stage are done, and how many there are.

        Args:
            stage: `"train"` or `"evaluate"`.
        """
        n_blocks = len(self.storage.blocks(stage))
        return sum(self.storage.has(stage, b) for b in range(n_blocks)), n_blocks

    @property
    def evaluated(self) -> NDArray[np.bool_]:
        """Which sources have their row of the table."""
        return self.storage.known()

    @property
    def pending(self) -> NDArray[np.bool_]:
        """Which sources have no row yet, though their training did not fail."""
        found = ~self.evaluated
        for block in self._failures:
            found[self.storage.blocks("train")[block]] = False
        return found

    @property
    def states(self) -> list[tuple[str, str]]:
        """The state of every source, one of `STATES`, and the reason."""
        found = [("not trained", "it was not asked for yet")] * self.n_sources
        solved_return = self.task.system.solved_return
        for block, rows in enumerate(self.storage.blocks("train")):
            if block in self._failures:
                found[rows] = [("failed", self._failures[block])] * (
                    rows.stop - rows.start
                )
            if not self.storage.has("train", block):
                continue
            block_ = self.storage.read_policies(rows)
            for place, scores in enumerate(block_.home):
                if block_.failed[place]:
                    found[rows.start + place] = ("failed", "its training failed")
                else:
                    found[rows.start + place] = _state(scores, solved_return)
        return found

    def state_reference(self, reference: NDArray[np.float64], kind: str) -> None:
        """Judge all targets by a reference that is stated later.

        Args:
            reference: of each target, NaN where none is stated.
            kind: where it comes from.
        """
        self.version += 1
        self.reference, self._reference_kind = reference, kind

    def best_seen(self) -> tuple[NDArray[np.float64], str]:
        """A stated reference, else the best policy seen so far, at each target.

        Against the best policy seen a single one loses nothing. So this is for
        choosing what to train next, and `best_known` for what is said of it.
        """
        if self.reference is not None:
            return np.fmax(self.reference, self.storage.top()), self._reference_kind
        return _reference(self._optimum, self.storage.top())

    def best_known(self) -> tuple[NDArray[np.float64], str]:
        """The reference of regret at each target, and where it comes from.

        NaN at targets that have none, see `without_reference`.
        """
        return _leave_out(*self.best_seen(), self.without_reference)

    @property
    def without_reference(self) -> NDArray[np.bool_]:
        """Targets at which nobody knows what a policy of their own would reach.

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
        own = np.array([kind == TRAINED for kind in self._kinds])
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

    def table(self, *, against_seen: bool = False) -> xr.Dataset:
        """The performance table of the sources that are evaluated so far.

        Args:
            against_seen: with the reference of `best_seen`, to choose what to train.
        """
        known = self.evaluated
        if not known.any():
            raise TaskspaceError("The ledger holds no evaluated source yet.")
        reference, kind = self.best_known()
        if against_seen:
            reference, kind = self.best_seen()[0], "best policy seen"
        return assemble(
            self.storage,
            self.task.keep,
            self.sources,
            self.target_space,
            reference,
            table_notes(self.task, kind) | self._notes,
            known,
            self._kinds,
        )

    def study(self) -> Study:
        """The study of the sources that are evaluated so far."""
        parts = [
            block[~block.failed]
            for rows in contiguous(np.flatnonzero(self.evaluated))
            for block in [self.storage.read_policies(rows)]
        ]
        return Study.of(
            self.table(),
            system=self.task.system,
            policies=TrainedBlock.concatenate(parts).trained.policies,
            targets=self.target_space,
        )


def assemble(
    storage: Storage,
    names: Sequence[str],
    sources: Space,
    targets: Space,
    best_known: NDArray[np.float64],
    notes: Mapping[str, Any],
    known: NDArray[np.bool_],
    kinds: Sequence[str] = (),
) -> xr.Dataset:
    """The table of what a storage holds.

    Args:
        storage: policies and rows.
        names: variables that are kept by blocks.
        sources: all sources that are planned.
        targets: the targets.
        best_known: the reference of regret at each target. The best of the table is
            none at a target whose own training failed or is not done.
        notes: attributes.
        known: which sources have their row.
        kinds: where the policies of each planned source come from, if not all are
            trained.

    Returns:
        A table of the known sources whose training did not fail; `n_planned` notes
        how many sources there would be with all of them.
    """
    numbers = np.flatnonzero(known)
    blocks = [storage.read_policies(rows) for rows in contiguous(numbers)]
    steps = [block.trained.environment_steps for block in blocks]
    works = ~np.concatenate([block.failed for block in blocks])
    if not works.any():
        raise TaskspaceError("No source could be trained, so there is no table.")
    n_planned, home = sources.size, np.concatenate([block.home for block in blocks])
    kind = str(notes["best_known_kind"])
    if kind.startswith(BEST_OF_TABLE):
        fits = np.zeros(n_planned, bool)
        fits[numbers] = works & (home > -np.inf).any(1)
        lacking = trained_at(sources, np.ones(n_planned, bool), targets)
        lacking &= ~trained_at(sources, fits, targets)
        best_known, kind = _leave_out(best_known, kind, lacking)
    if len(numbers) < n_planned:
        sources = Points(sources.names, sources.points[numbers])
    table = make_table(
        {
            **storage.read_rows(names),
            "home_performance": home,
            "environment_steps": np.concatenate(steps),
            "best_known": best_known,
        },
        sources,
        targets,
        {**notes, "best_known_kind": kind},
    )
    if set(kinds) - {TRAINED}:
        column = np.array(kinds)[numbers]
        table = table.assign_coords(source_kind=("source", column))
    if not works.all():
        table = table.isel(source=np.flatnonzero(works))
    if table.sizes["source"] < n_planned:
        table = table.assign_attrs(n_planned=n_planned)
    return table


def trained_at(
    sources: Space, which: NDArray[np.bool_], targets: Space
) -> NDArray[np.bool_]:
    """Targets that are the very context of one of some sources.

    Args:
        sources: contexts of sources.
        which: the sources that count.
        targets: contexts of targets; over other axes they are no contexts of sources.
    """
    if set(sources.names) != set(targets.names):
        return np.zeros(targets.size, bool)
    columns = [list(sources.names).index(name) for name in targets.names]
    own = {tuple(row) for row in sources.points[which][:, columns].tolist()}
    return np.array([tuple(row) in own for row in targets.points.tolist()])


def _leave_out(
    reference: NDArray[np.float64], kind: str, lacking: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], str]:
    """A reference without that of some targets, and what to call it.

    Where every policy fails no reference is needed: nothing is served there.
    """
    lacking = lacking & (reference > -np.inf)
    if kind == BEST_OF_TABLE and lacking.any():
        kind = f"{kind} where a policy was trained"
    return np.where(lacking, np.nan, reference), kind


def contiguous(numbers: NDArray[np.int64]) -> list[slice]:
    """Ascending numbers as stretches of neighbours: one read each.

    Args:
        numbers: which sources.
    """
    parts = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    return [slice(int(p[0]), int(p[-1]) + 1) for p in parts if len(p)]


def table_notes(task: Task, kind: str) -> dict[str, Any]:
    """Attributes of a table: what made it, and where its numbers come from.

    Args:
        task: what was trained and tried.
        kind: where the reference of regret comes from.
    """
    notes: dict[str, Any] = {
        "system": task.system.id,
        "trainer": task.trainer.id,
        "seed": task.seed,
        "best_known_kind": kind,
        "provenance": task.system.provenance,
        "cost": task.system.objective.statement,
    }
    if task.system.n_episodes:
        notes["n_episodes"] = task.system.n_episodes
    return notes


def kept_variables(
    system: System,
    n_sources: int,
    n_policies: int,
    n_targets: int,
    judges: Sequence[str],
    measures: Sequence[str] = (),
) -> tuple[str, ...]:
    """What to keep of an evaluation: J itself if it fits, else reductions.

    Args:
        system: the tasks.
        n_sources: number of sources.
        n_policies: members of each family.
        n_targets: number of targets.
        judges: `"worst"`, `"best"` or both.
        measures: scores beside J, of `taskspace.systems.base.MEASURES`.
    """
    for measure in measures:
        if measure not in MEASURES:
            raise UnknownNameError("measure", measure, MEASURES)
    for judge in judges:
        if judge not in REDUCTIONS:
            raise UnknownNameError("judge", judge, REDUCTIONS)
    if n_sources * n_policies * n_targets <= FULL_TABLE_CELLS:
        return (*(name for name in system.measures if name != "returns"), *measures)
    more = [reduced_name(measure, judge) for measure in measures for judge in judges]
    return (*(name for judge in judges for name in REDUCTIONS[judge]), *more)


def best_known(
    system: System, contexts: NDArray[np.float64], top: NDArray[np.float64]
) -> tuple[NDArray[np.float64], str]:
    """The reference of regret: the optimum where known, else the best seen.

    Args:
        system: the tasks.
        contexts: full context rows of the targets.
        top: best J seen at each target.

    Returns:
        Best known J at each target, and where it comes from: `"optimum"`, `"best of
        the table"`, or `"optimum where known"` if the system knows it at some targets
        only (NaN at the others).
    """
    return _reference(system.optimum(contexts), top)


def _reference(
    optimum: NDArray[np.float64] | None, top: NDArray[np.float64]
) -> tuple[NDArray[np.float64], str]:
    if optimum is None or np.isnan(optimum).all():
        return top, BEST_OF_TABLE
    kind = "optimum where known" if np.isnan(optimum).any() else "optimum"
    return np.fmax(optimum, top), kind


def _state(scores: NDArray[np.float64], solved: float | None) -> tuple[str, str]:
    if (scores == -np.inf).all():
        return "unstable", "every policy fails at its own source"
    if solved is not None and not (scores >= solved).all():
        n_failed = int((scores < solved).sum())
        return "not solved", f"{n_failed} of {len(scores)} policies stay below {solved}"
    return "ok", ""
