"""The gain schedule of python-control as a view of a library."""

from dataclasses import replace

import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError
from taskspace.export import schedule_arrays
from taskspace.policies import LinearGain
from taskspace.systems import PythonPolicies
from tests.deploy.helpers import MAKERS, gains, msd, networks

ct = pytest.importorskip("control", reason="needs the extra 'control'")


def test_python_control_schedules_as_the_library_selects():
    """The gain of its controller at many states, two axes with different units."""
    library = ts.library(msd(), ts.greedy_cover(msd(), "regret <= 0.5"))
    plant = ct.nlsys(
        lambda t, x, u, params: x, None, inputs=1, outputs=2, states=2, name="msd"
    )
    gains, points = schedule_arrays(library)
    controller, _ = ct.create_statefbk_iosystem(
        plant, (gains, points), gainsched_indices=[0, 1], gainsched_method="nearest"
    )
    rng = np.random.default_rng(0)
    assert isinstance(library.policies, LinearGain)
    for wanted in rng.uniform(library.low, library.high, (50, 2)):
        x = rng.standard_normal(2)
        u = controller.output(0, [], np.concatenate([wanted, [0.0], x]))
        gain = library.policies.gain[library.select(wanted).policy]
        np.testing.assert_allclose(u, -gain @ (x - wanted), rtol=1e-12)


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
    named = ts.PolicyLibrary.from_policies(["a"], ts.Points(["k"], [1.0]))
    gaps = ts.PolicyLibrary.from_policies(gains(3), ts.Grid(k=(0, 2, 3)))
    gaps = replace(gaps, regions=replace(gaps.regions, policy=np.array([0, 1, -1])))
    for library, says in (
        (MAKERS["grid"](networks(4)), "has mlp"),
        (named, "has names"),
        (gaps, "1 nodes without a policy"),
        (MAKERS["boxes"](gains(4)), "has boxes"),
        (MAKERS["points"](gains(4)), "has boxes"),
        (MAKERS["grid"](gains(4)), "has logarithmic axes"),
    ):
        with pytest.raises(InvalidInputError, match=says):
            schedule_arrays(library)
