"""Plants that are known at operating points only: lists of matrices, and their files.

Files are `.lin` of OpenFAST, and `.mat`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.io import loadmat

from taskspace._util.arrays import Array
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.spaces import Points, Space
from taskspace.systems.base import ContextAxis
from taskspace.systems.linear.affine import AffineFamily, Enclosed
from taskspace.systems.linear.family import LinearFamily

# Misfits that are rounding alone, relative to the largest entry of a matrix.
ROUNDING = 1e-9
MATRIX = re.compile(r"^\s*([A-D]):\s*(\d+)\s*x\s*(\d+)\s*$")
ENTRY = re.compile(r"^\s*\d+\s+\S+(?:\s+\S+)*?\s+([TF])\s+(?:\d+\s+)?(\S.*\S)\s*$")
SECTIONS = {
    "continuous states": "state",
    "inputs": "input",
    "outputs": "output",
}


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
    stated = {"A": A, "B": B} | ({} if C is None else {"C": C})
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
    for symbol, matrices in stated.items():
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


@dataclass(frozen=True, eq=False)
class OperatingPoints:
    """Matrices of a plant at operating points, as read from files.

    Args:
        points: the contexts.
        A: shape `(point, n_states, n_states)`; B and C likewise.
        B: from the inputs.
        C: what is measured, y = C x + D u.
        D: its direct part, None for none.
        states: names of the states, if the files tell them; inputs and outputs
            likewise.
        inputs: names of the inputs.
        outputs: names of the outputs.
    """

    points: Points
    A: Array
    B: Array
    C: Array
    D: Array | None = None
    states: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    def family(self, **options: Any) -> LinearFamily:
        """Return the plant at these points, and nowhere else.

        Args:
            options: Q and R, and further arguments of `points_family`.
        """
        return points_family(self.points, self.A, self.B, C=self.C, D=self.D, **options)

    def interpolated(self, **options: Any) -> AffineFamily:
        """Return the plant between these points, within a stated error.

        Args:
            options: degree, error, Q and R, and further arguments of
                `interpolated_family`.
        """
        if self.D is not None:
            raise InvalidInputError(
                "An interpolated plant has no direct part, but D is not zero. Choose "
                "other outputs, or add the lag of the sensor."
            )
        return interpolated_family(self.points, self.A, self.B, C=self.C, **options)


def read_lin(
    files: Sequence[str | Path],
    *,
    context: str = "Wind Speed",
    inputs: Sequence[str],
    outputs: Sequence[str],
    states: Sequence[str] | None = None,
) -> OperatingPoints:
    """Read linearisations that OpenFAST wrote (`.lin`), one operating point per file.

    Args:
        files: the files.
        context: line of the simulation information that is the context, e.g. `"Wind
            Speed"` or `"Rotor Speed"`; its name in lower case, with `_` for blanks.
        inputs: part of the description of each input to take, e.g. `"collective
            blade-pitch"`.
        outputs: part of the description of each output to take.
        states: part of the description of each state to keep; all if left out. Others
            are dropped, so they must not matter: for example the azimuth of the rotor.
    """
    models = [_read_lin_file(Path(file), context) for file in files]
    if not models:
        raise InvalidInputError("read_lin needs at least one file, but got none.")
    stacks: dict[str, list[Array]] = {symbol: [] for symbol in "ABCD"}
    first = models[0].names
    for model in models:
        if model.names != first:
            raise InvalidInputError(
                "All files must have the same states, inputs and outputs, but "
                f"{model.path} has others than {models[0].path}."
            )
    selected = {
        "state": list(range(len(first["state"])))
        if states is None
        else [_find(part, "state", models[0]) for part in states],
        "input": [_find(part, "input", models[0]) for part in inputs],
        "output": [_find(part, "output", models[0]) for part in outputs],
    }
    for model in models:
        for kind, places in selected.items():
            for place in places:
                if model.rotating[kind][place]:
                    raise InvalidInputError(
                        f"{first[kind][place]!r} of {model.path} is in the rotating "
                        "frame, so the plant depends on the azimuth. Apply the "
                        "multi-blade coordinate transform first."
                    )
        x, u, y = selected["state"], selected["input"], selected["output"]
        stacks["D"].append(model.matrices["D"][np.ix_(y, u)])
        stacks["A"].append(model.matrices["A"][np.ix_(x, x)])
        stacks["B"].append(model.matrices["B"][np.ix_(x, u)])
        stacks["C"].append(model.matrices["C"][np.ix_(y, x)])
    name = re.sub(r"\W+", "_", context.strip().lower())
    chosen = {
        kind: tuple(first[kind][place] for place in places)
        for kind, places in selected.items()
    }
    D = np.stack(stacks["D"])
    return OperatingPoints(
        Points((name,), [[model.context] for model in models]),
        np.stack(stacks["A"]),
        np.stack(stacks["B"]),
        np.stack(stacks["C"]),
        D if D.any() else None,
        chosen["state"],
        chosen["input"],
        chosen["output"],
    )


def read_mat(
    path: str | Path,
    *,
    contexts: Sequence[str],
    order: Literal["first", "last"] = "last",
) -> OperatingPoints:
    """Read A, B, C and D at operating points from a `.mat` file.

    Args:
        path: the file, with variables A, B, C and D, each of which may be one matrix
            for all points; C is the identity if it is not there, and D zero.
        contexts: names of the variables that hold the contexts, one value per point.
        order: where the points are numbered: by the `"last"` index, as in Matlab's
            `A(:, :, i)`, or by the `"first"`.
    """
    content = loadmat(path)
    missing = [name for name in ("A", "B", *contexts) if name not in content]
    if missing:
        there = [name for name in content if not name.startswith("__")]
        raise UnknownNameError(f"variable of {path}", missing[0], there)
    rows = np.stack([np.ravel(content[name]) for name in contexts], 1)
    points = Points(tuple(contexts), rows.astype(np.float64))

    def stack(name: str) -> Array:
        array = np.asarray(content[name], np.float64)
        if array.ndim == 2:
            return np.repeat(array[None], points.size, axis=0)
        array = np.moveaxis(array, -1, 0) if order == "last" else array
        if len(array) != points.size:
            raise InvalidInputError(
                f"{name} of {path} must hold {points.size} matrices, one per value of "
                f"{', '.join(contexts)}, by its {order} index, but has shape "
                f"{content[name].shape}."
            )
        return array

    A, B = stack("A"), stack("B")
    C = stack("C") if "C" in content else np.repeat(np.eye(A.shape[1])[None], len(A), 0)
    D = stack("D") if "D" in content else np.zeros(1)
    return OperatingPoints(points, A, B, C, D if D.any() else None)


@dataclass(frozen=True)
class _Model:
    """What one `.lin` file says."""

    path: Path
    context: float
    names: dict[str, list[str]]
    rotating: dict[str, list[bool]]
    matrices: dict[str, Array]


def _read_lin_file(path: Path, context: str) -> _Model:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    names: dict[str, list[str]] = {kind: [] for kind in SECTIONS.values()}
    rotating: dict[str, list[bool]] = {kind: [] for kind in SECTIONS.values()}
    matrices: dict[str, Array] = {}
    value, kind, i = None, "", 0
    while i < len(lines):
        line = lines[i]
        i += 1
        key, _, rest = line.partition(":")
        if line.startswith("Order of "):
            kind = SECTIONS.get(key.removeprefix("Order of ").strip(), "")
        elif matrix := MATRIX.match(line):
            rows, columns = int(matrix[2]), int(matrix[3])
            text = " ".join(lines[i : i + rows])
            i += rows
            try:
                entries = np.array(text.split(), np.float64).reshape(rows, columns)
            except ValueError as error:
                raise InvalidInputError(
                    f"{matrix[1]} of {path} must be {rows} x {columns} numbers, but "
                    f"is not: {error}."
                ) from error
            matrices.setdefault(matrix[1], entries)
        elif kind and (entry := ENTRY.match(line)):
            names[kind].append(entry[2])
            rotating[kind].append(entry[1] == "T")
        elif value is None and key.strip().lower() == context.strip().lower():
            value = float(rest.split()[0])
    n, m, p = (len(names[kind]) for kind in SECTIONS.values())
    shapes = {"A": (n, n), "B": (n, m), "C": (p, n), "D": (p, m)}
    for symbol, shape in shapes.items():
        if symbol not in matrices or matrices[symbol].shape != shape:
            there = matrices[symbol].shape if symbol in matrices else "not there"
            raise InvalidInputError(
                f"{symbol} of {path} must have shape {shape}, as its lists of states, "
                f"inputs and outputs say, but is {there}."
            )
    if value is None:
        raise InvalidInputError(
            f"{path} must have a line '{context}: ...' in its simulation information, "
            "but has none. Name another one with context=."
        )
    return _Model(path, value, names, rotating, matrices)


def _find(part: str, kind: str, model: _Model) -> int:
    """Return the number of the one entry whose description holds a text."""
    labels = model.names[kind]
    places = [i for i, label in enumerate(labels) if part.lower() in label.lower()]
    if not places:
        raise UnknownNameError(f"{kind} of {model.path}", part, labels)
    if len(places) > 1:
        raise InvalidInputError(
            f"{part!r} must name one {kind} of {model.path}, but fits {len(places)}: "
            f"{', '.join(labels[i] for i in places)}."
        )
    return places[0]
