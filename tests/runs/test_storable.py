"""Policies that no run can hold are refused, before anything is trained if possible."""

from pathlib import Path

import numpy as np
import pytest

import taskspace as ts
from taskspace.systems import ContextAxis, FunctionSystem, PythonPolicies
from taskspace.trainers import TRAINERS, Trained, Trainer
from taskspace.trainers.base import check_stored
from tests.helpers import refused

TOML = """
name = "own"
seed = 0
ask = "regret <= 0.1"
[system]
id = "tests.runs.test_storable:system"
[space]
x = [0.0, 1.0, 4]
[trainer]
id = "tests.runs.test_storable:{trainer}"
"""

system = FunctionSystem(
    lambda context, policy: -abs(policy(1.0) - context["x"]), [ContextAxis("x", 1.0)]
)


class Silent(Trainer):
    """Functions as policies; each training leaves a line in a file."""

    id, n_policies = "silent", 1

    def train(self, system, contexts, *, seed, progress=None):
        with Path("calls.txt").open("a") as file:
            file.write("trained\n")
        made = [lambda x, k=row[0]: k * x for row in contexts]
        return Trained(PythonPolicies(made), np.zeros((len(made), 1), np.int64))


class Open(Silent):
    """The same, and it says so."""

    def train(
        self, system, contexts, *, seed, progress=None
    ) -> Trained[PythonPolicies]:
        return super().train(system, contexts, seed=seed, progress=progress)


silent, says_so = Silent(), Open()


@pytest.mark.parametrize("command", ["run", "select"])
@pytest.mark.parametrize(("trainer", "n_trained"), [("says_so", 0), ("silent", 1)])
def test_python_objects_are_refused_in_a_sentence(
    tmp_path, command, trainer, n_trained
):
    (tmp_path / "own.toml").write_text(TOML.format(trainer=trainer))
    words = (command, "own.toml", "--out", "run", "--trust")
    said = refused(*words, cwd=tmp_path)
    assert "PythonPolicies cannot be stored in a run" in said
    calls = tmp_path / "calls.txt"
    n_lines = len(calls.read_text().splitlines()) if calls.exists() else 0
    assert n_lines == n_trained
    if not n_trained:
        assert not (tmp_path / "run").exists()


def test_what_is_built_in_can_be_stored(tmp_path, monkeypatch):
    for name in TRAINERS:
        check_stored(TRAINERS[name]())
    monkeypatch.chdir(tmp_path)
    space = ts.Grid(x=(0.0, 1.0, 4))
    assert ts.evaluate(system, silent, space, seed=0).table.sizes["source"] == 4
