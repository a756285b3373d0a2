"""The context that nothing serves yet and that is farthest from what is trained."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace.performance.ledger import Ledger
from taskspace.selection.selectors.base import Known, OneByOne, distances

__all__ = ["Farthest"]


class Farthest(OneByOne):
    """The home of the uncovered target farthest from all sources; the middle first."""

    name: ClassVar[str] = "farthest"

    def pick(self, ledger: Ledger, seen: Known, left: NDArray[np.bool_]) -> int | None:
        """Return a candidate nearest to the loneliest uncovered target."""
        del left
        if not len(seen.planned) and not seen.covered.any():
            return self.candidates.middle
        _, homes = self.wanted(seen, ledger.target_space.points)
        if not len(homes):
            return None
        homes = np.unique(homes)
        if not len(seen.planned):  # policies of regions serve the others
            middle = self.candidates.unit[homes].mean(0, keepdims=True)
            away = distances(self.candidates.unit[homes], middle)[:, 0]
            return int(homes[away.argmin()])
        planned = self.candidates.units_of(seen.planned)
        gap = distances(self.candidates.unit[homes], planned).min(1)
        return int(homes[gap.argmax()])
