"""Numbers of several seeds, told with their uncertainty (Agarwal et al. 2021)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from taskspace.errors import InvalidInputError


@dataclass(frozen=True)
class Summary:
    """Several values of one quantity, one per seed.

    Args:
        n: how many values.
        mean: their mean.
        interquartile_mean: mean of the middle half.
        low: lower end of the interval of the interquartile mean.
        high: upper end.
    """

    n: int
    mean: float
    interquartile_mean: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the interquartile mean with its interval, and the number of seeds."""
        ends = f"{self.low:,.4g} to {self.high:,.4g}"
        return f"{self.interquartile_mean:,.4g} ({ends}, {self.n} seeds)"


def summarise(values: ArrayLike, *, level: float = 0.95, seed: int = 0) -> Summary:
    """Return mean and interquartile mean, with a bootstrap interval over seeds.

    The interval is the percentile bootstrap; of few seeds it is too narrow, and of one
    it is a point.

    Args:
        values: one per seed, finite.
        level: of the interval.
        seed: of the resampling.

    Example:
        >>> summarise([1.0, 2.0, 3.0, 100.0]).interquartile_mean
        2.5
    """
    array = np.asarray(values, np.float64)
    if array.ndim != 1 or not array.size or not np.isfinite(array).all():
        raise InvalidInputError(
            f"Values must be finite numbers, one per seed, but got {values!r}."
        )

    def middle(sample: ArrayLike, axis: int = -1) -> np.ndarray:
        return stats.trim_mean(sample, 0.25, axis=axis)

    centre = float(middle(array))
    low, high = centre, centre
    if array.size > 1 and np.ptp(array) > 0:
        interval = stats.bootstrap(
            (array,),
            middle,
            confidence_level=level,
            n_resamples=2000,
            method="percentile",
            rng=np.random.default_rng(seed),
        ).confidence_interval
        low, high = float(interval.low), float(interval.high)
    return Summary(array.size, float(array.mean()), centre, low, high)


def probability_of_improvement(ours: ArrayLike, theirs: ArrayLike) -> float:
    """Return the chance that a value of ours is smaller than one of theirs.

    A tie counts half: the Mann-Whitney statistic divided by the number of pairs.

    Args:
        ours: costs, one per seed.
        theirs: costs of another method, one per seed.

    Example:
        >>> probability_of_improvement([1, 2], [2, 3])
        0.875
    """
    a, b = np.asarray(ours, float)[:, None], np.asarray(theirs, float)[None]
    return float(((a < b) + 0.5 * (a == b)).mean())
