"""Which tolerances to look at: values of the losses themselves, or round numbers."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from taskspace._util.threads import over_rows
from taskspace.cover.tolerance.thresholds import BLOCK_CELLS, Losses, MatrixLosses
from taskspace.errors import InvalidInputError

__all__ = ["default_epsilons", "round_epsilons", "round_numbers"]

N_PLACES = 2**15
"""From how many places the search for a tolerance may begin; see `_largest_up_to`."""
ROUND = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)


def default_epsilons(
    loss: Any, n_epsilons: int, *, allow_negative: bool = False
) -> NDArray[np.float64]:
    """Return tolerances over the range where the complexity goes from its largest to 1.

    Values of the losses themselves, because between two of them the complexity cannot
    change: spread evenly in logarithm as far as they are positive, or evenly where
    negative ones have a meaning.

    Args:
        loss: loss matrix `(source, target)`, or `Losses`.
        n_epsilons: how many at most.
        allow_negative: whether a tolerance below zero has a meaning.
    """
    if n_epsilons < 2:
        raise InvalidInputError(f"n_epsilons >= 2 must hold, but got {n_epsilons}.")
    losses = loss if isinstance(loss, Losses) else MatrixLosses(loss)
    if losses.n_sources * losses.n_targets == 0:
        return np.zeros(1)
    low, high = float(losses.best.max()), losses.single
    low = low if allow_negative else max(0.0, low)
    if not np.isfinite(low):
        raise InvalidInputError(
            "Every target must have a source of finite loss, but "
            f"{int(np.isinf(losses.best).sum())} have none. Give epsilons to profile "
            "the others."
        )
    values = _values_between(losses, low, high, n_epsilons)
    if len(values) <= n_epsilons:
        return values if len(values) else np.array([low])
    # Now `values` are the two smallest, others, and the largest.
    first, second, last = values[0], values[1], values[-1]
    if allow_negative:
        wanted = np.linspace(first, last, n_epsilons)
    else:
        floor = max(second if first <= 0 else first, 1e-3 * last)
        # geomspace rounds: a trifle more, relative, keeps the values that it means.
        wanted = np.geomspace(floor, last, n_epsilons - 1) * (1 + 1e-12)
    bounds = np.full(len(wanted), first)
    places = np.searchsorted(wanted, np.linspace(first, last, N_PLACES))
    for block in losses.blocks():
        parts: list[NDArray[np.float64]] = []

        def kernel(a: int, b: int, block=block, parts=parts) -> None:
            part = np.full(len(wanted), first)
            _largest_up_to(block[a:b].ravel(), wanted, places, last, part)
            parts.append(part)

        over_rows(kernel, len(block), in_threads=block.size > BLOCK_CELLS)
        bounds = np.max([bounds, *parts], axis=0)
    return np.unique(np.append(np.maximum.accumulate(bounds), first))


def _values_between(
    losses: Losses, low: float, high: float, n_most: int
) -> NDArray[np.float64]:
    """Finite losses in `[low, high]`, distinct and sorted, or some if there are many.

    Those some are more than `n_most`, and the two smallest and the largest are there.
    """
    seen = np.zeros(0)
    for block in losses.blocks():
        if len(seen) > n_most:
            ends = np.array(_two_least_and_largest(block.ravel(), low, high))
            inside = ends[np.isfinite(ends)]
        else:
            inside = block[(block >= low) & (block <= high) & np.isfinite(block)]
        seen = np.union1d(seen, inside)
        if len(seen) > n_most + 3:
            seen = np.append(seen[: n_most + 2], seen[-1])
    return seen


@njit(cache=True, nogil=True)
def _two_least_and_largest(values, low, high):
    """Return the two least distinct finite values in `[low, high]`, and the largest."""
    least, second, largest = np.inf, np.inf, -np.inf
    for value in values:
        if low <= value <= high and value < np.inf:
            if value < least:
                least, second = value, least
            elif least < value < second:
                second = value
            if value > largest:
                largest = value
    return least, second, largest


@njit(cache=True, nogil=True)
def _largest_up_to(values, wanted, places, last, found):
    """Raise `found[k]` to the largest value in `(wanted[k − 1], wanted[k]]`.

    `found` holds the least value at first; `places` has the k of values spread evenly
    from there to the last one, where the search for k begins.
    """
    least = found[0]
    scale = (len(places) - 1) / (last - least)
    is_normal = 0 < scale < np.inf  # else the range is too wide, or too narrow
    for value in values:
        if least < value <= last:
            k = places[int((value - least) * scale)] if is_normal else 0
            while k > 0 and wanted[k - 1] >= value:
                k -= 1
            while k < len(wanted) and wanted[k] < value:
                k += 1
            if k < len(wanted) and value > found[k]:
                found[k] = value


def round_epsilons(
    losses: MatrixLosses,
    asked: Iterable[float] = (),
    *,
    n_epsilons: int = 40,
    allow_negative: bool = False,
) -> NDArray[np.float64]:
    """Return round tolerances over the range where the answer changes.

    From where every target has a source (or a thousandth of the other end) to where
    one source is enough.

    Args:
        losses: the losses.
        asked: tolerances that must be among them.
        n_epsilons: about how many.
        allow_negative: whether a tolerance below zero has a meaning.
    """
    best, high = losses.best[np.isfinite(losses.best)], losses.single
    if not np.isfinite(high):
        some = losses.matrix[:: max(1, losses.n_sources // 200)]
        finite = some[np.isfinite(some)]
        high = float(np.quantile(finite, 0.95)) if finite.size else 1.0
    low = float(best.max()) if best.size else 0.0
    low, high = min(low, high), max(low, high)
    if allow_negative:
        margin = 0.05 * (high - low)
        values = round_numbers(low - margin, high + margin, n_epsilons, log=False)
    else:
        top = max(high, *asked, 0.0)
        start = max(low / 1.5, 1e-3 * top)
        values = []
        if top > 0:
            values = round_numbers(start, 1.3 * top, n_epsilons, log=True)
        if low <= 0:
            values = [0.0, *values]
    return np.unique(np.array([*values, *asked], np.float64))


def round_numbers(low: float, high: float, n: int, *, log: bool) -> list[float]:
    """Return about `n` round numbers from `low` to `high`.

    Args:
        low: smallest; positive for a logarithmic spread.
        high: largest.
        n: about how many.
        log: spread evenly in the logarithm.

    Examples:
        >>> round_numbers(0.1, 1.0, 10, log=True)
        [0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0]
    """
    if not high > low:
        return [low]
    if log and low < np.finfo(float).tiny:
        return [high]
    if log:
        first, last = int(np.floor(np.log10(low))), int(np.floor(np.log10(high)))
        values = [
            float(f"{mantissa * 10.0**k:.6g}")
            for k in range(first, last + 1)
            for mantissa in ROUND
        ]
        inside = [v for v in values if low * (1 - 1e-9) <= v <= high * (1 + 1e-9)]
        every = max(1, round(len(inside) / n))
        return inside[::every] or [high]
    raw = (high - low) / n
    magnitude = 10.0 ** np.floor(np.log10(raw))
    width = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= raw)
    count = np.arange(np.ceil(low / width), np.floor(high / width) + 1)
    return [float(f"{c * width:.12g}") for c in count] or [high]
