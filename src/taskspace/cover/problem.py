"""A covering problem, whole and checked, as every method takes it.

A restricted problem is a smaller problem: the sources that must be in are taken, those
that must not be are left out, and the free ones serve what is still needed. A bound on
what these cost, and the cost of those taken, bound every restricted selection.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util.clock import Clock
from taskspace.cover.costs import (
    Costs,
    Exact,
    exact_weights,
    round_down,
    scale_costs,
    total_cost,
)
from taskspace.cover.cover import Cover, assign, names_of
from taskspace.cover.reductions import Core
from taskspace.errors import InvalidInputError
from taskspace.measured import coarse_sentence
from taskspace.performance.study import Study
from taskspace.questions import Question, as_question
from taskspace.sets import TargetSets
from taskspace.systems.episodic import EpisodicSystem

__all__ = [
    "CoverProblem",
    "check_budget",
    "grid_shape",
    "losses_of",
    "restrict",
    "sets_of",
]

Sources = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CoverProblem:
    """A covering problem: the targets of a study under a question, or given sets.

    Args:
        data: a study, or the targets that each source serves.
        question: what is asked of a study, or its text.
        costs: cost of each source, `> 0`; all 1 where not given.
        target_weights: weight of each target, `>= 0`; all 1 where not given.
        share: share of all target weight that is enough, from 0 to 1; None for all
            that can be served.
        budget: sources at most, `>= 0`; None for any number.
        include: sources that must be selected; kept ascending.
        exclude: sources that must not be; kept ascending.
    """

    data: Study | TargetSets
    question: Any = None
    costs: ArrayLike | None = None
    target_weights: ArrayLike | None = None
    share: float | None = None
    budget: int | None = None
    include: Any = ()
    exclude: Any = ()

    def __post_init__(self):
        if isinstance(self.data, Study):
            asked = as_question(self.question, needs_bound=False)
            object.__setattr__(self, "question", asked)
        else:
            _ = self.sets  # refuses what are no sets
        _ = self.scaled_costs  # refuses what are no costs
        if self.share is not None and not 0 <= self.share <= 1:
            raise InvalidInputError(
                f"0 <= share <= 1 must hold, but got share={self.share}."
            )
        limits = restrict(self.data.n_sources, self.include, self.exclude)
        if self.budget is not None:
            check_budget(self.budget, limits[0], least=0)
        for name, sources in zip(("include", "exclude"), limits, strict=True):
            object.__setattr__(self, name, sources)

    @cached_property
    def sets(self) -> TargetSets:
        """The targets that each source serves."""
        return sets_of(self.data, self.question)

    @cached_property
    def scaled_costs(self) -> Costs:
        """Costs of the sources, so that no answer depends on their unit."""
        return scale_costs(self.costs, self.data.n_sources)

    @property
    def study(self) -> Study:
        """The study that is asked."""
        assert isinstance(self.data, Study)
        return self.data

    @property
    def source_names(self) -> list[str] | None:
        """Names of the sources, None where they have none."""
        return names_of(self.study.table, "source")

    @property
    def target_names(self) -> list[str] | None:
        """Names of the targets, None where they have none."""
        return names_of(self.study.table, "target")

    @property
    def notes(self) -> list[str]:
        """What a person should know before any number."""
        coarse = coarse_sentence(self.question.error, self.study.targets)
        level = level_sentence(self.study, self.question)
        return [*self.study.notes, *filter(None, [coarse, level])]

    # --- sources ------------------------------------------------------------------

    @cached_property
    def free(self) -> Sources:
        """Sources that may be selected and need not be."""
        decided = np.concatenate([self.include, self.exclude])
        return np.setdiff1d(np.arange(self.sets.n_sources), decided)

    @cached_property
    def free_sets(self) -> TargetSets:
        """What the free sources serve, of all targets."""
        is_whole = len(self.free) == self.sets.n_sources
        return self.sets if is_whole else self.sets.subset(self.free)

    @property
    def free_costs(self) -> NDArray[np.float64]:
        """Costs of the free sources, scaled."""
        return self.scaled_costs.values[self.free]

    @property
    def included_cost(self) -> Exact:
        """Scaled cost of the included sources."""
        return total_cost(self.scaled_costs.values, self.include)

    def selection(self, free: Sources) -> Sources:
        """Return a whole selection, ascending.

        Args:
            free: its free sources, by their places among these.
        """
        return np.sort(np.append(self.include, self.free[free]))

    # --- targets ------------------------------------------------------------------

    @cached_property
    def included_targets(self) -> NDArray[np.bool_]:
        """Targets that included sources serve."""
        return self.sets.union(self.include)

    @property
    def open_targets(self) -> NDArray[np.bool_]:
        """Targets that free sources have to serve."""
        counts = self.free_sets.coverable & ~self.included_targets
        return counts & (self.weights > 0)

    @property
    def core(self) -> Core:
        """What the free sources have to decide, under the numbers of this problem."""
        targets = np.arange(self.sets.n_targets)
        core = Core(self.free_sets, self.free_costs, self.free, targets)
        return core.keep(targets=self.open_targets)

    @cached_property
    def weights(self) -> NDArray[Any]:
        """Weights of all targets, integers in some unit."""
        return exact_weights(self.target_weights, self.sets.n_targets)

    @cached_property
    def open_weights(self) -> NDArray[Any]:
        """Weights of all targets, 0 where a source serves that must be in."""
        return np.where(self.included_targets, 0, self.weights)

    @cached_property
    def total(self) -> int:
        """Weight of all targets."""
        return int(self.weights.sum())

    @cached_property
    def included_weight(self) -> int:
        """Weight of the targets that included sources serve."""
        return self.total - int(self.open_weights.sum())

    @cached_property
    def servable(self) -> int:
        """Weight that free sources can serve and included ones do not."""
        return int(self.open_weights[self.free_sets.coverable].sum())

    @property
    def required_weight(self) -> int:
        """Weight that must be served."""
        share = 1.0 if self.share is None else self.share
        if share == 1:
            return self.total
        # Relative to the share's own rounding: 0.3 of 10 targets are 3 of them, not 4.
        return math.ceil(Fraction(share) * (1 - Fraction(1, 2**50)) * self.total)

    def served(self, free: Sources) -> int:
        """Return the weight that free sources serve, by their places among these.

        Args:
            free: places of the sources.
        """
        return int(self.open_weights[self.free_sets.union(free)].sum())

    def missed_share(self, served: int) -> float | None:
        """Return the share that was asked for if less is served, else None.

        Args:
            served: weight of the targets that are served.
        """
        return self.share if served < self.required_weight else None

    # --- the answer ---------------------------------------------------------------

    def cover(
        self,
        method: str,
        sources: ArrayLike,
        *,
        lower_bound: Exact,
        lower_bound_kind: str,
        stop_reason: str,
        clock: Clock | None = None,
        most: Fraction | None = None,
        **claims: Any,
    ) -> Cover:
        """Return a cover, with everything that follows from its sources.

        Args:
            method: name of the method.
            sources: the selection.
            lower_bound: in scaled cost, without rounding.
            lower_bound_kind: where it comes from.
            stop_reason: why the method stopped.
            clock: since when it ran; its time is 0 without one.
            most: no selection within the budget serves a larger share; None where
                no budget ended the search.
            claims: other fields of the cover.
        """
        sets, sources = self.sets, np.asarray(sources, np.int64).reshape(-1)
        assignment = assign(sets, sources)
        n_served = int((assignment >= 0).sum())
        cost = total_cost(self.scaled_costs.values, sources)
        fields: dict[str, Any] = {
            "method": method,
            "sources": sources,
            "assignment": assignment,
            "coverage": n_served / sets.n_targets if sets.n_targets else 1.0,
            "uncoverable": np.flatnonzero(
                ~(self.free_sets.coverable | self.included_targets)
            ),
            "size": len(sources),
            "cost": self.scaled_costs.in_unit(cost),
            "lower_bound": self.scaled_costs.in_unit(min(lower_bound, cost)),
            "lower_bound_kind": lower_bound_kind,
            "optimal": bool(lower_bound >= cost),
            "stop_reason": stop_reason,
            "seconds": 0.0 if clock is None else clock.seconds,
            "n_sources": sets.n_sources,
            "n_targets": sets.n_targets,
            "include": self.include,
            "exclude": self.exclude,
            "question": sets.question,
        }
        if isinstance(self.data, Study):
            fields["provenance"] = self.question.provenance_of(self.data)
            fields["notes"] = tuple(self.notes) or None
        if self.target_weights is not None:
            weights = np.asarray(self.target_weights, np.float64)
            total, served = weights.sum(), weights[assignment >= 0].sum()
            fields["weight_coverage"] = float(served / total) if total else 1.0
        fields |= claims
        if most is not None:
            is_plain = self.target_weights is None and fields["optimal"]
            # Rounded up, unless it is the coverage itself.
            up = fields["coverage"] if is_plain else abs(round_down(-most))
            fields["coverage_bound"] = up
        return Cover(**fields)


def sets_of(problem: Study | TargetSets, question: Question | str | None) -> TargetSets:
    """Return the tolerance sets of a study under a question, or given sets as they are.

    Args:
        problem: a study, or the targets that each source serves.
        question: what is asked of a study; None beside given sets.
    """
    if isinstance(problem, Study):
        return as_question(question).sets(problem)
    if question is not None:
        raise InvalidInputError(
            "Tolerance sets have a question in them already, but got another one: "
            f"{question}. Give a study, or the sets alone."
        )
    if not isinstance(problem, TargetSets):
        raise InvalidInputError(
            "This needs a study and a question, or tolerance sets "
            "(ts.tolerance_sets(losses, epsilon=...), or "
            "ts.sets.pack(matrix) of what each source serves), but "
            f"got {type(problem).__name__}."
        )
    return problem


def losses_of(problem: Study | Any, question: Question | str | None) -> Any:
    """Return the losses of a study under a question, or a given matrix as it is.

    Args:
        problem: a study, whose losses are at least 0 where a tolerance is; or a loss
            matrix `(source, target)`.
        question: what is asked of a study; None beside a matrix.
    """
    if isinstance(problem, Study):
        asked = as_question(question, needs_bound=False)
        losses = asked.losses(problem)
        return losses if asked.rule.allows_negative_epsilon else losses.clip(min=0.0)
    if question is not None:
        raise InvalidInputError(
            f"A loss matrix has a question in it already, but got another one: "
            f"{question}. Give a study, or the matrix alone."
        )
    return problem


def grid_shape(
    problem: Study | TargetSets, shape: Sequence[int] | None
) -> Sequence[int]:
    """Return the points on each axis of the grid of sources.

    Args:
        problem: a study, which knows its own, or tolerance sets.
        shape: what the user says.
    """
    if shape is None and isinstance(problem, Study):
        shape = problem.shape
    if shape is None:
        raise InvalidInputError(
            "A uniform selection needs sources on a grid, but these are a plain list. "
            "Give the points on each axis, e.g. shape=(20, 20), or use greedy, local, "
            "minimum or random."
        )
    return shape


def restrict(
    n_sources: int, include: ArrayLike, exclude: ArrayLike
) -> tuple[Sources, Sources]:
    """Return the sources that must be in and those that must not, ascending, checked.

    Args:
        n_sources: number of sources.
        include: sources that must be selected.
        exclude: sources that must not be.
    """
    checked = []
    for name, sources in (("include", include), ("exclude", exclude)):
        raw = np.asarray(sources)
        if raw.size and (raw.ndim != 1 or raw.dtype.kind not in "iu"):
            raise InvalidInputError(
                f"{name} must be a list of sources, which are integers, but got an "
                f"array of type {raw.dtype} and shape {raw.shape}."
            )
        array = np.unique(raw.astype(np.int64).reshape(-1))
        if array.size and not (array[0] >= 0 and array[-1] < n_sources):
            raise InvalidInputError(
                f"0 <= source < {n_sources} must hold for every source of {name}, "
                f"but got values from {array[0]} to {array[-1]}."
            )
        checked.append(array)
    both = np.intersect1d(*checked)
    if both.size:
        raise InvalidInputError(
            f"A source is either in or out, but source {both[0]} is in include and in "
            "exclude."
        )
    return checked[0], checked[1]


def check_budget(budget: int, include: Sources, *, least: int) -> None:
    """Refuse a budget that is too small.

    Args:
        budget: number of sources.
        include: sources that must be selected.
        least: the smallest number that has a meaning.
    """
    if budget < max(least, len(include)):
        raise InvalidInputError(
            f"budget >= {least} must hold and include must fit into it, but got "
            f"budget={budget} and {len(include)} sources that must be in."
        )


def level_sentence(study: Study, question: Question) -> str:
    """Return a sentence if every policy, or no policy, can reach a level that is asked.

    Args:
        study: whose system may know the least and the largest return of an episode.
        question: what is asked.
    """
    system, targets = study.system, study.targets
    if not isinstance(system, EpisodicSystem) or targets is None:
        return ""
    bounds = system.return_bounds(system.contexts(targets))
    if bounds is None:
        return ""
    for demand in question.demands:
        is_level = demand.rule.is_absolute and demand.measure == "performance"
        if not is_level or demand.epsilon is None:
            continue
        level, low, high = -demand.epsilon, bounds[:, 0].min(), bounds[:, 1].max()
        if level > high:
            return (
                f"No policy can reach {demand}: the return of an episode is at most "
                f"{high:g}."
            )
        if level <= low:
            return (
                f"Every policy reaches {demand}: the return of an episode is at least "
                f"{low:g}."
            )
    return ""
