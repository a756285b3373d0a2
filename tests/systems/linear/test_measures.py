"""Measures of closed loops against python-control and dense grids of frequencies."""

from dataclasses import replace
from typing import Any

import control
import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.policies import LinearGain
from taskspace.systems import ContextAxis, LinearFamily, Pi, Pid
from taskspace.systems.linear.measures import MEASURES
from taskspace.systems.linear.norms import hinf_norms
from tests.systems.linear.test_controllers import plant, random_controllers

CONTEXTS = np.array([[0.3], [1.0], [2.5]])


def siso(time="continuous") -> LinearFamily:
    h, one = (1.0, 0.0) if time == "continuous" else (0.1, 1.0)
    return LinearFamily(
        [ContextAxis("k", 1.0)],
        A=lambda k: [[one, h], [-h * k, one - h * 0.5]],
        B=lambda k: [[0], [h]],
        Q=np.eye(2),
        R=[[1.0]],
        C=[[1.0, 0.0]],
        time=time,
    )


def loops(system, stack, context):
    """Plant and controller of python-control."""
    A, B, _, _ = (x[0] for x in system.matrices(context[None]))
    dt = 0 if system.is_continuous else 1
    one: Any = control.ss(A, B, system.output_matrix(context[None])[0], 0, dt)
    return one, control.ss(stack.A, stack.B, stack.C, stack.D, dt)


def dense_norm(loop, continuous):
    """The largest singular value on a fine grid, refined around its best."""

    def top(w):
        s = 1j * w if continuous else np.exp(1j * w)
        inverse = np.linalg.inv(s * np.eye(loop.A.shape[0]) - loop.A)
        return np.linalg.svd(loop.C @ inverse @ loop.B + loop.D)[1][0]

    end = (-4, 4) if continuous else (-4, np.log10(np.pi))
    grid = np.concatenate([[0.0], np.logspace(*end, 3000)])
    for _ in range(3):
        gains = [top(w) for w in grid]
        best = int(np.argmax(gains))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
        grid = np.linspace(low, high, 200)
    return max(gains)


@pytest.mark.parametrize("time", ["continuous", "discrete"])
def test_hinf_is_that_of_a_dense_grid(time):
    system = plant(time)
    stack = random_controllers(np.random.default_rng(3), 2, time, n=5)
    values = -system.scores("hinf", stack, CONTEXTS)[:, 0]
    n_stable = 0
    for i, t in np.ndindex(values.shape):
        one, other = loops(system, stack[i], CONTEXTS[t])
        loop: Any = control.feedback(one, other)
        if np.isinf(values[i, t]):
            edge = loop.poles().real if time == "continuous" else abs(loop.poles()) - 1
            assert edge.max() >= -1e-12
            continue
        n_stable += 1
        dense = dense_norm(loop, time == "continuous")
        assert values[i, t] == pytest.approx(dense, rel=1e-6)
        assert values[i, t] >= dense * (1 - 1e-8)
    assert n_stable >= 5


@pytest.mark.parametrize("time", ["continuous", "discrete"])
def test_disk_margins_are_those_of_python_control(time):
    system = siso(time)
    stack = Pid([1.0, 0.6], [0.3, 0.1], [0.3, 0.6], filter_time=0.2)
    if time == "discrete":
        stack = stack.sampled(0.1)
    values = system.scores("disk_margin", stack, CONTEXTS)[:, 0]
    assert np.isfinite(values).sum() >= 4
    for i, t in np.argwhere(np.isfinite(values)):
        one, other = loops(system, stack[i], CONTEXTS[t])
        end = 4 if time == "continuous" else np.log10(np.pi)
        grid = np.logspace(-3, end, 4000)
        margin = control.disk_margins(other * one, grid)[0]
        assert values[i, t] == pytest.approx(float(margin), rel=1e-4)
        assert values[i, t] <= float(margin) * (1 + 1e-9)
        # A factor at the edge of the disk takes the loop to the edge of stability.
        alpha = values[i, t]
        for factor in ((2 - alpha) / (2 + alpha), (2 + alpha) / (2 - alpha)):
            inside = 1 + 0.99 * (factor - 1)
            if factor > 0:
                moved: Any = control.feedback(one * inside, other)
                edge = (
                    moved.poles().real
                    if time == "continuous"
                    else (abs(moved.poles()) - 1)
                )
                assert edge.max() < 0


def test_full_state_gains_have_the_margins_that_lqr_promises():
    """LQR: |1 + L| >= 1, so S is at most 1 and the disk margin at least 2/3."""
    system = siso()
    gains, _ = system.optimal_gain(CONTEXTS)
    margins = system.scores("disk_margin", LinearGain(gains[:, None]), CONTEXTS)
    assert (np.diagonal(margins[:, 0]) >= 2 / 3 - 1e-9).all()


