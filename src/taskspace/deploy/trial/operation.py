"""A library in operation: contexts measured with error, drifting, policies switching.

What is proven must hold here too: true contexts are measured at the ends of the error,
and an adversary moves the context, in jumps or at the largest rate, always where the
state, or the cost that is still to come, grows most.
"""

from collections.abc import Mapping
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

from taskspace._util.arrays import Array
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


def measured_near(library: PolicyLibrary, rows: Array) -> list[Array]:
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
    adversary = _Adversary(library, system, library.policies.gain, proven)
    matrices = np.array(proven["matrices"])
    played, starts = [], np.zeros((0, 0))
    if len(matrices):
        frame = np.linalg.cholesky(matrices.mean(0)).T
        starts = np.linalg.solve(frame, rng.standard_normal((len(frame), N_STARTS))).T
    if proven["mode"] == "any switching":
        played = [adversary.jump(places, x, matrices[0]) for x in starts]
    elif proven["mode"] == "dwell time":
        played = [adversary.creep(x, rng) for x in starts[:2]]
    pushed = adversary.push(places)
    is_kept = all(ratio <= proven["slow_drift"]["factor"] for ratio in pushed)
    is_kept &= all(remainder < 1 for _, remainder, _ in played)
    if proven["mode"] == "any switching":
        is_kept &= all(growth <= 1 + 1e-9 for growth, _, _ in played)
    return OperationTrial(
        len(played) + len(pushed),
        sum(switches for _, _, switches in played),
        max([growth for growth, _, _ in played], default=1.0),
        max([remainder for _, remainder, _ in played], default=0.0),
        max(pushed, default=None),
        is_kept,
    )


