"""Plants that are known at operating points only: lists of matrices."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from taskspace._util.arrays import Array
from taskspace.errors import InvalidInputError
from taskspace.spaces import Space
from taskspace.systems.base import ContextAxis
from taskspace.systems.linear.family import LinearFamily


def points_family(
    points: Space,
    A: ArrayLike,
    B: ArrayLike,
    *,
    Q: ArrayLike,
    R: ArrayLike,
    C: ArrayLike | None = None,
    D: ArrayLike | None = None,
    x0_covariance: ArrayLike | None = None,
    time: Literal["continuous", "discrete"] = "continuous",
    name: str = "plant at operating points",
) -> LinearFamily:
    """Return a linear family that is known at some contexts, and nowhere else.

    Linearisations of a simulator. Covers, profiles and libraries are about these
    points; between them nothing is known, so there are no proofs over boxes, and other
    contexts are refused.

    Args:
        points: the contexts, in the order of the matrices.
        A: shape `(point, n_states, n_states)`; B and C likewise, or one matrix for all.
        B: see A.
        Q: state weight.
        R: input weight.
        C: what is measured; all states if left out.
        D: direct part of what is measured, y = C x + D u; none if left out.
        x0_covariance: second moment of the initial state; the identity if left out.
        time: `"continuous"` or `"discrete"`.
        name: what to call it in reports.

    Example:
        >>> from taskspace.spaces import Points
        >>> speeds = Points(("speed",), [[10.0], [20.0]])
        >>> plant = points_family(
        ...     speeds, A=[[[-1.0]], [[-2.0]]], B=[[1.0]], Q=[[1.0]], R=[[1.0]]
        ... )
        >>> plant.matrices(np.array([[20.0]])).A[0].tolist()
        [[-2.0]]
    """
    rows = {tuple(row): i for i, row in enumerate(points.points.tolist())}
    if len(rows) < points.size:
        raise InvalidInputError("Operating points must differ, but some are the same.")

    def looked_up(symbol: str, given: ArrayLike) -> Callable[..., Any]:
        stack = _stack(symbol, given, points.size)

        def at(**context: float) -> Array:
            row = tuple(float(context[axis]) for axis in points.names)
            if row not in rows:
                raise InvalidInputError(
                    f"The plant is known at {points.size} operating points, but not "
                    f"at {context}. Use these points as sources and targets."
                )
            return stack[rows[row]]

        return at

    return LinearFamily(
        _axes(points),
        A=looked_up("A", A),
        B=looked_up("B", B),
        Q=Q,
        R=R,
        x0_covariance=x0_covariance,
        time=time,
        name=name,
        C=None if C is None else looked_up("C", C),
        D=None if D is None else looked_up("D", D),
    )


def _stack(symbol: str, given: ArrayLike, n_points: int) -> Array:
    """Return one matrix per point."""
    stack = np.array(given, np.float64)
    if stack.ndim == 2:
        stack = np.broadcast_to(stack, (n_points, *stack.shape))
    if stack.ndim != 3 or len(stack) != n_points:
        raise InvalidInputError(
            f"{symbol} must hold one matrix per point, {n_points} in all, or one for "
            f"all, but has shape {stack.shape}."
        )
    return stack


def _axes(points: Space) -> list[ContextAxis]:
    first = points.points[0].tolist()
    return [ContextAxis(n, x) for n, x in zip(points.names, first, strict=True)]
