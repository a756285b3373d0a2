"""Complexity against tolerance: how many policies as epsilon grows."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.cover.base import Clock, Progress, ProgressCallback
from taskspace.cover.greedy import greedy_cover
from taskspace.cover.minimum import minimum_cover
from taskspace.criteria import criterion_named
from taskspace.errors import InvalidInputError
from taskspace.sets import TargetSets, pack


@dataclass(frozen=True)
class ProfilePoint:
    """Complexity at one tolerance.

    Args:
        epsilon: the tolerance.
        greedy: size of greedy's cover; None where some target has no source.
        lower: no cover of all targets is smaller; None where there is no cover.
        upper: size of the best cover found; None where there is no cover.
        n_uncoverable: targets that no source serves within epsilon.
    """

    epsilon: float
    greedy: int | None
    lower: int | None
    upper: int | None
    n_uncoverable: int

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain JSON values."""
        return asdict(self)


def complexity_profile(
    loss: Any,
    epsilons: Sequence[float] | None = None,
    *,
    n_epsilons: int = 20,
    time_limit: float = 60.0,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> list[ProfilePoint]:
    """Smallest cover of all targets at many tolerances.

    The ends of the range are solved first and then the middles. A cover at one
    tolerance is a cover at every larger one, and a lower bound there is one at every
    smaller one, so that what lies between equal numbers needs no search, and `lower`
    and `upper` never grow with epsilon.

    Args:
        loss: loss matrix `(source, target)`, xarray or NumPy; may hold infinities.
        epsilons: tolerances, `>= 0` unless the loss is of a criterion that allows
            others, as `floor` does; by default spread from the smallest one at which
            a cover exists to the one at which a single source is enough.
        n_epsilons: how many tolerances, where they are not given.
        time_limit: seconds for all together.
        seed: of the random choices.
        progress: called after each tolerance; `best` and `lower_bound` are its own.

    Returns:
        One point for each tolerance, ascending.
    """
    clock = Clock(time_limit)
    matrix = as_loss(loss)
    criterion = getattr(loss, "attrs", {}).get("criterion")
    signed = (
        criterion is not None and criterion_named(criterion).allows_negative_epsilon
    )
    if epsilons is None:
        values = default_epsilons(matrix, n_epsilons, allow_negative=signed)
    else:
        values = np.unique(np.asarray(epsilons, np.float64))
        low = -np.inf if signed else 0.0
        if values.size == 0 or not np.isfinite(values).all() or values[0] < low:
            raise InvalidInputError(
                f"epsilons must be finite numbers{'' if signed else ' >= 0'}, at least "
                f"one, but got {list(epsilons)}."
            )
    profile = _Profile(matrix, values, seed, clock, progress)
    profile.solve()
    return profile.points()


def default_epsilons(
    loss: NDArray[np.float64], n_epsilons: int, *, allow_negative: bool = False
) -> NDArray[np.float64]:
    """Tolerances over the range where the complexity goes from its largest to 1.

    Values of the loss matrix itself, because between two of them the complexity
    cannot change: spread evenly in logarithm as far as they are positive, or evenly
    where negative ones have a meaning.

    Args:
        loss: loss matrix `(source, target)`.
        n_epsilons: how many at most.
        allow_negative: whether a tolerance below zero has a meaning.
    """
    if n_epsilons < 2:
        raise InvalidInputError(f"n_epsilons >= 2 must hold, but got {n_epsilons}.")
    if loss.size == 0:
        return np.zeros(1)
    low = float(loss.min(0).max())
    low = low if allow_negative else max(0.0, low)
    high = float(loss.max(1).min())
    if not np.isfinite(low):
        raise InvalidInputError(
            "Every target must have a source of finite loss, but "
            f"{int(np.isinf(loss.min(0)).sum())} have none. Give epsilons to profile "
            "the others."
        )
    inside = np.unique(loss[(loss >= low) & (loss <= high) & np.isfinite(loss)])
    if not allow_negative:
        inside = inside[inside >= 0]
    if len(inside) <= n_epsilons:
        return inside if len(inside) else np.array([low])
    if allow_negative:
        wanted = np.linspace(inside[0], inside[-1], n_epsilons)
        return np.unique(inside[np.searchsorted(inside, wanted, side="right") - 1])
    floor = max(inside[1] if inside[0] <= 0 else inside[0], 1e-3 * inside[-1])
    wanted = np.geomspace(floor, inside[-1], n_epsilons - 1)
    # geomspace rounds: a trifle more, relative, keeps the values that it means.
    at = np.searchsorted(inside, wanted * (1 + 1e-12), side="right") - 1
    return np.unique(np.concatenate([inside[:1], inside[np.maximum(at, 0)]]))


def as_loss(loss: Any) -> NDArray[np.float64]:
    """A loss matrix as an array `(source, target)`, checked.

    Args:
        loss: xarray with these dims, or a matrix of numbers.
    """
    if hasattr(loss, "dims"):
        if set(loss.dims) != {"source", "target"}:
            raise InvalidInputError(
                f"loss must have the dims (source, target), but got {loss.dims}."
            )
        loss = loss.transpose("source", "target").values
    matrix = np.asarray(loss)
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiu":
        raise InvalidInputError(
            "loss must be a matrix of numbers (source, target), but got "
            f"{matrix.dtype} of shape {matrix.shape}."
        )
    if np.isnan(matrix).any():
        raise InvalidInputError(
            f"loss must hold no NaN, but got {int(np.isnan(matrix).sum())}. "
            "A failed transfer is a loss of inf."
        )
    return matrix


class _Profile:
    """What is known at each tolerance, filled in from the ends to the middles."""

    def __init__(
        self,
        loss: NDArray[np.float64],
        epsilons: NDArray[np.float64],
        seed: int,
        clock: Clock,
        progress: ProgressCallback | None,
    ):
        self.loss, self.epsilons, self.seed = loss, epsilons, seed
        self.clock, self.progress = clock, progress
        best_loss = loss.min(0, initial=np.inf)
        self.n_uncoverable = [int((best_loss > e).sum()) for e in epsilons]
        self.feasible = [k for k, n in enumerate(self.n_uncoverable) if n == 0]
        n = len(epsilons)
        self.greedy: list[int | None] = [None] * n
        self.lower = [0] * n
        self.upper = [loss.shape[0]] * n
        self.n_open = len(self.feasible)

    def solve(self) -> None:
        if not self.feasible:
            return
        first, last = self.feasible[0], self.feasible[-1]
        self._solve_one(last)
        if first < last:
            self._solve_one(first)
            self._solve_between(first, last)

    def _solve_between(self, low: int, high: int) -> None:
        if high - low < 2:
            return
        middle = (low + high) // 2
        self._solve_one(middle)
        self._solve_between(low, middle)
        self._solve_between(middle, high)

    def _solve_one(self, k: int) -> None:
        sets = self._sets(k)
        greedy = greedy_cover(sets)
        self.greedy[k] = greedy.size
        self._learn(k, greedy.lower_bound, greedy.size)
        if self.lower[k] < self.upper[k]:
            share = self.clock.left / self.n_open
            best = minimum_cover(sets, time_limit=share, seed=self.seed)
            self._learn(k, best.lower_bound, best.size)
        self.n_open -= 1
        if self.progress is not None:
            record = self.upper[k], self.lower[k], f"epsilon={self.epsilons[k]:g}"
            self.progress(Progress(self.clock.seconds, *record))

    def _sets(self, k: int) -> TargetSets:
        epsilon = self.epsilons[k]
        rows = range(0, max(1, len(self.loss)), 1024)
        blocks = (self.loss[r : r + 1024] <= epsilon for r in rows)
        return pack(blocks, n_targets=self.loss.shape[1])

    def _learn(self, k: int, lower: float, upper: int) -> None:
        for i in range(k + 1):
            self.lower[i] = max(self.lower[i], int(lower))
        for i in range(k, len(self.upper)):
            self.upper[i] = min(self.upper[i], upper)

    def points(self) -> list[ProfilePoint]:
        return [
            ProfilePoint(
                float(epsilon), self.greedy[k], self.lower[k], self.upper[k], 0
            )
            if missing == 0
            else ProfilePoint(float(epsilon), None, None, None, missing)
            for k, (epsilon, missing) in enumerate(
                zip(self.epsilons, self.n_uncoverable, strict=True)
            )
        ]
