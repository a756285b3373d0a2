"""How fast a closed loop forgets: the rate of its slowest mode."""

from typing import TYPE_CHECKING

import numpy as np

from taskspace._util.arrays import Array
from taskspace.systems.linear.measures.base import ClosedLoops, LoopMeasure

if TYPE_CHECKING:
    from taskspace.systems.base import Provenance


class DecayRate(LoopMeasure):
    r"""$-\max \mathrm{Re}\,\lambda$ of the loop (discrete: $-\log \max |\lambda|$)."""

    name: str = "decay_rate"
    words: str = "a decay rate"
    unit: str = "per unit of time"
    larger_is_better: bool = True
    provenance: "Provenance" = "computed"  # by plain eigenvalues

    def loop_values(self, loops: ClosedLoops) -> Array:
        """Return the rate of each loop.

        Args:
            loops: of every policy at every context.
        """
        roots = np.linalg.eigvals(loops.F)
        with np.errstate(divide="ignore"):
            edge = roots.real if loops.continuous else np.log(np.abs(roots))
        return -edge.max(-1)


DECAY_RATE = DecayRate()
