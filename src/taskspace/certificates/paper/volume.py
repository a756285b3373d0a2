r"""Bounds on the number of sources from volumes, each under its true hypotheses.

If every source's tolerance set contains the ball of radius ρ around it, then so few
balls as cover the box suffice. The printed theorem and what replaces it are in
docs/theory.md, "Volume bounds". Axes that do not vary have no width and do not count.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from taskspace._util.arrays import Array
from taskspace.certificates.paper.balls import Balls
from taskspace.certificates.statements import Bound, Certificate, claim, on_table
from taskspace.errors import InvalidInputError
from taskspace.systems.base import PROVENANCE_WORDS


def ball_volume(n_dims: int, radius: float) -> float:
    """Return volume of a Euclidean ball.

    Args:
        n_dims: number of dimensions.
        radius: radius of the ball.
    """
    return math.pi ** (n_dims / 2) / math.gamma(n_dims / 2 + 1) * radius**n_dims


def lattice_count(widths: ArrayLike, radius: float) -> int:
    r"""Return how many balls on a lattice inside a box certainly cover it.

    $\prod \lceil w_i \sqrt d / 2\rho \rceil$: each cell of the lattice has a half
    diagonal of at most ρ.

    Args:
        widths: of the box; zeros do not count.
        radius: ρ > 0.
    """
    w = _live(widths, radius)
    # A quotient that rounding put above a whole number is that number: the balls
    # then reach ρ (1 + 1e-13), less than what inner radii were cut by.
    cuts = np.ceil(w * math.sqrt(max(1, len(w))) / (2 * radius) * (1 - 1e-13))
    return int(math.prod(int(n) for n in np.maximum(cuts, 1)))


def inflated_box_volume(widths: ArrayLike, radius: float) -> float:
    r"""Return volume of a box enlarged by a ball, by Steiner's formula.

    $\sum_j e_{d-j}(w) v_j s^j$, with $e$ the elementary symmetric polynomials of the
    widths and $v_j$ the volume of the unit ball in j dimensions.

    Args:
        widths: of the box; zeros do not count.
        radius: s of the ball.
    """
    w = _live(widths, radius)
    # np.poly of −w has the elementary symmetric polynomials as its coefficients.
    symmetric = np.atleast_1d(np.poly(-w))
    d = len(w)
    return sum(symmetric[d - j] * ball_volume(j, radius) for j in range(d + 1))


def packing_count(widths: ArrayLike, radius: float) -> int:
    r"""Return size of any ρ-packing of a box, hence of some cover by balls of radius ρ.

    $\mathrm{Vol}(\Theta \oplus B_{\rho/2}) / \mathrm{Vol}(B_{\rho/2})$: holds for every
    subset of the box too, such as the nodes of a grid, with centres in the subset.

    Args:
        widths: of the box; zeros do not count.
        radius: ρ > 0.
    """
    d = len(_live(widths, radius))
    ratio = inflated_box_volume(widths, radius / 2) / ball_volume(d, radius / 2)
    return math.floor(ratio * (1 + 1e-9))


def _live(widths: ArrayLike, radius: float) -> Array:
    w = np.asarray(widths, np.float64)
    if not radius > 0 or not (w >= 0).all():
        raise InvalidInputError(
            f"radius > 0 and widths >= 0 must hold, but got {radius} and {w.tolist()}."
        )
    return w[w > 0]


VOLUME_BOUNDS = ("volume: packing", "volume: box lattice")


def volume_bounds(
    widths: ArrayLike, balls: Balls, *, same_sides: bool
) -> list[Certificate]:
    """Return bounds on Comp_ε of the signed criterion from balls, each labelled.

    Args:
        widths: of the box that holds the contexts.
        balls: radii of every source that may be used.
        same_sides: whether the sources are the targets, so that a packing of targets
            is a set of sources.
    """
    rho = float(balls.inner.min())
    if not rho > 0:
        why = "The smallest inner ball has no radius, so nothing can be counted."
        return no_volume_bounds(why)
    provenance = balls.rates.provenance
    packed, lattice = packing_count(widths, rho), lattice_count(widths, rho)
    why = "Sources and targets differ, so a packing need not be sources."
    if same_sides:
        why = (
            "A maximal packing by inner balls is a cover, on the nodes of the grid"
            f"{on_table(provenance)}."
        )
    shared = {"side": "upper", "inner_radius": rho}
    return [
        Certificate(
            VOLUME_BOUNDS[0],
            True,
            claim(provenance, rigorous=same_sides),
            why,
            shared | {"value": packed},
            PROVENANCE_WORDS[provenance].table,
            (Bound("upper", packed, "nodes", "table"),) if same_sides else (),
        ),
        Certificate(
            VOLUME_BOUNDS[1],
            True,
            claim(provenance, rigorous=False),
            "Balls on a lattice inside the box; needs L at every context as a source, "
            "but L was taken at the grid's sources.",
            shared | {"value": lattice},
            "every context of the box",
        ),
    ]


def no_volume_bounds(why: str) -> list[Certificate]:
    """Return the volume bounds where they are not derived: vacuous, all of them.

    Args:
        why: the reason.
    """
    values = {"side": "upper", "value": None}
    return [Certificate(name, False, "vacuous", why, values) for name in VOLUME_BOUNDS]
