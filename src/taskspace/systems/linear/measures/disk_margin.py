r"""How much gain and phase a loop may lose or win at its inputs.

With $S = (I + L)^{-1}$ at the plant's input the balanced disk margin is
$\alpha = 1 / \|S - \tfrac12 I\|_\infty$: the loop stays stable for every factor
$(1 + \delta/2) / (1 - \delta/2)$, $|\delta| < \alpha$, in all inputs at once.
Guaranteed gains are from $(2 - \alpha) / (2 + \alpha)$ to its inverse, the guaranteed
phase is $2 \arctan(\alpha / 2)$.
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace.systems.linear.measures.base import ClosedLoops, NormMeasure


class DiskMargin(NormMeasure):
    r"""$\alpha = 1 / \|S - \tfrac12 I\|_\infty$ at the plant's inputs."""

    name: ClassVar[str] = "disk_margin"
    words: ClassVar[str] = "a disk margin at the inputs"
    larger_is_better: ClassVar[bool] = True
    channel: ClassVar[tuple[str, str]] = ("E", "U")
    direct: ClassVar[float] = 0.5

    def loop_values(self, loops: ClosedLoops) -> NDArray[np.float64]:
        """Return the margin of each loop.

        Args:
            loops: of every policy at every context.
        """
        return 1 / self.norms(loops)

    def level(self, epsilon: float) -> float:
        """Return the norm that a margin of at least −ε asks for.

        Args:
            epsilon: minus the margin; a margin of nothing asks for stability alone.
        """
        return -1 / epsilon if epsilon < 0 else np.nan


DISK_MARGIN = DiskMargin()
