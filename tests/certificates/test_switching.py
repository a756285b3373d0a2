"""Switching: proofs attacked in 50 digits, and plants that must get none."""

import mpmath as mp
import numpy as np
import pytest
from scipy.linalg import expm

from taskspace._util.clock import Clock
from taskspace.certificates.boxes.enclosures import Boxes
from taskspace.certificates.switching import (
    GainLoops,
    certify_operation,
    check_decay,
    find_matrix,
    largest_ratio,
)
from taskspace.systems import ContextAxis, LinearFamily
from tests.certificates import exact
from tests.certificates.plants import PLANTS

SPRING = PLANTS["spring"][0]
GAINS = np.array([[[2.7, 2.8]], [[2.0, 1.8]], [[1.2, 1.8]]])


def thirds() -> tuple[Boxes, np.ndarray]:
    """Three gains of the spring, each on a third of the range of k, overlapping."""
    low = np.array([[0.1, 0.1], [2.5, 0.1], [5.0, 0.1]])
    high = np.array([[3.0, 8.0], [5.5, 8.0], [8.0, 8.0]])
    return Boxes(low, high), np.arange(3)


def family(a, n_inputs: int = 1, **options) -> LinearFamily:
    """A plant with one axis s, on which A depends."""
    return LinearFamily(
        [ContextAxis("s", 0.0)],
        A=a,
        B=np.eye(2)[:, 2 - n_inputs :],
        Q=np.eye(2),
        R=np.eye(n_inputs),
        **options,
    )


def decay(x, gain, context, continuous=True, rate=0.0):
    """The largest eigenvalue of L(X), in 50 digits."""
    A, B, _, _ = exact.matrices(SPRING, context)
    a = A - B * mp.matrix(gain.tolist()) + mp.mpf(rate) * mp.eye(2)
    X = mp.matrix(x.tolist())
    return max(mp.eigsy(a.T * X + X * a, eigvals_only=True))


def test_a_common_matrix_decays_wherever_gains_are_used():
    boxes, which = thirds()
    loops = GainLoops(SPRING, GAINS, boxes, which)
    proven = certify_operation(loops)
    assert proven.mode == "any switching"
    assert proven.dwell_time == 0
    assert "any switching" in proven.statement
    rng = np.random.default_rng(0)
    for _ in range(150):
        i = rng.integers(3)
        share = rng.random(2).round(rng.integers(0, 2))
        row = boxes.low[i] + share * (boxes.high[i] - boxes.low[i])
        assert decay(proven.matrices[0], GAINS[i], row) < 0


def test_a_candidate_perturbed_beyond_feasibility_is_refused():
    boxes, which = thirds()
    loops = GainLoops(SPRING, GAINS, boxes, which)
    x = certify_operation(loops).matrices[0]
    rng = np.random.default_rng(1)
    corners = [
        (i, np.where(pick, boxes.high[i], boxes.low[i]))
        for i in range(3)
        for pick in ([0, 0], [0, 1], [1, 0], [1, 1])
    ]
    refused = 0
    for size in (0.0, 0.05, 0.2, 0.5, 1.0, 3.0):
        push = rng.standard_normal((2, 2)) * size
        other = x + (push + push.T) * np.sqrt(np.outer(np.diag(x), np.diag(x)))
        worst = max(decay(other, GAINS[i], row) for i, row in corners)
        stack = np.repeat(other[None], 3, 0)
        checked = check_decay(loops, stack, np.zeros(3), Clock(10))
        # A is affine, so the corners decide; a matrix with little room may be refused.
        assert not (checked.holds and worst >= 0)
        assert checked.holds or size > 0
        refused += not checked.holds
    assert refused >= 2


