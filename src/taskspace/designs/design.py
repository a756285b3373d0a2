"""`ts.design`: the fewest gains for a space, with a bound over all gains there are."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.files import plain, read_sealed, write_sealed
from taskspace.cover import Cover, minimum_cover, smallest_epsilon
from taskspace.cover.base import Clock
from taskspace.designs.bound import (
    MOST_CONTEXTS,
    GainBound,
    bound_all_gains,
    fewer_contexts,
)
from taskspace.designs.search import DesignSearch
from taskspace.designs.tasks import check_question, linear_system
from taskspace.errors import InvalidInputError
from taskspace.performance import evaluate_policies
from taskspace.performance.ledger import TRAINED
from taskspace.performance.study import Study
from taskspace.policies import LinearGain
from taskspace.progress import Progress, silent
from taskspace.questions import Question
from taskspace.spaces import Grid, Points, Space
from taskspace.systems.base import System
from taskspace.systems.linear import LinearSystem
from taskspace.trainers.minimax import GainRegion, RegionGains, design_gains, gain_mask

__all__ = ["DESIGNED", "Design", "design"]

DESIGNED = "designed"
"""What `source_kind` says of a designed gain."""
# Of the time that is left: for the cover of the candidates, for contexts between the
# targets, and for the bound over all gains.
COVER_SHARE, BETWEEN_SHARE, BOUND_SHARE = 0.1, 0.4, 0.5
MOST_CANDIDATES = 10_000
MOST_BETWEEN = 500_000
"""Numbers in A at contexts between the targets, where gains are tried too."""


@dataclass(frozen=True, eq=False)
class Design:
    """Designed gains, what they serve, and how many any design needs.

    Args:
        gains: one K per row, u = −K x, shape `(gain, n_inputs, n_states)`.
        cover: of the study's targets, by some of its sources.
        epsilon: the tolerance asked for; with k given, the least that was reached.
        lower_bound_all: no fewer gains of this structure serve within epsilon.
        bound: by which argument, at how many contexts.
        study: the designed gains and the candidates that they replace.
        question: what was asked, with `epsilon`.
        k: how many gains were asked for, None if as few as possible.
        n_candidates: how many gains the search began with.
        size_candidates: how many of these are needed, None where they do not suffice.
        stop_reason: why the search ended.
        seconds: wall-clock time.
    """

    gains: NDArray[np.float64]
    cover: Cover
    epsilon: float
    lower_bound_all: int
    bound: GainBound
    study: Study
    question: Question
    k: int | None
    n_candidates: int
    size_candidates: int | None
    stop_reason: str
    seconds: float = field(repr=False)

    @property
    def size(self) -> int:
        """How many gains there are."""
        return len(self.gains)

    @property
    def worst(self) -> float:
        """The largest loss at a target of the gain that does best there."""
        losses = self.study.loss(self.question).values[: self.size]
        return float(losses.min(0).max())

    @property
    def statement(self) -> str:
        """What was found and what is proven, in sentences."""
        n_targets = self.study.n_targets
        rule = self.question.rule.sentence(self.epsilon)
        one = "gain serves" if self.size == 1 else "gains serve"
        said = f"{self.size} designed {one} all {n_targets:,} targets, {rule}."
        if self.size_candidates is not None and self.k is None:
            said += (
                f" Of the {self.n_candidates:,} candidates {self.size_candidates} are "
                "needed."
            )
        if self.size == self.lower_bound_all:
            said += " That is the least number of any design."
        return f"{said} {self.bound.statement}"

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return {
            "size": self.size,
            "lower_bound_all": self.lower_bound_all,
            "k": self.k,
            "epsilon": self.epsilon,
            "gains": self.gains.tolist(),
            "cover": self.cover.to_dict(),
            "question": self.question.to_dict(),
            "worst": self.worst,
            "bound": self.bound.to_dict(),
            "n_candidates": self.n_candidates,
            "size_candidates": self.size_candidates,
            "stop_reason": self.stop_reason,
            "seconds": self.seconds,
        }

    def __repr__(self) -> str:
        """The design in one line."""
        return (
            f"Design({self.size} gains, at least {self.lower_bound_all} of any design, "
            f"{self.question.criterion} ≤ {self.epsilon:.4g})"
        )


def design(
    known: Study | System,
    space: Space | None = None,
    question: Question | None = None,
    *,
    k: int | None = None,
    mask: ArrayLike | None = None,
    time_limit: float = 60,
    seed: int = 0,
    keep: str | Path | None = None,
    progress: Progress | None = None,
) -> Design:
    """Design the fewest gains for a space, and bound their number over all gains.

    The candidates' minimum cover is where it starts. All gains are moved at once to
    lessen the worst loss; then one is taken away and the others repair what it served,
    until nothing gets smaller.

    Args:
        known: a study of a linear family, or the family itself; then the candidates are
            the optimal gains of all contexts.
        space: the contexts to serve; the study's targets where left out.
        question: what it means to serve: regret, ratio or floor. With k its tolerance
            does not matter.
        k: how many gains; then the least tolerance is sought that they reach.
        mask: which entries of a gain are free, shape `(n_inputs, n_states)`; the others
            are zero. All where left out.
        time_limit: seconds, of which about half are for the bound.
        seed: of the restarts.
        keep: a file in which the best gains are kept as they are found; the same call
            goes on from there.
        progress: told what is going on.

    Example:
        >>> import taskspace as ts
        >>> space = ts.Grid(b=(0.1, 1.0, 30))
        >>> question = ts.Question("ratio", epsilon=0.5)
        >>> ts.design(ts.systems.ScalarLqr(), space, question)
        Design(2 gains, at least 2 of any design, ratio ≤ 0.5)
    """
    clock = Clock(time_limit)
    report = progress or silent
    system, targets, asked = _subject(known, space, question, k)
    free = gain_mask(system, mask)
    region, nodes = _region(system, fewer_contexts(targets, MOST_CONTEXTS), asked)
    pool = _candidates(known, system, targets, free)
    kept = _Kept(keep, system, targets, asked, k, free)
    report("design", 0, 1, f"{len(pool):,} candidates")
    start, size_candidates = _start(
        system, region, nodes, pool, asked, k, free, COVER_SHARE * clock.left, seed
    )
    if kept.gains is not None:
        start = _better(region, start, kept.gains, asked.epsilon, k)
    search = DesignSearch(
        region,
        pool,
        free,
        Clock((1 - BOUND_SHARE) * clock.left),
        seed,
        kept.keep,
        report,
    )
    found = search.fewest(start, asked.epsilon) if k is None else search.least(start)
    finer = _finer(targets, len(system.states))
    if finer is not None:
        search.clock = Clock(BETWEEN_SHARE * clock.left)
        found = _settle(search, found, _region(system, finer, asked)[0], asked, k)
    is_anew = k is not None
    while True:
        study = _study(system, targets, found.gains, start, asked)
        losses = asked.losses(study).values[: len(found.gains)]
        epsilon = asked.epsilon if k is None else float(losses.min(0).max())
        bound = bound_all_gains(
            system,
            targets,
            asked.at(epsilon),
            mask=mask,
            goal=len(found.gains),
            time_limit=max(1.0, clock.left * (1.0 if is_anew else BOUND_SHARE)),
            progress=report,
        )
        n = len(found.gains)
        search.clock = Clock((1 - BOUND_SHARE) * clock.left)
        if k is None and bound.smaller is not None and clock.left > 0:
            # On its way the bound met fewer gains that serve.
            found = search.fewest(bound.smaller, asked.epsilon)
            if finer is not None:
                search.clock = Clock(BETWEEN_SHARE * clock.left)
                found = _settle(
                    search, found, _region(system, finer, asked)[0], asked, k
                )
        elif not is_anew and bound.value < n and clock.left > 0:
            is_anew = True
            found = search.fewest(found.gains, asked.epsilon, anew=True)
        if len(found.gains) == n:
            break
    asked = asked.at(epsilon)
    cover = minimum_cover(study, asked, time_limit=5.0, seed=seed)
    is_least = bound.value == len(found.gains)
    reason = "proven least of any design" if is_least else "nothing smaller was found"
    if not is_least and clock.left <= 0:
        reason = "time limit"
    return Design(
        found.gains,
        cover,
        epsilon,
        bound.value,
        bound,
        study,
        asked,
        k,
        len(pool),
        size_candidates,
        reason,
        clock.seconds,
    )


def _subject(
    known: Study | System, space: Space | None, question: Question | None, k: int | None
) -> tuple[LinearSystem, Space, Question]:
    """The family, the contexts to serve and the question."""
    if question is None:
        raise InvalidInputError("A design needs a question: ts.Question(epsilon=...).")
    check_question(question)
    system = known if isinstance(known, System) else known.require_system()
    targets = space
    if targets is None and isinstance(known, Study):
        targets = known.targets
    if targets is None:
        raise InvalidInputError(
            "A design needs contexts to serve, but got none. Give a space: "
            "ts.design(system, space, question)."
        )
    if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
        raise InvalidInputError(
            f"k >= 1 must hold for a number of gains, but got {k!r}."
        )
    return linear_system(system), targets, question


def _region(
    system: LinearSystem, space: Space, question: Question
) -> tuple[GainRegion, NDArray[np.float64]]:
    """The contexts and the losses of gains there, where some gain stabilises."""
    contexts = system.contexts(space)
    if question.criterion == "floor":
        return GainRegion.of(system, contexts), contexts
    optimum = system.optimum(contexts)
    assert optimum is not None
    lost = np.flatnonzero(~np.isfinite(optimum))
    if len(lost):
        names = ", ".join(axis.name for axis in system.axes)
        row = ", ".join(f"{x:g}" for x in contexts[lost[0]])
        raise InvalidInputError(
            f"{question.criterion} compares with the optimum, which is not known at "
            f"{len(lost):,} of {len(contexts):,} contexts, the first of them {names} = "
            f"{row}: no gain stabilises it, or the best loop is on the boundary of "
            "stability. Leave these contexts out, or use the criterion floor."
        )
    scale = -optimum if question.criterion == "ratio" else 1.0
    return GainRegion.of(system, contexts, -optimum, scale), contexts


def _candidates(
    known: Study | System, system: LinearSystem, targets: Space, mask: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The gains to begin with: those of a study, and the optimal ones of contexts."""
    some = fewer_contexts(targets, MOST_CONTEXTS)
    gains = [system.optimal_gain(system.contexts(some))[0]]
    if isinstance(known, Study) and isinstance(known.all_policies, LinearGain):
        stack = known.all_policies.gain
        if stack.shape[1] == 1 and len(stack) <= MOST_CANDIDATES:
            gains.insert(0, stack[:, 0])
    pool = np.where(mask, np.concatenate(gains), 0.0)
    return np.unique(pool, axis=0)


