"""Everything that can be certified about one table, in one call.

It knows no system by name: what a system allows comes from its enclosure.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from taskspace.certificates.balls import Balls, check_balls
from taskspace.certificates.base import Bound, Certificate
from taskspace.certificates.cells import certified_cover
from taskspace.certificates.claims import (
    check_consistent,
    claim,
    on_table,
    table_scope,
)
from taskspace.certificates.constants import RateCheck, refute_rates
from taskspace.certificates.continuum import (
    CERTIFIED,
    ContinuumCover,
    box_edges,
    certify_cover,
)
from taskspace.certificates.enclosures import (
    Boxes,
    Enclosure,
    LipschitzEnclosure,
    enclosure_for,
    no_enclosure_reason,
)
from taskspace.certificates.enclosures.lipschitz import check_rates
from taskspace.certificates.enclosures.search import serves_cells
from taskspace.certificates.grid import axis_values, estimate_rates, margin_rule
from taskspace.certificates.rates import (
    LossRates,
    contexts_of,
    loss_rates,
    rate_bounds,
)
from taskspace.certificates.sentences import (
    between_sentence,
    few_sentence,
    grid_sentence,
)
from taskspace.certificates.volume import (
    engine_bounds,
    no_volume_bounds,
    volume_bounds,
)
from taskspace.cover import Cover, minimum_cover
from taskspace.cover.base import Clock
from taskspace.criteria import assigned_regret, judge_named
from taskspace.errors import InvalidInputError
from taskspace.performance.table import provenance_of
from taskspace.policies import Policy
from taskspace.questions import Question
from taskspace.sets import PackedSets, TargetSets
from taskspace.spaces import Grid, Points, Space
from taskspace.systems.base import Provenance, System

__all__ = ["CertifyResult", "certify"]

# Rigorous loss rates take some milliseconds a source; beyond this many, the table's.
MAX_RATE_SOURCES = 1000
# Covers of the grid for a tolerance smaller by these shares often hold between nodes.
TIGHTEN = (0.02, 0.05, 0.1)
MAX_PACKED_PAIRS = 2**31
QUICK_BOUNDS = ("size", "packing", "dual ascent")
# Pairs up to which the slower bounds are computed too.
MAX_LP_PAIRS = 10**6
Report = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class CertifyResult:
    """Certificates of a table, and what the figures need.

    Args:
        question: what the covers are about.
        certificates: all of them, in the order in which they build on each other.
        cover: minimum cover of the table's targets.
        rates: loss rates of every source, if they could be had.
        balls: inner and outer radii, if the criterion is the signed one.
        continuum: a cover of the whole box, if the system has bounds over boxes.
        seconds: wall-clock time.
    """

    question: Question
    certificates: tuple[Certificate, ...]
    cover: Cover
    rates: LossRates | None
    balls: Balls | None
    continuum: ContinuumCover | None
    seconds: float

    def __getitem__(self, name: str) -> Certificate:
        """The certificate of this name."""
        for certificate in self.certificates:
            if certificate.name == name:
                return certificate
        raise KeyError(name)


@dataclass(frozen=True, eq=False)
class _Setting:
    """What there is to certify with."""

    table: xr.Dataset
    question: Question
    provenance: Provenance
    system: System | None
    policies: Policy | None
    sources: Grid | Points | None
    targets: Grid | Points | None
    rates: NDArray[np.float64] | None
    enclosure: Enclosure | None
    clock: Clock
    seed: int


def certify(
    table: xr.Dataset,
    question: Question | float,
    *,
    criterion: str = "regret",
    judge: str = "worst",
    radius: float | None = None,
    system: System | None = None,
    policies: Policy | None = None,
    sources: Grid | Points | None = None,
    targets: Grid | Points | None = None,
    rates: ArrayLike | None = None,
    enclosure: Enclosure | None = None,
    time_limit: float = 20.0,
    seed: int = 0,
    progress: Report | None = None,
    family: str | None = None,
) -> CertifyResult:
    """Loss rates, balls, volume bounds, cover bounds and the continuum certificate.

    What a table alone allows is always there; with the system and the policies also
    what holds between its targets.

    Args:
        table: a performance table.
        question: criterion, judge and tolerance; or the tolerance alone.
        criterion: one of `taskspace.criteria.CRITERIA`, beside a mere tolerance.
            Balls and volume bounds are derived for `signed` only.
        judge: `"worst"` or `"best"`, beside a mere tolerance.
        radius: r of the loss rates; by default a tenth of the diameter, and at least
            one and a half steps of the grid.
        system: the tasks.
        policies: the stack that the table was made with.
        sources: contexts of its sources; from the table if left out.
        targets: contexts of its targets; from the table if left out.
        rates: Λ, if you know one: Lipschitz constants of every policy's loss in the
            target, one number or one an axis of the targets (of the system, where
            one is given). One that the table contradicts is refused.
        enclosure: bounds on the losses over boxes, if you have your own; otherwise
            that of the system, if there is one.
        time_limit: seconds for all of it; compiling the kernels, once per
            installation, comes on top.
        seed: of the cover engine.
        progress: called with the name of each stage.
        family: the former name of `judge` (`"all"` or `"any"`).
    """
    if not isinstance(question, Question):
        judge = judge_named(judge, family)
        question = Question(criterion, judge, epsilon=question)
    tell = progress or (lambda _: None)
    tell("compile")
    _compile_cover()
    setting = _setting(
        table,
        question,
        system,
        policies,
        sources,
        targets,
        rates,
        enclosure,
        seed,
    )
    _compile_bounds(setting)
    clock = Clock(time_limit)
    setting = replace(setting, clock=clock)
    found: list[Certificate] = []
    given = None
    if setting.rates is not None and setting.targets is not None:
        tell("given constants")
        given = _refute(setting)
    tell("grid cover")
    sets, *tighter = _sets_at(setting)
    cover = minimum_cover(sets, time_limit=0.25 * clock.left, seed=seed)
    found.append(_grid_cover(setting, cover))
    tell("cover bounds")
    small = sets.n_sources * sets.n_targets <= MAX_LP_PAIRS
    kinds = (*QUICK_BOUNDS, "primal-dual", "lp") if small else QUICK_BOUNDS
    found.extend(
        engine_bounds(
            sets,
            provenance=setting.provenance,
            kinds=kinds,
            time_limit=0.2 * clock.left / len(kinds),
        )
    )
    tell("balls")
    rates_seen, balls, geometric = _geometry(setting, radius)
    found.extend(geometric)
    tell("continuum")
    continuum, between = _continuum(setting, cover, tighter, given)
    found.extend(between)
    check_consistent(found)
    return CertifyResult(
        question, tuple(found), cover, rates_seen, balls, continuum, clock.seconds
    )


@functools.cache
def _compile_cover() -> None:
    """Have the kernels of the cover engine compiled, on five sources in a ring."""
    ring = np.eye(5, dtype=bool) | np.roll(np.eye(5, dtype=bool), 1, axis=0)
    minimum_cover(PackedSets.from_bool(ring), time_limit=1)
    engine_bounds(PackedSets.from_bool(ring), kinds=QUICK_BOUNDS)


def _compile_bounds(setting: _Setting) -> None:
    """Have the kernels of an enclosure compiled, on one source and one context."""
    enclosure, system, sources = setting.enclosure, setting.system, setting.sources
    if enclosure is None or system is None or sources is None:
        return
    first = system.contexts(sources)[:1]
    enclosure.bounds(Boxes.points(first), [0])
    edges = [np.array([x]) for x in first[0]]
    list(serves_cells(enclosure.subset([0]), edges, setting.question.epsilon))


def _setting(
    table: xr.Dataset,
    question: Question,
    system: System | None,
    policies: Policy | None,
    sources: Grid | Points | None,
    targets: Grid | Points | None,
    rates: ArrayLike | None,
    enclosure: Enclosure | None,
    seed: int,
) -> _Setting:
    sources = sources or _points(table, 0)
    targets = targets or _points(table, 1)
    constants = None
    if rates is not None:
        names = _names(system, targets)
        constants = check_rates(rates, names) if names else None
    if enclosure is not None and (enclosure.criterion, enclosure.judge) != (
        question.criterion,
        question.judge,
    ):
        raise InvalidInputError(
            f"The enclosure must be for {question.criterion!r} and the "
            f"{question.judge} policy, but is for {enclosure.criterion!r} and the "
            f"{enclosure.judge} policy."
        )
    if enclosure is None and system is not None and sources is not None:
        contexts = system.contexts(sources)
        enclosure = enclosure_for(
            system, policies, contexts, question.criterion, question.judge
        )
    return _Setting(
        table,
        question,
        provenance_of(table),
        system,
        policies,
        sources,
        targets,
        constants,
        enclosure,
        Clock(),
        seed,
    )


def _names(
    system: System | None, targets: Grid | Points | None
) -> tuple[str, ...] | None:
    """Axes that given constants are for: the system's, else the targets'."""
    if system is not None:
        return tuple(axis.name for axis in system.axes)
    return None if targets is None else tuple(targets.names)


def _target_rates(setting: _Setting) -> NDArray[np.float64]:
    """Given constants, of the axes of the targets alone."""
    assert setting.rates is not None
    assert setting.targets is not None
    if setting.rates.ndim == 0 or setting.system is None:
        return setting.rates
    names = [axis.name for axis in setting.system.axes]
    return setting.rates[[names.index(name) for name in setting.targets.names]]


def _refute(setting: _Setting) -> RateCheck:
    assert setting.targets is not None
    return refute_rates(
        setting.table,
        setting.question,
        setting.targets,
        _target_rates(setting),
        clock=Clock(0.2 * setting.clock.left),
    )


def _sets_at(setting: _Setting) -> list[TargetSets]:
    """Tolerance sets for several tolerances in one pass over the table."""
    table, question = setting.table, setting.question
    n_targets = table.sizes["target"]
    if table.sizes["source"] * n_targets > MAX_PACKED_PAIRS:
        return [question.sets(table)]
    epsilon = question.epsilon
    epsilons = [epsilon, *(epsilon - t * abs(epsilon) for t in TIGHTEN)]
    words: list[list[NDArray[np.uint64]]] = [[] for _ in epsilons]
    for _, block in question.blocks(table):
        for part, each in zip(words, epsilons, strict=True):
            part.append(PackedSets.from_bool(block <= each).words)
    return [PackedSets(np.concatenate(part), n_targets) for part in words]


def _grid_cover(setting: _Setting, cover: Cover) -> Certificate:
    question = setting.question
    regret = assigned_regret(setting.table, question.judge, cover.assignment)
    worst = float(regret[cover.assignment >= 0].max(initial=0.0))
    values = {
        **question.record(),
        "size": cover.size,
        "lower_bound": cover.lower_bound,
        "optimal": cover.optimal,
        "sources": cover.sources,
        "coverage": cover.coverage,
        "n_sources": cover.n_sources,
        "n_targets": cover.n_targets,
        "n_uncoverable": len(cover.uncoverable),
        "worst_regret": worst,
    }
    return Certificate(
        "grid cover",
        bool((cover.assignment >= 0).all()),
        claim(setting.provenance),
        grid_sentence(cover, question, worst, setting.provenance),
        values,
        table_scope(setting.provenance),
        (
            Bound("lower", cover.lower_bound, "nodes", "table"),
            Bound("upper", cover.size, "nodes", "table"),
        )
        if len(cover.uncoverable) + (cover.assignment >= 0).sum() == cover.n_targets
        else (),
    )


def _geometry(
    setting: _Setting, radius: float | None
) -> tuple[LossRates | None, Balls | None, list[Certificate]]:
    """Loss rates; and balls and volumes where they are derived: for `signed`."""
    table, question = setting.table, setting.question
    if question.rule.is_relative:
        why = (
            "Loss rates compare scores of one policy, in units of performance; epsilon "
            f"of {question.criterion!r} is in others."
        )
        return None, None, [Certificate("loss rates", False, "vacuous", why)]
    try:
        rows, columns = contexts_of(table)
        r = _default_radius(columns) if radius is None else radius
        rates = loss_rates(table, r)
    except InvalidInputError as error:
        return None, None, [Certificate("loss rates", False, "vacuous", str(error))]
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
    same = rows.size == columns.size and bool((rows.points == columns.points).all())
    return (
        rates,
        check.balls,
        [
            about,
            check.inner,
            check.outer,
            *volume_bounds(widths, question.epsilon, check.balls, same_sides=same),
        ],
    )


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
    scope = table_scope(rates.provenance)
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


def _default_radius(targets: Space) -> float:
    widths = np.ptp(targets.points, axis=0)
    steps = [np.diff(np.unique(column)).max(initial=0.0) for column in targets.points.T]
    radius = max(0.1 * float(np.linalg.norm(widths)), 1.5 * max(steps))
    return radius if radius > 0 else 1.0  # a single context: nobody is near


def _exact_rates(
    setting: _Setting, radius: float
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Bounds on the rates that hold on the continuum, and slopes at home."""
    system, sources, targets = setting.system, setting.sources, setting.targets
    if system is None or sources is None or targets is None:
        return None, None
    contexts = system.contexts(sources)
    enclosure = enclosure_for(system, setting.policies, contexts, "signed", "worst")
    if enclosure is None:
        return None, None
    live = [i for i, axis in enumerate(system.axes) if axis.name in sources.names]
    slopes = enclosure.home_slopes(live)
    if sources.size > MAX_RATE_SOURCES:
        return None, slopes
    clock = Clock(0.2 * setting.clock.left)
    box = system.contexts(targets)
    return rate_bounds(enclosure, box, radius, contexts, clock=clock), slopes


