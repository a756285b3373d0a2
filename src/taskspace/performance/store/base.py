"""A store: what has been trained and tried, keyed by what it is.

One training has a key, its `Source`: the context, or a set of contexts with weights,
the seed, and how it was trained. A store keeps what each source gave: policies with
their scores at home and environment steps, scores at every target, or the reason of a
failure. What is asked for and not there is `missing`; that is all there is to do.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.errors import TaskspaceError
from taskspace.performance.table import (
    BEST_OF_TABLE,
    DIMS,
    leave_out,
    make_table,
    trained_at,
)
from taskspace.performance.work import Rows, TrainedBlock
from taskspace.spaces import Points, Space

TRAINED = "trained"
"""The kind of a source whose policies the trainer made."""

REGION = "region"
"""The kind of a source whose policies were trained on a set of contexts."""


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """The key of one training.

    Args:
        contexts: full context rows; one, or several where a policy is made for a
            region: then the one nearest to its middle is first.
        seed: seed of the training.
        kind: where the policies come from: `"trained"` or `"region"`.
        weights: how much each of several contexts counts; empty if all count alike.
        how: stands for the system and the settings of the trainer.
    """

    contexts: tuple[tuple[float, ...], ...]
    seed: int
    kind: str = TRAINED
    weights: tuple[float, ...] = ()
    how: str = ""

    @classmethod
    def at(
        cls, rows: NDArray[np.float64], seed: int, kind: str = TRAINED, how: str = ""
    ) -> "list[Source]":
        """Return one source per context.

        Args:
            rows: full context rows.
            seed: seed of all trainings.
            kind: where the policies come from.
            how: stands for the system and the settings of the trainer.
        """
        kind = TRAINED if kind == TRAINED else kind  # a default is not written
        # Adding 0.0 turns -0.0 into 0.0: equal contexts have equal keys.
        return [
            cls((tuple(row),), seed, kind, (), how) for row in (rows + 0.0).tolist()
        ]

    def weights_at(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how much each of some contexts counted in the training.

        Args:
            rows: full context rows.
        """
        n = len(self.contexts)
        shares = dict(zip(self.contexts, self.weights or (1 / n,) * n, strict=True))
        return np.array([shares.get(tuple(row), 0.0) for row in rows.tolist()])


class Store(ABC):
    """What has been trained and tried.

    Sources are planned in an order, which is that of the table's rows. Trainings are
    found by their source, whatever was planned when they were made.
    """

    how = ""
    """What stands for the system and the trainer in keys."""

    def __init__(self):
        self.sources: list[Source] = []
        """All sources that are planned, in order."""
        self.failures: dict[Source, str] = {}
        """Why trainings failed."""
        self._numbers: dict[Source, int] = {}
        self._trained = self._evaluated = np.zeros(0, bool)

    # --- what is asked for --------------------------------------------------------

    def plan(self, sources: Sequence[Source]) -> None:
        """Add sources to what is asked for.

        Args:
            sources: in the order of their rows.
        """
        for number, source in enumerate(sources, start=len(self.sources)):
            self._numbers.setdefault(source, number)
        self.sources += sources
        there = np.array([self.has(source) for source in sources], bool)
        self._trained = np.append(self._trained, there)
        self._evaluated = np.append(self._evaluated, np.zeros(len(sources), bool))

    def number(self, source: Source) -> int:
        """Return the first row that a source is planned for.

        Args:
            source: one of those planned.
        """
        return self._numbers[source]

    def missing(self, sources: Iterable[Source]) -> list[Source]:
        """Return the sources that are neither trained nor failed, each once.

        Args:
            sources: planned or not.
        """
        return [
            source
            for source in dict.fromkeys(sources)
            if source not in self.failures and not self.has(source)
        ]

    @property
    def trained(self) -> NDArray[np.bool_]:
        """Which planned sources have their policies."""
        return self._trained

    @property
    def evaluated(self) -> NDArray[np.bool_]:
        """Which planned sources have their row of the table."""
        return self._evaluated

    # --- policies -----------------------------------------------------------------

    @abstractmethod
    def has(self, source: Source) -> bool:
        """Return whether the policies of a source are there.

        Args:
            source: planned or not.
        """

    def append(self, sources: Sequence[Source], block: TrainedBlock) -> None:
        """Keep what trainings gave.

        Args:
            sources: what was trained; for a directory, sources of one block of rows.
            block: their policies, in this order.
        """
        self._keep(sources, block)
        for source in sources:
            self.failures.pop(source, None)
            if source in self._numbers:
                self._trained[self._numbers[source]] = True
        if len(self._numbers) < len(self.sources):  # equal sources, trained once
            self._trained = np.array([self.has(s) for s in self.sources], bool)

    @abstractmethod
    def _keep(self, sources: Sequence[Source], block: TrainedBlock) -> None:
        """Write policies."""

    def fail(self, source: Source, reason: str) -> None:
        """Note that a training failed.

        Args:
            source: what was trained.
            reason: why it failed.
        """
        self.failures[source] = reason

    @abstractmethod
    def read(self, sources: Sequence[Source]) -> TrainedBlock:
        """Return policies of sources that are trained.

        Args:
            sources: which ones; the result has their order.
        """

    # --- the table ----------------------------------------------------------------

    def append_rows(self, numbers: Sequence[int], rows: Rows) -> None:
        """Keep rows of the table.

        Args:
            numbers: planned sources, ascending; for a directory, of one block of rows.
            rows: their scores at every target.
        """
        self._keep_rows(numbers, rows)
        self._evaluated[list(numbers)] = True

    def withhold(self, number: int) -> None:
        """Count a row that is there as not evaluated, until it is admitted.

        Args:
            number: a source that is evaluated.
        """
        self._evaluated[number] = False

    def admit(self, number: int) -> None:
        """Count a row again that was withheld.

        Args:
            number: the source.
        """
        self._evaluated[number] = True

    @abstractmethod
    def _keep_rows(self, numbers: Sequence[int], rows: Rows) -> None:
        """Write rows of the table."""

    @abstractmethod
    def variables(
        self, names: Sequence[str], numbers: NDArray[np.int64]
    ) -> Mapping[str, Any]:
        """Return rows of the table: arrays, or what is read when it is needed.

        Args:
            names: names of variables.
            numbers: sources that are evaluated, ascending.
        """

    @abstractmethod
    def top(self) -> NDArray[np.float64]:
        """Return the best J seen at each target, by what is evaluated."""

    def table(
        self,
        names: Sequence[str],
        sources: Space,
        targets: Space,
        reference: tuple[NDArray[np.float64], str],
        notes: Mapping[str, Any],
        *,
        target_rows: NDArray[np.float64],
        numbers: NDArray[np.int64] | None = None,
    ) -> xr.Dataset:
        """Return the performance table of what is evaluated.

        Args:
            names: variables that are kept by blocks.
            sources: contexts of all sources that are planned.
            targets: the targets.
            reference: the reference of regret at each target, and where it comes from.
                The best of the table is none at a target whose own training failed or
                is not done.
            notes: attributes.
            target_rows: full context rows of the targets.
            numbers: sources that are evaluated; all if left out.

        Returns:
            A table of these sources; `n_planned` notes how many there would be with
            all that are planned.
        """
        n_planned, every = sources.size, np.flatnonzero(self.evaluated)
        if not len(every):
            why = next(iter(self.failures.values()), "")
            raise TaskspaceError(
                "No source could be trained, so there is no table"
                + (f": {why}." * bool(why))
            )
        numbers = every if numbers is None else numbers
        keys = [self.sources[number] for number in numbers]
        block = self.read(keys)
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
                **self.variables(names, numbers),
                "home_performance": block.home,
                "environment_steps": block.trained.environment_steps,
                "best_known": reference[0],
            },
            sources,
            targets,
            {**notes, "best_known_kind": reference[1]},
        )
        kinds = [key.kind for key in keys]
        if set(kinds) - {TRAINED}:
            table = table.assign_coords(source_kind=("source", np.array(kinds)))
        if REGION in kinds:
            weights = np.array([key.weights_at(target_rows) for key in keys])
            table["trained_on"] = DIMS["trained_on"], weights
        if len(numbers) < n_planned:
            table = table.assign_attrs(n_planned=n_planned)
        return table


