"""Pieces of work, what they give, and where that is kept."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from taskspace.performance.table import DIMS
from taskspace.systems.base import MEASURES, REDUCED, System
from taskspace.trainers.base import Trained, Trainer

__all__ = [
    "MemoryStorage",
    "Rows",
    "Stage",
    "Storage",
    "Task",
    "TrainedBlock",
    "Work",
]

Stage = Literal["train", "evaluate"]

FAILED = {"gap_worst": np.inf, "gap_best": np.inf, "standard_error": np.nan}
"""What a failed source has in a table; −inf in every other variable."""


@dataclass(frozen=True)
class TrainedBlock:
    """Policies of some sources, and their scores at home.

    Args:
        trained: what the trainer returned.
        home: J of each policy at its own source, dims `(source, policy)`.
        failed: sources whose training ended with an error; their policies are
            blanks that serve nothing.
    """

    trained: Trained
    home: NDArray[np.float64]
    failed: NDArray[np.bool_]

    def __getitem__(self, rows: slice | NDArray[Any]) -> "TrainedBlock":
        """Some of the sources.

        Args:
            rows: which ones.
        """
        return TrainedBlock(self.trained[rows], self.home[rows], self.failed[rows])

    @staticmethod
    def concatenate(parts: "Sequence[TrainedBlock]") -> "TrainedBlock":
        """Join along `source`.

        Args:
            parts: blocks, in order.
        """
        return TrainedBlock(
            Trained.concatenate([part.trained for part in parts]),
            np.concatenate([part.home for part in parts]),
            np.concatenate([part.failed for part in parts]),
        )

    def blank(self, n_sources: int) -> "TrainedBlock":
        """Policies of this kind for sources whose training failed.

        Args:
            n_sources: how many.
        """
        first = self[np.zeros(n_sources, np.int64)]
        policies = first.trained.policies
        zeros = {k: np.zeros_like(v) for k, v in policies.arrays().items()}
        trained = Trained(
            type(policies).from_arrays(zeros, policies.settings()),
            np.zeros_like(first.trained.environment_steps),
            {k: np.zeros_like(v) for k, v in first.trained.log.items()},
        )
        home = np.full_like(first.home, -np.inf)
        return TrainedBlock(trained, home, np.ones(n_sources, bool))


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
        seed: seed of this training, where it is not that of the task.
        columns: for an evaluation, the targets where it is worth one; all if left
            out.
    """

    stage: Stage
    block: int
    rows: slice
    contexts: NDArray[np.float64]
    policies: TrainedBlock | None = None
    seed: int | None = None
    columns: NDArray[np.int64] | None = None


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
            seed = self.seed if work.seed is None else work.seed
            trained = self.trainer.train(self.system, work.contexts, seed=seed)
            home = self.system.home_performance(trained.policies, work.contexts)
            return TrainedBlock(trained, home, np.zeros(len(home), bool))
        assert work.policies is not None
        return self.rows(work.policies, work.columns)

    def rows(
        self, block: TrainedBlock, columns: NDArray[np.int64] | None = None
    ) -> Rows:
        """Rows of the table for some trained sources.

        Args:
            block: their policies and scores at home.
            columns: targets to evaluate at, all if left out; at the others the rows
                say what a failure would: nothing is served without an evaluation.
        """
        if columns is not None:
            part = replace(self, targets=self.targets[columns]).rows(block)
            return _widened(part, columns, len(self.targets))
        variables = self.variables(block, {*self.keep, "best"})
        best = variables.get("performance", variables.get("best"))
        assert best is not None
        top = best.reshape(-1, best.shape[-1]).max(0)
        return Rows({name: variables[name] for name in self.keep}, top)

    def variables(
        self, block: TrainedBlock, names: Collection[str]
    ) -> dict[str, NDArray[Any]]:
        """Variables of the table for some trained sources, at all targets.

        Args:
            block: their policies and scores at home.
            names: what is wanted: reductions over the family, or J and what else the
                system measures.
        """
        policies, system = block.trained.policies, self.system
        if "performance" in names:
            variables = system.measure(policies, self.targets)
        else:
            wanted = [name for name in REDUCED if name in names]
            variables = {}
            if wanted:
                variables = system.reduce_family(
                    policies, block.home, self.targets, wanted
                )
        for measure in MEASURES:
            worst, best = f"{measure}_worst", f"{measure}_best"
            if {measure, worst, best}.isdisjoint(names):
                continue
            scores = system.scores(measure, policies, self.targets)
            every = {measure: scores, worst: scores.min(1), best: scores.max(1)}
            variables |= {name: every[name] for name in every if name in names}
        if block.failed.any():
            for name, values in variables.items():
                values[block.failed] = FAILED.get(name, -np.inf)
        return variables


def _widened(part: Rows, columns: NDArray[np.int64], n_targets: int) -> Rows:
    """Rows of some targets as rows of all of them."""
    variables = {}
    for name, values in part.variables.items():
        place = DIMS[name].index("target")
        shape = (*values.shape[:place], n_targets, *values.shape[place + 1 :])
        whole = np.full(shape, FAILED.get(name, -np.inf), values.dtype)
        whole[(slice(None),) * place + (columns,)] = values
        variables[name] = whole
    top = np.full(n_targets, -np.inf)
    top[columns] = part.top
    return Rows(variables, top)


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

    def known(self) -> NDArray[np.bool_]:
        """Which sources have their row of the table."""
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
        """The stretches of sources, the same for both stages.

        Args:
            stage: `"train"` or `"evaluate"`.
        """
        del stage
        return self._blocks

    def has(self, stage: Stage, block: int) -> bool:
        """Whether a block is there.

        Args:
            stage: `"train"` or `"evaluate"`.
            block: place of the block among `blocks(stage)`.
        """
        return block in (self._trained if stage == "train" else self._rows)

    def write_policies(self, block: int, done: TrainedBlock) -> None:
        """Keep a block of policies.

        Args:
            block: place of the block among `blocks("train")`.
            done: the policies of its sources.
        """
        self._trained[block] = done

    def read_policies(self, rows: slice) -> TrainedBlock:
        """Policies of a stretch of sources.

        Args:
            rows: the sources, which must all be trained.
        """
        parts = []
        for block, stretch in enumerate(self._blocks):
            first, stop = max(rows.start, stretch.start), min(rows.stop, stretch.stop)
            if first < stop:
                inside = slice(first - stretch.start, stop - stretch.start)
                parts.append(self._trained[block][inside])
        return TrainedBlock.concatenate(parts)

    def write_rows(self, block: int, done: Rows) -> None:
        """Keep a block of the table.

        Args:
            block: place of the block among `blocks("evaluate")`.
            done: the variables of its sources.
        """
        self._rows[block] = done

    def read_rows(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Variables of all evaluated blocks, joined along `source`.

        Args:
            names: names of the variables.
        """
        order = sorted(self._rows)
        return {
            name: np.concatenate([self._rows[b].variables[name] for b in order])
            for name in names
        }

    def known(self) -> NDArray[np.bool_]:
        """Which sources have their row of the table."""
        found = np.zeros(self._blocks[-1].stop if self._blocks else 0, bool)
        for block in self._rows:
            found[self._blocks[block]] = True
        return found

    def top(self) -> NDArray[np.float64]:
        """Best J seen at each target so far."""
        return np.max([rows.top for rows in self._rows.values()], axis=0)
