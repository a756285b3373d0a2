"""Libraries from covers: of a table's targets, or of a whole box."""

from typing import Any, overload

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from scipy.spatial import KDTree

from taskspace._util.arrays import Array, Mask, Numbers
from taskspace._util.files import plain
from taskspace.certificates import CertifyResult
from taskspace.certificates.boxes.check import ContinuumCover
from taskspace.certificates.identity import contexts_of_comparison, describe_system
from taskspace.certificates.statements import caution_sentence, claim_on
from taskspace.cover import Cover
from taskspace.cover.cover import names_of
from taskspace.deploy.base import Guarantee, Outside
from taskspace.deploy.policies import Entry, PolicyLibrary
from taskspace.deploy.regions import BoxRegions, regions_of
from taskspace.deploy.schedules import ScheduleLibrary, schedule_library
from taskspace.errors import InvalidInputError
from taskspace.measured import coarse_sentence
from taskspace.performance import source_space
from taskspace.performance.study import Study, as_study
from taskspace.performance.table import family_rows
from taskspace.questions import Question, as_question
from taskspace.schedules.table import Schedule
from taskspace.spaces import log_axes_of
from taskspace.systems.base import PROVENANCE_WORDS
from taskspace.systems.linear import LinearSystem

Chosen = Cover | ContinuumCover | ArrayLike | None
ORIGIN_KEYS = "system trainer seed best_known_kind provenance selector notes cost"
"""What a library keeps of where its study comes from."""


