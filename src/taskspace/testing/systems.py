"""What systems, trainers and policies must satisfy; `taskspace doctor` prints it.

A simulator that computes a derived quantity once (a total mass, an inertia) and is
then given another parameter goes on with the old one. Gymnasium's CartPole under CARL
did so: its cart mass had no effect at all. Such an axis is dead: the check moves one
axis at a time and looks whether anything that follows changes.

A flipped sign can be found only where policies come from elsewhere than the same
reward: LQR gains, given policies with homes, a known optimum. A learner that maximises
a flipped reward learns the wrong thing perfectly well.
"""

import math
import pickle
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace.errors import TaskspaceError
from taskspace.performance.blocks import BlockFolder, Layout
from taskspace.performance.work import Block, TrainedBlock
from taskspace.policies import LinearGain, Mlp, Policy, TabularPolicy, check_storable
from taskspace.spaces import Space
from taskspace.systems.base import ContextAxis, System
from taskspace.systems.episodic import EpisodicSystem
from taskspace.systems.function import FunctionSystem, PythonPolicies
from taskspace.systems.gymnasium import GymnasiumSystem
from taskspace.systems.linear import LinearSystem
from taskspace.systems.tabular import TabularFamily
from taskspace.trainers import Lqr, Trainer
from taskspace.trainers.base import Trained, shortened

__all__ = [
    "Check",
    "check_policy",
    "check_system",
    "check_trainer",
    "dead_axes",
    "environment_outcomes",
    "system_checks",
]

LONG_TRAINING = 60.0
"""Seconds from which a training is not done twice."""
TRIAL_STEPS = 20_000
"""Environment steps of a trial training; a fourth in Gymnasium, which is slower."""
GYMNASIUM_EPISODES = 3
"""Episodes of a trial in Gymnasium."""
MOVES = (0.1, -0.5, 1.0, -0.9, 9.0, -0.99)
"""How far an axis is moved, as parts of its value, until something changes."""

Outcomes = Callable[[Array], NDArray[Any]]
"""What happens in a context, from starts and actions that do not depend on it."""


@dataclass(frozen=True)
class Check:
    """What a check found.

    Args:
        check: its name.
        ok: whether it holds; `None` where that was not checked.
        detail: one sentence with the numbers, and what to do if it does not hold or
            was not checked.
    """

    check: str
    ok: bool | None
    detail: str


class _SkipError(Exception):
    """A check that lacks what it needs."""


def check_system(
    system: System, trainer: Trainer | None = None, *, context: Array | None = None
) -> None:
    """Assert that a system and its trainer pass every check of `taskspace doctor`.

    What cannot be checked (no trainer, no examples) is passed over.

    Args:
        system: the system.
        trainer: a trainer for it, if there is one.
        context: full context row to start from; the defaults of the axes if left out.
    """
    checks = system_checks(system, trainer, context=context)
    failed = [f"{c.check}: {c.detail}" for c in checks if c.ok is False]
    assert not failed, "\n".join(failed)


def system_checks(
    system: System, trainer: Trainer | None = None, *, context: Array | None = None
) -> list[Check]:
    """Return what `taskspace doctor` finds out about a system and a trainer.

    Args:
        system: the system.
        trainer: makes policies to try; by default LQR for linear systems. One with
            a `total_steps` is tried with 20,000 at most.
        context: full context row to start from; the defaults of the axes if left out.

    Returns:
        One `Check` each: `shapes`, `axes alive`, `deterministic`, `larger is better`
        and `trainer`.
    """
    trial = _Trial(system, trainer, context)
    checks = {
        "shapes": _shapes,
        "axes alive": _axes_alive,
        "deterministic": _deterministic,
        "larger is better": _larger_is_better,
        "trainer": _trainer_is_pure,
    }
    found = []
    for name, check in checks.items():
        try:
            found.append(Check(name, True, check(trial)))
        except _SkipError as reason:
            found.append(Check(name, None, f"Skipped: {reason}"))
        except (AssertionError, TaskspaceError) as problem:
            found.append(Check(name, False, str(problem)))
        except Exception as error:
            found.append(Check(name, False, f"{type(error).__name__}: {error}"))
    return found