@pytest.mark.parametrize("time", ["continuous", "discrete"])
def test_decay_rate_is_the_slowest_pole(time):
    system = plant(time)
    stack = random_controllers(np.random.default_rng(3), 2, time, n=5)
    values = system.scores("decay_rate", stack, CONTEXTS)[:, 0]
    for i, t in np.ndindex(values.shape):
        loop: Any = control.feedback(*loops(system, stack[i], CONTEXTS[t]))
        poles = loop.poles()
        edge = poles.real if time == "continuous" else np.log(abs(poles))
        expected = -edge.max() if edge.max() < 0 else -np.inf
        assert values[i, t] == pytest.approx(expected, rel=1e-6)


def test_units_of_the_states_change_no_measure():
    rng = np.random.default_rng(0)
    scale = np.diag(2.0 ** rng.integers(-8, 8, 2))
    plain, base = siso(), siso()
    scaled = LinearFamily(
        base.context_axes,
        A=lambda k: scale @ np.array(base.A(k=k)) @ np.linalg.inv(scale),
        B=lambda k: scale @ np.array(base.B(k=k)),
        Q=np.eye(2),
        R=[[1.0]],
        C=np.array([[1.0, 0.0]]) @ np.linalg.inv(scale),
        channel=(scale @ np.array([[0.3], [1.0]]), [[1.0, 0.5]] @ np.linalg.inv(scale)),
    )
    plain = replace(plain, channel=([[0.3], [1.0]], [[1.0, 0.5]]))
    stack = Pi([0.4], [0.2])
    for name in MEASURES:
        one = plain.scores(name, stack, CONTEXTS)
        np.testing.assert_allclose(scaled.scores(name, stack, CONTEXTS), one, rtol=1e-6)


def test_peaks_of_the_sensitivities_are_those_of_a_dense_grid():
    system = siso()
    for k in (0.7, 2.0):
        context = np.array([[k]])
        A, B, _, _ = (x[0] for x in system.matrices(context))
        plant = control.ss(A, B, system.output_matrix(context)[0], 0)
        L = plant * control.tf([0.4, 0.2], [1, 0])
        w = np.logspace(-4, 3, 8001)
        S = 1 / (1 + L(1j * w))
        for name, peak in (
            ("sensitivity", np.abs(S).max()),
            ("complementary_sensitivity", np.abs(1 - S).max()),
        ):
            ours = -system.scores(name, Pi([0.4], [0.2]), context).item()
            assert ours == pytest.approx(peak, rel=1e-4)


def test_refusals_and_words():
    with pytest.raises(InvalidInputError, match="channel="):
        siso().scores("channel_norm", Pi(1.0, 1.0), CONTEXTS)
    with pytest.raises(InvalidInputError, match="B_w with 2 rows"):
        replace(siso(), channel=([[1.0]], [[1.0, 0.0]]))
    with pytest.raises(InvalidInputError, match="floor"):
        ts.Question("ratio", measure="hinf", epsilon=1.0)
    with pytest.raises(UnknownNameError, match="disk_margin"):
        ts.Question("floor", measure="disk_margn", epsilon=1.0)
    asked = ts.Question("floor", measure="disk_margin", epsilon=-0.5)
    assert "a disk margin at the inputs of at least 0.5" in asked.statement
    asked = ts.Question("floor", measure="hinf", epsilon=2.0)
    assert asked.label == "hinf ≤ 2"
    assert asked.clause.endswith("of at most 2")


def test_norms_in_discrete_time_are_those_of_a_grid_in_all_units():
    """Random loops; the gain at z = −1 is often the largest of the first ones."""
    rng = np.random.default_rng(0)
    angles = np.linspace(0, np.pi, 2000)
    z = np.exp(1j * angles)[:, None, None]
    n_near_end = 0
    for _ in range(60):
        n = int(rng.integers(2, 5))
        F, E, C = (rng.normal(size=s) for s in ((n, n), (n, 1), (1, n)))
        F /= np.abs(np.linalg.eigvals(F)).max() * (1 + 10.0 ** rng.uniform(-2, 0))
        E *= 10.0 ** rng.uniform(-2, 0)
        D = np.eye(1)
        gains = np.abs(D + C @ np.linalg.solve(z * np.eye(n) - F, E[None]))[:, 0, 0]
        n_near_end += gains.max() > gains[-1] * 1.001 > gains[0] * 1.001
        units = 10.0 ** rng.integers(-6, 7, n)
        for u in (np.ones(n), units):
            moved = [(F * u[:, None] / u)[None], (E * u[:, None])[None], (C / u)[None]]
            norm = hinf_norms(moved[0], moved[1], moved[2], D, False)[0]
            assert gains.max() * (1 - 1e-5) <= norm <= gains.max() * 1.05
    assert n_near_end > 5
