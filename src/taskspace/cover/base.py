"""The result of every cover method, and what the methods share."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.errors import InvalidInputError
from taskspace.sets import TargetSets

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Progress:
    """Where a running search stands.

    Args:
        seconds: time since the search began.
        best: cost of the best cover so far (its size where costs are all 1).
        lower_bound: largest lower bound so far.
        phase: what the search is doing.
    """

    seconds: float
    best: float
    lower_bound: float
    phase: str


ProgressCallback = Callable[[Progress], None]


@dataclass(frozen=True, eq=False)
class Cover:
    """A selection of sources, who serves whom, and what is proven about it.

    Args:
        method: name of the method that made it.
        sources: selected sources, in order of selection.
        assignment: for each target the first selected source that serves it, -1
            where none does.
        coverage: share of all targets that are served.
        uncoverable: targets that no source at all serves.
        size: number of selected sources.
        cost: total cost of the selected sources; the size where costs are all 1.
        lower_bound: no selection that serves as many targets (as much target
            weight) as this one costs less.
        lower_bound_kind: where the bound comes from: `"size"`, `"packing"`,
            `"dual ascent"`, `"greedy dual"`, `"primal-dual"`, `"exact"`,
            `"reductions"`, or `"knapsack"` (of a partial cover).
        optimal: whether the cost equals the lower bound.
        stop_reason: why the method stopped.
        seconds: wall-clock time.
        n_sources: number of sources to choose from.
        n_targets: number of targets.
    """

    method: str
    sources: NDArray[np.int64]
    assignment: NDArray[np.int64]
    coverage: float
    uncoverable: NDArray[np.int64]
    size: int
    cost: float
    lower_bound: float
    lower_bound_kind: str
    optimal: bool
    stop_reason: str
    seconds: float
    n_sources: int
    n_targets: int

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain JSON values."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in values.items()
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The cover that `to_dict` wrote; keys that are not ours are ignored."""
        names = [f.name for f in fields(cls)]
        missing = [name for name in names if name not in values]
        if missing:
            raise InvalidInputError(
                f"A saved cover must have the keys {', '.join(names)}, but "
                f"{', '.join(missing)} are missing."
            )
        known = {name: values[name] for name in names}
        for name in ("sources", "assignment", "uncoverable"):
            try:
                known[name] = np.array(known[name], np.int64).reshape(-1)
            except (TypeError, ValueError, OverflowError) as error:
                raise InvalidInputError(
                    f"{name} of a saved cover must be a list of integers: {error}."
                ) from error
        return cls(**known)

    def save(self, path: str | Path, question: dict[str, Any] | None = None) -> None:
        """Write the cover as JSON.

        Args:
            path: the file.
            question: what the cover answers (criterion, tolerance, ...), plain values
                kept beside it so that the sets can be made again.
        """
        record: dict[str, Any] = {
            "format": "taskspace-cover",
            "version": FORMAT_VERSION,
            "question": question or {},
        }
        Path(path).write_text(json.dumps(record | self.to_dict(), indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote."""
        try:
            record = json.loads(Path(path).read_text())
        except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise InvalidInputError(
                f"{path} must be a cover saved as JSON, but reading it failed: {error}."
            ) from error
        if not isinstance(record, dict) or record.get("format") != "taskspace-cover":
            raise InvalidInputError(
                f"{path} must be a cover saved by taskspace (format "
                "'taskspace-cover'), but it is something else."
            )
        if record.get("version") != FORMAT_VERSION:
            raise InvalidInputError(
                f"{path} must have cover format version {FORMAT_VERSION}, but got "
                f"{record.get('version')!r}. Use the taskspace that wrote it."
            )
        return cls.from_dict(record)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cover):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]


class Clock:
    """Time since it was made, and what is left of a limit.

    Args:
        limit: seconds; None means no limit.
    """

    def __init__(self, limit: float | None = None):
        if limit is not None and not limit >= 0:
            raise InvalidInputError(
                f"time_limit >= 0 must hold, but got time_limit={limit}."
            )
        self._start = time.perf_counter()
        self._limit = float("inf") if limit is None else float(limit)
        self._is_stopped = False

    @property
    def seconds(self) -> float:
        """Time since the clock was made."""
        return time.perf_counter() - self._start

    @property
    def left(self) -> float:
        """Seconds left of the limit, at least 0."""
        return 0.0 if self._is_stopped else max(0.0, self._limit - self.seconds)

    def stop(self) -> None:
        """Leave no more time, for whoever looks at this clock."""
        self._is_stopped = True


def make_cover(
    method: str,
    sets: TargetSets,
    sources: ArrayLike,
    *,
    costs: NDArray[np.float64],
    lower_bound: float,
    lower_bound_kind: str,
    stop_reason: str,
    clock: Clock,
) -> Cover:
    """Fill in everything about a cover that follows from its sources."""
    sources = np.asarray(sources, np.int64).reshape(-1)
    assignment = np.full(sets.n_targets, -1, np.int64)
    for source in sources:
        assignment[sets.row(int(source)) & (assignment < 0)] = source
    n_served = int((assignment >= 0).sum())
    cost = total_cost(costs, sources)
    whole = has_whole_costs(costs)
    if not whole and lower_bound >= cost * (1 - 1e-9):
        lower_bound = cost  # equal as far as sums of floats can tell
    return Cover(
        method=method,
        sources=sources,
        assignment=assignment,
        coverage=n_served / sets.n_targets if sets.n_targets else 1.0,
        uncoverable=np.flatnonzero(~sets.coverable),
        size=len(sources),
        cost=cost,
        lower_bound=int(lower_bound) if whole else float(lower_bound),
        lower_bound_kind=lower_bound_kind,
        optimal=bool(lower_bound >= cost),
        stop_reason=stop_reason,
        seconds=clock.seconds,
        n_sources=sets.n_sources,
        n_targets=sets.n_targets,
    )


def check_costs(costs: ArrayLike | None, n_sources: int) -> NDArray[np.float64]:
    """Costs as an array, all 1 where none are given; positive and finite."""
    if costs is None:
        return np.ones(n_sources)
    array = np.asarray(costs, np.float64)
    if array.shape != (n_sources,):
        raise InvalidInputError(
            f"costs must hold one number for each of {n_sources} sources, but got "
            f"shape {array.shape}."
        )
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise InvalidInputError(
            "0 < cost < inf must hold for every source, but got "
            f"costs from {array.min()} to {array.max()}."
        )
    return array


def has_whole_costs(costs: NDArray[np.float64]) -> bool:
    """Whether every cost is an integer, so that bounds may be rounded up."""
    return bool((costs == np.floor(costs)).all() and costs.sum() < 2**53)


def total_cost(costs: NDArray[np.float64], sources: NDArray[np.int64]) -> float:
    """Cost of a selection; an `int` where all costs are integers."""
    total = float(np.sum(costs[sources]))
    return int(total) if has_whole_costs(costs) else total
