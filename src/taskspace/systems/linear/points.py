"""Plants that are known at operating points only: lists of matrices."""

from collections.abc import Callable, Mapping
from itertools import combinations_with_replacement
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.errors import InvalidInputError
from taskspace.spaces import Space
from taskspace.systems.base import ContextAxis
from taskspace.systems.linear.affine import AffineFamily, Enclosed
from taskspace.systems.linear.family import LinearFamily

Array = NDArray[np.float64]
# Misfits that are rounding alone, relative to the largest entry of a matrix.
ROUNDING = 1e-9


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

    Linearisations of a simulator, see `read_lin` and `read_mat`. Covers, profiles and
    libraries are about these points; between them nothing is known, so there are no
    proofs over boxes, and other contexts are refused. For statements between them state
    an interpolation and its error: `interpolated_family`.

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

        def at(**context: float) -> NDArray[np.float64]:
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


def interpolated_family(
    points: Space,
    A: ArrayLike,
    B: ArrayLike,
    *,
    degree: int,
    error: float | Mapping[str, ArrayLike],
    Q: ArrayLike,
    R: ArrayLike,
    C: ArrayLike | None = None,
    x0_covariance: ArrayLike | None = None,
    time: Literal["continuous", "discrete"] = "continuous",
    name: str = "interpolated plant",
) -> AffineFamily:
    """Return a linear family between operating points: a polynomial, and its error.

    Every entry of A, B and C is a polynomial in the context, fitted to the points by
    least squares. That the plant is nowhere further from it than `error` is your word:
    what is proven over boxes holds if that does, and says so.

    Args:
        points: the contexts, in the order of the matrices.
        A: shape `(point, n_states, n_states)`; B and C likewise, or one matrix for all.
        B: see A.
        degree: of the polynomials, in all axes together.
        error: largest difference of an entry between plant and polynomial: a number
            for every entry that varies, or for each of `"A"`, `"B"`, `"C"` a number or
            a matrix of them. Points that miss the polynomial by more are refused.
        Q: state weight.
        R: input weight.
        C: what is measured; all states if left out.
        x0_covariance: second moment of the initial state; the identity if left out.
        time: `"continuous"` or `"discrete"`.
        name: what to call it in reports.

    Example:
        >>> from taskspace.spaces import Points
        >>> speeds = Points(("speed",), [[10.0], [20.0], [30.0]])
        >>> plant = interpolated_family(
        ...     speeds, A=[[[-1.0]], [[-2.0]], [[-3.1]]], B=[[1.0]],
        ...     degree=1, error=0.1, Q=[[1.0]], R=[[1.0]],
        ... )  # fmt: skip
        >>> round(plant.matrices(np.array([[25.0]])).A.item(), 3)
        -2.558
    """
    names = list(points.names)
    given = {"A": A, "B": B} | ({} if C is None else {"C": C})
    keys = [
        "*".join(term)
        for power in range(degree + 1)
        for term in combinations_with_replacement(names, power)
    ]
    if degree < 0 or len(keys) > points.size:
        raise InvalidInputError(
            f"A polynomial of degree {degree} in {len(names)} axes has {len(keys)} "
            f"coefficients, so degree >= 0 and as many points must hold, but got "
            f"{points.size}. Use a lower degree."
        )
    # Fitted in units in which each axis is of size 1.
    scale = np.abs(points.points).max(0)
    scale = np.where(scale > 0, scale, 1.0)
    factors = [[names.index(axis) for axis in key.split("*") if axis] for key in keys]
    columns = [np.prod(points.points[:, f] / scale[f], axis=1) for f in factors]
    basis = np.stack(columns, 1)
    terms: dict[str, dict[str, Array]] = {}
    unknown: dict[str, Enclosed] = {}
    for symbol, matrices in given.items():
        stack = _stack(symbol, matrices, points.size)
        flat = stack.reshape(points.size, -1)
        fitted = np.linalg.lstsq(basis, flat, rcond=None)[0]
        bound = error if isinstance(error, int | float) else error.get(symbol, 0.0)
        varies = (stack != stack[0]).any(0)
        free = isinstance(error, Mapping) or varies
        reach = np.where(free, np.broadcast_to(bound, stack.shape[1:]), 0.0)
        miss = np.abs(basis @ fitted - flat).max(0).reshape(reach.shape)
        size = np.abs(stack).max()
        if not (reach >= 0).all() or (miss > reach + ROUNDING * size).any():
            i, j = np.unravel_index(int(np.argmax(miss - reach)), reach.shape)
            raise InvalidInputError(
                f"The stated error must hold at the points, but {symbol}[{i}, {j}] "
                f"misses its polynomial of degree {degree} by {miss[i, j]:.3g}, and "
                f"error is {reach[i, j]:g}. State a larger error or a higher degree."
            )
        terms[symbol] = {
            key: np.where(varies, fitted[k].reshape(reach.shape), stack[0] * (k == 0))
            / np.prod(scale[factors[k]])
            for k, key in enumerate(keys)
        }
        for i, j in np.argwhere(reach > 0).tolist():
            label = f"error of {symbol}[{i}, {j}]"
            unknown[label] = _within(float(reach[i, j]))
            terms[symbol][label] = np.zeros(reach.shape)
            terms[symbol][label][i, j] = 1.0
    return AffineFamily(
        _axes(points),
        A=terms["A"],
        B=terms["B"],
        Q=Q,
        R=R,
        parameters=unknown,
        x0_covariance=x0_covariance,
        time=time,
        name=name,
        C=terms.get("C"),
    )


def _within(reach: float) -> Enclosed:
    """Return a number that is 0 at the polynomial, and anything up to `reach`."""

    def bounds(low: Mapping[str, Array], high: Mapping[str, Array]) -> Any:
        del high
        size = np.full(len(next(iter(low.values()))), reach)
        return -size, size

    return Enclosed(value=lambda **context: 0.0, bounds=bounds)


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
