"""Context spaces Θ: the finite sets of contexts that sources and targets come from.

A context is a vector of named parameters (mass, stiffness, pole length). A space
is a finite list of them: a `Grid` over a box, or `Points` in any arrangement.
Points are numbered in C order: the last axis of a grid runs fastest. Two spaces are
equal when they have the same names and the same contexts in the same order.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.errors import (
    InvalidInputError,
    TaskspaceError,
    UnknownNameError,
    require,
)

MAX_CONTEXTS = 10**9  # the contexts of a larger space alone would fill the memory

EVENNESS = 1e-9  # how far from even steps values may lie, as a share of the axis

Scale = Literal["linear", "log", "uneven"]


@final
class Axis:
    """One axis of a grid: `n` values from `low` to `high`, or the values themselves.

    Args:
        name: name of the context parameter.
        low: smallest value.
        high: largest value; equal to `low` exactly when `n` is 1.
        n: number of values.
        scale: `"linear"` for equal steps, `"log"` for equal ratios.
        unit: unit of the values, for labels only.
        values: the values themselves, ascending, in place of `low`, `high`, `n`. Their
            scale is found: `"linear"`, `"log"`, or `"uneven"` for any other.

    Examples:
        >>> Axis("mass", values=[1, 3, 5]).scale
        'linear'
    """

    name: str
    low: float
    high: float
    n: int
    scale: Scale
    unit: str
    is_explicit: bool  # made from its values

    def __init__(
        self,
        name: str,
        low: float | None = None,
        high: float | None = None,
        n: int | None = None,
        scale: str = "linear",
        unit: str = "",
        *,
        values: ArrayLike | None = None,
    ):
        if not isinstance(name, str) or not name.strip():
            raise InvalidInputError(
                f"The name of an axis must be text, but got {name!r}."
            )
        self.name, self.unit = name, unit
        self.is_explicit = values is not None
        if values is not None:
            if not (low is high is n is None) or scale != "linear":
                raise InvalidInputError(
                    f"axis {name!r} must have either values or (low, high, n), but "
                    "got both."
                )
            self.values = _explicit_values(name, values)
            self.low, self.high = self.values[[0, -1]].tolist()
            self.n, self.scale = len(self.values), _scale_of(self.values)
        else:
            self.low, self.high, self.n = _ends(name, low, high, n)
            self.scale = _checked_scale(name, self.low, self.high, self.n, scale)

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """The values of the axis, ascending, shape `(n,)`."""
        spread = np.geomspace if self.scale == "log" else np.linspace
        values = spread(self.low, self.high, self.n)
        values.flags.writeable = False
        return values

    def to_dict(self) -> dict[str, Any]:
        """`low`, `high`, `n` and `scale`, or `values` if it was made from them."""
        if self.is_explicit:
            return {"values": self.values.tolist()}
        return {"low": self.low, "high": self.high, "n": self.n, "scale": self.scale}

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Axis)
            and self.name == other.name
            and np.array_equal(self.values, other.values)
        )

    def __hash__(self) -> int:
        return hash((self.name, self.values.tobytes()))

    def __repr__(self) -> str:
        return f"Axis({self.name!r}, {self.described})"

    @property
    def described(self) -> str:
        """Its values as `Grid` takes them."""
        if self.is_explicit:
            few = ", ".join(f"{v:g}" for v in self.values[:6])
            return f"[{few}{', …' if self.n > 6 else ''}]"
        scale = ", 'log'" if self.scale == "log" else ""
        return f"({self.low}, {self.high}, {self.n}{scale})"


def _explicit_values(name: str, values: ArrayLike) -> NDArray[np.float64]:
    where = f"axis {name!r}"
    try:
        array = np.array(values)
        if array.dtype.kind not in "fiu":
            raise ValueError("not numbers")
        array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"The values of {where} must be numbers, but got {values!r}."
        ) from error
    if array.ndim != 1 or not len(array):
        raise InvalidInputError(
            f"The values of {where} must be a list of at least one, but got {values!r}."
        )
    array += 0.0  # −0 is 0
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        raise InvalidInputError(
            f"The values of {where} must be finite, but number {bad[0] + 1} is "
            f"{array[bad[0]]}."
        )
    wrong = np.flatnonzero(array[1:] <= array[:-1])
    if len(wrong):
        first, then = array[wrong[0] : wrong[0] + 2].tolist()
        raise InvalidInputError(
            f"The values of {where} must ascend and differ, but {first:g} is followed "
            f"by {then:g}. For equal steps give a tuple: {name}=(low, high, n)."
        )
    array.flags.writeable = False
    return array


def _scale_of(values: NDArray[np.float64]) -> Scale:
    """Return the scale on which values have equal steps, whatever their unit."""
    if len(values) < 3 or _is_even(values):
        return "linear"
    if values[0] > 0 and _is_even(np.log(values)):
        return "log"
    return "uneven"


def _is_even(values: NDArray[np.float64]) -> bool:
    low, high = values[0] / 2, values[-1] / 2  # halves: the span cannot overflow
    even = np.linspace(low, high, len(values))
    return bool(np.abs(values / 2 - even).max() <= EVENNESS * (high - low))


def _ends(name: str, low: Any, high: Any, n: Any) -> tuple[float, float, int]:
    where = f"axis {name!r}"
    try:
        low, high = float(low), float(high)
        count = int(n)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"{where} must be (low, high, n), but got ({low!r}, {high!r}, {n!r})."
        ) from error
    if isinstance(n, bool | str) or count != n or not 1 <= count <= MAX_CONTEXTS:
        raise InvalidInputError(
            f"{where} must have at least one point and at most {MAX_CONTEXTS:,}, but "
            f"got n={n!r}."
        )
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InvalidInputError(
            f"low and high of {where} must be finite, but got ({low}, {high})."
        )
    if (count == 1) != (low == high) or low > high:
        raise InvalidInputError(
            f"low < high must hold on {where} (low == high for a single point), "
            f"but got low={low}, high={high}, n={n}."
        )
    return low, high, count


def _checked_scale(name: str, low: float, high: float, n: int, scale: str) -> Scale:
    where = f"axis {name!r}"
    if scale == "linear":
        step = (high - low) / max(n - 1, 1)
        room = 2 * float(np.spacing(max(abs(low), abs(high))))
    elif scale == "log":
        if low <= 0:
            raise InvalidInputError(
                f"A log axis must have low > 0, but {where} has low={low}."
            )
        step = (math.log(high) - math.log(low)) / max(n - 1, 1)
        room = 4 * float(np.finfo(float).eps)
    else:
        raise UnknownNameError("axis scale", scale, ["linear", "log"])
    if n > 1 and not (room <= step < math.inf):
        raise InvalidInputError(
            f"The values of {where} must differ and be finite, but {n} values from "
            f"{low} to {high} are a step of {step:g} apart."
        )
    return scale


class Space(ABC):
    """A finite list of contexts: a `Grid`, or `Points`.

    Attributes:
        names: names of the context parameters, one per column of `points`.
        size: how many contexts there are.
    """

    names: tuple[str, ...]
    size: int

    @property
    @abstractmethod
    def points(self) -> NDArray[np.float64]:
        """All contexts, shape `(size, len(names))`; the last axis of a grid fastest."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return plain values, from which `space_from_dict` makes the same space."""

    def context(self, index: int) -> dict[str, float]:
        """Return the context with this index, by name.

        Args:
            index: its number, from 0.
        """
        return dict(zip(self.names, self.points[index].tolist(), strict=True))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Space)
            and self.names == other.names
            and self.size == other.size
            and np.array_equal(self.points, other.points)
        )

    def __hash__(self) -> int:
        return hash((self.names, (self.points + 0.0).tobytes()))  # −0 is 0


