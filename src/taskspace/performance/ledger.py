"""The ledger: what has been trained and evaluated so far, source by source.

It is the only thing that trains and evaluates. `ask` names the work that is left,
anybody does it (`do` is a pure function of the task and the work, in any process),
`tell` writes it down. Whatever is written is a valid table of the sources known so
far: `evaluate` is "ask all, tell all" in memory, a run is the same in a directory, and
a selector asks for the sources that it wants.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError, TaskspaceError, UnknownNameError
from taskspace.performance.table import BLOCK_CELLS, REDUCTIONS, make_table
from taskspace.spaces import Points, Space
from taskspace.systems.base import System
from taskspace.trainers.base import Trained, Trainer

__all__ = [
    "STATES",
    "Ledger",
    "MemoryStorage",
    "Rows",
    "Storage",
    "Task",
    "TrainedBlock",
    "Work",
    "best_known",
    "kept_variables",
]

Stage = Literal["train", "evaluate"]
STATES = ("ok", "not solved", "unstable", "failed", "not trained")
"""What may be said of a source; every state but `ok` comes with a reason."""

# Up to this many values of J (256 MB) a table holds J itself.
FULL_TABLE_CELLS = 2**25


@dataclass(frozen=True)
class TrainedBlock:
    """Policies of some sources, and their scores at home.

    Args:
        trained: what the trainer returned.
        home: J of each policy at its own source, dims `(source, policy)`.
    """

    trained: Trained
    home: NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """Rows of the table for some sources.

    Args:
        variables: arrays by name, `source` first.
        top: best J seen at each target.
    """

    variables: dict[str, NDArray[Any]]
    top: NDArray[np.float64]


@dataclass(frozen=True)
class Work:
    """A piece of work that anybody may do.

    Args:
        stage: `"train"` or `"evaluate"`.
        block: its number among the blocks of that stage.
        rows: the sources.
        contexts: full context rows of these sources.
        policies: for an evaluation, what their training gave; see `Ledger.give`.
    """

    stage: Stage
    block: int
    rows: slice
    contexts: NDArray[np.float64]
    policies: TrainedBlock | None = None


@dataclass(frozen=True)
class Task:
    """What is trained and where it is tried: all that a worker must know.

    Args:
        system: the tasks.
        trainer: makes the policies of each source.
        targets: full context rows where policies are tried.
        seed: seed of the trainer.
        keep: variables of the table, see `kept_variables`.
    """

    system: System
    trainer: Trainer
    targets: NDArray[np.float64]
    seed: int
    keep: tuple[str, ...]

    def do(self, work: Work) -> TrainedBlock | Rows:
        """Do a piece of work; the same result in any process and any order.

        Args:
            work: what to do.
        """
        if work.stage == "train":
            trained = self.trainer.train(self.system, work.contexts, seed=self.seed)
            home = self.system.home_performance(trained.policies, work.contexts)
            return TrainedBlock(trained, home)
        assert work.policies is not None
        policies = work.policies.trained.policies
        if "performance" in self.keep:
            variables = self.system.measure(policies, self.targets)
            top = variables["performance"].max((0, 1))
            return Rows({name: variables[name] for name in self.keep}, top)
        reduced = self.system.reduce_family(policies, work.policies.home, self.targets)
        variables = {name: getattr(reduced, name) for name in self.keep}
        return Rows(variables, reduced.best.max(0))


class Storage(Protocol):
    """Where a ledger is written: memory, or a run directory."""

    def blocks(self, stage: Stage) -> list[slice]:
        """The stretches of sources of a stage, in order."""
        ...

    def has(self, stage: Stage, block: int) -> bool:
        """Whether a block is written whole."""
        ...

    def write_policies(self, block: int, done: TrainedBlock) -> None:
        """Write a block of policies."""
        ...

    def read_policies(self, rows: slice) -> TrainedBlock:
        """Policies of a stretch of sources."""
        ...

    def write_rows(self, block: int, done: Rows) -> None:
        """Write a block of the table."""
        ...

    def read_rows(self, names: Sequence[str]) -> Mapping[str, Any]:
        """Variables of all evaluated blocks, joined along `source`.

        Arrays, or `xarray` variables that are read as they are needed.
        """
        ...

    def top(self) -> NDArray[np.float64]:
        """Best J seen at each target so far."""
        ...


@dataclass
class MemoryStorage:
    """A ledger in memory, cut into blocks of at most so many sources.

    Args:
        step: sources of a block; a block never spans two calls of `plan`.
    """

    step: int
    _blocks: list[slice] = field(default_factory=list)
    _trained: dict[int, TrainedBlock] = field(default_factory=dict)
    _rows: dict[int, Rows] = field(default_factory=dict)

    def plan(self, n_sources: int) -> None:
        """Make room for further sources.

        Args:
            n_sources: how many.
        """
        first = self._blocks[-1].stop if self._blocks else 0
        for start in range(first, first + n_sources, self.step):
            stop = min(start + self.step, first + n_sources)
            self._blocks.append(slice(start, stop))

    def blocks(self, stage: Stage) -> list[slice]:
        """The stretches of sources, the same for both stages."""
        del stage
        return self._blocks

    def has(self, stage: Stage, block: int) -> bool:
        """Whether a block is there."""
        return block in (self._trained if stage == "train" else self._rows)

    def write_policies(self, block: int, done: TrainedBlock) -> None:
        """Keep a block of policies."""
        self._trained[block] = done

    def read_policies(self, rows: slice) -> TrainedBlock:
        """Policies of a stretch of sources."""
        parts, homes = [], []
        for block, stretch in enumerate(self._blocks):
            first, stop = max(rows.start, stretch.start), min(rows.stop, stretch.stop)
            if first < stop:
                inside = slice(first - stretch.start, stop - stretch.start)
                found = self._trained[block]
                parts.append(found.trained[inside])
                homes.append(found.home[inside])
        return TrainedBlock(Trained.concatenate(parts), np.concatenate(homes))

    def write_rows(self, block: int, done: Rows) -> None:
        """Keep a block of the table."""
        self._rows[block] = done

    def read_rows(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Variables of all evaluated blocks, joined along `source`."""
        order = sorted(self._rows)
        return {
            name: np.concatenate([self._rows[b].variables[name] for b in order])
            for name in names
        }

    def top(self) -> NDArray[np.float64]:
        """Best J seen at each target so far."""
        return np.max([rows.top for rows in self._rows.values()], axis=0)


