"""The checks of `taskspace doctor`, on users' own systems and trainers.

A flipped sign can be found only where policies come from elsewhere than the same
reward: LQR gains, given policies with homes, a known optimum. A learner that
maximises a flipped reward learns the wrong thing perfectly well.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import TaskspaceError
from taskspace.systems.base import ContextAxis, System
from taskspace.systems.episodic import EpisodicSystem
from taskspace.systems.function import FunctionSystem, PythonPolicies
from taskspace.systems.linear import LinearSystem
from taskspace.systems.tabular import TabularFamily
from taskspace.testing.liveness import environment_outcomes, never_alive
from taskspace.testing.trials import SystemTrial
from taskspace.trainers import Lqr, Trainer

LONG_TRAINING = 60.0
"""Seconds from which a training is not done twice."""


@dataclass(frozen=True)
class Check:
    """What a check found.

    Args:
        check: its name.
        ok: whether all is well; `None` where that was not checked.
        detail: one sentence with the numbers, and what to do if all is not well or
            was not checked.
    """

    check: str
    ok: bool | None
    detail: str

    @property
    def state(self) -> Literal["ok", "failed", "skipped"]:
        """In one word."""
        return "skipped" if self.ok is None else "ok" if self.ok else "failed"


Verdict = tuple[bool | None, str]
"""What a check found, see `Check`: whether all is well, and one sentence."""


def assert_system(
    system: System, trainer: Trainer | None = None, **options: Any
) -> None:
    """Raise an AssertionError that lists every check that fails.

    What cannot be checked (no trainer, no examples) is passed over.

    Args:
        system: the system.
        trainer: a trainer for it, if there is one.
        options: as in `check_system`.
    """
    failed = [c for c in check_system(system, trainer, **options) if c.ok is False]
    assert not failed, "\n".join(f"{c.check}: {c.detail}" for c in failed)


def check_system(
    system: System,
    trainer: Trainer | None = None,
    *,
    seed: int = 0,
    context: NDArray[np.float64] | None = None,
) -> list[Check]:
    """All checks of a system and, if one is given or suits it, a trainer.

    Args:
        system: the system.
        trainer: makes policies to try; by default LQR for linear systems. One with
            a `total_steps` is tried with 20,000 at most.
        seed: seed of everything random here.
        context: full context row to start from; the defaults of the axes if left out.

    Returns:
        One `Check` each: `shapes`, `axes alive`, `deterministic`, `larger is better`
        and `trainer`.
    """
    row = (
        np.array([axis.default for axis in system.axes]) if context is None else context
    )
    if trainer is None and isinstance(system, LinearSystem):
        trainer = Lqr()
    trial = SystemTrial(system, trainer, np.asarray(row, np.float64), seed)
    checks: list[tuple[str, Callable[[SystemTrial], Verdict]]] = [
        ("shapes", _shapes),
        ("axes alive", _axes_alive),
        ("deterministic", _deterministic),
        ("larger is better", _larger_is_better),
        ("trainer", _trainer_is_pure),
    ]
    return [_guarded(name, partial(check, trial)) for name, check in checks]


def check_environment(
    make: Callable[[NDArray[np.float64]], Any],
    axes: Sequence[ContextAxis],
    *,
    n_steps: int = 100,
) -> list[Check]:
    """Check anything that makes a Gymnasium environment from a context row.

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
        Check("axes alive", *_alive(never_alive(outcomes, axes, row))),
        Check(
            "deterministic",
            same,
            "Two episodes with the same seed and actions are the same."
            if same
            else "Two episodes with the same seed and actions differ: draw random "
            "numbers from self.np_random only, which reset(seed=...) sets.",
        ),
    ]


def _shapes(trial: SystemTrial) -> Verdict:
    axes = trial.system.axes
    names = [axis.name for axis in axes]
    if len(set(names)) < len(names):
        return False, f"Names of axes must differ, but are {names}."
    for axis in axes:
        if not axis.allows(np.array([axis.default]))[0]:
            return (
                False,
                f"{axis.bounds} must hold, but its default is {axis.default:g}.",
            )
    policies, contexts = trial.policies(), trial.contexts()
    values = trial.scores
    n_rows, n_members = policies.stack_shape
    wanted = (n_rows, n_members, len(contexts))
    if values.shape != wanted or values.dtype != np.float64:
        return False, (
            f"performance must be float64 with shape {wanted} (source, policy, "
            f"target), but is {values.dtype} with shape {values.shape}."
        )
    if (wrong := np.isnan(values) | (values == np.inf)).any():
        source, _, target = np.argwhere(wrong)[0].tolist()
        where = dict(zip(names, contexts[target].tolist(), strict=True))
        return False, (
            f"J is {values[wrong][0]} for policy {source} at {where}; a failure must "
            "be −inf."
        )
    few = min(n_rows, len(contexts))
    home = trial.system.home_performance(policies[:few], contexts[:few])
    own = values[np.arange(few), :, np.arange(few)]
    if home.shape != own.shape or not np.allclose(home, own, rtol=1e-6):
        return False, (
            "home_performance must equal performance at the policies' own sources, "
            f"but differs by {np.abs(home - own).max():g}."
        )
    return True, f"J is float64 with dims {wanted}, axes {names}."


def _axes_alive(trial: SystemTrial) -> Verdict:
    system = trial.system
    if isinstance(system, TabularFamily):
        values = np.asarray(system.values)[:, None]
        scores = system.state_values(trial.random, values)
        alive = len(values) < 2 or (scores[:, :, :1] != scores).any()
        return _alive([] if alive else ["theta"])
    dead = [axis.name for axis in system.axes]
    for outcomes in trial.outcomes():
        if dead:
            still = never_alive(outcomes, system.axes, trial.row)
            dead = [name for name in dead if name in still]
    return _alive(dead)


