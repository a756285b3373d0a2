"""Levels of decay rates, norms and margins on whole boxes, attacked with 50 digits."""

import mpmath as mp
import numpy as np
import pytest

import taskspace as ts
from taskspace.certificates.boxes.enclosures import (
    Boxes,
    LoopEnclosure,
    NoEnclosureError,
    enclosure_for,
)
from taskspace.deploy import Status
from taskspace.policies import LinearGain
from taskspace.systems import ContextAxis, LinearFamily, Pi, Pid
from taskspace.systems.linear.measures import MEASURES
from tests.certificates import exact

CONTEXTS = np.linspace(0.5, 3.0, 401)[:, None]


def plant(time="continuous", scale=1.0) -> LinearFamily:
    h, one = (1.0, 0.0) if time == "continuous" else (0.1, 1.0)
    return LinearFamily(
        [ContextAxis("k", 1.0, low=0.0)],
        A=lambda k: [[one, h * scale], [-h * k / scale, one - h]],
        B=lambda k: [[0], [h / (1 + 0.1 * k)]],
        Q=np.eye(2),
        R=[[1.0]],
        C=lambda k: [[(1.0 + 0.1 * k) / scale, 0]],
        time=time,
        channel=([[0.3 * scale], [1.0]], [[1.0 / scale, 0.5]]),
    )


def policies(system, kind):
    if kind == "gain":
        return LinearGain(np.array([[[[0.3, 0.5]]], [[[1.0, 0.2]]]]))
    if not system.is_continuous:
        return system.stacked(Pi([0.4, 1.0], [0.2, 0.3]).sampled(0.1))
    if kind == "pid":
        return system.stacked(Pid([0.4, 1.0], [0.2, 0.3], [0.1, 0.2], filter_time=0.1))
    return system.stacked(Pi([0.4, 1.0], [0.2, 0.3]))


def exact_loss(system, measure, policy, context):
    """Minus the score with 50 digits; of a norm the gain at its worst frequency."""
    A, B, _, _ = exact.matrices(system, context)
    k = mp.mpf(float(context[0]))
    C = mp.matrix([[mp.mpf(x) for x in row] for row in system.C(k=k)])
    if isinstance(policy, LinearGain):
        K, seen = mp.matrix(policy.gain.tolist()), mp.eye(2)
        loop, u = A - B * K, -K
        y, e, n = C, B, 2
    else:
        a, b, c, d = (mp.matrix(getattr(policy, x).tolist()) for x in "ABCD")
        n = 2 + a.rows
        loop, seen = mp.zeros(n), C
        parts = [(0, 0, A - B * d * seen), (0, 2, -B * c), (2, 0, b * seen), (2, 2, a)]
        for i, j, block in parts:
            for x in range(block.rows):
                for z in range(block.cols):
                    loop[i + x, j + z] = block[x, z]
        e, y, u = mp.zeros(n, 1), mp.zeros(1, n), mp.zeros(1, n)
        direct = d * seen
        for x in range(2):
            e[x], y[x], u[x] = B[x], C[x], -direct[x]
        for x in range(a.rows):
            u[2 + x] = -c[x]
    if measure == "decay_rate":
        roots = mp.eig(loop, left=False, right=False)
        if system.is_continuous:
            return max(mp.re(root) for root in roots)
        return mp.log(max(abs(root) for root in roots))
    out, through = {
        "hinf": (y, 0),
        "channel_norm": (y, 0),
        "disk_margin": (u, mp.mpf(1) / 2),
        "sensitivity": (u, 1),
        "complementary_sensitivity": (u, 0),
    }[measure]
    if measure == "channel_norm":
        entry, exit_row = (mp.matrix(x.tolist()) for x in system.channel)
        e, out = mp.zeros(n, 1), mp.zeros(1, n)
        for x in range(2):
            e[x], out[x] = entry[x], exit_row[x]

    def gain(w):
        at = 1j * w if system.is_continuous else mp.exp(1j * w)
        shifted = mp.eye(n) * at - loop
        return abs((out * mp.lu_solve(shifted, e))[0] + through)

    F, E = np.array(loop.tolist(), float), np.array(e.tolist(), float)
    exit_row = np.array(out.tolist(), float)
    top = 3.0 if system.is_continuous else np.log10(np.pi)
    grid = np.concatenate([[0.0], np.logspace(-3, top, 1500)])
    places = 1j * grid if system.is_continuous else np.exp(1j * grid)
    states = [np.linalg.solve(z * np.eye(n) - F, E) for z in places]
    values = [abs((exit_row @ x).item() + float(through)) for x in states]
    best = int(np.argmax(values))
    near = np.linspace(grid[max(best - 1, 0)], grid[min(best + 1, 1500)], 15)
    top = max(gain(mp.mpf(float(w))) for w in near)
    return -1 / top if measure == "disk_margin" else top


