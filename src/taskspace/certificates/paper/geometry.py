"""Loss rates, and balls and volumes where they are derived."""

import numpy as np
from numpy.typing import NDArray

from taskspace.certificates.boxes.enclosures import (
    find_enclosure,
)
from taskspace.certificates.paper.balls import Balls, check_balls
from taskspace.certificates.paper.rates import (
    LossRates,
    contexts_of,
    loss_rates_until,
    rate_bounds,
)
from taskspace.certificates.paper.volume import (
    no_volume_bounds,
    volume_bounds,
)
from taskspace.certificates.setting import Setting
from taskspace.certificates.statements.base import Certificate
from taskspace.certificates.statements.claims import (
    on_table,
)
from taskspace.cover.base import Clock
from taskspace.errors import InvalidInputError
from taskspace.questions import Question
from taskspace.spaces import Space
from taskspace.systems.base import PROVENANCE_WORDS

__all__ = ["certify_geometry", "default_radius"]

# Rigorous loss rates take some milliseconds a source; beyond this many, the table's.
MAX_RATE_SOURCES = 1000


def certify_geometry(
    setting: Setting, radius: float | None
) -> tuple[LossRates | None, Balls | None, list[Certificate]]:
    """Loss rates; and balls and volumes where they are derived: for `signed`.

    Args:
        setting: what there is to certify with.
        radius: r of the loss rates; a default if left out.

    Returns:
        Rates and balls as far as they can be had, and the certificates.
    """
    table, question = setting.table, setting.question
    if question.error is not None:
        why = "Derived for contexts that are known exactly, and not for measured ones."
        return None, None, [Certificate("loss rates", False, "vacuous", why)]
    if question.rule.is_relative or question.also or question.measure != "performance":
        why = (
            "Loss rates compare scores of one policy, in units of performance; epsilon "
            f"of '{question.label}' is in others."
        )
        return None, None, [Certificate("loss rates", False, "vacuous", why)]
    try:
        rows, columns = contexts_of(table)
        r = default_radius(columns) if radius is None else radius
        rates = loss_rates_until(table, r, setting.clock)
    except InvalidInputError as error:
        return None, None, [Certificate("loss rates", False, "vacuous", str(error))]
    if rates is None:
        why = (
            f"Time was up before the loss rates of {rows.size:,} sources were known: "
            "a larger time limit gives them."
        )
        return None, None, [Certificate("loss rates", False, "vacuous", why)]
    exact, slopes = _exact_rates(setting, r)
    about = _rates_certificate(rates, exact, slopes)
    if question.criterion != "signed":
        why = f"Derived for the signed criterion, and not for {question.criterion!r}."
        none = [
            Certificate(name, False, "vacuous", why)
            for name in ("inner balls", "outer balls")
        ]
        return rates, None, [about, *none, *no_volume_bounds(why)]
    check = check_balls(
        table, question.epsilon, radius=r, judge=question.judge, upper_rate=exact
    )
    widths = np.ptp(np.concatenate([rows.points, columns.points]), axis=0)
    if check.inner.values["violations"]:
        volumes = no_volume_bounds(f"Inner balls do not hold: {check.inner.why}")
    else:
        # Then a packing of targets is a set of sources.
        known = {tuple(row) for row in rows.points.tolist()}
        same = known.issuperset(tuple(row) for row in columns.points.tolist())
        volumes = volume_bounds(widths, question.epsilon, check.balls, same_sides=same)
    return rates, check.balls, [about, check.inner, check.outer, *volumes]


def _rates_certificate(
    rates: LossRates,
    exact: NDArray[np.float64] | None,
    slopes: NDArray[np.float64] | None,
) -> Certificate:
    upper = rates.upper
    values = {
        "radius": rates.radius,
        "largest": upper.max(),
        "median": np.median(upper),
        "smallest": upper.min(),
        "largest_lower": rates.lower.max(initial=-np.inf),
    }
    scope = PROVENANCE_WORDS[rates.provenance].table
    if not (rates.n_neighbours > 0).any():
        why = "No source has another target within r: enlarge r."
        return Certificate("loss rates", False, "vacuous", why, values, scope)
    where = on_table(rates.provenance)
    why = "Slopes from each source to the targets within r: exact on these targets."
    if where:
        why = f"Slopes from each source to the targets within r,{where}."
    if slopes is not None:
        values |= {"largest_slope": slopes.max(), "median_slope": np.median(slopes)}
        why += " largest_slope is the limit r → 0, from the gradient of J."
    if exact is not None:
        values["largest_bound"] = exact.max()
        why += " largest_bound holds on the continuum, by interval arithmetic."
    return Certificate("loss rates", True, "estimate", why, values, scope)


def default_radius(targets: Space) -> float:
    """The r of loss rates where none is given: a tenth of the diameter.

    Args:
        targets: contexts; r is at least one and a half of their largest steps.
    """
    widths = np.ptp(targets.points, axis=0)
    steps = [np.diff(np.unique(column)).max(initial=0.0) for column in targets.points.T]
    radius = max(0.1 * float(np.linalg.norm(widths)), 1.5 * max(steps))
    return radius if radius > 0 else 1.0  # a single context: nobody is near


def _exact_rates(
    setting: Setting, radius: float
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Bounds on the rates that hold on the continuum, and slopes at home."""
    system, sources, targets = setting.system, setting.sources, setting.targets
    if system is None or sources is None or targets is None:
        return None, None
    contexts = system.contexts(sources)
    enclosure, _ = find_enclosure(
        system, setting.policies, contexts, Question("signed", epsilon=0.0)
    )
    if enclosure is None:
        return None, None
    live = [i for i, axis in enumerate(system.axes) if axis.name in sources.names]
    slopes = enclosure.home_slopes(live)
    if sources.size > MAX_RATE_SOURCES:
        return None, slopes
    clock = Clock(0.2 * setting.clock.left)
    box = system.contexts(targets)
    return rate_bounds(enclosure, box, radius, contexts, clock=clock), slopes