def _continuum(
    setting: _Setting,
    cover: Cover,
    tighter: Sequence[TargetSets],
    given: RateCheck | None,
) -> tuple[ContinuumCover | None, list[Certificate]]:
    system, targets = setting.system, setting.targets
    enclosure = setting.enclosure
    if enclosure is None:
        enclosure = _lipschitz(setting, given)
    if enclosure is None or system is None or targets is None:
        margin = _margin(setting, cover, given)
        if system is not None and setting.sources is not None:
            reason = no_enclosure_reason(
                system,
                setting.policies,
                system.contexts(setting.sources),
                setting.question.criterion,
                setting.question.judge,
            )
            margin = replace(margin, why=f"{margin.why} {reason}".strip())
        return None, [margin]
    axes = tuple(axis.name for axis in system.axes)
    epsilon, clock = setting.question.epsilon, setting.clock
    on_grid = certify_cover(
        enclosure,
        cover.sources,
        box_edges(system, targets),
        epsilon,
        axes=axes,
        time_limit=0.2 * clock.left,
    )
    as_it_is = on_grid.certificate
    between = replace(as_it_is, name="grid cover, between nodes")
    if not as_it_is.holds:
        why = between_sentence(cover, on_grid.share(CERTIFIED), as_it_is.why)
        between = replace(between, why=why)
    n = cover.n_sources
    if as_it_is.holds and cover.optimal:
        whole = _with_grid_bound(on_grid, setting, cover, n_candidates=n)
        return whole, [between, whole.certificate]
    tightened = [
        minimum_cover(sets, time_limit=0.06 * clock.left, seed=setting.seed).sources
        for sets in tighter
    ]
    continuum = certified_cover(
        enclosure,
        system,
        targets,
        epsilon,
        suggestions=[chosen for chosen in tightened if len(chosen)],
        time_limit=clock.left,
        seed=setting.seed,
    )
    whole = _with_grid_bound(continuum, setting, cover)
    if not whole.certificate.holds and on_grid.share(CERTIFIED) > whole.share(
        CERTIFIED
    ):
        # Time was up before anything better was found.
        whole = _with_grid_bound(on_grid, setting, cover, n_candidates=n)
    return whole, [between, whole.certificate]