def dead_axes(
    outcomes: Outcomes, axes: Sequence[ContextAxis], *, context: Array | None = None
) -> list[str]:
    """Return the axes that change nothing, however far they move within their bounds.

    Args:
        outcomes: what happens in a context, e.g. `environment_outcomes(make)`.
        axes: the context axes, in the order of a context row.
        context: where to start from; the defaults of the axes if left out.

    Returns:
        Names of dead axes in the order of `axes`; empty if every axis is alive.
    """
    row = _defaults(axes) if context is None else context
    before = outcomes(row)

    def is_alive(i: int, move: float) -> bool:
        for sign in (1.0, -1.0):
            moved = row.copy()
            moved[i] += sign * move * (abs(row[i]) or 1.0)
            if axes[i].allows(moved[i : i + 1])[0] or sign < 0:
                break
        return not np.array_equal(before, outcomes(moved), equal_nan=True)

    return [
        axis.name
        for i, axis in enumerate(axes)
        if not any(is_alive(i, move) for move in MOVES)
    ]


def environment_outcomes(
    make: Callable[[Array], Any], *, n_steps: int = 20
) -> Outcomes:
    """Return observations and rewards of environments under random actions.

    Args:
        make: makes the environment of a context; anything with Gymnasium's
            `reset`, `step` and `action_space`.
        n_steps: steps of each of four episodes, unless it ends before.

    Returns:
        A function of the context with values of shape
        `(episode, n_steps, n_observations + 1)`, NaN after the end.
    """

    def outcomes(context: Array) -> NDArray[Any]:
        environment = make(context)
        episodes = []
        for seed in range(4):
            environment.action_space.seed(seed)
            observation, _ = environment.reset(seed=seed)
            rows = np.full((n_steps, np.size(observation) + 1), np.nan)
            for row in rows:
                action = environment.action_space.sample()
                observation, reward, terminated, truncated, _ = environment.step(action)
                row[:] = np.append(observation, reward)
                if terminated or truncated:
                    break
            episodes.append(rows)
        environment.close()
        return np.stack(episodes)

    return outcomes


