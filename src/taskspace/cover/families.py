"""Covering problems that are hard and whose best covers are known.

They test the engine in a clone on its own. Names and sizes as in the OR-Library and
in Fulkerson, Nemhauser & Trotter (1974).
"""

from itertools import combinations

import numpy as np

from taskspace.errors import InvalidInputError
from taskspace.sets import TargetSets, pack

STEINER_OPTIMA = {9: 5, 15: 9, 27: 18, 45: 30, 81: 61, 135: 103, 243: 198}
"""Minimum covers of the Steiner triple systems in the literature, by size."""

CYCLE_BEST = {3: 4, 4: 12, 5: 24, 6: 60, 7: 144}
"""Best known covers of the hypercube-cycle problems, by dimension."""

SUBSET_BEST = {10: 25, 11: 23}
"""Best known covers of the `clr` problems, by number of points."""


def steiner_triples(n: int) -> TargetSets:
    """Steiner triple covering: choose the fewest points that hit every triple.

    Orders 3^k come from lines of the affine space over Z_3, orders 3 m from a system
    on m points by the tripling construction.

    Args:
        n: number of points: 9, 15, 27, 45, 81, 135, 243.

    Returns:
        Sources are points, targets are triples.
    """
    if n not in STEINER_OPTIMA:
        raise InvalidInputError(
            f"n must be one of {sorted(STEINER_OPTIMA)}, but got n={n}."
        )
    triples = _triples(n)
    sets = np.zeros((n, len(triples)), bool)
    for k, triple in enumerate(triples):
        sets[list(triple), k] = True
    return pack(sets)


def _triples(n: int) -> list[tuple[int, ...]]:
    if n == 3:
        return [(0, 1, 2)]
    if n == 15:
        # The points of the projective space PG(3, 2): triples that sum to zero.
        return [
            (a - 1, b - 1, (a ^ b) - 1)
            for a, b in combinations(range(1, 16), 2)
            if b < a ^ b
        ]
    third = n // 3
    inner = _triples(third)
    triples = [(i, i + third, i + 2 * third) for i in range(third)]
    for triple in inner:
        for copy in range(3):
            triples.append(tuple(i + copy * third for i in triple))
        for a, b, c in (
            (triple[i], triple[j], triple[k])
            for i, j, k in (
                (0, 1, 2),
                (0, 2, 1),
                (1, 0, 2),
                (1, 2, 0),
                (2, 0, 1),
                (2, 1, 0),
            )
        ):
            triples.append((a, b + third, c + 2 * third))
    return triples


def hypercube_cycles(dimension: int) -> TargetSets:
    """Choose the fewest edges of a hypercube that meet every 4-cycle.

    The `cyc` problems of Grossman & Wool (1997).

    Args:
        dimension: of the hypercube, at least 2.

    Returns:
        Sources are edges, targets are 4-cycles.
    """
    if dimension < 2:
        raise InvalidInputError(
            f"dimension >= 2 must hold, but got dimension={dimension}."
        )
    edges = {
        (v, i): k
        for k, (v, i) in enumerate(
            (v, i)
            for v in range(2**dimension)
            for i in range(dimension)
            if not v >> i & 1
        )
    }
    cycles = [
        (edges[v, i], edges[v, j], edges[v | 1 << j, i], edges[v | 1 << i, j])
        for i, j in combinations(range(dimension), 2)
        for v in range(2**dimension)
        if not (v >> i & 1 or v >> j & 1)
    ]
    sets = np.zeros((len(edges), len(cycles)), bool)
    for k, cycle in enumerate(cycles):
        sets[list(cycle), k] = True
    return pack(sets)
