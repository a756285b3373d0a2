"""Prices on targets that raise the Lagrangian bound: the volume algorithm, compiled.

Barahona & Anbil, Mathematical Programming 87 (2000). Prices move from the best ones so
far along an average of subgradients; the average of the subproblems' selections tells
which sources a branching should decide. Everything here is floats, and only proposes:
what a bound may claim is recomputed in integers, see `branch`.
"""

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from taskspace.cover.location.problem import Location

__all__ = ["Ascent", "raise_prices"]

FREE, IN, OUT = 0, 1, 2
"""What is decided about a source."""


class Ascent(NamedTuple):
    """Best prices, their bound, and how often each source was selected on the way."""

    prices: NDArray[np.float64]
    value: float
    average: NDArray[np.float64]


def raise_prices(
    problem: Location,
    prices: NDArray[np.float64],
    state: NDArray[np.int8],
    goal: float,
    n_steps: int,
) -> Ascent:
    """Raise the bound of prices for so many steps, or until it reaches the goal.

    Args:
        problem: the problem.
        prices: where to begin.
        state: what is decided about each source.
        goal: cost of the best selection so far; no bound need be higher.
        n_steps: steps at most.
    """
    return Ascent(
        *_ascend(
            *problem.lists.arrays,
            problem.caps,
            problem.costs,
            problem.budget,
            problem.float_weights,
            float(problem.slack),
            state,
            prices,
            goal,
            n_steps,
        )
    )


@numba.njit(cache=True, nogil=True)
def _unserved(prices, weights, slack, z):
    """Fill in which share of each target stays unserved at the highest prices."""
    order = np.argsort(-prices / weights)
    room, worth = slack, 0.0
    z[:] = 0.0
    for t in order:
        if room <= 0 or prices[t] <= 0:
            break
        z[t] = min(1.0, room / weights[t])
        room -= weights[t]
        worth += z[t] * prices[t]
    return worth


@numba.njit(cache=True, nogil=True)
def _evaluate(
    offsets, members, losses, costs, budget, weights, slack, state, prices, g, x
):
    """Value of the Lagrangian at some prices, its subgradient and its selection."""
    n, m = len(costs), len(prices)
    rho = -costs
    value = 0.0
    for t in range(m):
        price = prices[t]
        value += price
        for j in range(offsets[t], offsets[t + 1]):
            if losses[j] >= price:
                break
            rho[members[j]] += price - losses[j]
    room = budget
    x[:] = 0.0
    gains = np.empty(n)
    n_gains = 0
    for s in range(n):
        if state[s] == IN:
            x[s] = 1.0
            value -= rho[s]
            room -= 1
        elif state[s] == FREE and rho[s] > 0:
            gains[n_gains] = rho[s]
            n_gains += 1
    least = 0.0
    n_equal = n_gains
    if room < n_gains and room > 0:
        ranked = np.sort(gains[:n_gains])
        least = ranked[n_gains - room]
        n_equal = 0
        for k in range(n_gains - room, n_gains):
            n_equal += ranked[k] == least
    if room > 0:
        for s in range(n):
            if state[s] == FREE and rho[s] > 0 and rho[s] >= least:
                if rho[s] == least and room < n_gains:
                    if n_equal == 0:
                        continue
                    n_equal -= 1
                x[s] = 1.0
                value -= rho[s]
    g[:] = 1.0
    if slack > 0:
        value -= _unserved(prices, weights, slack, g)
        g[:] = 1.0 - g
    for t in range(m):
        price = prices[t]
        for j in range(offsets[t], offsets[t + 1]):
            if losses[j] >= price:
                break
            g[t] -= x[members[j]]
    return value


@numba.njit(cache=True, nogil=True)
def _ascend(
    offsets, members, losses, caps, costs, budget, weights, slack, state, start,
    goal, n_steps,
):  # fmt: skip
    n, m = len(costs), len(start)
    best = start.copy()
    trial, g, x = np.empty(m), np.empty(m), np.empty(n)
    args = (offsets, members, losses, costs, budget, weights, slack, state)
    value = _evaluate(*args, best, g, x)
    v, average = g.copy(), x.copy()
    step, weight, n_red, since = 0.1, 0.1, 0, 0
    for _ in range(n_steps):
        norm = np.sum(v * v)
        if value >= goal or norm < 1e-12 * m:
            break
        aim = goal if goal < np.inf else value + 0.05 * abs(value) + 1e-9
        length = step * max(aim - value, 1e-12 * abs(aim)) / norm
        for t in range(m):
            first = offsets[t]
            least = losses[first] if first < offsets[t + 1] else caps[t]
            trial[t] = min(max(best[t] + length * v[t], least), caps[t])
        now = _evaluate(*args, trial, g, x)
        along = np.sum(v * g)
        # The mix of both directions that is shortest, within limits.
        gap = np.sum(g * g) - 2 * along + norm
        mix = weight
        if gap > 0:
            mix = min(weight, max(weight / 10, (norm - along) / gap))
        v = mix * g + (1 - mix) * v
        average = mix * x + (1 - mix) * average
        if now > value:
            value = now
            best[:] = trial
            n_red, since = 0, 0
            if along > 0:
                step = min(2.0, 1.1 * step)
        else:
            n_red += 1
            since += 1
            if n_red >= 20:
                step = max(1e-4, 0.66 * step)
                n_red = 0
            if since >= 100:
                weight = max(1e-4, weight / 2)
                since = 0
    return best, value, average
