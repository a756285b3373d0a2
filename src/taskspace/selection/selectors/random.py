"""Any candidate, by chance: the baseline that looks at nothing."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace.performance.ledger import Ledger
from taskspace.selection.selectors.base import Known, OneByOne

__all__ = ["Random"]


class Random(OneByOne):
    """Uniformly among the candidates that are left."""

    name: ClassVar[str] = "random"

    def pick(self, ledger: Ledger, seen: Known, left: NDArray[np.bool_]) -> int | None:
        """Return any candidate that is left."""
        del ledger
        return int(self.rng(seen).choice(np.flatnonzero(left)))
