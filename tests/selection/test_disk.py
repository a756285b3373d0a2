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
from taskspace._util.files import read_sealed, write_sealed
from taskspace.errors import DamagedFileError, RunStoreError, UnknownNameError
from taskspace.runs import (
    Experiment,
    RunStore,
    load_experiment,
    run_experiment,
    run_selection,
)
from taskspace.runs.selection import do_selected

TOML = """
name = "small"
seed = 3
[system]
id = "msd-v1"
[space]
k = [0.1, 8.0, 9]
c = [0.1, 8.0, 9]
[trainer]
id = "lqr"
n_policies = 2
noise = 0.01
[[criteria]]
criterion = "regret"
epsilon = [0.3]
[cover]
methods = ["greedy"]
n_repeats = 2
[select]
selector = "SELECTOR"
n_parallel = 2
"""


def experiment(selector="coverage", more=""):
    return Experiment.from_toml(TOML.replace("SELECTOR", selector) + more)


class Killed(BaseException):
    pass


def planned(path):
    record = json.loads((path / "selection.json").read_text())["content"]
    return record["sources"]


def files(path):
    kept = [p for p in sorted(path.rglob("*")) if p.is_file()]
    skipped = ("selection.json", ".lock")  # hours are in the first
    return {
        str(p.relative_to(path)): p.read_bytes() for p in kept if p.name not in skipped
    }


@pytest.mark.parametrize("selector", ["coverage", "uncovered", "interpolated"])
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

        try:
            again = run_selection(
                experiment(selector), tmp_path / "killed", progress=kill
            )
            break
        except Killed:
            n_killed += 1
    assert n_killed >= 3
    assert planned(tmp_path / "whole") == planned(tmp_path / "killed")
    assert files(tmp_path / "whole") == files(tmp_path / "killed")
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
        if (tmp_path / "killed" / "blocks" / "table-00002.json").exists():
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    loaded = experiment("farthest")
    run_selection(loaded, tmp_path / "whole")
    run_selection(loaded, tmp_path / "killed")
    assert planned(tmp_path / "whole") == planned(tmp_path / "killed")
    assert files(tmp_path / "whole") == files(tmp_path / "killed")


def test_the_result_is_an_ordinary_run(tmp_path):
    found = run_selection(experiment("interpolated"), tmp_path / "run")
    store = RunStore.open(tmp_path / "run")
    assert store.is_complete()
    assert not store.damages()
    table = store.table()
    memory = found.result.table
    for name in ("performance", "best_known", "home_performance"):
        np.testing.assert_array_equal(table[name].values, memory[name].values)
    assert table["source_kind"].values.tolist() == memory["source_kind"].values.tolist()
    assert set(table["source_kind"].values) == {"trained", "interpolated"}
    (note,) = table.attrs["notes"]
    assert "a selection trained" in note
    assert not table.attrs.get("n_planned")
    before = files(tmp_path / "run")
    assert run_experiment(store.experiment, tmp_path / "run").reused
    after = files(tmp_path / "run")
    assert {k: after[k] for k in before if "results" in k} == {
        k: v for k, v in before.items() if "results" in k
    }
    # Policies are there with their parameters, also those that were blended.
    policies = store.read_policies(slice(0, table.sizes["source"])).trained.policies
    assert policies.arrays()["gain"].shape[:2] == (table.sizes["source"], 2)


