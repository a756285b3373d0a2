"""What to train next where trainings depend on luck: at a point, or on a region.

Two strategies compete. *Points*: the uncovered context farthest from all sources,
again with another seed once all were tried. *Regions*: one policy for everything that
is uncovered, or the last such policy trained further. Trainings take slices of the
trainer's budget, which double when they are spent. The past of a strategy predicts its
future: newly covered targets per environment step.

Neither strategy can be trusted before it was tried, so neither may spend much more than
the other: the total is at most about five times what the better of the two would take
alone, if a policy of the one never hinders the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from taskspace._util.arrays import Array
from taskspace.errors import InvalidInputError
from taskspace.performance.ledger import Ledger
from taskspace.performance.work import REGION
from taskspace.questions import Question
from taskspace.selection.base import Known, Selector, distances, selector
from taskspace.selection.baselines import Farthest
from taskspace.selection.log import Proposal
from taskspace.spaces import Space
from taskspace.trainers.base import RegionTrainer

Kind = Literal["region", "continue", "again", "point", "retry"]
"""A policy for all that is uncovered, from nothing; the last of these trained further;
one for all targets, as at the start, with another seed; one for an uncovered context;
one for a context that was tried before."""

SIDES: dict[Kind, str] = {
    "region": "regions",
    "continue": "regions",
    "again": "regions",
    "point": "points",
    "retry": "points",
}

LIMIT = 4.0
"""A strategy may spend at most this multiple of what the other one has spent."""

IMAGINED = {"regions": 0.9, "points": 0.5}
"""Share of the uncovered that one training covers, before any was seen: what is trained
on all of them may well serve all, but one failure is enough to try the other."""

FIRST_SLICE = 0.25
"""Part of the trainer's budget that the first training of a strategy may take."""


@dataclass(frozen=True)
class Trial:
    """What a training gave.

    Args:
        kind: what was trained.
        aimed: targets that were uncovered when it began.
        new: how many of them it covered.
        steps: environment steps that it took.
        is_cut: it took all the steps that it might.
        goes_on: its evaluations still rose when its budget ended.
    """

    kind: Kind
    aimed: int
    new: int
    steps: int
    is_cut: bool = False
    goes_on: bool = False


def choose_kind(
    trials: Sequence[Trial],
    *,
    budget: float,
    is_fresh: bool = True,
    is_single: bool = False,
) -> Kind:
    """Return what to train next.

    Args:
        trials: what trainings gave so far, in order.
        budget: most environment steps of one training.
        is_fresh: some uncovered target was never trained at its own context.
        is_single: one target is uncovered. A policy for all that is uncovered is one
            for a context, and is counted as such. Once that has failed, policies for
            all targets may spend as much as those for the context, since the last
            success: another policy may serve by luck what its own does not.

    Example:
        >>> choose_kind([], budget=1000)
        'region'
        >>> choose_kind([Trial("region", 9, 0, 250)], budget=1000)
        'point'
    """
    first = FIRST_SLICE * budget
    point: Kind = "point" if is_fresh else "retry"
    if is_single:
        helped = [index for index, trial in enumerate(trials) if trial.new]
        late = _spent(trials[helped[-1] + 1 :] if helped else trials)
        is_due = not is_fresh and late["regions"] < late["points"]
        return "again" if is_due else point

    def value(side: str) -> float:
        """Return the expected share per step; one good trial is imagined."""
        past = [trial for trial in trials if SIDES[trial.kind] == side]
        share = IMAGINED[side] + sum(trial.new / trial.aimed for trial in past)
        return share / (first + sum(trial.steps for trial in past))

    spent = _spent(trials)
    side, other = sorted(spent, key=value, reverse=True)
    if spent[side] > LIMIT * (spent[other] + first):
        side = other
    if side == "points":
        return point
    last = next((t for t in reversed(trials) if SIDES[t.kind] == "regions"), None)
    return "continue" if last is not None and last.goes_on else "region"


def _spent(trials: Sequence[Trial]) -> dict[str, float]:
    """Return the environment steps that each strategy has spent."""
    return {
        side: sum(t.steps for t in trials if SIDES[t.kind] == side) for side in IMAGINED
    }


def slice_steps(trials: Sequence[Trial], budget: float, side: str) -> int:
    """Return the most steps of the next training: slices double when one is spent.

    Args:
        trials: what trainings gave so far.
        budget: most environment steps of one training.
        side: the strategy, `"regions"` or `"points"`.
    """
    n_cut = sum(trial.is_cut for trial in trials if SIDES[trial.kind] == side)
    return round(min(budget, FIRST_SLICE * budget * 2.0 ** min(n_cut, 60)))