def _start(
    system: LinearSystem,
    region: GainRegion,
    nodes: NDArray[np.float64],
    pool: NDArray[np.float64],
    question: Question,
    k: int | None,
    mask: NDArray[np.bool_],
    seconds: float,
    seed: int,
) -> tuple[NDArray[np.float64], int | None]:
    """The candidates' best selection, and how many of them the tolerance needs."""
    from taskspace.sets import pack

    losses, _ = region.losses(pool)
    alone = losses.min(0)
    limit = np.inf if k is not None else question.epsilon
    for node in np.flatnonzero(~(alone <= limit)):
        # A gain of this structure for this context alone, from the next best one.
        best = pool[losses[:, node].argmin()]
        own = design_gains(region[np.array([node])], best[None], mask)
        if own.worst <= limit and own.worst < np.inf:
            pool = np.concatenate([pool, own.gains])
            losses = np.concatenate([losses, region.losses(own.gains)[0]])
    bad = np.flatnonzero(~(losses.min(0) <= limit))
    if len(bad):
        row = ", ".join(
            f"{axis.name} = {x:g}"
            for axis, x in zip(system.axes, nodes[bad[0]], strict=True)
        )
        wanted = "stabilises" if k is not None else "serves"
        raise InvalidInputError(
            f"No gain of this structure was found that {wanted} {len(bad):,} of "
            f"{len(nodes):,} contexts, the first of them {row}. Use a larger "
            "tolerance, free more entries of the gain, or leave these contexts out."
        )
    if k is None:
        cover = minimum_cover(pack(losses <= limit), time_limit=seconds, seed=seed)
        return pool[cover.sources], cover.size
    found = smallest_epsilon(losses, k, time_limit=seconds, seed=seed)
    if found.sources:
        return pool[list(found.sources)], None
    raise InvalidInputError(
        f"No {k} gains were found that stabilise all {len(nodes):,} contexts. Ask for "
        "more gains, or for a tolerance instead of a number."
    )


