"""Is the code still the one that a run was made with?

Code of your own is no part of a run: a file may be edited while the run stays. The
run's own numbers are the fingerprint of plant and trainer. Some are computed again
whenever the code is used together with them. New numbers must not join others.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import DamagedFileError, RunStoreError
from taskspace.performance.work import REGION
from taskspace.runs.objects import is_reference
from taskspace.systems.base import System

if TYPE_CHECKING:
    from taskspace.runs.folder import RunFolder

# Scores at home, and those of the first source at some targets: exact numbers take
# next to no time, others may be simulations of minutes each.
EXACT_CHECKED = 256, 16
OTHER_CHECKED = 4, 2
# Machines round differently, and simulations in float32 more than solved equations.
ROUNDING = 1e-6
SAMPLED_ROUNDING = 1e-3
# Of a simulation, means over episodes; the other variables follow from them.
COMPARED = ("performance", "worst", "best")
EDITED = (
    "Nothing was changed. Choose another directory with --out, or bring back the code "
    "that it was made with."
)


def check_plant(run: "RunFolder") -> None:
    """Refuse a run whose numbers its system does not give any more.

    Built-in systems are not compared: their id says which version they are.

    Args:
        run: the run; what is damaged in it is not compared.
    """
    if ":" not in str(run.experiment.system.get("id")):
        return
    task, found = run.experiment.task(), run.trainings
    system = task.system
    n, n_targets = EXACT_CHECKED if system.provenance == "exact" else OTHER_CHECKED
    picked = _readable(run, n)
    if not len(picked):
        return
    block = found.policies(picked)
    contexts = system.contexts(found.sources)[picked]
    columns = _spread(np.arange(len(task.targets)), n_targets)
    task = replace(task, targets=task.targets[columns])
    names = [name for name in COMPARED if name in run.info.layout.stored]
    try:
        rows = [found.rows(n, picked[:1])[..., columns].astype(float) for n in names]
    except DamagedFileError:
        names, rows = [], []  # they are computed again
    rounding = SAMPLED_ROUNDING if system.n_episodes else ROUNDING

    def now() -> list[NDArray[np.float64]]:
        row = task.variables(block[:1], names)
        home = system.home_performance(block.trained.policies, contexts)
        return [home, *(row[name] for name in names)]

    def difference(then: Sequence[Any], later: Sequence[Any]) -> str:
        for number, (old, new) in enumerate(zip(then, later, strict=True)):
            wrong = ~_same(old, new, rounding)
            if number:  # What was not evaluated counts as a failure: no number.
                wrong &= np.isfinite(old)
            for place in map(tuple, np.argwhere(wrong)[:1]):
                target = task.targets[place[-1]] if number else None
                where = "there" if target is None else f"at {_words(system, target)}"
                return (
                    f"J of the policy trained at {_words(system, contexts[place[0]])} "
                    f"is {old[place]:.9g} {where} in the run and {new[place]:.9g} now"
                )
        return ""

    what = difference([block.home, *rows], computed := now())
    # Numbers that differ from call to call are no fingerprint of anything.
    if what and not difference(computed, now()):
        raise RunStoreError(
            f"{run.origin} holds another experiment: its system was edited since, for "
            f"{what}. {EDITED}"
        )


def check_trainer(run: "RunFolder") -> None:
    """Refuse a run whose trainer does not make its policies any more.

    Trains the first and the last source again, so it is for code that was edited.

    Args:
        run: the run; what is damaged in it is not compared.
    """
    trainer = run.experiment.trainer.get("id")
    if not is_reference(trainer):
        return
    task, found = run.experiment.task(), run.trainings

    def alike(there: dict[str, Any], here: dict[str, Any]) -> bool:
        return there.keys() == here.keys() and all(
            np.shape(there[k]) == np.shape(here[k])
            and bool(_same(there[k], here[k], SAMPLED_ROUNDING).all())
            for k in there
        )

    for number in _readable(run, 2).tolist():
        row = task.system.contexts(found.sources)[[number]]
        before = found.policies([number]).trained.policies.arrays()
        again, twice = (
            task.train(row, found.seeds[number]).trained.policies.arrays()
            for _ in range(2)
        )
        # What differs from call to call is no fingerprint of anything.
        if alike(again, twice) and not alike(before, again):
            raise RunStoreError(
                f"{run.origin} holds another experiment: its trainer {trainer} was "
                "edited since, for it makes another policy at "
                f"{_words(task.system, row[0])}. {EDITED}"
            )


def _readable(run: "RunFolder", n: int) -> NDArray[np.int64]:
    """Return at most n sources whose policies can be read, trained at one context."""
    found, fine = run.trainings, []
    points = np.array([kind != REGION for kind in found.kinds], bool)
    for number in _spread(np.flatnonzero(found.evaluated & points), n).tolist():
        try:
            found.policies([number])
            fine.append(number)
        except DamagedFileError:
            continue  # it is computed again
    return np.array(fine, np.int64)


def _same(there: Any, here: Any, rounding: float) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        larger = np.maximum(np.abs(there), np.abs(here))
        return (there == here) | (np.abs(there - here) <= rounding * larger)


def _spread(numbers: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return at most n of some numbers, spread evenly, with the first and the last."""
    if len(numbers) <= n:
        return numbers
    return numbers[np.linspace(0, len(numbers) - 1, n).round().astype(np.int64)]


def _words(system: System, row: NDArray[np.float64]) -> str:
    names = [axis.name for axis in system.axes]
    return ", ".join(f"{n} = {v:g}" for n, v in zip(names, row, strict=True))
