"""What J of a system is, in words and as data; all others speak from here."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.files import plain

__all__ = ["Matrix", "Objective", "matrix_words"]

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Objective:
    """What J is; a system that says little leaves the data out.

    Args:
        statement: what J is, in one sentence.
        states: names of the states, in their order, a unit in brackets.
        inputs: names of the inputs, likewise.
        initial_covariance: Σ = E[x0 x0ᵀ], over which a cost is a mean; None where J is
            no such mean.
        Q: state weight; at the default context where it depends on it.
        R: input weight; likewise.
        varying: which of Q and R depend on the context.
        time: `"continuous"`, `"discrete"`, or empty.
        horizon: time or number of steps; `inf` for no end, None where it has none.
    """

    statement: str
    states: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    initial_covariance: Matrix | None = None
    Q: Matrix | None = None
    R: Matrix | None = None
    varying: tuple[str, ...] = ()
    time: str = ""
    horizon: float | None = None

    @property
    def mean_over(self) -> str:
        """Over which initial states a cost is a mean; empty where it is none."""
        if self.initial_covariance is None:
            return ""
        sigma = matrix_words(np.array(self.initial_covariance))
        return f"initial states with E[x0 x0ᵀ] = {sigma}"

    @property
    def caution(self) -> str:
        """A clause for statements about costs that are means; empty for others."""
        if not self.mean_over:
            return ""
        return f"costs are means over {self.mean_over}, not those of the worst one"

    def to_dict(self) -> dict[str, Any]:
        """Plain values; an infinite horizon is the text `"inf"`."""
        values = {k: v for k, v in asdict(self).items() if v not in (None, (), "")}
        return plain(values, nonfinite="text")


def matrix_words(matrix: NDArray[np.float64]) -> str:
    """A matrix in a few words: `the identity`, `diag(10, 4)`, or its rows.

    Args:
        matrix: any matrix.
    """
    if matrix.shape == (1, 1):
        return f"{matrix[0, 0]:g}"
    if np.array_equal(matrix, np.eye(len(matrix))):
        return "the identity"
    if np.array_equal(matrix, np.diag(np.diagonal(matrix))):
        return f"diag({', '.join(f'{x:g}' for x in np.diagonal(matrix))})"
    return str([[float(f"{x:.6g}") for x in row] for row in matrix.tolist()])