@pytest.mark.parametrize("selector", ["coverage", "interpolated"])
def test_what_is_damaged_is_made_again_as_it_was(tmp_path, selector):
    path = tmp_path / "run"
    run_selection(experiment(selector), path)
    before = files(path)
    for name in sorted(before):
        if not name.startswith(("policies", "table.zarr/performance/c")):
            continue
        data = bytearray(before[name])
        data[len(data) // 2] ^= 0x40
        (path / name).write_bytes(bytes(data))
    with pytest.raises(RunStoreError, match="taskspace select"):
        run_experiment(RunStore.open(path).experiment, path)
    run_selection(experiment(selector), path)
    assert files(path) == before


@pytest.mark.parametrize("n_broken", [0, 1])
@pytest.mark.parametrize("selector", ["coverage", "interpolated"])
def test_a_lost_journal_is_made_again_from_what_is_trained(
    tmp_path, monkeypatch, selector, n_broken
):
    path = tmp_path / "run"
    run_selection(experiment(selector), path)
    before, sources = files(path), planned(path)
    file = path / "selection.json"
    if n_broken:
        file.unlink()
        (path / "policies" / "block-00000.npz").write_bytes(b"broken")
    else:
        file.write_bytes(file.read_bytes().replace(b"seed", b"sead", 1))
    with pytest.raises((DamagedFileError, RunStoreError), match="selection"):
        RunStore.open(path).table()
    with pytest.raises(RunStoreError, match=r"select\.selector is"):
        run_selection(experiment("farthest"), path)
    question = ts.Question("regret", epsilon=0.1)
    with pytest.raises(RunStoreError, match=r"asked for regret ≤ 0\.3"):
        run_selection(experiment(selector), path, question=question)
    assert RunStore.open(path).resume_command.endswith("--epsilon 0.3")
    trained = []

    def train(*arguments):
        trained.append(arguments[-1])
        return do_selected(*arguments)

    monkeypatch.setattr("taskspace.runs.selection.do_selected", train)
    run_selection(experiment(selector), path)
    assert len(trained) == n_broken
    assert files(path) == before
    assert planned(path) == sources


def test_a_journal_that_was_lost_with_its_experiment_is_refused(tmp_path):
    path = tmp_path / "run"
    run_selection(experiment(), path)
    (path / "selection.json").write_text("{}")
    (path / "selection.toml").write_text("name = ")
    before = files(path)
    with pytest.raises(RunStoreError, match="another directory"):
        run_selection(experiment(), path)
    assert files(path) == before


def test_a_selection_of_former_names_opens_and_goes_on(tmp_path):
    """Keys of `[select]` as they were called before, in the files that hold them."""
    path, more = tmp_path / "run", "evaluate_uncovered_only = true\nreference = 0.0\n"
    asked = experiment("farthest", f"{more}budget = 5\n")
    run_selection(replace(asked, select=replace(asked.select, budget=3)), path)
    former = {
        "n_parallel": "n_at_once",
        "evaluate_uncovered_only": "sparing",
        "reference": "limit",
    }
    toml = (path / "selection.toml").read_text()
    record = read_sealed(path / "selection.json")
    for name, old in former.items():
        assert f"\n{name} = " in toml
        toml = toml.replace(f"\n{name} = ", f"\n{old} = ")
        record["asked"]["select"][old] = record["asked"]["select"].pop(name)
    (path / "selection.toml").write_text(toml)
    write_sealed(path / "selection.json", record)
    stored = load_experiment(str(path / "selection.toml"))
    assert stored.select == replace(asked.select, budget=3)
    assert ts.open(path).table.sizes["source"] == 3
    on = run_selection(asked, path)
    whole = run_selection(asked, tmp_path / "whole")
    assert on.result.trainings == whole.result.trainings == 5
    assert planned(path) == planned(tmp_path / "whole")
    # A file of one's own is of today: a former name is unknown there.
    (tmp_path / "own.toml").write_text(toml)
    with pytest.raises(UnknownNameError, match="n_at_once"):
        load_experiment(str(tmp_path / "own.toml"))


def test_another_selection_is_refused_and_a_larger_budget_goes_on(tmp_path):
    path = tmp_path / "run"
    first = run_selection(experiment("farthest", "budget = 3\n"), path)
    assert first.result.trainings == 3
    with pytest.raises(RunStoreError, match=r"select\.selector is 'farthest' there"):
        run_selection(experiment("coverage"), path)
    question = ts.Question("regret", epsilon=0.1)
    with pytest.raises(RunStoreError, match="epsilon"):
        run_selection(experiment("farthest"), path, question=question)
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


def test_processes_give_the_same_directory(tmp_path):
    run_selection(experiment(), tmp_path / "here")
    run_selection(experiment(), tmp_path / "there", workers=2)
    assert planned(tmp_path / "here") == planned(tmp_path / "there")
    assert files(tmp_path / "here") == files(tmp_path / "there")


def test_the_command_prints_its_keys(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(TOML.replace("SELECTOR", "coverage"))
    out = tmp_path / "run"
    command = [sys.executable, "-m", "taskspace", "select", str(file)]
    command += ["--out", str(out), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    record = json.loads(done.stdout)
    keys = "run stop_reason trainings environment_steps evaluations coverage"
    for key in (*keys.split(), "lower_bound_trainings", "history", "cover"):
        assert key in record, key
    assert record["run"] == str(out)
    assert record["stop_reason"] == "covered"
    assert record["coverage"] == record["cover"]["coverage"] == 1.0
    assert record["evaluations"] == record["trainings"] * 2 * 81
    assert record["history"][-1]["trainings"] == record["trainings"]
    assert record["cover"]["epsilon"] == 0.3
    plot = json.loads((out / "figures" / "selection.json").read_text())
    assert plot["own"]["coverage"] == [entry["coverage"] for entry in record["history"]]
    assert (out / "figures" / "selection.png").stat().st_size > 1000
    bad = subprocess.run(
        [*command, "--selector", "covrage"], capture_output=True, text=True, check=False
    )
    assert bad.returncode == 2
    assert "Did you mean 'coverage'?" in bad.stderr
