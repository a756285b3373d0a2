"""What a system and a trainer must satisfy; `taskspace doctor` prints these checks.

A simulator that computes a derived quantity once (a total mass, an inertia) and is
then given another parameter goes on with the old one. Gymnasium's CartPole under CARL
did so: its cart mass had no effect at all. Such an axis is dead: the check moves one
axis at a time and looks whether anything that follows changes.

A flipped sign can be found only where policies come from elsewhere than the same
reward: LQR gains, given policies with homes, a known optimum. A learner that maximises
a flipped reward learns the wrong thing perfectly well.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace.errors import TaskspaceError
from taskspace.policies import LinearGain, Mlp, Policy, TabularPolicy
from taskspace.systems.base import ContextAxis, System
from taskspace.systems.baselines import network_sizes
from taskspace.systems.episodic import EpisodicSystem
from taskspace.systems.function import FunctionSystem, PythonPolicies
from taskspace.systems.gymnasium import GymnasiumSystem
from taskspace.systems.linear import LinearSystem
from taskspace.systems.simulated import SimulatedSystem
from taskspace.systems.tabular import TabularFamily
from taskspace.testing.checks import Check, assert_all
from taskspace.trainers import Lqr, Trainer
from taskspace.trainers.base import shortened

__all__ = [
    "assert_system",
    "check_environment",
    "check_system",
    "dead_axes",
    "environment_outcomes",
    "random_policies",
    "system_outcomes",
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
Verdict = tuple[bool | None, str]
"""`ok` and `detail` of a `Check`."""


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
    assert_all(check_system(system, trainer, **options))


def check_system(
    system: System,
    trainer: Trainer | None = None,
    *,
    seed: int = 0,
    context: Array | None = None,
) -> list[Check]:
    """Return all checks of a system and, if one is given or suits it, a trainer.

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
    if trainer is None and isinstance(system, LinearSystem):
        trainer = Lqr()
    row = _defaults(system.axes) if context is None else np.asarray(context, np.float64)
    trial = _Trial(system, trainer, row, seed)
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
            found.append(Check(name, *check(trial)))
        except Exception as error:
            ours = isinstance(error, TaskspaceError)
            kind = "" if ours else f"{type(error).__name__}: "
            found.append(Check(name, False, f"{kind}{error}"))
    return found


