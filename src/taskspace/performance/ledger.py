"""The ledger: which sources are asked for, what is known of them, what is left to do.

It is the only thing that trains and evaluates. `missing` names the work that is left,
any process does it (`Task.do` is a pure function of the task and the work), `tell`
writes it down. Whatever is written is a valid table of the sources known so far:
`evaluate` is that in memory, a run is the same in a folder, and a selection plans the
sources that its selector wants.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError, TaskspaceError
from taskspace.performance.blocks import (
    BlockFolder,
    Elsewhere,
    StoredBlock,
    dtype_of,
    lazy_variable,
)
from taskspace.performance.study import Study
from taskspace.performance.table import (
    BEST_OF_TABLE,
    BLOCK_CELLS,
    DIMS,
    best_reference,
    leave_out,
    make_table,
    table_notes,
    trained_at,
)
from taskspace.performance.work import (
    REGION,
    TRAINED,
    Before,
    Block,
    Task,
    TrainedBlock,
    Work,
)
from taskspace.progress import Progress
from taskspace.spaces import Points, Space

STATES = ("ok", "not solved", "unstable", "failed", "not trained")
"""What may be said of a source; every state but `ok` comes with a reason."""

WORKING = ("ok", "not solved")
"""States of a source whose policies work at home, well or not."""

STATED = "stated reference"
"""What regret is against where a person says what is possible."""


class Ledger:
    """Sources that are planned, in the order of the table's rows, and what they gave.

    A source has policies and a row of the table, or a reason why its training failed,
    or nothing yet. All this comes in blocks, from memory or from files.

    Args:
        task: what is trained and where it is tried; None to read what is stored, which
            needs no code of a system.
        sources: the sources, in order; more can be planned later.
        targets: the targets, as the table will show them.
        folder: where blocks are written; in memory if left out.
        reference: the best performance at each target, as stated, which regret is
            against; NaN at targets for which none is stated.
        candidates: the contexts that could be trained, where sources are chosen from
            them one after the other; None where all sources are planned at once.
        computed: computes rows of the table from policies when they are read; None
            where rows are in the blocks.
    """

    def __init__(
        self,
        task: Task | None,
        sources: Space | None,
        targets: Space,
        *,
        folder: BlockFolder | None = None,
        reference: NDArray[np.float64] | None = None,
        candidates: Space | None = None,
        computed: Task | None = None,
    ):
        self._task, self.target_space, self._computed = task, targets, computed
        self.candidates, self.folder = candidates, folder
        self.reference, self._reference_kind = reference, STATED
        self.failures: dict[int, str] = {}
        """Why trainings failed, by the number of the source."""
        self.seeds: list[int] = []
        self.kinds: list[str] = []
        self.members: list[NDArray[np.int64] | None] = []
        """Of a source that was trained on a region, the numbers of its targets."""
        self.version = 0
        """Changes with whatever is known."""
        self._states: dict[int, tuple[str, str]] = {}
        self._sources: Space | None = None
        self._blocks: list[Block | StoredBlock] = []
        self._block = self._place = np.empty(0, np.int64)
        self._top: NDArray[np.float64] | None = None
        self._read = lru_cache(maxsize=4)(StoredBlock.variable)
        if sources is not None:
            if task is not None:
                task.system.contexts(sources)  # a mistake shows before any work
            self.plan(sources, seed=0 if task is None else task.seed)

    @property
    def task(self) -> Task:
        """What is trained and where it is tried."""
        if self._task is None:
            raise TaskspaceError("This needs the system, but the run is only read.")
        return self._task

    # --- what is asked for --------------------------------------------------------

    @property
    def sources(self) -> Space:
        """All sources that are planned, trained or not."""
        if self._sources is None:
            raise InvalidInputError("There is no source yet: plan one.")
        return self._sources

    @property
    def n_sources(self) -> int:
        """How many sources are planned."""
        return len(self._block)

    def plan(
        self,
        sources: Space,
        *,
        seed: int = 0,
        kind: str = TRAINED,
        members: NDArray[np.int64] | None = None,
    ) -> None:
        """Add sources to what is asked for.

        Args:
            sources: contexts over the same axes as those before.
            seed: seed of their training.
            kind: where their policies come from: `"trained"` or `"region"`.
            members: numbers of the targets of a region.
        """
        if self._sources is None:
            self._sources = sources
        else:
            points = np.concatenate([self._sources.points, sources.points])
            self._sources = Points(sources.names, points)
        n = sources.size
        self.seeds += [seed] * n
        self.kinds += [kind] * n
        self.members += [members] * n
        self._block = np.append(self._block, np.full(n, -1))
        self._place = np.append(self._place, np.full(n, -1))
        self.version += 1

    # --- what is left to do -------------------------------------------------------

    def missing(self) -> list[tuple[str, Work]]:
        """Return the work that is left, each with how the name of its file begins."""
        contexts, n = self.task.system.contexts(self.sources), self.n_sources
        if self.folder is not None:
            asked = list(self.folder.asked(contexts))
        else:
            per_source = len(self.task.targets) * self.task.trainer.n_policies
            fits = max(1, BLOCK_CELLS // per_source)
            step = min(fits, self.task.trainer.sources_per_block)
            asked = [("", np.arange(k, min(k + step, n))) for k in range(0, n, step)]
        return [
            (prefix, Work(numbers, contexts[numbers]))
            for prefix, numbers in asked
            if not self.evaluated[numbers].all()
        ]

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

    def before(self, work: Work) -> Before | None:
        """Return what other files of the folder hold of a piece of work.

        Args:
            work: what is asked for.
        """
        return None if self._elsewhere is None else self._elsewhere.of(work)

    @cached_property
    def _elsewhere(self) -> Elsewhere | None:
        if self.folder is None:
            return None
        return Elsewhere(self.folder, self.folder.names - self.files(whole=True))

    # --- what is known ------------------------------------------------------------

    def enter(self, numbers: NDArray[np.int64], block: Block | StoredBlock) -> None:
        """Count what some sources gave.

        Args:
            numbers: the sources that the block is about.
            block: policies and rows, or reasons of failures.
        """
        fine = np.setdiff1d(np.arange(len(numbers)), list(block.failures))
        self._block[numbers], self._place[numbers] = len(self._blocks), -1
        self._place[numbers[fine]] = np.arange(len(fine))
        self._blocks.append(block)
        for place, why in block.failures.items():
            self.failures[int(numbers[place])] = why
        if len(fine) and self._computed is None:
            top = block.top
            assert top is not None
            self._top = top if self._top is None else np.maximum(self._top, top)
        self.version += 1

    @property
    def evaluated(self) -> NDArray[np.bool_]:
        """Which sources have policies, and with them a row of the table."""
        return self._place >= 0

    @property
    def pending(self) -> NDArray[np.bool_]:
        """Which sources have no row yet, though their training did not fail."""
        pending = ~self.evaluated
        pending[list(self.failures)] = False
        return pending

    def files(self, *, whole: bool = False) -> set[str]:
        """Return the names of the files that the table is made of.

        Args:
            whole: only those without a training that failed.
        """
        used = [self._blocks[k] for k in np.unique(self._block[self._block >= 0])]
        stored = [block for block in used if isinstance(block, StoredBlock)]
        return {b.path.name for b in stored if not (whole and b.failures)}

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

    def policies(self, numbers: Sequence[int] | NDArray[np.int64]) -> TrainedBlock:
        """Return policies of sources that are evaluated, in the order given.

        Args:
            numbers: which sources.
        """
        parts = []
        for block, places in self._parts(np.asarray(numbers, np.int64)):
            found = block.policies
            assert found is not None
            whole = np.array_equal(places, np.arange(len(found.home)))
            parts.append(found if whole else found[places])
        return TrainedBlock.concatenate(parts)

    def _parts(
        self, numbers: NDArray[np.int64]
    ) -> list[tuple[Block | StoredBlock, NDArray[np.int64]]]:
        """Return blocks, and places in them, that hold some sources in their order."""
        cuts = np.flatnonzero(np.diff(self._block[numbers])) + 1
        parts = [part for part in np.split(numbers, cuts) if len(part)]
        return [(self._blocks[self._block[p[0]]], self._place[p]) for p in parts]

    def rows(self, name: str, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """Return rows of a variable of the table.

        Args:
            name: its name.
            numbers: sources that are evaluated.
        """
        joined, at = None, 0
        for block, places in self._parts(numbers):
            is_stored = isinstance(block, StoredBlock)
            values = self._read(block, name) if is_stored else block.variable(name)
            whole = np.array_equal(places, np.arange(len(values)))
            values = values if whole else values[places]
            if len(values) == len(numbers):
                return values
            if joined is None:
                joined = np.empty((len(numbers), *values.shape[1:]), values.dtype)
            here = joined[at : at + len(values)]
            here[:] = values
            if whole and not is_stored:
                block.variables[name] = here  # so a large table is held once
            at += len(values)
        assert joined is not None
        return joined

    def top(self) -> NDArray[np.float64]:
        """Return the best J seen at each target."""
        if self._computed is not None:
            numbers, best = np.flatnonzero(self.evaluated), []
            step = max(1, 2_500_000 // self.target_space.size)
            for first in range(0, len(numbers), step):
                stack = self.policies(numbers[first : first + step])
                best.append(self._computed.variables(stack, ("best",))["best"].max(0))
            return np.max(best, axis=0)
        assert self._top is not None
        return self._top

    # --- the reference of regret --------------------------------------------------

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

    # --- the table ----------------------------------------------------------------

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
        return Study.of(
            self.table(),
            system=self.task.system,
            policies=self.policies(numbers).trained.policies,
            targets=self.target_space,
        )

    def table_of(
        self,
        names: Sequence[str],
        reference: tuple[NDArray[np.float64], str],
        notes: Mapping[str, Any],
        numbers: NDArray[np.int64] | None = None,
    ) -> xr.Dataset:
        """Return the performance table of what is evaluated.

        Args:
            names: variables of the table.
            reference: the reference of regret at each target, and where it comes from.
                The best of the table is none at a target whose own training failed or
                is not done.
            notes: attributes.
            numbers: sources that are evaluated; all if left out.

        Returns:
            A table of these sources; `n_planned` notes how many there would be with
            all that are planned.
        """
        sources, targets = self._sources, self.target_space
        every = np.flatnonzero(self.evaluated)
        if sources is None or not len(every):
            why = next(iter(self.failures.values()), "")
            raise TaskspaceError(
                "No source could be trained, so there is no table"
                + (f": {why}." * bool(why))
            )
        n_planned = sources.size
        numbers = every if numbers is None else numbers
        block = self.policies(numbers)
        if reference[1].startswith(BEST_OF_TABLE):
            fits = np.zeros(n_planned, bool)
            fits[numbers] = (block.home > -np.inf).any(1)
            lacking = trained_at(sources, np.ones(n_planned, bool), targets)
            lacking &= ~trained_at(sources, fits, targets)
            reference = leave_out(*reference, lacking)
        if len(numbers) < n_planned:
            sources = Points(sources.names, sources.points[numbers])
        table = make_table(
            {
                **self._variables(names, numbers, block),
                "home_performance": block.home,
                "environment_steps": block.trained.environment_steps,
                "best_known": reference[0],
            },
            sources,
            targets,
            {**notes, "best_known_kind": reference[1]},
        )
        kinds = [self.kinds[number] for number in numbers]
        if set(kinds) - {TRAINED}:
            table = table.assign_coords(source_kind=("source", np.array(kinds)))
        if REGION in kinds:
            weights = np.array([self.weights_of(number) for number in numbers])
            table["trained_on"] = DIMS["trained_on"], weights
        if len(numbers) < n_planned:
            table = table.assign_attrs(n_planned=n_planned)
        return table

    def _variables(
        self, names: Sequence[str], numbers: NDArray[np.int64], block: TrainedBlock
    ) -> dict[str, Any]:
        """Return rows of the table: arrays, or what is read when it is needed."""
        first, computed = self._blocks[self._block[numbers[0]]], self._computed
        if computed is None and isinstance(first, Block):
            return {name: self.rows(name, numbers) for name in names}
        sizes = {"source": len(numbers), "policy": block.home.shape[1]}
        sizes["target"] = self.target_space.size
        if isinstance(first, StoredBlock):
            sizes["episode"] = first.layout.n_episodes

        def read(name: str, which: NDArray[np.int64]) -> NDArray[Any]:
            if computed is not None:
                return computed.variables(block[which], (name,))[name]
            return self.rows(name, numbers[which]).astype(dtype_of(name), copy=False)

        return {
            name: lazy_variable(name, sizes, lambda n, name=name: read(name, n))
            for name in names
        }

    def weights_of(self, number: int) -> NDArray[np.float64]:
        """Return how much each target counted in the training of a source.

        Args:
            number: of the source.
        """
        members, points = self.members[number], self.target_space.points
        if members is None:
            return (points == self.sources.points[number]).all(1).astype(float)
        weights = np.zeros(len(points))
        weights[members] = 1 / len(members)
        return weights


def _state(scores: NDArray[np.float64], solved: float | None) -> tuple[str, str]:
    if (scores == -np.inf).all():
        return "unstable", "every policy fails at its own source"
    if solved is not None and not (scores >= solved).all():
        n_failed = int((scores < solved).sum())
        return "not solved", f"{n_failed} of {len(scores)} policies stay below {solved}"
    return "ok", ""
