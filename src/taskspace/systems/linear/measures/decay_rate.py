"""How fast a closed loop forgets: the rate of its slowest mode."""

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace.policies import Policy
from taskspace.systems.linear.measures.base import Measure, closed_loops

if TYPE_CHECKING:
    from taskspace.systems.linear.base import LinearSystem

__all__ = ["DECAY_RATE"]


class DecayRate(Measure):
    r"""$-\max \mathrm{Re}\,\lambda$ of the loop (discrete: $-\log \max |\lambda|$)."""

    name: ClassVar[str] = "decay_rate"
    words: ClassVar[str] = "a decay rate"
    unit: ClassVar[str] = "per unit of time"
    larger_is_better: ClassVar[bool] = True

    def values(
        self,
        system: "LinearSystem",
        policies: Policy,
        contexts: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the rate of every policy at every context, −inf if unstable.

        Args:
            system: the tasks.
            policies: a stack with leading dims `(source, policy)`.
            contexts: full context rows.
        """
        loops = closed_loops(system, policies, contexts)
        roots = np.linalg.eigvals(loops.F)
        with np.errstate(divide="ignore"):
            edge = roots.real if system.is_continuous else np.log(np.abs(roots))
        return np.where(loops.stable, -edge.max(-1), -np.inf)


DECAY_RATE = DecayRate()
