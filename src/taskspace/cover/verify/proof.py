"""The prices that are kept with a cover, so that its bound can be proven again.

See `prices` and `location` for why prices prove a bound, and `verify` for what goes
through them again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from taskspace.cover.costs import integer_array
from taskspace.errors import InvalidInputError

__all__ = ["PriceProof"]


@dataclass(frozen=True, eq=False)
class PriceProof:
    """Prices on targets; what they sum to bounds every selection.

    A price of `units[i] / 2**shift * unit` lies on target `targets[i]`, and none on
    the others. Where `is_whole`, costs are rounded down to multiples of `unit`, so
    that the sum over targets that share no source with others may be rounded up to
    one.

    Args:
        unit: the unit of cost.
        shift: binary digits of a price after the point, in `unit`s.
        is_whole: whether sums may be rounded up to multiples of `unit`.
        targets: targets with a price, ascending.
        units: their prices, integers (of any size, where 64 bits are too few).
        rate: what a unit of unserved weight costs, in the unit of prices, where a
            share was asked for.
    """

    unit: Fraction
    shift: int
    is_whole: bool
    targets: NDArray[np.int64]
    units: NDArray[Any]
    rate: Fraction | None = None

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain JSON values; the unit as text, `"3/10"`."""
        return {
            "unit": str(self.unit),
            "shift": self.shift,
            "whole": self.is_whole,
            "targets": self.targets.tolist(),
            "units": self.units.tolist(),
        } | ({} if self.rate is None else {"rate": str(self.rate)})

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """Return the prices that `to_dict` wrote.

        Args:
            values: plain JSON values.
        """
        with _reading(
            "Prices of a saved cover must be a unit, a shift, targets and as many "
            "integers, but reading them failed"
        ):
            proof = cls(
                *_scale(values),
                np.array(values["targets"], np.int64).reshape(-1),
                integer_array([int(n) for n in values["units"]]),
                None if "rate" not in values else Fraction(values["rate"]),
            )
            if len(proof.targets) != len(proof.units):
                raise ValueError("targets and units differ in length")
            return proof


@contextmanager
def _reading(sentence: str) -> Iterator[None]:
    """End a sentence with the reason, where reading fails."""
    try:
        yield
    except (
        KeyError, TypeError, ValueError, OverflowError, ZeroDivisionError
    ) as error:  # fmt: skip
        raise InvalidInputError(f"{sentence}: {error!r}.") from error


def _scale(values: Any) -> tuple[Fraction, int, bool]:
    """Return the unit, the shift and whether costs are whole."""
    shift = int(values["shift"])
    if not abs(shift) < 10_000:
        raise ValueError("the shift is out of range")
    return Fraction(values["unit"]), shift, bool(values["whole"])
