"""Is the plant still the one that a run was made with?

Code of your own is no part of a run: a file may be edited while the run stays. What
the run holds are policies and their scores, so its own numbers are the fingerprint of
the plant. Some are computed again whenever the code is used together with them. If
they differ, the plant is another one, and its numbers must not join those of the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import RunStoreError
from taskspace.performance.store.base import REGION
from taskspace.performance.work import TrainedBlock
from taskspace.policies import Policy
from taskspace.runs.objects import is_reference
from taskspace.systems.base import System

if TYPE_CHECKING:
    from taskspace.runs.store import RunStore


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


@dataclass(frozen=True, eq=False)
class Sample:
    """Some numbers of a run, with all that is needed to compute them again.

    Args:
        policies: of some sources.
        home: their scores at home.
        contexts: full context rows of their sources.
        targets: full context rows of some targets.
        cells: variables of the table for the first of the sources at these targets.
    """

    policies: Policy
    home: NDArray[np.float64]
    contexts: NDArray[np.float64]
    targets: NDArray[np.float64]
    cells: dict[str, NDArray[np.float64]]

    def computed(self, system: System) -> "Sample":
        """Return the same sample with the numbers that the system gives now.

        Args:
            system: the tasks.
        """
        home = system.home_performance(self.policies, self.contexts)
        names = list(self.cells)
        if not names:
            return replace(self, home=home)
        first = slice(0, len(self.cells[names[0]]))
        policies, targets = self.policies[first], self.targets
        if "performance" in names:
            cells = system.measure(policies, targets)
        else:
            cells = system.reduce_family(policies, self.home[first], targets, names)
        return replace(self, home=home, cells={name: cells[name] for name in names})


def check_plant(run: "RunStore") -> None:
    """Refuse a run whose numbers its system does not give any more.

    Built-in systems are not compared: their id says which version they are.

    Args:
        run: the run; what is damaged in it is not compared.
    """
    if ":" not in str(run.experiment.system.get("id")):
        return
    system = run.experiment.built_system
    sample = _stored_sample(run, system)
    if sample is not None and (what := _difference(system, sample)):
        raise RunStoreError(
            f"{run.origin} holds another experiment: its system was edited since, for "
            f"{what}. Nothing was changed. Choose another directory with --out, or "
            "bring back the code that it was made with."
        )


def check_trainer(run: "RunStore") -> None:
    """Refuse a run whose trainer does not make its policies any more.

    Trains the first and the last source again, so it is for code that was edited.

    Args:
        run: the run; what is damaged in it is not compared.
    """
    trainer = run.experiment.trainer.get("id")
    if not is_reference(trainer):
        return
    task, store = run.experiment.task(), run.trainings
    points = np.array([source.kind != REGION for source in store.sources], bool)
    for number in _spread(np.flatnonzero(store.trained & points), 2).tolist():
        source = store.sources[number]
        try:
            before = store.read([source]).trained.policies.arrays()
        except RunStoreError:
            continue  # damaged: it is computed again
        again, twice = (
            task.train(np.array(source.contexts), source.seed).trained.policies.arrays()
            for _ in range(2)
        )
        # What differs from call to call is no fingerprint of anything.
        if _alike(again, twice) and not _alike(before, again):
            where = _words(task.system, np.array(source.contexts[0]))
            raise RunStoreError(
                f"{run.origin} holds another experiment: its trainer {trainer} was "
                f"edited since, for it makes another policy at {where}. Nothing was "
                "changed. Choose another directory with --out, or bring back the code "
                "that it was made with."
            )


def _alike(there: Mapping[str, Any], here: Mapping[str, Any]) -> bool:
    """Whether policies have the same parameters, up to rounding."""
    if there.keys() != here.keys():
        return False
    pairs = [(np.asarray(there[k]), np.asarray(here[k])) for k in there]
    return all(
        a.shape == b.shape and bool(_same(a, b, SAMPLED_ROUNDING).all())
        for a, b in pairs
    )


def _stored_sample(run: "RunStore", system: System) -> Sample | None:
    """Return some of the sources that are trained; None where none is."""
    n_sources, n_columns = _sizes(system)
    store, picked, blocks = run.trainings, [], []
    # The home of a region is no single context.
    points = np.array([source.kind != REGION for source in store.sources], bool)
    for number in _spread(np.flatnonzero(store.trained & points), n_sources).tolist():
        try:
            blocks.append(store.read([store.sources[number]]))
            picked.append(number)
        except RunStoreError:
            continue  # damaged: it is computed again
    if not picked:
        return None
    targets = system.contexts(run.experiment.target_space)
    columns = _spread(np.arange(len(targets)), n_columns)
    away, cells = np.array(picked[:N_AWAY]), {}
    try:
        if store.evaluated[away].all():
            names = [n for n in COMPARED if n in store.header.layout.variables]
            rows = store.variables(names, away)
            cells = {n: rows[n].values[..., columns].astype(float) for n in names}
    except RunStoreError:
        pass
    contexts = np.array([store.sources[number].contexts[0] for number in picked])
    block = TrainedBlock.concatenate(blocks)
    policies = block.trained.policies
    return Sample(policies, block.home, contexts, targets[columns], cells)


def _difference(system: System, sample: Sample) -> str:
    """Return the first number that the system does not give any more, as a clause."""
    what = _compare(system, sample, sample.computed(system))
    if not what:
        return ""
    # Numbers that differ from call to call are no fingerprint of anything.
    again = sample.computed(system)
    return "" if _compare(system, again, again.computed(system)) else what


def _compare(system: System, then: Sample, now: Sample) -> str:
    """Return the first number in which two samples differ, as a clause."""
    rounding = SAMPLED_ROUNDING if system.n_episodes else ROUNDING
    variables = {"": (then.home, now.home)}
    variables |= {name: (then.cells[name], now.cells[name]) for name in then.cells}
    for name, (stored, computed) in variables.items():
        wrong = ~_same(stored, computed, rounding)
        if name:  # What was not evaluated counts as a failure: no number.
            wrong &= np.isfinite(stored)
        if wrong.any():
            place = tuple(np.argwhere(wrong)[0].tolist())
            where = f"at {_words(system, then.targets[place[-1]])}" if name else "there"
            source = _words(system, then.contexts[place[0]])
            return (
                f"J of the policy trained at {source} is {stored[place]:.9g} {where} "
                f"in the run and {computed[place]:.9g} now"
            )
    return ""


def _same(
    there: NDArray[np.float64], here: NDArray[np.float64], rounding: float
) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        near = np.abs(there - here) <= rounding * np.maximum(
            np.abs(there), np.abs(here)
        )
    return (there == here) | near


def _sizes(system: System) -> tuple[int, int]:
    return EXACT_CHECKED if system.provenance == "exact" else OTHER_CHECKED


def _spread(numbers: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return at most n of some numbers, spread evenly, with the first and the last."""
    if len(numbers) <= n:
        return numbers
    return numbers[np.linspace(0, len(numbers) - 1, n).round().astype(np.int64)]


def _words(system: System, row: NDArray[np.float64]) -> str:
    names = [axis.name for axis in system.axes]
    return ", ".join(f"{n} = {v:g}" for n, v in zip(names, row, strict=True))
