"""Libraries of controllers: folders and look-up tables of their parameters."""

import csv

import numpy as np
import pytest
from scipy.io import loadmat

import taskspace as ts
from taskspace.deploy import PolicyLibrary
from taskspace.errors import InvalidInputError
from taskspace.export import (
    PidRunner,
    export_c99,
    export_onnx,
    export_pid,
    export_tables,
)
from taskspace.policies import LinearController
from taskspace.systems import ContextAxis, LinearFamily, Pi, Pid, rate_form
from tests.deploy.helpers import needs_cc, played

PLANT = LinearFamily(
    [ContextAxis("k", 1.0, low=0.0)],
    A=lambda k: [[0, 1], [-k, -1]],
    B=lambda k: [[0], [1]],
    Q=np.eye(2),
    R=[[1.0]],
    C=[[1.0, 0.0]],
)


@pytest.fixture(scope="module")
def library():
    space = ts.Grid(k=(0.5, 3.0, 6))
    gain = 0.2 * space.points[:, 0]
    study = ts.evaluate_policies(PLANT, Pi(gain, 0.4 * gain), space, sources=space)
    question = ts.Question("ratio", epsilon=0.45)
    return ts.library(study, ts.minimum_cover(study, question))


def test_folder_and_tables_hold_the_parameters(library, tmp_path):
    library.save(tmp_path / "folder")
    again = PolicyLibrary.load(tmp_path / "folder")
    assert isinstance(again.policies, LinearController)
    for name, array in library.policies.arrays().items():
        assert (again.policies.arrays()[name] == array).all()
    assert again.policies.names == ("kp", "ki")
    export_tables(library, tmp_path / "tables")
    found = loadmat(tmp_path / "tables" / "library.mat")
    with (tmp_path / "tables" / "map.csv").open() as file:
        rows = list(csv.DictReader(file))
    for i, row in enumerate(rows):
        number = int(row["policy"])
        kp, ki = library.policies.parameters[number]
        assert float(row["kp"]) == kp == found["kp"].ravel()[i]
        assert float(row["ki"]) == ki == found["ki"].ravel()[i]


def test_what_is_not_exported_is_said(library, tmp_path):
    for export in (export_c99, export_onnx):
        with pytest.raises(InvalidInputError, match="--as pid --dt"):
            export(library, tmp_path / "c")


def test_controllers_without_states_are_gains_of_what_is_measured(tmp_path):
    D = np.array([[[[0.4]]], [[[0.8]]]])
    nothing = np.zeros((2, 1, 0, 0))
    static = LinearController(nothing, nothing.reshape(2, 1, 0, 1), D[..., :0], D)
    space = ts.Grid(k=(0.5, 3.0, 3))
    study = ts.evaluate_policies(PLANT, static, space)
    library = ts.library(study, [0, 1], question=ts.Question("floor", epsilon=1e3))
    export_c99(library, tmp_path / "c")
    assert "0.4" in (tmp_path / "c" / "library.c").read_text()
    runtime = pytest.importorskip("onnxruntime")
    export_onnx(library, tmp_path / "onnx")
    model = runtime.InferenceSession(str(tmp_path / "onnx" / "library.onnx"))
    feed = {"context": np.array([[1.0]]), "observation": np.array([[2.0]])}
    action, number, _ = model.run(None, feed)
    assert isinstance(library.policies, LinearController)
    assert action.item() == -2.0 * library.policies.D[number.item()].item()


DRIVER = """
#include "lib_pid.h"
#include <stdio.h>
int main(void)
{
    lib_pid state;
    double row[3], out[2];
    lib_pid_start(&state);
    while (fread(row, sizeof row, 1, stdin) == 1) {
        out[1] = lib_pid_step(&state, row, row[1], row[2], -0.4, 0.5, out).policy;
        fwrite(out, sizeof out, 1, stdout);
    }
    return 0;
}
"""


def switching_library(make):
    """Two controllers, the second for the stiffer half of the range."""
    space = ts.Grid(k=(0.5, 3.0, 6))
    sources = ts.Grid(k=[1.0, 2.5])
    study = ts.evaluate_policies(PLANT, make, space, sources=sources)
    losses = ts.loss(study, ts.Question("ratio", epsilon=0.0)).values
    epsilon = float(losses.min(0).max())
    return ts.library(study, [0, 1], question=ts.Question("ratio", epsilon=epsilon))