def gather(places: Iterable[tuple[TrainedBlock, int]]) -> TrainedBlock:
    """Join sources of several blocks, in the order given.

    Args:
        places: a block and the place of a source in it, one pair per source.
    """
    parts: list[tuple[TrainedBlock, list[int]]] = []
    for block, place in places:
        if not parts or parts[-1][0] is not block:
            parts.append((block, []))
        parts[-1][1].append(place)
    return TrainedBlock.concatenate([block[np.array(at)] for block, at in parts])


class MemoryStore(Store):
    """Keeps everything in memory, as long as the process lives."""

    def __init__(self):
        super().__init__()
        self._places: dict[Source, tuple[TrainedBlock, int]] = {}
        self._values: dict[str, NDArray[Any]] = {}
        self._top: NDArray[np.float64] | None = None

    def has(self, source: Source) -> bool:
        """Return whether the policies of a source are there.

        Args:
            source: planned or not.
        """
        return source in self._places

    def _keep(self, sources: Sequence[Source], block: TrainedBlock) -> None:
        for place, source in enumerate(sources):
            self._places[source] = block, place

    def read(self, sources: Sequence[Source]) -> TrainedBlock:
        """Return policies of sources that are trained.

        Args:
            sources: which ones.
        """
        return gather(self._places[source] for source in sources)

    def _keep_rows(self, numbers: Sequence[int], rows: Rows) -> None:
        for name, values in rows.variables.items():
            whole = self._values.get(name)
            if whole is None or len(whole) < len(self.sources):
                # Twice the room, so that a store that grows is seldom copied.
                n = len(self.sources) if whole is None else 2 * len(self.sources)
                grown = np.empty((n, *values.shape[1:]), values.dtype)
                if whole is not None:
                    grown[: len(whole)] = whole
                self._values[name] = whole = grown
            whole[list(numbers)] = values
        self._top = rows.top if self._top is None else np.maximum(self._top, rows.top)

    def variables(
        self, names: Sequence[str], numbers: NDArray[np.int64]
    ) -> Mapping[str, Any]:
        """Return rows of the table.

        Args:
            names: names of variables.
            numbers: sources that are evaluated, ascending.
        """
        first, stop = int(numbers[0]), int(numbers[-1]) + 1
        if stop - first == len(numbers):
            return {name: self._values[name][first:stop] for name in names}
        return {name: self._values[name][numbers] for name in names}

    def top(self) -> NDArray[np.float64]:
        """Return the best J seen at each target."""
        assert self._top is not None
        return self._top
