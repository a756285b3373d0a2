"""`ts.design`: the fewest gains for a space, with a bound over all gains there are."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taskspace._util.arrays import Array
from taskspace._util.clock import Clock
from taskspace._util.files import plain, read_sealed, write_sealed
from taskspace._util.words import round_to_side
from taskspace.cover import Cover, minimum_cover
from taskspace.designs.bound import (
    MOST_BOXES,
    GainBound,
    bound_all_gains,
    fewer_contexts,
)
from taskspace.designs.case import DesignCase
from taskspace.designs.off_grid import Between
from taskspace.designs.search import DesignSearch
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.progress import Progress, silent
from taskspace.questions import Question
from taskspace.spaces import Points, Space
from taskspace.systems.base import System
from taskspace.trainers.minimax import GainRegion, RegionGains

FIRST_BOXES = 20_000
"""Boxes of gains for the first bound, before gains are designed anew."""
N_BEFORE = 400
"""Targets that a design for a whole box begins with; it adds those that it needs."""


@dataclass(frozen=True, eq=False)
class Design:
    """Designed gains, what they serve, and how many any design needs.

    Args:
        gains: one K per row, u = −K x, shape `(gain, n_inputs, n_states)`.
        cover: of the study's targets, by some of its sources.
        epsilon: the tolerance asked for; with k given, the least that was reached, at
            the contexts between the targets, too, where these were designed for.
        lower_bound_all: no fewer gains of this structure serve within epsilon.
        bound: by which argument, at how many contexts.
        study: the designed gains and the candidates that they replace.
        question: what was asked, with `epsilon`.
        k: how many gains were asked for, None if as few as possible.
        n_candidates: how many gains the search began with.
        size_candidates: how many of these are needed, None where they do not suffice.
        stop_reason: why the search ended.
        n_between: contexts between the targets that were tried and are all served; 0
            where the gains were designed for the targets alone.
        seconds: wall-clock time.
    """

    gains: Array
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
    n_between: int
    seconds: float = field(repr=False)

    @property
    def size(self) -> int:
        """How many gains there are."""
        return len(self.gains)

    @property
    def worst(self) -> float:
        """The largest loss at a target of the gain that does best there."""
        return float(self._least.max())

    @property
    def _least(self) -> Array:
        return self.question.losses(self.study).values[: self.size].min(0)

    @property
    def statement(self) -> str:
        """What was found and what is proven, in sentences."""
        n_targets = self.study.n_targets
        rule = self.question.rule.sentence(self.epsilon)
        one = "gain serves" if self.size == 1 else "gains serve"
        between = f" and {self.n_between:,} contexts between" * bool(self.n_between)
        n_served = int((self._least <= self.epsilon).sum())
        whom = "all" if n_served == n_targets else f"{n_served:,} of"
        said = f"{self.size} designed {one} {whom} {n_targets:,} targets{between}"
        said += f", {rule}."
        if self.size_candidates is not None and self.k is None:
            said += (
                f" Of the {self.n_candidates:,} candidates {self.size_candidates} are "
                "needed."
            )
        if self.size == self.lower_bound_all and n_served == n_targets:
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
            "n_between": self.n_between,
            "seconds": self.seconds,
        }

    def __repr__(self) -> str:
        """Return the design in one line."""
        reached = round_to_side(self.epsilon, up=True, digits=4)
        least = f", at least {self.lower_bound_all} of any design"
        if self.lower_bound_all == 1 < self.size:
            least = ""  # that is no bound
        return (
            f"Design({self.size} gains{least}, {self.question.criterion} ≤ {reached})"
        )


def design(
    problem: Study | System,
    space: Space | Question | str | None = None,
    question: Question | str | None = None,
    *,
    k: int | None = None,
    mask: ArrayLike | None = None,
    whole: bool = False,
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
        problem: a study of a linear family, or the family itself; then the candidates
            are the optimal gains of all contexts.
        space: the contexts to serve; of a study its targets where left out, so that
            the question may be the second argument.
        question: what it means to serve: regret, ratio or floor. With k its tolerance
            does not matter.
        k: how many gains; then the least tolerance is sought that they reach.
        mask: which entries of a gain are free, shape `(n_inputs, n_states)`; the others
            are zero. All where left out.
        whole: the gains must serve contexts between the targets of a grid, too. Those
            that they serve worst are added to the targets, for the design and for the
            bound, until none are left on a grid up to eight times as fine. That is no
            proof for the box yet: `ts.certify` is.
        time_limit: processor seconds; the steps of the search are cut by counted work,
            and the limit ends them.
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
    if isinstance(space, Question | str):
        space, question = None, space
    case = DesignCase.of(problem, space, question, mask, needs_bound=k is None)
    question = case.question
    if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
        raise InvalidInputError(
            f"k >= 1 must hold for a number of gains, but got {k!r}."
        )
    file = _GainsFile(keep, case, k)
    report("design", 0, 1, f"{len(case.pool):,} candidates")
    start, size_candidates = case.start(k, clock, seed)
    if file.gains is not None:
        start = _better(case.region, start, file.gains, question.epsilon, k)
    search = _Search(case, k, clock, seed, file, report, whole=whole)
    selection, study, epsilon, bound = search.run(start)
    question = question.at(epsilon)
    cover = minimum_cover(study, question, time_limit=5.0, seed=seed)
    is_least = bound.value == len(selection.gains)
    reason = "proven least of any design" if is_least else "nothing smaller was found"
    if not is_least and clock.left <= 0:
        reason = "time limit"
    return Design(
        selection.gains,
        cover,
        epsilon,
        bound.value,
        bound,
        study,
        question,
        k,
        len(case.pool),
        size_candidates,
        reason,
        search.n_served_between(selection, epsilon),
        clock.seconds,
    )


class _Search:
    """The search for gains, at the nodes alone or between them, too."""

    def __init__(
        self,
        case: DesignCase,
        k: int | None,
        clock: Clock,
        seed: int,
        file: "_GainsFile",
        report: Progress,
        *,
        whole: bool,
    ):
        if whole and case.finer is None:
            raise InvalidInputError(
                "A design for a whole box needs a grid, whose ends are those of the "
                "box, but got scattered contexts."
            )
        self.case, self.k, self.clock, self.whole = case, k, clock, whole
        self.around = None if case.finer is None else Between(case, case.finer)
        self.nodes: Space = (
            fewer_contexts(case.nodes, N_BEFORE) if whole else case.nodes
        )
        region = case.region_of(self.nodes) if whole else case.region
        self.own = DesignSearch(
            region, case.pool, case.mask, clock, seed, file.keep, report
        )

    def run(self, start: Array) -> tuple[RegionGains, Study, float, GainBound]:
        """Design and bound in turn, until both meet or nothing gets better.

        Returns:
            The gains, their study with that of the start, the tolerance, the bound.
        """
        case, clock, question = self.case, self.clock, self.case.question
        is_anew = self.k is not None or self.whole  # before `first` gives up the box
        selection = self.first(start)
        while True:
            study, n = case.study(selection.gains, start), len(selection.gains)
            epsilon = question.epsilon
            if self.k is not None:
                epsilon = self.reached(selection, study)
            bound = bound_all_gains(
                case.system,
                self.contexts,
                question.at(epsilon),
                mask=case.mask,
                goal=n,
                time_limit=max(1.0, clock.left),
                max_boxes=MOST_BOXES if is_anew else FIRST_BOXES,
                progress=self.own.progress,
            )
            if self.k is not None or bound.value == n or clock.left <= 0:
                break
            smaller, n_contexts = None, self.contexts.size
            if bound.smaller is not None:
                # On its way the bound met fewer gains that serve its contexts.
                smaller = self.again(bound.smaller)
            elif not is_anew:
                is_anew = True
                smaller = self.anew(selection.gains)
            if smaller is not None and len(smaller.gains) < n:
                selection = smaller
            elif self.contexts.size == n_contexts:
                break
        return selection, study, epsilon, bound

    @property
    def contexts(self) -> Space:
        """The nodes, or the contexts that the gains were designed for."""
        if not self.own.added:
            return self.nodes
        points = np.concatenate([self.nodes.points, *self.own.added])
        return Points(self.nodes.names, np.unique(points, axis=0))

    def first(self, start: Array) -> RegionGains:
        """Return the gains that the first step of the search finds."""
        self.own.begin()
        if self.k is not None:
            return self._settle(self.own.least(start))
        selection = self._fewest(start)
        if selection is None:
            # Time was up before gains served between the targets: on with these alone.
            self.whole = False
            self.own.added.clear()
            losses = self.case.region.judged(start)
            return RegionGains(start, float(losses.min(0).max()))
        return selection

    def again(self, start: Array) -> RegionGains | None:
        """Return the fewest gains from others that serve the contexts so far."""
        self.own.begin()
        return self._fewest(start)

    def anew(self, gains: Array) -> RegionGains:
        """Return the fewest gains from other choices of candidates."""
        self.own.begin()
        return self.own.fewest(gains, self.case.question.epsilon, anew=True)

    def reached(self, selection: RegionGains, study: Study) -> float:
        """Return the least tolerance that gains reach, wherever they must serve."""
        losses = self.case.question.losses(study).values[: len(selection.gains)]
        worst = float(losses.min(0).max())
        if self.whole and self.around is not None:
            worst = max(worst, self.around.worst(selection.gains, worst).loss)
        return worst

    def n_served_between(self, selection: RegionGains, epsilon: float) -> int:
        """Return how many contexts between the targets the gains serve, if all."""
        if not self.whole or self.around is None:
            return 0
        served = self.around.worst(selection.gains, epsilon).loss <= epsilon
        return (self.around.grid.size - self.case.targets.size) * served

    def _fewest(self, start: Array) -> RegionGains | None:
        """Return the fewest gains, None if none serve between the targets as asked."""
        epsilon = self.case.question.epsilon
        if not self.whole or self.around is None:
            return self._settle(self.own.fewest(start, epsilon))
        served = self.own.whole(start, epsilon, self.around)
        if served is None:
            return None
        if len(served.gains) > 1:
            self.own.begin()
            self.own.harden(served.gains, epsilon, self.around)
        return self._settle(served)

    def _settle(self, selection: RegionGains) -> RegionGains:
        """Return gains of less loss between the targets, if they still serve these."""
        if self.around is None:
            return selection
        self.own.begin()
        nodes = self.own.region
        moved = self.own.between(selection, self.around)
        self.own.region = nodes
        if self.k is None and moved.worst > self.case.question.epsilon:
            return selection
        self.own.keep(moved)
        return moved


def _better(
    region: GainRegion, start: Array, stored: Array, epsilon: float, k: int | None
) -> Array:
    """Return the better of two selections: fewer gains, or a smaller loss."""
    worst = [float(region.judged(gains).min(0).max()) for gains in (start, stored)]
    if k is not None:
        return stored if worst[1] < worst[0] else start
    return stored if worst[1] <= epsilon and len(stored) <= len(start) else start


class _GainsFile:
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
        self.gains: Array | None = None
        if self.path is not None and self.path.exists():
            content = read_sealed(self.path)
            if content.get("subject") == self.subject:
                self.gains = np.array(content["gains"], np.float64)

    def keep(self, selection: RegionGains) -> None:
        """Write gains, so that a search that ends early goes on from there."""
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            content = {
                "subject": self.subject,
                "gains": selection.gains.tolist(),
                "worst": selection.worst,
            }
            write_sealed(self.path, content)
