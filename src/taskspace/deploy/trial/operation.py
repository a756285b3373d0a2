"""A library in operation: contexts measured with error, drifting, policies switching.

What is proven must hold here too: true contexts are measured at the ends of the error,
and an adversary moves the context, in jumps or at the largest rate, always where the
state, or the cost that is still to come, grows most.
"""

from copy import copy
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import (
    eigh,
    expm,
    solve_continuous_lyapunov,
    solve_discrete_lyapunov,
)

from taskspace.deploy.base import PolicyLibrary
from taskspace.policies import LinearGain
from taskspace.systems.base import System
from taskspace.systems.linear import LinearSystem

N_STARTS, N_STEPS, N_PLACES = 6, 300, 12
# Turns of a context that drifts slowly, each a quarter of the dwell time.
N_TURNS = 80
# Steps at the rates for which costs are proven, each a share of the fastest mode.
N_PUSHES, PUSH = 60, 0.2


@dataclass(frozen=True)
class OperationTrial:
    """What an adversary that moves the context achieved.

    Args:
        n_trajectories: trajectories that were played.
        n_switches: switches between policies in all of them.
        growth: largest growth of the state along them, in the norm of the proof.
        shrinkage: largest share of the state that was left at the end.
        cost_ratio: largest cost over that of the first context, standing still, while
            the context moved at the rates proven for costs; None where none are.
        is_kept: whether what is proven was kept; None where nothing is.
    """

    n_trajectories: int
    n_switches: int
    growth: float
    shrinkage: float
    cost_ratio: float | None
    is_kept: bool | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def measured_near(
    library: PolicyLibrary, rows: NDArray[np.float64]
) -> list[NDArray[np.float64]]:
    """Return what may be measured of true contexts: the ends of the error, all of them.

    Args:
        library: whose question states the error.
        rows: true contexts.
    """
    question = library.question
    if question is None or question.error is None:
        return [rows]
    columns = question.error.columns(library.names)
    readings = []
    for signs in product((-1.0, 1.0), repeat=len(columns)):
        measured = rows.copy()
        for column, (axis, sign) in enumerate(zip(columns, signs, strict=True)):
            x = rows[:, column]
            if axis is None:
                continue
            if axis.is_relative:
                # |θ − m| = p |m|: the true context is at the end of the window of m.
                share = sign * np.where(x < 0, -1.0, 1.0) * axis.amount / 100
                measured[:, column] = x / (1 - share)
            else:
                measured[:, column] = x + sign * axis.amount
        readings.append(rows + (measured - rows) * (1 - 1e-9))
    return readings


def try_drift(
    library: PolicyLibrary, system: System, *, seed: int = 0
) -> OperationTrial | None:
    """Play a linear library against an adversary that moves the context.

    Where any switching is proven, the context jumps between places of the range at
    every step. Where a dwell time is proven, it moves at the largest rate, to and fro.

    Args:
        library: of linear gains, with what is proven of its operation.
        system: the tasks.
        seed: of starts and places.

    Returns:
        None for other systems and libraries.
    """
    proven = library.guarantee.values.get("operation")
    if not isinstance(system, LinearSystem) or not isinstance(
        library.policies, LinearGain
    ):
        return None
    if proven is None or proven["mode"] == "none":
        return None
    rng = np.random.default_rng(seed)
    reach = library.reach
    places = reach.at(rng.random((N_PLACES, len(reach.low))))
    corners = reach.at(np.array(list(product((0.0, 1.0), repeat=len(reach.low)))))
    places = np.concatenate([corners[:64], places])
    matrices = np.array(proven["matrices"])
    played, starts = [], np.zeros((0, 0))
    if len(matrices):
        frame = np.linalg.cholesky(matrices.mean(0)).T
        starts = np.linalg.solve(frame, rng.standard_normal((len(frame), N_STARTS))).T
    if proven["mode"] == "any switching":
        played = [_jump(library, system, places, x, matrices[0]) for x in starts]
    elif proven["mode"] == "dwell time":
        played = [_creep(library, system, proven, x, rng) for x in starts[:2]]
    slow = proven.get("slow_drift", {})
    pushed = _push_all(library, system, slow, places)
    is_kept = all(ratio <= slow["factor"] for ratio in pushed)
    is_kept &= all(left < 1 for _, left, _ in played)
    if proven["mode"] == "any switching":
        is_kept &= all(growth <= 1 + 1e-9 for growth, _, _ in played)
    return OperationTrial(
        len(played) + len(pushed),
        sum(switches for _, _, switches in played),
        max([growth for growth, _, _ in played], default=1.0),
        max([left for _, left, _ in played], default=0.0),
        max(pushed, default=None),
        is_kept,
    )


def _push_all(
    library: PolicyLibrary,
    system: LinearSystem,
    slow: dict[str, Any],
    places: NDArray[np.float64],
) -> list[float]:
    """Return cost over frozen cost: one context per policy, and one axis at a time."""
    rates = slow.get("rates", {})
    axes = [i for i, name in enumerate(library.names) if rates.get(name)]
    chosen = np.asarray(library.select(places).policy)
    return [
        _push(library, system, rates, int(policy), places[chosen == policy][0], axis)
        for policy in np.unique(chosen[chosen >= 0])
        for axis in axes
    ]


