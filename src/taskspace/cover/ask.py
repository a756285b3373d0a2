"""A whole covering problem and its answers: a study under a question."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.clock import Clock
from taskspace.cover.answer import source_names, target_names
from taskspace.cover.cover import Cover
from taskspace.cover.greedy import cover_greedily
from taskspace.cover.mean import least_mean
from taskspace.cover.methods import find_cover
from taskspace.cover.problem import Instance, losses_of
from taskspace.cover.tolerance import (
    SmallestEpsilon,
    settle_ties,
    smallest_epsilon,
)
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.progress import Progress
from taskspace.questions import Question
from taskspace.sets import TargetSets
from taskspace.sets.erosion import coarse_sentence
from taskspace.systems.episodic import EpisodicSystem

__all__ = ["CoverProblem"]


@dataclass(frozen=True, eq=False)
class CoverProblem:
    """What is to be covered.

    Args:
        study: what is known.
        question: what is asked of the study.
        costs: cost of each source, None where all are 1.
        weights: weight of each target, likewise.
        include: sources that must be selected.
        exclude: sources that must not be.
    """

    study: Study
    question: Question
    costs: NDArray[np.float64] | None = None
    weights: NDArray[np.float64] | None = None
    include: Sequence[int] = ()
    exclude: Sequence[int] = ()

    @cached_property
    def sets(self) -> TargetSets:
        """The targets that each source serves."""
        return self.question.sets(self.study)

    @property
    def source_names(self) -> list[str] | None:
        """Names of the sources, None where they have none."""
        return source_names(self.study.table)

    @property
    def target_names(self) -> list[str] | None:
        """Names of the targets, None where they have none."""
        return target_names(self.study.table)

    @property
    def notes(self) -> list[str]:
        """What a person should know before any number."""
        coarse = coarse_sentence(self.question.error, self.study.targets)
        level = level_sentence(self.study, self.question)
        return [*self.study.notes, *filter(None, [coarse, level])]

    def find_cover(
        self, method: str, *, time_limit: float = 60.0, seed: int = 0, **options: Any
    ) -> Cover:
        """Return a cover; of minimum covers of a study one of least worst loss.

        Args:
            method: one of `METHODS`.
            time_limit: processor seconds.
            seed: of the random choices.
            options: `share`, `budget` and `progress`, as the method takes them.
        """
        sets = self.sets
        clock = Clock(time_limit)
        cover = find_cover(
            sets,
            method=method,
            shape=self.study.shape,
            costs=self.costs,
            target_weights=self.weights,
            include=self.include,
            exclude=self.exclude,
            time_limit=time_limit,
            seed=seed,
            **options,
        )
        if method != "minimum" or self.costs is not None:  # else each costs 1
            return cover
        return settle_ties(
            cover, self.study, self.question, time_limit=clock.left, seed=seed
        )

    def smallest_tolerance(
        self,
        budget: int,
        *,
        time_limit: float = 60.0,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> SmallestEpsilon:
        """Return the smallest tolerance that a budget meets.

        It is about the targets that some source serves at a finite loss.

        Args:
            budget: number of sources.
            time_limit: processor seconds.
            seed: of the random choices.
            progress: called after each tolerance that was tried.
        """
        losses = losses_of(self.study, self.question)
        allowed = np.delete(losses.values, list(self.exclude), axis=0)
        alone = np.flatnonzero(~np.isfinite(allowed).any(0))
        if len(alone):
            served = np.setdiff1d(np.arange(allowed.shape[1]), alone)
            losses = losses.isel(target=served)
        least = smallest_epsilon(
            losses,
            budget,
            include=self.include,
            exclude=self.exclude,
            time_limit=time_limit,
            seed=seed,
            progress=progress,
        )
        if least.upper < np.inf:
            return replace(least, left_out=tuple(alone.tolist()))
        if not least.is_impossible:
            raise InvalidInputError(
                f"{least.statement} Give more time than {time_limit:g} s with "
                "--time-limit."
            )
        raise InvalidInputError(
            f"{least.statement} Ask with a bound: then a budget serves as many targets "
            "as it can."
        )

    def cover_within(self, least: SmallestEpsilon) -> Cover:
        """Return the selection of a smallest tolerance as a cover at that tolerance.

        Args:
            least: the smallest tolerance.
        """
        instance = Instance.of(
            self.study,
            self.question.at(least.upper),
            include=self.include,
            exclude=self.exclude,
        )
        greedy = cover_greedily(instance)
        return instance.cover(
            "budget",
            least.sources,
            lower_bound=int(greedy.lower_bound),
            lower_bound_kind=greedy.lower_bound_kind,
            stop_reason="covered",
            clock=Clock(),
            prices=greedy.prices,
            seconds=least.seconds,
        )

    def least_mean(self, budget: int, **options: Any) -> Cover:
        """Return the sources of a budget whose mean loss is least.

        Args:
            budget: number of sources.
            options: `epsilon`, `leave_out`, `time_limit`, `progress`: see `least_mean`.
        """
        cover = least_mean(
            self.question.losses(self.study),
            budget,
            target_weights=self.weights,
            include=self.include,
            exclude=self.exclude,
            **options,
        )
        assert cover.question is not None
        return replace(cover, question=self.question.at(cover.question.epsilon))

    def served_weight(self, cover: Cover) -> float | None:
        """Return the share of the targets' weight that is served, None without weights.

        Args:
            cover: of this problem.
        """
        if self.weights is None:
            return None
        total = self.weights.sum()
        served = self.weights[cover.assignment >= 0].sum()
        return float(served / total) if total else 1.0


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
