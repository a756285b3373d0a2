"""Everything that can be certified about one table, in one call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from taskspace.certificates._old import check_criterion, check_epsilon
from taskspace.certificates.balls import Balls, check_balls
from taskspace.certificates.base import Certificate
from taskspace.certificates.cells import certified_cover
from taskspace.certificates.continuum import (
    CERTIFIED,
    ContinuumCover,
    box_edges,
    certify_cover,
)
from taskspace.certificates.enclosures import Enclosure, LipschitzEnclosure
from taskspace.certificates.grid_rules import estimate_rates, margin_rule
from taskspace.certificates.loss_rates import (
    contexts_of,
    local_slopes,
    rate_bounds,
)
from taskspace.certificates.msd_enclosure import MsdEnclosure
from taskspace.certificates.volume import engine_bounds, volume_bounds
from taskspace.cover import Cover, minimum_cover
from taskspace.criteria import (
    assigned_regret,
    loss_blocks,
    loss_rows,
    table_sets,
)
from taskspace.errors import InvalidInputError
from taskspace.policies import Policy
from taskspace.sets import PackedSets, TargetSets
from taskspace.spaces import Grid, Points
from taskspace.systems.base import System
from taskspace.systems.episodic import EpisodicSystem
from taskspace.systems.msd import MassSpringDamper

__all__ = ["CertifyResult", "certify", "grid_of"]

# Rigorous loss rates take some milliseconds a source; beyond this many, the table's.
MAX_RATE_SOURCES = 1000
# Covers of the grid for a tolerance smaller by these shares often hold between nodes.
TIGHTEN = (0.02, 0.05, 0.1)
MAX_PACKED_PAIRS = 2**31
Report = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class CertifyResult:
    """Certificates of a table, and what the figures need.

    Args:
        epsilon: tolerance.
        criterion: what the covers are about.
        family: `"all"` or `"any"`.
        certificates: all of them, in the order in which they build on each other.
        cover: minimum cover of the table's targets.
        balls: inner and outer radii of the signed criterion, if they could be had.
        continuum: a cover of the whole box, if the system has bounds over boxes.
    """

    epsilon: float
    criterion: str
    family: str
    certificates: tuple[Certificate, ...]
    cover: Cover
    balls: Balls | None
    continuum: ContinuumCover | None

    def __getitem__(self, name: str) -> Certificate:
        """The certificate of this name."""
        for certificate in self.certificates:
            if certificate.name == name:
                return certificate
        raise KeyError(name)


def certify(
    table: xr.Dataset,
    epsilon: float,
    *,
    criterion: str = "regret",
    family: str = "all",
    radius: float | None = None,
    system: System | None = None,
    policies: Policy | None = None,
    sources: Grid | Points | None = None,
    targets: Grid | Points | None = None,
    rates: ArrayLike | None = None,
    time_limit: float = 20.0,
    seed: int = 0,
    progress: Report | None = None,
) -> CertifyResult:
    """Loss rates, balls, volume bounds, cover bounds and the continuum certificate.

    What a table alone allows is always there; with the system and the policies also
    what holds between its targets.

    Args:
        table: a performance table.
        epsilon: tolerance.
        criterion: one of `taskspace.criteria.CRITERIA`. Loss rates, balls and volume
            bounds are about the signed criterion, which the paper defines them for.
        family: `"all"` or `"any"`.
        radius: r of the loss rates; by default a tenth of the diameter, and at least
            one and a half steps of the grid.
        system: the tasks.
        policies: the stack that the table was made with.
        sources: contexts of its sources; from the table if left out.
        targets: contexts of its targets; from the table if left out.
        rates: Λ, if you know one: Lipschitz constants of every policy's loss in the
            target, one number or one an axis of the targets (of the system, where
            one is given).
        time_limit: seconds for the search of covers and bounds.
        seed: of the cover engine.
        progress: called with the name of each stage.
    """
    check_criterion(criterion, family)
    check_epsilon(epsilon, criterion)
    tell = progress or (lambda _: None)
    found: list[Certificate] = []
    tell("grid cover")
    sets, *tighter = _sets_at(
        table,
        criterion,
        family,
        [epsilon, *(epsilon - t * abs(epsilon) for t in TIGHTEN)],
    )
    cover = minimum_cover(sets, time_limit=time_limit / 4, seed=seed)
    found.append(_grid_cover(table, cover, criterion, family, epsilon))
    tell("cover bounds")
    small = sets.n_sources * sets.n_targets <= 10**6
    kinds = (*QUICK_BOUNDS, "primal-dual", "lp") if small else QUICK_BOUNDS
    found.extend(engine_bounds(sets, kinds=kinds, time_limit=time_limit / 8))
    tell("balls")
    balls, geometric = _geometry(
        table, epsilon, criterion, radius, system, policies, sources
    )
    found.extend(geometric)
    tell("continuum")
    sources = sources or _points(table, "source")
    targets = targets or _points(table, "target")
    continuum, between = _continuum(
        table,
        cover,
        tighter,
        epsilon,
        criterion,
        family,
        system,
        policies,
        sources,
        targets,
        rates,
        time_limit,
        seed,
    )
    found.extend(between)
    return CertifyResult(
        epsilon, criterion, family, tuple(found), cover, balls, continuum
    )


QUICK_BOUNDS = ("size", "packing", "dual ascent")


def _sets_at(
    table: xr.Dataset, criterion: str, family: str, epsilons: Sequence[float]
) -> list[TargetSets]:
    """Tolerance sets for several tolerances in one pass over the table."""
    n_targets = table.sizes["target"]
    if table.sizes["source"] * n_targets > MAX_PACKED_PAIRS:
        return [table_sets(table, criterion, family, epsilons[0])]
    words: list[list[NDArray[np.uint64]]] = [[] for _ in epsilons]
    for _, block in loss_blocks(table, criterion, family):
        for part, epsilon in zip(words, epsilons, strict=True):
            part.append(PackedSets.from_bool(block <= epsilon).words)
    return [PackedSets(np.concatenate(part), n_targets) for part in words]


def _grid_cover(
    table: xr.Dataset, cover: Cover, criterion: str, family: str, epsilon: float
) -> Certificate:
    regret = assigned_regret(table, family, cover.assignment)
    served = regret[cover.assignment >= 0]
    values = {
        "size": cover.size,
        "lower_bound": cover.lower_bound,
        "optimal": cover.optimal,
        "sources": cover.sources,
        "coverage": cover.coverage,
        "n_targets": cover.n_targets,
        "n_uncoverable": len(cover.uncoverable),
        "worst_regret": served.max(initial=0.0),
    }
    complete = len(cover.uncoverable) == 0 and cover.coverage == 1.0
    exact = "the fewest possible" if cover.optimal else f"at least {cover.lower_bound}"
    who = "1 source serves" if cover.size == 1 else f"{cover.size} sources serve"
    why = f"{who} every target of the table, {exact}."
    if not complete:
        why = (
            f"{len(cover.uncoverable)} targets are served by no source; "
            f"{who} the others, {exact}."
        )
    if criterion == "signed" and values["worst_regret"] > epsilon:
        why += (
            f" They leave a regret of {values['worst_regret']:.4g}, more than epsilon: "
            "signed compares with the source's own score."
        )
    return Certificate("grid cover", complete, "proof", why, values)


def _geometry(
    table: xr.Dataset,
    epsilon: float,
    criterion: str,
    radius: float | None,
    system: System | None,
    policies: Policy | None,
    sources: Grid | Points | None,
) -> tuple[Balls | None, list[Certificate]]:
    if criterion not in ("signed", "regret"):
        why = (
            "Balls and volume bounds compare scores of one policy, in units of "
            f"performance; epsilon of {criterion!r} is in others. Use signed or regret."
        )
        return None, [Certificate("loss rates", False, "vacuous", why)]
    try:
        rows, columns = contexts_of(table)
        r = _default_radius(columns) if radius is None else radius
        exact = _exact_rates(system, policies, sources, r)
        check = check_balls(table, epsilon, radius=r, upper_rate=exact)
    except InvalidInputError as error:
        return None, [Certificate("loss rates", False, "vacuous", str(error))]
    upper = check.balls.rates.upper
    values = {
        "radius": r,
        "largest": upper.max(),
        "median": np.median(upper),
        "smallest": upper.min(),
        "largest_lower": check.balls.rates.lower.max(initial=-np.inf),
    }
    why = "Slopes from each source to the targets within r: exact on these targets."
    if (
        isinstance(system, MassSpringDamper)
        and not np.isfinite(system.horizon)
        and policies is not None
        and sources is not None
    ):
        slopes = local_slopes(system, policies, sources)
        values |= {"largest_slope": slopes.max(), "median_slope": np.median(slopes)}
        why += " largest_slope is the limit r → 0, by automatic differentiation."
    if exact is not None:
        values["largest_bound"] = exact.max()
        why += " largest_bound holds on the continuum, by interval arithmetic."
    known = bool((check.balls.rates.n_neighbours > 0).any())
    kind = "estimate" if known else "vacuous"
    if not known:
        why = "No source has another target within r: enlarge r."
    widths = np.ptp(np.concatenate([rows.points, columns.points]), axis=0)
    same = rows.size == columns.size and bool((rows.points == columns.points).all())
    return check.balls, [
        Certificate("loss rates", known, kind, why, values),
        check.inner,
        check.outer,
        *volume_bounds(widths, epsilon, check.balls, same_sides=same),
    ]


def _default_radius(targets: Points) -> float:
    widths = np.ptp(targets.points, axis=0)
    steps = [np.diff(np.unique(column)).max(initial=0.0) for column in targets.points.T]
    radius = max(0.1 * float(np.linalg.norm(widths)), 1.5 * max(steps))
    return radius if radius > 0 else 1.0


def _exact_rates(
    system: System | None,
    policies: Policy | None,
    sources: Grid | Points | None,
    radius: float,
) -> NDArray[np.float64] | None:
    if (
        not isinstance(system, MassSpringDamper)
        or np.isfinite(system.horizon)
        or policies is None
        or sources is None
        or sources.size > MAX_RATE_SOURCES
    ):
        return None
    contexts = system.contexts(sources)
    enclosure = MsdEnclosure(
        system, policies, contexts, criterion="signed", family="all"
    )
    return rate_bounds(enclosure, system, sources, radius, contexts)


def _continuum(
    table: xr.Dataset,
    cover: Cover,
    tighter: Sequence[TargetSets],
    epsilon: float,
    criterion: str,
    family: str,
    system: System | None,
    policies: Policy | None,
    sources: Grid | Points | None,
    targets: Grid | Points | None,
    rates: ArrayLike | None,
    time_limit: float,
    seed: int,
) -> tuple[ContinuumCover | None, list[Certificate]]:
    enclosure = None
    if system is not None and policies is not None and sources and targets:
        enclosure = _enclosure(
            system, policies, system.contexts(sources), criterion, family, rates
        )
    if enclosure is None or system is None or targets is None:
        rule = _margin(table, cover, epsilon, criterion, family, targets, rates)
        if isinstance(system, EpisodicSystem) and rule.kind == "proof":
            why = f"{rule.why} J is a mean over episodes, so this is an estimate."
            rule = replace(rule, kind="estimate", why=why)
        return None, [rule]
    axes = tuple(axis.name for axis in system.axes)
    edges = box_edges(system, targets)
    on_grid = certify_cover(enclosure, cover.sources, edges, epsilon, axes=axes)
    as_it_is = on_grid.certificate
    between = Certificate(
        "grid cover, between nodes",
        as_it_is.holds,
        as_it_is.kind,
        as_it_is.why
        if as_it_is.holds
        else f"The {cover.size} sources that serve every node certainly serve "
        f"{on_grid.share(CERTIFIED):.2%} of the box. {as_it_is.why}",
        as_it_is.values,
    )
    if as_it_is.holds and cover.optimal:
        values = {
            "n_sources": cover.n_sources,
            "n_candidates": cover.n_sources,
            "lower_bound": cover.lower_bound,
            "grid_lower_bound": cover.lower_bound,
            "optimal": True,
        }
        certificate = replace(
            as_it_is,
            why=f"{as_it_is.why} No fewer serve the targets of the table.",
            values=as_it_is.values | values,
        )
        whole = replace(
            on_grid, certificate=certificate, lower_bound=int(cover.lower_bound)
        )
        return whole, [between, certificate]
    tightened = [
        minimum_cover(sets, time_limit=time_limit / 16, seed=seed).sources
        for sets in tighter
    ]
    continuum = certified_cover(
        enclosure,
        system,
        targets,
        epsilon,
        suggestions=tightened,
        time_limit=time_limit / 2,
        seed=seed,
    )
    # Nodes are in the box: what it takes to cover them, it takes to cover the box.
    values = continuum.certificate.values | {"grid_lower_bound": cover.lower_bound}
    certificate = replace(continuum.certificate, values=values)
    return replace(continuum, certificate=certificate), [between, certificate]


def _enclosure(
    system: System,
    policies: Policy,
    contexts: NDArray[np.float64],
    criterion: str,
    family: str,
    rates: ArrayLike | None,
) -> Enclosure | None:
    if isinstance(system, MassSpringDamper) and not np.isfinite(system.horizon):
        return MsdEnclosure(
            system, policies, contexts, criterion=criterion, family=family
        )
    if isinstance(system, EpisodicSystem):
        return None
    knows = criterion in ("signed", "floor") or system.optimum(contexts[:1]) is not None
    if rates is None or not knows:
        return None
    return LipschitzEnclosure(
        system,
        policies,
        contexts,
        criterion=criterion,
        family=family,
        rates=rates,
        kind="proof",
        basis="the Lipschitz constants that were given, if they hold",
    )


def _margin(
    table: xr.Dataset,
    cover: Cover,
    epsilon: float,
    criterion: str,
    family: str,
    targets: Grid | Points | None,
    rates: ArrayLike | None,
) -> Certificate:
    grid = grid_of(targets)
    if grid is None:
        why = (
            "Targets must form a grid over a box for a statement about the space "
            "between them, and they have no contexts or other ones."
        )
        return Certificate("continuum cover", False, "vacuous", why)
    if not cover.size:
        why = "No source serves any target, so nothing is covered."
        return Certificate("continuum cover", False, "vacuous", why)
    losses = np.concatenate(
        [
            loss_rows(table, criterion, family, slice(int(s), int(s) + 1))
            for s in cover.sources
        ]
    )
    known = rates is not None
    rule = margin_rule(
        grid,
        losses,
        epsilon,
        estimate_rates(grid, losses) if rates is None else rates,
        kind="proof" if known else "estimate",
        basis="Λ as given."
        if known
        else "Λ from the largest steps between targets nearby, times 1.5.",
    )
    values = rule.certificate.values | {
        "size": cover.size,
        "share_certified": float(rule.certified.mean()),
    }
    certificate = rule.certificate
    return Certificate(
        "continuum cover", certificate.holds, certificate.kind, certificate.why, values
    )


def grid_of(space: Grid | Points | None) -> Grid | None:
    """The grid that some points are, in C order; None if they are none.

    Args:
        space: a grid, or points.
    """
    if space is None or isinstance(space, Grid):
        return space
    values = [np.unique(column) for column in space.points.T]
    if np.prod([len(v) for v in values]) != space.size:
        return None
    for scale in ("linear", "log"):
        if scale == "log" and any(v[0] <= 0 for v in values):
            continue
        grid = Grid(
            **{
                name: (v[0], v[-1], len(v), scale)
                for name, v in zip(space.names, values, strict=True)
            }
        )
        if np.allclose(grid.points, space.points, rtol=1e-12, atol=1e-12):
            return grid
    return None


def _points(table: xr.Dataset, side: str) -> Grid | Points | None:
    try:
        both = contexts_of(table)
    except InvalidInputError:
        return None
    return both[0] if side == "source" else both[1]