@overload
def library(study: Any, cover: Schedule, *a: Any, **k: Any) -> ScheduleLibrary: ...
@overload
def library(study: Any, cover: Chosen, *a: Any, **k: Any) -> PolicyLibrary: ...
def library(
    study: Study | xr.Dataset,
    cover: Chosen | Schedule,
    question: Question | str | None = None,
    *,
    proof: CertifyResult | None = None,
    outside: Outside = "refuse",
) -> PolicyLibrary | ScheduleLibrary:
    """Make the library of a cover or a schedule: what to deploy, what is known of it.

    Where several policies serve a target, the one that performs best is used.

    Args:
        study: what is known, or a performance table. Without policies the library
            holds names.
        cover: a cover of the targets, a certified cover of the box, a list of
            sources chosen by hand, or an interpolated schedule.
        question: criterion, judge and ε; a cover knows its own.
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
        sizes = study.n_sources, study.n_targets
        if sizes != (cover.n_sources, cover.n_targets):
            raise InvalidInputError(
                f"This cover has {cover.n_sources} sources and {cover.n_targets} "
                f"targets, the study {sizes[0]} and {sizes[1]}."
            )
        question = question or cover.question
    if question is None:
        raise InvalidInputError(
            "A library must know what its cover answers, e.g. "
            "question='regret <= 0.1', but got none."
        )
    return _of_targets(study, cover, question, outside)


# --- of the targets of a table ----------------------------------------------------


def _of_targets(
    study: Study,
    cover: Cover | ArrayLike | None,
    question: Question,
    outside: Outside,
) -> PolicyLibrary:
    table = question.table_of(study)
    if table is not study.table:  # which may lack policies of sources not chosen here
        study = study.with_table(table)
    sources = _sources(cover, study.n_sources)
    families = [_members(study, question, source) for source in sources]
    members = [
        (source, member)
        for source, (indices, _, _) in zip(sources, families, strict=True)
        for member in indices
    ]
    loss = np.concatenate([losses for _, losses, _ in families])
    performance = np.concatenate([scores for _, _, scores in families])
    space = study.targets
    where: dict[str, Any] = {"names": ("target",)}
    points = np.arange(float(study.n_targets))[:, None]
    if space is None:
        where["targets"] = tuple(_names(table, "target"))
    else:
        others = [name for name in study.axes if name not in space.names]
        fixed = {name: study.axes[name].default for name in others}
        points, where = space.points, {"names": tuple(space.names), "fixed": fixed}
        where["log_axes"] = tuple(log_axes_of(space))
    policy, served = assign(loss, performance, question.epsilon)
    margin = question.epsilon - loss[policy, np.arange(len(policy))]
    used = np.unique(policy[policy >= 0])
    if not len(used):
        raise InvalidInputError(
            "A library needs a policy that works somewhere, but the chosen sources "
            "fail at every target."
        )
    # A member of a family that no target uses is left out; sources all stay.
    if len(members) > len(sources):
        members = [members[i] for i in used]
        policy = np.where(policy >= 0, used.searchsorted(policy), -1)
    guarantee = _guarantee_at_targets(study, question, margin, served)
    margin = np.where(policy < 0, np.nan, margin)
    is_log = where.get("log_axes")
    where["regions"] = regions_of(points, policy, served, margin, log_axes=is_log)
    return _library(study, members, guarantee=guarantee, outside=outside, **where)


def assign(loss: Array, performance: Array, epsilon: float) -> tuple[Numbers, Mask]:
    """Return the policy of each target: the best performance of those that serve it.

    A target that no policy serves within ε gets the one of least loss, unless all
    fail there.

    Args:
        loss: of each policy at each target, +inf for a failure.
        performance: J of each policy at each target.
        epsilon: tolerance.

    Returns:
        Index of the policy at each target (−1 where all fail), and whether it
        serves.
    """
    serves = loss <= epsilon
    served = np.asarray(serves.any(0))
    best = np.where(serves, performance, -np.inf)
    tied = serves & (best == best.max(0))
    chosen = np.where(tied, loss, np.inf).argmin(0)
    policy = np.where(served, chosen, loss.argmin(0))
    policy[np.isposinf(loss).all(0)] = -1
    return policy.astype(np.int64), served


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
    study: Study, question: Question, source: int
) -> tuple[list[int], Array, Array]:
    """Members of one source that may be used, their losses and their J."""
    table, rows = study.table, slice(source, source + 1)
    n_members = table.sizes.get("policy", 1)
    if n_members == 1 or question.judge == "worst":
        # Every member serves what the worst one serves: take the best one at home.
        reduced = family_rows(table, question.judge, rows)
        return [_best_at_home(study, source)], question.rows(table, rows), reduced
    scores = _family_scores(study, source, question.rule.measure)
    if scores is None:
        raise InvalidInputError(
            "With judge='best' the best member of a family serves, and which one "
            "that is this table does not hold. Give policies and system, or use "
            "judge='worst'."
        )
    loss = question.loss_of(table, scores[None], rows)[0]
    if question.asks_one_member(n_members):
        loss = question.member_rows(table, rows)[0]
    return list(range(n_members)), loss, scores


def _best_at_home(study: Study, source: int) -> int:
    """Return the member of a source that performs best at that source."""
    if study.table.sizes.get("policy", 1) == 1:
        return 0
    return int(study.table["home_performance"][source].values.argmax())


def _family_scores(study: Study, source: int, measure: str) -> Array | None:
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
    certified = Question.from_dict(cover.certificate.values)
    if question is not None and question != certified:
        raise InvalidInputError(
            f"The certified cover answers '{certified.statement}', but the question "
            f"asked is '{question.statement}'."
        )
    n_members = study.table.sizes.get("policy", 1)
    if certified.judge == "best" and n_members > 1:
        raise InvalidInputError(
            "A certified cover with judge='best' does not say which member of a family "
            f"serves a box, and families have {n_members} members here. Certify with "
            "judge='worst', or one policy per source."
        )
    _check_subject(study, cover, certified)
    low, high = np.asarray(cover.boxes.low), np.asarray(cover.boxes.high)
    live = low.min(0) < high.max(0)
    sources = np.asarray(cover.sources, np.int64).tolist()
    place = {source: i for i, source in enumerate(sources)}
    policy = np.array([place.get(int(s), -1) for s in cover.assignment], np.int64)
    served = (np.asarray(cover.status) == 0) & (policy >= 0)
    if not served.any():
        raise InvalidInputError(
            "No box of this cover is certified, so there is nothing to deploy with a "
            f"guarantee. {cover.certificate.why}"
        )
    margin = np.where(served, certified.epsilon - np.asarray(cover.loss_bound), np.nan)
    axes, fixed_values = np.array(cover.axes), low[0, ~live]
    low, high = low[:, live], high[:, live]
    if not served.all():
        # Boxes that are not certified use the policy of the nearest one that is.
        centre = (low / 2 + high / 2) / (high.max(0) - low.min(0))
        nearest = KDTree(centre[served]).query(centre[~served])[1]
        policy[~served] = policy[served][nearest]
    members = [(source, _best_at_home(study, source)) for source in sources]
    why = cover.certificate.why
    if not cover.certificate.holds:
        why = f"Only in the certified boxes {certified.statement}. {why}"
    values = {"share_certified": float(cover.share(0)), "n_boxes": len(low)}
    is_log: dict[str, bool] = {}
    if study.targets is not None:
        is_log = dict(zip(study.targets.names, log_axes_of(study.targets), strict=True))
    names = tuple(axes[live].tolist())
    return _library(
        study,
        members,
        regions=BoxRegions.merged(low, high, policy, served, margin),
        guarantee=Guarantee(certified, "box", cover.certificate.kind, why, values),
        outside=outside,
        names=names,
        fixed=dict(zip(axes[~live].tolist(), fixed_values.tolist(), strict=True)),
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
    other = cover.subject.difference(
        question, study.system, study.policies, study.n_sources
    )
    if tuple(np.asarray(cover.sources).tolist()) != cover.subject.sources:
        other = f"it was proven for the sources {list(cover.subject.sources)}"
    if other:
        raise InvalidInputError(
            "A certified cover holds for what it was proven for, but here something "
            f"differs: {other}. Certify anew."
        )


# --- what both share ----------------------------------------------------------------


def _library(
    study: Study, members: list[tuple[int, int]], **parts: Any
) -> PolicyLibrary:
    """Return the library of some members of sources, `(source, member)` each.

    Args:
        study: gives policies, names, units and where all comes from.
        members: the policies.
        parts: the other fields of the library.
    """
    table = study.table
    sources, indices = (list(each) for each in zip(*members, strict=True))
    home, titles = source_space(table), _names(table, "source")
    many = len(set(sources)) < len(sources)
    entries = tuple(
        Entry(
            f"{titles[s]} ({m})" if many else titles[s],
            s,
            m,
            {} if home is None else home.context(s),
        )
        for s, m in members
    )
    provenance = _provenance(study)
    axes = [study.axes.get(name) for name in parts["names"]]
    made = PolicyLibrary(
        entries,
        units=tuple("" if axis is None else axis.unit for axis in axes),
        policies=None if study.policies is None else study.policies[sources, indices],
        provenance=provenance,
        **parts,
    )
    if isinstance(study.system, LinearSystem) and not made.targets:
        ends = contexts_of_comparison(made.low, made.high)
        rows = made.full_contexts(study.system, ends)
        provenance["plant"] = describe_system(study.system, rows)
    return made


def _provenance(study: Study) -> dict[str, Any]:
    """Return where a study comes from, and what its costs mean."""
    attrs = study.table.attrs
    provenance = {k: plain(attrs[k]) for k in ORIGIN_KEYS.split() if k in attrs}
    if study.system is not None:
        provenance["objective"] = study.system.objective.to_dict()
    return provenance


def _sources(cover: Cover | ArrayLike | None, n_sources: int) -> list[int]:
    sources = np.asarray(cover.sources if isinstance(cover, Cover) else cover)
    is_list = sources.ndim == 1 and sources.dtype.kind in "iu" and len(sources) > 0
    if not is_list or sources.min() < 0 or sources.max() >= n_sources:
        raise InvalidInputError(
            "A selection must be a cover or a list of sources by number, at least one, "
            f"from 0 to {n_sources - 1}, but got {cover!r}."
        )
    return list(dict.fromkeys(sources.tolist()))


def _names(table: xr.Dataset, dim: str) -> list[str]:
    """Return the names of sources or targets, made up where they have none."""
    return names_of(table, dim) or [f"{dim} {i}" for i in range(table.sizes[dim])]
