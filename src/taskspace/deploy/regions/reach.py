"""The range of a library: shares of its width, and the contexts that a trial tries."""

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from taskspace.deploy.base import PolicyLibrary

# Corners of the range that are tried at most: those of eight axes.
MAX_CORNERS = 256


@dataclass(frozen=True, eq=False)
class Reach:
    """A range of contexts whose logarithmic axes are measured in logarithms.

    Args:
        low: lower corner.
        high: upper corner.
        is_log: which axes are logarithmic.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    is_log: NDArray[np.bool_]

    def at(self, share: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return contexts at shares of the width of each axis; 0 is low, 1 is high.

        Args:
            share: `(…, axis)`.
        """
        rows = self.low + (self.high - self.low) * share
        for axis in np.flatnonzero(self.is_log):
            low, high = np.log(self.low[axis]), np.log(self.high[axis])
            rows[..., axis] = np.exp(low + (high - low) * share[..., axis])
        within = (share >= 0) & (share <= 1)
        return np.where(within, np.clip(rows, self.low, self.high), rows)

    def share(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the inverse of `at`; 0 on an axis without width.

        Args:
            rows: contexts, `(…, axis)`.
        """
        width = self.high - self.low
        share = (rows - self.low) / np.where(width > 0, width, 1.0)
        for axis in np.flatnonzero(self.is_log & (width > 0)):
            low, high = np.log(self.low[axis]), np.log(self.high[axis])
            share[..., axis] = (np.log(rows[..., axis]) - low) / (high - low)
        return share


def reach_of(library: PolicyLibrary) -> Reach:
    """Return the range of a library.

    Args:
        library: whose contexts have coordinates.
    """
    return Reach(library.low, library.high, np.array(library.log_axes, bool))


def landmarks(library: PolicyLibrary, n_nodes: int) -> NDArray[np.float64]:
    """Contexts where a library may do worst: corners of the range, nodes or boxes.

    Args:
        library: whose contexts have coordinates.
        n_nodes: how many nodes, or corners of boxes, at most; evenly thinned.
    """
    ends = np.stack([library.low, library.high], 1)
    corners = np.array([library.low, library.high])
    if 2 ** len(ends) <= MAX_CORNERS:
        corners = np.array(list(product(*ends)))
    arrays = library.regions.arrays()
    nodes = library.regions.centres
    if "box_low" in arrays:
        nodes = np.concatenate([arrays["box_low"], arrays["box_high"]])
    kept = np.linspace(0, len(nodes) - 1, min(len(nodes), n_nodes)).astype(int)
    rows = np.concatenate([corners, nodes[kept]])
    _, first = np.unique(rows, axis=0, return_index=True)
    return rows[np.sort(first)]
