"""Linearisations in files: `.lin` of OpenFAST, and `.mat`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat

from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.spaces import Points
from taskspace.systems.linear.affine import AffineFamily
from taskspace.systems.linear.family import LinearFamily
from taskspace.systems.linear.points import interpolated_family, points_family

Array = NDArray[np.float64]
MATRIX = re.compile(r"^\s*([A-D]):\s*(\d+)\s*x\s*(\d+)\s*$")
ENTRY = re.compile(r"^\s*\d+\s+\S+(?:\s+\S+)*?\s+([TF])\s+(?:\d+\s+)?(\S.*\S)\s*$")
SECTIONS = {
    "continuous states": "state",
    "inputs": "input",
    "outputs": "output",
}


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
    kept = {
        "state": list(range(len(first["state"])))
        if states is None
        else [_find(part, "state", models[0]) for part in states],
        "input": [_find(part, "input", models[0]) for part in inputs],
        "output": [_find(part, "output", models[0]) for part in outputs],
    }
    for model in models:
        for kind, places in kept.items():
            for place in places:
                if model.rotating[kind][place]:
                    raise InvalidInputError(
                        f"{first[kind][place]!r} of {model.path} is in the rotating "
                        "frame, so the plant depends on the azimuth. Apply the "
                        "multi-blade coordinate transform first."
                    )
        x, u, y = kept["state"], kept["input"], kept["output"]
        stacks["D"].append(model.matrices["D"][np.ix_(y, u)])
        stacks["A"].append(model.matrices["A"][np.ix_(x, x)])
        stacks["B"].append(model.matrices["B"][np.ix_(x, u)])
        stacks["C"].append(model.matrices["C"][np.ix_(y, x)])
    name = re.sub(r"\W+", "_", context.strip().lower())
    chosen = {
        kind: tuple(first[kind][place] for place in places)
        for kind, places in kept.items()
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