def _push(
    library: PolicyLibrary,
    system: LinearSystem,
    rates: dict[str, float],
    policy: int,
    row: NDArray[np.float64],
    axis: int,
) -> float:
    """Move one axis at its rate, to and fro, where the cost to come grows most."""
    lyapunov = solve_continuous_lyapunov if system.is_continuous else _solve_steps
    assert isinstance(library.policies, LinearGain)
    gain = library.policies.gain[policy]

    def frozen(row: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        a, b, q, r = (
            np.asarray(x[0])
            for x in system.matrices(library.contexts(system, row[None]))
        )
        loop, weight = a - b @ gain, q + gain.T @ r @ gain
        return np.asarray(lyapunov(loop.T, -weight)), loop, weight

    p, loop, _ = frozen(row)
    step = PUSH / np.abs(np.linalg.eigvals(loop)).max() if system.is_continuous else 1.0
    move = np.zeros(len(row))
    move[axis] = rates[library.names[axis]] * step
    x = eigh(frozen(_inside(library, row + move))[0] - p, p)[1][:, -1]
    first, cost = float(x @ p @ x), 0.0
    for _ in range(N_PUSHES):
        ends = [_inside(library, row + sign * move) for sign in (1.0, -1.0)]
        ends = [end for end in ends if library.select(end).policy == policy] or [row]
        _, loop, weight = frozen(row)
        half = _step_matrices(loop[None], system, step / 2)[0]
        middle = half @ x
        then = half @ middle if system.is_continuous else middle
        if system.is_continuous:
            now, last = x @ weight @ x, then @ weight @ then
            cost += step / 6 * (now + 4 * middle @ weight @ middle + last)
        else:
            cost += x @ weight @ x
        x = then
        row = ends[int(np.argmax([x @ frozen(end)[0] @ x for end in ends]))]
    return float((cost + x @ frozen(row)[0] @ x) / first)


def _inside(library: PolicyLibrary, row: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.clip(row, library.low, library.high)


def _solve_steps(
    loop: NDArray[np.float64], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    return np.asarray(solve_discrete_lyapunov(loop, -weight))


def _loops(
    library: PolicyLibrary,
    system: LinearSystem,
    rows: NDArray[np.float64],
    policy: NDArray[np.integer],
) -> NDArray[np.float64]:
    a, b = system.matrices(library.contexts(system, rows))[:2]
    assert isinstance(library.policies, LinearGain)
    return np.asarray(a - b @ library.policies.gain[policy])


def _step_matrices(
    loops: NDArray[np.float64], system: LinearSystem, step: float
) -> NDArray[np.float64]:
    moves = expm(step * loops) if system.is_continuous else loops
    return np.asarray(moves, np.float64)


def _jump(
    library: PolicyLibrary,
    system: LinearSystem,
    places: NDArray[np.float64],
    x: NDArray[np.float64],
    metric: NDArray[np.float64],
) -> tuple[float, float, int]:
    """Bang-bang: at every step the place and the measured context of most growth."""
    rows, policies = [], []
    for measured in measured_near(library, places):
        chosen = library.select(measured)
        ok = np.asarray(chosen.policy) >= 0
        rows.append(places[ok])
        policies.append(np.asarray(chosen.policy)[ok])
    policy = np.concatenate(policies)
    loops = _loops(library, system, np.concatenate(rows), policy)
    step = 0.1 / max(np.abs(np.linalg.eigvals(loops)).max(), 1e-300)
    moves = _step_matrices(loops, system, step)
    size = first = float(x @ metric @ x)
    growth, n_switches, last = 1.0, 0, -1
    for _ in range(N_STEPS):
        options = moves @ x
        sizes = np.einsum("gi,ij,gj->g", options, metric, options)
        best = int(sizes.argmax())
        n_switches += int(last >= 0 and policy[best] != last)
        last, x = int(policy[best]), options[best]
        growth = max(growth, float(np.sqrt(sizes[best] / size)))
        size = float(sizes[best])
    return growth, float(np.sqrt(size / first)), n_switches


def _creep(
    library: PolicyLibrary,
    system: LinearSystem,
    proven: dict[str, Any],
    x: NDArray[np.float64],
    rng: np.random.Generator,
) -> tuple[float, float, int]:
    """Drift at the largest rate, to and fro, each turn where the state grows most."""
    rates = np.array([proven["drift_rates"].get(name, 0.0) for name in library.names])
    track = library.tracker(float(proven.get("hysteresis", 0.0)))
    metric = np.array(proven["matrices"]).mean(0)
    step = float(proven["dwell_time"]) / 4 if system.is_continuous else 1.0
    row = library.low + rng.random(len(rates)) * (library.high - library.low)
    ways = np.array(list(product((-1.0, 1.0), repeat=min(len(rates), 4))))
    ways = np.pad(ways, ((0, 0), (0, len(rates) - ways.shape[1])), constant_values=1.0)
    first = float(x @ metric @ x)
    growth, n_switches = 1.0, 0
    for _ in range(N_TURNS):
        rows, tracks = [], []
        for way in ways:
            there = np.clip(row + way * rates * step, library.low, library.high)
            for measured in measured_near(library, there[None]):
                trial = copy(track)
                if trial.select(measured[0], step).policy >= 0:
                    rows.append(there)
                    tracks.append(trial)
        if not rows:
            break
        policies = np.array([trial.policy for trial in tracks])
        loops = _loops(library, system, np.array(rows), policies)
        then = _step_matrices(loops, system, step) @ x
        sizes = np.einsum("gi,ij,gj->g", then, metric, then)
        best = int(sizes.argmax())
        n_switches += int(track.policy >= 0 and tracks[best].policy != track.policy)
        row, track, x = rows[best], tracks[best], then[best]
        growth = max(growth, float(np.sqrt(sizes[best] / first)))
    return growth, float(np.sqrt((x @ metric @ x) / first)), n_switches