def _finer(space: Space, n_states: int) -> Space | None:
    """Return a grid between the nodes of a grid, None for other contexts."""
    if not isinstance(space, Grid):
        return None
    values = [axis.values for axis in space.axes]
    for _ in range(3):
        halved = [
            np.unique(np.concatenate([v, v[1:] / 2 + v[:-1] / 2])) for v in values
        ]
        if np.prod([len(v) for v in halved]) * n_states**2 > MOST_BETWEEN:
            break
        values = halved
    return Grid(
        **{axis.name: v.tolist() for axis, v in zip(space.axes, values, strict=True)}
    )


def _settle(
    search: DesignSearch,
    found: RegionGains,
    finer: GainRegion,
    question: Question,
    k: int | None,
) -> RegionGains:
    """Return gains that lose less between the targets, if they serve these still."""
    nodes = search.region
    moved = search.between(found, finer)
    search.region = nodes
    if k is None and moved.worst > question.epsilon:
        return found
    search.keep(moved)
    return moved


def _better(
    region: GainRegion,
    start: NDArray[np.float64],
    kept: NDArray[np.float64],
    epsilon: float,
    k: int | None,
) -> NDArray[np.float64]:
    """Of two selections the one that is kept on: fewer gains, or a smaller loss."""
    worst = [float(region.losses(gains)[0].min(0).max()) for gains in (start, kept)]
    if k is not None:
        return kept if worst[1] < worst[0] else start
    return kept if worst[1] <= epsilon and len(kept) <= len(start) else start


