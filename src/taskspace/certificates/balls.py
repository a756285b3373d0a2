r"""The paper's balls and volumes, each under the conditions that hold.

**Balls**: Lemma 1 with two repairs (docs/theory.md, "Balls"). Rates over $B_r$ say
nothing beyond r, so the inner radius is $\min(r, \epsilon / L^r)$, or r where
$L^r \le 0$; and the outer ball $B_{\epsilon / M^r}$ contains the whole tolerance set
only if nothing outside $B_r$ is in it, otherwise only its part inside $B_r$.

**Volumes**: if every tolerance set contains the ball of radius ρ around its source, as
many balls as cover the box suffice (docs/theory.md, "Volume bounds").
"""

import math
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace.certificates.boxes.enclosures import find_enclosure
from taskspace.certificates.case import Case
from taskspace.certificates.rates import (
    LossRates,
    contexts_of,
    default_radius,
    loss_rates,
    rate_bounds,
)
from taskspace.certificates.statements import (
    Bound,
    Certificate,
    CertificateKind,
    claim,
    on_table,
)
from taskspace.errors import InvalidInputError
from taskspace.performance import family_rows, row_blocks
from taskspace.questions import Question
from taskspace.systems.base import PROVENANCE_WORDS

# Radii are cut by this share, so that rounding cannot let a ball reach too far.
SHRINK = 1 - 1e-12
# Rigorous loss rates take some milliseconds per source; beyond this many, the table's.
MAX_RATE_SOURCES = 1000
# For them, also when time is up.
LEAST_SECONDS = 2.0


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


@dataclass(frozen=True, eq=False)
class Balls:
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
    balls = Balls(inner, outer, is_global, rates)
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
    return balls, Certificate("inner balls", holds, kind, why, values, scope)


# --- volumes --------------------------------------------------------------------------


def ball_volume(n_dims: int, radius: float) -> float:
    """Return volume of a Euclidean ball.

    Args:
        n_dims: number of dimensions.
        radius: radius of the ball.
    """
    return math.pi ** (n_dims / 2) / math.gamma(n_dims / 2 + 1) * radius**n_dims


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


def volume_bounds(
    widths: ArrayLike, balls: Balls, *, same_sides: bool
) -> list[Certificate]:
    """Return a bound on Comp_ε of the signed criterion from its balls.

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
        case: gets rates and balls, where they exist.
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
    case.found["rates"] = rates
    exact = _exact_rates(case, r)
    about = _rates_certificate(rates, exact)
    if not question.rule.compares_with_home:
        return [about]
    balls, inner = check_balls(
        table, question.epsilon, radius=r, judge=question.judge, upper_rate=exact
    )
    case.found["balls"] = balls
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
    enclosure, _ = find_enclosure(
        system, case.study.policies, contexts, Question("signed", epsilon=0.0)
    )
    if enclosure is None:
        return None
    clock = Clock(max(case.clock.left, LEAST_SECONDS))
    return rate_bounds(
        enclosure, system.contexts(targets), radius, contexts, clock=clock
    )
