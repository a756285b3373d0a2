"""Policies that know nothing of a task, and what they score: the least to beat."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskspace.errors import TaskspaceError
from taskspace.policies import LinearGain, Mlp, Policy, TabularPolicy
from taskspace.systems.base import System
from taskspace.systems.episodic import EpisodicSystem
from taskspace.systems.function import FunctionSystem, PythonPolicies
from taskspace.systems.gymnasium import GymnasiumSystem
from taskspace.systems.linear import LinearSystem
from taskspace.systems.simulated import SimulatedSystem
from taskspace.systems.tabular import TabularFamily

N_EPISODES = 4
N_CONTEXTS = 9


@dataclass(frozen=True, eq=False)
class Baselines:
    """What policies that know nothing score at some contexts.

    Args:
        rows: which of the contexts were tried, ascending.
        random: median J of random policies at each of them.
        zero: J of the policy that does nothing (its outputs are zero; the first of
            discrete actions) at each of them.
        n_random: how many random policies.
        n_episodes: episodes of each, 0 where J is not a mean.
    """

    rows: NDArray[np.int64]
    random: NDArray[np.float64]
    zero: NDArray[np.float64]
    n_random: int
    n_episodes: int


def baseline_performance(
    system: System,
    contexts: NDArray[np.float64],
    *,
    n_random: int = 8,
    seed: int = 0,
) -> Baselines | None:
    """Scores of random policies and of one that does nothing, cheaply.

    At most nine contexts, spread evenly, and four episodes: enough to see whether
    trained policies are better than that.

    Args:
        system: the tasks.
        contexts: full context rows, shape `(target, len(axes))`.
        n_random: random policies to try.
        seed: of the random policies.

    Returns:
        The scores; `None` where it is not known how to make such policies.

    Examples:
        >>> from taskspace.systems.cartpole import CartPole
        >>> system = CartPole()
        >>> row = np.array([[axis.default for axis in system.axes]])
        >>> baseline_performance(system, row).zero.tolist()  # always push left
        [9.5]
    """
    n_tried = min(len(contexts), N_CONTEXTS)
    rows = np.unique(np.linspace(0, len(contexts) - 1, n_tried).round().astype(int))
    tried = contexts[rows]
    if isinstance(system, LinearSystem):
        gain, _ = system.optimal_gain(tried[len(tried) // 2][None])
        noise = np.random.default_rng(seed).standard_normal((n_random, *gain.shape))
        random: Policy | None = LinearGain(noise * np.maximum(abs(gain).max(), 0.1))
    else:
        random = random_policies(system, n_random, seed)
    zero = zero_policy(system)
    if random is None or zero is None:
        return None

    def median(policies: Policy) -> NDArray[np.float64]:
        return np.median(_scores(system, policies, tried)[:, 0], axis=0)

    n_episodes = min(system.n_episodes, N_EPISODES)
    return Baselines(rows, median(random), median(zero), n_random, n_episodes)


def _scores(
    system: System, policies: Policy, contexts: NDArray[np.float64]
) -> NDArray[np.float64]:
    if not isinstance(system, EpisodicSystem):
        return system.performance(policies, contexts)
    episodes = range(min(system.n_episodes, N_EPISODES))
    return system.returns(policies, contexts, episodes=episodes).mean(-1, dtype=float)


def zero_policy(system: System) -> Policy | None:
    """Return the policy that does nothing, dims `(1, 1)`; `None` if unknown how.

    Args:
        system: the system.
    """
    random = random_policies(system, 1)
    if isinstance(random, TabularPolicy):
        always_first = np.zeros_like(random.probabilities)
        always_first[..., 0] = 1.0
        return TabularPolicy(always_first)
    if random is None or isinstance(random, PythonPolicies):
        return None
    arrays = {name: np.zeros_like(array) for name, array in random.arrays().items()}
    return type(random).from_arrays(arrays, random.settings())


def random_policies(system: System, n: int, seed: int = 0) -> Policy | None:
    """Policies that know nothing of the task, one per source; None if unknown how.

    Args:
        system: the system.
        n: how many.
        seed: of the random numbers.
    """
    rng = np.random.default_rng(seed)
    if isinstance(system, FunctionSystem):
        n_examples = len(system.examples)  # they may be an array
        return PythonPolicies(list(system.examples)) if n_examples else None
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