class Ledger:
    """What is known so far of some sources, and what is left to do.

    Args:
        task: what is trained and where it is tried.
        sources: the sources, in order; more can be planned later.
        targets: the targets, as the table will show them.
        storage: where it is written; in memory if left out.
        notes: attributes of the table, beside those the ledger knows itself.
    """

    def __init__(
        self,
        task: Task,
        sources: Space | None,
        targets: Space,
        *,
        storage: Storage | None = None,
        notes: dict[str, Any] | None = None,
    ):
        self.task, self.target_space = task, targets
        self._sources: Space | None = None
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

    def plan(self, sources: Space) -> None:
        """Add sources to what is asked for.

        Args:
            sources: contexts over the same axes as those before.
        """
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
        if isinstance(self.storage, MemoryStorage):
            self.storage.plan(sources.size)

    def ask(self) -> list[Work]:
        """What can be done now: trainings, and evaluations of what is trained."""
        contexts = self.task.system.contexts(self.sources)
        storage = self.storage
        trained = np.zeros(self.n_sources, bool)
        found: list[Work] = []
        for block, rows in enumerate(storage.blocks("train")):
            if storage.has("train", block):
                trained[rows] = True
            elif block not in self._failures:
                found.append(Work("train", block, rows, contexts[rows]))
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
        if isinstance(done, TrainedBlock):
            self.storage.write_policies(work.block, done)
        elif isinstance(done, Rows):
            self.storage.write_rows(work.block, done)
        else:
            self._failures[work.block] = f"{type(done).__name__}: {done}"

    def work_off(self, progress: Callable[[Stage, int, int], None] | None = None):
        """Do everything that is left, here and now.

        Args:
            progress: called with a stage, how many of its blocks are done, and how
                many there are.
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
        found = np.zeros(self.n_sources, bool)
        for block, rows in enumerate(self.storage.blocks("evaluate")):
            found[rows] = self.storage.has("evaluate", block)
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
            home = self.storage.read_policies(rows).home
            for number, scores in zip(range(rows.start, rows.stop), home, strict=True):
                found[number] = _state(scores, solved_return)
        return found

    def best_known(self) -> tuple[NDArray[np.float64], str]:
        """The reference of regret at each target, and where it comes from."""
        return best_known(self.task.system, self.task.targets, self.storage.top())

    def table(self) -> xr.Dataset:
        """The performance table of the sources that are evaluated so far."""
        known = np.flatnonzero(self.evaluated)
        if not len(known):
            raise TaskspaceError("The ledger holds no evaluated source yet.")
        variables = self.storage.read_rows(self.task.keep)
        # Stretches of neighbours: one read each, one in all for a finished ledger.
        parts = np.split(known, np.flatnonzero(np.diff(known) > 1) + 1)
        blocks = [
            self.storage.read_policies(slice(int(p[0]), int(p[-1]) + 1)) for p in parts
        ]
        reference, kind = self.best_known()
        sources: Space = self.sources
        if len(known) < sources.size:
            sources = Points(sources.names, sources.points[known])
        return make_table(
            {
                **variables,
                "home_performance": np.concatenate([b.home for b in blocks]),
                "environment_steps": np.concatenate(
                    [b.trained.environment_steps for b in blocks]
                ),
                "best_known": reference,
            },
            sources,
            self.target_space,
            table_notes(self.task, kind) | self._notes,
        )


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
) -> tuple[str, ...]:
    """What to keep of an evaluation: J itself if it fits, else reductions.

    Args:
        system: the tasks.
        n_sources: number of sources.
        n_policies: members of each family.
        n_targets: number of targets.
        judges: `"worst"`, `"best"` or both.
    """
    for judge in judges:
        if judge not in REDUCTIONS:
            raise UnknownNameError("judge", judge, REDUCTIONS)
    if n_sources * n_policies * n_targets <= FULL_TABLE_CELLS:
        return tuple(name for name in system.measures if name != "returns")
    return tuple(name for judge in judges for name in REDUCTIONS[judge])


def best_known(
    system: System, contexts: NDArray[np.float64], top: NDArray[np.float64]
) -> tuple[NDArray[np.float64], str]:
    """The reference of regret: the optimum where known, else the best seen.

    Args:
        system: the tasks.
        contexts: full context rows of the targets.
        top: best J seen at each target.

    Returns:
        Best known J at each target, and where it comes from.
    """
    optimum = system.optimum(contexts)
    if optimum is None:
        return top, "best of the table"
    return np.maximum(optimum, top), "optimum"


def _state(scores: NDArray[np.float64], solved: float | None) -> tuple[str, str]:
    if (scores == -np.inf).all():
        return "unstable", "every policy fails at its own source"
    if solved is not None and not (scores >= solved).all():
        n_failed = int((scores < solved).sum())
        return "not solved", f"{n_failed} of {len(scores)} policies stay below {solved}"
    return "ok", ""
