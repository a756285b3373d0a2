"""The gain schedule of python-control as a view of a library."""

import numpy as np
import pytest

import taskspace as ts
from taskspace.deploy import OutsideError
from taskspace.errors import InvalidInputError
from taskspace.export.control import library_schedule
from taskspace.policies import LinearGain
from taskspace.systems import PythonPolicies
from tests.deploy.helpers import MAKERS, gains, msd, networks

ct = pytest.importorskip("control", reason="needs the extra 'control'")


@pytest.mark.parametrize("kind", MAKERS)
def test_gains_are_the_library_s(kind):
    library = MAKERS[kind](gains(4), "refuse")
    schedule = library_schedule(library)
    assert isinstance(library.policies, LinearGain)
    rng = np.random.default_rng(0)
    for row in rng.uniform(library.low, library.high, (50, len(library.names))):
        context = dict(zip(library.names, row.tolist(), strict=True))
        expected = library.policies.gain[library.select(row).policy]
        np.testing.assert_array_equal(schedule.gain(context), expected)
    with pytest.raises(OutsideError, match="outside='clamp'"):
        schedule.gain(dict.fromkeys(library.names, 1e9))


def scheduled_msd():
    """A library over two axes, and a plant whose inputs they are."""
    system, table, policies, _ = msd()
    question = ts.Question("regret", epsilon=0.5)
    cover = ts.greedy_cover(question.sets(table))
    library = ts.library(
        ts.Study.of(table, system=system, policies=policies),
        cover,
        question,
        outside="clamp",
    )
    plant = ct.nlsys(
        lambda t, x, u, params: [x[1], u[0] - u[1] * x[0] - u[2] * x[1]], None,
        states=["x", "v"], inputs=["force", "k", "c"], outputs=["x", "v"], name="msd",
    )  # fmt: skip
    return library, plant


def test_it_drives_a_plant_whose_context_is_an_input():
    """Two axes with different units: the library's law, not python-control's."""
    library, plant = scheduled_msd()
    _, loop = library_schedule(library).statefbk(plant, ["k", "c"])
    time = np.linspace(0, 4, 41)
    for k, c in ((0.7, 0.3), (5.0, 6.0)):
        inputs = np.zeros((5, 41))
        inputs[3], inputs[4] = k, c
        response = ct.input_output_response(loop, time, inputs, X0=[1.0, 0.0])
        assert isinstance(library.policies, LinearGain)
        gain = library.policies.gain[library.select({"k": k, "c": c}).policy]
        closed = np.array([[0, 1], [-k, -c]]) - np.array([[0], [1]]) @ gain
        linear = ct.initial_response(
            ct.ss(closed, np.zeros((2, 1)), np.eye(2), 0), time, [1.0, 0.0]
        )
        np.testing.assert_allclose(response.outputs[:2], linear.outputs, atol=1e-3)


def test_swapped_signals_are_refused():
    """k given for c and c for k: a loop would run with the wrong gains."""
    library, plant = scheduled_msd()
    schedule = library_schedule(library)
    schedule.statefbk(plant, ["k", "c"])
    for wrong in (["c", "k"], ["c", "c"], ["k", "k"]):
        with pytest.raises(InvalidInputError, match="in the order of the axes k, c"):
            schedule.statefbk(plant, wrong)


def test_a_model_is_not_called_as_a_policy():
    """Calling a model of python-control gives its frequency response."""
    controller = ct.ss([[-1.0]], [[1.0]], [[2.0]], 0)
    space = ts.Points(["x"], [0.0, 1.0])
    for model in (controller, ct.tf([1.0], [1.0, 1.0]), "no function"):
        library = ts.PolicyLibrary.from_policies(
            PythonPolicies([model] * 2)[:, 0], space
        )
        with pytest.raises(InvalidInputError, match="must be a function of the obs"):
            library.act({"x": 0.2}, 0.5)
    library = ts.PolicyLibrary.from_policies(
        PythonPolicies([np.sin, np.cos])[:, 0], space
    )
    assert library.act({"x": 0.2}, 0.5) == np.sin(0.5)


def test_mistakes_are_named():
    with pytest.raises(InvalidInputError, match="holds mlp"):
        library_schedule(MAKERS["grid"](networks(4)))
    with pytest.raises(InvalidInputError, match="holds names"):
        library_schedule(ts.PolicyLibrary.from_policies(["a"], ts.Points(["k"], [1.0])))