@final
class Grid(Space):
    """All combinations of the values of some axes.

    Args:
        axes: one keyword per axis, in the order of the columns: a tuple
            `(low, high, n)` or `(low, high, n, "log")`; a list of the values
            themselves; or an `Axis`.

    Examples:
        >>> grid = Grid(k=(0.1, 8.0, 3), c=(1.0, 2.0, 2))
        >>> grid.size, grid.shape
        (6, (3, 2))
        >>> grid.context(1)
        {'k': 0.1, 'c': 2.0}
        >>> Grid(mass=[1, 3, 10]).points.ravel().tolist()
        [1.0, 3.0, 10.0]
    """

    def __init__(self, /, **axes: "tuple[Any, ...] | Sequence[float] | NDArray | Axis"):
        if not axes:
            raise InvalidInputError("A Grid needs at least one axis, but got none.")
        self.axes: tuple[Axis, ...] = tuple(
            _as_axis(name, value) for name, value in axes.items()
        )
        self.names = tuple(axis.name for axis in self.axes)
        self.shape: tuple[int, ...] = tuple(axis.n for axis in self.axes)
        self.size = math.prod(self.shape)
        if self.size > MAX_CONTEXTS:
            raise InvalidInputError(
                f"A grid must have at most {MAX_CONTEXTS:,} contexts, but {self} has "
                f"{self.size:,}."
            )

    @cached_property
    def points(self) -> NDArray[np.float64]:  # pyright: ignore
        """All contexts, shape `(size, n_axes)`; the last axis runs fastest."""
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

    def to_dict(self) -> dict[str, Any]:
        """Return one entry per axis, which `space_from_dict` reads.

        `[low, high, n, scale]`; but a table for every axis if one has explicit values,
        because TOML puts tables last and the order of axes numbers the contexts.
        """
        plain = {axis.name: axis.to_dict() for axis in self.axes}
        if any(axis.is_explicit for axis in self.axes):
            return plain
        return {name: list(values.values()) for name, values in plain.items()}

    def __repr__(self) -> str:
        axes = ", ".join(f"{axis.name}={axis.described}" for axis in self.axes)
        return f"Grid({axes})"


