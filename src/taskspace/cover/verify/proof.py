"""The prices behind a lower bound, kept with a cover so that it can be proven again.

See `prices` for why prices prove a bound, and `verify` for the one pass that does.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from taskspace.cover.bounds.prices import PriceBound
from taskspace.cover.costs import Costs
from taskspace.errors import InvalidInputError


@dataclass(frozen=True, eq=False)
class PriceProof:
    """Prices on targets that no source's cost is below; their sum bounds every cover.

    A price of `units[i] / 2**shift * unit` lies on target `targets[i]`, and none on
    the others. Where `is_whole`, costs are rounded down to multiples of `unit`, so
    that the sum over targets that share no source with others may be rounded up to
    one.

    Args:
        unit: the unit of cost.
        shift: binary digits of a price after the point, in `unit`s.
        is_whole: whether sums may be rounded up to multiples of `unit`.
        targets: targets with a price, ascending.
        units: their prices, integers `> 0` (of any size, where 64 bits are too few).
    """

    unit: Fraction
    shift: int
    is_whole: bool
    targets: NDArray[np.int64]
    units: NDArray[Any]

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain JSON values; the unit as text, `"3/10"`."""
        return {
            "unit": str(self.unit),
            "shift": self.shift,
            "whole": self.is_whole,
            "targets": self.targets.tolist(),
            "units": self.units.tolist(),
        }

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """Return the prices that `to_dict` wrote.

        Args:
            values: plain JSON values.
        """
        try:
            proof = cls(
                Fraction(values["unit"]),
                int(values["shift"]),
                bool(values["whole"]),
                np.array(values["targets"], np.int64).reshape(-1),
                integer_array([int(n) for n in values["units"]]),
            )
            if len(proof.targets) != len(proof.units) or not abs(proof.shift) < 10_000:
                raise ValueError("targets and units differ in length")
        except (
            KeyError, TypeError, ValueError, OverflowError, ZeroDivisionError
        ) as error:  # fmt: skip
            raise InvalidInputError(
                "prices of a saved cover must be a unit, a shift, targets and as many "
                f"integers, but reading them failed: {error!r}."
            ) from error
        return proof


class PricedPart(NamedTuple):
    """Prices of one part of a problem, and which targets of the whole it has."""

    bound: PriceBound
    targets: NDArray[np.int64]


def join_prices(
    costs: Costs,
    parts: Iterable[PricedPart],
    forced: Sequence[tuple[int, float]] = (),
) -> PriceProof:
    """Return the prices of a problem from those of its parts.

    Args:
        costs: the costs of all sources.
        parts: parts that share no source, each with its prices.
        forced: for each source that reductions took a target that only it could
            serve, and its cost. No source serves two of these, or one of these and a
            target of a part, unless a better source does too.

    Returns:
        Feasible prices for the whole problem.
    """
    pieces = [(_shortest(p.bound, costs.is_whole), p.targets) for p in parts]
    shift = max([0, *(bound.shift for bound, _ in pieces)])
    exact = [Fraction(cost) for _, cost in forced]
    shift = max([shift, *(cost.denominator.bit_length() - 1 for cost in exact)])
    targets, units = [], []
    for bound, names in pieces:
        priced = np.flatnonzero(bound.units)
        targets += names[priced].tolist()
        units += [n << (shift - bound.shift) for n in bound.units[priced].tolist()]
    targets += [target for target, _ in forced]
    units += [int(cost * 2**shift) for cost in exact]
    order = np.argsort(np.array(targets, np.int64), kind="stable")
    return PriceProof(
        unit=costs.unit,
        shift=shift,
        is_whole=costs.is_whole,
        targets=np.array(targets, np.int64)[order],
        units=integer_array(units)[order],
    )


def _shortest(bound: PriceBound, shorten: bool) -> PriceBound:
    """Return the same bound with as few digits as it needs, where it is rounded up."""
    if not shorten:
        return bound
    for drop in range(bound.shift, 0, -1):
        units = bound.units >> drop  # rounded down: as feasible as before
        shift = bound.shift - drop
        if -(-int(units.sum()) >> shift) >= bound.value:
            return bound._replace(units=units, shift=shift)
    return bound


def integer_array(values: list[int]) -> NDArray[Any]:
    """Integers as int64 where all their sums fit, else as Python's own.

    Args:
        values: the integers.
    """
    small = sum(map(abs, values)) < 2**62
    return np.array(values, np.int64 if small else object).reshape(-1)
