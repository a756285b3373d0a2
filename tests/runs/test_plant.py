"""A run stays of one plant: code that was edited since is another experiment."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import taskspace as ts
from taskspace.cli import app
from taskspace.errors import RunStoreError
from taskspace.runs import Experiment, RunFolder, run_experiment, run_selection
from taskspace.runs.code import check_code
from taskspace.systems import ContextAxis, FunctionSystem, LinearFamily
from tests.helpers import zipped

LENGTH = ContextAxis("length", 1.0, "m", low=0.0, low_open=True)
GRAVITY = {"value": 9.81, "at": None, "limit": np.inf, "noise": 0.0}
NOISE = np.random.default_rng(0)


def swing(length):
    edited = GRAVITY["at"] is None or length == GRAVITY["at"]
    return [[0, 1], [(GRAVITY["value"] if edited else 9.81) / length, 0]]


def pendulum() -> LinearFamily:
    """Its gravity is what a person edits in the file."""
    return LinearFamily(
        [LENGTH], A=swing, B=lambda length: [[0], [1]], Q=np.eye(2), R=[[1.0]]
    )


def score(context, policy):
    away = abs(float(policy.gain[0, 0]) - 2 * GRAVITY["value"] / context["length"])
    if away > GRAVITY["limit"]:
        return -1e3
    return -1.0 - away + GRAVITY["noise"] * NOISE.standard_normal()


def function() -> FunctionSystem:
    return FunctionSystem(score, [LENGTH])


@pytest.fixture(autouse=True)
def plant(monkeypatch):
    """Edits of the plant, which end with the test."""

    def edit(**changes):
        for name, value in changes.items():
            monkeypatch.setitem(GRAVITY, name, value)

    return edit


def experiment(n=4, system="pendulum", **changes) -> Experiment:
    trainer = {"id": "lqr", "n_policies": 1, "noise": 0.0}
    if system == "function":
        trainer = {"id": "tests.runs.test_plant:Tuned"}
    return Experiment.from_dict(
        {
            "name": "plant",
            "seed": 0,
            "system": {"id": f"tests.runs.test_plant:{system}"},
            "space": {"length": [0.5, 2.0, n]},
            "trainer": trainer,
            "ask": "ratio <= 2 %",
            "cover": {"methods": ["minimum"]},
            **changes,
        }
    )


class Tuned(ts.trainers.Lqr):
    """The best gain of `score`."""

    def __init__(self):
        super().__init__(n_policies=1, noise=0.0)

    def settings(self):
        return {}

    def train(self, system, contexts, *, seed, progress=None):
        from taskspace.policies import LinearGain
        from taskspace.trainers.base import Trained

        gains = (2 * GRAVITY["value"] / contexts)[:, None, None]
        return Trained(LinearGain(gains), np.zeros(gains.shape[:2], np.int64))


def contents(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in path.rglob("*")
        if file.is_file() and file.name != ".lock"
    }


@pytest.mark.parametrize("system", ["pendulum", "function"])
@pytest.mark.parametrize("n", [4, 7])
def test_an_edited_plant_is_another_experiment(tmp_path, plant, system, n):
    """Before, a grown run mixed two plants, and a repeated one told of the old one."""
    run_experiment(experiment(4, system), tmp_path / "run", workers=0)
    before = contents(tmp_path / "run")
    plant(value=3.71)
    with pytest.raises(RunStoreError, match="holds another experiment") as error:
        run_experiment(experiment(n, system), tmp_path / "run", workers=0)
    said = str(error.value)
    assert "J of the policy trained at length = 0.5" in said
    assert "--out" in said
    assert contents(tmp_path / "run") == before
    # Brought back, the run goes on, and ends as a fresh one.
    plant(value=9.81)
    grown = run_experiment(experiment(n, system), tmp_path / "run", workers=0)
    fresh = run_experiment(experiment(n, system), tmp_path / "fresh", workers=0)
    assert grown.results.to_dict() == fresh.results.to_dict()


def test_an_edit_at_one_context_is_noticed(tmp_path, plant):
    run_experiment(experiment(40), tmp_path / "run")
    place = np.linspace(0.5, 2.0, 40)[17]
    plant(value=9.80, at=place)
    with pytest.raises(RunStoreError, match=f"length = {place:g}"):
        run_experiment(experiment(40), tmp_path / "run")


def test_an_edit_that_no_policy_feels_at_home_is_noticed(tmp_path, plant):
    run_experiment(experiment(4, "function"), tmp_path / "run", workers=0)
    plant(limit=1.0)
    with pytest.raises(RunStoreError, match="-1000 now"):
        run_experiment(experiment(4, "function"), tmp_path / "run", workers=0)


def test_rounding_is_no_edit_and_noise_no_fingerprint(tmp_path, plant):
    run_experiment(experiment(), tmp_path / "run")
    plant(value=9.81 * (1 + 1e-12))
    check_code(RunFolder.open(tmp_path / "run", trust=True))
    plant(value=9.81, noise=0.1)
    path = tmp_path / "noisy"
    run_experiment(experiment(4, "function"), path, workers=0)
    assert run_experiment(experiment(4, "function"), path, workers=0).reused


def test_trusting_commands_compare(tmp_path, plant):
    run_experiment(experiment(), tmp_path / "run")
    zipped(tmp_path / "run")
    options = ["--ask", "ratio <= 0.5", "--trust"]
    for changed, path in ((False, "run"), (True, "run"), (True, "run.zip")):
        plant(value=3.71 if changed else 9.81)
        for command in (
            ["certify"],
            ["export", "--to", str(tmp_path / f"lib-{path}-{changed}")],
        ):
            words = [command[0], str(tmp_path / path), *command[1:], *options]
            done = CliRunner().invoke(app, words)
            if changed:
                assert isinstance(done.exception, RunStoreError), done.output
                assert "holds another experiment" in str(done.exception)
            else:
                assert done.exit_code == 0, (done.output, done.exception)


def test_a_selection_goes_on_with_its_own_plant(tmp_path, plant):
    path = tmp_path / "out"
    select = {"selector": "farthest", "budget": 2}
    run_selection(experiment(9, select=select), path)
    before = contents(path)
    more = experiment(9, select=select | {"budget": 4})
    plant(value=3.71)
    with pytest.raises(RunStoreError, match="holds another experiment"):
        run_selection(more, path)
    assert contents(path) == before
    plant(value=9.81)
    assert run_selection(more, path).result.trainings == 4


def test_a_run_without_policies_yet_is_no_obstacle(tmp_path, plant):
    """Nothing is there to mix with."""
    RunFolder.create(tmp_path / "run", experiment())
    plant(value=3.71)
    found = run_experiment(experiment(), tmp_path / "run")
    fresh = run_experiment(experiment(), tmp_path / "fresh")
    assert json.dumps(found.results.to_dict()) == json.dumps(fresh.results.to_dict())
