"""Runs: resumable, readable, never overwriting, the same bytes in the end."""

import json
import shutil

import numpy as np
import pytest
import xarray as xr

import taskspace as ts
from taskspace.errors import InvalidInputError, RunStoreError, UnknownNameError
from taskspace.runs import Experiment, RunFolder, load_experiment, run_experiment
from taskspace.runs import execute as execute_module
from taskspace.runs.results import answer
from taskspace.systems import MassSpringDamper
from tests.helpers import block_of, zipped
from tests.runs.test_runs_attack import digests

SMALL = ["space.n=8", "trainer.n_policies=3", "cover.n_repeats=10"]


def small(*more: str) -> Experiment:
    return load_experiment("msd", [*SMALL, *more])


@pytest.fixture
def many_blocks(monkeypatch):
    """Cut the small table into eight blocks."""
    monkeypatch.setattr("taskspace.runs.folder.BLOCK_CELLS", 8 * 64 * 3)


def test_run_holds_the_same_table_as_evaluate(tmp_path, many_blocks):
    experiment = small()
    run_experiment(experiment, tmp_path / "run")
    stored = RunFolder.open(tmp_path / "run").table()
    direct = ts.evaluate(
        experiment.built_system, experiment.built_trainer, experiment.sources, seed=0
    ).table
    for name in ("performance", "home_performance", "best_known"):
        np.testing.assert_array_equal(stored[name], direct[name])
    assert dict(stored.coords.sizes)["source"] == 64
    np.testing.assert_array_equal(stored["source_k"], direct["source_k"])


def test_interrupted_run_equals_undisturbed_run(tmp_path, many_blocks, monkeypatch):
    run_experiment(small(), tmp_path / "whole")
    done = []

    def fails_after_three(*arguments, real=execute_module.do_work):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(arguments[-1].numbers[0])
        return real(*arguments)

    monkeypatch.setattr(execute_module, "do_work", fails_after_three)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(small(), tmp_path / "cut")
    monkeypatch.undo()
    assert not RunFolder.open(tmp_path / "cut").is_complete()
    # A block that was half written, another one that is rubbish.
    folder = tmp_path / "cut" / "trainings"
    (folder / ".partial-1-00003-0-0.npz").write_bytes(b"half")
    block_of(tmp_path / "cut", 2).write_bytes(b"rubbish")
    again = []

    def counts(*arguments, real=execute_module.do_work):
        again.append(arguments[-1].numbers[0] // 8)
        return real(*arguments)

    monkeypatch.setattr(execute_module, "do_work", counts)
    run_experiment(small(), tmp_path / "cut")
    # Finished blocks are never computed again.
    assert again == [2, 3, 4, 5, 6, 7]
    assert digests(tmp_path / "cut") == digests(tmp_path / "whole")


def test_workers_give_the_same_bytes(tmp_path, many_blocks):
    run_experiment(small(), tmp_path / "here")
    run_experiment(small(), tmp_path / "there", workers=2)
    assert digests(tmp_path / "here") == digests(tmp_path / "there")


def test_dask_scheduler_gives_the_same_bytes(tmp_path, many_blocks):
    distributed = pytest.importorskip("distributed", reason="needs the extra 'dask'")
    run_experiment(small(), tmp_path / "here")
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        dashboard_address=None,
    ) as cluster:
        run_experiment(small(), tmp_path / "there", scheduler=cluster.scheduler_address)
    assert digests(tmp_path / "here") == digests(tmp_path / "there")


def test_second_run_computes_nothing(tmp_path, monkeypatch):
    first = run_experiment(small(), tmp_path / "run")
    monkeypatch.setattr(execute_module, "answer", None)  # would fail if called
    second = run_experiment(small(), tmp_path / "run")
    assert second.reused
    assert not first.reused
    # What is read is what was found, to the type of each number.
    assert json.dumps(second.results.to_dict()) == json.dumps(first.results.to_dict())


