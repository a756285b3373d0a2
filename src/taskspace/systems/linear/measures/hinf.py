"""The largest amplification of disturbances: the H∞ norm of a channel."""

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace.policies import Policy
from taskspace.systems.linear.kernels.norms import hinf_norms
from taskspace.systems.linear.measures.base import Measure, closed_loops

if TYPE_CHECKING:
    from taskspace.systems.linear.base import LinearSystem

__all__ = ["HINF"]


class Hinf(Measure):
    r"""$\|Y (sI - F)^{-1} E\|_\infty$, from the plant's inputs to its outputs.

    The channel is a disturbance added to the plant's inputs, to the measured outputs
    y = C x: state what counts as C.
    """

    name: ClassVar[str] = "hinf"
    words: ClassVar[str] = "an H∞ norm from input disturbances to outputs"
    larger_is_better: ClassVar[bool] = False

    def values(
        self,
        system: "LinearSystem",
        policies: Policy,
        contexts: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the norm of every policy at every context, inf if unstable.

        Args:
            system: the tasks.
            policies: a stack with leading dims `(source, policy)`.
            contexts: full context rows.
        """
        loops = closed_loops(system, policies, contexts)
        D = np.zeros((loops.Y.shape[-2], loops.E.shape[-1]))
        norms = hinf_norms(loops.F, loops.E, loops.Y, D, system.is_continuous)
        return np.where(loops.stable, norms, np.inf)


HINF = Hinf()
