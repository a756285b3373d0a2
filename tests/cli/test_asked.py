"""Commands ask of a run what its experiment asks, and say what they took from it."""

import json

import pytest
from typer.testing import CliRunner

import taskspace as ts
from taskspace.cli import app
from taskspace.runs import Experiment, run_experiment, run_selection
from tests.helpers import zipped

VALUES = {
    "name": "asked",
    "seed": 0,
    "system": {"id": "msd-v1"},
    "space": {"k": [0.5, 4.0, 4], "c": [0.5, 4.0, 4]},
    "trainer": {"id": "lqr", "n_policies": 2, "noise": 0.05},
    "ask": ["ratio <= 5 % best", "ratio <= 10 % best", "cost <= 30"],
    "cover": {"methods": ["greedy"]},
}


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("asked")
    run_experiment(Experiment.from_dict(VALUES), folder / "run")
    zipped(folder / "run")
    return folder


def ask(*words):
    done = CliRunner().invoke(app, [*map(str, words), "--format", "json"])
    # 3: an answer, but no proof over the whole box.
    assert done.exit_code in (0, 3), (done.output, done.exception)
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("name", ["run", "run.zip"])
def test_what_is_left_out_is_that_of_the_experiment(paths, name):
    """Before, `cover RUN` asked for the worst policy's regret, whatever was run."""
    record, said = ask("cover", paths / name)
    assert record["ask"] == "ratio <= 5 % best"
    assert "As in the run's experiment: --ask 'ratio <= 5 % best'." in said
    record, said = ask("cover", paths / name, "--ask", "cost <= 40")
    assert record["ask"] == "cost <= 40"
    assert "As in" not in said


def test_every_command_that_asks_does_so(paths):
    run = paths / "run"
    for command in (
        ["profile", run, "--at", "0.1,0.5"],
        ["certify", run, "--time-limit", "1"],
        ["export", run, "--to", paths / "lib"],
        ["cover", run, "--budget", "2"],
    ):
        _, said = ask(*command)
        assert "As in the run's experiment: --ask 'ratio" in said, command


def test_of_several_questions_regret_counts(tmp_path):
    """A signed cover may leave any regret, so it is not taken without being asked."""
    asked = {"ask": ["signed <= 0.2", "regret <= 0.7"]}
    run_experiment(Experiment.from_dict(VALUES | asked), tmp_path / "run")
    record, said = ask("cover", tmp_path / "run")
    assert record["ask"] == "regret <= 0.7"
    assert "As in the run's experiment: --ask 'regret <= 0.7'." in said


def test_a_matrix_has_no_question_of_its_own(tmp_path):
    ts.performance.write_matrix(
        ts.performance.table_from_matrix([[-1.0, -2.0], [-2.0, -1.0]]),
        tmp_path / "m.npz",
    )
    record, said = ask("cover", tmp_path / "m.npz", "--ask", "regret <= 0.5")
    assert record["ask"] == "regret <= 0.5"
    assert "As in" not in said
    done = CliRunner().invoke(app, ["certify", str(tmp_path / "m.npz")])
    assert "--ask is needed" in str(done.exception)
    done = CliRunner().invoke(app, ["certify", str(tmp_path / "nothing.npz")])
    assert "does not exist" in str(done.exception)


def test_a_selection_has_the_tolerance_it_was_made_for(tmp_path):
    experiment = Experiment.from_dict(VALUES)
    question = experiment.ask[0].at(0.3)
    run_selection(experiment, tmp_path / "out", question=question)
    record, _ = ask("cover", tmp_path / "out")
    assert record["ask"] == "ratio <= 30 % best"


def test_a_selection_asks_what_its_options_say(tmp_path):
    """Commands about the run ask the same question again."""
    file, out = tmp_path / "asked.toml", tmp_path / "out"
    file.write_text(Experiment.from_dict(VALUES).to_toml())
    asked = ["--ask", "cost <= 40 best"]
    record, _ = ask("select", file, *asked, "--out", out, "--selector", "farthest")
    assert record["stop_reason"] == "covered"
    cover, _ = ask("cover", out)
    assert cover["ask"] == "cost <= 40 best"
