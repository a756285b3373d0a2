r"""Bounds on the number of sources from volumes, each under its true hypotheses.

If every source's tolerance set contains the ball of radius ρ around it, then so few
balls as cover the box suffice. The printed theorem and what replaces it are in
docs/theory.md, "Volume bounds". Axes that do not vary have no width and do not count.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from taskspace._util.arrays import Array
from taskspace.certificates.paper.balls import SHRINK, Balls
from taskspace.certificates.statements import Bound, Certificate, claim, on_table
from taskspace.errors import InvalidInputError
from taskspace.questions import Question
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


def printed_upper_count(widths: ArrayLike, radius: float) -> float:
    r"""Return the paper's $3^d \mathrm{Vol}(\Theta) / \mathrm{Vol}(B_\rho)$.

    True for a convex set that contains a ball of radius ρ, false on thin ones.

    Args:
        widths: of the box; zeros do not count.
        radius: ρ > 0.
    """
    w = _live(widths, radius)
    return 3 ** len(w) * float(np.prod(w)) / ball_volume(len(w), radius)


def _live(widths: ArrayLike, radius: float) -> Array:
    w = np.asarray(widths, np.float64)
    if not radius > 0 or not (w >= 0).all():
        raise InvalidInputError(
            f"radius > 0 and widths >= 0 must hold, but got {radius} and {w.tolist()}."
        )
    return w[w > 0]


VOLUME_BOUNDS = (
    "volume: packing",
    "volume: box lattice",
    "volume: printed upper",
    "volume: printed lower",
)


def volume_bounds(
    widths: ArrayLike,
    epsilon: float,
    balls: Balls,
    *,
    same_sides: bool,
    everywhere: bool = False,
) -> list[Certificate]:
    """Return bounds on Comp_ε of the signed criterion from balls, each labelled.

    Args:
        widths: of the box that holds the contexts.
        epsilon: tolerance.
        balls: radii of every source that may be used.
        same_sides: whether the sources are the targets, so that a packing of targets
            is a set of sources.
        everywhere: whether the rates are known to hold for every context of the box
            as a source, on the continuum; rates taken at grid nodes are not.
    """
    Question("signed", epsilon=epsilon)  # refuses a tolerance without meaning
    w = np.asarray(widths, np.float64)
    return [
        *_upper_bounds(w, float(balls.inner.min()), balls, same_sides, everywhere),
        _printed_lower(w, epsilon, balls, everywhere),
    ]


def no_volume_bounds(why: str) -> list[Certificate]:
    """Return the volume bounds where they are not derived: vacuous, all of them.

    Args:
        why: the reason.
    """
    return [Certificate(name, False, "vacuous", why) for name in VOLUME_BOUNDS]


def _upper_bounds(
    widths: Array, rho: float, balls: Balls, same_sides: bool, everywhere: bool
) -> list[Certificate]:
    names = VOLUME_BOUNDS[:3]
    if not rho > 0:
        why = "The smallest inner ball has no radius, so nothing can be counted."
        return [
            Certificate(n, False, "vacuous", why, {"side": "upper", "value": None})
            for n in names
        ]
    provenance = balls.rates.provenance
    packs = same_sides or everywhere
    place = (
        "the continuum"
        if everywhere
        else f"the nodes of the grid{on_table(provenance)}"
    )
    scope = (
        "every context of the box" if everywhere else PROVENANCE_WORDS[provenance].table
    )
    packed, lattice = packing_count(widths, rho), lattice_count(widths, rho)
    printed = printed_upper_count(widths, rho)
    if everywhere:
        lattice_why = "Balls on a lattice inside the box, any context as a source."
    else:
        lattice_why = (
            "Balls on a lattice inside the box; needs L at every context as a source, "
            "but L was taken at the grid's sources."
        )
    if packs:
        packing_why = f"A maximal packing by inner balls is a cover, on {place}."
    else:
        packing_why = "Sources and targets differ, so a packing need not be sources."
    thin = bool((widths[widths > 0] < 2 * rho).any())
    capped = rho >= balls.rates.radius * SHRINK
    if thin:
        printed_why = (
            "The box is too thin to contain a ball of the inner radius, so 3^d does "
            "not bound the overhang."
        )
    elif capped:
        printed_why = "Its hypothesis ε/L <= r fails: the inner radius is r itself."
    else:
        printed_why = f"The box contains a ball of the inner radius; on {place}."

    def upper(value: float) -> Bound:
        if everywhere:
            return Bound("upper", value, "box", "any")
        return Bound("upper", value, "nodes", "table")

    shared = {"side": "upper", "inner_radius": rho}
    return [
        Certificate(
            names[0],
            True,
            claim(provenance, rigorous=packs),
            packing_why,
            shared | {"value": packed},
            scope,
            (upper(packed),) if packs else (),
        ),
        Certificate(
            names[1],
            True,
            claim(provenance, rigorous=everywhere),
            lattice_why,
            shared | {"value": lattice},
            "every context of the box",
            (upper(lattice),) if everywhere else (),
        ),
        Certificate(
            names[2],
            not (thin or capped),
            "vacuous" if thin or capped else claim(provenance, rigorous=packs),
            printed_why,
            shared | {"value": printed},
            scope,
            (upper(printed),) if packs and not (thin or capped) else (),
        ),
    ]


def _printed_lower(
    widths: Array, epsilon: float, balls: Balls, everywhere: bool
) -> Certificate:
    """Certify the paper's Vol(Θ) / Vol(B): a proof on the continuum, or nothing.

    A volume is about the continuum. On the targets of a table alone, a ball may hold
    many more of them than its share of the volume, so the count can exceed the truth.
    """
    name = VOLUME_BOUNDS[3]
    rate = balls.rates.lower
    values: dict[str, object] = {
        "side": "lower",
        "value": None,
        "hypotheses_hold": False,
    }
    if np.isnan(rate).any():
        why = "M needs every policy's gap, which the table does not hold."
        return Certificate(name, False, "vacuous", why, values)
    smallest = float(rate.min(initial=np.inf))
    values["smallest_rate"] = smallest
    if not (0 < smallest < np.inf):
        why = (
            f"M_min = {smallest:.3g} is not positive (and cannot be at an interior "
            "source where some J(·, π) is differentiable), so it says nothing."
        )
        return Certificate(name, False, "vacuous", why, values)
    w = widths[widths > 0]
    value = (
        float(np.prod(w)) / ball_volume(len(w), epsilon / smallest) if epsilon else 0.0
    )
    values["value"] = value
    if not balls.outer_is_global.all():
        n_local = int((~balls.outer_is_global).sum())
        why = (
            f"At {n_local} sources some target beyond r is within epsilon, so outer "
            "balls do not hold the tolerance sets and the count can exceed the truth."
        )
        return Certificate(name, False, "vacuous", why, values)
    if not everywhere:
        why = (
            "A volume is about the continuum, but the outer balls were checked on the "
            "table's targets only, where the count can exceed the truth."
        )
        return Certificate(name, False, "vacuous", why, values)
    if balls.rates.radius < float(np.linalg.norm(w)):
        why = (
            "Beyond r only the table's targets were checked, so outer balls need not "
            "hold the tolerance sets: r must reach across the whole box."
        )
        return Certificate(name, False, "vacuous", why, values)
    values["hypotheses_hold"] = True
    why = "Every tolerance set lies in its outer ball, on the continuum."
    # A count that rounding put above a whole number must not be rounded up.
    bound = Bound("lower", math.ceil(value * (1 - 1e-9)), "box", "any")
    kind = claim(balls.rates.provenance)
    scope = "every context of the box"
    return Certificate(name, True, kind, why, values, scope, (bound,))
