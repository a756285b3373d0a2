"""Everything that can be certified about one table, in one call.

It knows no system by name: what a system allows comes from its enclosure.
"""

from dataclasses import dataclass, replace

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from taskspace.certificates.boxes.certify import certify_continuum
from taskspace.certificates.boxes.check import (
    ContinuumCover,
)
from taskspace.certificates.boxes.shrink import SLACKS
from taskspace.certificates.options import LossBounds, Sampling
from taskspace.certificates.paper.balls import Balls
from taskspace.certificates.paper.geometry import certify_geometry
from taskspace.certificates.paper.rates import (
    LossRates,
)
from taskspace.certificates.paper.volume import (
    engine_bounds,
)
from taskspace.certificates.sampled.certify import certify_fresh, certify_share
from taskspace.certificates.sampled.episodes import FreshCheck
from taskspace.certificates.sampled.share import ShareCheck
from taskspace.certificates.setting import (
    Setting,
    make_setting,
    refute_given,
)
from taskspace.certificates.statements.base import Bound, Certificate
from taskspace.certificates.statements.claims import (
    check_consistent,
    claim,
)
from taskspace.certificates.statements.words import (
    caution_sentence,
    grid_sentence,
)
from taskspace.cover import Cover, minimum_cover, settle_ties
from taskspace.cover.base import Clock
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study, as_study
from taskspace.progress import Progress, silent
from taskspace.questions import Question, as_question
from taskspace.sets import PackedSets, TargetSets
from taskspace.systems.base import PROVENANCE_WORDS
from taskspace.systems.episodic import EpisodicSystem

__all__ = ["CertifyResult", "certify"]

MAX_PACKED_PAIRS = 2**31
QUICK_BOUNDS = ("size", "packing", "dual ascent")
# Pairs up to which the slower bounds are computed too.
MAX_LP_PAIRS = 10**6
# Of the time, to look for the cover of least worst loss among those of a size.
LEAST_SHARE = 0.05
N_STEPS = 8
DEFAULT_SAMPLING, UNKNOWN_BOUNDS = Sampling(), LossBounds()


@dataclass(frozen=True, eq=False)
class CertifyResult:
    """Certificates of a table, and what the figures need.

    Args:
        question: what the covers are about.
        certificates: all of them, in the order in which they build on each other.
        cover: minimum cover of the table's targets, of least worst loss; or what the
            selection that was given serves of them.
        rates: loss rates of every source, if they could be had.
        balls: inner and outer radii, if the criterion is the signed one.
        continuum: a cover of the whole box, if the system has bounds over boxes.
        fresh: what fresh episodes say of the cover, if the system is played in
            episodes.
        share: what draws from a distribution say, if one was given.
        seconds: wall-clock time.
    """

    question: Question
    certificates: tuple[Certificate, ...]
    cover: Cover
    rates: LossRates | None
    balls: Balls | None
    continuum: ContinuumCover | None
    fresh: FreshCheck | None
    share: ShareCheck | None
    seconds: float

    def __getitem__(self, name: str) -> Certificate:
        """The certificate of this name."""
        for certificate in self.certificates:
            if certificate.name == name:
                return certificate
        raise KeyError(name)