def test_foreign_directory_is_refused_untouched(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(RunStoreError, match="not a run directory"):
        run_experiment(small(), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_resolved_experiment_runs_again_exactly(tmp_path):
    first = run_experiment(small(), tmp_path / "a")
    again = load_experiment(str(tmp_path / "a" / "experiment.toml"))
    second = run_experiment(again, tmp_path / "b")
    assert first.results.to_dict() == second.results.to_dict()
    assert digests(tmp_path / "a") == digests(tmp_path / "b")


def test_experiment_round_trips_through_toml():
    experiment = small("space.c=[0.1, 8.0, 4, 'log']").resolved()
    assert Experiment.from_toml(experiment.to_toml()) == experiment


def test_targets_may_differ_from_sources(tmp_path):
    experiment = small("targets.k=[0.5, 7.5, 5]", "targets.c=[0.5, 7.5, 3]")
    result = run_experiment(experiment, tmp_path / "run")
    assert result.results.covers[0].n_targets == 15
    assert result.results.covers[0].n_sources == 64


def test_overrides():
    experiment = small(
        "ask=['signed <= 0.1', 'regret <= 0.3']", "system.input_weight=4.0"
    )
    assert [str(q) for q in experiment.ask] == ["signed <= 0.1", "regret <= 0.3"]
    system = experiment.built_system
    assert isinstance(system, MassSpringDamper)
    assert system.input_weight == 4.0
    assert small("ask=cost <= 9").ask == (ts.Question("cost <= 9"),)


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("space.n=0", "at least one point"),
        ("space.k=[1, 2]", "must be (low, high, n)"),
        ("space.k=[-1, 2, 3]", "0 <= k must hold"),
        ("space.q=[1, 2, 3]", "Unknown context axis of msd-v1 'q'"),
        ("system.id='msd-v2'", "Did you mean 'msd-v1'?"),
        ("system.mass=3", "Unknown key of [system] of msd-v1: 'mass'"),
        ("trainer.nois=1", "Did you mean 'noise'?"),
        ("trainer.noise='much'", "wrong type"),
        ("ask=regret <= -1", "epsilon >= 0 must hold"),
        ("ask=regret <= x", "there may stand a number"),
        ("ask=regrets <= 1", "Did you mean 'regret'?"),
        ("ask=regret", "must have a bound"),
        ("ask=3", "a question or a list of questions"),
        ("criteria.epsilon=1", "[[criteria]] is no table of an experiment any more"),
        ("cover.methods=['greedi']", "Did you mean 'greedy'?"),
        ("seed=-1", "seed must be an integer >= 0"),
        ("sede=1", "Did you mean 'seed'?"),
        ("nonsense", "--set needs key=value"),
        ("ask.7=regret <= 1", "ask is a value, not a table"),
    ],
)
def test_bad_values_are_named(override, says):
    with pytest.raises((InvalidInputError, UnknownNameError)) as error:
        small(override)
    assert says in str(error.value)


def test_greedy_needs_no_more_sources_than_uniform_or_random(tmp_path):
    # The paper's claim, at every coverage level that greedy passes.
    results = run_experiment(
        small("space.n=15", "ask=['signed <= 0.3', 'regret <= 0.3']"), tmp_path / "run"
    ).results
    curves = {(c.question.criterion, c.method): c for c in results.curves}
    for criterion in ("signed", "regret"):
        greedy = curves[criterion, "greedy"]
        for n, coverage in zip(greedy.n_sources, greedy.coverage, strict=True):
            for method in ("uniform", "random"):
                other = curves[criterion, method]
                there = np.interp(n, other.n_sources, other.coverage)
                assert coverage >= there - 1e-9


def test_a_zip_of_a_run_holds_it_without_loss(tmp_path):
    result = run_experiment(small(), tmp_path / "run")
    run = RunFolder.open(tmp_path / "run")
    opened = ts.open(zipped(tmp_path / "run"))
    assert opened.experiment == run.experiment
    xr.testing.assert_identical(opened.table.load(), run.table().load())
    found = answer(opened.table, opened.experiment).to_dict()
    truth = result.results.to_dict()
    assert opened.results.to_dict() == truth
    assert found | {"table": truth["table"]} == truth
    # The folder itself may be in the zip file, as most programs make it.
    whole = shutil.make_archive(str(tmp_path / "whole"), "zip", tmp_path, "run")
    assert ts.open(whole).table.equals(opened.table)
    cut = (tmp_path / "run.zip").read_bytes()[:5000]
    (tmp_path / "cut.zip").write_bytes(cut)
    with pytest.raises(InvalidInputError, match="not a whole zip file"):
        ts.open(tmp_path / "cut.zip")
