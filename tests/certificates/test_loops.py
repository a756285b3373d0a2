"""Bounds over boxes for controllers with states, attacked with 50 digits."""

import mpmath as mp
import numpy as np
import pytest

import taskspace as ts
from taskspace.certificates.boxes.enclosures import (
    Boxes,
    LoopEnclosure,
    enclosure_for,
)
from taskspace.policies import LinearController
from taskspace.systems import ContextAxis, LinearFamily, Pi, Pid
from tests.certificates import exact


def drive(time: str, scale: float = 1.0) -> LinearFamily:
    """Two masses and a shaft; `scale` changes the unit of the first state."""
    step = 1.0 if time == "continuous" else 0.1
    base = 0.0 if time == "continuous" else 1.0
    return LinearFamily(
        [ContextAxis("k", 1.0, low=0.0), ContextAxis("c", 1.0, low=0.0)],
        A=lambda k, c: [
            [base, step * scale, 0],
            [-step * k / scale, base - step * (1 + c), step * k],
            [0, step * 0.3, base - step / (1 + k)],
        ],
        B=lambda k, c: [[0], [step], [step * c]],
        Q=np.diag([2.0 / scale**2, 0.0, 1.0]),
        R=[[1.0]],
        C=lambda k, c: [[(1 + 0.1 * k) / scale, 0, 0]],
        time=time,
        x0_covariance=np.diag([scale**2, 1.0, 1.0]),
    )


def controllers(time: str) -> LinearController:
    stack = Pid([0.4, 0.2], [0.2, 0.1], [0.1, 0.05], filter_time=0.1)
    return stack if time == "continuous" else stack.sampled(0.1)


def exact_loss(system, criterion, controller, source, context):
    """The loss with 50 digits, from the block matrices of the loop."""

    def cost(at):
        A, B, Q, R = exact.matrices(system, at)
        names = [axis.name for axis in system.axes]
        values = {n: mp.mpf(float(x)) for n, x in zip(names, at, strict=True)}
        C = mp.matrix([[mp.mpf(x) for x in row] for row in system.C(**values)])
        a, b, c, d = (mp.matrix(getattr(controller, n).tolist()) for n in "ABCD")
        n, m = A.rows, a.rows
        loop, gain = mp.zeros(n + m), mp.zeros(B.cols, n + m)
        blocks = [(0, 0, A - B * d * C), (0, n, -B * c), (n, 0, b * C), (n, n, a)]
        for i, j, block in blocks:
            for x in range(block.rows):
                for y in range(block.cols):
                    loop[i + x, j + y] = block[x, y]
        direct = d * C
        for x in range(B.cols):
            for y in range(n):
                gain[x, y] = direct[x, y]
            for y in range(m):
                gain[x, n + y] = c[x, y]
        weight = gain.T * R * gain
        for x in range(n):
            for y in range(n):
                weight[x, y] += Q[x, y]
        if not exact.is_stable(loop, system.is_continuous):
            return mp.inf
        p = exact.lyapunov(loop, weight, system.is_continuous)
        return exact._trace(p[:n, :n], system.initial_covariance)

    here = cost(context)
    if criterion == "floor":
        return here
    if criterion == "signed":
        return here - cost(source)
    best = exact.optimal_cost(system, context)
    return here - best if criterion == "regret" else here / best - 1


def refuted(system, criterion, low, high, stack, sources, boxes, rng, n):
    """Pairs whose bounds some context of the box refutes, by 50 digits."""
    wrong = 0
    for s in range(len(stack.D)):
        for b in range(len(boxes)):
            share = rng.choice([0.0, 1.0, 0.5, rng.uniform()], (n, 2))
            inside = boxes.low[b] + share * (boxes.high[b] - boxes.low[b])
            for context in np.clip(inside, boxes.low[b], boxes.high[b]):
                true = exact_loss(system, criterion, stack[s, 0], sources[s], context)
                if not low[s, b] <= true <= high[s, b]:
                    wrong += 1
    return wrong


@pytest.mark.parametrize("time", ["continuous", "discrete"])
@pytest.mark.parametrize("criterion", ["regret", "ratio", "floor", "signed"])
def test_no_context_refutes_a_bound(time, criterion):
    rng = np.random.default_rng(len(criterion))
    system = drive(time)
    stack = system.stacked(controllers(time))
    sources = np.array([[1.0, 1.0], [2.0, 0.5]])
    question = ts.Question(criterion, epsilon=0.0)
    enclosure = enclosure_for(system, stack, sources, question)
    assert isinstance(enclosure, LoopEnclosure)
    centre = rng.uniform(0.6, 2.4, (3, 2))
    half = 0.5 * np.array([[0.05], [0.02], [0.0]]) * centre
    boxes = Boxes(centre - half, centre + half)
    low, high = enclosure.bounds(boxes)
    assert np.isfinite(high).mean() > 0.6
    attack = (stack, sources, boxes, rng)
    assert refuted(system, criterion, low, high, *attack, n=3) == 0
    # The attack finds bounds that are wrong by a millionth.
    middle, width = (low + high) / 2, (high - low) / 2
    narrow = 1e-6 * np.maximum(np.abs(middle), width)
    assert refuted(system, criterion, high + narrow, high, *attack, n=2) > 0
    pairs = enclosure.pair_bounds(boxes, np.array([1, 0, 1]))
    assert pairs[0].tolist() == [low[1, 0], low[0, 1], low[1, 2]]
    tried = enclosure.tried_bounds(boxes, np.array([[1, 0]] * 3), np.inf)
    assert tried[1][:, 0].tolist() == high[1].tolist()
    assert (tried[1][:, 1] == np.inf).all()  # the first one served
    assert enclosure.subset([1]).bounds(boxes)[1].tolist() == high[1:].tolist()


def test_units_of_a_state_change_no_bound_much():
    boxes = Boxes(np.array([[0.9, 0.9]]), np.array([[1.0, 1.0]]))
    question = ts.Question("ratio", epsilon=0.0)
    found = []
    for scale in (1.0, 2.0**10):
        system = drive("continuous", scale)
        made = enclosure_for(
            system, system.stacked(controllers("continuous")), np.ones((2, 2)), question
        )
        found.append(np.concatenate(made.bounds(boxes)))
    np.testing.assert_allclose(found[0], found[1], rtol=0.1)
    assert np.isfinite(found[0]).all()


def test_an_unstable_loop_has_no_bound_above():
    system = drive("continuous")
    stack = system.stacked(Pi(-5.0, -5.0))
    question = ts.Question("ratio", epsilon=0.0)
    box = Boxes(np.array([[0.9, 0.9]]), np.array([[1.0, 1.0]]))
    _, high = enclosure_for(system, stack, np.ones((1, 2)), question).bounds(box)
    assert high.tolist() == [[np.inf]]


def test_a_schedule_of_pi_is_proven_between_nodes():
    system = drive("continuous")
    space = ts.Grid(k=(0.6, 2.0, 8))
    gains = 0.3 + 0.1 * space.points[:, 0]
    study = ts.evaluate_policies(system, Pi(gains, 0.3 * gains), space, sources=space)
    question = ts.Question("ratio", epsilon=2.0)
    result = ts.certify(study, question, time_limit=20)
    statement = next(c for c in result.certificates if c.name == "continuum cover")
    assert statement.holds
    assert statement.kind == "proof"
    assert "whole state" in statement.why
