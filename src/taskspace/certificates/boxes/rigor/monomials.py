"""Monomials of a few variables up to some degree, and the table of their products.

On a box the variables are s in [−1, 1]^d. Polynomials are arrays of coefficients in the
order of `Monomials`: by degree, so those up to a smaller degree come first.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Monomials:
    """All monomials of some variables up to a degree.

    Args:
        counts: how many there are up to degree 0, 1, 2, …
        first: place of each variable itself.
        product: place of the product of two, −1 where its degree is too large.
        even: whether all exponents are even, so that its range is [0, 1].
    """

    counts: NDArray[np.int64]
    first: NDArray[np.int64]
    product: NDArray[np.int64]
    even: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.even)


@lru_cache(maxsize=64)
def monomials(n_variables: int, degree: int) -> Monomials:
    """Return the monomials of `n_variables` variables up to `degree`.

    Args:
        n_variables: how many variables, may be none.
        degree: largest degree, at least 1.
    """
    chosen = [
        c
        for k in range(degree + 1)
        for c in combinations_with_replacement(range(n_variables), k)
    ]
    place = {c: i for i, c in enumerate(chosen)}
    product = np.full((len(chosen), len(chosen)), -1, np.int64)
    for i, x in enumerate(chosen):
        for j, y in enumerate(chosen):
            product[i, j] = place.get(tuple(sorted(x + y)), -1)
    lengths = np.array([len(c) for c in chosen])
    even = [all(c.count(v) % 2 == 0 for v in c) for c in chosen]
    even[0] = False  # the constant has no range
    return Monomials(
        counts=np.array([(lengths <= k).sum() for k in range(degree + 1)], np.int64),
        first=np.array([place[(v,)] for v in range(n_variables)], np.int64),
        product=product,
        even=np.array(even, np.bool_),
    )
