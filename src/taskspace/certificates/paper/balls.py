r"""Balls inside and around tolerance sets, under the conditions that really hold.

The paper's Lemma 1 with two repairs (docs/theory.md, "Balls"): rates over $B_r$ say
nothing beyond r, so the inner radius is $\min(r, \epsilon / L^r)$, or r where
$L^r \le 0$; and the outer ball $B_{\epsilon / M^r}$ contains the whole tolerance set
only if nothing outside $B_r$ is in it, otherwise only its part inside $B_r$.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from taskspace._util.arrays import Array
from taskspace.certificates.paper.rates import (
    LossRates,
    contexts_of,
    distances,
    loss_rates,
)
from taskspace.certificates.statements import (
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


@dataclass(frozen=True)
class BallCheck:
    """Balls against the true tolerance sets of a table.

    Args:
        balls: radii.
        inner: certificate of the inner balls.
        outer: certificate of the outer balls.
    """

    balls: Balls
    inner: Certificate
    outer: Certificate


def check_balls(
    table: xr.Dataset,
    epsilon: float,
    *,
    radius: float,
    judge: str = "worst",
    upper_rate: Array | None = None,
) -> BallCheck:
    """Return inner and outer balls of every source, checked on every target of a table.

    L is the largest and M the smallest rate of any policy, so the balls hold for
    the worst and for the best policy of a family alike.

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
    is_given = upper_rate is not None
    if is_given and np.shape(upper_rate) != rates.upper.shape:
        raise InvalidInputError(
            f"upper_rate must hold one number for each of {len(rates.upper)} sources, "
            f"but has shape {np.shape(upper_rate)}."
        )
    inner = inner_radius(
        rates.upper if upper_rate is None else upper_rate, radius, epsilon
    )
    outer = outer_radius(rates.lower, epsilon)
    sources, targets = contexts_of(table)
    is_global = np.zeros(sources.size, bool)
    inside, tolerated, captured, violations, escaped = (
        np.zeros(sources.size, np.int64) for _ in range(5)
    )
    in_outer = np.zeros(sources.size, np.int64)
    for rows in row_blocks(table):
        distance = distances(sources.points[rows], targets.points)
        served = family_rows(table, f"gap_{question.judge}", rows) <= epsilon
        ball = distance <= inner[rows, None]
        inside[rows] = ball.sum(1)
        tolerated[rows] = served.sum(1)
        captured[rows] = (ball & served).sum(1)
        violations[rows] = (ball & ~served).sum(1)
        is_global[rows] = ~(served & (distance > radius)).any(1)
        around = distance <= outer[rows, None]
        in_outer[rows] = around.sum(1)
        escaped[rows] = (served & ~around & (distance <= radius)).sum(1)
    is_global &= np.isfinite(outer)
    balls = Balls(inner, outer, is_global, rates)
    tightness = captured.sum() / max(1, tolerated.sum())
    return BallCheck(
        balls,
        _inner_certificate(
            balls, epsilon, int(violations.sum()), float(tightness), is_given
        ),
        _outer_certificate(balls, epsilon, int(escaped.sum()), tolerated, in_outer),
    )


def _inner_certificate(
    balls: Balls, epsilon: float, n_violations: int, tightness: float, given: bool
) -> Certificate:
    trivial = balls.rates.n_neighbours == 0
    provenance = balls.rates.provenance
    kind: CertificateKind = claim(provenance, rigorous=given)
    scope = "every context of the box" if given else PROVENANCE_WORDS[provenance].table
    if given:
        why = "L bounds the slope on the continuum, so the balls hold between targets."
    else:
        why = (
            "L is the largest slope to a target of the table: the balls hold on those "
            "targets, and are an estimate between them."
        )
    if trivial.all() and not given:
        kind, why = "vacuous", "No source has another target within r: enlarge r."
    if n_violations:
        why = f"{n_violations} targets inside inner balls exceed epsilon: L is wrong."
    why += (
        f" The balls are checked{on_table(provenance)}." if on_table(provenance) else ""
    )
    return Certificate(
        "inner balls",
        n_violations == 0 and kind != "vacuous",
        kind,
        why,
        {
            "epsilon": epsilon,
            "radius": balls.rates.radius,
            "smallest_inner": balls.inner.min(),
            "median_inner": np.median(balls.inner),
            "largest_inner": balls.inner.max(),
            "largest_rate": balls.rates.upper.max(),
            "violations": n_violations,
            "captured_share": tightness,
            "capped_at_r": int((balls.inner >= balls.rates.radius * SHRINK).sum()),
            "n_sources": len(balls.inner),
        },
        scope,
    )


def _outer_certificate(
    balls: Balls,
    epsilon: float,
    n_escaped: int,
    tolerated: NDArray[np.int64],
    in_outer: NDArray[np.int64],
) -> Certificate:
    has = np.isfinite(balls.outer)
    whole = balls.outer_is_global
    values = {
        "epsilon": epsilon,
        "radius": balls.rates.radius,
        "n_sources": len(has),
        "n_with_outer": int(has.sum()),
        "n_global": int(whole.sum()),
        "smallest_rate": balls.rates.lower.min(initial=np.inf),
        "violations": n_escaped,
        "filled_share": float(tolerated[whole].sum() / max(1, in_outer[whole].sum())),
    }
    if np.isnan(balls.rates.lower).all():
        why = "M needs every policy's gap, which this table does not hold."
        return Certificate("outer balls", False, "vacuous", why, values)
    if not has.any():
        why = (
            "M <= 0 at every source: J grows in some direction from each, as it must "
            "wherever it is differentiable, so there is no outer ball."
        )
        return Certificate("outer balls", False, "vacuous", why, values)
    scope = PROVENANCE_WORDS[balls.rates.provenance].table
    why = (
        f"{int(has.sum())} of {len(has)} sources have M > 0; for {int(whole.sum())} of "
        "them no target beyond r is within epsilon, so the ball holds the whole "
        "tolerance set; for the rest only its part within r. On the targets of "
        f"{scope}."
    )
    return Certificate("outer balls", n_escaped == 0, "estimate", why, values, scope)