def _deterministic(trial: SystemTrial) -> Verdict:
    policies, contexts = trial.policies(), trial.contexts()
    first = trial.scores
    again = trial.system.performance(policies, contexts)
    if difference := _difference(first, again):
        return False, (
            f"Two evaluations of the same policies differ by up to {difference:g}: "
            "all randomness must come from a seed that is set for every episode."
        )
    whole = first  # and J of a policy must not depend on what is evaluated beside it
    alone = trial.system.performance(policies[-1:], contexts[::-1])[:, :, ::-1]
    difference = _difference(whole[-1:], alone)
    scale = np.abs(whole[np.isfinite(whole)]).max(initial=0.0)
    if difference > 1e-6 * scale:
        return False, (
            f"A policy scores differently (by up to {difference:g}) when it is "
            "evaluated alone or in another order: random numbers must depend on the "
            "episode alone."
        )
    if isinstance(trial.system, EpisodicSystem) and trial.system.n_episodes > 1:
        several = trial.system.returns(policies, contexts)[..., -1:]
        last = [trial.system.n_episodes - 1]
        one = trial.system.returns(policies, contexts, episodes=last)
        difference = _difference(several, one)
        if difference > 1e-6 * scale:
            return False, (
                f"Episode {last[0]} gives other returns (by up to {difference:g}) when "
                "it is played alone: they must depend on the episode's number alone."
            )
    return True, "A policy scores the same again, alone, and in another order."


def _larger_is_better(trial: SystemTrial) -> Verdict:
    system = trial.system
    if isinstance(system, FunctionSystem):
        return _homes_are_best(trial, system)
    optimum = system.optimum(trial.row[None])
    if optimum is not None and np.isnan(optimum[0]):  # not known here
        optimum = None
    random = system.performance(trial.random, trial.row[None])[:, 0, 0]
    if optimum is not None:
        best = float(optimum[0])
        slack = 1e-9 * abs(best) if np.isfinite(best) else 0.0
        if (random > best + slack).any():
            return False, (
                f"A random policy has J = {random.max():g}, more than the optimum "
                f"{best:g}: is the sign of J flipped?"
            )
    if trial.trainer is None:
        if optimum is not None:
            return True, f"No random policy exceeds {optimum[0]:g}."
        return None, "Skipped: give a trainer whose policy can be compared with chance."
    policies, _ = trial.trained
    score = float(system.performance(policies, trial.row[None]).max())
    chance = float(np.median(random))
    compared = f"A trained policy has J = {score:g} at home, random ones {chance:g}"
    if score > chance or (score == chance and score == random.max()):
        return True, f"{compared} (median)."
    return False, (
        f"{compared} (median): is the sign of J flipped (larger must be better), "
        "or was the trial training too short?"
    )


def _homes_are_best(trial: SystemTrial, system: FunctionSystem) -> Verdict:
    if len(system.homes) < 2:
        return None, "Skipped: give examples with their homes."
    names = [axis.name for axis in system.axes]
    rows = np.tile(trial.row, (len(system.homes), 1))
    for i, home in enumerate(system.homes):
        for axis, value in home.items():
            rows[i, names.index(axis)] = value
    values = system.performance(PythonPolicies(list(system.examples)), rows)[:, 0]
    own = np.diagonal(values)
    rank = float((own[None, :] >= values).mean())
    rating = f"At their homes the examples are at least as good as {100 * rank:.0f} %"
    if rank >= 0.5:
        return True, f"{rating} of all examples."
    return False, (
        f"{rating} of all examples only: is the sign of J flipped (larger must be "
        "better)?"
    )


def _trainer_is_pure(trial: SystemTrial) -> Verdict:
    if trial.trainer is None:
        return None, "Skipped: none was given."
    first, seconds = trial.trained
    if seconds > LONG_TRAINING:
        return None, f"Skipped: one training took {seconds:.0f} s."
    again = trial.trained_again[0]
    for name, array in first.arrays().items():
        # Objects have no values to compare; what they do is compared below.
        if array.dtype != object and not np.array_equal(array, again.arrays()[name]):
            return False, (
                f"Two trainings with the same seed differ in {name!r}: all randomness "
                "must come from the seed."
            )
    scores, same, other = (
        trial.system.performance(each, trial.contexts())
        for each in (first, first, again)
    )
    if _difference(scores, same):
        return None, "Skipped: two evaluations of the same policies differ."
    if difference := _difference(scores, other):
        return False, (
            "The policies of two trainings with the same seed score differently (by up "
            f"to {difference:g}): all randomness must come from the seed."
        )
    return True, "Two trainings with the same seed give policies that do the same."


def _alive(dead: list[str]) -> Verdict:
    if not dead:
        return True, "Moving each axis changes what happens."
    return False, (
        f"Moving {', '.join(dead)} changes nothing: the value does not reach the "
        "physics. A field that is computed from it once (as total_mass from masscart) "
        "must be computed again."
    )


def _difference(first: NDArray[Any], again: NDArray[Any]) -> float:
    same = (first == again) | (np.isnan(first) & np.isnan(again))
    with np.errstate(invalid="ignore"):
        return float(np.where(same, 0.0, np.abs(first - again)).max(initial=0.0))


def _guarded(name: str, check: Callable[[], Verdict]) -> Check:
    """Fail a check that raises an exception, with its message."""
    try:
        return Check(name, *check())
    except Exception as error:
        kind = "" if isinstance(error, TaskspaceError) else f"{type(error).__name__}: "
        return Check(name, False, f"{kind}{error}")
