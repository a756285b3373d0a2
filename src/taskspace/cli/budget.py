"""`--budget` without `--epsilon`: the smallest tolerance that so many sources meet."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from taskspace.cli.output import search_progress
from taskspace.cover import Cover, SmallestEpsilon, greedy_cover, smallest_epsilon
from taskspace.cover.answer import target_names
from taskspace.cover.base import Clock, make_cover
from taskspace.cover.costs import scale_costs
from taskspace.errors import InvalidInputError
from taskspace.progress import Progress
from taskspace.questions import Question

__all__ = ["cover_at", "smallest", "smallest_record"]


def smallest(
    table: xr.Dataset,
    question: Question,
    budget: int,
    *,
    include: Sequence[int] = (),
    exclude: Sequence[int] = (),
    time_limit: float,
    seed: int,
    report: Progress,
) -> SmallestEpsilon:
    """The smallest tolerance that the criterion allows and a budget meets.

    Args:
        table: a performance table.
        question: criterion and judge; its tolerance does not matter.
        budget: number of sources.
        include: sources that must be selected.
        exclude: sources that must not be.
        time_limit: seconds.
        seed: of the random choices.
        report: told about progress.
    """
    losses = question.losses(table)
    if not question.rule.allows_negative_epsilon:
        losses = losses.clip(min=0.0)
    found = smallest_epsilon(
        losses,
        budget,
        include=include,
        exclude=exclude,
        time_limit=time_limit,
        seed=seed,
        progress=search_progress(report, time_limit, "ε in [{:.4g}, {:.4g}]"),
    )
    if found.upper < np.inf:
        return found
    if not found.is_impossible:
        raise InvalidInputError(
            f"{found.statement} Give more time than {time_limit:g} s with --time-limit."
        )
    allowed = np.delete(losses.values, list(exclude), axis=0)
    alone = np.flatnonzero(~np.isfinite(allowed).any(0))
    names = target_names(table)
    reason = ""
    if len(alone):
        target = names[alone[0]] if names else alone[0]
        reason = f"target {target} has no source of finite loss"
    raise InvalidInputError(
        f"{found.say(reason=reason)} With --epsilon a budget serves as many targets as "
        "it can."
    )


def cover_at(
    found: SmallestEpsilon, question: Question, table: xr.Dataset, **limits: Any
) -> Cover:
    """The selection of a smallest tolerance as a cover at that tolerance.

    Args:
        found: the smallest tolerance.
        question: at that tolerance.
        table: the table.
        **limits: sources that must be in or out.
    """
    sets = question.sets(table)
    greedy = greedy_cover(sets, **limits)
    cover = make_cover(
        "budget",
        sets,
        found.sources,
        costs=scale_costs(None, sets.n_sources),
        lower_bound=int(greedy.lower_bound),
        lower_bound_kind=greedy.lower_bound_kind,
        stop_reason="covered",
        clock=Clock(),
        prices=greedy.prices,
        restrictions=greedy.restrictions,
    )
    return replace(cover, seconds=found.seconds)


def smallest_record(found: SmallestEpsilon) -> dict[str, Any]:
    """What programs need to know of a smallest tolerance.

    Args:
        found: the smallest tolerance.
    """
    return {
        "budget": found.budget,
        "lower": found.lower,
        "upper": found.upper,
        "optimal": found.optimal,
        "sources": list(found.sources),
    }
