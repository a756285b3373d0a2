"""The matrices of linear tasks, as the kernels take them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array


class LinearMatrices(NamedTuple):
    """The matrices of a linear family at some contexts, each `(context, …, …)`."""

    A: Array
    B: Array
    Q: Array
    R: Array

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

    a: Array
    b: Array
    q: Array
    r: Array
    gain: Array