def check_environment(
    make: Callable[[Array], Any], axes: Sequence[ContextAxis], *, n_steps: int = 100
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
    row = _defaults(axes)
    same = np.array_equal(outcomes(row), outcomes(row), equal_nan=True)
    detail = "Two episodes with the same seed and actions are the same."
    if not same:
        detail = (
            "Two episodes with the same seed and actions differ: draw random numbers "
            "from self.np_random only, which reset(seed=...) sets."
        )
    return [
        Check("axes alive", *_alive(dead_axes(outcomes, axes))),
        Check("deterministic", same, detail),
    ]


def dead_axes(
    outcomes: Outcomes, axes: Sequence[ContextAxis], *, context: Array | None = None
) -> list[str]:
    """Return the axes that change nothing, however far they move within their bounds.

    Args:
        outcomes: what happens in a context, e.g. `system_outcomes(system)`.
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


def system_outcomes(
    system: SimulatedSystem, *, n_episodes: int = 8, n_steps: int = 20, seed: int = 0
) -> Outcomes:
    """Return observations and rewards of a simulated system under random actions.

    Args:
        system: the system.
        n_episodes: episodes, each with its own start and actions.
        n_steps: steps of each episode; the end of an episode is ignored.
        seed: seed of starts and actions.

    Returns:
        A function of the context with values of shape
        `(n_episodes, n_steps, n_observations + 1)`.
    """
    from taskspace.systems.rollouts import wander

    return lambda context: np.asarray(
        wander(system, n_episodes, n_steps, seed, context)
    )


def environment_outcomes(
    make: Callable[[Array], Any],
    *,
    n_episodes: int = 4,
    n_steps: int = 20,
    seed: int = 0,
) -> Outcomes:
    """Return observations and rewards of environments under random actions.

    Args:
        make: makes the environment of a context; anything with Gymnasium's
            `reset`, `step` and `action_space`.
        n_episodes: episodes, each with its own seed.
        n_steps: steps of each episode, unless it ends before.
        seed: seed of starts and actions.

    Returns:
        A function of the context with values of shape
        `(n_episodes, n_steps, n_observations + 1)`, NaN after the end.
    """

    def outcomes(context: Array) -> NDArray[Any]:
        environment = make(context)
        episodes = []
        for episode in range(n_episodes):
            environment.action_space.seed(seed + episode)
            observation, _ = environment.reset(seed=seed + episode)
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


def random_policies(system: System, n: int, seed: int = 0) -> Policy | None:
    """Return policies that know nothing of the task; None if it is not known how.

    Args:
        system: the system.
        n: how many, one per source.
        seed: of the random numbers.
    """
    rng = np.random.default_rng(seed)
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
    if (shape := network_sizes(system)) is None:
        return None
    n_in, n_out, head = shape
    sizes = ((n_in, 16), (16, n_out))
    weights = [rng.standard_normal((n, 1, *s)) / math.sqrt(s[0]) for s in sizes]
    return Mlp(
        weights=tuple(w.astype(np.float32) for w in weights),
        biases=tuple(np.zeros((n, 1, s[1]), np.float32) for s in sizes),
        head=head,
    )


class _Trial:
    """A system on trial, with few episodes and steps; costly parts are made once."""

    def __init__(self, system: System, trainer: Trainer | None, row: Array, seed: int):
        most = {"total_steps": TRIAL_STEPS, "n_policies": 1}
        if isinstance(system, GymnasiumSystem):
            n_episodes = min(system.n_episodes, GYMNASIUM_EPISODES)
            system = replace(system, n_episodes=n_episodes)
            most |= {"total_steps": TRIAL_STEPS // 4, "n_evaluation_episodes": 5}
        self.system, self.row, self.seed = system, row, seed
        self.trainer = None if trainer is None else shortened(trainer, most)

    def train(self) -> Policy:
        """Return the policies of one source."""
        assert self.trainer is not None
        return self.trainer.train(self.system, self.row[None], seed=self.seed).policies

    @cached_property
    def trained(self) -> tuple[Policy, float]:
        """Policies of one source, and the seconds that they took."""
        began = time.perf_counter()
        return self.train(), time.perf_counter() - began

    @cached_property
    def random(self) -> Policy:
        """Policies that know nothing of the task."""
        policies = random_policies(self.system, 6, self.seed)
        if policies is None:
            raise TaskspaceError(
                f"It is not known how to make policies for {self.system.id}; give "
                "examples (FunctionSystem) or a trainer."
            )
        return policies

    @cached_property
    def policies(self) -> Policy:
        """Something to evaluate: random policies, else trained ones."""
        try:
            return self.random
        except TaskspaceError:
            if self.trainer is None:
                raise
            return self.trained[0]

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


def _shapes(trial: _Trial) -> Verdict:
    system = trial.system
    names = [axis.name for axis in system.axes]
    if len(set(names)) < len(names):
        return False, f"Names of axes must differ, but are {names}."
    for axis in system.axes:
        if not axis.allows(np.array([axis.default]))[0]:
            said = f"{axis.bounds} must hold, but its default is {axis.default:g}."
            return False, said
    policies, contexts, values = trial.policies, trial.contexts, trial.scores
    wanted = (*policies.stack_shape, len(contexts))
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
    few = min(wanted[0], len(contexts))
    home = system.home_performance(policies[:few], contexts[:few])
    own = values[np.arange(few), :, np.arange(few)]
    if home.shape != own.shape or not np.allclose(home, own, rtol=1e-6):
        return False, (
            "home_performance must equal performance at the policies' own sources, "
            f"but differs by {np.abs(home - own).max():g}."
        )
    return True, f"J is float64 with dims {wanted}, axes {names}."


def _axes_alive(trial: _Trial) -> Verdict:
    system = trial.system
    if isinstance(system, TabularFamily):
        values = np.asarray(system.values)[:, None]
        scores = system.state_values(trial.random, values)
        alive = len(values) < 2 or (scores[:, :, :1] != scores).any()
        return _alive([] if alive else ["theta"])
    policies = trial.policies
    ways: list[Outcomes] = [lambda row: system.performance(policies, row[None])]
    if isinstance(system, GymnasiumSystem):  # steps are cheaper than episodes
        ways.insert(0, environment_outcomes(system.environment, n_steps=100))
    elif isinstance(system, SimulatedSystem):
        ways = [system_outcomes(system)]
    dead = [axis.name for axis in system.axes]
    for outcomes in ways:
        if dead:
            still = dead_axes(outcomes, system.axes, context=trial.row)
            dead = [name for name in dead if name in still]
    return _alive(dead)


def _deterministic(trial: _Trial) -> Verdict:
    system, policies, contexts = trial.system, trial.policies, trial.contexts
    scores = trial.scores
    if apart := _difference(scores, system.performance(policies, contexts)):
        return False, (
            f"Two evaluations of the same policies differ by up to {apart:g}: all "
            "randomness must come from a seed that is set for every episode."
        )
    # J of a policy must not depend on what is evaluated with it.
    alone = system.performance(policies[-1:], contexts[::-1])[:, :, ::-1]
    rounding = 1e-6 * np.abs(scores[np.isfinite(scores)]).max(initial=0.0)
    if (apart := _difference(scores[-1:], alone)) > rounding:
        return False, (
            f"A policy scores differently (by up to {apart:g}) when it is evaluated "
            "alone or in another order: random numbers must depend on the episode "
            "alone."
        )
    if isinstance(system, EpisodicSystem) and system.n_episodes > 1:
        last = system.n_episodes - 1
        together = system.returns(policies, contexts)[..., -1:]
        one = system.returns(policies, contexts, episodes=[last])
        if (apart := _difference(together, one)) > rounding:
            return False, (
                f"Episode {last} gives other returns (by up to {apart:g}) when it is "
                "played alone: they must depend on the episode's number alone."
            )
    return True, "A policy scores the same again, alone, and in another order."


def _larger_is_better(trial: _Trial) -> Verdict:
    system = trial.system
    if isinstance(system, FunctionSystem):
        return _homes_are_best(trial, system)
    random = system.performance(trial.random, trial.row[None])[:, 0, 0]
    optimum = system.optimum(trial.row[None])
    best = np.nan if optimum is None else float(optimum[0])
    slack = 1e-9 * abs(best) if np.isfinite(best) else 0.0
    if (random > best + slack).any():
        return False, (
            f"A random policy has J = {random.max():g}, more than the optimum "
            f"{best:g}: is the sign of J flipped?"
        )
    if trial.trainer is None:
        if not np.isnan(best):
            return True, f"No random policy exceeds {best:g}."
        return None, "Skipped: give a trainer whose policy can be compared with chance."
    score = float(system.performance(trial.trained[0], trial.row[None]).max())
    chance = float(np.median(random))
    compared = (
        f"A trained policy has J = {score:g} at home, random ones {chance:g} (median)"
    )
    if score > chance or (score == chance and score == random.max()):
        return True, f"{compared}."
    return False, (
        f"{compared}: is the sign of J flipped (larger must be better), or was the "
        "trial training too short?"
    )


def _homes_are_best(trial: _Trial, system: FunctionSystem) -> Verdict:
    if len(system.homes) < 2:
        return None, "Skipped: give examples with their homes."
    names = [axis.name for axis in system.axes]
    rows = np.tile(trial.row, (len(system.homes), 1))
    for i, home in enumerate(system.homes):
        for axis, value in home.items():
            rows[i, names.index(axis)] = value
    values = system.performance(PythonPolicies(list(system.examples)), rows)[:, 0]
    rank = float((np.diagonal(values)[None, :] >= values).mean())
    rating = f"At their homes the examples are at least as good as {100 * rank:.0f} %"
    if rank >= 0.5:
        return True, f"{rating} of all examples."
    return False, (
        f"{rating} of all examples only: is the sign of J flipped (larger must be "
        "better)?"
    )


def _trainer_is_pure(trial: _Trial) -> Verdict:
    if trial.trainer is None:
        return None, "Skipped: none was given."
    first, seconds = trial.trained
    if seconds > LONG_TRAINING:
        return None, f"Skipped: one training took {seconds:.0f} s."
    again = trial.train()
    for name, array in first.arrays().items():
        # Objects have no values to compare; what they do is compared below.
        if array.dtype != object and not np.array_equal(array, again.arrays()[name]):
            return False, (
                f"Two trainings with the same seed differ in {name!r}: all randomness "
                "must come from the seed."
            )
    scores, same, other = (
        trial.system.performance(each, trial.contexts) for each in (first, first, again)
    )
    if _difference(scores, same):
        return None, "Skipped: two evaluations of the same policies differ."
    if apart := _difference(scores, other):
        return False, (
            "The policies of two trainings with the same seed score differently (by up "
            f"to {apart:g}): all randomness must come from the seed."
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


def _defaults(axes: Sequence[ContextAxis]) -> Array:
    return np.array([axis.default for axis in axes], np.float64)


def _difference(first: NDArray[Any], again: NDArray[Any]) -> float:
    same = (first == again) | (np.isnan(first) & np.isnan(again))
    with np.errstate(invalid="ignore"):
        return float(np.where(same, 0.0, np.abs(first - again)).max(initial=0.0))
