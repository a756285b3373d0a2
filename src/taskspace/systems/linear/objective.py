"""What J of a linear system with a quadratic cost is, in words and as data."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from taskspace.systems.objective import Matrix, Objective, matrix_words

__all__ = ["quadratic_objective"]


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
    """The objective of a linear system with a quadratic cost.

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
