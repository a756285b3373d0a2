"""The ledger: what is asked for, what is known so far, and what is left to do.

It is the only thing that trains and evaluates. `missing` names the work that is left,
anybody does it (`Task.do` is a pure function of the task and the work, in any process),
`tell` writes it down. Whatever is written is a valid table of the sources known so
far: `evaluate` is that in memory, a run is the same in a folder, and a selection plans
the sources that its selector wants.
"""

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.errors import DamagedFileError, TaskspaceError
from taskspace.performance.blocks import BlockFolder, StoredBlock, dtype_of
from taskspace.performance.study import Study
from taskspace.performance.table import (
    BLOCK_CELLS,
    DIMS,
    best_reference,
    leave_out,
    table_notes,
    trained_at,
)
from taskspace.performance.trainings import Trainings
from taskspace.performance.work import (
    TRAINED,
    Before,
    Block,
    Task,
    TrainedBlock,
    Work,
)
from taskspace.progress import Progress
from taskspace.spaces import Space

STATES = ("ok", "not solved", "unstable", "failed", "not trained")
"""What may be said of a source; every state but `ok` comes with a reason."""

WORKING = ("ok", "not solved")
"""States of a source whose policies work at home, well or not."""

STATED = "stated reference"
"""What regret is against where a person says what is possible."""


