"""Selections on disk: killed, damaged, asked again; and the command."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import DamagedFileError, RunStoreError
from taskspace.performance.work import Task
from taskspace.runs import (
    Experiment,
    RunFolder,
    run_experiment,
    run_selection,
)
from taskspace.show.page.build import selection_record
from tests.helpers import block_of, msd_toml, refused, taskspace, zipped

TOML = msd_toml(
    "[0.1, 8.0, 7]",
    seed=3,
    noise=0.01,
    epsilon=0.3,
    more="""
[cover]
methods = ["greedy"]
n_repeats = 2
[select]
selector = "SELECTOR"
n_parallel = 2
""",
)


def experiment(selector="coverage", more=""):
    return Experiment.from_toml(TOML.replace("SELECTOR", selector) + more)


class Killed(BaseException):
    pass


def planned(path):
    """Every proposal, in order."""
    lines = map(json.loads, (path / "selection.jsonl").read_text().splitlines())
    return [x["content"] for x in lines if x["content"]["line"] == "proposal"]


def files(path):
    kept = [p for p in sorted(path.rglob("*")) if p.is_file() and p.name != ".lock"]
    return {str(p.relative_to(path)): p.read_bytes() for p in kept}


def assert_same(first, second):
    """The same proposals in the same order, and the same bytes."""
    assert planned(first) == planned(second)
    assert files(first) == files(second)


@pytest.mark.parametrize("selector", ["coverage", "random"])
def test_killed_after_any_training_it_resumes_to_the_same_bytes(tmp_path, selector):
    whole = run_selection(experiment(selector), tmp_path / "whole")
    assert whole.result.stop_reason == "covered"
    n_killed = 0
    while True:
        # Killed after one more training each time, until it ends by itself.
        calls = []

        def kill(*said, calls=calls):
            calls.append(said)
            if len(calls) == 2:
                raise Killed

        asked, path = experiment(selector), tmp_path / "killed"
        try:
            again = run_selection(asked, path, progress=kill)
            break
        except Killed:
            n_killed += 1
    assert n_killed >= 3
    assert_same(tmp_path / "whole", tmp_path / "killed")
    assert whole.result.history == again.result.history
    assert whole.result.evaluations == again.result.evaluations


def test_killed_by_the_system_it_resumes_to_the_same_sequence(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(TOML.replace("SELECTOR", "farthest"))
    command = [sys.executable, "-m", "taskspace", "select", str(file), "--out"]
    process = subprocess.Popen(
        [*command, str(tmp_path / "killed")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ,
    )
    for _ in range(600):
        if any((tmp_path / "killed" / "trainings").glob("00002-*.npz")):
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    loaded = experiment("farthest")
    run_selection(loaded, tmp_path / "whole")
    run_selection(loaded, tmp_path / "killed")
    assert_same(tmp_path / "whole", tmp_path / "killed")


def test_the_result_is_an_ordinary_run(tmp_path):
    found = run_selection(experiment("coverage"), tmp_path / "run")
    store = RunFolder.open(tmp_path / "run")
    assert store.is_complete()
    assert not store.damages()
    table = store.table()
    memory = found.result.table
    for name in ("performance", "best_known", "home_performance"):
        np.testing.assert_array_equal(table[name].values, memory[name].values)
    (note,) = table.attrs["notes"]
    assert "a selection trained" in note
    assert not table.attrs.get("n_planned")
    # Policies are there with their parameters.
    policies = store.table_policies()
    assert policies.arrays()["gain"].shape[:2] == (table.sizes["source"], 2)


@pytest.mark.parametrize("selector", ["coverage", "uniform"])
def test_what_is_damaged_is_made_again_as_it_was(tmp_path, selector):
    path = tmp_path / "run"
    run_selection(experiment(selector), path)
    before = files(path)
    for name in sorted(before):
        if not name.startswith("trainings"):
            continue
        data = bytearray(before[name])
        data[len(data) // 2] ^= 0x40
        (path / name).write_bytes(bytes(data))
    with pytest.raises(RunStoreError, match="taskspace select"):
        run_experiment(experiment(selector), path)
    run_selection(experiment(selector), path)
    assert files(path) == before


@pytest.mark.parametrize("n_broken", [0, 1])
@pytest.mark.parametrize("selector", ["coverage", "random"])
def test_a_lost_log_is_made_again_from_what_is_trained(
    tmp_path, monkeypatch, selector, n_broken
):
    path = tmp_path / "run"
    run_selection(experiment(selector), path)
    before = files(path)
    file = path / "selection.jsonl"
    if n_broken:
        file.unlink()
        block_of(path).write_bytes(b"broken")
    else:
        file.write_bytes(file.read_bytes().replace(b"seed", b"sead", 1))
    with pytest.raises((DamagedFileError, RunStoreError), match="selection"):
        RunFolder.open(path).table()
    with pytest.raises(RunStoreError, match=r"select\.selector is"):
        run_selection(experiment("farthest"), path)
    question = ts.Question("regret", epsilon=0.1)
    with pytest.raises(RunStoreError, match=r"'regret <= 0\.3' there"):
        run_selection(experiment(selector), path, question=question)
    assert RunFolder.open(path).resume_command.endswith("--ask 'regret <= 0.3'")
    trained = []

    def train(task, work, *, record_failures, real=Task.do):
        trained.append(work)
        return real(task, work, record_failures=record_failures)

    monkeypatch.setattr(Task, "do", train)
    run_selection(experiment(selector), path)
    assert len(trained) == n_broken
    assert files(path) == before


def test_a_line_that_a_kill_cut_short_was_not_written(tmp_path):
    path = tmp_path / "run"
    run_selection(experiment(), path)
    before = files(path)
    file = path / "selection.jsonl"
    file.write_bytes(file.read_bytes()[:-7])
    run_selection(experiment(), path)
    assert files(path) == before  # the log among them
    # Without what says what it is, it is not touched.
    (path / "run.json").write_text("{}\n")
    (path / "experiment.toml").write_text("name = ")
    before = files(path)
    with pytest.raises(RunStoreError, match="another directory"):
        run_selection(experiment(), path)
    assert files(path) == before


def test_a_larger_budget_goes_on(tmp_path):
    path = tmp_path / "run"
    first = run_selection(experiment("farthest", "budget = 3\n"), path)
    assert first.result.trainings == 3
    on = run_selection(experiment("farthest"), path)
    whole = run_selection(experiment("farthest"), tmp_path / "whole")
    assert on.result.stop_reason == "covered"
    contexts = [entry["context"] for entry in planned(path)]
    assert contexts == [entry["context"] for entry in planned(tmp_path / "whole")]
    assert whole.result.trainings == on.result.trainings


def test_a_run_is_not_taken_over(tmp_path):
    run_experiment(experiment(), tmp_path / "run")
    with pytest.raises(RunStoreError, match="not a selection"):
        run_selection(experiment(), tmp_path / "run")


def test_the_command_prints_its_keys(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(TOML.replace("SELECTOR", "coverage"))
    out = tmp_path / "run"
    words = ["select", file, "--out", out, "--format", "json"]
    record = json.loads(taskspace(*words).stdout)
    keys = "run stop_reason trainings environment_steps evaluations coverage"
    for key in (*keys.split(), "lower_bound_trainings", "history", "cover"):
        assert key in record, key
    assert record["run"] == str(out)
    assert record["stop_reason"] == "covered"
    assert record["coverage"] == record["cover"]["coverage"] == 1.0
    assert record["evaluations"] == record["trainings"] * 2 * 49
    assert record["history"][-1]["trainings"] == record["trainings"]
    assert record["cover"]["ask"] == "regret <= 0.3"
    assert (out / "figures" / "selection.png").stat().st_size > 1000
    assert "Did you mean 'coverage'?" in refused(*words, "--selector", "covrage")


REGIONS = """
name = "regions"
seed = 0
ask = "regret <= 1"
[system]
id = "tests.selection.worlds:Line"
[space]
x0 = [0.0, 10.0, 11]
[trainer]
id = "tests.selection.worlds:Middle"
total_steps = 120
steps = 11
chance = 0.7
[cover]
methods = ["greedy"]
[select]
selector = "noisy"
"""


def test_sources_of_regions_are_kept_and_a_selection_with_them_goes_on(tmp_path):
    experiment = Experiment.from_toml(REGIONS)
    whole = run_selection(experiment, tmp_path / "whole")
    assert whole.result.stop_reason == "covered"

    def kill(stage, done, total, note=""):
        if stage == "cover" and len(planned(tmp_path / "cut")) >= 3:
            raise Killed

    with pytest.raises(Killed):
        run_selection(experiment, tmp_path / "cut", progress=kill)
    again = run_selection(experiment, tmp_path / "cut")
    assert planned(tmp_path / "cut") == planned(tmp_path / "whole")
    assert again.result.environment_steps == whole.result.environment_steps
    table = ts.open(tmp_path / "cut").table
    assert {"region", "trained"} == set(table["source_kind"].values.tolist())
    same = ts.open(tmp_path / "whole").table
    np.testing.assert_array_equal(table["performance"], same["performance"])
    np.testing.assert_array_equal(table["home_performance"], same["home_performance"])
    # Which targets a policy was trained for is part of the table, also in a zip file.
    lines = planned(tmp_path / "cut")
    places = [n for n, line in enumerate(lines) if line.get("kind") == "region"]
    for place in places:
        own = np.concatenate([np.arange(*pair) for pair in lines[place]["region"]])
        weights = np.zeros(11)
        weights[own] = 1 / len(own)
        np.testing.assert_allclose(table["trained_on"].values[place], weights)
    opened = ts.open(zipped(tmp_path / "cut")).table
    np.testing.assert_array_equal(opened["trained_on"], table["trained_on"])
    # Page and map draw it.
    drawn = [
        list(map(list, source["region"]))
        for source in selection_record(tmp_path / "cut")["sources"]
    ]
    assert drawn == [line.get("region", []) for line in lines]
    every = np.arange(table.sizes["source"])
    cover = replace(again.result.cover, sources=every, size=len(every))
    (axes,) = ts.show.map(ts.open(tmp_path / "cut"), cover).axes
    dashed = [c for c in axes.collections if not c.get_clip_on()]
    n_regions = ((table["trained_on"].values > 0).sum(1) > 1).sum()
    assert len(dashed) == 2 * n_regions > 0


def test_damaged_policies_of_regions_are_trained_again(tmp_path):
    """Also those that began from another."""
    path, text = tmp_path / "run", REGIONS.replace("noisy", "regions")
    experiment = Experiment.from_toml(text + "budget = 3\n")
    run_selection(experiment, path)
    assert [line.get("start") for line in planned(path)] == [None, 0, None]
    before = files(path)
    for name in before:
        if name.startswith("trainings"):
            (path / name).write_bytes(b"broken")
    run_selection(experiment, path)
    assert files(path) == before


def test_trainings_on_regions_run_side_by_side_and_may_fail(tmp_path):
    text = REGIONS + "n_parallel = 3\nbudget = 12\n"
    text = text.replace("chance = 0.7", "chance = 0.7\nfails_below = 3.0")
    here = run_selection(Experiment.from_toml(text), tmp_path / "here", workers=0)
    there = run_selection(Experiment.from_toml(text), tmp_path / "there", workers=2)
    assert_same(tmp_path / "here", tmp_path / "there")
    first = planned(tmp_path / "here")[:3]
    assert {line.get("kind", "trained") for line in first} == {"region", "trained"}
    assert here.result.failures == there.result.failures
    failures = [entry for entry in here.result.failures if entry["state"] == "failed"]
    assert failures
    assert {entry["reason"] for entry in failures} == {
        "RuntimeError: the simulator crashed"
    }
    # A failure is paid for in full.
    table, lines = here.result.table, planned(tmp_path / "here")
    lost = sum(lines[entry["source"]]["steps"] for entry in failures)
    assert here.result.environment_steps == table["environment_steps"].sum() + lost
