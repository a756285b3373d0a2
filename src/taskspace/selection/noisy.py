"""What to train next where trainings are luck: at a point, or on a region.

Two ways to go on compete. *Points*: the uncovered context farthest from all sources,
again with another seed once all were tried. *Regions*: one policy for everything that
is uncovered, in slices of the trainer's budget that double, or the last such policy
trained further. What each way gave so far says what it will give: newly covered targets
per environment step, a policy kept counting as so many steps too.

Neither way can be trusted before it was tried, so no way may spend much more than the
other: the total is at most about three times what the better of the two would take
alone, if a policy of the one never hinders the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["FIRST_SLICE", "LIMIT", "Kind", "Trial", "choose_kind", "slice_steps"]

Kind = Literal["region", "continue", "point", "retry"]
"""A policy for all that is uncovered, from nothing; the last of these trained further;
one for an uncovered context; one for a context that was tried before."""

SIDES: dict[Kind, str] = {
    "region": "regions",
    "continue": "regions",
    "point": "points",
    "retry": "points",
}

LIMIT = 2.0
"""How often what the other way has spent a way may spend."""

IMAGINED = {"regions": 0.9, "points": 0.5}
"""Share of the uncovered that one training covers, before any was seen: what is trained
on all of them may well serve all, but one failure is enough to try the other way."""

FIRST_SLICE = 0.25
"""Part of the trainer's budget that the first training on a region may take."""


@dataclass(frozen=True)
class Trial:
    """What a training gave.

    Args:
        kind: what was trained.
        aimed: targets that were uncovered when it began.
        new: how many of them it covered.
        steps: environment steps that it took.
        goes_on: its evaluations still rose when its budget ended.
    """

    kind: Kind
    aimed: int
    new: int
    steps: int
    goes_on: bool = False


def choose_kind(
    trials: Sequence[Trial], *, budget: float, price: float = 0.0, is_fresh: bool = True
) -> Kind:
    """Return what to train next.

    Args:
        trials: what trainings gave so far, in order.
        budget: most environment steps of one training.
        price: environment steps that a policy kept is worth: 0 asks for the fewest
            steps, a large one for the fewest policies.
        is_fresh: some uncovered target was never trained at its own context.

    Example:
        >>> choose_kind([], budget=1000)
        'region'
        >>> choose_kind([Trial("region", 9, 0, 250)], budget=1000)
        'point'
    """
    first = FIRST_SLICE * budget

    def value(side: str) -> float:
        """Expected share of the uncovered per step; one good trial is imagined."""
        past = [trial for trial in trials if SIDES[trial.kind] == side]
        share = IMAGINED[side] + sum(trial.new / trial.aimed for trial in past)
        steps = first + sum(trial.steps for trial in past)
        return share / (steps + price * (1 + len(past)))

    spent = {
        side: sum(t.steps + price for t in trials if SIDES[t.kind] == side)
        for side in ("regions", "points")
    }
    side, other = sorted(spent, key=value, reverse=True)
    if spent[side] > LIMIT * (spent[other] + first + price):
        side = other
    if side == "points":
        return "point" if is_fresh else "retry"
    last = next((t for t in reversed(trials) if SIDES[t.kind] == "regions"), None)
    return "continue" if last is not None and last.goes_on else "region"


def slice_steps(trials: Sequence[Trial], budget: int) -> int:
    """Return the most steps of the next training on a region: slices double.

    Args:
        trials: what trainings gave so far.
        budget: most environment steps of one training.
    """
    n_before = sum(SIDES[trial.kind] == "regions" for trial in trials)
    return min(budget, round(FIRST_SLICE * budget * 2.0 ** min(n_before, 60)))