CASES = [
    ("decay_rate", "pi", "continuous"),
    ("decay_rate", "pi", "discrete"),
    ("decay_rate", "gain", "continuous"),
    ("hinf", "pid", "continuous"),
    ("channel_norm", "pi", "continuous"),
    ("sensitivity", "pi", "continuous"),
    ("complementary_sensitivity", "gain", "continuous"),
    ("disk_margin", "pi", "continuous"),
    ("hinf", "pi", "discrete"),
    ("disk_margin", "gain", "discrete"),
]


@pytest.mark.parametrize(("measure", "kind", "time"), CASES)
def test_no_context_refutes_a_level(measure, kind, time):
    system = plant(time)
    stack = policies(system, kind)
    question = ts.Question("floor", measure=measure, epsilon=0.0)
    bounds = enclosure_for(system, stack, np.array([[1.0], [2.0]]), question)
    assert isinstance(bounds, LoopEnclosure)
    edges = CONTEXTS[::20, 0]
    boxes = Boxes(edges[:-1, None], edges[1:, None])
    losses = -system.scores(measure, stack, CONTEXTS)[:, 0]
    worst = np.array([losses[:, 20 * i : 20 * i + 21].max(1) for i in range(20)]).T
    n_proven = n_true = 0
    for level in np.quantile(worst, [0.2, 0.5, 0.9]):
        low, high = bounds.bounds(boxes, epsilon=float(level))
        proven, refuted = high <= level, low > level
        assert not (proven & (worst > level)).any()
        assert not (refuted & (worst < level)).any()
        n_proven += proven.sum()
        n_true += (worst <= level).sum()
        # The tightest proofs, with 50 digits, at their worst contexts and a corner.
        gaps = np.where(proven, level - worst, np.inf)
        tight = np.unravel_index(np.argsort(gaps, None)[:2], gaps.shape)
        for s, b in zip(*tight, strict=True):
            if not proven[s, b]:
                continue
            place = 20 * b + int(losses[s, 20 * b : 20 * b + 21].argmax())
            for context in (CONTEXTS[place], boxes.low[b]):
                assert exact_loss(system, measure, stack[s, 0], context) <= level
        # A level that is a planted error: the attack finds it.
        s, b = np.unravel_index(np.argmax(worst), worst.shape)
        place = 20 * b + int(losses[s, 20 * b : 20 * b + 21].argmax())
        lie = worst[s, b] - 1e-6 * abs(worst[s, b])
        assert exact_loss(system, measure, stack[s, 0], CONTEXTS[place]) > lie
    assert n_proven >= 0.6 * n_true
    assert n_true > 10
    low, high = bounds.bounds(boxes)
    assert np.isinf(low).all()
    assert np.isinf(high).all()
    assert (bounds.subset([1]).bounds(boxes, epsilon=float(worst.max()))[1] < 9e9).any()


def test_units_of_a_state_change_no_proof():
    edges = CONTEXTS[::20, 0]
    boxes = Boxes(edges[:-1, None], edges[1:, None])
    for measure in ("decay_rate", "hinf", "disk_margin"):
        found = []
        for scale in (1.0, 2.0**12):
            system = plant(scale=scale)
            stack = policies(system, "pi")
            question = ts.Question("floor", measure=measure, epsilon=0.0)
            bounds = enclosure_for(system, stack, np.ones((2, 1)), question)
            losses = -system.scores(measure, stack, CONTEXTS)[:, 0]
            level = float(np.median(losses))
            found.append((bounds.bounds(boxes, epsilon=level)[1] <= level).sum())
        assert found[0] > 10
        assert abs(found[0] - found[1]) <= 2


def test_an_unstable_loop_meets_no_level():
    system = plant()
    stack = system.stacked(Pi(-3.0, -1.0))
    box = Boxes(np.array([[0.9]]), np.array([[1.0]]))
    for measure, level in (("decay_rate", 0.0), ("hinf", 1e6), ("disk_margin", -1e-6)):
        question = ts.Question("floor", measure=measure, epsilon=0.0)
        bounds = enclosure_for(system, stack, np.ones((1, 1)), question)
        assert bounds.bounds(box, epsilon=level)[1].tolist() == [[np.inf]]


