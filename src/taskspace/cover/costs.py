"""Costs of sources and weights of targets, so that no answer depends on their unit.

A method compares and adds costs; it must come to the same answer whether they are
given in cents or in billions. So costs are scaled first: to small integers where they
are multiples of one unit (as integers are, and decimal numbers to the precision of
their floats), else by a power of two, which is exact. What is claimed about
sums of costs is decided in integers and fractions, never in floats. Weights of targets
are taken as the exact numbers that their floats are, so that a weight of 1e16 beside a
weight of 1 does no harm.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace.errors import InvalidInputError

Exact = int | Fraction
"""A number without rounding."""

_MAX_WHOLE = 2**53  # up to here floats hold every integer
_SMALL_SUM = 2**40
_MAX_TOTAL = 2**1000  # of integer weights, so that sums of them are floats
# Costs are taken for multiples of one unit if their ratios are, up to rounding,
# fractions with such denominators; for costs at random that is one chance in 1000.
_MAX_DENOMINATOR = 10**6
_ROUNDINGS = Fraction(1, 2**50)  # one of each cost and one of the division, doubled


@dataclass(frozen=True, eq=False)
class Costs:
    """Costs of the sources of one problem, and their scale.

    Args:
        values: the costs in `unit`s. Integers with an exact sum where `is_whole`;
            else exactly the given costs over `unit`.
        unit: `values * unit` are at most the given costs. They are equal, but for a
            few roundings where multiples of a unit that is no float were recognised.
        is_whole: whether all values are integers, so that bounds may be rounded up.
    """

    values: NDArray[np.float64]
    unit: Fraction
    is_whole: bool

    @cached_property
    def _is_integer(self) -> bool:
        return self.is_whole and self.unit.denominator == 1

    def in_unit(self, amount: Exact) -> float:
        """Return an amount of scaled cost in the unit of the given costs.

        An `int` where all given costs are integers, else the largest float that is
        not above it: a bound stays a bound, and equal amounts stay equal.

        Args:
            amount: in `unit`s, without rounding.
        """
        exact = Fraction(amount) * self.unit
        return int(exact) if self._is_integer else round_down(exact)


def scale_costs(costs: ArrayLike | None, n_sources: int) -> Costs:
    """Return costs of `n_sources` sources, checked and scaled.

    Args:
        costs: cost of each source, positive and finite; None means 1 for each.
        n_sources: number of sources.
    """
    if costs is None:
        ones = np.ones(n_sources)
        return Costs(ones, Fraction(1), True)
    values = _checked(costs, n_sources)
    if n_sources == 0:
        return Costs(values, Fraction(1), True)
    # Small integers first: floats of few costs are all multiples of their last bit.
    multiples = (
        whole_multiples(values, _SMALL_SUM)
        or _near_multiples(values)
        or whole_multiples(values)
    )
    if multiples is not None:
        return Costs(*multiples, True)
    exponent = math.frexp(float(values.max()))[1]
    scale = Fraction(2) ** exponent
    return Costs(np.ldexp(values, -exponent), scale, False)


def whole_multiples(
    costs: NDArray[np.float64], limit: int = _MAX_WHOLE
) -> tuple[NDArray[np.float64], Fraction] | None:
    """Return costs as integers in their greatest common unit, exactly.

    Args:
        costs: positive and finite, at least one.
        limit: the integers must have a smaller sum.

    Returns:
        The integers (as floats) and the unit, or None where they are too large.
    """
    mantissas, exponents = np.frexp(costs)
    whole = np.ldexp(mantissas, 53).astype(np.int64)  # 53 bits, exact
    lowest_bits = (whole & -whole).astype(np.float64)
    zeros = np.log2(lowest_bits).astype(np.int64)  # of powers of two: exact
    powers = exponents.astype(np.int64) - 53 + zeros
    rise = powers - powers.min()
    n_bits = 53 - zeros + rise
    if int(n_bits.max()) > 62:
        return None
    units = (whole >> zeros) << rise
    divisor = int(np.gcd.reduce(units))
    units //= divisor
    if float(units.sum(dtype=np.float64)) >= limit:
        return None
    return units.astype(np.float64), divisor * Fraction(2) ** int(powers.min())


def _near_multiples(
    costs: NDArray[np.float64],
) -> tuple[NDArray[np.float64], Fraction] | None:
    """Return costs as integers in a common unit, to the precision of floats.

    So are decimal numbers, and integers times any number: their floats are rounded.
    The ratios to the smallest cost are then fractions of small integers.
    """
    distinct, which = np.unique(costs, return_inverse=True)
    ratios, common = [], 1
    for ratio in (distinct / distinct[0]).tolist():
        exact = Fraction(ratio)
        near = _simplest(exact * (1 - _ROUNDINGS), exact * (1 + _ROUNDINGS))
        ratios.append(near)
        common = math.lcm(common, near.denominator)
        if common > _MAX_DENOMINATOR:
            return None
    multiples = [int(ratio * common) for ratio in ratios]
    units = np.array(multiples, np.float64)[which]
    if float(units.sum()) >= _MAX_WHOLE:
        return None
    # The smallest unit, so that no source is taken for dearer than it is.
    unit = min(
        Fraction(c) / k for c, k in zip(distinct.tolist(), multiples, strict=True)
    )
    return units, unit


def _simplest(low: Fraction, high: Fraction) -> Fraction:
    """Return the fraction of least denominator in an interval of positive numbers."""
    whole = math.ceil(low)
    if whole <= high:
        return Fraction(whole)
    whole -= 1
    return whole + 1 / _simplest(1 / (high - whole), 1 / (low - whole))


def _checked(costs: ArrayLike, n_sources: int) -> NDArray[np.float64]:
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
    if n_sources and math.log2(array.max()) - math.log2(array.min()) > 800:
        raise InvalidInputError(
            "The largest cost must be at most 1e240 times the smallest, but got costs "
            f"from {array.min()} to {array.max()}. Leave out sources that cost nearly "
            "nothing, or more than all others."
        )
    return array


def has_whole_costs(costs: NDArray[np.float64]) -> bool:
    """Return whether every cost is an integer, so that bounds may be rounded up.

    Args:
        costs: cost of each source.
    """
    return bool((costs == np.floor(costs)).all() and costs.sum() < _MAX_WHOLE)


def total_cost(costs: NDArray[np.float64], sources: ArrayLike) -> Exact:
    """Cost of a selection, without rounding; an `int` where all costs are integers.

    Args:
        costs: cost of each source, scaled.
        sources: the selection.
    """
    chosen = costs[np.asarray(sources, np.int64)]
    if has_whole_costs(costs):
        return int(chosen.sum())
    return sum(map(Fraction, chosen.tolist()), Fraction(0))


def round_down(exact: Exact) -> float:
    """Return the largest float that is not above a number.

    Args:
        exact: the number.
    """
    nearest = float(exact)
    return nearest if nearest <= exact else math.nextafter(nearest, -math.inf)


def exact_weights(weights: ArrayLike | None, n_targets: int) -> NDArray[Any]:
    """Weights of targets as the smallest integers in one unit, without rounding.

    Args:
        weights: finite numbers `>= 0`, one for each target; None means 1 for each.
        n_targets: number of targets.

    Returns:
        int64 where all sums fit, else Python integers.
    """
    if weights is None:
        return np.ones(n_targets, np.int64)
    array = np.asarray(weights, np.float64)
    valid = array.shape == (n_targets,)
    if not valid or not (np.isfinite(array).all() and (array >= 0).all()):
        raise InvalidInputError(
            f"target_weights must be {n_targets} finite numbers >= 0, one for each "
            f"target, but got shape {array.shape} and values {array}."
        )
    mantissas, exponents = np.frexp(array)
    whole = np.ldexp(mantissas, 53).astype(np.int64).tolist()
    positive = exponents[array > 0]
    lowest = int(positive.min()) if positive.size else 0
    units = [
        n << (e - lowest) if n else 0
        for n, e in zip(whole, exponents.tolist(), strict=True)
    ]
    common = math.gcd(*units) or 1
    if sum(units) // common > _MAX_TOTAL:
        raise InvalidInputError(
            "The largest of target_weights must be at most 1e280 times the smallest "
            f"above 0, but got {array.max():g} and {array[array > 0].min():g}."
        )
    return integer_array([n // common for n in units])


def integer_array(values: list[int]) -> NDArray[Any]:
    """Integers as int64 where all their sums fit, else as Python's own.

    Args:
        values: the integers.
    """
    small = sum(map(abs, values)) < 2**62
    return np.array(values, np.int64 if small else object).reshape(-1)
