"""Slow drift: bounds attacked in 50 digits, costs by contexts at full speed."""

from dataclasses import replace
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from scipy.linalg import (
    eigh,
    solve_continuous_lyapunov,
    solve_discrete_lyapunov,
)

from taskspace.certificates.boxes.enclosures import Boxes
from taskspace.certificates.operation.certify import certify_operation
from taskspace.certificates.operation.drift import bound_drift
from taskspace.certificates.operation.loops import GainLoops
from taskspace.cover.base import Clock
from taskspace.errors import InvalidInputError
from taskspace.systems import AffineFamily, ContextAxis, Enclosed, LinearFamily
from taskspace.systems.linear.tracing.loops import differentiate
from taskspace.systems.linear.tracing.traced import trace_matrices
from tests.certificates import exact
from tests.certificates.plants import PLANTS

STEP = mp.mpf(10) ** -20


ONE = np.zeros(1, np.int64)


def loops_of(name, share=0.3):
    """A plant with one gain, and the part of its range where it is used."""
    plant, low, high = PLANTS[name]
    box = Boxes(*(np.array([x]) for x in (low, high)))
    box = Boxes(box.centre - share * box.radius, box.centre + share * box.radius)
    gain = np.asarray(plant.optimal_gain(box.centre)[0])
    return plant, GainLoops(plant, gain, box.centre), box


def exact_share(plant, gain, context, axis):
    """The least c with −cW ⪯ ∂P ⪯ cW at a context, by differences in 50 digits."""
    _, _, Q, R = exact.matrices(plant, context)
    K = mp.matrix(gain.tolist())
    ends = []
    for sign in (1, -1):
        values = [mp.mpf(float(x)) for x in context]
        values[axis] += sign * STEP
        names = [a.name for a in plant.axes]
        there = dict(zip(names, values, strict=True))
        a, b, q, r = (
            mp.matrix(np.array(x(**there) if callable(x) else x, object).tolist())
            for x in (plant.A, plant.B, plant.Q, plant.R)
        )
        weight = (q + q.T) / 2 + K.T * (r + r.T) / 2 * K
        ends.append(exact.lyapunov(a - b * K, weight, plant.is_continuous))
    slope = (ends[0] - ends[1]) / (2 * STEP)
    inverse = mp.inverse(mp.cholesky(Q + K.T * R * K))
    scaled = inverse * slope * inverse.T
    return max(abs(x) for x in mp.eigsy((scaled + scaled.T) / 2, eigvals_only=True))


@pytest.mark.parametrize(
    "name", ["spring", "rational, R and Q of the context", "unstable", "discrete"]
)
def test_no_context_has_a_larger_sensitivity(name):
    plant, loops, box = loops_of(name, 0.1)
    slow = bound_drift(loops, box, ONE, 1.1, Clock(60))
    assert slow.is_shown
    rng = np.random.default_rng(0)
    corners = list(product(*zip(box.low[0], box.high[0], strict=True)))
    rows = box.low + rng.random((6, 2)) * (box.high - box.low)
    for axis in range(2):
        bound = slow.sensitivities[0, axis]
        shares = [
            exact_share(plant, loops.gains[0, 0], row, axis)
            for row in [*corners, *rows]
        ]
        assert max(shares) <= bound
        # A planted bound that is a little smaller is found to be wrong.
        assert max(shares) > bound / 1.1


def frozen(loops, row):
    """P, A and W of a context that stands still."""
    a, w = loops.at(row[None], ONE)
    solve = (
        (lambda a, w: solve_continuous_lyapunov(a, -w))
        if loops.system.is_continuous
        else solve_discrete_lyapunov
    )
    return solve(a[0].T, w[0]), a[0], w[0]


def attack(loops, box, rates, n_steps=200):
    """Largest cost over frozen cost: axes move where V grows most, rates shared."""
    extent, worst = box.extent, 0.0
    live = np.flatnonzero(rates)
    steps = np.eye(len(extent)) * 1e-5 * extent
    is_continuous = loops.system.is_continuous
    for row in (box.low[0], box.high[0]):
        p, a, _ = frozen(loops, row)
        dt = 0.1 / max(abs(np.linalg.eigvals(a))) if is_continuous else 1.0
        slope = frozen(loops, row + steps[live[0]])[0] - p
        for x in eigh(slope, p)[1].T[[0, -1]]:
            worst = max(
                worst, _play(loops, box, rates, live, steps, row, x, dt, n_steps)
            )
    return worst


def _play(loops, box, rates, live, steps, row, x, dt, n_steps):
    p = frozen(loops, row)[0]
    first, cost = x @ p @ x, 0.0
    for _ in range(n_steps):
        move = np.zeros(len(row))
        for axis in live:
            # In discrete time the next state meets the next context.
            end = x if loops.system.is_continuous else frozen(loops, row)[1] @ x
            change = end @ (frozen(loops, row + steps[axis])[0] - p) @ end
            move[axis] = np.sign(change) * rates[axis] * dt / len(live)
        following = np.clip(row + move, box.low[0], box.high[0])
        if loops.system.is_continuous:
            _, a, w = frozen(loops, (row + following) / 2)
            z = a * dt / 2  # a short step: the series ends soon
            half = np.eye(len(z)) + z + z @ z / 2 + z @ z @ z / 6
            middle, end = half @ x, half @ half @ x
            cost += dt / 6 * (x @ w @ x + 4 * middle @ w @ middle + end @ w @ end)
        else:
            _, a, w = frozen(loops, row)
            cost, end = cost + x @ w @ x, a @ x
        row, x = following, end
        p = frozen(loops, row)[0]
        if not 1e-3 < x @ p @ x / first < 1e3:
            break
    return (cost + x @ p @ x) / first


