"""What J of a system is, in words and as data; all others speak from here."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.files import plain

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
    """Return a matrix in a few words: `the identity`, `diag(10, 4)`, or its rows.

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


def quadratic_objective(
    Q: NDArray[np.float64],
    R: NDArray[np.float64],
    covariance: NDArray[np.float64],
    states: Sequence[str],
    inputs: Sequence[str],
    varying: Sequence[str],
    *,
    continuous: bool,
    horizon: float,
) -> Objective:
    """Return the objective of a linear system with a quadratic cost.

    Args:
        Q: state weight at the default context.
        R: input weight there.
        covariance: second moment of the initial state.
        states: names of the states.
        inputs: names of the inputs.
        varying: which of Q and R depend on the context.
        continuous: continuous or discrete time.
        horizon: time or number of steps.
    """

    def weight(symbol: str, matrix: NDArray[np.float64]) -> str:
        if symbol in varying:
            return f"{symbol} of the context"
        return f"{symbol} = {matrix_words(matrix)}"

    how = "integral over time" if continuous else "sum over steps"
    end = "without end" if np.isinf(horizon) else f"up to {horizon:g}"
    total = f"{how} {end} of xᵀQx + uᵀRu"
    sigma = matrix_words(covariance)
    statement = (
        f"J = −E[{total}], {weight('Q', Q)}, {weight('R', R)}, x = "
        f"({', '.join(states)}), u = ({', '.join(inputs)}); the mean is over initial "
        f"states with E[x0 x0ᵀ] = {sigma}."
    )
    return Objective(
        statement,
        tuple(states),
        tuple(inputs),
        _rows(covariance),
        _rows(Q),
        _rows(R),
        tuple(varying),
        "continuous" if continuous else "discrete",
        float(horizon),
    )


def _rows(matrix: NDArray[np.float64]) -> Matrix:
    return tuple(tuple(row) for row in matrix.tolist())
