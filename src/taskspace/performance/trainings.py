"""Sources that are planned, and what is known of each; needs no code of a system."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError, TaskspaceError
from taskspace.performance.blocks import (
    StoredBlock,
    computed_rows,
    dtype_of,
    lazy_variable,
)
from taskspace.performance.table import (
    BEST_OF_TABLE,
    DIMS,
    leave_out,
    make_table,
    trained_at,
)
from taskspace.performance.work import REGION, TRAINED, Block, Task, TrainedBlock
from taskspace.spaces import Points, Space


class Trainings:
    """Sources that are planned, in the order of the table's rows, and what they gave.

    A source has policies and a row of the table, or a reason why its training failed,
    or nothing yet. All this comes in blocks, from memory or from files.

    Args:
        targets: the targets, as the table will show them.
        computed: computes rows of the table from policies when they are read; None
            where rows are in the blocks.
    """

    def __init__(self, targets: Space, *, computed: Task | None = None):
        self.target_space, self._computed = targets, computed
        self.failures: dict[int, str] = {}
        """Why trainings failed, by the number of the source."""
        self.seeds: list[int] = []
        self.kinds: list[str] = []
        self.members: list[NDArray[np.int64] | None] = []
        """Of a source that was trained on a region, the numbers of its targets."""
        self.version = 0
        """Changes with whatever is known."""
        self._sources: Space | None = None
        self._blocks: list[Block | StoredBlock] = []
        self._block = self._place = np.empty(0, np.int64)
        self._top: NDArray[np.float64] | None = None
        self._last: tuple[str, int, Any] = "", -1, None

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
            if tuple(sources.names) != tuple(self._sources.names):
                raise InvalidInputError(
                    f"Further sources must have the axes {self._sources.names}, but "
                    f"have {sources.names}."
                )
            points = np.concatenate([self._sources.points, sources.points])
            self._sources = Points(sources.names, points)
        n = sources.size
        self.seeds += [seed] * n
        self.kinds += [kind] * n
        self.members += [members] * n
        self._block = np.append(self._block, np.full(n, -1))
        self._place = np.append(self._place, np.full(n, -1))
        self.version += 1

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

    def policies(self, numbers: Sequence[int] | NDArray[np.int64]) -> TrainedBlock:
        """Return policies of sources that are evaluated, in the order given.

        Args:
            numbers: which sources.
        """
        parts = []
        for block, places in self._parts(np.asarray(numbers, np.int64)):
            found = self._blocks[block].policies
            assert found is not None
            whole = np.array_equal(places, np.arange(len(found.home)))
            parts.append(found if whole else found[places])
        return TrainedBlock.concatenate(parts)

    def _parts(self, numbers: NDArray[np.int64]) -> list[tuple[int, NDArray[np.int64]]]:
        """Return blocks, and places in them, that hold some sources in their order."""
        cuts = np.flatnonzero(np.diff(self._block[numbers])) + 1
        parts = np.split(numbers, cuts)
        return [(int(self._block[p[0]]), self._place[p]) for p in parts if len(p)]

    def rows(self, name: str, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """Return rows of a variable of the table.

        Args:
            name: its name.
            numbers: sources that are evaluated.
        """
        parts = []
        for block, places in self._parts(numbers):
            if self._last[:2] != (name, block):
                self._last = name, block, self._blocks[block].variable(name)
            values = self._last[2]
            whole = np.array_equal(places, np.arange(len(values)))
            parts.append(values if whole else values[places])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _joined(self, name: str, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """Return rows of blocks in memory; whole blocks are then parts of that array.

        So a large table is held once, not twice.
        """
        parts = self._parts(numbers)
        if len(parts) == 1:
            return self.rows(name, numbers)
        first = self._blocks[parts[0][0]].variable(name)
        joined, at = np.empty((len(numbers), *first.shape[1:]), first.dtype), 0
        del first
        for block, places in parts:
            found, here = self._blocks[block], joined[at : at + len(places)]
            values = found.variable(name)
            whole = np.array_equal(places, np.arange(len(values)))
            here[:] = values if whole else values[places]
            if whole and isinstance(found, Block) and found.rows is not None:
                found.rows.variables[name] = here
            at += len(places)
        return joined

    def _variables(
        self, names: Sequence[str], numbers: NDArray[np.int64], n_policies: int
    ) -> dict[str, Any]:
        """Return rows of the table: arrays, or what is read when it is needed."""
        if self._computed is not None:
            return dict(computed_rows(self._computed, self.policies(numbers), names))
        if not any(isinstance(block, StoredBlock) for block in self._blocks):
            return {name: self._joined(name, numbers) for name in names}
        first = self._blocks[self._block[numbers[0]]]
        sizes = {"source": len(numbers), "policy": n_policies}
        sizes["target"] = self.target_space.size
        if "returns" in names:
            sizes["episode"] = first.variable("returns").shape[-1]

        def read(name: str, which: NDArray[np.int64]) -> NDArray[Any]:
            return self.rows(name, numbers[which]).astype(dtype_of(name), copy=False)

        return {
            name: lazy_variable(name, sizes, lambda n, name=name: read(name, n))
            for name in names
        }

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
                **self._variables(names, numbers, block.home.shape[1]),
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