class Ledger(Trainings):
    """What is asked for of some sources, what is known so far, and what is left to do.

    Args:
        task: what is trained and where it is tried.
        sources: the sources, in order; more can be planned later.
        targets: the targets, as the table will show them.
        folder: where blocks are written; in memory if left out.
        reference: the best performance at each target, as stated, which regret is
            against; NaN at targets for which none is stated.
        candidates: the contexts that could be trained, where sources are chosen from
            them one after the other; None where all sources are planned at once.
        computed: computes rows of the table as they are read, see `Trainings`.
    """

    def __init__(
        self,
        task: Task,
        sources: Space | None,
        targets: Space,
        *,
        folder: BlockFolder | None = None,
        reference: NDArray[np.float64] | None = None,
        candidates: Space | None = None,
        computed: Task | None = None,
    ):
        super().__init__(targets, computed=computed)
        self.task, self.candidates, self.folder = task, candidates, folder
        self.reference, self._reference_kind = reference, STATED
        self._states: dict[int, tuple[str, str]] = {}
        if sources is not None:
            task.system.contexts(sources)  # a mistake shows before any work
            self.plan(sources, seed=task.seed)

    # --- what is left to do -------------------------------------------------------

    def _asked(self) -> list[tuple[str, NDArray[np.int64]]]:
        """Return how the name of each block begins, and its sources."""
        if self.folder is not None:
            return list(self.folder.asked(self.task.system.contexts(self.sources)))
        per_source = len(self.task.targets) * self.task.trainer.n_policies
        fits = max(1, BLOCK_CELLS // per_source)
        step, n = min(fits, self.task.trainer.sources_per_block), self.n_sources
        return [("", np.arange(k, min(k + step, n))) for k in range(0, n, step)]

    def missing(self) -> list[tuple[str, Work]]:
        """Return the work that is left, each with how the name of its file begins."""
        contexts = self.task.system.contexts(self.sources)
        return [
            (prefix, Work(numbers, contexts[numbers]))
            for prefix, numbers in self._asked()
            if not self.evaluated[numbers].all()
        ]

    @cached_property
    def earlier(self) -> "Earlier | None":
        """What files of the folder hold that are not blocks of the table."""
        if self.folder is None:
            return None
        return Earlier(self.folder, self.folder.names - self.files(whole=True))

    def tell(self, work: Work, block: Block, prefix: str = "") -> None:
        """Write down what a piece of work gave.

        Args:
            work: what was asked.
            block: its result.
            prefix: how the name of its file begins.
        """
        for number in work.numbers:
            self.failures.pop(int(number), None)
        kept: Block | StoredBlock = block
        if self.folder is not None:
            kept = self.folder.write(prefix, block, work.contexts)
        self.enter(work.numbers, kept)

    def work_off(self, progress: Progress | None = None) -> None:
        """Do everything that is left, here and now.

        Args:
            progress: told how many sources are trained and evaluated.
        """
        for prefix, work in self.missing():
            self.tell(work, self.task.do(work), prefix)
            if progress:
                progress("train", int(self.evaluated.sum()), self.n_sources)

    # --- what is known ------------------------------------------------------------

    @property
    def states(self) -> list[tuple[str, str]]:
        """The state of every source, one of `STATES`, and the reason."""
        return [self.state(number) for number in range(self.n_sources)]

    def state(self, number: int) -> tuple[str, str]:
        """Return the state of a source, one of `STATES`, and the reason.

        Args:
            number: of the source.
        """
        if number in self.failures:
            return "failed", self.failures[number]
        if not self.evaluated[number]:
            return "not trained", "it was not asked for yet"
        if number not in self._states:
            scores = self.policies([number]).home[0]
            self._states[number] = _state(scores, self.task.system.solved_return)
        return self._states[number]

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
            return np.fmax(self.reference, self.top()), self._reference_kind
        return best_reference(self._optimum, self.top())

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
        notes = table_notes(self.task.system, **self.task.made_by)
        return self.table_of(self.task.keep, reference, notes, numbers)

    def study(self) -> Study:
        """Return the study of the sources that are evaluated so far."""
        numbers = np.flatnonzero(self.evaluated)
        block = self.policies(numbers)
        return Study.of(
            self.table(),
            system=self.task.system,
            policies=block.trained.policies,
            targets=self.target_space,
        )


class Earlier:
    """What some files of a folder hold of other pieces of work.

    A trainer is a pure function of context and seed, and a cell of the table one of
    policy and target. So both stay right when contexts join, or blocks are cut anew.

    Args:
        folder: the folder.
        names: names of the files.
    """

    def __init__(self, folder: BlockFolder, names: set[str]):
        self.n_policies = self.n_cells = 0
        self._stored, self._n_targets = folder.layout.stored, len(folder.targets)
        self._places: dict[bytes, tuple[StoredBlock, int]] = {}
        self._columns: dict[StoredBlock, NDArray[np.int64]] = {}
        self._last: tuple[StoredBlock | None, dict[str, NDArray[Any]]] = None, {}
        wanted = {key: k for k, key in enumerate(_keys(folder.targets))}
        can_join = not {"performance", "best"}.isdisjoint(self._stored)
        for name in sorted(names):
            try:
                block = StoredBlock(folder.path / name, folder.layout)
                if block.facts.made_by != folder.made_by:
                    continue
                pairs = []
                if can_join and block.holds(self._stored):
                    block = block.with_own_targets()
                    keys = enumerate(_keys(block.targets))
                    pairs = [(k, wanted[key]) for k, key in keys if key in wanted]
                sources = _keys(block.contexts[block.places])
            except DamagedFileError:
                continue  # what it holds is computed again
            self._columns[block] = np.array(pairs, np.int64).reshape(-1, 2)
            for place, key in enumerate(sources):
                there = self._places.get(key)
                if there is None or len(pairs) > len(self._columns[there[0]]):
                    self._places[key] = block, place

    def of(self, work: Work) -> Before | None:
        """Return what is known of a piece of work.

        Args:
            work: what is asked for.
        """
        places, parts, rows = [], [], []
        for place, key in enumerate(_keys(work.contexts)):
            if key not in self._places:
                continue
            try:
                part, row = self._read(*self._places[key])
            except DamagedFileError:
                continue  # what it holds is computed again
            places.append(place)
            parts.append(part)
            rows.append(row)
        if not parts:
            return None
        policies = TrainedBlock.concatenate(parts)
        self.n_policies += policies.home.size
        known = np.array([k for _, k in rows])
        before = Before(np.array(places), policies)
        if not known.any():
            return before
        self.n_cells += int(known.sum()) * policies.home.shape[1]
        values = {n: np.concatenate([row[n] for row, _ in rows]) for n in self._stored}
        return replace(before, values=values, known=known)

    def _read(
        self, block: StoredBlock, place: int
    ) -> tuple[TrainedBlock, tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]]:
        """Return policies of a source, its row, and which cells of it are known."""
        columns = self._columns[block]
        if self._last[0] is not block:
            layout, n = block.layout, len(block.places)
            self._last = (
                block,
                {
                    name: block.variable(name)
                    if len(columns)
                    else np.empty(layout.shape(name, n), dtype_of(name))
                    for name in self._stored
                },
            )
        assert block.policies is not None
        part, row = block.policies[np.array([place])], {}
        known = np.zeros(self._n_targets, bool)
        known[columns[:, 1]] = True
        for name, values in self._last[1].items():
            axis = DIMS[name].index("target")
            shape = [1, *values.shape[1:]]
            shape[axis] = self._n_targets
            row[name] = np.full(shape, np.nan, values.dtype)
            here = np.moveaxis(row[name], axis, 1)
            here[0, columns[:, 1]] = np.moveaxis(values, axis, 1)[place, columns[:, 0]]
        return part, (row, known)


def _keys(rows: NDArray[np.float64]) -> list[bytes]:
    """Return what stands for each context; −0 is 0."""
    return [row.tobytes() for row in np.ascontiguousarray(rows) + 0.0]


def _state(scores: NDArray[np.float64], solved: float | None) -> tuple[str, str]:
    if (scores == -np.inf).all():
        return "unstable", "every policy fails at its own source"
    if solved is not None and not (scores >= solved).all():
        n_failed = int((scores < solved).sum())
        return "not solved", f"{n_failed} of {len(scores)} policies stay below {solved}"
    return "ok", ""
