"""A context that nothing serves yet, by chance."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace.performance.ledger import Ledger
from taskspace.selection.selectors.base import Known, OneByOne

__all__ = ["Uncovered"]


class Uncovered(OneByOne):
    """The home of a random target among those that are not covered."""

    name: ClassVar[str] = "uncovered"

    def pick(self, ledger: Ledger, seen: Known, left: NDArray[np.bool_]) -> int | None:
        """Return a candidate nearest to some uncovered target."""
        del left
        _, homes = self.wanted(seen, ledger.target_space.points)
        return int(self.rng(seen).choice(homes)) if len(homes) else None
