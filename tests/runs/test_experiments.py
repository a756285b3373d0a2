"""Experiments with systems of one's own, and files to start from."""

import contextlib
import json

import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.runs import Experiment, RunFolder, run_experiment
from tests.helpers import refused, taskspace
from tests.runs.test_runs_attack import digests
from tests.selection.worlds import Copy

VALUES = {
    "name": "own",
    "seed": 0,
    "system": {"id": "tests.systems.own:make_pendulum", "gravity": 3.0},
    "space": {"length": [0.5, 2.0, 5]},
    "trainer": {"id": "lqr", "n_policies": 1, "noise": 0.0},
    "ask": "ratio <= 10 %",
    "cover": {"methods": ["greedy"]},
}


def experiment(**changes) -> Experiment:
    return Experiment.from_dict({**VALUES, **changes})


def test_a_run_of_ones_own_system_repeats_from_its_file(tmp_path):
    first = run_experiment(experiment(), tmp_path / "a")
    text = (tmp_path / "a" / "experiment.toml").read_text()
    assert 'id = "tests.systems.own:make_pendulum"' in text
    again = run_experiment(Experiment.from_toml(text), tmp_path / "b")
    assert first.results.to_dict() == again.results.to_dict()
    built = experiment().built_system
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    table = ts.evaluate(built, trainer, ts.Grid(length=(0.5, 2.0, 5)), seed=0).table
    stored = RunFolder.open(tmp_path / "a").table()
    assert (stored["performance"].values == table["performance"].values).all()


def test_an_error_of_measured_contexts_is_asked_in_a_file():
    asked = experiment(ask="ratio <= 10 % with length=30 %")
    assert asked.ask[0].error.words == "length ± 30 %"
    assert Experiment.from_toml(asked.resolved().to_toml()).ask == asked.ask
    with pytest.raises(InvalidInputError, match="may stand a number"):
        experiment(ask="ratio <= 10 % with length=much")


@pytest.mark.parametrize(
    ("system", "says"),
    [
        ({"id": "tests.systems.own:pendulum", "gravity": 1.0}, "takes no settings"),
        ({"id": "tests.systems.own:make_pendulum", "mass": 1.0}, "does not take these"),
        ({"id": "tests.systems.own:pendlum"}, "Did you mean 'pendulum'?"),
        ({"id": "tests.systems.nothing:x"}, "cannot be imported"),
        ({"id": "tests.systems.own:"}, "package.module:object"),
        ({"id": "taskspace.systems:MassSpringDamper", "mass": 1}, "Unknown key"),
    ],
)
def test_mistakes_in_references(system, says):
    with pytest.raises((InvalidInputError, UnknownNameError)) as error:
        experiment(system=system).checked()
    assert says in str(error.value)


def test_a_class_is_resolved_with_its_settings():
    system = {"id": "taskspace.systems:MassSpringDamper", "input_weight": 5.0}
    resolved = experiment(system=system, space={"k": [1, 2, 3]}).resolved()
    assert resolved.system["input_weight"] == 5.0
    assert resolved.system["position_weight"] == 10.0
    assert Experiment.from_toml(resolved.to_toml()) == resolved


def test_init_writes_what_can_be_run(tmp_path):
    done = taskspace("init", "mine.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Wrote mine.toml" in done.stdout
    done = taskspace(
        "run", "mine.toml", "--set", "space.n=4", "--set", "cover.time_limit=1",
        "--out", "out", "--format", "json", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["covers"][0]["coverage"] > 0.5
    assert "exists; it was not changed" in refused("init", "mine.toml", cwd=tmp_path)


def test_init_from_a_built_in_experiment(tmp_path):
    done = taskspace("init", tmp_path / "c.toml", "--from", "msd", "--format", "json")
    assert json.loads(done.stdout) == {"experiment": str(tmp_path / "c.toml")}
    assert "msd-v1" in (tmp_path / "c.toml").read_text()
    assert "Did you mean 'msd'?" in refused(
        "init", tmp_path / "d.toml", "--from", "mds"
    )
    assert "end in .toml" in refused("init", tmp_path / "d.txt")
    assert "does not exist" in refused("init", tmp_path / "no" / "d.toml")


def test_a_trainer_of_ones_own_is_one_block_per_training(tmp_path, monkeypatch):
    """Bars count trainings, and a kill loses none that is done."""
    experiment = Experiment.from_dict(
        {
            "name": "own",
            "seed": 0,
            "system": {"id": "tests.selection.worlds:Line"},
            "space": {"x0": [0.0, 5.0, 6]},
            "trainer": {"id": "tests.selection.worlds:Copy"},
            "ask": "regret <= 2",
            "cover": {"methods": ["greedy"]},
        }
    )
    trained, told = [], set()

    def train(self, system, contexts, *, seed, real=Copy.train, **more):
        if len(trained) == 3:
            raise KeyboardInterrupt
        trained.extend(contexts[:, 0].tolist())
        return real(self, system, contexts, seed=seed, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Copy, "train", train)
        with pytest.raises(KeyboardInterrupt):
            run_experiment(
                experiment, tmp_path / "run", report=lambda *said: told.add(said[:3])
            )
    assert {("train", n, 6) for n in range(4)} <= told
    store = RunFolder.open(tmp_path / "run").trainings
    assert store.evaluated.tolist() == [True] * 3 + [False] * 3
    run_experiment(experiment, tmp_path / "run")
    run_experiment(experiment, tmp_path / "whole")
    assert digests(tmp_path / "run") == digests(tmp_path / "whole")


WRONG = [-1, 0, True, 1.5, float("nan"), "", "é", [], [1, 2], [[1]], {}, {"a": 1}]


@pytest.mark.parametrize("value", WRONG, ids=repr)
@pytest.mark.parametrize(
    ("table", "key"),
    [
        ("name", None),
        ("seed", None),
        ("system", "id"),
        ("space", "length"),
        ("trainer", "id"),
        ("trainer", "n_policies"),
        ("ask", None),
        ("cover", "methods"),
        ("cover", "time_limit"),
    ],
)
def test_a_wrong_type_in_an_experiment_is_a_sentence(table, key, value):
    own = VALUES[table]
    if key is not None:
        changed = {**(own[0] if isinstance(own, list) else own), key: value}
        value = [changed] if isinstance(own, list) else changed
    with contextlib.suppress(ts.TaskspaceError):  # nothing else may be raised
        asked = experiment(**{table: value})
        assert asked.built_system is not None
        assert asked.ask is not None
