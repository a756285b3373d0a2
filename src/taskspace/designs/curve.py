"""Loss against the number of gains: of candidates, designed, and of any design.

For each k the least worst loss that k gains were found to reach, among the candidates
and designed, and a loss below which no k gains get, whatever they are: the largest
tolerance found at which the bound over all gains is above k.
"""

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taskspace._util.arrays import Array
from taskspace._util.words import round_to_side
from taskspace.cover.base import Clock
from taskspace.designs.bound import bound_all_gains, fewer_contexts
from taskspace.designs.case import DesignCase
from taskspace.designs.search import DesignSearch
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.progress import Progress, silent
from taskspace.questions import Question
from taskspace.spaces import Space
from taskspace.systems.base import System
from taskspace.trainers.minimax import RegionGains

CURVE = "design_curve"
"""Name of the curve among the attributes of its study's table."""
# Of the time of one number: for the cover of the candidates, and for the design.
COVER_SHARE, DESIGN_SHARE = 0.1, 0.3
MOST_BOUNDED = 400
"""Contexts at which losses are bounded from below: what serves all serves these."""
# Tolerances that are tried for a bound, and where between the ends known so far.
N_TRIALS, TRIAL = 4, 0.8
ENOUGH = 0.01
"""A bound so near to what was designed, as a share of it, is not made better."""


@dataclass(frozen=True)
class CurvePoint:
    """What k gains lose at their worst target.

    Args:
        k: how many gains.
        candidates: the least that k candidates were found to lose.
        designed: the least that k designed gains were found to lose.
        lower: no k gains lose less, whatever they are.
    """

    k: int
    candidates: float
    designed: float
    lower: float


@dataclass(frozen=True, eq=False)
class DesignCurve:
    """Loss against the number of gains.

    Args:
        question: what is lost; its tolerance does not matter.
        points: ascending in k; numbers that stabilise nothing are left out.
        gains: the designed gains of each point.
        candidates: the candidates of each point.
        n_candidates: how many there are.
        seconds: wall-clock time.
        case: what was designed.
    """

    question: Question
    points: tuple[CurvePoint, ...]
    gains: tuple[Array, ...] = field(repr=False)
    candidates: tuple[Array, ...] = field(repr=False)
    n_candidates: int
    seconds: float = field(repr=False)
    case: DesignCase = field(repr=False)

    @cached_property
    def study(self) -> Study:
        """The designed gains and candidates of all points; its table has the curve."""
        study = self.case.study(*map(np.concatenate, (self.gains, self.candidates)))
        return study.with_table(study.table.assign_attrs({CURVE: self.to_dict()}))

    @property
    def sentences(self) -> list[str]:
        """What each number of gains loses, and no design less than what."""
        return [self._sentence(point) for point in self.points]

    def _sentence(self, point: CurvePoint) -> str:
        one = point.k == 1
        return (
            f"{'One gain loses' if one else f'{point.k} gains lose'} at most "
            f"{self._amount(point.designed, up=True)} (of the {self.n_candidates:,} "
            f"candidates {self._amount(point.candidates, up=True)}); no "
            f"{'gain' if one else f'{point.k} gains'} of any design lose"
            f"{'s' * one} less than {self._amount(point.lower, up=False)} everywhere."
        )

    def _amount(self, loss: float, *, up: bool) -> str:
        """Return a loss with four digits, rounded to the side on which it is true."""
        if self.question.rule.is_relative:
            return f"{round_to_side(100 * loss, up=up, digits=4)} %"
        return round_to_side(loss, up=up, digits=4)

    def to_dict(self) -> dict[str, Any]:
        """Return the curve as plain values."""
        return {
            "question": self.question.to_dict(),
            "n_candidates": self.n_candidates,
            "n_targets": self.case.targets.size,
            "points": [asdict(point) for point in self.points],
            "sentences": self.sentences,
        }

    def __repr__(self) -> str:
        """Return the curve in one line."""
        said = [f"{p.k}: {p.lower:.4g}–{p.designed:.4g}" for p in self.points]
        return f"DesignCurve({self.question.criterion} of {', '.join(said)} gains)"