class Points(Space):
    """Any finite list of contexts.

    Args:
        names: names of the parameters, one per column.
        points: shape `(size, len(names))`, or `(size,)` for one parameter.

    Examples:
        >>> Points(["mass"], [1.0, 2.0, 5.0]).size
        3
    """

    def __init__(self, names: Sequence[str], points: ArrayLike):
        self.names: tuple[str, ...] = tuple(names)
        texts = [n for n in self.names if isinstance(n, str) and n.strip()]
        if isinstance(names, str) or len(texts) < len(self.names):
            raise InvalidInputError(f"Names must be a list of texts, but got {names}.")
        try:
            array = np.array(points, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInputError(
                f"Points must be numbers, one row per context, but: {error}."
            ) from error
        if array.ndim == 1:
            array = array[:, None]
        if array.ndim != 2 or array.shape[0] == 0 or array.shape[1] != len(self.names):
            raise InvalidInputError(
                "Points must have one row per context (at least one) and one column "
                f"per name, but got shape {array.shape} for names {self.names}."
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
        self._points, self.size = array, len(array)

    @property
    def points(self) -> NDArray[np.float64]:
        """All contexts, shape `(size, len(names))`."""
        return self._points

    def to_dict(self) -> dict[str, Any]:
        """`{"names": [...], "points": [[...], ...]}`."""
        return {"names": list(self.names), "points": self.points.tolist()}

    def __repr__(self) -> str:
        return f"Points({list(self.names)}, <{self.size} contexts>)"


def log_axes_of(space: Space) -> list[bool]:
    """Return which axes are logarithmic, which only those of a grid can be.

    Args:
        space: contexts.
    """
    axes = space.axes if isinstance(space, Grid) else ()
    return [axis.scale == "log" for axis in axes] or [False] * len(space.names)


@dataclass(frozen=True, eq=False)
class Reach:
    """A range of contexts whose logarithmic axes are measured in logarithms.

    Args:
        low: lower corner.
        high: upper corner.
        is_log: which axes are logarithmic.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    is_log: NDArray[np.bool_]

    def at(self, share: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return contexts at shares of the width of each axis; 0 is low, 1 is high.

        Args:
            share: `(…, axis)`.
        """
        low, high = self._straight(self.low), self._straight(self.high)
        rows = low + (high - low) * share
        rows[..., self.is_log] = np.exp(rows[..., self.is_log])
        within = (share >= 0) & (share <= 1)
        return np.where(within, np.clip(rows, self.low, self.high), rows)

    def share(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the inverse of `at`; 0 on an axis without width.

        Args:
            rows: contexts, `(…, axis)`.
        """
        low = self._straight(self.low)
        width = self._straight(self.high) - low
        return (self._straight(rows) - low) / np.where(width > 0, width, 1.0)

    def _straight(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return contexts with logarithms on logarithmic axes."""
        rows = np.array(rows, np.float64)
        rows[..., self.is_log] = np.log(rows[..., self.is_log])
        return rows


def grid_of(space: Space | None) -> Grid | None:
    """Return the grid that some contexts are, None if they are none.

    They must be all combinations of the values of their axes, exactly, in the order
    of a grid: ascending, the last axis fastest. Steps need not be even. The grid has
    the same contexts to the last bit.

    Args:
        space: contexts, or None where there are none.

    Examples:
        >>> grid_of(Points(["a", "b"], [[1, 0], [1, 4], [2, 0], [2, 4]]))
        Grid(a=(1.0, 2.0, 2), b=(0.0, 4.0, 2))
        >>> grid_of(Points(["a"], [1, 2, 5]))
        Grid(a=[1, 2, 5])
    """
    if space is None or isinstance(space, Grid):
        return space
    values = [np.unique(column) for column in space.points.T]
    if math.prod(map(len, values)) != space.size:
        return None
    grid = Grid(
        **{n: _simplest_axis(n, v) for n, v in zip(space.names, values, strict=True)}
    )
    return grid if np.array_equal(grid.points, space.points) else None


def _simplest_axis(name: str, values: NDArray[np.float64]) -> Axis:
    """Return an axis with these values: by its ends where that gives the same bits."""
    explicit = Axis(name, values=values)
    try:
        axis = Axis(name, explicit.low, explicit.high, explicit.n, explicit.scale)
    except TaskspaceError:  # uneven, or too close together
        return explicit
    return axis if axis == explicit else explicit


def space_from_dict(values: Mapping[str, Any]) -> Grid | Points:
    """Return the space that `to_dict` described: a grid, or a list of points.

    Args:
        values: one entry per axis, `[low, high, n]`, `[low, high, n, "log"]`, the same
            by name, or `{"values": [...]}`; or `names` and `points`.
    """
    if set(values) == {"names", "points"}:
        return Points(values["names"], values["points"])
    return Grid(**{name: _plain_axis(name, value) for name, value in values.items()})


def _plain_axis(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        keys = set(value) - {"scale"}
        if keys not in ({"values"}, {"low", "high", "n"}):
            raise InvalidInputError(
                f"Axis {name!r} must be [low, high, n] or {{values = [...]}}, but got "
                f"the keys {', '.join(map(str, value)) or 'of an empty table'}."
            )
        return Axis(name, **value)
    return tuple(value) if isinstance(value, list) else value


def _as_axis(name: str, value: Any) -> Axis:
    if isinstance(value, Axis):
        if value.name != name:
            raise InvalidInputError(
                f"The axis given as {name!r} calls itself {value.name!r}."
            )
        return value
    if isinstance(value, tuple) and len(value) in (3, 4):
        return Axis(name, *value)
    if isinstance(value, list | range | np.ndarray):
        return Axis(name, values=value)
    raise InvalidInputError(
        f"Axis {name!r} must be (low, high, n), (low, high, n, 'log') or a list of "
        f"values, but got {value!r}."
    )


def require_space(space: Space) -> None:
    """Refuse what is no space, in words.

    Args:
        space: what a caller gave.
    """
    require(space, Space, "a space, e.g. ts.Grid(k=(0.1, 8.0, 20))")
