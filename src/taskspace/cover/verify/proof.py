"""The proofs that are kept with a cover, so that its bound can be proven again.

Prices, or a tree of decisions with prices at its nodes. See `prices` and `location`
for why prices prove a bound, and `verify` for what goes through them again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from taskspace.cover.costs import integer_array
from taskspace.errors import InvalidInputError

__all__ = ["PriceProof", "TreeNode", "TreeProof"]


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
        with _reading(
            "Prices of a saved cover must be a unit, a shift, targets and as many "
            "integers, but reading them failed"
        ):
            proof = cls(
                *_scale(values),
                np.array(values["targets"], np.int64).reshape(-1),
                integer_array([int(n) for n in values["units"]]),
            )
            if len(proof.targets) != len(proof.units):
                raise ValueError("targets and units differ in length")
            return proof


class TreeNode(NamedTuple):
    """Prices of a node, None where those of the node above serve, and its decision.

    Args:
        units: price of each target, in units of `2**-shift`.
        rate: what a unit of unserved weight costs, where a share was asked for.
        source: the source that the next two nodes decide, in and out; −1 for a leaf.
    """

    units: NDArray[np.int64] | None
    rate: Fraction | None
    source: int


@dataclass(frozen=True, eq=False)
class TreeProof:
    """Nodes of a tree, each before its children, the one with the source in first.

    Args:
        unit: what an integer cost is worth.
        shift: binary digits of a price after the point.
        is_whole: whether every selection costs a multiple of `unit`.
        nodes: the nodes.
    """

    unit: Fraction
    shift: int
    is_whole: bool
    nodes: tuple[TreeNode, ...]

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain JSON values; fractions as text."""
        return {
            "unit": str(self.unit),
            "shift": self.shift,
            "whole": self.is_whole,
            "nodes": [
                {"source": node.source}
                | ({} if node.units is None else {"units": node.units.tolist()})
                | ({} if node.rate is None else {"rate": str(node.rate)})
                for node in self.nodes
            ],
        }

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """Return the proof that `to_dict` wrote.

        Args:
            values: plain JSON values.
        """
        with _reading(
            "The proof of a saved cover must be a unit, a shift and nodes with integer "
            "prices, but reading it failed"
        ):
            nodes = tuple(
                TreeNode(
                    None if "units" not in node else _integers(node["units"]),
                    None if "rate" not in node else Fraction(node["rate"]),
                    int(node["source"]),
                )
                for node in values["nodes"]
            )
            proof = cls(*_scale(values), nodes)
            if proof.unit <= 0:
                raise ValueError("its unit is not positive")
            return proof


def _integers(values: list[Any]) -> NDArray[np.int64]:
    if not all(type(n) is int for n in values):
        raise ValueError("a price is no integer")
    return np.array(values, np.int64).reshape(-1)


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
