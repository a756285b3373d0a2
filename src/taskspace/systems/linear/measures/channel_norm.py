"""The H∞ norm of the channel that a family states."""

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.policies import Policy
from taskspace.systems.linear.measures.base import NormMeasure

if TYPE_CHECKING:
    from taskspace.systems.linear.base import LinearSystem


class ChannelNorm(NormMeasure):
    r"""$\|C_z (sI - F)^{-1} B_w\|_\infty$ of `channel=(B_w, C_z)` of a family."""

    name: ClassVar[str] = "channel_norm"
    words: ClassVar[str] = "an H∞ norm of the stated channel"
    channel: ClassVar[tuple[str, str]] = ("W", "Z")

    def values(
        self, system: "LinearSystem", policies: Policy, contexts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the norm of every policy at every context, inf if unstable.

        Args:
            system: the tasks, with a channel.
            policies: a stack with leading dims `(source, policy)`.
            contexts: full context rows.
        """
        if system.channel is None:
            raise InvalidInputError(
                "channel_norm is about a channel that the family states, but it has "
                "none. Say LinearFamily(..., channel=(B_w, C_z)), or ask for hinf."
            )
        return super().values(system, policies, contexts)


CHANNEL_NORM = ChannelNorm()