def test_a_plant_that_is_stable_when_frozen_and_unstable_when_it_moves_gets_nothing():
    # Mathieu: x'' + 2 ζ x' + (1 + 0.9 s) x with s = cos 2t.
    plant = family(lambda s: [[0.0, 1.0], [-1.0 - 0.9 * s, -0.1]])
    boxes = Boxes(np.array([[-1.0]]), np.array([[1.0]]))
    for s in np.linspace(-1, 1, 9):
        a = plant.matrices(np.array([[s]]))[0][0]
        assert np.linalg.eigvals(a).real.max() < 0
    period, steps = np.eye(2), 400
    for t in (np.arange(steps) + 0.5) * np.pi / steps:
        a = plant.matrices(np.array([[np.cos(2 * t)]]))[0][0]
        period = expm(a * np.pi / steps) @ period
    assert abs(np.linalg.eigvals(period)).max() > 1.1
    none, one = np.zeros((1, 1, 2)), np.zeros(1, np.int64)
    proven = certify_operation(GainLoops(plant, none, boxes, one))
    assert proven.mode == "none"
    assert "Nothing is shown" in proven.statement
    assert "frozen" in proven.statement
    # Where it hardly moves, the same plant gets its proof.
    narrow = Boxes(np.array([[-0.05]]), np.array([[0.05]]))
    again = certify_operation(GainLoops(plant, none, narrow, one))
    assert again.mode == "any switching"


def test_two_stable_matrices_that_can_be_switched_into_instability_need_a_dwell_time():
    first = np.array([[-0.1, 1.0], [-3.0, -0.1]])
    second = np.array([[-0.1, 3.0], [-1.0, -0.1]])
    plant = family(lambda s: [[0.0 * s, 0.0], [0.0, 0.0]], n_inputs=2)
    gains = np.stack([-first, -second])
    boxes = Boxes(np.array([[0.0], [0.5]]), np.array([[0.5], [1.0]]))
    loops = GainLoops(plant, gains, boxes, np.arange(2))
    loops_both, weights = np.stack([first, second]), np.stack([np.eye(2)] * 2)
    assert find_matrix(loops_both, weights, True) is None
    proven = certify_operation(loops)
    assert proven.mode == "dwell time"
    assert 0 < proven.dwell_time < np.inf
    quick = expm(first * 0.9) @ expm(second * 0.9)
    assert abs(np.linalg.eigvals(quick)).max() > 1
    for wait in (1.0, 1.3, 2.0):
        slow = proven.dwell_time * wait
        loop = expm(first * slow) @ expm(second * slow)
        assert abs(np.linalg.eigvals(loop)).max() < 1
    # The jump and the rates are those of the matrices, in 50 digits.
    a, b = (mp.matrix(x.tolist()) for x in proven.matrices)
    for one, other in ((a, b), (b, a)):
        rest = mp.mpf(proven.jump) * other - one
        assert min(mp.eigsy(rest, eigvals_only=True)) >= 0
    for x, loop, rate in zip((a, b), (first, second), proven.rates, strict=True):
        shifted = mp.matrix(loop.tolist()) + mp.mpf(float(rate)) * mp.eye(2)
        total = shifted.T * x + x * shifted
        assert max(mp.eigsy(total, eigvals_only=True)) < 0


def test_discrete_time_and_an_unstable_corner():
    plant = family(
        lambda s: [[0.9 + 0.2 * s, 0.1], [0.0, 0.5]], time="discrete"
    )  # fmt: skip
    none, which = np.zeros((1, 1, 2)), np.zeros(1, np.int64)
    stable = Boxes(np.array([[-1.0]]), np.array([[0.3]]))
    proven = certify_operation(GainLoops(plant, none, stable, which))
    assert proven.mode == "any switching"
    x = proven.matrices[0]
    for s in np.linspace(-1, 0.3, 50):
        a = plant.matrices(np.array([[s]]))[0][0]
        assert np.linalg.eigvalsh(a.T @ x @ a - x).max() < 0
    unstable = Boxes(np.array([[-1.0]]), np.array([[1.0]]))
    proven = certify_operation(GainLoops(plant, none, unstable, which))
    assert proven.mode == "none"
    assert proven.failing["s"] == pytest.approx(1.0)
    assert "unstable" in proven.statement


