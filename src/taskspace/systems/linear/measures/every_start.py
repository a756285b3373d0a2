r"""What a gain costs more than the best, from the worst of all initial states."""

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.policies import LinearController, Policy
from taskspace.systems.linear.kernels.starts import worst_start_excess
from taskspace.systems.linear.measures.base import Measure

if TYPE_CHECKING:
    from taskspace.systems.linear.base import LinearSystem


class EveryStart(Measure):
    r"""The least ε with $P_K \preceq (1 + \epsilon) P_*$.

    From no initial state does the gain cost more than 1 + ε times the optimum from
    there. NaN where $P_*$ is not known or singular.
    """

    name: ClassVar[str] = "every_start"
    words: ClassVar[str] = "an excess of the cost from the worst initial state"
    larger_is_better: ClassVar[bool] = False

    def values(
        self,
        system: "LinearSystem",
        policies: Policy,
        contexts: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the excess of every gain at every context.

        Args:
            system: the tasks, with an infinite horizon.
            policies: a stack of gains with leading dims `(source, policy)`.
            contexts: full context rows.
        """
        if np.isfinite(system.horizon):
            raise InvalidInputError(
                "every_start compares with the optimum of the infinite horizon, but "
                f"got horizon={system.horizon:g}. Use horizon=inf, or another "
                "criterion."
            )
        if isinstance(policies, LinearController):
            raise InvalidInputError(
                "every_start compares gains of the whole state with the best one, but "
                "got controllers. Use the criterion ratio."
            )
        gain = system.gains(policies).gain
        best, solved = system.optimal_gain(contexts)
        excess = worst_start_excess(
            np.ascontiguousarray(gain.reshape(-1, *gain.shape[2:])),
            best,
            solved,
            *system.matrices(contexts),
            continuous=system.is_continuous,
        )
        optimum = system.optimum(contexts)
        assert optimum is not None
        excess[:, np.isneginf(optimum)] = np.inf  # no gain stabilises
        return excess.reshape(*gain.shape[:2], len(contexts))


EVERY_START = EveryStart()
