"""Finding dead context axes: parameters that are set but do not reach the physics.

A simulator that computes a derived quantity once (a total mass, an inertia) and is
then given another parameter goes on with the old one. Gymnasium's CartPole under
CARL did so: its cart mass had no effect at all. The check moves one axis at a time
and looks whether anything that follows changes.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.systems.base import ContextAxis
from taskspace.systems.simulated import SimulatedSystem

MOVES = (0.1, -0.5, 1.0, -0.9, 9.0, -0.99)
"""How far an axis is moved, as parts of its value, until something changes."""

Outcomes = Callable[[NDArray[np.float64]], NDArray[Any]]
"""What happens in a context, from starts and actions that do not depend on it."""


def dead_axes(
    outcomes: Outcomes,
    axes: Sequence[ContextAxis],
    *,
    context: NDArray[np.float64] | None = None,
    relative_step: float = 0.1,
) -> list[str]:
    """Names of the axes that change nothing when they move.

    Args:
        outcomes: what happens in a context, e.g. `system_outcomes(system)`.
        axes: the context axes, in the order of a context row.
        context: where to start from; the defaults of the axes if not given.
        relative_step: how far to move, as a part of the value (1 + value at zero).

    Returns:
        Dead axes in the order of `axes`; empty if every axis is alive.
    """
    if context is None:
        context = np.array([axis.default for axis in axes])
    before = outcomes(context)
    dead = []
    for i, axis in enumerate(axes):
        move = relative_step * (abs(context[i]) or 1.0)
        moved = context.copy()
        moved[i] += move
        if not axis.allows(moved[i : i + 1])[0]:
            moved[i] = context[i] - move
        if np.array_equal(before, outcomes(moved), equal_nan=True):
            dead.append(axis.name)
    return dead


def never_alive(
    outcomes: Outcomes,
    axes: Sequence[ContextAxis],
    context: NDArray[np.float64] | None = None,
) -> list[str]:
    """Axes that change nothing, however far they are moved within their bounds.

    Args:
        outcomes: what happens in a context.
        axes: the context axes, in the order of a context row.
        context: where to start from; the defaults of the axes if not given.
    """
    dead = [axis.name for axis in axes]
    for move in MOVES:
        still = dead_axes(outcomes, axes, context=context, relative_step=move)
        dead = [name for name in dead if name in still]
        if not dead:
            break
    return dead


def system_outcomes(
    system: SimulatedSystem, *, n_episodes: int = 8, n_steps: int = 20, seed: int = 0
) -> Outcomes:
    """Observations and rewards of a simulated system under random actions.

    Args:
        system: the system.
        n_episodes: episodes, each with its own start and actions.
        n_steps: steps of each episode; the end of an episode is not heeded.
        seed: seed of starts and actions.

    Returns:
        A function of the context with values of shape
        `(n_episodes, n_steps, n_observations + 1)`.
    """
    from taskspace.systems.rollouts import wander

    def outcomes(context: NDArray[np.float64]) -> NDArray[Any]:
        return np.asarray(wander(system, n_episodes, n_steps, seed, context))

    return outcomes


def environment_outcomes(
    make: Callable[[NDArray[np.float64]], Any],
    *,
    n_episodes: int = 4,
    n_steps: int = 20,
    seed: int = 0,
) -> Outcomes:
    """Observations and rewards of Gymnasium environments under random actions.

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

    def outcomes(context: NDArray[np.float64]) -> NDArray[Any]:
        environment = make(context)
        episodes = []
        for episode in range(n_episodes):
            environment.action_space.seed(seed + episode)
            observation, _ = environment.reset(seed=seed + episode)
            size = np.size(observation) + 1
            rows = np.full((n_steps, size), np.nan)
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
