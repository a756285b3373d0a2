"""A whole covering problem and its answers: a study under a question, or a file."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from taskspace.cover.answer import CoverAnswer, source_names, target_names
from taskspace.cover.base import Clock, Cover, make_cover
from taskspace.cover.costs import scale_costs
from taskspace.cover.files import SetCoverProblem
from taskspace.cover.methods.catalogue import find_cover
from taskspace.cover.methods.greedy import greedy_cover
from taskspace.cover.methods.mean import least_mean
from taskspace.cover.problem import losses_of
from taskspace.cover.tolerance.budget import (
    SmallestEpsilon,
    settle_ties,
    smallest_epsilon,
)
from taskspace.errors import InvalidInputError
from taskspace.performance.study import Study
from taskspace.progress import Progress
from taskspace.questions import Question
from taskspace.sets import TargetSets

__all__ = ["CoverProblem", "cover_within", "mean_within", "smallest_tolerance"]


@dataclass(frozen=True, eq=False)
class CoverProblem:
    """What is to be covered.

    Args:
        study: what is known; None for a set-cover file.
        question: what is asked of the study; None for a set-cover file.
        file: the set-cover file, if it is one.
        costs: cost of each source, None where all are 1.
        weights: weight of each target, likewise.
    """

    study: Study | None = None
    question: Question | None = None
    file: SetCoverProblem | None = None
    costs: NDArray[np.float64] | None = None
    weights: NDArray[np.float64] | None = None

    @cached_property
    def sets(self) -> TargetSets:
        """The targets that each source serves."""
        if self.study is not None and self.question is not None:
            return self.question.sets(self.study)
        assert self.file is not None
        return self.file.sets

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of the grid of sources, None where they are on none."""
        return None if self.study is None else self.study.shape

    @property
    def n_sources(self) -> int:
        """How many sources there are."""
        return self.sets.n_sources if self.study is None else self.study.n_sources

    @property
    def n_targets(self) -> int:
        """How many targets there are."""
        return self.sets.n_targets if self.study is None else self.study.n_targets

    @property
    def source_names(self) -> list[str] | None:
        """Names of the sources, None where they have none."""
        return None if self.study is None else source_names(self.study.table)

    @property
    def target_names(self) -> list[str] | None:
        """Names of the targets, None where they have none."""
        return None if self.study is None else target_names(self.study.table)

    @property
    def notes(self) -> list[str]:
        """What a person should know before any number."""
        return [] if self.study is None else self.study.notes

    def find_cover(
        self,
        method: str,
        *,
        include: Sequence[int] = (),
        exclude: Sequence[int] = (),
        share: float | None = None,
        budget: int | None = None,
        time_limit: float = 60.0,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Cover:
        """Return a cover; of minimum covers of a study one of least worst loss.

        Args:
            method: one of `METHODS`.
            include: sources that must be in.
            exclude: sources that must not be.
            share: share of the targets that is enough, for `greedy` and `minimum`.
            budget: sources to take at most, likewise.
            time_limit: seconds.
            seed: of the random choices.
            progress: called now and then by searches.
        """
        clock = Clock(time_limit)
        cover = find_cover(
            self.sets,
            method=method,
            shape=self.shape,
            costs=self.costs,
            target_weights=self.weights,
            share=share,
            budget=budget,
            include=include,
            exclude=exclude,
            time_limit=time_limit,
            seed=seed,
            progress=progress,
        )
        if method != "minimum" or self.costs is not None:  # else each costs 1
            return cover
        if self.study is None or self.question is None:
            return cover
        return settle_ties(
            cover, self.study, self.question, time_limit=clock.left / 4, seed=seed
        )

    def answer(self, cover: Cover) -> CoverAnswer:
        """Return a cover with what it leaves, where that can be said.

        Args:
            cover: of this problem.
        """
        if self.study is None:
            return CoverAnswer(cover)
        return CoverAnswer.of(cover, self.study)

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


def smallest_tolerance(
    study: Study,
    question: Question,
    budget: int,
    *,
    include: Sequence[int] = (),
    exclude: Sequence[int] = (),
    leave_out: bool = False,
    time_limit: float = 60.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> SmallestEpsilon:
    """Return the smallest tolerance that the criterion allows and a budget meets.

    Args:
        study: what is known.
        question: criterion and judge; its tolerance does not matter.
        budget: number of sources.
        include: sources that must be selected.
        exclude: sources that must not be.
        leave_out: answer for the targets that some source serves at a finite loss.
        time_limit: seconds.
        seed: of the random choices.
        progress: called after each tolerance that was tried.
    """
    losses = losses_of(study, question)
    allowed = np.delete(losses.values, list(exclude), axis=0)
    alone = np.flatnonzero(~np.isfinite(allowed).any(0))
    if leave_out and len(alone):
        losses = losses.isel(target=np.setdiff1d(np.arange(allowed.shape[1]), alone))
    least = smallest_epsilon(
        losses,
        budget,
        include=include,
        exclude=exclude,
        time_limit=time_limit,
        seed=seed,
        progress=progress,
    )
    if leave_out:
        least = replace(least, left_out=tuple(alone.tolist()))
    if least.upper < np.inf:
        return least
    if not least.is_impossible:
        raise InvalidInputError(
            f"{least.statement} Give more time than {time_limit:g} s with --time-limit."
        )
    names = target_names(study.table)
    reason = ""
    if len(alone) and not leave_out:
        target = names[alone[0]] if names else alone[0]
        more = f" (nor have {len(alone) - 1} more)" if len(alone) > 1 else ""
        reason = f"target {target} has no source of finite loss{more}"
    raise InvalidInputError(
        f"{least.say(reason=reason)} Leave such targets out with leave_out=True "
        "(--unservable leave-out), or give a tolerance (--epsilon): then a budget "
        "serves as many targets as it can."
    )


def mean_within(
    problem: CoverProblem,
    budget: int,
    *,
    epsilon: float | None = None,
    include: Sequence[int] = (),
    exclude: Sequence[int] = (),
    leave_out: bool = False,
    time_limit: float = 60.0,
    progress: Progress | None = None,
) -> Cover:
    """Return the sources of a budget whose mean loss is least, of a study.

    Args:
        problem: a study under a question; its weights count.
        budget: number of sources.
        epsilon: no target may lose more than this; None for no limit.
        include: sources that must be selected.
        exclude: sources that must not be.
        leave_out: take the mean over the targets that some source serves.
        time_limit: seconds.
        progress: called with the bounds of the least mean.
    """
    assert problem.study is not None
    assert problem.question is not None
    cover = least_mean(
        problem.question.losses(problem.study),
        budget,
        epsilon=epsilon,
        target_weights=problem.weights,
        include=include,
        exclude=exclude,
        leave_out=leave_out,
        time_limit=time_limit,
        progress=progress,
    )
    assert cover.question is not None
    return replace(cover, question=problem.question.at(cover.question.epsilon))


def cover_within(
    least: SmallestEpsilon,
    study: Study,
    question: Question,
    *,
    include: Sequence[int] = (),
    exclude: Sequence[int] = (),
) -> Cover:
    """Return the selection of a smallest tolerance as a cover at that tolerance.

    Args:
        least: the smallest tolerance.
        study: what is known.
        question: at that tolerance.
        include: sources that had to be selected.
        exclude: sources that had to be left out.
    """
    sets = question.sets(study)
    greedy = greedy_cover(sets, include=include, exclude=exclude)
    cover = make_cover(
        "budget",
        sets,
        least.sources,
        costs=scale_costs(None, sets.n_sources),
        lower_bound=int(greedy.lower_bound),
        lower_bound_kind=greedy.lower_bound_kind,
        stop_reason="covered",
        clock=Clock(),
        prices=greedy.prices,
        restrictions=greedy.restrictions,
    )
    return replace(cover, seconds=least.seconds)
