r"""Contexts that are measured: how far the true one may lie from the measured one.

A measured context m stands for every true context θ of the range with
$|\theta_i - m_i| \le \eta_i$ (absolute) or $\eta_i |m_i|$ (relative), axis by axis.
A source serves a measured context if it serves every such θ: of the targets that it
serves, those whose whole window it serves. On a grid windows are products of stretches
of the axes, so one pass along each axis does.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from taskspace._util.decimals import decimal_text
from taskspace._util.files import check_memory
from taskspace._util.threads import over_rows
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.spaces import Grid, Points

__all__ = ["AxisError", "ErrorBounds", "Windows", "coarse_sentence", "windows_of"]

# Units in the last place by which ends of a window are widened: a node whose distance
# is the error up to rounding is within it, whatever the unit.
ULPS = 8.0
# Below this many cells a thread costs more than it gives.
MIN_THREADED_CELLS = 2**18


@final
@dataclass(frozen=True)
class AxisError:
    """The error of one axis: an amount in its unit, or a percentage of what is read.

    Args:
        amount: in the unit of the axis, or in percent; at least 0.
        is_relative: whether it is a percentage, which must stay below 100.
    """

    amount: float
    is_relative: bool = False

    @classmethod
    def of(cls, name: str, value: Any) -> Self:
        """Return the error that a number or a text such as `"5%"` means.

        Args:
            name: of the axis, for messages.
            value: a number, in the unit of the axis; or a text, a number or a
                percentage.
        """
        if isinstance(value, cls):
            return value
        text = value.strip() if isinstance(value, str) else ""
        is_relative = text.endswith("%")
        try:
            if isinstance(value, bool):
                raise TypeError("a truth value")
            amount = float(text.removesuffix("%") if text else value)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"The error of {name} must be a number in its unit or a percentage "
                f"such as '5%', but got {value!r}."
            ) from error
        if not 0 <= amount < (100 if is_relative else math.inf):
            limit = " below 100 %" if is_relative else ""
            raise InvalidInputError(
                f"The error of {name} must be finite and at least 0{limit}, but got "
                f"{value!r}."
            )
        return cls(amount, is_relative)

    @property
    def plain(self) -> float | str:
        """The error as `of` reads it."""
        return f"{self.amount!r}%" if self.is_relative else self.amount

    @property
    def words(self) -> str:
        """The error as people write it."""
        return f"± {self.amount:g}{' %' if self.is_relative else ''}"

    def reach(
        self, measured: NDArray[np.float64], *, rounded: float = 1.0
    ) -> NDArray[np.float64]:
        """Return how far the true value may lie from measured ones.

        Args:
            measured: values that were read.
            rounded: 1 for at least so far, −1 for at most so far.
        """
        size = np.abs(measured)
        reach = self.amount / 100 * size if self.is_relative else self.amount
        slack = ULPS * np.finfo(float).eps * (size + reach)
        return np.maximum(0.0, reach + rounded * slack)


@final
@dataclass(frozen=True)
class ErrorBounds:
    """How far the true context may lie from the measured one, on each axis.

    Args:
        axes: name and error of each axis that errs; the others are read exactly.

    Examples:
        >>> error = ErrorBounds.of({"speed": "5%", "mass": 20.0})
        >>> error.words
        'speed ± 5 %, mass ± 20'
        >>> ErrorBounds.of({"speed": 0}) is None
        True
    """

    axes: tuple[tuple[str, AxisError], ...]

    @classmethod
    def of(cls, error: Any) -> "ErrorBounds | None":
        """Return the error that a mapping states; None where nothing errs.

        Args:
            error: a number or a percentage per axis, an `ErrorBounds`, or None.
        """
        if error is None or isinstance(error, cls):
            return error
        if not isinstance(error, Mapping):
            raise InvalidInputError(
                "error must give a number or a percentage per axis, e.g. "
                f"{{'speed': '5%', 'mass': 20.0}}, but got {error!r}."
            )
        axes = [(str(name), AxisError.of(name, error[name])) for name in error]
        axes = [(name, axis) for name, axis in axes if axis.amount > 0]
        return cls(tuple(axes)) if axes else None

    @property
    def text(self) -> str:
        """The error as questions write it, e.g. `speed=5 %, mass=20`."""
        said = [
            f"{name}={decimal_text(axis.amount)}{' %' * axis.is_relative}"
            for name, axis in self.axes
        ]
        return ", ".join(said)

    @property
    def words(self) -> str:
        """The error as people write it."""
        return ", ".join(f"{name} {axis.words}" for name, axis in self.axes)

    def to_dict(self) -> dict[str, float | str]:
        """Return plain values, which `of` reads."""
        return {name: axis.plain for name, axis in self.axes}

    def times(self, factor: float) -> "ErrorBounds | None":
        """Return the error with every amount multiplied; None for 0.

        Args:
            factor: at least 0.
        """
        return ErrorBounds.of(
            {n: AxisError(factor * a.amount, a.is_relative) for n, a in self.axes}
        )

    def columns(self, names: Sequence[str]) -> list[AxisError | None]:
        """Return the error of each column, None where it is read exactly.

        Args:
            names: of the columns; every axis that errs must be among them.
        """
        errors = dict(self.axes)
        for name in errors:
            if name not in names:
                raise UnknownNameError("context axis with an error", name, names)
        return [errors.get(name) for name in names]

    def dilate(
        self,
        names: Sequence[str],
        low: NDArray[np.float64],
        high: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return boxes that hold every true context of measured boxes.

        Both ends of a window grow with what is measured, because a relative error is
        below 100 %; so the ends of a box give those of all its contexts.

        Args:
            names: of the columns.
            low: lower corners of boxes of measured contexts, `(box, axis)`.
            high: upper corners; equal to `low` for single contexts.
        """
        low, high = low.copy(), high.copy()
        for column, axis in enumerate(self.columns(names)):
            if axis is not None:
                low[:, column] -= axis.reach(low[:, column])
                high[:, column] += axis.reach(high[:, column])
        return low, high

    def measured_range(
        self,
        names: Sequence[str],
        low: NDArray[np.float64],
        high: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the ends of what may be measured while the truth is in a range.

        What is measured beyond the range stands for contexts that the end of the range,
        measured, stands for too; so what holds there holds here.

        Args:
            names: of the columns.
            low: lower corner of the range.
            high: upper corner.
        """
        low, high = low.copy(), high.copy()
        for column, axis in enumerate(self.columns(names)):
            if axis is not None and axis.is_relative:
                share = axis.amount / 100
                low[column] /= 1 + share if low[column] > 0 else 1 - share
                high[column] /= 1 - share if high[column] > 0 else 1 + share
            elif axis is not None:
                low[column] -= axis.amount
                high[column] += axis.amount
        return low, high

    def core(
        self,
        names: Sequence[str],
        low: NDArray[np.float64],
        high: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return ends such that what meets them is within reach of the whole box.

        A box [p, q] holds a true context of *every* measured context of `[low, high]`
        if p ≤ the second and q ≥ the first value returned, on every axis.

        Args:
            names: of the columns.
            low: lower corners of boxes of measured contexts, `(box, axis)`.
            high: upper corners.
        """
        first, last = high.copy(), low.copy()
        for column, axis in enumerate(self.columns(names)):
            if axis is not None:
                first[:, column] -= axis.reach(first[:, column], rounded=-1.0)
                last[:, column] += axis.reach(last[:, column], rounded=-1.0)
        return first, last


@final
@dataclass(frozen=True, eq=False)
class Windows:
    """For each target the targets that may be meant where it is measured.

    Args:
        axes: on a grid, the stretches to look along one after the other: targets
            before and behind each step of the axis, and first and last place of the
            window of each place. Empty for scattered targets.
        offsets: of scattered targets: where the window of each begins in `members`.
        members: the targets of all windows, one after the other.
    """

    axes: tuple[tuple[int, NDArray[np.int64], NDArray[np.int64]], ...]
    offsets: NDArray[np.int64] | None = None
    members: NDArray[np.int32] | None = None

    def erode(self, served: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which targets are served together with all of their window.

        Args:
            served: which targets each source serves, `(source, target)`.
        """
        return ~self.worst(~served)

    def worst(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the largest value of each window.

        Args:
            values: losses, or whether targets are missed, dims `(source, target)`.
        """
        out = np.array(values, order="C")
        in_threads = out.size >= MIN_THREADED_CELLS
        for inner, first, last in self.axes:
            # A window is two stretches of 2^level places, which may overlap.
            level = np.frexp(last - first + 1)[1].astype(np.int64) - 1
            second = last + 1 - 2**level
            grid = out.reshape(len(out), -1, len(first), inner)

            def change(
                a: int, b: int, grid=grid, first=first, second=second, level=level
            ) -> None:
                most = grid[a:b].copy()  # the largest of 2^k places from each on
                for k in range(int(level.max(initial=0)) + 1):
                    at = np.flatnonzero(level == k)
                    grid[a:b, :, at] = np.maximum(
                        most[:, :, first[at]], most[:, :, second[at]]
                    )
                    most = np.maximum(most[:, :, : -(2**k)], most[:, :, 2**k :])

            over_rows(change, len(out), in_threads=in_threads)
        if self.offsets is not None and self.members is not None:
            for row in out:
                row[:] = np.maximum.reduceat(row[self.members], self.offsets[:-1])
        return out


@lru_cache(maxsize=8)
def windows_of(error: ErrorBounds, space: Grid | Points) -> Windows:
    """Return the window of each context of a space: those within the error of it.

    Args:
        error: of the measured context.
        space: the contexts, measured and true ones alike.
    """
    if isinstance(space, Grid):
        axes = []
        for k, axis_error in enumerate(error.columns(space.names)):
            if axis_error is not None:
                values = space.axes[k].values
                reach = axis_error.reach(values)
                first = np.searchsorted(values, values - reach, side="left")
                last = np.searchsorted(values, values + reach, side="right") - 1
                inner = math.prod(space.shape[k + 1 :])
                axes.append((inner, first.astype(np.int64), last.astype(np.int64)))
        return Windows(tuple(axes))
    low, high = error.dilate(space.names, space.points, space.points)
    offsets, members = np.zeros(space.size + 1, np.int64), []
    for k in range(space.size):
        is_near = ((space.points >= low[k]) & (space.points <= high[k])).all(1)
        members.append(np.flatnonzero(is_near).astype(np.int32))
        offsets[k + 1] = offsets[k] + len(members[-1])
        check_memory(4 * int(offsets[k + 1]), "The contexts within the error")
    return Windows((), offsets, np.concatenate([np.zeros(0, np.int32), *members]))


def coarse_sentence(error: ErrorBounds | None, space: Grid | Points | None) -> str:
    """Return a sentence if no context has another within the error, else nothing.

    Args:
        error: of the measured context, None for none.
        space: the targets.
    """
    if error is None or space is None:
        return ""
    windows = windows_of(error, space)
    if windows.members is None:
        alone = all((first == last).all() for _, first, last in windows.axes)
    else:
        alone = len(windows.members) == space.size
    if not alone:
        return ""
    return (
        f"No target has another within the error ({error.words}), so this is the "
        "answer for contexts that are known exactly; certify, or take a finer grid."
    )
