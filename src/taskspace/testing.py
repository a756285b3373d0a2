"""Checks that users run on their own systems and trainers, before hours are spent.

`check_system` gives a list of `Check`; `assert_system` is the same for pytest:

```python
from taskspace.testing import assert_system

def test_my_system():
    assert_system(MySystem(), MyTrainer())
```

A flipped sign can be found only where policies come from elsewhere than the same
reward: LQR gains, given policies with homes, a known optimum. A learner that
maximises a flipped reward learns the wrong thing perfectly well.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace._words import data_size, time_span
from taskspace.errors import TaskspaceError
from taskspace.performance.ledger import FULL_TABLE_CELLS
from taskspace.policies import Policy
from taskspace.systems.base import ContextAxis, System
from taskspace.systems.function import FunctionSystem, PythonPolicies
from taskspace.systems.gymnasium import GymnasiumSystem
from taskspace.systems.linear import LinearSystem
from taskspace.systems.liveness import Outcomes, environment_outcomes, system_outcomes
from taskspace.systems.simulated import SimulatedSystem
from taskspace.systems.tabular import TabularFamily
from taskspace.systems.trials import never_alive, random_policies
from taskspace.trainers import Lqr, Trainer
from taskspace.trainers.short import shortened

__all__ = [
    "Check",
    "assert_system",
    "check_environment",
    "check_system",
    "never_alive",
    "random_policies",
]

TRIAL_STEPS = 20_000
"""Environment steps of a training that only serves to try things out; a fourth in
Gymnasium, which is slower."""

LONG_TRAINING = 60.0
"""Seconds from which a training is not done twice."""


@dataclass(frozen=True)
class Check:
    """What a check found.

    Args:
        check: its name.
        ok: whether all is well.
        detail: one sentence with the numbers, and what to do if it is not.
    """

    check: str
    ok: bool
    detail: str


def assert_system(
    system: System, trainer: Trainer | None = None, **options: Any
) -> None:
    """Raise an AssertionError that lists every check that fails.

    Args:
        system: the system.
        trainer: a trainer for it, if there is one.
        options: as in `check_system`.
    """
    failed = [c for c in check_system(system, trainer, **options) if not c.ok]
    assert not failed, "\n".join(f"{c.check}: {c.detail}" for c in failed)


def check_system(
    system: System,
    trainer: Trainer | None = None,
    *,
    seed: int = 0,
    n_sources: int = 400,
    n_targets: int = 400,
    context: NDArray[np.float64] | None = None,
) -> list[Check]:
    """All checks of a system and, if one is given or suits it, a trainer.

    Args:
        system: the system.
        trainer: makes policies to try; by default LQR for linear systems. One with
            a `total_steps` is tried with 20,000 at most, and its time scaled up.
        seed: seed of everything random here.
        n_sources: sources of the run whose time and memory are estimated.
        n_targets: its targets.
        context: full context row to start from; the defaults of the axes if left out.

    Returns:
        One `Check` each: `shapes`, `axes alive`, `deterministic`, `common random
        numbers`, `no NaN`, `larger is better`, `trainer`, `time and memory`.
    """
    row = (
        np.array([axis.default for axis in system.axes]) if context is None else context
    )
    if trainer is None and isinstance(system, LinearSystem):
        trainer = Lqr(n_policies=1, noise=0.0)
    trial = _Trial(system, trainer, np.asarray(row, np.float64), seed)
    checks: list[tuple[str, Callable[[], Check]]] = [
        ("shapes", trial.shapes),
        ("axes alive", trial.axes_alive),
        ("deterministic", trial.deterministic),
        ("common random numbers", trial.common_random_numbers),
        ("no NaN", trial.no_nan),
        ("larger is better", trial.larger_is_better),
        ("trainer", trial.trainer_is_pure),
        ("time and memory", lambda: trial.cost(n_sources, n_targets)),
    ]
    return [_guarded(name, check) for name, check in checks]


def check_environment(
    make: Callable[[NDArray[np.float64]], Any],
    axes: Sequence[ContextAxis],
    *,
    n_steps: int = 100,
) -> list[Check]:
    """Checks of anything that makes a Gymnasium environment from a context row.

    Args:
        make: makes the environment of a context row.
        axes: the context axes, in the order of the row.
        n_steps: random steps of each trial episode.

    Returns:
        The checks `axes alive` and `deterministic`.
    """
    outcomes = environment_outcomes(make, n_steps=n_steps)
    row = np.array([axis.default for axis in axes])
    same = np.array_equal(outcomes(row), outcomes(row), equal_nan=True)
    return [
        _alive(never_alive(outcomes, axes, row)),
        Check(
            "deterministic",
            same,
            "Two episodes with the same seed and actions are the same."
            if same
            else "Two episodes with the same seed and actions differ: draw random "
            "numbers from self.np_random only, which reset(seed=...) sets.",
        ),
    ]


class _Trial:
    """One system on trial; expensive pieces are made once."""

    def __init__(
        self,
        system: System,
        trainer: Trainer | None,
        row: NDArray[np.float64],
        seed: int,
    ):
        self.system, self.row, self.seed = system, row, seed
        self.full_trainer = trainer
        self.trainer = _short(trainer, system)
        self._random: Policy | None = None
        self._trained: tuple[Policy, float] | None = None
        self._again: tuple[Policy, float] | None = None

    def random(self) -> Policy:
        if self._random is None:
            self._random = random_policies(self.system, 6, self.seed)
        if self._random is None:
            raise TaskspaceError(
                f"It is not known how to make policies for {self.system.id}; give "
                "examples (FunctionSystem) or a trainer."
            )
        return self._random

    def trained(self) -> tuple[Policy, float]:
        """Policies of one source, and the seconds that they took."""
        if self._trained is None:
            assert self.trainer is not None
            began = time.perf_counter()
            trained = self.trainer.train(self.system, self.row[None], seed=self.seed)
            self._trained = trained.policies, time.perf_counter() - began
        return self._trained

    def trained_again(self) -> tuple[Policy, float]:
        """The same once more; what is compiled is compiled by now."""
        if self._again is None:
            self._again, self._trained = self._trained or self.trained(), None
            self._again, self._trained = self.trained(), self._again
        return self._again

    def policies(self) -> Policy:
        """Something to evaluate: random policies, else trained ones."""
        try:
            return self.random()
        except TaskspaceError:
            if self.trainer is None:
                raise
            return self.trained()[0]

    def contexts(self) -> NDArray[np.float64]:
        """The default, and each axis moved by a quarter within its bounds."""
        if isinstance(self.system, TabularFamily):
            return np.asarray(self.system.values)[:, None]
        rows = [self.row]
        for i, axis in enumerate(self.system.axes):
            for part in (-0.25, 0.25):
                moved = self.row.copy()
                moved[i] += part * (abs(moved[i]) or 1.0)
                if axis.allows(moved[i : i + 1])[0]:
                    rows.append(moved)
        return np.stack(rows)

    def shapes(self) -> Check:
        name = "shapes"
        axes = self.system.axes
        names = [axis.name for axis in axes]
        if len(set(names)) < len(names):
            return Check(name, False, f"Names of axes must differ, but are {names}.")
        for axis in axes:
            if not axis.allows(np.array([axis.default]))[0]:
                say = f"{axis.bounds} must hold, but its default is {axis.default:g}."
                return Check(name, False, say)
        policies, contexts = self.policies(), self.contexts()
        values = self.system.performance(policies, contexts)
        n_rows, n_members = next(iter(policies.arrays().values())).shape[:2]
        wanted = (n_rows, n_members, len(contexts))
        if values.shape != wanted or values.dtype != np.float64:
            return Check(
                name,
                False,
                f"performance must be float64 with shape {wanted} (source, policy, "
                f"target), but is {values.dtype} with shape {values.shape}.",
            )
        few = min(n_rows, len(contexts))
        home = self.system.home_performance(policies[:few], contexts[:few])
        own = values[np.arange(few), :, np.arange(few)]
        if home.shape != own.shape or not np.allclose(home, own, rtol=1e-6):
            return Check(
                name,
                False,
                "home_performance must equal performance at the policies' own sources, "
                f"but differs by {np.abs(home - own).max():g}.",
            )
        return Check(name, True, f"J is float64 with dims {wanted}, axes {names}.")

    def outcomes(self) -> Outcomes:
        system = self.system
        if isinstance(system, GymnasiumSystem):
            wander = environment_outcomes(system.environment, n_steps=100)
            return _both(wander, self._scores())
        if isinstance(system, SimulatedSystem):
            return system_outcomes(system)
        return self._scores()

    def _scores(self) -> Outcomes:
        policies = self.policies()
        return lambda row: self.system.performance(policies, row[None])

    def axes_alive(self) -> Check:
        system = self.system
        if isinstance(system, TabularFamily):
            values = np.asarray(system.values)[:, None]
            scores = system.state_values(self.random(), values)
            alive = len(values) < 2 or (scores[:, :, :1] != scores).any()
            return _alive([] if alive else ["theta"])
        return _alive(never_alive(self.outcomes(), system.axes, self.row))

    def deterministic(self) -> Check:
        policies, contexts = self.policies(), self.contexts()
        first = self.system.performance(policies, contexts)
        again = self.system.performance(policies, contexts)
        difference = _difference(first, again)
        if difference == 0:
            return Check("deterministic", True, "Two evaluations are the same.")
        return Check(
            "deterministic",
            False,
            f"Two evaluations of the same policies differ by up to {difference:g}: "
            "all randomness must come from a seed that is set for every episode.",
        )

    def common_random_numbers(self) -> Check:
        """J of a policy must not depend on what is evaluated beside it."""
        name = "common random numbers"
        policies, contexts = self.policies(), self.contexts()
        whole = self.system.performance(policies, contexts)
        alone = self.system.performance(policies[-1:], contexts[::-1])[:, :, ::-1]
        difference = _difference(whole[-1:], alone)
        scale = np.abs(whole[np.isfinite(whole)]).max(initial=1.0)
        if difference <= 1e-6 * scale:
            say = "A policy scores the same alone, among others and in another order."
            return Check(name, True, say)
        return Check(
            name,
            False,
            f"A policy scores differently (by up to {difference:g}) when it is "
            "evaluated alone or in another order: random numbers must depend on the "
            "episode alone.",
        )

    def no_nan(self) -> Check:
        policies, contexts = self.policies(), self.contexts()
        values = self.system.performance(policies, contexts)
        wrong = np.isnan(values) | (values == np.inf)
        if not wrong.any():
            n_failed = int((values == -np.inf).sum())
            say = f"{values.size} values of J, {n_failed} of them −inf (failures)."
            return Check("no NaN", True, say)
        source, _, target = np.argwhere(wrong)[0].tolist()
        names = [axis.name for axis in self.system.axes]
        where = dict(zip(names, contexts[target].tolist(), strict=True))
        return Check(
            "no NaN",
            False,
            f"J is {values[wrong][0]} for policy {source} at {where}; a failure must "
            "be −inf.",
        )

    def larger_is_better(self) -> Check:
        name = "larger is better"
        system = self.system
        if isinstance(system, FunctionSystem):
            return self._homes_are_best(system)
        optimum = system.optimum(self.row[None])
        random = system.performance(self.random(), self.row[None])[:, 0, 0]
        if optimum is not None:
            best = float(optimum[0])
            slack = 1e-9 * abs(best) if np.isfinite(best) else 0.0
            if (random > best + slack).any():
                return Check(
                    name,
                    False,
                    f"A random policy has J = {random.max():g}, more than the optimum "
                    f"{best:g}: is the sign of J flipped?",
                )
        if self.trainer is None:
            if optimum is not None:
                return Check(name, True, f"No random policy exceeds {optimum[0]:g}.")
            say = (
                "Not checked: give a trainer whose policy can be compared with chance."
            )
            return Check(name, True, say)
        policies, _ = self.trained()
        score = float(system.performance(policies, self.row[None]).max())
        chance = float(np.median(random))
        compared = f"A trained policy has J = {score:g} at home, random ones {chance:g}"
        if score > chance or (score == chance and score == random.max()):
            return Check(name, True, f"{compared} (median).")
        return Check(
            name,
            False,
            f"{compared} (median): is the sign of J flipped (larger must be better), "
            "or was the trial training too short?",
        )

    def _homes_are_best(self, system: FunctionSystem) -> Check:
        name = "larger is better"
        if len(system.homes) < 2:
            return Check(name, True, "Not checked: give examples with their homes.")
        names = [axis.name for axis in system.axes]
        rows = np.tile(self.row, (len(system.homes), 1))
        for i, home in enumerate(system.homes):
            for axis, value in home.items():
                rows[i, names.index(axis)] = value
        values = system.performance(PythonPolicies(list(system.examples)), rows)[:, 0]
        own = np.diagonal(values)
        rank = float((own[None, :] >= values).mean())
        say = f"At their homes the examples are at least as good as {100 * rank:.0f} %"
        if rank >= 0.5:
            return Check(name, True, f"{say} of all examples.")
        return Check(
            name,
            False,
            f"{say} of all examples only: is the sign of J flipped (larger must be "
            "better)?",
        )

    def trainer_is_pure(self) -> Check:
        if self.trainer is None:
            return Check("trainer", True, "Not checked: none was given.")
        first, seconds = self.trained()
        if seconds > LONG_TRAINING:
            say = f"Not checked: one training took {seconds:.0f} s."
            return Check("trainer", True, say)
        return _compare_policies(first, self.trained_again()[0])

    def cost(self, n_sources: int, n_targets: int) -> Check:
        policies, contexts = self.policies(), self.contexts()
        size = self.system.performance(policies, contexts).size  # compiles
        began, n_calls = time.perf_counter(), 0
        while time.perf_counter() - began < 0.2:
            self.system.performance(policies, contexts)
            n_calls += 1
        each = (time.perf_counter() - began) / (n_calls * size)
        n_policies = self.full_trainer.n_policies if self.full_trainer else 1
        cells = n_sources * n_policies * n_targets
        evaluation = cells * each
        training = 0.0
        if self.trainer is not None:
            _, once = self.trained()
            if once < LONG_TRAINING:
                once = min(once, self.trained_again()[1])
            training = once * n_sources * self._budget_ratio()
        # J of every policy where it fits, otherwise four reductions.
        kept = cells if cells <= FULL_TABLE_CELLS else 4 * n_sources * n_targets
        memory = 8 * kept
        if isinstance(self.system, SimulatedSystem):
            memory += 4 * cells * self.system.n_episodes
        cores = os.cpu_count() or 1
        return Check(
            "time and memory",
            True,
            f"{time_span(each)} an evaluation; {n_sources:,} sources x {n_policies} "
            f"policies x {n_targets:,} targets: training {time_span(training)}, "
            f"evaluation {time_span(evaluation)} on one of {cores} cores, "
            f"{data_size(memory)}.",
        )

    def _budget_ratio(self) -> float:
        """How much longer the full training of a source is than the trial's."""
        ratio = 1.0
        for name in ("total_steps", "n_policies"):
            full, trial = (
                getattr(t, name, None) for t in (self.full_trainer, self.trainer)
            )
            ratio *= full / trial if full and trial else 1.0
        return ratio