def certify(
    study: Study | xr.Dataset,
    question: Question,
    *,
    sampling: Sampling = DEFAULT_SAMPLING,
    bounds: LossBounds = UNKNOWN_BOUNDS,
    selection: ArrayLike | None = None,
    time_limit: float = 20.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> CertifyResult:
    """Loss rates, balls, volume bounds, cover bounds and the continuum certificate.

    What a table alone allows is always there; where the study knows the system and the
    policies, also what holds between its targets.

    Args:
        study: what is known, or a performance table.
        question: criterion, judge and tolerance. Balls and volume bounds are derived
            for the criterion `signed` only.
        sampling: how much is sampled, and from what: confidence, episodes, contexts.
        bounds: what you know of the losses between the targets.
        selection: numbers of the sources to certify; by default they are searched
            for, as few as possible.
        time_limit: seconds for all of it; compiling the kernels, once per
            installation, comes on top.
        seed: of the cover engine, and of samples together with all that they judge.
        progress: told what is being done.
    """
    progress = progress or silent

    def tell(step: int, what: str) -> None:
        progress("certify", step, N_STEPS, what)

    study, question = as_study(study), as_question(question)
    if study.experiment is not None and study.all_policies is not None:
        study.require_system()  # code that is not trusted is no reason to prove less
    setting = make_setting(study, question, bounds, seed)
    clock = Clock(time_limit)
    setting = replace(setting, clock=clock)
    found: list[Certificate] = []
    given = None
    if setting.rates is not None and setting.targets is not None:
        tell(1, "given constants")
        given = refute_given(setting)
    tell(2, "grid cover")
    sets, *tighter = _sets_at(setting)
    cover = minimum_cover(sets, time_limit=0.25 * clock.left, seed=seed)
    if selection is None:
        limit = LEAST_SHARE * clock.left
        cover = settle_ties(cover, setting.table, question, time_limit=limit, seed=seed)
    else:
        cover = _given_cover(setting, cover, selection)
    found.append(_grid_cover(setting, cover))
    tell(3, "cover bounds")
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
    # Loss rates that only describe, and take long, come after what is proven.
    described = None
    if question.criterion == "signed" or small:
        tell(4, "loss rates")
        described = certify_geometry(setting, bounds.radius)
    tell(5, "continuum")
    continuum, between = certify_continuum(
        setting, cover, tighter if selection is None else None, given
    )
    if described is None:
        tell(5, "loss rates")
        described = certify_geometry(setting, bounds.radius)
    rates_seen, balls, geometric = described
    found.extend((*geometric, *between))
    fresh, share = None, None
    if isinstance(setting.system, EpisodicSystem) and setting.policies is not None:
        tell(6, "fresh episodes")
        limit = clock.left if sampling.distribution is None else 0.6 * clock.left
        fresh, again = certify_fresh(setting, cover, sampling, limit, progress)
        found.append(again)
    if sampling.distribution is not None:
        tell(7, "draws")
        assignment = cover.assignment if fresh is None else fresh.assignment
        share, drawn = certify_share(setting, assignment, continuum, sampling)
        found.append(drawn)
    tell(N_STEPS, "")
    check_consistent(found)
    return CertifyResult(
        question,
        tuple(found),
        cover,
        rates_seen,
        balls,
        continuum,
        fresh,
        share,
        clock.seconds,
    )


def _sets_at(setting: Setting) -> list[TargetSets]:
    """Tolerance sets for several tolerances in one pass over the table."""
    table, question = setting.table, setting.question
    n_targets = table.sizes["target"]
    if table.sizes["source"] * n_targets > MAX_PACKED_PAIRS:
        return [question.sets(table)]
    epsilon = question.epsilon
    epsilons = [epsilon, *(epsilon - t * abs(epsilon) for t in SLACKS)]
    words: list[list[NDArray[np.uint64]]] = [[] for _ in epsilons]
    for _, block in question.blocks(table):
        for part, each in zip(words, epsilons, strict=True):
            part.append(PackedSets.from_bool(block <= each).words)
    return [PackedSets(np.concatenate(part), n_targets) for part in words]


def _given_cover(setting: Setting, fewest: Cover, selection: ArrayLike) -> Cover:
    """What given sources serve of the targets, beside the bound on how few could."""
    n = fewest.n_sources
    numbers = np.asarray(selection).reshape(-1)
    whole = np.issubdtype(numbers.dtype, np.integer)
    if not whole or not len(numbers) or not ((numbers >= 0) & (numbers < n)).all():
        raise InvalidInputError(
            f"selection must hold numbers of sources, 0 to {n - 1}, at least one, but "
            f"got {numbers.tolist()}."
        )
    sources = np.unique(numbers).astype(np.int64)
    question, table = setting.question, setting.table
    losses = np.concatenate(
        [question.rows(table, slice(int(s), int(s) + 1)) for s in sources]
    )
    assignment = sources[losses.argmin(0)]
    assignment[~(losses.min(0) <= question.epsilon)] = -1
    served = int((assignment >= 0).sum())
    is_full = served + len(fewest.uncoverable) == fewest.n_targets
    return replace(
        fewest,
        method="given",
        sources=sources,
        assignment=assignment,
        coverage=served / fewest.n_targets,
        size=len(sources),
        cost=float(len(sources)),
        lower_bound=fewest.lower_bound if is_full else 1.0,
        optimal=is_full and fewest.lower_bound >= len(sources),
        stop_reason="given",
    )


def _grid_cover(setting: Setting, cover: Cover) -> Certificate:
    question = setting.question
    regret = question.as_regret().assigned_losses(setting.table, cover.assignment)
    compared = ~np.isnan(setting.table["best_known"].values)
    worst = float(regret[(cover.assignment >= 0) & compared].max(initial=0.0))
    n_lacking = len(question.without_reference(setting.table))
    errors = question.assigned_errors(setting.table, cover.assignment)
    values = {
        **question.to_dict(),
        "size": cover.size,
        "lower_bound": cover.lower_bound,
        "optimal": cover.optimal,
        "sources": cover.sources,
        "coverage": cover.coverage,
        "n_sources": cover.n_sources,
        "n_targets": cover.n_targets,
        "n_uncoverable": len(cover.uncoverable),
        "n_without_reference": n_lacking,
        "worst_regret": worst,
    }
    error = None
    if errors is not None and not np.isnan(errors).all():
        error = values["standard_error"] = float(np.nanmax(errors))
    why = grid_sentence(
        cover,
        question,
        worst,
        setting.provenance,
        n_lacking,
        caution_sentence(setting.system, question),
        error,
    )
    return Certificate(
        "grid cover",
        bool((cover.assignment >= 0).all()),
        claim(setting.provenance),
        why,
        values,
        PROVENANCE_WORDS[setting.provenance].table,
        (
            Bound("lower", cover.lower_bound, "nodes", "table"),
            Bound("upper", cover.size, "nodes", "table"),
        )
        if len(cover.uncoverable) + (cover.assignment >= 0).sum() == cover.n_targets
        else (),
    )