def rows(n: int = 400) -> np.ndarray:
    """Contexts over borders and out of range, measurements, set points; some bad."""
    rng = np.random.default_rng(0)
    k = 1.75 + 1.4 * np.sin(np.linspace(0, 20, n))
    y = 0.5 * np.cumsum(rng.normal(size=n)) / 5
    r = np.where(np.arange(n) // 80 % 2, 1.0, -0.5)
    data = np.stack([k, y, r], 1)
    for place, bad in ((50, np.nan), (51, np.inf), (200, -np.inf), (201, np.nan)):
        data[place + np.arange(3), np.arange(3)] = bad
    return data


@needs_cc
@pytest.mark.parametrize(
    "make",
    [
        Pi([0.1, 0.9], [0.3, 0.5]),
        Pi([0.1, 0.9], [0.3, 0.5], setpoint_weight=0.2),
        Pid([0.1, 0.9], [0.3, 0.5], [0.1, 0.2], filter_time=0.3),
    ],
    ids=["pi", "weighted", "pid"],
)
def test_c_runs_as_python_does_bit_for_bit(make, tmp_path):
    library = switching_library(make)
    export_pid(library, tmp_path, dt=0.05, name="lib")
    data = rows()
    out = played(tmp_path, ["lib.c", "lib_pid.c"], DRIVER, data)
    runner = PidRunner(library, 0.05, low=-0.4, high=0.5)
    ours = np.array([runner.step([k], y, r) for k, y, r in data])
    assert out.tobytes() == ours.tobytes()
    numbers = ours[:, 1].astype(int)
    assert {-1, 0, 1} <= set(numbers.tolist())
    assert ours[:, 0].min() == -0.4
    assert ours[:, 0].max() == 0.5
    assert np.isfinite(ours).all()
    assert "estimate" in (tmp_path / "contract.json").read_text()


def test_steps_follow_the_controller_in_continuous_time():
    """Without limits and switching: the response of the loop, as dt falls."""
    library = switching_library(
        Pid([0.4, 0.9], [0.3, 0.5], [0.1, 0.2], filter_time=0.3)
    )
    t = np.arange(0, 10, 0.005)
    runner = PidRunner(library, 0.005)
    y = np.sin(t)
    ours = np.array([runner.step([1.0], value, 1.0)[0] for value in y])
    slope = (1 * np.cos(t) + 0.3 * np.sin(t) - np.exp(-t / 0.3)) / (1 + 0.3**2)
    exact = 0.4 * (1 - y) + 0.3 * (t - (1 - np.cos(t))) - 0.1 * slope
    np.testing.assert_allclose(ours[5:], exact[5:], atol=5e-3)


def test_switching_is_bumpless_and_nothing_winds_up():
    library = switching_library(Pi([0.1, 0.9], [0.3, 0.5]))
    runner = PidRunner(library, 0.05, low=-1.0, high=1.0)
    number = library.select(np.linspace(0.5, 3.0, 26)[:, None]).policy
    one, other = (0.5 + 0.1 * int(np.flatnonzero(number == p)[0]) for p in (0, 1))
    for _ in range(40):
        before, first = runner.step([one], 0.3, 1.0)
    after, second = runner.step([other], 0.3, 1.0)
    assert (first, second) == (0, 1)
    assert after == pytest.approx(before, abs=1e-12)
    for _ in range(2000):  # a set point that cannot be reached
        top, _ = runner.step([other], 0.0, 50.0)
    assert top == 1.0
    back = [runner.step([other], 0.0, -0.5)[0] for _ in range(60)]
    assert min(back) < 0.5  # it leaves the limit at once, not after as long again
    plain = Pi(0.9, 0.5).sampled(0.05)
    wound = 2000 * 0.05 * 50.0  # what an integral without the rule would hold
    assert plain.C.item() * wound > 100


def test_bad_readings_keep_the_last_output_and_change_nothing():
    library = switching_library(Pi([0.1, 0.9], [0.3, 0.5]))
    good = [(k, y, r) for k, y, r in rows().tolist() if np.isfinite([k, y, r]).all()]
    clean, dirty = (PidRunner(library, 0.05, low=0.1, high=0.5) for _ in range(2))
    assert dirty.step([1.0], np.nan, 1.0) == (0.1, 0)  # 0 is beyond the limits
    for i, (k, y, r) in enumerate(good):
        u, number = clean.step([k], y, r)
        assert dirty.step([k], y, r) == (u, number)
        bad = [([k], np.nan, r), ([k], y, np.inf), ([np.nan], y, r), ([9.0], y, r)]
        held, policy = dirty.step(*bad[i % 4])
        assert held == u
        assert policy == (number if i % 4 < 2 else -1)


def test_plants_in_rates_export_their_integrators():
    servo = rate_form(PLANT, output_weight=1.0)
    space = ts.Grid(k=(0.5, 3.0, 4))
    study = ts.evaluate_policies(servo, Pi([0.3], [0.2]), space)
    question = ts.Question("ratio", epsilon=50.0)
    library = ts.library(study, [0], question=question)
    runner = PidRunner(library, 0.1)
    u = [runner.step([1.0], -1.0)[0] for _ in range(3)]
    steps = 0.3 + 0.2 * (0.05 + 0.1 * np.arange(3))
    np.testing.assert_allclose(u, steps, rtol=1e-12)
    with pytest.raises(InvalidInputError, match="low < high"):
        PidRunner(library, 0.1, low=1.0, high=0.0)