def _short(trainer: Trainer | None, system: System) -> Trainer | None:
    """The trainer with a trial's budget."""
    slow = isinstance(system, GymnasiumSystem)
    most = {"total_steps": TRIAL_STEPS // 4 if slow else TRIAL_STEPS, "n_policies": 1}
    if slow:
        most["n_evaluation_episodes"] = 5
    return None if trainer is None else shortened(trainer, most)


def _both(*parts: Outcomes) -> Outcomes:
    return lambda row: np.concatenate([np.ravel(part(row)) for part in parts])


def _alive(dead: list[str]) -> Check:
    if not dead:
        return Check("axes alive", True, "Moving each axis changes what happens.")
    return Check(
        "axes alive",
        False,
        f"Moving {', '.join(dead)} changes nothing: the value does not reach the "
        "physics. A field that is computed from it once (as total_mass from masscart) "
        "must be computed again.",
    )


def _compare_policies(first: Policy, again: Policy) -> Check:
    for name, array in first.arrays().items():
        if not np.array_equal(array, again.arrays()[name]):
            return Check(
                "trainer",
                False,
                f"Two trainings with the same seed differ in {name!r}: all randomness "
                "must come from the seed.",
            )
    return Check("trainer", True, "Two trainings with the same seed are the same.")


def _difference(first: NDArray[np.float64], again: NDArray[np.float64]) -> float:
    same = (first == again) | (np.isnan(first) & np.isnan(again))
    with np.errstate(invalid="ignore"):
        return float(np.where(same, 0.0, np.abs(first - again)).max(initial=0.0))


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    """A check that fails by an exception fails with its message."""
    try:
        return check()
    except Exception as error:
        kind = "" if isinstance(error, TaskspaceError) else f"{type(error).__name__}: "
        return Check(name, False, f"{kind}{error}")
