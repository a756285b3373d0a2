"""A run of one's own system is read anywhere, also where its code is not."""

import importlib
import json
import re
import shutil
import sys

import pytest

from taskspace.errors import InvalidInputError
from taskspace.runs import RunFolder
from tests.helpers import refused, taskspace, zipped

MODULE = """
import numpy as np
from taskspace.systems import ContextAxis, LinearFamily

plant = LinearFamily(
    context_axes=[ContextAxis("length", 1.0, "m", low=0.0, low_open=True)],
    A=lambda length: [[0, 1], [9.81 / length, 0]],
    B=lambda length: [[0], [1]],
    Q=np.eye(2),
    R=[[1.0]],
)
"""
EXPERIMENT = """
name = "own"
seed = 0
ask = "regret <= 1"
[system]
id = "travelling_plant:plant"
[space]
length = [0.5, 2.0, 5]
[trainer]
id = "lqr"
n_policies = 1
noise = 0.0
[cover]
methods = ["greedy"]
n_repeats = 2
"""


def forget_module(monkeypatch) -> None:
    """What a process that never imported the module knows of it."""
    monkeypatch.delitem(sys.modules, "travelling_plant", raising=False)
    importlib.invalidate_caches()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run that was made from another directory than that of the experiment."""
    root = tmp_path_factory.mktemp("travel")
    for name in ("home", "desk", "runs"):
        (root / name).mkdir()
    (root / "home" / "travelling_plant.py").write_text(MODULE)
    (root / "home" / "own.toml").write_text(EXPERIMENT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", list(sys.path))
        done = taskspace(
            "run", root / "home" / "own.toml", "--out", root / "runs" / "own",
            cwd=root / "desk",
        )  # fmt: skip
        forget_module(patch)
    assert done.returncode == 0, done.stderr
    return root


@pytest.fixture
def alone(made, tmp_path, monkeypatch):
    """The run alone, on a machine that has never seen the module."""
    shutil.copytree(made / "runs" / "own", tmp_path / "elsewhere" / "own")
    (tmp_path / "desk").mkdir()
    monkeypatch.chdir(tmp_path / "desk")
    monkeypatch.setattr(sys, "path", [p for p in sys.path if str(made) not in p])
    forget_module(monkeypatch)
    with pytest.raises(ImportError):
        importlib.import_module("travelling_plant")
    return tmp_path / "elsewhere" / "own"


def test_reading_needs_no_code(alone, tmp_path):
    saved, file = tmp_path / "cover.json", zipped(alone)
    for command in (
        ("cover", alone, "--ask", "regret <= 1.0", "--save", saved),
        ("cover", alone, "--budget", 2),
        ("profile", alone, "--time-limit", 2),
        ("verify", saved, alone),
        ("verify", alone),
        ("cover", file, "--ask", "regret <= 1.0"),
        ("verify", file),
    ):
        done = taskspace(*command)
        assert done.returncode == 0, (command, done.stderr)
        assert "damaged" not in done.stdout + done.stderr
    record = json.loads(
        taskspace("cover", alone, "--ask", "regret <= 1.0", "--format", "json").stdout
    )
    assert record["coverage"] == 1.0
    assert "length" in record["contexts"][0]
    assert "travelling_plant" not in sys.modules


def test_where_code_is_needed_the_sentence_names_it(alone):
    command = ("certify", alone, "--ask", "regret <= 1.0", "--time-limit", 1)
    says = refused(*command)
    assert "'travelling_plant:plant'" in says
    assert "--trust" in says
    says = re.sub(r"\s+", "", refused(*command, "--trust"))
    assert "Themodule'travelling_plant'" in says
    assert "lookedforin" in says
    assert str(alone) in says  # beside the run
    assert str(alone.parent.parent / "desk") in says  # the working directory
    for word in ("delete", "Remove", "remove", "damaged"):
        assert word not in says


def test_the_module_is_found_beside_the_experiment_from_anywhere(
    made, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if str(made) not in p])
    forget_module(monkeypatch)
    run = RunFolder.open(made / "runs" / "own", trust=True)
    assert [axis.name for axis in run.experiment.built_system.axes] == ["length"]
    forget_module(monkeypatch)


def test_the_module_is_found_beside_the_run(alone, monkeypatch):
    with pytest.raises(InvalidInputError, match="was looked for"):
        _ = RunFolder.open(alone, trust=True).experiment.built_system
    (alone.parent / "travelling_plant.py").write_text(MODULE)
    importlib.invalidate_caches()
    run = RunFolder.open(alone, trust=True)
    assert run.experiment.built_system.axes[0].unit == "m"
    forget_module(monkeypatch)
