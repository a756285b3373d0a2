"""Is the code still the one that a run was made with?

Code of your own is no part of a run: a file may be edited while the run stays. What
the run holds are policies and their scores, so its own numbers are the fingerprint of
plant and trainer. Some are computed again whenever the code is used together with
them. If they differ, new numbers must not join those of the run.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import DamagedFileError, RunStoreError
from taskspace.performance.work import REGION, TrainedBlock
from taskspace.runs.objects import is_reference
from taskspace.systems.base import System

if TYPE_CHECKING:
    from taskspace.runs.folder import RunFolder

# Sources at home, and of the first four of them targets away: exact numbers take next
# to no time, others may be simulations of minutes each.
EXACT_CHECKED = 256, 16
OTHER_CHECKED = 4, 2
N_AWAY = 4
# Machines round differently, and simulations in float32 more than solved equations.
ROUNDING = 1e-6
SAMPLED_ROUNDING = 1e-3
# Of a simulation, means over episodes; the other variables follow from them.
COMPARED = ("performance", "worst", "best")

Numbers = dict[str, NDArray[np.float64]]
"""Some numbers of a run by variable; `""` stands for scores at home."""


def check_plant(run: "RunFolder") -> None:
    """Refuse a run whose numbers its system does not give any more.

    Built-in systems are not compared: their id says which version they are.

    Args:
        run: the run; what is damaged in it is not compared.
    """
    if ":" not in str(run.experiment.system.get("id")):
        return
    system, found = run.experiment.built_system, run.trainings
    n_sources, n_columns = (
        EXACT_CHECKED if system.provenance == "exact" else OTHER_CHECKED
    )
    picked = _readable(run, n_sources)
    if not len(picked):
        return
    block, away = found.policies(picked), picked[:N_AWAY]
    contexts = system.contexts(found.sources)[picked]
    targets = system.contexts(run.info.targets)
    columns = _spread(np.arange(len(targets)), n_columns)
    stored: Numbers = {"": block.home}
    try:
        for name in COMPARED:
            if name in run.info.layout.stored:
                stored[name] = found.rows(name, away)[..., columns].astype(float)
    except DamagedFileError:
        pass  # it is computed again

    def now() -> Numbers:
        return _computed(system, block, contexts, targets[columns], list(stored)[1:])

    what = _difference(system, stored, computed := now(), contexts, targets[columns])
    # Numbers that differ from call to call are no fingerprint of anything.
    if what and not _difference(system, computed, now(), contexts, targets[columns]):
        raise RunStoreError(
            f"{run.origin} holds another experiment: its system was edited since, for "
            f"{what}. Nothing was changed. Choose another directory with --out, or "
            "bring back the code that it was made with."
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
    for number in _readable(run, 2).tolist():
        row = task.system.contexts(found.sources)[[number]]
        before = found.policies([number]).trained.policies.arrays()
        again, twice = (
            task.train(row, found.seeds[number]).trained.policies.arrays()
            for _ in range(2)
        )
        # What differs from call to call is no fingerprint of anything.
        if _alike(again, twice) and not _alike(before, again):
            raise RunStoreError(
                f"{run.origin} holds another experiment: its trainer {trainer} was "
                f"edited since, for it makes another policy at "
                f"{_words(task.system, row[0])}. Nothing was changed. Choose another "
                "directory with --out, or bring back the code that it was made with."
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


def _computed(
    system: System,
    block: TrainedBlock,
    contexts: NDArray[np.float64],
    targets: NDArray[np.float64],
    names: list[str],
) -> Numbers:
    """Return the numbers that the system gives now."""
    policies = block.trained.policies
    now, cells = {"": system.home_performance(policies, contexts)}, {}
    if "performance" in names:
        cells = system.measure(policies[:N_AWAY], targets)
    elif names:
        home = block.home[:N_AWAY]
        cells = system.reduce_family(policies[:N_AWAY], home, targets, names)
    return now | {name: cells[name] for name in names}


def _difference(
    system: System,
    then: Numbers,
    now: Numbers,
    contexts: NDArray[np.float64],
    targets: NDArray[np.float64],
) -> str:
    """Return the first number in which two samples differ, as a clause."""
    rounding = SAMPLED_ROUNDING if system.n_episodes else ROUNDING
    for name, stored in then.items():
        wrong = ~_same(stored, now[name], rounding)
        if name:  # What was not evaluated counts as a failure: no number.
            wrong &= np.isfinite(stored)
        if wrong.any():
            place = tuple(np.argwhere(wrong)[0].tolist())
            where = f"at {_words(system, targets[place[-1]])}" if name else "there"
            return (
                f"J of the policy trained at {_words(system, contexts[place[0]])} is "
                f"{stored[place]:.9g} {where} in the run and {now[name][place]:.9g} now"
            )
    return ""


def _alike(there: dict[str, Any], here: dict[str, Any]) -> bool:
    """Whether policies have the same parameters, up to rounding."""
    return there.keys() == here.keys() and all(
        np.shape(there[k]) == np.shape(here[k])
        and bool(_same(there[k], here[k], SAMPLED_ROUNDING).all())
        for k in there
    )


def _same(there: Any, here: Any, rounding: float) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        near = np.abs(there - here) <= rounding * np.maximum(
            np.abs(there), np.abs(here)
        )
    return (there == here) | near


def _spread(numbers: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return at most n of some numbers, spread evenly, with the first and the last."""
    if len(numbers) <= n:
        return numbers
    return numbers[np.linspace(0, len(numbers) - 1, n).round().astype(np.int64)]


def _words(system: System, row: NDArray[np.float64]) -> str:
    names = [axis.name for axis in system.axes]
    return ", ".join(f"{n} = {v:g}" for n, v in zip(names, row, strict=True))
