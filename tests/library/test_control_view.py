"""The gain schedule of python-control as a view of a library."""

import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError
from taskspace.export.control import library_schedule
from taskspace.library import OutsideError
from taskspace.policies import LinearGain

from .helpers import MAKERS, gains, msd, networks

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


def test_it_drives_a_plant_whose_context_is_an_input():
    """Two axes with different units: the library's law, not python-control's."""
    system, table, policies, _ = msd()
    question = ts.Question("regret", epsilon=0.5)
    cover = ts.greedy_cover(question.sets(table))
    library = ts.library(
        table, cover, question, policies=policies, system=system, outside="clamp"
    )
    plant = ct.nlsys(
        lambda t, x, u, params: [x[1], u[0] - u[1] * x[0] - u[2] * x[1]], None,
        states=["x", "v"], inputs=["force", "k", "c"], outputs=["x", "v"], name="msd",
    )  # fmt: skip
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


def test_mistakes_are_named():
    with pytest.raises(InvalidInputError, match="holds mlp"):
        library_schedule(MAKERS["grid"](networks(4)))
    with pytest.raises(InvalidInputError, match="holds names"):
        library_schedule(ts.hand_library(["a"], ts.Points(["k"], [1.0])))
