"""python-control: a library as a gain schedule (extra `control`)."""

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import InvalidInputError
from taskspace.library.base import PolicyLibrary
from taskspace.library.records import OutsideError
from taskspace.library.regions import NamedRegions
from taskspace.policies import LinearGain
from taskspace.systems.control import GainSchedule

__all__ = ["library_schedule"]


def library_schedule(library: PolicyLibrary) -> GainSchedule:
    """A view of a library as a gain schedule: same selection, same gains.

    `statefbk` of the result gives the controller and the closed loop for a plant of
    python-control. Connecting a loop tries zeros, which may lie outside the range: use
    a library with `outside="clamp"`, or keep zero inside.

    Args:
        library: a library of linear gains.

    Example:
        >>> import taskspace as ts
        >>> gains = LinearGain(np.array([[[1.0, 2.0]], [[3.0, 4.0]]]))
        >>> library = ts.hand_library(gains, ts.Points(["k"], [1.0, 3.0]))
        >>> library_schedule(library).gain({"k": 2.9}).tolist()
        [[3.0, 4.0]]
    """
    policies = library.policies
    if not isinstance(policies, LinearGain):
        raise InvalidInputError(
            "A gain schedule needs linear gains, but this library holds "
            f"{'names' if policies is None else policies.kind}."
        )
    if isinstance(library.regions, NamedRegions):
        raise InvalidInputError(
            "A gain schedule needs contexts with coordinates, but the targets of this "
            "library have names only."
        )
    gains = policies.gain

    def find(row: NDArray[np.float64]) -> NDArray[np.float64]:
        found = library.select(row)
        if found.policy < 0:
            raise OutsideError(
                f"The schedule must have a gain for the context {row.tolist()}, but "
                "the library refuses it. Use outside='clamp'.",
                found,
            )
        return gains[found.policy]

    used = np.maximum(library.regions.policy, 0)
    return GainSchedule(library.names, library.regions.centres, gains[used], find)
