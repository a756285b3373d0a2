r"""What the paper states of loss rates, balls and volumes, where it holds.

**Loss rates** (Definition 4): $L^r(\theta) = \max_{\pi, \tilde\theta} \frac{J(\theta,
\pi) - J(\tilde\theta, \pi)}{\|\theta - \tilde\theta\|}$ over $0 < \|\theta -
\tilde\theta\| \le r$, and $M^r$ the minimum. `loss_rates` takes them over the targets
of a table: exact for those targets, an estimate between them. `rate_bounds` is a number
that $L^r$ certainly does not exceed on the continuum.

**Balls**: Lemma 1 with two repairs (docs/theory.md, "Balls"). Rates over $B_r$ say
nothing beyond r, so the inner radius is $\min(r, \epsilon / L^r)$, or r where
$L^r \le 0$; and the outer ball $B_{\epsilon / M^r}$ contains the whole tolerance set
only if nothing outside $B_r$ is in it, otherwise only its part inside $B_r$.

**Volumes**: if every tolerance set contains the ball of radius ρ around its source, as
many balls as cover the box suffice (docs/theory.md, "Volume bounds").
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace.certificates.boxes.enclosures import Boxes, Enclosure, find_enclosure
from taskspace.certificates.case import Case
from taskspace.certificates.statements import (
    Bound,
    Certificate,
    CertificateKind,
    claim,
    on_table,
)
from taskspace.errors import InvalidInputError
from taskspace.performance import family_rows, row_blocks, source_space, target_space
from taskspace.performance.table import provenance_of
from taskspace.questions import Question
from taskspace.spaces import Grid, Points, Space
from taskspace.systems.base import PROVENANCE_WORDS, Provenance

# Pieces on each axis into which a ball is cut to bound the slope on it.
PIECES = 8
# Radii are cut by this share, so that rounding cannot let a ball reach too far.
SHRINK = 1 - 1e-12
# Rigorous loss rates take some milliseconds per source; beyond this many, the table's.
MAX_RATE_SOURCES = 1000
# For them, also when time is up.
LEAST_SECONDS = 2.0


# --- loss rates -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LossRates:
    """Loss rates of every source.

    Args:
        radius: r.
        upper: $L^r$ of each source; −inf where no other target is within r.
        lower: $M^r$ of each source; +inf where no other target is within r, NaN
            where the table does not hold what it takes (`judge="best"`).
        n_neighbours: other targets within r of each source.
        provenance: where the numbers of the table come from.
    """

    radius: float
    upper: Array
    lower: Array
    n_neighbours: NDArray[np.int64]
    provenance: Provenance = "given"


def loss_rates(
    table: xr.Dataset, radius: float, clock: Clock | None = None
) -> LossRates:
    """Return loss rates of every source over the targets of a table.

    Args:
        table: a performance table with contexts and scores at home.
        radius: r > 0, Euclidean distance between contexts.
        clock: when to give up; some rows are always done.
    """
    if not radius > 0:
        raise InvalidInputError(f"radius > 0 must hold, but got radius={radius}.")
    sources, targets = contexts_of(table)
    upper = np.full(sources.size, -np.inf)
    lower = np.full(sources.size, np.inf)
    count = np.zeros(sources.size, np.int64)
    has_lower = "gap_best" in table or "performance" in table
    for number, rows in enumerate(row_blocks(table)):
        if number and clock is not None and clock.left <= 0:
            raise InvalidInputError(
                f"Time was up before the loss rates of {sources.size:,} sources were "
                "known: a larger time limit gives them."
            )
        distance = cdist(sources.points[rows], targets.points)
        near = (distance > 0) & (distance <= radius)
        count[rows] = near.sum(1)
        distance = np.where(near, distance, 1.0)
        gap = family_rows(table, "gap_worst", rows) / distance
        upper[rows] = np.where(near, gap, -np.inf).max(1)
        if has_lower:
            gap = family_rows(table, "gap_best", rows) / distance
            lower[rows] = np.where(near, gap, np.inf).min(1)
    if not has_lower:
        lower[:] = np.nan
    return LossRates(float(radius), upper, lower, count, provenance_of(table))


def contexts_of(table: xr.Dataset) -> tuple[Grid | Points, Grid | Points]:
    """Return contexts of both sides of a table, or a sentence about which is missing.

    Args:
        table: a performance table.
    """
    sources, targets = source_space(table), target_space(table)
    if sources is None or targets is None or sources.names != targets.names:
        sides = {"sources": sources, "targets": targets}
        clauses = [
            f"{side} have {'none' if space is None else ', '.join(space.names)}"
            for side, space in sides.items()
        ]
        raise InvalidInputError(
            "Distances need the contexts of sources and targets, on the same axes, but "
            f"{' and '.join(clauses)}. Give the contexts with the matrix."
        )
    return sources, targets


def default_radius(targets: Space) -> float:
    """Return the r of loss rates where none is given: a tenth of the diameter.

    Args:
        targets: contexts; r is at least one and a half of their largest steps.
    """
    widths = np.ptp(targets.points, axis=0)
    steps = [np.diff(np.unique(column)).max(initial=0.0) for column in targets.points.T]
    radius = max(0.1 * float(np.linalg.norm(widths)), 1.5 * max(steps))
    return radius if radius > 0 else 1.0  # a single context has no neighbour


def rate_bounds(
    enclosure: Enclosure,
    targets: Array,
    radius: float,
    sources: Array,
    *,
    clock: Clock | None = None,
) -> Array | None:
    """Bound $L^r$ from above on the whole box of the targets, for certain.

    On a convex set no slope between two points exceeds the largest gradient, and
    that is bounded by the enclosure on pieces of the ball around each source.

    Args:
        enclosure: bounds of the criterion `signed` or `cost`.
        targets: full context rows, whose box is meant.
        radius: r > 0.
        sources: full context rows of the enclosure's sources.
        clock: when to give up.

    Returns:
        One bound per source, infinite where a policy may be unstable on the ball;
        None if the enclosure has no bounds on slopes, or time is up.
    """
    if enclosure.question.rule.compares_with_best:
        raise InvalidInputError(
            "Loss rates are slopes of J: the enclosure must be for 'signed' or "
            f"'cost', but is for {enclosure.question.criterion!r}."
        )
    low, high = targets.min(0), targets.max(0)
    # An axis that only the sources vary is part of the way to them.
    live = np.minimum(low, sources.min(0)) < np.maximum(high, sources.max(0))
    reach = np.where(live, np.nextafter(radius, np.inf), 0.0)
    bounds = np.zeros(len(sources))
    for i, source in enumerate(sources):
        if clock is not None and clock.left <= 0:
            return None
        # The ball's part of the box, and the source itself, inside the box or not:
        # its hull is convex.
        below = np.nextafter(source - reach, -np.inf)
        above = np.nextafter(source + reach, np.inf)
        start = np.minimum(source, np.maximum(low, below))
        stop = np.maximum(source, np.minimum(high, above))
        pieces = Boxes.evenly(start, stop, PIECES)
        nearest = np.clip(source, pieces.low, pieces.high)
        # 1e-9 is far above what the distance loses to rounding.
        inside = np.linalg.norm(nearest - source, axis=1) <= radius * (1 + 1e-9)
        slopes = enclosure.slope_bounds(pieces[inside], [i])
        if slopes is None:
            return None
        # 1e-12 is far above what the squares and the root lose to rounding.
        bounds[i] = np.sqrt((slopes[0][:, live] ** 2).sum(1)).max() * (1 + 1e-12)
    return bounds


# --- balls ----------------------------------------------------------------------------


def inner_radius(upper_rate: ArrayLike, radius: float, epsilon: float) -> Array:
    r"""Return radius of a ball that lies inside the tolerance set.

    $\min(r, \epsilon / L^r)$ for $L^r > 0$, and r for $L^r \le 0$; the ball is to be
    intersected with the space. It holds on whatever set of targets $L^r$ was taken
    over.

    Args:
        upper_rate: $L^r$ of each source, or an upper bound on it.
        radius: r.
        epsilon: tolerance of the signed criterion, `>= 0`.
    """
    Question("signed", epsilon=epsilon)  # refuses a tolerance without meaning
    rate = np.asarray(upper_rate, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(rate > 0, np.minimum(radius, epsilon / rate), radius) * SHRINK


def outer_radius(lower_rate: ArrayLike, epsilon: float) -> Array:
    r"""Return the radius of a ball that holds the tolerance set's part within r.

    $\epsilon / M^r$ for $M^r > 0$, infinite otherwise. This is a statement about
    targets within r: $S_\epsilon \cap B_r \subseteq B_{\epsilon / M^r}$.

    Args:
        lower_rate: $M^r$ of each source, or a lower bound on it.
        epsilon: tolerance of the signed criterion, `>= 0`.
    """
    Question("signed", epsilon=epsilon)  # refuses a tolerance without meaning
    rate = np.asarray(lower_rate, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(rate > 0, epsilon / rate, np.inf) / SHRINK


class Balls(NamedTuple):
    """Inner and outer radius of every source.

    Args:
        inner: radius of the inner ball.
        outer: radius of the outer ball, infinite where there is none.
        outer_is_global: whether the outer ball holds the whole tolerance set, not
            only its part within r.
        rates: the loss rates behind them.
    """

    inner: Array
    outer: Array
    outer_is_global: NDArray[np.bool_]
    rates: LossRates


def check_balls(
    table: xr.Dataset,
    epsilon: float,
    *,
    radius: float,
    judge: str = "worst",
    upper_rate: Array | None = None,
) -> tuple[Balls, Certificate]:
    """Return balls of every source, and a certificate of the inner ones.

    L is the largest and M the smallest rate of any policy, so the balls hold for
    the worst and for the best policy of a family alike. The inner balls are checked on
    every target of the table.

    Args:
        table: a performance table with contexts and scores at home.
        epsilon: tolerance of the signed criterion.
        radius: r of the loss rates.
        judge: `"worst"` or `"best"`, whose tolerance sets are looked at.
        upper_rate: bounds on $L^r$ that hold on the continuum (`rate_bounds`); then
            the inner balls do too. By default the rates of the table, whose balls
            are proven for its targets and an estimate between them.
    """
    question = Question("signed", judge, epsilon=epsilon)
    rates = loss_rates(table, radius)
    if upper_rate is not None and np.shape(upper_rate) != rates.upper.shape:
        raise InvalidInputError(
            f"upper_rate must hold one number for each of {len(rates.upper)} sources, "
            f"but has shape {np.shape(upper_rate)}."
        )
    inner = inner_radius(
        rates.upper if upper_rate is None else upper_rate, radius, epsilon
    )
    outer = outer_radius(rates.lower, epsilon)
    sources, targets = contexts_of(table)
    is_global = np.isfinite(outer)
    n_served, n_captured, n_violations = 0, 0, 0
    for rows in row_blocks(table):
        distance = cdist(sources.points[rows], targets.points)
        served = family_rows(table, f"gap_{question.judge}", rows) <= epsilon
        ball = distance <= inner[rows, None]
        n_served += int(served.sum())
        n_captured += int((ball & served).sum())
        n_violations += int((ball & ~served).sum())
        is_global[rows] &= ~(served & (distance > radius)).any(1)
    provenance, is_given = rates.provenance, upper_rate is not None
    kind: CertificateKind = claim(provenance, rigorous=is_given)
    scope = PROVENANCE_WORDS[provenance].table
    if is_given:
        scope = "every context of the box"
        why = "L bounds the slope on the continuum, so the balls hold between targets."
    elif (rates.n_neighbours == 0).all():
        kind, why = "vacuous", "No source has another target within r: enlarge r."
    else:
        why = (
            "L is the largest slope to a target of the table: the balls hold on those "
            "targets, and are an estimate between them."
        )
    if n_violations:
        why = f"{n_violations} targets inside inner balls exceed epsilon: L is wrong."
    if on_table(provenance):
        why += f" The balls are checked{on_table(provenance)}."
    values = {
        "radius": rates.radius,
        "smallest_inner": inner.min(),
        "median_inner": np.median(inner),
        "largest_inner": inner.max(),
        "largest_rate": rates.upper.max(),
        "violations": n_violations,
        "captured_share": n_captured / max(1, n_served),
        "n_sources": len(inner),
    }
    holds = n_violations == 0 and kind != "vacuous"
    certificate = Certificate("inner balls", holds, kind, why, values, scope)
    return Balls(inner, outer, is_global, rates), certificate


# --- volumes --------------------------------------------------------------------------


def ball_volume(n_dims: int, radius: float) -> float:
    """Return volume of a Euclidean ball.

    Args:
        n_dims: number of dimensions.
        radius: radius of the ball.
    """
    return math.pi ** (n_dims / 2) / math.gamma(n_dims / 2 + 1) * radius**n_dims


def packing_count(widths: ArrayLike, radius: float) -> int:
    r"""Return size of any ρ-packing of a box, hence of some cover by balls of radius ρ.

    $\mathrm{Vol}(\Theta \oplus B_{\rho/2}) / \mathrm{Vol}(B_{\rho/2})$: holds for every
    subset of the box too, such as the nodes of a grid, with centres in the subset. By
    Steiner's formula the first is $\sum_j e_{d-j}(w) v_j (\rho/2)^j$, with $e$ the
    elementary symmetric polynomials of the widths and $v_j$ the volume of a unit ball.

    Args:
        widths: of the box; zeros do not count.
        radius: ρ > 0.
    """
    w = np.asarray(widths, np.float64)
    if not radius > 0 or not (w >= 0).all():
        raise InvalidInputError(
            f"radius > 0 and widths >= 0 must hold, but got {radius} and {w.tolist()}."
        )
    w = w[w > 0]
    d, half = len(w), radius / 2
    # np.poly of −w has the elementary symmetric polynomials as its coefficients.
    symmetric = np.atleast_1d(np.poly(-w))
    inflated = sum(symmetric[d - j] * ball_volume(j, half) for j in range(d + 1))
    return math.floor(inflated / ball_volume(d, half) * (1 + 1e-9))


def volume_bounds(
    widths: ArrayLike, balls: Balls, *, same_sides: bool
) -> list[Certificate]:
    """Return a bound on Comp_ε of the signed criterion from its balls, if they allow.

    Args:
        widths: of the box that holds the contexts.
        balls: radii of every source that may be used.
        same_sides: whether the sources are the targets, so that a packing of targets
            is a set of sources.
    """
    rho = float(balls.inner.min())
    if not rho > 0:
        return []
    provenance = balls.rates.provenance
    packed = packing_count(widths, rho)
    why = "Sources and targets differ, so a packing need not be sources."
    if same_sides:
        why = (
            "A maximal packing by inner balls is a cover, on the nodes of the grid"
            f"{on_table(provenance)}."
        )
    return [
        Certificate(
            "volume: packing",
            True,
            claim(provenance, rigorous=same_sides),
            why,
            {"side": "upper", "inner_radius": rho, "value": packed},
            PROVENANCE_WORDS[provenance].table,
            (Bound("upper", packed, "nodes", "table"),) if same_sides else (),
        ),
    ]


# --- for certify ----------------------------------------------------------------------


def certify_geometry(case: Case) -> list[Certificate]:
    """Find loss rates; and balls and volumes where they are derived: for `signed`.

    Args:
        case: what there is to certify with.
    """
    table, question = case.table, case.question
    try:
        if question.error is not None:
            raise InvalidInputError("Loss rates are for contexts known exactly.")
        if (
            question.rule.is_relative
            or question.also
            or question.measure != "performance"
        ):
            raise InvalidInputError(
                "Loss rates compare scores of one policy, in units of performance; "
                f"epsilon of '{question.label}' is in others."
            )
        rows, columns = contexts_of(table)
        r = default_radius(columns)
        rates = loss_rates(table, r, Clock(max(case.clock.left, LEAST_SECONDS)))
    except InvalidInputError as error:
        return [Certificate("loss rates", False, "vacuous", str(error))]
    exact = _exact_rates(case, r)
    about = _rates_certificate(rates, exact)
    if not question.rule.compares_with_home:
        return [about]
    balls, inner = check_balls(
        table, question.epsilon, radius=r, judge=question.judge, upper_rate=exact
    )
    if inner.values["violations"]:
        return [about, inner]
    # Where every target is a source, a packing of targets is a set of sources.
    source_rows = {tuple(row) for row in rows.points.tolist()}
    same = source_rows.issuperset(tuple(row) for row in columns.points.tolist())
    widths = np.ptp(np.concatenate([rows.points, columns.points]), axis=0)
    return [about, inner, *volume_bounds(widths, balls, same_sides=same)]


def _rates_certificate(rates: LossRates, exact: Array | None) -> Certificate:
    values = {
        "radius": rates.radius,
        "largest": rates.upper.max(),
        "median": np.median(rates.upper),
        "smallest": rates.upper.min(),
        "largest_lower": rates.lower.max(initial=-np.inf),
    }
    scope, where = PROVENANCE_WORDS[rates.provenance].table, on_table(rates.provenance)
    if not (rates.n_neighbours > 0).any():
        why = "No source has another target within r: enlarge r."
        return Certificate("loss rates", False, "vacuous", why, values, scope)
    why = "Slopes from each source to the targets within r"
    why += f",{where}." if where else ": exact on these targets."
    if exact is not None:
        values["largest_bound"] = exact.max()
        why += " largest_bound holds on the continuum, by interval arithmetic."
    return Certificate("loss rates", True, "estimate", why, values, scope)


def _exact_rates(case: Case, radius: float) -> Array | None:
    """Return bounds on the rates that hold on the continuum, where there are some."""
    system, sources, targets = case.study.system, case.sources, case.study.targets
    if system is None or sources is None or targets is None:
        return None
    if sources.size > MAX_RATE_SOURCES:
        return None
    contexts = system.contexts(sources)
    question = Question("signed", epsilon=0.0)
    enclosure, _ = find_enclosure(system, case.study.policies, contexts, question)
    if enclosure is None:
        return None
    clock, rows = Clock(max(case.clock.left, LEAST_SECONDS)), system.contexts(targets)
    return rate_bounds(enclosure, rows, radius, contexts, clock=clock)
