"""Pieces of work, and what they give: policies and rows of the table."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import NOT_OF_A_TRAINING, InvalidInputError, UnknownNameError
from taskspace.performance.table import DIMS, REDUCTIONS, reduced_name
from taskspace.policies import Policy
from taskspace.systems.base import MEASURES, REDUCED, System
from taskspace.trainers.base import Region, RegionTrainer, Trained, Trainer, shortened

TRAINED = "trained"
"""The kind of a source whose policies the trainer made at one context."""

REGION = "region"
"""The kind of a source whose policies were trained on a set of contexts."""

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
class Block:
    """What one piece of work gave.

    Args:
        policies: of the sources whose training did not fail; None if all failed.
        rows: their rows of the table; None where rows are computed as they are read.
        failures: why the others failed, by their place among the sources of the work.
    """

    policies: TrainedBlock | None
    rows: Rows | None
    failures: dict[int, str] = field(default_factory=dict)

    def variable(self, name: str) -> NDArray[Any]:
        """Return rows of one variable of the table.

        Args:
            name: its name.
        """
        assert self.rows is not None
        return self.rows.variables[name]

    @property
    def top(self) -> NDArray[np.float64]:
        """The best J at each target."""
        assert self.rows is not None
        return self.rows.top


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
class Before:
    """What was found out about some sources of a piece of work before.

    Args:
        places: which of the sources these are, ascending.
        policies: their policies.
        values: their rows of the table, by variable; None if no cell is known.
        known: which cells of the rows are known, dims `(source, target)`.
    """

    places: NDArray[np.int64]
    policies: TrainedBlock
    values: dict[str, NDArray[Any]] | None = None
    known: NDArray[np.bool_] | None = None


@dataclass(frozen=True, eq=False)
class Work:
    """A piece of work that any process may do: train some sources, and evaluate them.

    Args:
        numbers: the sources, by their row in the table.
        contexts: full context rows of these sources.
        seed: seed of this training, where it is not that of the task.
        region: what to train the policies for, where that is not each context alone.
        columns: the targets where an evaluation is worth it; all if left out.
        before: what is known of some of them.
    """

    numbers: NDArray[np.int64]
    contexts: NDArray[np.float64]
    seed: int | None = None
    region: RegionTraining | None = None
    columns: NDArray[np.int64] | None = None
    before: Before | None = None


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
        n_policies = self.trainer.n_policies
        n_values = n_sources * n_policies * len(self.targets)
        # J of one policy is no larger than its reductions.
        if n_policies == 1 or n_values <= FULL_TABLE_CELLS:
            own = [name for name in self.system.measures if name != "returns"]
            keep = (*own, *measures)
        return replace(self, keep=keep)

    @property
    def made_by(self) -> dict[str, Any]:
        """The trainer and its seed, as the attributes of a table name them."""
        return {"trainer": self.trainer.id, "seed": self.seed}

    def do(self, work: Work, *, record_failures: bool = False) -> Block:
        """Do a piece of work; the same result in any process and any order.

        Args:
            work: what to do.
            record_failures: a training that fails becomes a part of the result.
        """
        before, n = work.before, len(work.numbers)
        known = np.empty(0, np.int64) if before is None else before.places
        fresh = np.setdiff1d(np.arange(n), known)
        parts: list[TrainedBlock] = [] if before is None else [before.policies]
        failures: dict[int, str] = {}
        if len(fresh):
            try:
                parts.append(self._train_work(work, fresh))
            except NOT_OF_A_TRAINING:
                raise
            except Exception as error:
                if not record_failures:
                    raise
                found, failures = self._one_by_one(work, fresh, error)
                parts += found
                fresh = np.setdiff1d(fresh, list(failures))
        if not parts:
            return Block(None, None, failures)
        policies, order = TrainedBlock.concatenate(parts), slice(None)
        if len(known):
            order = np.argsort(np.concatenate([known, fresh]))
            policies = policies[order]
        if not self.keep:
            return Block(policies, None, failures)
        if before is None or before.values is None or before.known is None:
            return Block(policies, self.rows(policies, work.columns), failures)
        rows = self._rest(before.policies, before.values, before.known)
        if len(fresh):
            more = self.rows(TrainedBlock.concatenate(parts[1:]))
            rows = Rows(
                {
                    name: np.concatenate([values, more.variables[name]])[order]
                    for name, values in rows.variables.items()
                },
                np.maximum(rows.top, more.top),
            )
        return Block(policies, rows, failures)

    def _train_work(self, work: Work, places: NDArray[np.int64]) -> TrainedBlock:
        if work.region is None:
            return self.train(work.contexts[places], work.seed)
        assert work.seed is not None
        return self.train_region(work.region, work.seed)

    def _one_by_one(
        self, work: Work, places: NDArray[np.int64], error: Exception
    ) -> tuple[list[TrainedBlock], dict[int, str]]:
        """Train a failed block source by source, and keep those that do not fail."""
        parts, failures = [], {}
        for place in places.tolist():
            try:
                if len(places) == 1:
                    raise error
                parts.append(self._train_work(work, np.array([place])))
            except NOT_OF_A_TRAINING:
                raise
            except Exception as reason:
                failures[place] = f"{type(reason).__name__}: {reason}"
        return parts, failures

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
