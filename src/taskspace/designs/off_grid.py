"""Contexts between the nodes of a grid: where gains lose most there.

Losses are looked at on a grid that is finer, and around its worst contexts closer and
closer. That finds contexts to design for; what holds for all of them is proven
elsewhere (`taskspace.certificates`).
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from scipy.ndimage import maximum_filter

from taskspace._util.arrays import Array, Numbers
from taskspace.designs.case import DesignCase
from taskspace.spaces import Grid, Points
from taskspace.trainers.minimax import GainRegion

# How often the steps of the grid are halved around its worst contexts, and how many
# are made before that, at most.
N_ZOOMS, N_MOVES = 6, 5
STEPS = (-1.0, -0.5, 0.0, 0.5, 1.0)
NEAR, MOST_MAXIMA = 0.9, 100
"""Contexts that lose less than this share of the worst are not looked at closer, nor
more of them at a time."""


@dataclass(frozen=True, eq=False)
class WorstBetween:
    """Where some gains lose most between the nodes.

    Args:
        loss: the largest loss that was found.
        points: contexts that lose more than a limit, and than all around them.
        region: the same with their plants; None where there are no such contexts.
    """

    loss: float
    points: Array
    region: GainRegion | None


@dataclass(frozen=True, eq=False)
class Between:
    """The contexts between the nodes of a grid.

    Args:
        case: what is designed.
        grid: finer than its targets.
    """

    case: DesignCase
    grid: Grid

    @cached_property
    def region(self) -> GainRegion:
        """The contexts of the finer grid with their plants."""
        return self.case.region_of(self.grid)

    def worst(self, gains: Array, limit: float) -> WorstBetween:
        """Return where gains lose most, and contexts where they lose more than a limit.

        Args:
            gains: shape `(gain, n_inputs, n_states)`.
            limit: loss above which a context counts.
        """
        least = self.region.judged(gains).min(0)
        top = float(least.max())
        floor = top - (1 - NEAR) * abs(top)
        chosen = _local_maxima(least.reshape(self.grid.shape), floor)
        if self.case.question.error is not None:
            # A context between two nodes stands for others than these do.
            chosen = chosen[least[chosen] > limit]
            region = self.region.take(chosen) if len(chosen) else None
            return WorstBetween(top, self.grid.points[chosen], region)
        points, values = self.grid.points[chosen], least[chosen]
        step = np.array([np.diff(axis.values).max() for axis in self.grid.axes])
        for _ in range(N_ZOOMS):
            for _ in range(N_MOVES):
                before = values
                points, values = self._closer(gains, points, values, step)
                if (values == before).all():
                    break
            step = step / 2
        above = points[values > limit]
        region = self._at(above) if len(above) else None
        return WorstBetween(float(values.max()), above, region)

    def _closer(
        self, gains: Array, points: Array, values: Array, step: Array
    ) -> tuple[Array, Array]:
        """Return the worst context around each of some, and its loss."""
        offsets = np.array(list(product(STEPS, repeat=len(step)))) * step
        around = np.clip(points[:, None] + offsets, self.grid.low, self.grid.high)
        flat = around.reshape(-1, len(step))
        losses = self._at(flat).judged(gains).min(0).reshape(len(points), -1)
        best = losses.argmax(1)
        rows = np.arange(len(points))
        better = losses[rows, best] > values
        points = np.where(better[:, None], around[rows, best], points)
        return points, np.where(better, losses[rows, best], values)

    def _at(self, points: Array) -> GainRegion:
        return self.case.region_of(Points(self.grid.names, points))


def _local_maxima(losses: Array, limit: float) -> Numbers:
    """Return the nodes of a grid that lose at least a limit, and no neighbour more.

    Args:
        losses: in the shape of the grid.
        limit: least loss.
    """
    highest = maximum_filter(losses, size=3, mode="nearest")
    nodes = np.flatnonzero((losses >= highest) & (losses >= limit))
    return nodes[np.argsort(-losses.ravel()[nodes], kind="stable")[:MOST_MAXIMA]]
