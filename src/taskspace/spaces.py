"""Context spaces Θ: the finite sets of contexts that sources and targets come from.

A context is a vector of named parameters (mass, stiffness, pole length). A space
is a finite list of them: a `Grid` over a box, or `Points` in any arrangement.
Points are numbered in C order: the last axis of a grid runs fastest.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.errors import InvalidInputError, UnknownNameError

__all__ = ["Axis", "Grid", "Points", "Space"]


class Space(Protocol):
    """What the rest of taskspace asks of a set of contexts."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the context parameters, one a column of `points`."""
        ...

    @property
    def points(self) -> NDArray[np.float64]:
        """All contexts, shape `(size, len(names))`."""
        ...

    @property
    def size(self) -> int:
        """How many contexts there are."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Plain values that make the same space again."""
        ...


@dataclass(frozen=True)
class Axis:
    """One axis of a grid: `n` values from `low` to `high`, both included.

    Args:
        name: name of the context parameter.
        low: smallest value.
        high: largest value; equal to `low` exactly when `n` is 1.
        n: number of values.
        scale: `"linear"` for equal steps, `"log"` for equal ratios.
        unit: unit of the values, for labels only.
    """

    name: str
    low: float
    high: float
    n: int
    scale: Literal["linear", "log"] = "linear"
    unit: str = ""

    def __post_init__(self):
        where = f"axis {self.name!r}"
        if not self.name.isidentifier():
            raise InvalidInputError(
                f"The name of an axis must be a Python identifier, but got {where}."
            )
        if isinstance(self.n, bool) or int(self.n) != self.n or self.n < 1:
            raise InvalidInputError(
                f"{where} must have at least one point, but got n={self.n!r}."
            )
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise InvalidInputError(
                f"low and high of {where} must be finite, but got "
                f"({self.low}, {self.high})."
            )
        if (self.n == 1) != (self.low == self.high) or self.low > self.high:
            raise InvalidInputError(
                f"low < high must hold on {where} (low == high for a single point), "
                f"but got low={self.low}, high={self.high}, n={self.n}."
            )
        if self.scale not in ("linear", "log"):
            raise UnknownNameError("axis scale", self.scale, ["linear", "log"])
        if self.scale == "log" and self.low <= 0:
            raise InvalidInputError(
                f"A log axis must have low > 0, but {where} has low={self.low}."
            )
        object.__setattr__(self, "n", int(self.n))
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """The values of the axis, ascending, shape `(n,)`."""
        spread = np.geomspace if self.scale == "log" else np.linspace
        return spread(self.low, self.high, self.n)

    @property
    def spacing(self) -> float:
        """The largest step between two neighbouring values; 0 for one point."""
        return float(np.diff(self.values).max()) if self.n > 1 else 0.0


class Grid:
    """All combinations of the values of some axes.

    Args:
        axes: one keyword an axis, in the order of the columns: `(low, high, n)`,
            `(low, high, n, "log")`, or an `Axis`.

    Example:
        >>> grid = Grid(k=(0.1, 8.0, 3), c=(1.0, 2.0, 2))
        >>> grid.size, grid.shape
        (6, (3, 2))
        >>> grid.context(1)
        {'k': 0.1, 'c': 2.0}
    """

    def __init__(self, **axes: "Sequence[Any] | Axis"):
        if not axes:
            raise InvalidInputError("A Grid needs at least one axis, but got none.")
        self.axes: tuple[Axis, ...] = tuple(
            _as_axis(name, value) for name, value in axes.items()
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the axes, in order."""
        return tuple(axis.name for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values on each axis."""
        return tuple(axis.n for axis in self.axes)

    @property
    def size(self) -> int:
        """Number of contexts."""
        return math.prod(self.shape)

    @property
    def points(self) -> NDArray[np.float64]:
        """All contexts in C order, shape `(size, n_axes)`."""
        return self._points

    @cached_property
    def _points(self) -> NDArray[np.float64]:
        mesh = np.meshgrid(*(axis.values for axis in self.axes), indexing="ij")
        return np.stack([m.ravel() for m in mesh], axis=1)

    @property
    def low(self) -> NDArray[np.float64]:
        """Lower corner of the box."""
        return np.array([axis.low for axis in self.axes])

    @property
    def high(self) -> NDArray[np.float64]:
        """Upper corner of the box."""
        return np.array([axis.high for axis in self.axes])

    @property
    def spacing(self) -> NDArray[np.float64]:
        """Largest step on each axis."""
        return np.array([axis.spacing for axis in self.axes])

    @property
    def half_cell_diagonal(self) -> float:
        """δ: no context of the box is farther than this from the nearest node."""
        return float(np.linalg.norm(self.spacing) / 2)

    @property
    def volume(self) -> float:
        """Volume of the box (zero if an axis has a single point)."""
        return float(np.prod(self.high - self.low))

    @property
    def diameter(self) -> float:
        """Length of the box's diagonal."""
        return float(np.linalg.norm(self.high - self.low))

    def context(self, index: int) -> dict[str, float]:
        """The context with this number, by name."""
        return dict(zip(self.names, self.points[index].tolist(), strict=True))

    def contains(self, contexts: ArrayLike) -> NDArray[np.bool_]:
        """Which contexts, shape `(..., n_axes)`, lie in the closed box."""
        contexts = np.asarray(contexts, float)
        return np.asarray(((contexts >= self.low) & (contexts <= self.high)).all(-1))

    def nearest(self, contexts: ArrayLike) -> NDArray[np.intp]:
        """Number of the node nearest to each context, ties to the lower node.

        Args:
            contexts: shape `(..., n_axes)`, inside or outside the box.
        """
        contexts = np.asarray(contexts, float)
        indices = []
        for axis, x in zip(self.axes, np.moveaxis(contexts, -1, 0), strict=True):
            middle = (axis.values[1:] + axis.values[:-1]) / 2
            indices.append(np.searchsorted(middle, x, side="left"))
        return np.asarray(np.ravel_multi_index(tuple(indices), self.shape))

    def subgrid(self, *counts: int) -> NDArray[np.intp]:
        """Numbers of an evenly spread sub-grid.

        Each axis of `n` values is cut into `count` equal stretches and the middle
        value of each is taken, so one count of 1 is the centre and `n` is all.

        Args:
            counts: values to keep on each axis, from 1 to its `n`.

        Returns:
            Ascending indices into `points`, `prod(counts)` of them.
        """
        if len(counts) != len(self.axes):
            raise InvalidInputError(
                f"subgrid needs one count an axis ({len(self.axes)}), got {counts}."
            )
        for axis, count in zip(self.axes, counts, strict=True):
            if not 1 <= count <= axis.n:
                raise InvalidInputError(
                    f"1 <= count <= {axis.n} must hold on axis {axis.name!r}, "
                    f"but got {count}."
                )
        return subgrid_indices(self.shape, counts)

    def to_dict(self) -> dict[str, Any]:
        """`{name: [low, high, n, scale]}`, which `space_from_dict` reads."""
        return {a.name: [a.low, a.high, a.n, a.scale] for a in self.axes}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grid) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.axes)

    def __repr__(self) -> str:
        axes = ", ".join(f"{a.name}=({a.low}, {a.high}, {a.n})" for a in self.axes)
        return f"Grid({axes})"


