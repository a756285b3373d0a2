"""The matrices of linear tasks, as the kernels take them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class LinearMatrices(NamedTuple):
    """The matrices of a linear family at some contexts, each `(context, …, …)`."""

    A: NDArray[np.float64]
    B: NDArray[np.float64]
    Q: NDArray[np.float64]
    R: NDArray[np.float64]

    def rows(self, chosen: NDArray[np.integer]) -> "LinearMatrices":
        """Return the matrices at some of the contexts.

        Args:
            chosen: numbers of the contexts.
        """
        return LinearMatrices(*(matrix[chosen] for matrix in self))


class Loop(NamedTuple):
    """One gain at one context, u = −Kx.

    Args:
        a: A of the context; b, q and r likewise.
        b: B.
        q: Q.
        r: R.
        gain: K.
    """

    a: NDArray[np.float64]
    b: NDArray[np.float64]
    q: NDArray[np.float64]
    r: NDArray[np.float64]
    gain: NDArray[np.float64]