def _with_grid_bound(
    continuum: ContinuumCover,
    setting: _Setting,
    cover: Cover,
    n_candidates: int | None = None,
) -> ContinuumCover:
    """Nodes are in the box: what it takes to cover them, it takes to cover the box."""
    certificate = continuum.certificate
    values = dict(certificate.values)
    sound = setting.provenance == "exact"
    grid_bound = int(cover.lower_bound) if sound else 1
    every = max(continuum.lower_bound, grid_bound)
    holds = certificate.holds
    values |= {
        "n_sources": cover.n_sources,
        "grid_lower_bound": cover.lower_bound,
        "lower_bound": every,
        "lower_bound_scope": f"all {cover.n_sources} sources",
        "optimal": holds and every >= continuum.size,
    }
    if n_candidates is not None:
        values |= {
            "n_candidates": n_candidates,
            "lower_bound_candidates": every,
            "optimal_among_candidates": values["optimal"],
        }
    else:
        among = max(every, values["lower_bound_candidates"])
        values["lower_bound_candidates"] = among
        values["optimal_among_candidates"] = holds and among >= continuum.size
    why = certificate.why
    few = few_sentence(continuum.size, every, cover.n_sources, cover.n_sources)
    if holds and few not in why:
        why += f" {few}"
    bounds = certificate.bounds
    if "uncoverable_context" not in values:
        bounds = (*bounds, Bound("lower", every, "box", "table"))
    certificate = replace(certificate, why=why, values=values, bounds=bounds)
    return replace(continuum, certificate=certificate, lower_bound=every)