@pytest.mark.parametrize("name", ["spring", "discrete"])
def test_contexts_at_full_speed_keep_the_factor_and_faster_ones_do_not(name):
    _, loops, box = loops_of(name)
    slow = bound_drift(loops, box, ONE, 1.1, Clock(60))
    rates = np.array(list(slow.rates.values()))
    for axes in ([1, 0], [0, 1], [1, 1]):
        assert 1.005 < attack(loops, box, axes * rates) <= 1.1
    # A planted rate that is too large is found.
    assert attack(loops, box, 8 * rates * [0, 1]) > 1.1
    double = replace(slow, factor=2.0)
    assert double.rates["k"] == pytest.approx(slow.rates["k"] * 0.5 / (1 - 1 / 1.1))


def mathieu():
    """x'' + 0.1 x' + (1 + 0.9 s) x: stable for every s, unstable for s = cos 2t."""
    plant = LinearFamily(
        [ContextAxis("s", 0.0)],
        A=lambda s: [[0.0, 1.0], [-1.0 - 0.9 * s, -0.1]],
        B=[[0.0], [1.0]],
        Q=np.eye(2),
        R=[[1.0]],
    )
    box = Boxes(np.array([[-1.0]]), np.array([[1.0]]))
    return GainLoops(plant, np.zeros((1, 1, 2)), box.centre), box


def test_no_factor_buys_the_rate_at_which_a_stable_plant_is_shaken_apart():
    loops, box = mathieu()
    proven = certify_operation(loops, box, ONE)
    assert proven.mode == "slow drift"
    assert "Nothing is shown about fast drift" in proven.statement
    # s = cos 2t moves by up to 2 per second; even an infinite cost needs less.
    assert replace(proven.slow, factor=1e9).rates["s"] < 0.1
    assert attack(loops, box, np.array([proven.drift_rates["s"]])) <= 1.1
    assert attack(loops, box, np.array([2.0]), n_steps=800) > 100


def test_units_of_states_and_axes_change_no_rate():
    _, loops, box = loops_of("spring")
    slow = bound_drift(loops, box, ONE, 1.1, Clock(60))
    units, scale = np.diag([1e-3, 1e4]), 1e5
    back = np.linalg.inv(units)
    plant = LinearFamily(
        PLANTS["spring"][0].axes,
        A=lambda k, c: (
            units @ np.array([[0 * k, 1 + 0 * k], [-k / scale, -c]], object) @ back
        ).tolist(),
        B=(units @ [[0.0], [1.0]]).tolist(),
        Q=back @ np.diag([10.0, 4.0]) @ back,
        R=[[1.0]],
    )
    wide = Boxes(box.low * [scale, 1], box.high * [scale, 1])
    other = GainLoops(plant, loops.gains[:, 0] @ back, wide.centre)
    again = bound_drift(other, wide, ONE, 1.1, Clock(60))
    assert again.rates["k"] == pytest.approx(slow.rates["k"] * scale, rel=1e-6)
    assert again.rates["c"] == pytest.approx(slow.rates["c"], rel=1e-6)


def test_what_cannot_be_shown_says_why():
    _, loops, box = loops_of("semidefinite Q")
    slow = bound_drift(loops, box, ONE, 1.1, Clock(20))
    assert slow.rates == {}
    assert "singular" in slow.why
    _, loops, box = loops_of("discrete, unstable, rational", 0.05)
    slow = bound_drift(loops, box, ONE, 1.1, Clock(20))
    assert "weights" in slow.why
    with pytest.raises(InvalidInputError, match="above 1"):
        bound_drift(loops, box, ONE, 1.0, Clock(20))
    table = Enclosed(lambda k: 2 * k, lambda low, high: (2 * low["k"], 2 * high["k"]))
    plant = AffineFamily(
        [ContextAxis("k", 1.0)],
        A={"": [[0.0, 1.0], [0.0, -1.0]], "y": [[0.0, 0.0], [-1.0, 0.0]]},
        B=[[0.0], [1.0]],
        Q=np.eye(2),
        R=[[1.0]],
        parameters={"y": table},
    )
    box = Boxes(np.array([[1.0]]), np.array([[2.0]]))
    loops = GainLoops(plant, np.zeros((1, 1, 2)), box.centre)
    slow = bound_drift(loops, box, ONE, 1.1, Clock(20))
    assert "State a formula" in slow.why


def test_derivatives_of_traces_are_those_of_the_matrices():
    plant = LinearFamily(
        [ContextAxis("a", 1.0), ContextAxis("b", 1.0)],
        A=lambda a, b: [
            [np.sin(a * b) / b, np.exp(-a)],
            [np.sqrt(a + b) - 2 * a, np.log(a) * np.cos(b) + a**3 / b],
        ],
        B=lambda a, b: [[a * a], [1.0]],
        Q=np.eye(2),
        R=[[1.0]],
    )
    trace = trace_matrices(plant)
    rows, h = np.array([[1.3, 0.7], [2.0, 0.4]]), 1e-6
    for axis in range(2):
        step = np.eye(2)[axis] * h
        ahead, behind = trace.at(rows + step)[0], trace.at(rows - step)[0]
        slopes = differentiate(trace, axis).at(rows)[0]
        for x, y, slope in zip(ahead, behind, slopes, strict=True):
            np.testing.assert_allclose((x - y) / (2 * h), slope, atol=1e-8)
