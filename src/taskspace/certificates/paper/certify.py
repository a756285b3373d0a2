"""The paper's objects for `certify`: loss rates, and balls and volumes for `signed`."""

import numpy as np

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace.certificates.boxes.enclosures import find_enclosure
from taskspace.certificates.case import Case, certifier
from taskspace.certificates.paper.balls import check_balls
from taskspace.certificates.paper.rates import (
    LossRates,
    contexts_of,
    loss_rates_until,
    rate_bounds,
)
from taskspace.certificates.paper.volume import no_volume_bounds, volume_bounds
from taskspace.certificates.statements import Certificate, on_table
from taskspace.errors import InvalidInputError
from taskspace.questions import Question
from taskspace.spaces import Space
from taskspace.systems.base import PROVENANCE_WORDS

# Rigorous loss rates take some milliseconds per source; beyond this many, the table's.
MAX_RATE_SOURCES = 1000
# For them, also when time is up.
LEAST_SECONDS = 2.0


@certifier("loss rates", before="continuum", runs_last=True)
def certify_geometry(case: Case) -> list[Certificate]:
    """Find loss rates; and balls and volumes where they are derived: for `signed`.

    Args:
        case: gets rates and balls, where they exist.
    """
    table, question = case.table, case.question
    if question.error is not None:
        return _no_rates(
            "Derived for contexts that are known exactly, and not for measured ones."
        )
    if question.rule.is_relative or question.also or question.measure != "performance":
        return _no_rates(
            "Loss rates compare scores of one policy, in units of performance; epsilon "
            f"of '{question.label}' is in others."
        )
    try:
        rows, columns = contexts_of(table)
        radius = case.radius
        r = default_radius(columns) if radius is None else radius
        rates = loss_rates_until(table, r, Clock(max(case.clock.left, LEAST_SECONDS)))
    except InvalidInputError as error:
        return _no_rates(str(error))
    if rates is None:
        return _no_rates(
            f"Time was up before the loss rates of {rows.size:,} sources were known: "
            "a larger time limit gives them."
        )
    case.found["rates"] = rates
    exact, slopes = _exact_rates(case, r)
    about = _rates_certificate(rates, exact, slopes)
    if not question.rule.compares_with_home:
        why = f"Derived for the signed criterion, and not for {question.criterion!r}."
        none = [
            Certificate(name, False, "vacuous", why)
            for name in ("inner balls", "outer balls")
        ]
        return [about, *none, *no_volume_bounds(why)]
    check = check_balls(
        table, question.epsilon, radius=r, judge=question.judge, upper_rate=exact
    )
    case.found["balls"] = check.balls
    widths = np.ptp(np.concatenate([rows.points, columns.points]), axis=0)
    if check.inner.values["violations"]:
        volumes = no_volume_bounds(f"Inner balls do not hold: {check.inner.why}")
    else:
        # Then a packing of targets is a set of sources.
        source_rows = {tuple(row) for row in rows.points.tolist()}
        same = source_rows.issuperset(tuple(row) for row in columns.points.tolist())
        volumes = volume_bounds(widths, check.balls, same_sides=same)
    return [about, check.inner, check.outer, *volumes]


def _no_rates(why: str) -> list[Certificate]:
    return [Certificate("loss rates", False, "vacuous", why)]


def _rates_certificate(
    rates: LossRates, exact: Array | None, slopes: Array | None
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
    """Return the r of loss rates where none is given: a tenth of the diameter.

    Args:
        targets: contexts; r is at least one and a half of their largest steps.
    """
    widths = np.ptp(targets.points, axis=0)
    steps = [np.diff(np.unique(column)).max(initial=0.0) for column in targets.points.T]
    radius = max(0.1 * float(np.linalg.norm(widths)), 1.5 * max(steps))
    return radius if radius > 0 else 1.0  # a single context has no neighbour


def _exact_rates(case: Case, radius: float) -> tuple[Array | None, Array | None]:
    """Return bounds on the rates that hold on the continuum, and slopes at home."""
    system, sources, targets = case.study.system, case.sources, case.study.targets
    if system is None or sources is None or targets is None:
        return None, None
    contexts = system.contexts(sources)
    enclosure, _ = find_enclosure(
        system, case.study.policies, contexts, Question("signed", epsilon=0.0)
    )
    if enclosure is None:
        return None, None
    live = [i for i, axis in enumerate(system.axes) if axis.name in sources.names]
    slopes = enclosure.home_slopes(live)
    if sources.size > MAX_RATE_SOURCES:
        return None, slopes
    clock = Clock(max(case.clock.left, LEAST_SECONDS))
    box = system.contexts(targets)
    return rate_bounds(enclosure, box, radius, contexts, clock=clock), slopes