def _lipschitz(setting: _Setting, given: RateCheck | None) -> Enclosure | None:
    """Bounds from constants that the user knows, where the system can be evaluated."""
    system, policies, sources = setting.system, setting.policies, setting.sources
    if (
        given is None
        or setting.rates is None
        or system is None
        or policies is None
        or sources is None
        or system.provenance == "sampled"
    ):
        return None
    contexts = system.contexts(sources)
    question = setting.question
    if question.rule.reference == "best known" and system.optimum(contexts[:1]) is None:
        return None
    return LipschitzEnclosure(
        system,
        policies,
        contexts,
        criterion=question.criterion,
        judge=question.judge,
        rates=setting.rates,
        kind=claim(system.provenance),
        basis="the Lipschitz constants that were given, if they hold "
        f"({given.sentence})",
    )


def _margin(setting: _Setting, cover: Cover, given: RateCheck | None) -> Certificate:
    """What the table's nodes say about the space between them."""
    name = "continuum cover"
    grid = setting.targets
    if grid is None or axis_values(grid) is None:
        why = (
            "Targets must form a grid over a box for a statement about the space "
            "between them, and they have no contexts or other ones."
        )
        return Certificate(name, False, "vacuous", why)
    if not cover.size:
        why = "No source serves any target, so nothing is covered."
        return Certificate(name, False, "vacuous", why)
    question, provenance = setting.question, setting.provenance
    losses = np.concatenate(
        [question.rows(setting.table, slice(int(s), int(s) + 1)) for s in cover.sources]
    )
    if given is None:
        rates = estimate_rates(grid, losses)
        basis = "Λ from the largest steps between targets nearby, times 1.5."
    else:
        rates = _target_rates(setting)
        basis = f"Λ as given, if it holds ({given.sentence})."
    kind = claim(provenance, rigorous=given is not None)
    rule = margin_rule(grid, losses, question.epsilon, rates, kind=kind, basis=basis)
    values = {
        **question.record(),
        **rule.certificate.values,
        "size": cover.size,
        "share_certified": float(rule.certified.mean()),
    }
    why = rule.certificate.why
    if provenance == "sampled":
        why += " J is a mean over episodes, so this is an estimate."
    elif provenance == "given":
        why += " It rests on the given table, so it is an estimate."
    holds = rule.certificate.holds
    bounds = (Bound("upper", cover.size, "box", "table"),) if holds and given else ()
    scope = "every context of the box"
    if provenance != "exact":
        scope += on_table(provenance).replace(" on ", ", by ")
    return Certificate(name, holds, kind, why, values, scope, bounds)


def _points(table: xr.Dataset, side: int) -> Grid | Points | None:
    try:
        return contexts_of(table)[side]
    except InvalidInputError:
        return None
