r"""How much gain and phase a loop may lose or win at its inputs.

With $S = (I + L)^{-1}$ at the plant's input the balanced disk margin is
$\alpha = 1 / \|S - \tfrac12 I\|_\infty$: the loop stays stable for every factor
$(1 + \delta/2) / (1 - \delta/2)$, $|\delta| < \alpha$, in all inputs at once.
Guaranteed gains are from $(2 - \alpha) / (2 + \alpha)$ to its inverse, the guaranteed
phase is $2 \arctan(\alpha / 2)$.
"""

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace.policies import Policy
from taskspace.systems.linear.kernels.norms import hinf_norms
from taskspace.systems.linear.measures.base import Measure, closed_loops

if TYPE_CHECKING:
    from taskspace.systems.linear.base import LinearSystem

__all__ = ["DISK_MARGIN"]


class DiskMargin(Measure):
    r"""$\alpha = 1 / \|S - \tfrac12 I\|_\infty$ at the plant's inputs."""

    name: ClassVar[str] = "disk_margin"
    words: ClassVar[str] = "a disk margin at the inputs"
    larger_is_better: ClassVar[bool] = True

    def values(
        self,
        system: "LinearSystem",
        policies: Policy,
        contexts: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the margin of every policy at every context, −inf if unstable.

        Args:
            system: the tasks.
            policies: a stack with leading dims `(source, policy)`.
            contexts: full context rows.
        """
        loops = closed_loops(system, policies, contexts)
        half = 0.5 * np.eye(loops.E.shape[-1])
        norms = hinf_norms(loops.F, loops.E, loops.U, half, system.is_continuous)
        return np.where(loops.stable, 1 / norms, -np.inf)


DISK_MARGIN = DiskMargin()