class Points:
    """Any finite list of contexts.

    Args:
        names: names of the parameters, one a column.
        points: shape `(size, len(names))`, or `(size,)` for one parameter.

    Example:
        >>> Points(["mass"], [1.0, 2.0, 5.0]).size
        3
    """

    def __init__(self, names: Sequence[str], points: ArrayLike):
        self.names: tuple[str, ...] = tuple(names)
        array = np.array(points, dtype=np.float64)
        if array.ndim == 1:
            array = array[:, None]
        if array.ndim != 2 or array.shape[0] == 0 or array.shape[1] != len(self.names):
            raise InvalidInputError(
                "Points must have one row a context (at least one) and one column a "
                f"name, but got shape {np.shape(points)} for names {self.names}."
            )
        if len(set(self.names)) < len(self.names):
            raise InvalidInputError(f"Names must differ, but got {self.names}.")
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            row, column = bad[0]
            raise InvalidInputError(
                f"Contexts must be finite, but row {row} has "
                f"{self.names[column]}={array[row, column]}."
            )
        array.flags.writeable = False
        self.points: NDArray[np.float64] = array

    @property
    def size(self) -> int:
        """Number of contexts."""
        return len(self.points)

    def context(self, index: int) -> dict[str, float]:
        """The context with this number, by name."""
        return dict(zip(self.names, self.points[index].tolist(), strict=True))

    def nearest(self, contexts: ArrayLike) -> NDArray[np.intp]:
        """Number of the point nearest to each context, ties to the lower number."""
        contexts = np.asarray(contexts, float)
        distance = np.linalg.norm(contexts[..., None, :] - self.points, axis=-1)
        return np.asarray(distance.argmin(-1))

    def to_dict(self) -> dict[str, Any]:
        """`{"names": [...], "points": [[...], ...]}`."""
        return {"names": list(self.names), "points": self.points.tolist()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Points) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.names, self.points.tobytes()))

    def __repr__(self) -> str:
        return f"Points({list(self.names)}, <{self.size} contexts>)"


def subgrid_indices(shape: Sequence[int], counts: Sequence[int]) -> NDArray[np.intp]:
    """Evenly spread points of a grid: the middle of each of `counts` stretches.

    Args:
        shape: points on each axis of the grid, last axis fastest.
        counts: points to keep on each axis.

    Returns:
        Ascending indices, `prod(counts)` of them.
    """
    kept = [
        (2 * np.arange(count) + 1) * n // (2 * count)
        for n, count in zip(shape, counts, strict=True)
    ]
    mesh = np.meshgrid(*kept, indexing="ij")
    return np.ravel_multi_index(tuple(mesh), tuple(shape)).ravel()


def space_from_dict(values: Mapping[str, Any]) -> Grid | Points:
    """The space that `to_dict` described: a grid, or a list of points."""
    if set(values) == {"names", "points"}:
        return Points(values["names"], values["points"])
    return Grid(**values)


def _as_axis(name: str, value: "Sequence[Any] | Axis") -> Axis:
    if isinstance(value, Axis):
        if value.name != name:
            raise InvalidInputError(
                f"The axis given as {name!r} calls itself {value.name!r}."
            )
        return value
    try:
        low, high, n, *scale = value
        return Axis(name, float(low), float(high), n, *scale)
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(
            f"Axis {name!r} must be (low, high, n) or (low, high, n, 'log'), "
            f"but got {value!r}."
        ) from error
