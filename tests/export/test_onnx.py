"""ONNX models, run by onnxruntime, against Python."""

import sys

import numpy as np
import pytest

import taskspace as ts
from taskspace.deploy import Status
from taskspace.errors import InvalidInputError, MissingExtraError
from taskspace.export.onnx import export_onnx, library_model
from taskspace.systems import PythonPolicies
from tests.deploy.helpers import MAKERS, gains, grid_library, networks

pytest.importorskip("onnx", reason="needs the extra 'export'")
runtime = pytest.importorskip("onnxruntime")


def session(model):
    return runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )


STACKS = {
    "gains": gains(4, 2, 3),
    "argmax": networks(4),
    "clip": networks(4, "clip", "relu", action_low=-0.5, action_high=0.25),
    "free": networks(4, "clip"),
    "squash": networks(4, "squash", action_low=-1.0, action_high=3.0),
}


def observations(stack, n):
    rng = np.random.default_rng(0)
    if stack.kind == "mlp":
        return rng.standard_normal((n, 4)).astype(np.float32)
    return rng.standard_normal((n, 3))


def played(library, rows):
    """Action, policy and status of the graph."""
    seen = observations(library.policies, len(rows))
    graph = session(library_model(library))
    return graph.run(None, {"context": rows, "observation": seen})


@pytest.mark.parametrize("stack", STACKS)
def test_policies(stack):
    policies = STACKS[stack]
    library = grid_library(policies)
    rows = np.random.default_rng(1).uniform(library.low, library.high, (100, 2))
    action, policy, _ = played(library, rows)
    expected = library.act_as(policy, observations(policies, 100))
    np.testing.assert_allclose(action, expected, rtol=1e-5, atol=1e-5)
    assert len(np.unique(policy)) == 4


def test_export_writes_models_and_contract(tmp_path):
    library = grid_library()
    export_onnx(library, tmp_path / "onnx")
    names = sorted(f.name for f in (tmp_path / "onnx").iterdir())
    assert names == ["contract.json", "library.onnx"]
    export_onnx(library, tmp_path / "again")
    for name in names:
        assert (tmp_path / "onnx" / name).read_bytes() == (
            tmp_path / "again" / name
        ).read_bytes()


def test_names_only_and_mistakes(monkeypatch):
    library = ts.PolicyLibrary.from_policies(["a", "b"], ts.Points(["k"], [1.0, 2.0]))
    policy, status = session(library_model(library)).run(
        None, {"context": np.array([[1.1], [1.9], [9.0]])}
    )
    assert policy.tolist() == [0, 1, -1]
    assert status.tolist() == [1, 1, 3]
    with pytest.raises(InvalidInputError, match="of kind 'python'"):
        library_model(grid_library(PythonPolicies([len] * 4)[:, 0]))
    table = ts.performance.table_from_matrix([[1.0, 0.0], [0.0, 1.0]])
    with pytest.raises(InvalidInputError, match="names only"):
        library_model(ts.library(table, [0], ts.Question("regret", epsilon=0.5)))
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"taskspace\[export\]"):
        library_model(library)


@pytest.mark.parametrize("stack", ["argmax", "gains"])
def test_a_refused_context_has_no_valid_action(stack):
    library = MAKERS["grid"](STACKS[stack], "refuse")
    rows = np.array([[np.nan, 1.0], [1e9, 1.0]])
    action, policy, status = played(library, rows)
    assert (policy == -1).all()
    assert (status == Status.REFUSED).all()
    assert (action == -1).all() if stack == "argmax" else np.isnan(action).all()
