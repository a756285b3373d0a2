"""A pilot: sources that are worth it are played in more episodes before a choice.

Where a table is noisier than ε, a cover of it is a choice among lucky numbers. Then a
pilot plays some sources at every target in more episodes, and the cover is chosen on
these. Three sets of episodes, none of which meets another's choice: those of the table,
those of the pilot, and the fresh ones that judge.
"""

from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace._util.clock import Clock
from taskspace.cover import least_cover, minimum_cover
from taskspace.errors import InvalidInputError
from taskspace.performance import make_table, source_space, target_space
from taskspace.policies import Policy
from taskspace.progress import Progress
from taskspace.questions import Question
from taskspace.sets import pack
from taskspace.spaces import Points, Space
from taskspace.systems.episodic import (
    FIRST_FRESH,
    EpisodicSystem,
    standard_error,
)


class Pilot(NamedTuple):
    """A few sources of a table, played in more episodes.

    Args:
        sources: which ones, as rows of the table that they were taken from.
        table: their performance table, over the new episodes alone. `best_known` is
            that of the first table, so losses are against the same numbers.
    """

    sources: NDArray[np.int64]
    table: xr.Dataset


def both_sides(table: xr.Dataset) -> tuple[Space, Space]:
    """Return the contexts of the sources and of the targets.

    Args:
        table: a performance table.
    """
    sources, targets = source_space(table), target_space(table)
    if sources is None or targets is None:
        raise InvalidInputError("Playing again needs the contexts of both sides.")
    return sources, targets


def shortlist(table: xr.Dataset, question: Question, n: int) -> NDArray[np.int64]:
    """Return sources that are worth a pilot: those of one cover after another.

    A greedy cover of the table, then one of the sources that are left, and so on;
    of sources that serve as many open targets, the one that serves most of all.

    Args:
        table: a performance table.
        question: what the covers answer.
        n: how many sources, if there are as many.

    Returns:
        Rows of the table, ascending.
    """
    if n < 1:
        raise InvalidInputError(f"A shortlist needs n >= 1 sources, but got n={n}.")
    parts = [block <= question.epsilon for _, block in question.blocks(table)]
    served = np.concatenate(parts)
    total = served.sum(1)
    free = np.ones(len(served), np.bool_)
    chosen: list[int] = []
    is_open = np.zeros(served.shape[1], np.bool_)
    while len(chosen) < min(n, len(served)):
        if not is_open.any():  # a new cover, of what the free sources can serve
            is_open = served[free].any(0)
        gain = np.where(free, served[:, is_open].sum(1), -1)
        best = int(np.lexsort((-total, -gain))[0])
        chosen.append(best)
        free[best] = False
        is_open &= ~served[best]
        is_open &= served[free].any(0)
    return np.array(sorted(chosen), np.int64)


def play_pilot(
    table: xr.Dataset,
    question: Question,
    system: EpisodicSystem,
    policies: Policy,
    *,
    n_sources: int = 16,
    n_episodes: int = 256,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> Pilot:
    """Play a shortlist of sources at every target, in episodes that are new.

    Args:
        table: the table that says which sources are worth it.
        question: what a cover is to answer.
        system: the tasks.
        policies: the stack that the table was made with.
        n_sources: length of the shortlist.
        n_episodes: for each policy at each target; enough that the standard error is
            well below ε.
        time_limit: wall-clock seconds after which no source is begun; the first is
            always played.
        progress: told how many sources were played.
    """
    clock = Clock(time_limit, on_wall=True)
    sources, targets = both_sides(table)
    seen = table.attrs.get("first_episode", 0) + table.attrs.get("n_episodes", 0)
    first = max(system.n_episodes, int(seen))
    if n_episodes < 2 or first + n_episodes > FIRST_FRESH:
        raise InvalidInputError(
            f"2 <= n_episodes <= {FIRST_FRESH - first} must hold for a pilot, but "
            f"got n_episodes={n_episodes}."
        )
    episodes = range(first, first + n_episodes)
    rows, own = system.contexts(targets), system.contexts(sources)
    short = shortlist(table, question, n_sources)
    means, errors, homes = [], [], []
    for number, source in enumerate(short.tolist()):
        if number and clock.left <= 0:
            break
        if progress is not None:
            progress("pilot", number, len(short))
        stack = policies[source : source + 1]
        returns = system.returns(stack, rows, episodes=episodes)[0]
        means.append(returns.mean(-1, dtype=np.float64))
        errors.append(standard_error(returns))
        home = system.returns(stack, own[source : source + 1], episodes=episodes)
        homes.append(home[0, :, 0].mean(-1, dtype=np.float64))
    short = short[: len(means)]
    variables = {
        "performance": np.stack(means),
        "standard_error": np.stack(errors),
        "home_performance": np.stack(homes),
        "best_known": table["best_known"].values,
    }
    notes = {
        "provenance": "sampled",
        "n_episodes": n_episodes,
        "first_episode": first,
        "best_known_kind": table.attrs.get("best_known_kind", "best of the table"),
    }
    chosen = Points(sources.names, sources.points[short])
    return Pilot(short, make_table(variables, chosen, targets, notes))


def least_assignment(table: xr.Dataset, question: Question) -> NDArray[np.int64]:
    """Assign targets to a cover of the fewest sources that loses least.

    The largest loss that it leaves is the smallest that this number of sources can
    leave, at the targets that some source serves. Every target has a source, also
    where none serves: the selected one of least loss.

    Args:
        table: a small performance table.
        question: what the cover answers.

    Returns:
        Row of each target.
    """
    losses = question.losses(table).values
    can = (losses <= question.epsilon).any(0)
    if not can.any():
        return losses.argmin(0)
    inner = losses[:, can]
    cover = minimum_cover(pack(inner <= question.epsilon))
    selected = np.sort(least_cover(cover, inner).sources)
    return selected[losses[selected].argmin(0)]
