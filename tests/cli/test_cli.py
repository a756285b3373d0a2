"""The real command, in both formats, with good and with bad input."""

import io
import json
import re
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from rich.console import Console

import taskspace as ts
from taskspace.cli import output
from taskspace.runs import RunFolder
from tests.helpers import refused, taskspace

COVER_KEYS = {
    "n_sources", "n_targets", "ask", "method", "size",
    "sources", "coverage", "uncoverable", "lower_bound", "lower_bound_kind", "optimal",
    "worst_regret", "seconds",
}  # fmt: skip


def test_the_installed_command_keeps_stdout_for_json():
    """The one test that starts a process: entry point, streams, exit codes."""
    good = subprocess.run(
        [sys.executable, "-m", "taskspace", "init", "--format", "json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(good.stdout)
    bad = subprocess.run(
        [sys.executable, "-m", "taskspace", "cover", "nothing", "--ask", "regret <= 1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert bad.returncode == 2
    assert bad.stdout == ""
    assert "does not exist" in bad.stderr


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    done = taskspace(
        "run", "msd", "--set", "space.n=8", "--set", "cover.n_repeats=5",
        "--out", "small", "--format", "json", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert set(record) >= {"run", "seconds", "covers"}
    for cover in record["covers"]:
        assert set(cover) >= COVER_KEYS - {"seconds"}
    for figure in record["figures"]:
        assert (folder / figure).stat().st_size > 10_000
        assert (folder / figure).with_name(figure.split("/")[-1][:-4] + ".pdf").exists()
    return folder / "small"


def test_summary_for_people(run_dir):
    done = taskspace(
        "run", "msd", "--set", "space.n=8", "--set", "cover.n_repeats=5",
        "--out", run_dir,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = re.sub(r"\s+", " ", done.stdout)
    assert "64 sources x 10 policies x 64 targets" in text
    assert "leaves a regret of up to" in text  # the signed warning
    assert "Run read from" in text
    assert "Next: taskspace certify" in text


@pytest.mark.parametrize("criterion", ["signed", "regret", "ratio", "cost"])
def test_cover_of_a_run_equals_the_library(run_dir, criterion):
    asked = "cost <= 9" if criterion == "cost" else f"{criterion} <= 0.25"
    done = taskspace(
        "cover", run_dir, "--ask", asked,
        "--method", "greedy", "--format", "json",
    )  # fmt: skip
    record = json.loads(done.stdout)
    assert set(record) >= COVER_KEYS
    table = RunFolder.open(run_dir).table()
    cover = ts.greedy_cover(ts.Question(asked).sets(table))
    assert record["sources"] == cover.sources.tolist()
    assert record["coverage"] == cover.coverage
    regret = ts.Question(epsilon=0.0).assigned_losses(table, cover.assignment)
    served = cover.assignment >= 0
    assert record["worst_regret"] == pytest.approx(regret[served].max())


@pytest.mark.parametrize("method", ["greedy", "minimum", "uniform", "random"])
def test_every_method_covers(run_dir, method):
    asked = ("--ask", "regret <= 0.5", "--method", method, "--time-limit", 5)
    done = taskspace("cover", run_dir, *asked, "--format", "json")
    record = json.loads(done.stdout)
    assert record["method"] == method
    assert record["lower_bound"] <= record["size"]
    assert record["coverage"] == 1.0
    assert record["worst_regret"] <= 0.5


def test_cover_of_a_matrix_file(tmp_path):
    (tmp_path / "scores.csv").write_text("policy,easy,hard\np0,10,0\np1,9,8\n")
    np.save(tmp_path / "scores.npy", [[10.0, 0.0], [9.0, 8.0]])
    np.savez(tmp_path / "scores.npz", performance=[[[10.0, 0.0]], [[9.0, 8.0]]])
    for name in ("scores.csv", "scores.npy", "scores.npz"):
        done = taskspace(
            "cover", tmp_path / name, "--ask", "regret <= 1", "--format", "json"
        )
        assert json.loads(done.stdout)["sources"] == [1], name
    words = ("--ask", "regret <= 0", "--read", "lower_is_better", "--format", "json")
    costs = taskspace("cover", tmp_path / "scores.csv", *words)
    assert sorted(json.loads(costs.stdout)["sources"]) == [0, 1]


def test_profile_is_monotone_and_agrees_with_cover(run_dir):
    done = taskspace("profile", run_dir, "--time-limit", 20, "--format", "json")
    points = json.loads(done.stdout)
    assert all(set(p) >= {"epsilon", "greedy", "lower", "upper"} for p in points)
    for a, b in pairwise(points):
        assert a["epsilon"] < b["epsilon"]
        assert a["lower"] >= b["lower"]
        assert a["upper"] >= b["upper"]
    assert all(p["lower"] <= p["upper"] <= p["greedy"] for p in points)
    middle = points[3]
    cover = taskspace(
        "cover", run_dir, "--ask", f"regret <= {middle['epsilon']!r}",
        "--format", "json",
    )  # fmt: skip
    assert middle["lower"] <= json.loads(cover.stdout)["size"] <= middle["upper"]
    given = taskspace("profile", run_dir, "--ask", "regret", "--at", "0.3,0.6")
    assert "0.6" in given.stdout


def test_verify_accepts_the_true_and_refuses_the_tampered(run_dir, tmp_path):
    file = tmp_path / "cover.json"
    assert taskspace(
        "cover", run_dir, "--ask", "ratio <= 0.4", "--save", file
    ).returncode == 0  # fmt: skip
    assert "The claim holds" in taskspace("verify", file, run_dir).stdout
    honest = json.loads(file.read_text())
    for change in (
        {"sources": honest["sources"][1:], "size": honest["size"] - 1},
        {"coverage": 0.5},
        {"lower_bound": honest["size"] + 1},
        {"question": honest["question"] | {"ask": "ratio <= 0.1 %"}},
    ):
        file.write_text(json.dumps(honest | change))
        done = taskspace("verify", file, run_dir, "--format", "json")
        assert done.returncode == 1
        assert json.loads(done.stdout)["failures"]
    file.write_text(json.dumps(honest | {"question": {}}))
    assert "which question it answers" in refused("verify", file, run_dir)
    file.write_text("{}")
    assert "saved by taskspace" in refused("verify", file, run_dir)


def test_init_without_a_name_lists_what_is_built_in(tmp_path):
    record = json.loads(taskspace("init", "--format", "json", cwd=tmp_path).stdout)
    by_id = {system["id"]: system for system in record["systems"]}
    assert [axis["name"] for axis in by_id["msd-v1"]["axes"]] == ["k", "c", "m"]
    assert set(record["trainers"]) >= {"lqr", "ppo"}
    assert "msd-lqr" in record["experiments"]
    said = taskspace("init", cwd=tmp_path).stdout
    for name in ("msd-v1", "lqr", "msd-lqr"):
        assert name in said
    assert not list(tmp_path.iterdir())


def test_what_is_gone_names_what_to_use_instead(tmp_path):
    for words, instead in (
        (["archive", "runs/msd", "msd.npz"], "zip the run directory"),
        (["plot", "scores.csv", "map"], "--plot FILE of cover and profile"),
        (["report", "runs/msd"], "taskspace run RUN/experiment.toml --out RUN"),
        (["systems"], "taskspace init without a name"),
    ):
        said = refused(*words, cwd=tmp_path)
        assert "any more" in said
        assert instead in said


def test_a_profile_is_drawn(run_dir, tmp_path):
    file = tmp_path / "profile.svg"
    words = ("profile", run_dir, "--ask", "regret <= 0.3", "--plot")
    assert taskspace(*words, file).returncode == 0
    assert file.read_text().startswith("<?xml")
    assert "must end in .png" in refused(*words, tmp_path / "profile")


def test_bad_input_of_cover(run_dir, tmp_path):
    assert "epsilon >= 0 must hold" in refused(
        "cover", run_dir, "--ask", "regret <= -0.1"
    )
    assert "does not exist" in refused(
        "cover", tmp_path / "nothing", "--ask", "regret <= 1"
    )
    assert "Did you mean 'regret'?" in refused("cover", run_dir, "--ask", "regert <= 1")
    assert "Did you mean 'greedy'?" in refused(
        "cover", run_dir, "--ask", "regret <= 1", "--method", "gredy"
    )
    assert "not a run directory" in refused("cover", tmp_path, "--ask", "regret <= 1")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("t,u\n3.5,nan\n2.5,1\n", "row 2, column 2 ('u') holds 'nan'"),
        ("1,2\n3\n", "row 2 has 1"),
        ("t,u\n3.5,four\n2.5,1\n", "row 2, column 2 ('u') holds 'four'"),
        ("", "is empty"),
    ],
    ids=["nan", "ragged", "word", "empty"],
)
def test_bad_matrix(tmp_path, text, says):
    (tmp_path / "m.csv").write_text(text)
    assert says in refused("cover", tmp_path / "m.csv", "--ask", "regret <= 1")


def test_truncated_npz(tmp_path):
    np.savez(tmp_path / "m.npz", performance=np.ones((50, 50)))
    data = (tmp_path / "m.npz").read_bytes()
    (tmp_path / "m.npz").write_bytes(data[: len(data) // 2])
    assert "m.npz" in refused("cover", tmp_path / "m.npz", "--ask", "regret <= 1")


def test_bad_input_of_run(run_dir, tmp_path):
    assert "Did you mean 'msd'?" in refused("run", "mds", cwd=tmp_path)
    assert "0 < m must hold" in refused(
        "run", "msd", "--set", "space.m=[-1, 1, 3]", cwd=tmp_path
    )
    assert "at least one point" in refused(
        "run", "msd", "--set", "space.n=0", cwd=tmp_path
    )
    assert "another experiment" in refused("run", "msd", "--out", run_dir)
    assert "workers >= 0 must hold" in refused(
        "run", "msd", "--workers", -1, "--out", "new", cwd=tmp_path
    )
    (tmp_path / "broken.toml").write_text("name = ")
    assert "not valid TOML" in refused("run", tmp_path / "broken.toml")
    # Nothing half-written.
    assert [p.name for p in tmp_path.iterdir()] == ["broken.toml"]


def test_a_log_file_says_now_and_then_where_a_command_is(monkeypatch):
    """Bars are for terminals; a file gets lines, none if the work is quick."""
    file = io.StringIO()
    monkeypatch.setattr(output, "progress_console", Console(file=file, width=60))
    with output.stage_progress() as report:
        report("train", 1, 4, "sources 1–2")
        assert file.getvalue() == ""
        monkeypatch.setattr(output, "LOG_SECONDS", 0.0)
        report("train", 2, 4, "[source] 3")
        line = file.getvalue()
    assert re.fullmatch(r"train 2/4, 0:00:\d\d passed, ETA .* \[source\] 3\n", line)