class _Trial:
    """A system on trial, with few episodes and steps; costly parts are made once."""

    def __init__(self, system: System, trainer: Trainer | None, context: Array | None):
        if trainer is None and isinstance(system, LinearSystem):
            trainer = Lqr()
        row = _defaults(system.axes) if context is None else context
        self.row = np.asarray(row, np.float64)
        most = {"total_steps": TRIAL_STEPS, "n_policies": 1}
        if isinstance(system, GymnasiumSystem):
            n_episodes = min(system.n_episodes, GYMNASIUM_EPISODES)
            system = replace(system, n_episodes=n_episodes)
            most |= {"total_steps": TRIAL_STEPS // 4, "n_evaluation_episodes": 5}
        self.system = system
        self.trainer = None if trainer is None else shortened(trainer, most)

    def train(self) -> Policy:
        """Return the policies of one source."""
        assert self.trainer is not None
        return self.trainer.train(self.system, self.row[None], seed=0).policies

    @cached_property
    def trained(self) -> tuple[Policy, float]:
        """Policies of one source, and the seconds that they took."""
        began = time.perf_counter()
        return self.train(), time.perf_counter() - began

    @cached_property
    def random(self) -> Policy | None:
        """Policies that know nothing of the task, None if it is not known how."""
        return _random_policies(self.system, 6)

    @cached_property
    def policies(self) -> Policy:
        """Something to evaluate: random policies, else trained ones."""
        if self.random is not None:
            return self.random
        if self.trainer is not None:
            return self.trained[0]
        raise TaskspaceError(
            f"It is not known how to make policies for {self.system.id}; give examples "
            "(FunctionSystem) or a trainer."
        )

    @cached_property
    def contexts(self) -> Array:
        """The first context, and each axis moved by a quarter within its bounds."""
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

    @cached_property
    def scores(self) -> Array:
        """J of `policies` at `contexts`."""
        return self.system.performance(self.policies, self.contexts)


def _random_policies(system: System, n: int) -> Policy | None:
    rng = np.random.default_rng(0)
    if isinstance(system, FunctionSystem):
        n_examples = len(system.examples)  # they may be an array
        return PythonPolicies(list(system.examples)) if n_examples else None
    if isinstance(system, LinearSystem):
        gain, _ = system.optimal_gain(_defaults(system.axes)[None])
        noise = rng.standard_normal((n, 1, *gain.shape[1:]))
        # From as large as the gain to a hundredth of it: of a plant with many states
        # hardly any large one is stable.
        scale = np.maximum(abs(gain).max(), 0.1) * np.geomspace(1, 0.01, n)
        return LinearGain(gain + scale[:, None, None, None] * noise)
    if isinstance(system, TabularFamily):
        actions = rng.integers(system.n_actions, size=(n, 1, system.n_states))
        return TabularPolicy(np.eye(system.n_actions)[actions])
    shape = system.network_sizes() if isinstance(system, EpisodicSystem) else None
    if shape is None:
        return None
    n_in, n_out, head = shape
    sizes = ((n_in, 16), (16, n_out))
    weights = [rng.standard_normal((n, 1, *s)) / math.sqrt(s[0]) for s in sizes]
    return Mlp(
        weights=tuple(w.astype(np.float32) for w in weights),
        biases=tuple(np.zeros((n, 1, s[1]), np.float32) for s in sizes),
        head=head,
    )


def _shapes(trial: _Trial) -> str:
    system = trial.system
    names = [axis.name for axis in system.axes]
    assert len(set(names)) == len(names), f"Names of axes must differ, but are {names}."
    for axis in system.axes:
        assert axis.allows(np.array([axis.default]))[0], (
            f"{axis.bounds} must hold, but its default is {axis.default:g}."
        )
    policies, contexts, values = trial.policies, trial.contexts, trial.scores
    wanted = (*policies.stack_shape, len(contexts))
    assert values.shape == wanted and values.dtype == np.float64, (  # noqa: PT018
        f"performance must be float64 with shape {wanted} (source, policy, target), "
        f"but is {values.dtype} with shape {values.shape}."
    )
    wrong = np.isnan(values) | (values == np.inf)
    for source, policy, target in np.argwhere(wrong)[:1]:
        where = dict(zip(names, contexts[target].tolist(), strict=True))
        raise AssertionError(
            f"J is {values[source, policy, target]} for policy {source} at {where}; a "
            "failure must be −inf."
        )
    few = min(wanted[0], len(contexts))
    home = system.home_performance(policies[:few], contexts[:few])
    own = values[np.arange(few), :, np.arange(few)]
    same = home.shape == own.shape and np.allclose(home, own, rtol=1e-6)
    assert same, "home_performance must equal performance at the policies' own sources."
    return f"J is float64 with dims {wanted}, axes {names}."


def _axes_alive(trial: _Trial) -> str:
    system, policies = trial.system, trial.policies
    dead = [axis.name for axis in system.axes]
    if isinstance(system, TabularFamily):
        values = system.state_values(policies, trial.contexts)
        if len(trial.contexts) < 2 or (values[:, :, :1] != values).any():
            dead = []
    else:
        ways: list[Outcomes] = [lambda row: system.performance(policies, row[None])]
        if isinstance(system, GymnasiumSystem):  # steps are cheaper than episodes
            ways.insert(0, environment_outcomes(system.environment, n_steps=100))
        for outcomes in ways:
            if dead:
                still = dead_axes(outcomes, system.axes, context=trial.row)
                dead = [name for name in dead if name in still]
    assert not dead, (
        f"Moving {', '.join(dead)} changes nothing: the value does not reach the "
        "physics. A field that is computed from it once (as total_mass from masscart) "
        "must be computed again."
    )
    return "Moving each axis changes what happens."


def _deterministic(trial: _Trial) -> str:
    system, policies, contexts = trial.system, trial.policies, trial.contexts
    scores = trial.scores
    apart = _difference(scores, system.performance(policies, contexts))
    assert not apart, (
        f"Two evaluations of the same policies differ by up to {apart:g}: all "
        "randomness must come from a seed that is set for every episode."
    )
    # J of a policy must not depend on what is evaluated with it.
    alone = system.performance(policies[-1:], contexts[::-1])[:, :, ::-1]
    rounding = 1e-6 * np.abs(scores[np.isfinite(scores)]).max(initial=0.0)
    apart = _difference(scores[-1:], alone)
    assert apart <= rounding, (
        f"A policy scores differently (by up to {apart:g}) when it is evaluated alone "
        "or in another order: random numbers must depend on the episode alone."
    )
    if isinstance(system, EpisodicSystem) and system.n_episodes > 1:
        last = system.n_episodes - 1
        together = system.returns(policies, contexts)[..., -1:]
        one = system.returns(policies, contexts, episodes=[last])
        apart = _difference(together, one)
        assert apart <= rounding, (
            f"Episode {last} gives other returns (by up to {apart:g}) when it is "
            "played alone: they must depend on the episode's number alone."
        )
    return "A policy scores the same again, alone, and in another order."


def _larger_is_better(trial: _Trial) -> str:
    system, row = trial.system, trial.row[None]
    if isinstance(system, FunctionSystem):
        return _homes_are_best(trial, system)
    random = system.performance(trial.policies, row)[:, 0, 0]
    optimum = system.optimum(row)
    best = np.nan if optimum is None else float(optimum[0])
    slack = 1e-9 * abs(best) if np.isfinite(best) else 0.0
    assert not (random > best + slack).any(), (
        f"A random policy has J = {random.max():g}, more than the optimum {best:g}: is "
        "the sign of J flipped?"
    )
    if trial.trainer is None and not np.isnan(best):
        return f"No random policy exceeds {best:g}."
    if trial.trainer is None or trial.random is None:
        raise _SkipError("give a trainer whose policy can be compared with chance.")
    score = float(system.performance(trial.trained[0], row).max())
    chance = float(np.median(random))
    compared = (
        f"A trained policy has J = {score:g} at home, random ones {chance:g} (median)"
    )
    assert score > chance or score == chance == random.max(), (
        f"{compared}: is the sign of J flipped (larger must be better), or was the "
        "trial training too short?"
    )
    return f"{compared}."


def _homes_are_best(trial: _Trial, system: FunctionSystem) -> str:
    if len(system.homes) < 2:
        raise _SkipError("give examples with their homes.")
    names = [axis.name for axis in system.axes]
    rows = np.tile(trial.row, (len(system.homes), 1))
    for i, home in enumerate(system.homes):
        for axis, value in home.items():
            rows[i, names.index(axis)] = value
    values = system.performance(PythonPolicies(list(system.examples)), rows)[:, 0]
    rank = float((np.diagonal(values)[None, :] >= values).mean())
    rating = f"At their homes the examples are at least as good as {100 * rank:.0f} %"
    assert rank >= 0.5, (
        f"{rating} of all examples only: is the sign of J flipped (larger must be "
        "better)?"
    )
    return f"{rating} of all examples."


def _trainer_is_pure(trial: _Trial) -> str:
    if trial.trainer is None:
        raise _SkipError("none was given.")
    first, seconds = trial.trained
    if seconds > LONG_TRAINING:
        raise _SkipError(f"one training took {seconds:.0f} s.")
    # What policies do counts: two equal functions are never one object.
    scores, same, other = (
        trial.system.performance(policies, trial.contexts)
        for policies in (first, first, trial.train())
    )
    if _difference(scores, same):
        raise _SkipError("two evaluations of the same policies differ.")
    apart = _difference(scores, other)
    assert not apart, (
        "The policies of two trainings with the same seed score differently (by up to "
        f"{apart:g}): all randomness must come from the seed."
    )
    return "Two trainings with the same seed give policies that do the same."


def check_trainer(
    trainer: Trainer, system: System, space: Space, *, seed: int = 0
) -> None:
    """Assert that a trainer depends on its seed and the context alone.

    Trains every source of the space three times, and the last one alone.

    Args:
        trainer: makes the policies of each source.
        system: the tasks.
        space: a few sources, at least two.
        seed: of the trainings.
    """
    rows = system.contexts(space)
    trained = trainer.train(system, rows, seed=seed)
    wanted = len(rows), trainer.n_policies
    sizes = trained.policies.stack_shape[:2], trained.environment_steps.shape
    assert sizes == (wanted, wanted), (
        f"sizes: It must give {wanted} policies and counts of steps, but gave {sizes}."
    )
    scores = system.performance(trained.policies, rows)
    trials = {
        "repeatable": (slice(None), "The same seed gave other policies."),
        "alone": (slice(-1, None), "A source alone got another policy."),
        "order": (
            slice(None, None, -1),
            "Sources in another order got other policies.",
        ),
    }
    for name, (part, problem) in trials.items():
        again = trainer.train(system, rows[part], seed=seed).policies
        # What policies do counts, not what they are made of.
        others = system.performance(again, rows)
        assert not _difference(others, scores[part]), f"{name}: {problem}"
    most, spent = trainer.steps_per_source, trained.environment_steps.sum(1).max()
    assert most is None or spent <= most, (
        f"steps: It promised at most {most} steps per source and took {spent}."
    )
    home = system.home_performance(trained.policies, rows)
    assert not (np.isnan(home) | (home == np.inf)).any(), (
        "scores: A policy has NaN or +inf at home; −inf is a failure."
    )
    check_policy(trained.policies)


def check_policy(policies: Policy, observation: Any = None) -> None:
    """Assert that policies come back the same from a run, a process and a join.

    Args:
        policies: a stack with leading dims `(source, policy)`.
        observation: where the first policy acts before and after it was stored;
            actions are not compared if left out.
    """
    try:
        check_storable(type(policies))
    except TaskspaceError as error:
        raise AssertionError(f"storable: {error}") from error
    shape = policies.stack_shape
    for name, array in policies.arrays().items():
        kind = np.asarray(array).dtype
        assert np.shape(array)[:2] == shape and kind.kind in "fiub", (  # noqa: PT018
            f"dims: Every array must hold numbers and begin with the dims {shape}, but "
            f"{name} is {kind} of shape {np.shape(array)}."
        )
    makers = {
        "stored": lambda: _stored(policies),
        "sent": lambda: pickle.loads(pickle.dumps(policies)),
        "joined": lambda: type(policies).concatenate([policies[:1], policies[1:]]),
    }
    for name, make in makers.items():
        other = make()
        assert type(other) is type(policies), f"{name}: became {type(other).__name__}."
        assert other.settings() == policies.settings(), (
            f"{name}: The settings became {other.settings()}."
        )
        for key, array in policies.arrays().items():
            assert np.array_equal(array, other.arrays()[key], equal_nan=True), (
                f"{name}: The array {key} changed."
            )
        if observation is not None:
            first, again = (one[0, 0].act(observation) for one in (policies, other))
            assert np.array_equal(first, again), (
                f"{name}: The first action {first} became {again}."
            )


def _stored(policies: Policy) -> Policy:
    """Return policies as a run gives them back."""
    shape = policies.stack_shape
    zeros = np.zeros(shape)
    block = TrainedBlock(Trained(policies, zeros.astype(np.int64)), zeros)
    with tempfile.TemporaryDirectory() as name:
        layout = Layout(shape[1], 1, 0, shape[0], ())
        folder = BlockFolder(Path(name), layout, "", np.zeros((1, 1)))
        found = folder.write("0", Block(block), np.zeros((shape[0], 1)))
        back = found.policies
    assert back is not None
    return back.trained.policies


def _defaults(axes: Sequence[ContextAxis]) -> Array:
    return np.array([axis.default for axis in axes], np.float64)


def _difference(first: NDArray[Any], again: NDArray[Any]) -> float:
    """Return the largest difference; two NaN or two infinities do not differ."""
    same = (first == again) | (np.isnan(first) & np.isnan(again))
    with np.errstate(invalid="ignore"):
        return float(np.where(same, 0.0, np.abs(first - again)).max(initial=0.0))