@dataclass(frozen=True, eq=False)
class _Adversary:
    """Moves the context of linear loops to where it does most harm.

    Args:
        library: selects the policies.
        system: the linear family.
        gains: of the policies.
        proven: what is proven of the library's operation.
    """

    library: PolicyLibrary
    system: LinearSystem
    gains: Array
    proven: Mapping[str, Any]

    def push(self, places: Array) -> list[float]:
        """Return cost over frozen cost: one context per policy, one axis at a time.

        Args:
            places: contexts to begin at.
        """
        rates = self.proven.get("slow_drift", {}).get("rates", {})
        moving = [(i, rates.get(name)) for i, name in enumerate(self.library.names)]
        chosen = np.asarray(self.library.select(places).policy)
        return [
            self._push(int(policy), places[chosen == policy][0], axis, rate)
            for policy in np.unique(chosen[chosen >= 0])
            for axis, rate in moving
            if rate
        ]

    def _push(self, policy: int, row: Array, axis: int, rate: float) -> float:
        """Move one axis at its rate, to and fro, where the cost to come grows most."""
        is_continuous = self.system.is_continuous
        p, loop, _ = self._frozen(row, policy)
        step = PUSH / np.abs(np.linalg.eigvals(loop)).max() if is_continuous else 1.0
        move = np.zeros(len(row))
        move[axis] = rate * step
        x = eigh(self._frozen(self._inside(row + move), policy)[0] - p, p)[1][:, -1]
        first, cost = float(x @ p @ x), 0.0
        for _ in range(N_PUSHES):
            ends = [self._inside(row + sign * move) for sign in (1.0, -1.0)]
            ends = [e for e in ends if self.library.select(e).policy == policy] or [row]
            _, loop, weight = self._frozen(row, policy)
            half = self._moves(loop[None], step / 2)[0]
            middle = half @ x
            then = half @ middle if is_continuous else middle
            if is_continuous:
                now, last = x @ weight @ x, then @ weight @ then
                cost += step / 6 * (now + 4 * middle @ weight @ middle + last)
            else:
                cost += x @ weight @ x
            x = then
            to_come = [x @ self._frozen(end, policy)[0] @ x for end in ends]
            row = ends[int(np.argmax(to_come))]
        return float((cost + x @ self._frozen(row, policy)[0] @ x) / first)

    def jump(self, places: Array, x: Array, metric: Array) -> tuple[float, float, int]:
        """Bang-bang: at every step the place and the measured context of most growth.

        Args:
            places: contexts to jump between.
            x: the state to begin with.
            metric: in which growth is measured.

        Returns:
            Largest growth of a step, what is left of the state, and switches.
        """
        rows, policies = [], []
        for measured in measured_near(self.library, places):
            policy = np.asarray(self.library.select(measured).policy)
            rows.append(places[policy >= 0])
            policies.append(policy[policy >= 0])
        policy = np.concatenate(policies)
        loops = self._loops(np.concatenate(rows), policy)
        step = 0.1 / max(np.abs(np.linalg.eigvals(loops)).max(), 1e-300)
        moves = self._moves(loops, step)
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

    def creep(self, x: Array, rng: np.random.Generator) -> tuple[float, float, int]:
        """Drift at the largest rate, to and fro, each turn where the state grows most.

        Args:
            x: the state to begin with.
            rng: chooses the context to begin at.

        Returns:
            Largest growth since the start, what is left of the state, and switches.
        """
        library, proven = self.library, self.proven
        rates = [proven["drift_rates"].get(name, 0.0) for name in library.names]
        track = library.tracker(float(proven.get("hysteresis", 0.0)))
        metric = np.array(proven["matrices"]).mean(0)
        is_continuous = self.system.is_continuous
        step = float(proven["dwell_time"]) / 4 if is_continuous else 1.0
        row = library.low + rng.random(len(rates)) * (library.high - library.low)
        ways = np.ones((2 ** min(len(rates), 4), len(rates)))
        signs = list(product((-1.0, 1.0), repeat=min(len(rates), 4)))
        ways[:, : min(len(rates), 4)] = signs
        first = float(x @ metric @ x)
        growth, n_switches = 1.0, 0
        for _ in range(N_TURNS):
            rows, tracks = [], []
            for way in ways:
                there = self._inside(row + way * np.array(rates) * step)
                for measured in measured_near(library, there[None]):
                    trial = copy(track)
                    if trial.select(measured[0], step).policy >= 0:
                        rows.append(there)
                        tracks.append(trial)
            if not rows:
                break
            policies = np.array([trial.policy for trial in tracks])
            then = self._moves(self._loops(np.array(rows), policies), step) @ x
            sizes = np.einsum("gi,ij,gj->g", then, metric, then)
            best = int(sizes.argmax())
            n_switches += int(track.policy >= 0 and tracks[best].policy != track.policy)
            row, track, x = rows[best], tracks[best], then[best]
            growth = max(growth, float(np.sqrt(sizes[best] / first)))
        return growth, float(np.sqrt((x @ metric @ x) / first)), n_switches

    def _inside(self, row: Array) -> Array:
        return np.clip(row, self.library.low, self.library.high)

    def _frozen(self, row: Array, policy: int) -> tuple[Array, ...]:
        """Return the cost to come of a context that stands still, loop and weight."""
        contexts, gain = (
            self.library.contexts(self.system, row[None]),
            self.gains[policy],
        )
        a, b, q, r = (np.asarray(x[0]) for x in self.system.matrices(contexts))
        loop, weight = a - b @ gain, q + gain.T @ r @ gain
        if self.system.is_continuous:
            return np.asarray(solve_continuous_lyapunov(loop.T, -weight)), loop, weight
        return np.asarray(solve_discrete_lyapunov(loop.T, weight)), loop, weight

    def _loops(self, rows: Array, policy: NDArray[np.integer]) -> Array:
        a, b = self.system.matrices(self.library.contexts(self.system, rows))[:2]
        return np.asarray(a - b @ self.gains[policy])

    def _moves(self, loops: Array, step: float) -> Array:
        """Return what a step makes of a state."""
        moves = expm(step * loops) if self.system.is_continuous else loops
        return np.asarray(moves, np.float64)
