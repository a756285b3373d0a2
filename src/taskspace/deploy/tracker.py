"""Selection for a context that moves, with hysteresis."""

from typing import Any

import numpy as np

from taskspace.deploy.base import (
    PolicyLibrary,
    Selection,
    Status,
    require_coordinates,
)
from taskspace.errors import InvalidInputError


class Tracker:
    """Follows one context and changes the policy only when it must.

    While the map gives the present policy, the context becomes the anchor. When the
    map gives another one, the present policy is held as long as the context is within
    `hysteresis` of the anchor on every axis. So a measurement that wobbles by less than
    that around a border never switches back and forth, and no policy is used farther
    than that beyond its own region. A held policy is not guaranteed.

    Where the stability of a library is proven for switches that lie a dwell time apart,
    a policy is also held until that time has passed since the last switch.

    A reading that is refused (not a number, out of the range) gives no policy and
    changes nothing else: the present policy, its anchor and its age are kept.

    Args:
        library: the library.
        hysteresis: share of the width of each axis, at least 0.

    Examples:
        >>> from taskspace import Points, PolicyLibrary
        >>> points = Points(["k"], [1.0, 3.0])
        >>> library = PolicyLibrary.from_policies(["soft", "stiff"], points)
        >>> track = library.tracker(hysteresis=0.1)
        >>> [track.select([k]).policy for k in (1.95, 2.05, 1.95, 2.05, 2.3, 2.15)]
        [0, 0, 0, 0, 1, 1]
    """

    def __init__(self, library: PolicyLibrary, hysteresis: float):
        library.guarantee.check_hysteresis(hysteresis)
        require_coordinates(library, "Hysteresis needs contexts with coordinates")
        self.library = library
        self.band = hysteresis * (library.high - library.low)
        self.dwell_time = library.guarantee.dwell_time
        self.reset()

    def reset(self) -> None:
        """Forget the present policy."""
        self.policy = -1
        self.age = 0.0
        self.anchor = np.full(len(self.library.names), np.nan)

    def select(self, context: Any, elapsed: float = np.inf) -> Selection:
        """Return the policy to use now.

        Args:
            context: one context, a mapping by name or a row.
            elapsed: time since the last call, in the unit of the dwell time; where it
                is left out, no policy is held for the sake of a dwell time.
        """
        row = self.library.rows(context)
        if row.ndim != 1:
            raise InvalidInputError(
                f"A tracker follows one context, but got shape {row.shape}."
            )
        chosen = self.library.select(row)
        if elapsed > 0:
            self.age += elapsed
        if chosen.policy < 0:
            return chosen
        if chosen.policy != self.policy:
            near = bool((np.abs(row - self.anchor) <= self.band).all())
            if self.policy >= 0 and (near or self.age < self.dwell_time):
                status = Status.INSIDE if chosen.inside else Status.OUTSIDE
                return Selection(self.policy, status, float("nan"), chosen.region, True)
            self.age = 0.0
        self.policy, self.anchor = chosen.policy, row
        return chosen

    def act(self, context: Any, observation: Any, elapsed: float = np.inf) -> Any:
        """Return the action of the policy to use now.

        Args:
            context: one context.
            observation: one observation.
            elapsed: time since the last call.
        """
        chosen = self.select(context, elapsed)
        if chosen.policy < 0:
            return self.library.act(context, observation)  # raises OutsideError
        return self.library.act_as(chosen.policy, observation)
