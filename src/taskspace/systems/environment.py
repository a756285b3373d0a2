"""What the built-in environments have in common: settings, axes, bounds, Gymnasium.

A new environment says its axes, how it starts, moves and is seen, and what an episode
can be worth; nothing else.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.systems.base import ContextAxis
from taskspace.systems.gymnasium import make_environment
from taskspace.systems.gymnasium_axes import READY
from taskspace.systems.simulated import SimulatedSystem

if TYPE_CHECKING:
    import gymnasium


@dataclass(frozen=True)
class Environment(SimulatedSystem):
    """An environment in JAX.

    Args:
        horizon: steps after which an episode is cut.
        n_episodes: episodes that make up one performance.
        episode_seed: seed of the initial states.
    """

    horizon: int = 500
    n_episodes: int = 32
    episode_seed: int = 0

    context_axes: ClassVar[tuple[ContextAxis, ...]]
    """The axes, in the order of a context."""
    gymnasium_id: ClassVar[str | None] = None
    """Gymnasium's name of an environment with the same axes and physics."""

    @property
    def axes(self) -> tuple[ContextAxis, ...]:
        """The context axes."""
        return self.context_axes

    def episode_bounds(self) -> tuple[float, float] | None:
        """Return the least and the largest return of an episode, in any context."""
        return None

    def return_bounds(
        self, contexts: NDArray[np.float64]
    ) -> NDArray[np.float64] | None:
        """Return the least and the largest return of an episode, where known.

        Args:
            contexts: full context rows, shape `(target, len(axes))`.
        """
        bounds = self.episode_bounds()
        return None if bounds is None else np.tile(bounds, (len(contexts), 1))

    def environment(self, context: ArrayLike, **kwargs: Any) -> "gymnasium.Env":
        """Return Gymnasium's environment with the physics of one context.

        Args:
            context: full context row, in the order of `axes`.
            kwargs: passed on to `gymnasium.make`.
        """
        if self.gymnasium_id is None:
            return super().environment(context, **kwargs)
        made = make_environment(self.gymnasium_id, kwargs, self.horizon)
        names = [axis.name for axis in self.axes]
        row = np.asarray(context, float).tolist()
        READY[self.gymnasium_id].apply(made, dict(zip(names, row, strict=True)))
        return made
