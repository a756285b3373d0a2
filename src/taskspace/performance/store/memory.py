"""A store in memory."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.performance.store.base import Source, Store, gather
from taskspace.performance.work import Rows, TrainedBlock


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