def _study(
    system: LinearSystem,
    targets: Space,
    designed: NDArray[np.float64],
    candidates: NDArray[np.float64],
    question: Question,
) -> Study:
    """A study of the designed gains and of the candidates that they replace.

    The source of a gain is the target at which it loses least.
    """
    gains = system.gains(np.concatenate([designed, candidates]))
    bare = evaluate_policies(system, gains, targets)
    home = question.losses(bare).values.argmin(1)
    sources = Points(targets.names, targets.points[home])
    study = evaluate_policies(system, gains, targets, sources=sources)
    kinds = np.repeat([DESIGNED, TRAINED], [len(designed), len(candidates)])
    return study.with_table(study.table.assign_coords(source_kind=("source", kinds)))


class _Kept:
    """The best gains so far in a file, under what they were designed for."""

    def __init__(
        self,
        path: str | Path | None,
        system: LinearSystem,
        targets: Space,
        question: Question,
        k: int | None,
        mask: NDArray[np.bool_],
    ):
        self.path = None if path is None else Path(path)
        contexts = system.contexts(targets)
        digest = hashlib.sha256(np.ascontiguousarray(contexts).tobytes())
        for matrix in system.matrices(contexts):
            digest.update(np.ascontiguousarray(matrix).tobytes())
        digest.update(system.initial_covariance.tobytes())
        subject = {
            "tasks": digest.hexdigest(),
            "criterion": question.criterion,
            "epsilon": question.epsilon if k is None else None,
            "k": k,
            "mask": mask.tolist(),
        }
        self.subject = json.loads(json.dumps(plain(subject)))
        self.gains: NDArray[np.float64] | None = None
        if self.path is not None and self.path.exists():
            content = read_sealed(self.path)
            if content.get("subject") == self.subject:
                self.gains = np.array(content["gains"], np.float64)

    def keep(self, found: RegionGains) -> None:
        """Write gains, so that a search that ends early goes on from there."""
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            content = {
                "subject": self.subject,
                "gains": found.gains.tolist(),
                "worst": found.worst,
            }
            write_sealed(self.path, content)