@pytest.mark.parametrize("units", [np.diag([1e-3, 1e4]), np.diag([1e6, 1.0])])
def test_units_of_states_change_no_verdict(units):
    back = np.linalg.inv(units)
    plant = LinearFamily(
        SPRING.axes,
        A=lambda k, c: (
            units @ np.array([[0 * k, 1 + 0 * k], [-k, -c]], object) @ back
        ).tolist(),
        B=lambda k, c: (units @ np.array([[0.0], [1.0]])).tolist(),
        Q=back @ np.diag([10.0, 4.0]) @ back,
        R=[[1.0]],
    )
    boxes, which = thirds()
    loops = GainLoops(plant, GAINS @ back, boxes, which)
    assert certify_operation(loops).mode == "any switching"


def test_largest_ratio_is_a_bound_and_tight():
    rng = np.random.default_rng(3)
    for _ in range(20):
        a, b = (m @ m.T + 0.1 * np.eye(3) for m in rng.standard_normal((2, 3, 3)))
        mu = largest_ratio(a, b)
        exact_mu = max(1.0, np.linalg.eigvals(np.linalg.solve(b, a)).real.max())
        assert exact_mu <= mu <= exact_mu * (1 + 1e-5)


def test_an_axis_that_stays_constant_may_have_matrices_of_its_own():
    """The plant of Mathieu: unstable if s moves, and stable for every constant s."""
    plant = family(lambda s: [[0.0, 1.0], [-1.0 - 0.9 * s, -0.1]])
    boxes = Boxes(np.array([[-1.0]]), np.array([[1.0]]))
    loops = GainLoops(plant, np.zeros((1, 1, 2)), boxes, np.zeros(1, np.int64))
    assert certify_operation(loops).mode == "none"
    proven = certify_operation(loops, constant=["s"])
    assert proven.mode == "any switching"
    assert "while s stays constant" in proven.statement
    assert len(proven.matrices) > 2
    for s in np.linspace(-1, 1, 401):
        a = plant.matrices(np.array([[s]]))[0][0]
        tops = [np.linalg.eigvalsh(a.T @ x + x @ a).max() for x in proven.matrices]
        assert min(tops) < 0
    # A loop that is unstable at some constant s gets nothing.
    worse = family(lambda s: [[0.0, 1.0], [-1.0, 0.5 * s - 0.4]])
    loops = GainLoops(worse, np.zeros((1, 1, 2)), boxes, np.zeros(1, np.int64))
    nothing = certify_operation(loops, constant=["s"])
    assert nothing.mode == "none"
    assert "unstable at s = " in nothing.statement


def test_stretches_of_a_constant_axis_hold_every_box_at_its_place():
    low = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 1.0]])
    high = np.array([[1.0, 1.0], [2.0, 1.0], [1.5, 3.0]])
    plant = LinearFamily(
        [ContextAxis("s", 0.0), ContextAxis("t", 0.0)],
        A=lambda s, t: [[-1.0 - s, 0.0], [0.0, -1.0 - t]],
        B=lambda s, t: [[0.0], [1.0]],
        Q=np.eye(2),
        R=[[1.0]],
    )
    loops = GainLoops(plant, np.zeros((3, 1, 2)), Boxes(low, high), np.arange(3))
    rng = np.random.default_rng(0)
    for parts in (loops.cut([0]), loops.cut([0, 1]), loops.halves([0, 1])):
        assert len(parts) > 1
        for row in rng.uniform([0, 0], [2, 3], (300, 2)):
            used = set(np.flatnonzero(((low <= row) & (row <= high)).all(1)))
            found = [
                set(p.which[((p.boxes.low <= row) & (row <= p.boxes.high)).all(1)])
                for p in parts
            ]
            # No part has other gains there, and one has all of them.
            assert all(gains <= used for gains in found)
            assert used in found
