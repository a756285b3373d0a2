"""Policies at work: trajectories at a target, and of the same policy at home.

Any linear and any simulated system can be played. A page draws the states that it
knows (a cart with a pole, a pendulum, a mass on a spring) and shows others as lines.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

from taskspace.policies import LinearGain, Policy
from taskspace.systems.base import System
from taskspace.systems.linear import LinearSystem
from taskspace.systems.simulated import SimulatedSystem

FRAMES = 150
"""Moments of a trajectory that are kept: enough for a smooth picture."""

LINEAR_SECONDS = 6.0
"""How long a linear system in continuous time is watched."""

SCENES = {
    ("x", "x_dot", "theta", "theta_dot"): "cart-pole",
    ("theta", "theta_dot"): "pendulum",
}
"""How states with these names are drawn."""


@dataclass(frozen=True, eq=False)
class Trajectories:
    """States over time, one trajectory for each pair of policy and context.

    Args:
        scene: how to draw a state: `cart-pole`, `pendulum`, `mass` or `lines`.
        names: names of the states.
        seconds: time between two moments.
        states: dims `(pair, moment, state)`; after the end the last one stays.
        ends: moments until each episode ended.
        scores: return of the episode, NaN for a linear system.
        start: how an episode begins, for people.
    """

    scene: str
    names: tuple[str, ...]
    seconds: float
    states: NDArray[np.float32]
    ends: NDArray[np.int64]
    scores: NDArray[np.float64]
    start: str


def can_play(system: System) -> bool:
    """Return whether trajectories of a system can be made.

    Args:
        system: the system.
    """
    return isinstance(system, LinearSystem | SimulatedSystem)


def play(
    system: System, policies: Policy, contexts: NDArray[np.float64]
) -> Trajectories:
    """Play policy `i` at context `i`, for all of them.

    Args:
        system: a linear or a simulated system.
        policies: a stack with one leading dim, `(pair,)`.
        contexts: full context rows, shape `(pair, len(axes))`.
    """
    if isinstance(system, SimulatedSystem):
        return _play_episodes(system, policies, contexts)
    assert isinstance(system, LinearSystem)
    assert isinstance(policies, LinearGain)
    return _play_linear(system, policies, contexts)


def _play_linear(
    system: LinearSystem, policies: LinearGain, contexts: NDArray[np.float64]
) -> Trajectories:
    """Release closed loops from a displaced first state, by matrix exponentials."""
    A, B, _, _ = system.matrices(contexts)
    closed = A - B @ policies.gain
    n = closed.shape[-1]
    seconds = LINEAR_SECONDS / FRAMES if system.is_continuous else 1.0
    states = np.zeros((len(closed), FRAMES + 1, n))
    states[:, 0, 0] = 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        step = expm(seconds * closed) if system.is_continuous else closed
        for moment in range(FRAMES):
            states[:, moment + 1] = np.einsum("pij,pj->pi", step, states[:, moment])
    states = np.clip(np.nan_to_num(states, nan=1e6), -1e6, 1e6)
    return Trajectories(
        "mass" if n == 2 else "lines",
        tuple(f"state {i + 1}" for i in range(n)),
        seconds,
        states.astype(np.float32),
        np.full(len(closed), FRAMES),
        np.full(len(closed), np.nan),
        "released at rest from a displacement of 1",
    )


def _play_episodes(
    system: SimulatedSystem, policies: Policy, contexts: NDArray[np.float64]
) -> Trajectories:
    """Return the first episode of each pair, by the functions that performance uses."""
    import jax

    from taskspace.systems.rollouts import Head, trajectories

    stack = system._checked(policies)
    layers = tuple(
        (np.asarray(weight, np.float32), np.asarray(bias, np.float32))
        for weight, bias in zip(stack.weights, stack.biases, strict=True)
    )
    with jax.enable_x64(False):
        rows = np.asarray(contexts, np.float32)
        states, ends, scores = trajectories(system, layers, Head.of(stack), rows)
    values = np.stack(
        [np.asarray(v, np.float32).reshape(len(contexts), -1) for v in states], axis=-1
    )
    names = tuple(getattr(states, "_fields", ())) or tuple(
        f"state {i + 1}" for i in range(values.shape[-1])
    )
    every = -(-system.horizon // FRAMES)
    axis = [a.name for a in system.axes]
    seconds = 1.0
    if "time_step" in axis:
        seconds = float(contexts[0, axis.index("time_step")])
    return Trajectories(
        SCENES.get(names, "lines"),
        names,
        seconds * every,
        values[:, ::every],
        -(-np.asarray(ends) // every),
        np.asarray(scores, np.float64),
        "the first episode of the evaluation",
    )
