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


@dataclass(frozen=True, eq=False)
class Block:
    """What one piece of work gave.

    Args:
        policies: of the sources whose training did not fail; None if all failed.
        variables: their rows of the table by variable, `source` first; empty where
            rows are computed as they are read.
        top: best J at each target, over these rows.
        failures: why the others failed, by their place among the sources of the work.
    """

    policies: TrainedBlock | None
    variables: dict[str, NDArray[Any]] = field(default_factory=dict)
    top: NDArray[np.float64] | None = None
    failures: dict[int, str] = field(default_factory=dict)

    def variable(self, name: str) -> NDArray[Any]:
        """Return rows of one variable of the table.

        Args:
            name: its name.
        """
        return self.variables[name]


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
    """What is stored of some sources of a piece of work.

    Args:
        places: which of the sources these are, ascending.
        policies: their policies.
        variables: their rows of the table, by variable.
        known: which cells of the rows are stored, dims `(source, target)`.
    """

    places: NDArray[np.int64]
    policies: TrainedBlock
    variables: dict[str, NDArray[Any]]
    known: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Work:
    """A piece of work that any process may do: train some sources, and evaluate them.

    Args:
        numbers: the sources, by their row in the table.
        contexts: full context rows of these sources.
        seed: seed of this training, where it is not that of the task.
        region: what to train the policies for, where that is not each context alone.
        columns: the targets where an evaluation is worth it; all if left out.
        before: what is stored of some of them.
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
        before, every = work.before, np.arange(len(work.numbers))
        kept = every[:0] if before is None else before.places
        fresh = np.setdiff1d(every, kept)
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
            return Block(None, failures=failures)
        places = np.concatenate([kept, fresh])
        policies = TrainedBlock.concatenate(parts)
        if len(kept):
            policies = policies[np.argsort(places)]
        if not self.keep:
            return Block(policies, failures=failures)
        known = np.zeros((len(places), len(self.targets)), bool)
        values: dict[str, NDArray[Any]] = {}
        if work.columns is not None:
            known[:] = True
            known[:, work.columns] = False
        elif before is not None and before.known.any():
            is_kept = np.isin(np.sort(places), kept)
            known[is_kept] = before.known
            for name, rows in before.variables.items():
                values[name] = np.empty((len(places), *rows.shape[1:]), rows.dtype)
                values[name][is_kept] = rows
        return Block(policies, *self.rows(policies, known, values), failures)

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
        self,
        block: TrainedBlock,
        known: NDArray[np.bool_],
        values: dict[str, NDArray[Any]],
    ) -> tuple[dict[str, NDArray[Any]], NDArray[np.float64]]:
        """Return rows of the table for some trained sources, and the best J of each.

        Args:
            block: their policies and scores at home.
            known: cells that are not evaluated, dims `(source, target)`.
            values: rows of the variables with the values of these cells; a variable
                that is missing gets what a failure would give: nothing is served
                without an evaluation.
        """
        wanted = {*self.keep, "best"}
        if not known.any():
            found = self.variables(block, wanted)
            return {name: found[name] for name in self.keep}, _top(found)
        top = np.full(len(self.targets), -np.inf)
        for pattern in np.unique(known, axis=0):
            columns = np.flatnonzero(~pattern)
            if not len(columns):
                continue
            places = np.flatnonzero((known == pattern).all(1))
            task = replace(self, targets=self.targets[columns])
            found = task.variables(block[places], wanted)
            top[columns] = np.maximum(top[columns], _top(found))
            for name in self.keep:
                part, axis = found[name], DIMS[name].index("target")
                if name not in values:
                    shape = [len(known), *part.shape[1:]]
                    shape[axis] = len(self.targets)
                    failed = FAILED.get(name, -np.inf)
                    values[name] = np.full(shape, failed, part.dtype)
                whole = np.moveaxis(values[name], axis, 1)
                whole[np.ix_(places, columns)] = np.moveaxis(part, axis, 1)
        if not {"performance", "best"}.isdisjoint(values):
            top = np.maximum(top, _top(values))
        return values, top

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


def _top(variables: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
    """Return the best J at each target, over some rows of a table."""
    best = variables["performance" if "performance" in variables else "best"]
    return best.reshape(-1, best.shape[-1]).max(0)