def design_curve(
    problem: Study | System,
    space: Space | None = None,
    question: Question | None = None,
    *,
    most: int = 5,
    mask: ArrayLike | None = None,
    time_limit: float = 120,
    seed: int = 0,
    progress: Progress | None = None,
) -> DesignCurve:
    """Design 1, 2, … gains of least loss, and bound what any 1, 2, … gains lose.

    Args:
        problem: a study of a linear family, or the family itself.
        space: the contexts to serve; the study's targets where left out.
        question: regret, ratio or floor; its tolerance does not matter.
        most: the largest number of gains.
        mask: which entries of a gain are free; all where left out.
        time_limit: seconds for all numbers together.
        seed: of the restarts.
        progress: told what is going on.

    Example:
        >>> import taskspace as ts
        >>> space = ts.Grid(b=(0.1, 1.0, 30))
        >>> question = ts.Question("ratio", epsilon=0)
        >>> ts.designs.design_curve(
        ...     ts.systems.ScalarLqr(), space, question, most=2, time_limit=4
        ... )
        DesignCurve(ratio of 1: ..., 2: ... gains)
    """
    clock = Clock(time_limit)
    report = progress or silent
    case = DesignCase.of(problem, space, question, mask)
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise InvalidInputError(
            f"most >= 1 must hold for a number of gains, but got {most!r}."
        )
    search = DesignSearch(case.region, case.pool, case.mask, clock, seed)
    points, gains, candidates = [], [], []
    trouble = None
    for k in range(1, most + 1):
        share = clock.left / (most - k + 1)
        own = Clock(share)
        report("curve", k - 1, most, f"{k} gains")
        try:
            start, _ = case.start(k, COVER_SHARE * share, seed)
        except InvalidInputError as error:  # so few stabilise nothing
            trouble = error
            continue
        search.clock = Clock(DESIGN_SHARE * share)
        best = search.least(start)
        for fewer in gains[-1:]:
            other = search.least(search.one_more(fewer), n_restarts=0)
            best = min(best, other, key=lambda g: g.worst)
        lower, best = _lower(case, search, best, own)
        if points:
            lower = min(lower, points[-1].lower)
        of_candidates = float(case.region.judged(start).min(0).max())
        points.append(CurvePoint(k, of_candidates, best.worst, lower))
        gains.append(best.gains)
        candidates.append(start)
    if not points and trouble is not None:
        raise trouble
    report("curve", most, most)
    return DesignCurve(
        case.question.at(0.0),
        tuple(points),
        tuple(gains),
        tuple(candidates),
        len(case.pool),
        clock.seconds,
        case,
    )


def _lower(
    case: DesignCase, search: DesignSearch, best: RegionGains, clock: Clock
) -> tuple[float, RegionGains]:
    """Return a loss that no gains of this number get below, and the best gains."""
    k, some = len(best.gains), fewer_contexts(case.nodes, MOST_BOUNDED)
    low, high = _least_alone(case), best.worst
    for _ in range(N_TRIALS):
        if clock.left <= 0 or high - low <= ENOUGH * abs(high):
            break
        epsilon = low + TRIAL * (high - low)
        bound = bound_all_gains(
            case.system,
            some,
            case.question.at(epsilon),
            mask=case.mask,
            goal=k + 1,
            time_limit=clock.left / 2,
        )
        if bound.value > k:
            low = epsilon
            continue
        high = epsilon
        if bound.smaller is not None and len(bound.smaller) <= k:
            # On its way the bound met gains that lose less at its contexts.
            search.clock = Clock(clock.left / 2)
            other = search.least(bound.smaller, n_restarts=0)
            best = min(best, other, key=lambda g: g.worst)
    return low, best


def _least_alone(case: DesignCase) -> float:
    """Return what the worst context loses by the gain that is optimal there."""
    if case.question.criterion != "floor":
        return 0.0
    optimum = case.system.optimum(case.system.contexts(case.nodes))
    return -np.inf if optimum is None else float((-optimum).max())
