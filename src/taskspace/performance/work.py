"""Pieces of work, and what they give."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance.table import DIMS, REDUCTIONS, reduced_name
from taskspace.policies import Policy
from taskspace.systems.base import MEASURES, REDUCED, System
from taskspace.trainers.base import Trained, Trainer
from taskspace.trainers.region import Region, RegionTrainer
from taskspace.trainers.short import shortened

Stage = Literal["train", "evaluate"]

# Up to this many values of J (256 MB) a table holds J itself.
FULL_TABLE_CELLS = 2**25

FAILED = {"gap_worst": np.inf, "gap_best": np.inf, "standard_error": np.nan}
"""What a table says where nothing was evaluated; −inf in every other variable."""


@dataclass(frozen=True)
class TrainedBlock:
    """Policies of some sources, and their scores at home.

    Args:
        trained: what the trainer returned.
        home: J of each policy at its own source, dims `(source, policy)`.
    """

    trained: Trained
    home: NDArray[np.float64]

    def __getitem__(self, rows: slice | NDArray[Any]) -> "TrainedBlock":
        """Return some of the sources.

        Args:
            rows: which ones.
        """
        return TrainedBlock(self.trained[rows], self.home[rows])

    @staticmethod
    def concatenate(parts: "Sequence[TrainedBlock]") -> "TrainedBlock":
        """Join along `source`.

        Args:
            parts: blocks, in order.
        """
        if len(parts) == 1:
            return parts[0]
        return TrainedBlock(
            Trained.concatenate([part.trained for part in parts]),
            np.concatenate([part.home for part in parts]),
        )


@dataclass(frozen=True)
class Rows:
    """Rows of the table for some sources.

    Args:
        variables: arrays by name, `source` first.
        top: best J seen at each target.
    """

    variables: dict[str, NDArray[Any]]
    top: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RegionTraining:
    """A training of one family for a set of contexts.

    Args:
        region: the contexts, with weights.
        steps: most environment steps of each policy; those of the trainer if None.
        start: a policy to begin from, without leading dims; from nothing if None.
    """

    region: Region
    steps: int | None = None
    start: Policy | None = None


@dataclass(frozen=True, eq=False)
class Work:
    """A piece of work that anybody may do.

    Args:
        stage: `"train"` or `"evaluate"`.
        block: its number among the blocks of that stage.
        numbers: the sources, by their row in the table.
        contexts: full context rows of these sources.
        policies: for an evaluation, what their training gave; see `Ledger.give`.
        seed: seed of this training, where it is not that of the task.
        region: what to train the policies for, where that is not each context alone.
        columns: for an evaluation, the targets where it is worth one; all if left
            out.
        values: for an evaluation, variables of the table of which some cells are
            known from before.
        known: which cells these are, dims `(source, target)`.
    """

    stage: Stage
    block: int
    numbers: NDArray[np.int64]
    contexts: NDArray[np.float64]
    policies: TrainedBlock | None = None
    seed: int | None = None
    region: RegionTraining | None = None
    columns: NDArray[np.int64] | None = None
    values: dict[str, NDArray[Any]] | None = None
    known: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Task:
    """What is trained and where it is tried: all that a worker must know.

    Args:
        system: the tasks.
        trainer: makes the policies of each source.
        targets: full context rows where policies are tried.
        seed: seed of the trainer.
        keep: variables of the table, see `keeping`.
    """

    system: System
    trainer: Trainer
    targets: NDArray[np.float64]
    seed: int
    keep: tuple[str, ...] = ()

    def keeping(
        self, n_sources: int, judges: Sequence[str], measures: Sequence[str] = ()
    ) -> "Task":
        """Return the task that keeps J itself if it fits, else its reductions.

        Args:
            n_sources: number of sources.
            judges: `"worst"`, `"best"` or both.
            measures: scores beside J, of `taskspace.systems.base.MEASURES`.
        """
        keep = reduced_variables(judges, measures)
        if n_sources * self.trainer.n_policies * len(self.targets) <= FULL_TABLE_CELLS:
            own = [name for name in self.system.measures if name != "returns"]
            keep = (*own, *measures)
        return replace(self, keep=keep)

    @property
    def made_by(self) -> dict[str, Any]:
        """The trainer and its seed, as the attributes of a table name them."""
        return {"trainer": self.trainer.id, "seed": self.seed}

    def do(self, work: Work) -> TrainedBlock | Rows:
        """Do a piece of work; the same result in any process and any order.

        Args:
            work: what to do.
        """
        if work.stage == "train":
            return self.train(work.contexts, work.seed)
        assert work.policies is not None
        if work.values is not None and work.known is not None:
            return self._rest(work.policies, work.values, work.known)
        return self.rows(work.policies, work.columns)

    def train(
        self, contexts: NDArray[np.float64], seed: int | None = None
    ) -> TrainedBlock:
        """Policies of some sources.

        Args:
            contexts: full context rows.
            seed: seed of the training, where it is not that of the task.
        """
        seed = self.seed if seed is None else seed
        trained = self.trainer.train(self.system, contexts, seed=seed)
        home = self.system.home_performance(trained.policies, contexts)
        return TrainedBlock(trained, home)

    def train_region(self, training: RegionTraining, seed: int) -> TrainedBlock:
        """Train one family for a region; its home is the whole region.

        Args:
            training: on what, how long, and from where.
            seed: seed of the training.
        """
        trainer, region = self.trainer, training.region
        if training.steps is not None:
            trainer = shortened(trainer, {"total_steps": training.steps})
        if not isinstance(trainer, RegionTrainer):
            raise InvalidInputError(
                "One policy for a set of contexts needs a trainer that can make it "
                f"(RegionTrainer), but got {trainer.id!r}. Take another trainer."
            )
        trained = trainer.train_region(
            self.system, region, seed=seed, start=training.start
        )
        scores = self.system.performance(trained.policies, region.contexts)
        return TrainedBlock(trained, scores @ region.weights)

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
        return Rows({name: variables[name] for name in self.keep}, top_of(variables))

    def _rest(
        self,
        block: TrainedBlock,
        values: dict[str, NDArray[Any]],
        known: NDArray[np.bool_],
    ) -> Rows:
        """Rows of which some cells are known: only the others are evaluated."""
        values = {name: array.copy() for name, array in values.items()}
        for pattern in np.unique(known, axis=0):
            places = np.flatnonzero((known == pattern).all(1))
            columns = np.flatnonzero(~pattern)
            if not len(columns):
                continue
            part = replace(self, targets=self.targets[columns]).rows(block[places])
            for name, values_there in part.variables.items():
                axis = DIMS[name].index("target")
                whole = np.moveaxis(values[name], axis, 1)
                whole[np.ix_(places, columns)] = np.moveaxis(values_there, axis, 1)
        return Rows(values, top_of(values))

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
        return variables


def reduced_variables(
    judges: Sequence[str], measures: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the reductions over a family that criteria need.

    Args:
        judges: `"worst"`, `"best"` or both.
        measures: scores beside J, of `taskspace.systems.base.MEASURES`.
    """
    for measure in measures:
        if measure not in MEASURES:
            raise UnknownNameError("measure", measure, MEASURES)
    for judge in judges:
        if judge not in REDUCTIONS:
            raise UnknownNameError("judge", judge, REDUCTIONS)
    more = [reduced_name(measure, judge) for measure in measures for judge in judges]
    return (*(name for judge in judges for name in REDUCTIONS[judge]), *more)


def top_of(variables: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
    """Return the best J at each target, over some rows of a table.

    Args:
        variables: of these rows; `performance` or `best` must be among them.
    """
    best = variables["performance" if "performance" in variables else "best"]
    return best.reshape(-1, best.shape[-1]).max(0)


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
