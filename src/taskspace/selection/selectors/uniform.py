"""Evenly over the range, whatever was seen: each as far as can be from the others."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace.performance.ledger import Ledger
from taskspace.selection.selectors.base import Known, OneByOne

__all__ = ["Uniform"]


class Uniform(OneByOne):
    """The candidate farthest from all sources; the middle first."""

    name: ClassVar[str] = "uniform"

    def pick(self, ledger: Ledger, seen: Known, left: NDArray[np.bool_]) -> int | None:
        """Pick the candidate whose nearest source is farthest, the first of equals."""
        del ledger
        if not len(seen.planned):
            return self.candidates.middle
        planned = self.candidates.units_of(seen.planned)
        gap = self.candidates.distances(planned).min(1)
        return int(np.where(left, gap, -1.0).argmax())
