"""What a system is tried with: random policies, and axes moved near and far."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import TaskspaceError
from taskspace.policies import LinearGain, Mlp, Policy, TabularPolicy
from taskspace.systems.base import ContextAxis, System
from taskspace.systems.function import FunctionSystem, PythonPolicies
from taskspace.systems.gymnasium import GymnasiumSystem
from taskspace.systems.linear import LinearSystem
from taskspace.systems.liveness import Outcomes, dead_axes
from taskspace.systems.simulated import SimulatedSystem
from taskspace.systems.tabular import TabularFamily

__all__ = ["never_alive", "random_policies"]

MOVES = (0.1, -0.5, 1.0, -0.9, 9.0, -0.99)
"""How far an axis is moved, as parts of its value, until something changes."""


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


def random_policies(system: System, n: int, seed: int = 0) -> Policy | None:
    """Policies that know nothing of the task, one a source; None if unknown how.

    Args:
        system: the system.
        n: how many.
        seed: of the random numbers.
    """
    rng = np.random.default_rng(seed)
    if isinstance(system, FunctionSystem):
        return PythonPolicies(list(system.examples)) if system.examples else None
    row = np.array([[axis.default for axis in system.axes]])
    if isinstance(system, LinearSystem):
        gain, _ = system.optimal_gain(row)
        noise = rng.standard_normal((n, 1, *gain.shape[1:]))
        # From as large as the gain to a hundredth of it: of a plant with many states
        # hardly any large one is stable.
        scale = np.maximum(abs(gain).max(), 0.1) * np.geomspace(1, 0.01, n)
        return LinearGain(gain + scale[:, None, None, None] * noise)
    if isinstance(system, TabularFamily):
        actions = rng.integers(system.n_actions, size=(n, 1, system.n_states))
        return TabularPolicy(np.eye(system.n_actions)[actions])
    if isinstance(system, GymnasiumSystem):
        return _random_networks(rng, n, *_gymnasium_sizes(system, row[0]))
    if isinstance(system, SimulatedSystem):
        n_out = system.n_actions or system.action_size
        head = "argmax" if system.n_actions else "clip"
        return _random_networks(rng, n, system.n_observations, n_out, head)
    return None


def _gymnasium_sizes(
    system: GymnasiumSystem, row: NDArray[np.float64]
) -> tuple[int, int, str]:
    from gymnasium.spaces import Box, Discrete

    environment = system.environment(row)
    seen, acts = environment.observation_space, environment.action_space
    environment.close()
    if not isinstance(seen, Box) or not isinstance(acts, Box | Discrete):
        raise TaskspaceError(
            "Random policies are known for Box observations and Box or Discrete "
            f"actions, but the environment has {seen} and {acts}."
        )
    n_in = math.prod(seen.shape)
    if isinstance(acts, Discrete):
        return n_in, int(acts.n), "argmax"
    return n_in, math.prod(acts.shape), "clip"


def _random_networks(
    rng: np.random.Generator, n: int, n_in: int, n_out: int, head: str
) -> Mlp:
    sizes = ((n_in, 16), (16, n_out))
    weights = [rng.standard_normal((n, 1, *s)) / math.sqrt(s[0]) for s in sizes]
    kind: Any = head
    return Mlp(
        weights=tuple(w.astype(np.float32) for w in weights),
        biases=tuple(np.zeros((n, 1, s[1]), np.float32) for s in sizes),
        head=kind,
    )
