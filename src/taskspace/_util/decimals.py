"""Floats as the decimals that people wrote and read.

A float stands for its shortest decimal, the one that `repr` prints: 0.93 − 0.91 is
0.02, while the difference of the two floats is 0.020000000000000018.
"""

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from taskspace._util.arrays import Array

# Integers below this keep all their digits in a float and in its shortest decimal.
LARGEST = 1e15
MOST_DIGITS = 12
# A quotient of integers is a decimal with so many digits, or it is rounded up.
SHORT = 1e6
# So many cells of a block are looked at one by one, if need be.
MAX_SINGLE = 100_000

Quotient = Callable[[Any, Any, Callable[[float], Any]], tuple[Any, Any]]
"""Numerator and denominator of a loss, from scores, references and a way to write
parameters; each operation must do for integers in floats and for fractions."""


def decimal_text(value: float) -> str:
    """Return a number so that reading its digits gives the same number.

    Args:
        value: a number.

    Examples:
        >>> decimal_text(0.29582216), decimal_text(12.0), decimal_text(1e-7)
        ('0.29582216', '12', '0.0000001')
    """
    if not np.isfinite(value):
        return repr(float(value))
    text = format(Decimal(repr(float(value))), "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def percent_text(value: float) -> str:
    """Return a share in percent, with all its digits.

    Args:
        value: a share; 0.1 is `"10"`.
    """
    text = format(Decimal(repr(float(value))).scaleb(2), "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def round_to_side(value: float, *, up: bool, digits: int = 3) -> str:
    """Return a bound with few digits that still holds.

    Args:
        value: a number; one that is not finite stays as it is.
        up: whether the true number may be below what is said (an upper bound), or
            above it.
        digits: how many are kept.

    Examples:
        >>> round_to_side(0.31165, up=False), round_to_side(0.31165, up=True)
        ('0.311', '0.312')
    """
    side = ROUND_CEILING if up else ROUND_FLOOR
    exact = Context(prec=digits, rounding=side).create_decimal_from_float(value)
    return f"{float(exact):.{digits}g}"


def fraction_of(value: float) -> Fraction:
    """Return the shortest decimal of a finite float, as a fraction.

    Args:
        value: a finite number.
    """
    return Fraction(Decimal(repr(float(value))))


def float_above(value: Fraction) -> float:
    """Return the smallest float whose shortest decimal is at least a fraction.

    Args:
        value: a fraction.
    """
    found = float(value)
    while fraction_of(found) < value:
        found = float(np.nextafter(found, np.inf))
    while fraction_of(before := float(np.nextafter(found, -np.inf))) >= value:
        found = before
    return found


def decimal_losses(
    plain: Array, scores: Array, reference: Array, quotient: Quotient
) -> Array:
    """Return losses of decimals, each rounded up to a float.

    A difference becomes the smallest float whose decimal is not below it. So does a
    quotient that is a short decimal; another one is rounded up by at most two units in
    the last place. So `loss <= epsilon`, both floats, is never said of a larger loss.

    Args:
        plain: the losses in floating point, which stay where they are not finite.
        scores: what has them.
        reference: what the scores are compared with, broadcast against them.
        quotient: numerator and denominator of the loss.
    """
    scores, reference = np.broadcast_arrays(scores, reference)
    known = np.isfinite(plain) & np.isfinite(scores) & np.isfinite(reference)
    if not known.any():
        return plain
    losses = np.array(np.broadcast_to(plain, known.shape))
    done = np.zeros(known.shape, np.bool_)
    whole = _scale_of(scores[known], reference[known])
    if whole is not None:
        done = known & _short_losses(losses, scores, reference, whole, quotient)
    left = known & ~done
    if left.any():
        _single_losses(losses, scores, reference, left, quotient)
    return losses


def _scale_of(*arrays: Array) -> float | None:
    """Return the power of ten that makes most numbers whole, None where none does."""
    some = np.concatenate([x[:: max(1, len(x) // 256)] for x in arrays])
    for digits in range(MOST_DIGITS + 1):
        if _is_whole(some, 10.0**digits).mean() > 0.9:
            return 10.0**digits
    return None


def _is_whole(values: Array, scale: float) -> Any:
    whole = np.rint(values * scale)
    return (np.abs(whole) < LARGEST) & (whole / scale == values)


def _short_losses(
    losses: Array, scores: Array, reference: Array, scale: float, quotient: Quotient
) -> Any:
    """Fill losses of numbers that are whole times a power of ten; return which."""
    parameters_whole = []

    def number(value: float) -> float:
        parameters_whole.append(bool(_is_whole(np.asarray(value), scale)))
        return float(np.rint(value * scale))

    with np.errstate(all="ignore"):
        whole, best = (np.rint(x * scale) for x in (scores, reference))
        above, below = quotient(whole, best, number)
        found = above / below
        is_decimal = np.ndim(below) == 0  # the power of ten
        fine = np.abs(above) < LARGEST
        if not is_decimal:
            fine = np.abs(above) * SHORT < LARGEST
            fine &= np.abs(below) < LARGEST
            exact = np.fmod(above * SHORT, below) == 0
            found = np.where(exact, found, np.nextafter(found, np.inf))
    fine &= _is_whole(scores, scale) & _is_whole(reference, scale) & np.isfinite(found)
    if not all(parameters_whole):
        return np.zeros(losses.shape, np.bool_)
    losses[fine] = found[fine]
    return fine


def _single_losses(
    losses: Array, scores: Array, reference: Array, where: Any, quotient: Quotient
) -> None:
    """Fill losses of long decimals one by one, where there are not too many."""
    pairs = np.stack([scores[where], reference[where]], axis=1)
    distinct, back = np.unique(pairs, axis=0, return_inverse=True)
    if len(distinct) > MAX_SINGLE:
        return
    found = np.empty(len(distinct))
    for row, (score, against) in enumerate(distinct.tolist()):
        above, below = quotient(fraction_of(score), fraction_of(against), fraction_of)
        found[row] = _rounded_up(Fraction(above), Fraction(below))
    found = found[back.reshape(-1)]
    losses[where] = np.where(np.isnan(found), losses[where], found)


def _rounded_up(above: Fraction, below: Fraction) -> float:
    """Return a quotient as `_short_losses` does, NaN where there is none."""
    if below == 0:
        return np.nan
    if below == 1:
        return float_above(above)
    loss = above / below
    if (loss * int(SHORT)).denominator == 1:
        return float(loss)
    return float(np.nextafter(float(loss), np.inf))
