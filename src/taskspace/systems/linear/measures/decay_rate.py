"""How fast a closed loop forgets: the rate of its slowest mode."""

from typing import ClassVar

import numpy as np

from taskspace._util.arrays import Array
from taskspace.systems.linear.measures.base import ClosedLoops, LoopMeasure


class DecayRate(LoopMeasure):
    r"""$-\max \mathrm{Re}\,\lambda$ of the loop (discrete: $-\log \max |\lambda|$)."""

    name: ClassVar[str] = "decay_rate"
    words: ClassVar[str] = "a decay rate"
    unit: ClassVar[str] = "per unit of time"
    larger_is_better: ClassVar[bool] = True

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
