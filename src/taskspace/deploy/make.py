"""Libraries from covers: of a table's targets, or of a whole box."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import KDTree

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace._util.files import plain
from taskspace.certificates import CertifyResult
from taskspace.certificates.boxes.check import ContinuumCover
from taskspace.certificates.proof_subject import contexts_of_comparison, describe_system
from taskspace.certificates.statements import caution_sentence, claim_on
from taskspace.cover import Cover
from taskspace.deploy.base import (
    Entry,
    Guarantee,
    Outside,
    PolicyLibrary,
    full_contexts,
)
from taskspace.deploy.regions import BoxRegions, GridRegions, Regions, regions_of
from taskspace.deploy.schedules import ScheduleLibrary, schedule_library
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance import source_space
from taskspace.performance.study import Study, as_study
from taskspace.performance.table import family_rows
from taskspace.questions import Question, as_question
from taskspace.schedules.table import Schedule
from taskspace.sets.erosion import coarse_sentence
from taskspace.spaces import log_axes_of
from taskspace.systems.base import PROVENANCE_WORDS
from taskspace.systems.linear import LinearSystem

ORIGIN_KEYS = (
    "system",
    "trainer",
    "seed",
    "best_known_kind",
    "provenance",
    "selector",
    "notes",
    "cost",
)
"""What a library keeps of where its study comes from."""


@overload
def library(
    study: Study | xr.Dataset,
    cover: Schedule,
    question: Question | str | None = None,
    *,
    proof: CertifyResult | None = None,
    outside: Outside = "refuse",
) -> ScheduleLibrary: ...


@overload
def library(
    study: Study | xr.Dataset,
    cover: Cover | ContinuumCover | ArrayLike | None,
    question: Question | str | None = None,
    *,
    rule: str = "performance",
    outside: Outside = "refuse",
) -> PolicyLibrary: ...


def library(
    study: Study | xr.Dataset,
    cover: Cover | ContinuumCover | Schedule | ArrayLike | None,
    question: Question | str | None = None,
    *,
    rule: str = "performance",
    proof: CertifyResult | None = None,
    outside: Outside = "refuse",
) -> PolicyLibrary | ScheduleLibrary:
    """Make the library of a cover or a schedule: what to deploy, what is known of it.

    Args:
        study: what is known, or a performance table. Without policies the library
            holds names.
        cover: a cover of the targets, a certified cover of the box, a list of
            sources chosen by hand, or an interpolated schedule.
        question: criterion, judge and ε; a cover knows its own.
        rule: which of several policies that serve a target is used: `"performance"`,
            `"margin"` (its nearest failure is farthest) or `"connected"` (few
            connected regions).
        proof: of a schedule, what `ts.certify(study, question, schedule=schedule)`
            gave. Without it nothing is guaranteed of a schedule.
        outside: `"refuse"` or `"clamp"` contexts outside the range.

    Examples:
        >>> import taskspace as ts
        >>> space = ts.Grid(k=(0.1, 8.0, 9))
        >>> system, trainer = ts.systems.MassSpringDamper(), ts.trainers.Lqr()
        >>> study = ts.evaluate(system, trainer, space, seed=0)
        >>> cover = ts.minimum_cover(study, ts.Question("ratio", epsilon=0.1))
        >>> lib = ts.library(study, cover)
        >>> lib.size == cover.size, lib.units
        (True, ('N/m',))
    """
    study = as_study(study)
    question = None if question is None else as_question(question)
    if rule not in ASSIGN_RULES:
        raise UnknownNameError("rule of assignment", rule, ASSIGN_RULES)
    if isinstance(cover, Schedule):
        made_from = _provenance(study)
        return schedule_library(study, cover, question, proof, outside, made_from)
    if proof is not None:
        raise InvalidInputError(
            "proof is that of a schedule. A certified cover carries its own: give "
            "ts.certify(study, question).continuum in place of the cover."
        )
    if isinstance(cover, ContinuumCover):
        return _of_boxes(study, cover, question, outside)
    if isinstance(cover, Cover):
        _check_cover(study, cover)
        question = question or cover.question
    if question is None:
        raise InvalidInputError(
            "A library must know what its cover answers, e.g. "
            "question='regret <= 0.1', but got none."
        )
    if cover is None:
        raise InvalidInputError("A library must have a cover, but got None.")
    return _of_targets(study, cover, question, rule, outside)


def _check_cover(study: Study, cover: Cover) -> None:
    """Refuse a cover of other sources or targets."""
    sizes = study.n_sources, study.n_targets
    if sizes != (cover.n_sources, cover.n_targets):
        raise InvalidInputError(
            f"This cover has {cover.n_sources} sources and {cover.n_targets} targets, "
            f"the study {sizes[0]} and {sizes[1]}."
        )


# --- of the targets of a table ----------------------------------------------------


def _of_targets(
    study: Study,
    cover: Cover | ArrayLike,
    question: Question,
    rule: str,
    outside: Outside,
) -> PolicyLibrary:
    table = question.table_of(study)
    if table is not study.table:  # which may lack policies of sources not chosen here
        study = study.with_table(table)
    sources = _sources(cover, table.sizes["source"]).tolist()
    families = [_members(study, question, source, cover) for source in sources]
    members = [numbers for numbers, _, _ in families]
    loss = np.concatenate([losses for _, losses, _ in families])
    performance = np.concatenate([scores for _, _, scores in families])
    entries = [(s, m) for s, ms in zip(sources, members, strict=True) for m in ms]
    nodes = _target_regions(study, rule)
    policy, served = assign(loss, performance, question.epsilon, nodes, rule)
    margin = question.epsilon - loss[policy, np.arange(len(policy))]
    used = np.unique(policy[policy >= 0])
    if not len(used):
        raise InvalidInputError(
            "A library needs a policy that works somewhere, but the chosen sources "
            "fail at every target."
        )
    # A member of a family that no target uses is left out; sources all stay.
    if any(len(numbers) > 1 for numbers in members):
        entries = [entries[i] for i in used]
        number = np.full(len(loss), -1)
        number[used] = np.arange(len(used))
        policy = np.where(policy >= 0, number[policy], -1)
    guarantee = _guarantee_at_targets(study, question, margin, served)
    margin = np.where(policy < 0, np.nan, margin)
    regions = replace(nodes, policy=policy, served=served, margin=margin)
    space = study.targets
    if space is None:
        targets = tuple(_names(table, "target").tolist())
        where: dict[str, Any] = {"names": ("target",), "targets": targets}
    else:
        others = [name for name in study.axes if name not in space.names]
        where = {
            "names": tuple(space.names),
            "log_axes": tuple(log_axes_of(space)),
            "fixed": {name: study.axes[name].default for name in others},
        }
    return _library(
        study,
        entries,
        regions=regions,
        guarantee=guarantee,
        rule=rule,
        outside=outside,
        **where,
    )


def _target_regions(study: Study, rule: str) -> Regions:
    """Return the regions of the targets, not yet assigned."""
    space = study.targets
    blank = np.zeros(study.table.sizes["target"])
    if space is not None:
        on_log = log_axes_of(space)
        return regions_of(space.points, blank, blank, blank, log_axes=on_log)
    if rule != "performance":
        raise InvalidInputError(
            f"rule={rule!r} looks at the distance of targets, but these have no "
            "contexts. Use rule='performance'."
        )
    return regions_of(np.arange(float(len(blank)))[:, None], blank, blank, blank)


def _guarantee_at_targets(
    study: Study, question: Question, margin: Array, served: Mask
) -> Guarantee:
    """Return what is known of a library at the targets of its table."""
    n, n_served = len(served), int(served.sum())
    where = "every target" if n_served == n else f"{n_served:,} of {n:,} targets"
    basis = PROVENANCE_WORDS[question.provenance_of(study)].basis
    statement = (
        f"At {where} of the table {question.statement}, {basis}; between "
        f"targets nothing is known. {caution_sentence(study.system, question)}"
    )
    kind = claim_on(study.table, question)
    if question.error is not None:
        kind = "estimate"
        statement += (
            " Of the contexts within the error only the targets were looked at, so "
            "this is an estimate; a certified cover speaks of all of them. "
            f"{coarse_sentence(question.error, study.targets)}"
        )
    least = float(margin[served].min()) if n_served else None
    values = {"n_targets": n, "n_served": n_served, "least_margin": least}
    return Guarantee(question, "nodes", kind, statement.strip(), values)


def _members(
    study: Study, question: Question, source: int, cover: Cover | ArrayLike
) -> tuple[list[int], Array, Array]:
    """Members of one source that may be used, their losses and their J."""
    table, rows = study.table, slice(source, source + 1)
    n_members = table.sizes.get("policy", 1)
    judged = question.rows(table, rows)
    reduced = "worst" if question.judge == "worst" else "best"
    score = family_rows(table, reduced, rows)
    if n_members == 1:
        return [0], judged, score
    rule = question.rule
    away = _family(study, source, rule.measure)
    if away is None:
        if question.judge == "best":
            raise InvalidInputError(
                "With judge='best' the best member of a family serves, and which one "
                "that is this table does not hold. Give policies and system, or use "
                "judge='worst'."
            )
        home = table["home_performance"][source].values
        return [int(home.argmax())], judged, score
    loss = question.loss_of(table, away[None], rows)[0]
    if question.asks_one_member(n_members):
        return list(range(n_members)), question.member_rows(table, rows)[0], away
    if question.judge == "best":
        return list(range(n_members)), loss, away
    # Every member serves what the worst one serves: take the best on the whole.
    where = np.ones(away.shape[1], bool)
    if isinstance(cover, Cover) and (cover.assignment == source).any():
        where = cover.assignment == source
    best = int(
        np.where(np.isinf(away[:, where]), -1e300, away[:, where]).mean(1).argmax()
    )
    # Of several demands only what the worst member meets is known of each.
    known_loss = judged if question.also else loss[best : best + 1]
    return [best], known_loss, away[best : best + 1]


def _family(study: Study, source: int, measure: str) -> Array | None:
    """Return a score of all members of a source at all targets, None without one."""
    if measure in study.table:
        return study.table[measure][source].values.astype(np.float64)
    if study.policies is None or study.system is None or study.targets is None:
        return None
    contexts = study.system.contexts(study.targets)
    stack = study.policies[source : source + 1]
    return study.system.scores(measure, stack, contexts)[0]


# --- of a box ---------------------------------------------------------------------


def _of_boxes(
    study: Study, cover: ContinuumCover, question: Question | None, outside: Outside
) -> PolicyLibrary:
    values = cover.certificate.values
    certified = Question.from_dict(values)
    if question is not None and question != certified:
        raise InvalidInputError(
            f"The certified cover answers '{certified.statement}', but the question "
            f"asked is '{question.statement}'."
        )
    question = certified
    n_members = study.table.sizes.get("policy", 1)
    if question.judge == "best" and n_members > 1:
        raise InvalidInputError(
            "A certified cover with judge='best' does not say which member of a family "
            f"serves a box, and families have {n_members} members here. Certify with "
            "judge='worst', or one policy per source."
        )
    _check_subject(study, cover, question)
    sources = np.asarray(cover.sources, np.int64)
    low, high = np.asarray(cover.boxes.low), np.asarray(cover.boxes.high)
    live = low.min(0) < high.max(0)
    if not live.any():
        raise InvalidInputError("A box must have a width on at least one axis.")
    number = {int(s): i for i, s in enumerate(sources)}
    source = np.asarray(cover.assignment, np.int64)
    served = (np.asarray(cover.status) == 0) & (source >= 0)
    policy = np.array([number.get(int(s), -1) for s in source], np.int64)
    if not served.any():
        raise InvalidInputError(
            "No box of this cover is certified, so there is nothing to deploy with a "
            f"guarantee. {cover.certificate.why}"
        )
    policy = _nearest_served(low[:, live], high[:, live], policy, served)
    margin = np.where(served, question.epsilon - np.asarray(cover.loss_bound), np.nan)
    regions = BoxRegions.merged(low[:, live], high[:, live], policy, served, margin)
    axes = np.array(cover.axes)
    fixed = dict(zip(axes[~live].tolist(), low[0, ~live].tolist(), strict=True))
    members = np.zeros(len(sources), int)
    if n_members > 1:
        members = study.table["home_performance"].values[sources].argmax(1)
    entries = list(zip(sources.tolist(), members.tolist(), strict=True))
    why = cover.certificate.why
    if not cover.certificate.holds:
        why = f"Only in the certified boxes {question.statement}. {why}"
    guarantee = Guarantee(
        question,
        "box",
        cover.certificate.kind,
        why,
        {"share_certified": float(cover.share(0)), "n_boxes": len(low)},
    )
    names = tuple(axes[live].tolist())
    is_log: dict[str, bool] = {}
    if study.targets is not None:
        is_log = dict(zip(study.targets.names, log_axes_of(study.targets), strict=True))
    return _library(
        study,
        entries,
        regions=regions,
        guarantee=guarantee,
        rule="certified",
        outside=outside,
        names=names,
        fixed=fixed,
        log_axes=tuple(is_log.get(name, False) for name in names),
    )


def _check_subject(study: Study, cover: ContinuumCover, question: Question) -> None:
    """Refuse a certified cover that was proven for something else."""
    if study.policies is None or study.system is None:
        missing = "policies" if study.policies is None else "system"
        raise InvalidInputError(
            "A certified cover is about policies and a system, which a library "
            f"compares with its own, but there is no {missing}. Give {missing}=…"
        )
    if cover.subject is None:
        raise InvalidInputError(
            "A certified cover must say which policies and system it is about, but "
            "this one does not: set `system` and `policies` of its enclosure."
        )
    if tuple(np.asarray(cover.sources).tolist()) != cover.subject.sources:
        other = f"it was proven for the sources {list(cover.subject.sources)}"
    else:
        n_sources = study.table.sizes["source"]
        other = cover.subject.difference(
            question, study.system, study.policies, n_sources
        )
    if other:
        raise InvalidInputError(
            "A certified cover holds for what it was proven for, but here something "
            f"differs: {other}. Certify anew."
        )


def _nearest_served(low: Array, high: Array, policy: Numbers, served: Mask) -> Numbers:
    """Boxes without a policy use that of the nearest certified box, unguaranteed."""
    if served.all():
        return policy
    width = high.max(0) - low.min(0)
    centre = (low / 2 + high / 2) / width
    nearest = KDTree(centre[served]).query(centre[~served])[1]
    policy = policy.copy()
    policy[~served] = policy[served][nearest]
    return policy


# --- which policy serves a target ---------------------------------------------------


def assign(
    loss: Array,
    performance: Array,
    epsilon: float,
    nodes: Regions,
    rule: str = "performance",
) -> tuple[Numbers, Mask]:
    """Return the policy of each target, by a rule among those that serve it.

    A target that no policy serves within ε gets the one of least loss, unless all
    fail there.

    Args:
        loss: of each policy at each target, +inf for a failure.
        performance: J of each policy at each target.
        epsilon: tolerance.
        nodes: the targets, for rules that look at neighbours.
        rule: one of `ASSIGN_RULES`.

    Returns:
        Index of the policy at each target (−1 where all fail), and whether it
        serves.
    """
    if rule not in ASSIGN_RULES:
        raise UnknownNameError("rule of assignment", rule, ASSIGN_RULES)
    serves = loss <= epsilon
    served = np.asarray(serves.any(0))
    policy = loss.argmin(0)
    policy[np.isposinf(loss).all(0)] = -1
    if served.any():
        merit = _depth(serves, nodes) if rule == "margin" else performance
        best = np.where(serves, merit, -np.inf)
        tied = serves & (best == best.max(0))
        chosen = np.where(tied, loss, np.inf).argmin(0)
        if rule == "connected":
            chosen = _by_majority(chosen, serves, nodes)
        policy[served] = chosen[served]
    return policy.astype(np.int64), served


def _depth(serves: Mask, nodes: Regions) -> Array:
    """Return how far each target is from the nearest one that a policy fails."""
    width = nodes.high - nodes.low
    points = nodes.centres / np.where(width > 0, width, 1.0)
    depth = np.full(serves.shape, np.inf)
    for row, ok in zip(depth, serves, strict=True):
        if not ok.all() and ok.any():
            row[ok] = KDTree(points[~ok]).query(points[ok])[0]
    return depth


def _by_majority(policy: Numbers, serves: Mask, nodes: Regions) -> Numbers:
    """Give each target the policy that most neighbours use, of those that serve it.

    A target changes only if more of its neighbours then agree with it, so the number
    of neighbours that agree grows until nothing changes.
    """
    if not isinstance(nodes, GridRegions):
        raise InvalidInputError(
            "rule='connected' looks at neighbours on a grid, but these targets are no "
            "grid. Use rule='performance' or rule='margin'."
        )
    places = np.indices(nodes.shape).reshape(len(nodes.shape), -1).T
    covered = np.asarray(serves.any(0))
    is_settled = False
    while not is_settled:
        is_settled = True
        for target in np.flatnonzero(covered):
            near = np.abs(places - places[target]).sum(1) == 1
            votes = np.bincount(policy[near & covered], minlength=len(serves))
            votes = np.where(serves[:, target], votes, -1)
            if votes.max() > votes[policy[target]]:
                policy[target] = votes.argmax()
                is_settled = False
    return policy


ASSIGN_RULES = ("performance", "margin", "connected")
"""Rules of assignment: best performance, deepest inside, most neighbours."""


# --- what both share ----------------------------------------------------------------


def _library(
    study: Study, members: Sequence[tuple[int, int]], **parts: Any
) -> PolicyLibrary:
    """Return the library of some members of sources, `(source, member)` each.

    Args:
        study: gives policies, names, units and where all comes from.
        members: the policies.
        parts: the other fields of the library.
    """
    table, names = study.table, parts["names"]
    sources, numbers = (list(each) for each in zip(*members, strict=True))
    home, titles = source_space(table), _names(table, "source")
    many = len(set(sources)) < len(sources)
    entries = tuple(
        Entry(
            f"{titles[s]} ({m})" if many else str(titles[s]),
            s,
            m,
            {} if home is None else home.context(s),
        )
        for s, m in members
    )
    provenance = _provenance(study)
    if "environment_steps" in table:
        steps = table["environment_steps"].values[sources, numbers]
        provenance["environment_steps"] = int(steps.sum())
    made = PolicyLibrary(
        entries,
        units=tuple(study.axes[n].unit if n in study.axes else "" for n in names),
        policies=None if study.policies is None else study.policies[sources, numbers],
        provenance=provenance,
        **parts,
    )
    if isinstance(study.system, LinearSystem) and not made.targets:
        ends = contexts_of_comparison(made.low, made.high)
        rows = full_contexts(made, study.system, ends)
        provenance["plant"] = describe_system(study.system, rows)
    return made


def _provenance(study: Study) -> dict[str, Any]:
    """Return where a study comes from, and what its costs mean."""
    attrs = study.table.attrs
    provenance = {k: plain(attrs[k]) for k in ORIGIN_KEYS if k in attrs}
    if study.system is not None:
        provenance["objective"] = study.system.objective.to_dict()
    return provenance


def _sources(cover: Cover | ArrayLike, n_sources: int) -> Numbers:
    sources = np.asarray(cover.sources if isinstance(cover, Cover) else cover)
    if sources.ndim != 1 or sources.dtype.kind not in "iu":
        raise InvalidInputError(
            "A selection must be a cover or a list of sources by number, but got "
            f"{cover!r}."
        )
    _, first = np.unique(sources, return_index=True)
    sources = sources[np.sort(first)].astype(np.int64)
    if not len(sources) or sources.min() < 0 or sources.max() >= n_sources:
        raise InvalidInputError(
            f"A selection must name at least one source from 0 to {n_sources - 1}, but "
            f"got {sources.tolist()}."
        )
    return sources


def _names(table: xr.Dataset, dim: str) -> NDArray[np.str_]:
    if dim in table.coords:
        return np.array([str(name) for name in table.coords[dim].values])
    kinds = [""] * table.sizes[dim]
    if f"{dim}_kind" in table.coords:  # where policies come from, if not all trained
        words = table.coords[f"{dim}_kind"].values
        kinds = ["" if word == "trained" else f"{word} " for word in words]
    return np.array([f"{kind}{dim} {i}" for i, kind in enumerate(kinds)])