@selector("noisy")
class Noisy(Selector):
    """Points and regions, by what each gave per environment step; for learned policies.

    Args:
        space: contexts that may be trained.
        seed: of random choices.
    """

    needs_regions: ClassVar[bool] = True

    def __init__(self, space: Space, seed: int = 0):
        super().__init__(space, seed)
        self._points = Farthest(space, seed)

    def kind(self, seen: Known, trials: Sequence[Trial]) -> Kind:
        """Return what to train next.

        Args:
            seen: what is known.
            trials: what each training gave.
        """
        remaining = self.candidates.left(seen.planned)
        homes = self.homes(seen.targets[~seen.covered])
        return choose_kind(
            trials,
            budget=_budget(seen.ledger),
            is_fresh=bool(remaining[homes].any()),
            is_single=bool((~seen.covered).sum() == 1),
        )

    def propose(self, ledger: Ledger, question: Question, n: int) -> Array:
        """Return nothing: points too are trained in slices, see `propose_region`.

        Args:
            ledger: what is trained and evaluated so far.
            question: what shall be covered.
            n: how many contexts, at most.
        """
        del question, n
        return np.empty((0, len(ledger.target_space.names)))

    def propose_region(self, ledger: Ledger, question: Question) -> Proposal | None:
        """Return a context, what is uncovered, or what was trained before to go on.

        Args:
            ledger: what is trained and evaluated so far.
            question: what shall be covered.
        """
        trainer = ledger.task.trainer
        if not isinstance(trainer, RegionTrainer):
            raise InvalidInputError(
                f"The selector {self.name!r} needs a trainer that makes one policy for "
                f"a set of contexts (RegionTrainer), but got {trainer.id!r}. Take "
                "another selector."
            )
        seen = self.look(ledger, question)
        trials = past_trials(seen)
        kind = self.kind(seen, trials)
        targets = np.arange(len(ledger.task.targets))
        if len(seen.losses):
            targets = np.flatnonzero(~seen.covered)
        if not len(targets):
            return None
        steps = slice_steps(trials, _budget(ledger), SIDES[kind]) // trainer.n_policies
        seed, start = ledger.task.seed + ledger.n_sources, None
        if kind == "point":
            rows = self._points.propose(ledger, question, 1)
            if not len(rows):
                return None
            return Proposal.of(rows[0], seed, why=self.name, steps=steps)
        if kind == "retry":
            targets = targets[[len(trials) % len(targets)]]
        elif kind == "again":
            targets = np.arange(len(ledger.task.targets))
        elif kind == "continue":
            start = max(n for n, k in enumerate(ledger.kinds) if k == REGION)
            targets = np.flatnonzero(ledger.weights_of(start))
        points = ledger.target_space.points[targets]
        units = self.candidates.units_of(points)
        middle = points[distances(units, units.mean(0, keepdims=True))[:, 0].argmin()]
        return Proposal.of(
            middle, seed, targets, why=self.name, steps=steps, start=start
        )

    def may_give_up(self, ledger: Ledger, question: Question) -> bool:
        """Return whether no strategy has longer trainings ahead than its last one.

        Args:
            ledger: what is trained and evaluated so far.
            question: what shall be covered.
        """
        trials = past_trials(self.look(ledger, question))
        last = {SIDES[trial.kind]: trial for trial in trials}
        budget = _budget(ledger)
        return not any(t.is_cut and t.steps < budget for t in last.values())


@selector("regions")
class Regions(Noisy):
    """Region boosting: one policy for the whole range, then for what is uncovered."""

    tries_homes: ClassVar[bool] = False

    def kind(self, seen: Known, trials: Sequence[Trial]) -> Kind:
        """Return `"region"`, or `"continue"` where the last one still rose."""
        del seen
        return "continue" if trials and trials[-1].goes_on else "region"


def _budget(ledger: Ledger) -> int:
    """Return the most environment steps of one training."""
    trainer = ledger.task.trainer
    steps = trainer.steps_per_source
    return steps or getattr(trainer, "total_steps", 1) * trainer.n_policies


def past_trials(seen: Known) -> list[Trial]:
    """Return what each training gave; one under way or failed has given nothing.

    Args:
        seen: what is known.
    """
    ledger, trials = seen.ledger, list[Trial]()
    covered = np.zeros(len(seen.targets), bool)
    rows = iter(seen.served)
    for index, source_kind in enumerate(ledger.kinds):
        kind: Kind = "region" if source_kind == REGION else "point"
        most = slice_steps(trials, _budget(ledger), SIDES[kind])
        aimed, new, steps, rose = max(1, int((~covered).sum())), 0, most, False
        if ledger.evaluated[index]:
            trained = ledger.policies([index]).trained
            steps = int(trained.environment_steps.sum())
            rose = not trained.log.get("since_best", np.ones(1)).any()
            served = next(rows)
            new = int((served & ~covered).sum())
            covered |= served
        is_cut = steps >= most
        goes_on = is_cut and rose and kind == "region"
        trials.append(Trial(kind, aimed, new, steps, is_cut, goes_on))
    return trials