@pytest.mark.parametrize("time", ["continuous", "discrete"])
def test_a_rate_of_growth_is_met_by_stable_loops_alone(time):
    # The table has no rate for a loop that is not stable, so no box may have one.
    one = 1.0 if time == "discrete" else 0.0
    grower = LinearFamily(
        [ContextAxis("a", 0.0)],
        A=lambda a: [[one + a]],
        B=[[1.0]],
        Q=[[1.0]],
        R=[[1.0]],
        time=time,
    )
    still = LinearGain(np.zeros((1, 1, 1, 1)))
    asked = ts.Question("floor", measure="decay_rate", epsilon=0.5)
    boxes = Boxes(np.array([[-0.5], [-0.1], [0.2]]), np.array([[-0.4], [0.1], [0.3]]))
    bounds = enclosure_for(grower, still, np.zeros((1, 1)), asked)
    low, high = bounds.bounds(boxes, epsilon=0.5)
    assert (high[0] <= 0.5).tolist() == [True, False, False]
    assert (low[0] > 0.5).tolist() == [False, False, True]


def test_demands_are_proven_together():
    system = plant()
    space = ts.Grid(k=(0.5, 3.0, 9))
    gain = 0.2 + 0.2 * space.points[:, 0]
    study = ts.evaluate_policies(system, Pi(gain, 0.4 * gain), space, sources=space)
    asked = ts.Question(
        all_of=[
            ts.Question("ratio", epsilon=2.5),
            ts.Question("floor", measure="disk_margin", epsilon=-0.6),
            ts.Question("floor", measure="decay_rate", epsilon=-0.05),
        ]
    )
    result = ts.certify(study, asked, time_limit=30)
    proof = next(c for c in result.certificates if c.name == "continuum cover")
    assert (proof.holds, proof.kind) == (True, "proof")
    assert "disk margin" in proof.why
    library = ts.library(study, result.continuum)
    assert library.question == asked


def test_closed_forms_of_a_cost_are_no_hindrance():
    system = ts.systems.MassSpringDamper()
    gains, _ = system.optimal_gain(np.array([[1.0, 1.0, 1.0]]))
    stack = LinearGain(gains[:, None])
    box = Boxes(np.array([[0.9, 0.9, 1.0]]), np.array([[1.1, 1.1, 1.0]]))
    for measure, level in (("decay_rate", -0.5), ("disk_margin", -0.6)):
        question = ts.Question("floor", measure=measure, epsilon=level)
        bounds = enclosure_for(system, stack, np.ones((1, 3)), question)
        assert bounds.bounds(box, epsilon=level)[1].tolist() == [[level]]
        scores = system.scores(measure, stack, np.array([[0.9, 0.9, 1.0]]))
        assert scores.item() >= -level


def test_what_has_no_levels_is_said():
    ts.measure("trace", larger_is_better=True)(lambda loop: np.trace(loop.F))
    try:
        question = ts.Question("floor", measure="trace", epsilon=0.1)
        with pytest.raises(NoEnclosureError):
            enclosure_for(plant(), policies(plant(), "pi"), np.ones((2, 1)), question)
    finally:
        del MEASURES["trace"]


@pytest.mark.parametrize("measure", ["disk_margin", "hinf", "decay_rate"])
def test_a_norm_at_a_context_is_an_estimate_and_over_a_box_a_proof(measure):
    """Computed in doubles, one norm was 2.3e-5 below the truth, a rate 1e-3."""
    system = plant()
    study = ts.evaluate_policies(system, Pi([0.4], [0.2]), ts.Grid(k=(0.5, 1.0, 3)))
    worst = float(-system.scores(measure, study.policies, CONTEXTS[:81]).min())
    question = ts.Question("floor", measure=measure, epsilon=worst + 0.05 * abs(worst))
    assert question.provenance_of(study) == "computed"
    proofs = ts.certify(study, question, time_limit=20)
    assert proofs["grid cover"].holds
    assert proofs["grid cover"].kind == "estimate"
    assert "double precision" in proofs["grid cover"].why
    assert proofs["continuum cover"].holds
    assert proofs["continuum cover"].kind == "proof"
    library = ts.library(study, ts.minimum_cover(study, question))
    assert library.select({"k": 0.5}).status == Status.ESTIMATED
    # The cost is decided exactly.
    costs = ts.certify(study, ts.Question("floor", epsilon=1e3), time_limit=5)
    assert costs["grid cover"].kind == "proof"
