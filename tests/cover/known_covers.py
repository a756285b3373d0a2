"""Covering problems that are hard and whose best covers are known.

They test the engine in a clone on its own. The tables give the minimum where
mathematics knows it, else the best known value.
"""

from collections.abc import Iterable
from itertools import combinations, permutations

import numpy as np

from taskspace.errors import InvalidInputError
from taskspace.sets import TargetSets, pack

STEINER_MINIMUM = {7: 3, 9: 5, 15: 7, 27: 18, 31: 15, 81: 61, 243: 198}
"""Minimum covers of `steiner_triples`, by number of points.

3^k less the largest cap set of AG(k, 3); the size of a hyperplane of PG(k - 1, 2).
"""

CYCLE_BEST = {2: 1, 3: 3, 4: 8, 5: 24, 6: 60, 7: 144}
"""Best known covers of `hypercube_cycles`, by dimension; proven up to 5."""

COLOURING_BEST = {(3, 2): 3, (7, 3): 7, (10, 4): 25, (11, 4): 23}
"""Best known covers of `two_colourings`, by points and size.

The least over all numbers of points is proven: 3, 7 (the Fano plane), 23.
"""


def steiner_triples(n: int) -> TargetSets:
    """Choose the fewest points that hit every triple of a Steiner triple system.

    For n = 3^k the triples are the lines of the affine space over Z_3 (the classical
    problems A9, A27, A81, A243), for n = 2^k - 1 those of the projective space over
    Z_2. In both every pair of points lies in exactly one triple.

    Args:
        n: number of points, one of `STEINER_MINIMUM`.

    Returns:
        Sources are points, targets are triples.
    """
    if n not in STEINER_MINIMUM:
        raise InvalidInputError(
            f"n must be one of {sorted(STEINER_MINIMUM)}, but got n={n}."
        )
    return _hitting(n, _affine_lines(n) if n % 3 == 0 and n != 15 else _sums_to_zero(n))


def _sums_to_zero(n: int) -> list[tuple[int, int, int]]:
    pairs = combinations(range(1, n + 1), 2)
    return [(a - 1, b - 1, (a ^ b) - 1) for a, b in pairs if b < a ^ b]


def _affine_lines(n: int) -> list[tuple[int, int, int]]:
    if n == 3:
        return [(0, 1, 2)]
    third = n // 3
    triples = [(i, i + third, i + 2 * third) for i in range(third)]
    for a, b, c in _affine_lines(third):
        triples += [(a + k, b + k, c + k) for k in (0, third, 2 * third)]
        triples += [
            (i, j + third, k + 2 * third) for i, j, k in permutations((a, b, c))
        ]
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
    corners = range(2**dimension)
    ends = [(v, i) for v in corners for i in range(dimension) if not v >> i & 1]
    edge = {end: k for k, end in enumerate(ends)}
    cycles = [
        (edge[v, i], edge[v, j], edge[v | 1 << j, i], edge[v | 1 << i, j])
        for i, j in combinations(range(dimension), 2)
        for v in corners
        if not (v >> i & 1 or v >> j & 1)
    ]
    return _hitting(len(ends), cycles)


def two_colourings(n: int, size: int = 4) -> TargetSets:
    """Choose the fewest subsets so that every 2-colouring makes one monochromatic.

    The `clr` problems of Grossman & Wool (1997) have subsets of size 4.

    Args:
        n: number of points.
        size: of the subsets; `n >= 2 * size - 1` for every colouring to have one.

    Returns:
        Sources are subsets, targets are colourings of both colours, without their
        mirror images.
    """
    if not (size >= 1 and n >= 2 * size - 1):
        raise InvalidInputError(
            f"n >= 2 * size - 1 must hold, but got n={n} and size={size}."
        )
    masks = np.array([sum(1 << i for i in s) for s in combinations(range(n), size)])
    colourings = np.arange(1, 2 ** (n - 1))
    inside = masks[:, None] & colourings[None]
    return pack((inside == 0) | (inside == masks[:, None]))


def _hitting(n_sources: int, targets: Iterable[tuple[int, ...]]) -> TargetSets:
    targets = list(targets)
    sets = np.zeros((n_sources, len(targets)), bool)
    for k, members in enumerate(targets):
        sets[list(members), k] = True
    return pack(sets)


def read_set_cover(path):
    """Return the sets and costs of a public file; costs are None where all are 1.

    `sts`: variables, triples, the triples. `rail`: rows, columns, then the cost and the
    rows of each column. `scp`: rows, columns, costs, then the columns of each row.
    """
    n_rows, n_columns, *rest = map(int, path.read_text().split())
    costs = []
    if path.name.startswith("sts"):
        n_rows, n_columns = n_columns, n_rows
        pairs = [(v, k // 3) for k, v in enumerate(rest)]
    elif path.name.startswith("rail"):
        words = iter(rest)
        pairs = []
        for column in range(n_columns):
            costs.append(next(words))
            pairs += [(column + 1, next(words) - 1) for _ in range(next(words))]
    else:
        costs, words = rest[:n_columns], iter(rest[n_columns:])
        pairs = [
            (next(words), row) for row in range(n_rows) for _ in range(next(words))
        ]
    sources, targets = np.array(pairs).T
    serves = np.zeros((n_columns, n_rows), bool)
    serves[sources - 1, targets] = True
    is_weighted = len(set(costs)) > 1
    return pack(serves), np.array(costs, float) if is_weighted else None
