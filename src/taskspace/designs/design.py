"""`ts.design`: the fewest gains for a space, with a bound over all gains there are."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.files import plain, read_sealed, write_sealed
from taskspace.cover import Cover, minimum_cover
from taskspace.cover.base import Clock
from taskspace.designs.bound import GainBound, bound_all_gains
from taskspace.designs.case import DesignCase
from taskspace.designs.search import DesignSearch
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.progress import Progress, silent
from taskspace.questions import Question
from taskspace.spaces import Space
from taskspace.systems.base import System
from taskspace.trainers.minimax import GainRegion, RegionGains

__all__ = ["Design", "design"]

# Of the time that is left: for the cover of the candidates, for contexts between the
# targets, and for the bound over all gains.
COVER_SHARE, BETWEEN_SHARE, BOUND_SHARE = 0.1, 0.4, 0.5


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
    case = DesignCase.of(known, space, question, mask)
    asked = case.question
    if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
        raise InvalidInputError(
            f"k >= 1 must hold for a number of gains, but got {k!r}."
        )
    kept = _Kept(keep, case, k)
    report("design", 0, 1, f"{len(case.pool):,} candidates")
    start, size_candidates = case.start(k, COVER_SHARE * clock.left, seed)
    if kept.gains is not None:
        start = _better(case.region, start, kept.gains, asked.epsilon, k)
    search = DesignSearch(
        case.region,
        case.pool,
        case.mask,
        Clock((1 - BOUND_SHARE) * clock.left),
        seed,
        kept.keep,
        report,
    )
    found = search.fewest(start, asked.epsilon) if k is None else search.least(start)
    finer = case.finer()
    if finer is not None:
        search.clock = Clock(BETWEEN_SHARE * clock.left)
        found = _settle(search, found, finer, asked, k)
    is_anew = k is not None
    while True:
        study = case.study(found.gains, start)
        losses = asked.losses(study).values[: len(found.gains)]
        epsilon = asked.epsilon if k is None else float(losses.min(0).max())
        bound = bound_all_gains(
            case.system,
            case.targets,
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
                found = _settle(search, found, finer, asked, k)
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
        len(case.pool),
        size_candidates,
        reason,
        clock.seconds,
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
    """Return the better of two selections: fewer gains, or a smaller loss."""
    worst = [float(region.judged(gains).min(0).max()) for gains in (start, kept)]
    if k is not None:
        return kept if worst[1] < worst[0] else start
    return kept if worst[1] <= epsilon and len(kept) <= len(start) else start


class _Kept:
    """The best gains so far in a file, under what they were designed for."""

    def __init__(self, path: str | Path | None, case: DesignCase, k: int | None):
        self.path = None if path is None else Path(path)
        contexts = case.system.contexts(case.targets)
        digest = hashlib.sha256(np.ascontiguousarray(contexts).tobytes())
        for matrix in case.system.matrices(contexts):
            digest.update(np.ascontiguousarray(matrix).tobytes())
        digest.update(case.system.initial_covariance.tobytes())
        asked = case.question if k is None else case.question.at(0.0)
        subject = {
            "tasks": digest.hexdigest(),
            "question": asked.to_dict(),
            "k": k,
            "mask": case.mask.tolist(),
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
