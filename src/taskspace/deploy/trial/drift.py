"""Episodes in which the context moves while a library keeps up with it."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taskspace._util.arrays import Array
from taskspace.deploy.base import PolicyLibrary
from taskspace.deploy.trial.contenders import Designer
from taskspace.policies import LinearGain
from taskspace.systems.base import System
from taskspace.systems.linear import LinearSystem
from taskspace.systems.simulated import SimulatedSystem

if TYPE_CHECKING:
    from taskspace.trainers.conditioned import ConditionedNetwork

N_EPISODES = 64
N_STEPS = 400
# A step of the simulation is this share of the fastest time constant.
STEP_SHARE = 0.1
MAX_STEPS = 20_000

Way = Callable[..., NDArray[Any]]
"""Gains for measured contexts, or actions for these and for observations, by row."""
Moving = Callable[[int], tuple[Array, Array]]
"""The contexts of a step of all episodes, and what is measured of them."""


def drift_returns(
    library: PolicyLibrary,
    system: System,
    single: int,
    designer: Designer | None,
    *,
    drift: float,
    noise: float,
    seed: int,
    network: "ConditionedNetwork | None" = None,
) -> tuple[dict[str, float], list[str]]:
    """Mean return of each contender in episodes with a moving context.

    The context moves at constant speed from one point of the range to another, `drift`
    widths away on every axis (reflected at the border), and the library selects anew at
    every step. All contenders play the same episodes.

    Args:
        library: the library; outside its range the nearest policy is used.
        system: a linear or simulated system; others cannot change a context on the way.
        single: the policy to play alone.
        designer: makes optimal gains for comparison, None where there is none.
        drift: share of the width of each axis.
        noise: of the measured context, see `try_library`.
        seed: of episodes.
        network: a network that sees the context, to play beside them.

    Returns:
        Mean return by contender, and notes on what could not be had.
    """
    library = library.with_outside("clamp")
    rng = np.random.default_rng(seed + 1)
    reach = library.reach
    start = rng.random((N_EPISODES, len(reach.low)))
    end = start + drift * rng.choice([-1.0, 1.0], start.shape)
    n_steps, dt = N_STEPS, 1.0
    if isinstance(system, SimulatedSystem):
        n_steps = system.horizon
    elif isinstance(system, LinearSystem):
        n_steps, dt = _steps(library, system)

    blur = noise * rng.standard_normal((n_steps, *start.shape))

    def at(step: int) -> tuple[Array, Array]:
        where = start + (end - start) * (step / max(1, n_steps - 1))
        folded = 1 - np.abs(1 - np.mod(where, 2))  # reflected at 0 and 1
        return reach.at(folded), reach.at(folded + blur[step])

    ways: dict[str, Way] = {}
    if isinstance(system, LinearSystem) and isinstance(library.policies, LinearGain):
        gain = library.policies.gain
        ways["library"] = lambda measured: gain[library.select(measured).policy]
        ways["one policy of it"] = lambda measured: gain[np.full(len(measured), single)]
        if designer is not None and designer.pool is None:
            ways["designed anew at every step"] = lambda measured: np.asarray(
                designer(np.clip(measured, library.low, library.high)).arrays()["gain"]
            )
        states = rng.multivariate_normal(
            np.zeros(gain.shape[-1]), system.initial_covariance, N_EPISODES
        )
        play = partial(_linear, library, system, at, states, n_steps, dt)
    elif isinstance(system, SimulatedSystem):
        ways["library"] = lambda measured, seen: library.act_as(
            library.select(measured).policy, seen
        )
        ways["one policy of it"] = lambda measured, seen: library.act_as(
            np.full(len(measured), single), seen
        )
        if network is not None:
            ways["network with context"] = partial(_act_sighted, library, network)
        play = partial(_simulated, library, system, at, n_steps)
    else:
        return {}, [
            f"{system.id} cannot change its context during an episode, so drift was "
            "not tried."
        ]
    return {name: play(way) for name, way in ways.items()}, []


def _act_sighted(
    library: PolicyLibrary,
    network: "ConditionedNetwork",
    measured: NDArray[Any],
    seen: NDArray[Any],
) -> NDArray[Any]:
    """Return the actions of a network that sees the context."""
    columns = [library.names.index(name) for name in network.axes]
    inside = np.clip(measured, library.low, library.high)[:, columns]
    both = np.concatenate([seen, network.scaled(inside)], axis=1)
    return np.array([network.network.act(row) for row in both])


def _steps(library: PolicyLibrary, system: LinearSystem) -> tuple[int, float]:
    """Return number and length of steps, as fine as the fastest mode at the centre.

    Long enough for the slowest mode of the centre to die out, or the system's horizon.
    """
    centre = library.contexts(system, (library.low / 2 + library.high / 2)[None])
    A, B, _, _ = system.matrices(centre)
    K, _ = system.optimal_gain(centre)
    modes = np.linalg.eigvals(A[0] - B[0] @ K[0])
    if not system.is_continuous:
        last = system.horizon if np.isfinite(system.horizon) else N_STEPS
        return int(min(last, MAX_STEPS)), 1.0
    dt = STEP_SHARE / float(np.abs(modes).max())
    slowest = float(-modes.real.max())
    length = 8 / slowest if slowest > 0 else N_STEPS * dt
    if np.isfinite(system.horizon):
        length = float(system.horizon)
    return int(np.clip(np.ceil(length / dt), 2, MAX_STEPS)), dt


def _linear(
    library: PolicyLibrary,
    system: LinearSystem,
    at: Moving,
    states: Array,
    n_steps: int,
    dt: float,
    way: Way,
) -> float:
    """Mean of −cost; the context and the gain are held over each step (RK4)."""
    x, cost = states.copy(), np.zeros(len(states))
    for step in range(n_steps):
        rows, measured = at(step)
        K = way(measured)
        A, B, Q, R = system.matrices(library.contexts(system, rows))
        closed = A - B @ K
        weight = Q + np.swapaxes(K, 1, 2) @ R @ K

        def rate(x: NDArray, closed: NDArray = closed) -> NDArray:
            return np.einsum("nij,nj->ni", closed, x)

        def price(x: NDArray, weight: NDArray = weight) -> NDArray:
            return np.einsum("ni,nij,nj->n", x, weight, x)

        if not system.is_continuous:
            cost += price(x)
            x = rate(x)
            continue
        k1 = rate(x)
        k2 = rate(x + dt / 2 * k1)
        k3 = rate(x + dt / 2 * k2)
        k4 = rate(x + dt * k3)
        middle = price(x + dt / 2 * k2)
        following = x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        cost += dt / 6 * (price(x) + 4 * middle + price(following))
        x = following
    mean = float(cost.mean())
    return -mean if np.isfinite(mean) else -np.inf


def _simulated(
    library: PolicyLibrary, system: SimulatedSystem, at: Moving, n_steps: int, way: Way
) -> float:
    """Mean return of episodes played side by side."""
    import jax

    with jax.enable_x64(False):
        step = jax.jit(jax.vmap(system.step))
        observe = jax.jit(jax.vmap(system.observe))
        keys = jax.random.split(jax.random.key(system.episode_seed), len(at(0)[0]))
        rows: Any = library.contexts(system, at(0)[0]).astype(np.float32)
        state = jax.vmap(system.reset)(keys, rows)
        total, alive = np.zeros(len(rows)), np.ones(len(rows), bool)
        for t in range(n_steps):
            where, measured = at(t)
            rows = library.contexts(system, where).astype(np.float32)
            seen = np.asarray(observe(state, rows))
            action = way(measured, seen)
            noise = jax.vmap(jax.random.fold_in, (0, None))(keys, t)
            if action.dtype.kind == "f":
                action = action.astype(np.float32)
            state, reward, ended = step(state, action, rows, noise)
            total += np.where(alive, np.asarray(reward), 0.0)
            alive &= ~np.asarray(ended)
            if not alive.any():
                break
    return float(total.mean())
