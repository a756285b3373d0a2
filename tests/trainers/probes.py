"""Small tasks with known values, and random networks."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from taskspace.policies import Mlp
from taskspace.systems.base import ContextAxis
from taskspace.systems.simulated import SimulatedSystem


def random_mlp(rng, leading, sizes, head="argmax", scale=1.0):
    """A stack of networks with normal weights."""
    pairs = list(pairwise(sizes))
    return Mlp(
        weights=tuple(
            (rng.normal(size=(*leading, n, m)) * scale / np.sqrt(n)).astype(np.float32)
            for n, m in pairs
        ),
        biases=tuple(
            (rng.normal(size=(*leading, m)) * 0.1).astype(np.float32) for _, m in pairs
        ),
        head=head,
    )


KINDS = ("constant", "observed", "discounted", "action", "matching", "endless")


@dataclass(frozen=True)
class Probe(SimulatedSystem):
    """Tasks with known values; the context says which one, and scales its reward.

    - `constant`: one step, reward 1.
    - `observed`: one step, the reward is the observation ±1.
    - `discounted`: two steps, observation 0 then 1, reward 1 at the end.
    - `action`: one step, reward +1 for action 1 and −1 for action 0.
    - `matching`: one step, reward 1 if the action fits the observation, else −1.
    - `endless`: reward 1 in every step, never terminates.

    All are one system, so that one compilation serves them all.
    """

    horizon: int = 8
    n_episodes: int = 4
    episode_seed: int = 0

    id: ClassVar[str] = "probe-v0"
    n_observations: ClassVar[int] = 1
    n_actions: ClassVar[int] = 2

    @property
    def axes(self):
        return ContextAxis("kind", 0.0), ContextAxis("scale", 1.0)

    @staticmethod
    def context(kind, scale=1.0):
        return np.array([KINDS.index(kind), scale])

    def reset(self, key, context):
        coin = jnp.where(jax.random.bernoulli(key), 1.0, -1.0).astype(context.dtype)
        return jnp.where((context[0] == 1) | (context[0] == 4), coin, 0)

    def observe(self, state, context):
        return state[None]

    def step(self, state, action, context, key):
        kind = context[0].astype(int)
        sign = 2.0 * action - 1
        one = jnp.ones_like(state)
        rewards = jnp.stack([one, state, state, sign, sign * state, one])
        over = jnp.where(kind == 2, state > 0.5, kind != 5)
        state = jnp.where(kind == 2, state + 1, state)
        return state, rewards[kind] * context[1], over


@dataclass(frozen=True)
class Vector(SimulatedSystem):
    """One step; a continuous action `a` is worth −(a − observation)²."""

    horizon: int = 4
    n_episodes: int = 4
    episode_seed: int = 0

    id: ClassVar[str] = "vector-v0"
    n_observations: ClassVar[int] = 1
    action_size: ClassVar[int] = 1

    @property
    def axes(self):
        return (ContextAxis("scale", 1.0),)

    def reset(self, key, context):
        return jax.random.uniform(key, (), context.dtype, -1, 1)

    def observe(self, state, context):
        return state[None]

    def step(self, state, action, context, key):
        reward = -context[0] * (action[0] - state) ** 2
        return state, reward, jnp.asarray(True)


@dataclass(frozen=True)
class Regulator(SimulatedSystem):
    """x⁺ = x + u, and a step is worth −scale·(x² + u²); it never ends."""

    horizon: int = 16
    n_episodes: int = 4
    episode_seed: int = 0

    id: ClassVar[str] = "regulator-v0"
    n_observations: ClassVar[int] = 1
    action_size: ClassVar[int] = 1

    @property
    def axes(self):
        return (ContextAxis("scale", 1.0),)

    @staticmethod
    def solution(gamma):
        """P of the value −scale·P·x² and the gain, by the discounted Riccati equation.

        P = 1 + γP/(1 + γP) for one state and one input of weight 1.
        """
        P = 1.0
        for _ in range(200):
            P = 1 + gamma * P / (1 + gamma * P)
        return P, gamma * P / (1 + gamma * P)

    def reset(self, key, context):
        return jax.random.uniform(key, (), context.dtype, -1, 1)

    def observe(self, state, context):
        return state[None]

    def step(self, state, action, context, key):
        reward = -context[0] * (state**2 + action[0] ** 2)
        return state + action[0], reward, jnp.asarray(False)
