"""The policy that does nothing, and what it scores: the least to beat."""

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import TaskspaceError
from taskspace.policies import Mlp
from taskspace.systems.base import System
from taskspace.systems.episodic import EpisodicSystem
from taskspace.systems.gymnasium import GymnasiumSystem
from taskspace.systems.simulated import SimulatedSystem

Head = Literal["argmax", "clip"]

N_EPISODES = 4
N_CONTEXTS = 9


def zero_performance(
    system: System, contexts: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
    """Return what a policy scores whose outputs are zero (the first discrete action).

    At most nine contexts, spread evenly, and four episodes: enough to see whether
    trained policies are better than that.

    Args:
        system: the tasks.
        contexts: full context rows, shape `(target, len(axes))`.

    Returns:
        Which of the contexts were tried, ascending, and J at each of them; `None` where
        no networks are played.

    Examples:
        >>> from taskspace.systems.cartpole import CartPole
        >>> row = np.array([[axis.default for axis in CartPole().axes]])
        >>> zero_performance(CartPole(), row)[1].tolist()  # always push left
        [9.5]
    """
    sizes = network_sizes(system)
    if sizes is None or not isinstance(system, EpisodicSystem):
        return None
    n_in, n_out, head = sizes
    weight, bias = np.zeros((1, 1, n_in, n_out)), np.zeros((1, 1, n_out))
    zero = Mlp((weight.astype(np.float32),), (bias.astype(np.float32),), head=head)
    n_tried = min(len(contexts), N_CONTEXTS)
    rows = np.unique(np.linspace(0, len(contexts) - 1, n_tried).round().astype(int))
    episodes = range(min(system.n_episodes, N_EPISODES))
    returns = system.returns(zero, contexts[rows], episodes=episodes)
    return rows, returns[0, 0].mean(-1, dtype=float)


def network_sizes(system: System) -> tuple[int, int, Head] | None:
    """Return inputs, outputs and head of a network that plays a system, else None.

    Args:
        system: the system.
    """
    if isinstance(system, SimulatedSystem):
        n_out = system.n_actions or system.action_size
        return system.n_observations, n_out, "argmax" if system.n_actions else "clip"
    if not isinstance(system, GymnasiumSystem):
        return None
    from gymnasium.spaces import Box, Discrete

    environment = system.environment(np.array([a.default for a in system.axes]))
    seen, acts = environment.observation_space, environment.action_space
    environment.close()
    if not isinstance(seen, Box) or not isinstance(acts, Box | Discrete):
        raise TaskspaceError(
            "Networks are known for Box observations and Box or Discrete actions, but "
            f"the environment has {seen} and {acts}."
        )
    n_in = math.prod(seen.shape)
    if isinstance(acts, Discrete):
        return n_in, int(acts.n), "argmax"
    return n_in, math.prod(acts.shape), "clip"
