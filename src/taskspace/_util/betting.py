r"""Confidence without assumptions: sequential tests of bounded means, and shares.

**Betting.** Returns are bounded, so a mean can be tested by a game (Waudby-Smith and
Ramdas, *Estimating means of bounded random variables by betting*, 2024). To show that a
mean is at least m, bet on it: the capital $\prod_i (1 + \lambda_i (x_i - m))$ with
$0 \le \lambda_i < 1/m$, each bet chosen before its sample, is a supermartingale if the
mean is below m. By Ville's inequality it ever reaches $1/\alpha$ with probability
$\alpha$ at most, so one may look after every sample and stop when it does.

**Shares.** How often something holds, from independent draws: the lower bound of
Clopper and Pearson, exact for every number of draws.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.errors import InvalidInputError

# Samples of each stream that are taken in one go.
COLUMNS = 32
# Bets, as shares of the largest one, and the share of the capital that each gets.
# Large ones win where nearly every sample is good, as those of a good cover are.
BETS = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.92, 0.985])
SHARES = np.array([0.06, 0.06, 0.06, 0.07, 0.07, 0.08, 0.1, 0.1, 0.15, 0.25])


def check_confidence(confidence: float) -> float:
    """Refuse a confidence that is no probability below 1; returns 1 − confidence.

    Args:
        confidence: e.g. 0.999.
    """
    if not 0 < confidence < 1:
        raise InvalidInputError(
            f"0 < confidence < 1 must hold, but got confidence={confidence}."
        )
    return 1 - confidence


def share_bound(n_good: int, n: int, confidence: float) -> float:
    """Return lower bound on a probability from independent draws (Clopper and Pearson).

    Args:
        n_good: draws that were good.
        n: draws.
        confidence: e.g. 0.999; the bound is above the truth with probability
            `1 - confidence` at most.

    Examples:
        >>> share_bound(687, 687, 0.999) < 0.99 < share_bound(688, 688, 0.999)
        True
    """
    level = check_confidence(confidence)
    if not 0 <= n_good <= n:
        raise InvalidInputError(
            f"0 <= n_good <= n must hold, but got n_good={n_good} and n={n}."
        )
    if n_good == 0:
        return 0.0
    from scipy import stats  # loads slowly, and few certificates need it

    return float(stats.beta.ppf(level, n_good, n - n_good + 1))


class BettingTests:
    """Sequential tests of "the mean is at least m", for many streams side by side.

    A stream ends `is_above` if it was shown that its mean is not below m, `is_below` if
    that it is. Each error has a probability of at most its level, at whatever sample
    one stops; exactly one of the two can be an error.

    The capital is spread over several constant bets beforehand. A mixture of
    supermartingales is one, and it ends within a few samples of the best of them.

    Args:
        threshold: m of each stream, in [0, 1] like the samples.
        above: level of wrongly ending above, one number or one per stream.
        below: level of wrongly ending below.
    """

    def __init__(self, threshold: ArrayLike, *, above: ArrayLike, below: ArrayLike):
        self.threshold = np.atleast_1d(np.asarray(threshold, np.float64))
        n = len(self.threshold)
        levels = [np.broadcast_to(np.asarray(x, float), n) for x in (above, below)]
        inside = (self.threshold >= 0) & (self.threshold <= 1)
        if not inside.all() or not all(((x > 0) & (x < 1)).all() for x in levels):
            raise InvalidInputError(
                "Thresholds must lie in [0, 1] and levels in (0, 1), but got "
                f"thresholds {threshold} and levels {above} and {below}."
            )
        self._goal_above, self._goal_below = (-np.log(x) for x in levels)
        # Logarithm of the capital of each bet, dims (stream, bet).
        self._above = np.tile(np.log(SHARES), (n, 1))
        self._below = np.tile(np.log(SHARES), (n, 1))
        self.n_samples = np.zeros(n, np.int64)
        # A mean of at least 0 needs no sample.
        self.is_above = self.threshold <= 0
        self.is_below = np.zeros(n, np.bool_)

    @property
    def is_open(self) -> NDArray[np.bool_]:
        """Streams that are not decided."""
        return ~(self.is_above | self.is_below)

    def update(
        self, streams: NDArray[np.integer], samples: NDArray[np.float64]
    ) -> None:
        """Take the next samples of some streams, one column after the other.

        Args:
            streams: which ones; those that are decided take no further sample.
            samples: numbers in [0, 1], dims `(stream, sample)`.
        """
        if not ((samples >= 0) & (samples <= 1)).all():
            raise InvalidInputError(
                "Samples must lie in [0, 1], but go from "
                f"{samples.min()} to {samples.max()}."
            )
        for first in range(0, samples.shape[1], COLUMNS):
            going = self.is_open[streams]
            rows = streams[going]
            if not len(rows):
                break
            self._bet(rows, samples[going, first : first + COLUMNS])

    def expected_samples(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return about how many samples each stream takes to end above, and below.

        The capital of each bet is taken to go on growing as it did so far; infinite
        where that of no bet grew.
        """
        expected = []
        for capital, goal in (
            (self._above, self._goal_above),
            (self._below, self._goal_below),
        ):
            won = capital - np.log(SHARES)
            with np.errstate(divide="ignore", invalid="ignore"):
                each = self.n_samples[:, None] * (goal[:, None] - np.log(SHARES)) / won
            expected.append(np.where(won > 0, each, np.inf).min(1))
        return expected[0], expected[1]

    def refute(self, streams: NDArray[np.integer]) -> None:
        """End some streams below: something else than the samples has shown it.

        Args:
            streams: which ones; also those that were decided before.
        """
        self.is_above[streams] = False
        self.is_below[streams] = True

    def _bet(self, rows: NDArray[np.integer], x: NDArray[np.float64]) -> None:
        m = self.threshold[rows, None]
        # The largest bets that no sample ruins are 1/m and 1/(1 − m).
        with np.errstate(divide="ignore"):
            above = BETS / m
            below = np.minimum(BETS / (1 - m), 1e300)  # m = 1: any bet is safe
        gain = (x - m)[:, None, :]
        won = self._above[rows, :, None] + np.log1p(above[:, :, None] * gain).cumsum(2)
        lost = self._below[rows, :, None] + np.log1p(below[:, :, None] * -gain).cumsum(
            2
        )
        is_above = _log_sum(won) >= self._goal_above[rows, None]
        is_below = _log_sum(lost) >= self._goal_below[rows, None]
        # Each stream ends at its first decision and takes nothing after it.
        decided = is_above | is_below
        last = np.where(decided.any(1), decided.argmax(1), x.shape[1] - 1)
        at = np.arange(len(rows))
        self._above[rows] = won[at, :, last]
        self._below[rows] = lost[at, :, last]
        self.is_above[rows] = is_above[at, last]
        self.is_below[rows] = is_below[at, last]
        self.n_samples[rows] += last + 1


def _log_sum(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithm of the sum over the bets."""
    largest = logs.max(1)
    return largest + np.log(np.exp(logs - largest[:, None, :]).sum(1))
