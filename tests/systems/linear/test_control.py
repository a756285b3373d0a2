"""python-control, both ways, with the real library."""

import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError, MissingExtraError
from taskspace.export import schedule_arrays
from taskspace.systems import ContextAxis, Pid, control_family, controller_of
from taskspace.systems.linear.tracing.traced import check_trace, trace_matrices

ct = pytest.importorskip("control", reason="needs the extra 'control'")

AXES = [
    ContextAxis("k", 1.0, "N/m", low=0.0),
    ContextAxis("c", 1.0, "N s/m", low=0.0),
]
Q, R = np.diag([10.0, 4.0]), [[1.0]]


def plant(k, c, dt=0):
    return ct.ss([[0, 1], [-k, -c]], [[0], [1]], np.eye(2), np.zeros((2, 1)), dt)


def test_family_equals_the_built_in_one():
    space = ts.Grid(k=(0.1, 8.0, 5), c=(0.1, 8.0, 4))
    trainer = ts.trainers.Lqr(n_policies=2, noise=0.1)
    family = control_family(plant, AXES, Q=Q, R=R)
    mine = ts.evaluate(family, trainer, space, seed=0).table
    theirs = ts.evaluate(ts.systems.MassSpringDamper(), trainer, space, seed=1).table
    np.testing.assert_allclose(mine["best_known"], theirs["best_known"], rtol=1e-9)
    exact = ts.trainers.Lqr(n_policies=1, noise=0.0)
    tables = [
        ts.evaluate(system, exact, space, seed=0).table
        for system in (family, ts.systems.MassSpringDamper())
    ]
    np.testing.assert_allclose(
        tables[0]["performance"], tables[1]["performance"], rtol=1e-8
    )
    covers = [
        ts.greedy_cover(ts.Question("regret", "worst", epsilon=0.3).sets(t))
        for t in tables
    ]
    assert covers[0].sources.tolist() == covers[1].sources.tolist()


@pytest.mark.parametrize("dt", [0, 0.1])
def test_gains_equal_those_of_python_control(dt):
    def discrete(k, c):
        model = plant(k, c)
        return ct.c2d(model, dt) if dt else model

    family = control_family(discrete, AXES, Q=Q, R=R)
    assert family.time == ("discrete" if dt else "continuous")
    contexts = np.array([[0.5, 0.2], [4.0, 3.0]])
    gains, solved = family.optimal_gain(contexts)
    assert solved.all()
    for row, gain in zip(contexts, gains, strict=True):
        expected, cost, _ = (ct.dlqr if dt else ct.lqr)(discrete(*row), Q, R)
        np.testing.assert_allclose(gain, expected, rtol=1e-6)
        best = family.optimum(row[None])
        assert best is not None
        assert best[0] == pytest.approx(-np.trace(cost), rel=1e-6)


def steering(t, x, u, params):
    """A car of constant speed: offset, heading, speed; input: steering angle."""
    return np.array([x[2] * np.sin(x[1]), x[2] * np.tan(u[0]) / 3.0 - 9 * x[1], 0.0])


def car(speed):
    return ct.ss([[0, speed], [0, -9]], [[0], [speed / 3]], np.eye(2), np.zeros((2, 1)))


def schedule_of_the_car():
    axes = [ContextAxis("speed", 10.0, "m/s", low=0.0, low_open=True)]
    family = control_family(car, axes, Q=np.eye(2), R=[[10.0]])
    space = ts.Grid(speed=(5.0, 30.0, 26))
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    study = ts.evaluate(family, trainer, space, seed=0)
    cover = ts.minimum_cover(study, ts.Question("ratio", "worst", epsilon=0.01))
    assert cover.coverage == 1.0
    return family, space, cover, ts.library(study, cover)


def test_gain_schedule_drives_a_plant_of_python_control():
    family, space, cover, library = schedule_of_the_car()
    assert 1 < cover.size < space.size
    process = ct.nlsys(
        steering, None, states=["y", "h", "v"], inputs=["steer"],
        outputs=["y", "h", "v"], name="car",
    )  # fmt: skip
    gains, points = schedule_arrays(library)
    gains = np.pad(gains, ((0, 0), (0, 0), (0, 1)))  # no feedback of the speed
    _, loop = ct.create_statefbk_iosystem(
        process, (gains, points), gainsched_indices=[2], gainsched_method="nearest"
    )
    time = np.linspace(0, 8, 81)
    for target in (1, 12, 24):
        speed = space.points[target, 0]
        source = library.entries[library.select({"speed": speed}).policy].source
        assert source in cover.sources
        gain, _ = family.optimal_gain(space.points[source][None])
        np.testing.assert_array_equal(gains[target, :, :2], gain[0])
        start = [0.05, 0.0, speed]
        wanted = np.vstack([np.zeros((2, 81)), np.full((1, 81), speed)])
        response = ct.input_output_response(
            loop, time, np.vstack([wanted, np.zeros((1, 81))]), X0=start
        )
        linear = ct.ss(
            car(speed).A - car(speed).B @ gain[0], np.zeros((2, 1)), np.eye(2), 0
        )
        expected = ct.initial_response(linear, time, [0.05, 0.0])
        np.testing.assert_allclose(
            response.outputs[:2], expected.outputs, atol=1e-3
        )  # small angles


def test_mistakes_are_named(monkeypatch):
    with pytest.raises(InvalidInputError, match=r"but at .* it gave list"):
        control_family(lambda k, c: [1], AXES, Q=Q, R=R)
    mixed = control_family(
        lambda k, c: plant(k, c, 0 if k < 2 else 0.1), AXES, Q=Q, R=R
    )
    with pytest.raises(InvalidInputError, match="same time step"):
        mixed.matrices(np.array([[1.0, 1.0], [3.0, 1.0]]))
    monkeypatch.setitem(__import__("sys").modules, "control", None)
    with pytest.raises(MissingExtraError, match=r"taskspace\[control\]"):
        control_family(plant, AXES, Q=Q, R=R)


def test_outputs_and_controllers_of_python_control():
    s = ct.tf("s")
    family = control_family(
        lambda k: ct.ss([[0, 1], [-k, -1]], [[0], [1]], [[1.0, 0.0]], 0),
        [ContextAxis("k", 1.0)],
        Q=np.eye(2),
        R=[[1.0]],
    )
    contexts = np.array([[0.5], [2.0]])
    assert family.output_matrix(contexts).tolist() == [[[1.0, 0.0]]] * 2
    pid = Pid(0.5, 0.2, 0.1, filter_time=0.05)
    model = 0.5 + 0.2 / s + 0.1 * s / (1 + 0.05 * s)
    one = family.performance(controller_of(model), contexts)
    np.testing.assert_allclose(one, family.performance(pid, contexts), rtol=1e-8)
    # Its code is followed, C too.
    check_trace(trace_matrices(family), family, contexts)
    # A transfer function: the same loop from the same channel.
    other = control_family(
        lambda k: 1 / (s**2 + s + k), [ContextAxis("k", 1.0)], Q=np.eye(2), R=[[1.0]]
    )
    for name in ("disk_margin", "decay_rate", "hinf"):
        np.testing.assert_allclose(
            other.scores(name, pid, contexts),
            family.scores(name, pid, contexts),
            rtol=1e-6,
        )
    some = control_family(
        lambda k: (k * s + 1) / (s + 1), [ContextAxis("k", 0.0)], Q=[[1.0]], R=[[1.0]]
    )
    with pytest.raises(InvalidInputError, match="direct part"):
        some.matrices(np.array([[1.0]]))
