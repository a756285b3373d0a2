"""The covering problem as a sparse matrix, for solvers of linear programs."""

from typing import TYPE_CHECKING

import numpy as np

from taskspace.sets import RunSets

if TYPE_CHECKING:
    from scipy import sparse


def cover_matrix(sets: RunSets) -> "sparse.csr_array":
    """Return the constraints `A x >= 1` of the covering problem, targets x sources.

    Args:
        sets: the targets that each source serves.
    """
    from scipy import sparse

    inverse = sets.inverse
    lengths = inverse.stops - inverse.starts
    ends = np.cumsum(lengths, dtype=np.int64)
    first = np.repeat(
        inverse.starts - np.concatenate([[0], ends[:-1]])[: len(ends)], lengths
    )
    columns = (first + np.arange(len(first))).astype(np.int32)
    pointers = np.concatenate([[0], np.cumsum(inverse.sizes)])
    shape = (sets.n_targets, sets.n_sources)
    return sparse.csr_array((np.ones(len(columns)), columns, pointers), shape=shape)
