"""Files of earlier versions open in this one, and say the same.

Each released format leaves one small example in `tests/assets`; matrices, covers and
libraries have theirs beside their own tests.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

import taskspace as ts
from taskspace.runs import RunStore, load_experiment, run_experiment, run_selection
from taskspace.runs.archive import read_archive
from taskspace.show.figures.history import stored_selection
from tests.helpers import refused, taskspace

ASSETS = Path(__file__).parents[1] / "assets"
SIZES = {("signed", "minimum"): 3, ("regret", "minimum"): 7, ("regret", "greedy"): 7}


@pytest.mark.parametrize("name", ["run-v2", "run-v3"])
def test_runs_of_formats_2_and_3(name):
    run = ts.open(ASSETS / name)
    covers = run.results.covers
    found = {(a.question.criterion, a.cover.method): a.cover.size for a in covers}
    assert found.items() >= SIZES.items()
    table = run.table
    assert dict(table.sizes) == {"source": 16, "policy": 2, "target": 16}
    assert table.attrs["provenance"] == "exact"
    question = ts.Question("regret", epsilon=0.2)
    assert ts.minimum_cover(question.sets(table)).size == 7
    assert run.policies.arrays()["gain"].shape == (16, 2, 1, 2)
    assert not RunStore.open(ASSETS / name).damages()
    assert taskspace("verify", ASSETS / name).returncode == 0


def test_a_run_of_format_3_goes_on(tmp_path):
    """The stored policies, table and covers are used, not made again."""
    shutil.copytree(ASSETS / "run-v3", tmp_path / "run")
    options = ["space.n=4", "trainer.n_policies=2", "cover.n_repeats=3"]
    assert run_experiment(load_experiment("msd", options), tmp_path / "run").reused
    stored = RunStore.open(ASSETS / "run-v2").table()
    performance = ts.open(tmp_path / "run").table["performance"]
    np.testing.assert_allclose(performance, stored["performance"], rtol=1e-9)


def test_a_run_of_format_2_is_not_written(tmp_path):
    """It is refused as it is, by a run and by a selection, and nothing changes."""
    for name, words in (
        ("run-v2", ["run", "msd"]),
        ("selection-v2", ["select", "msd"]),
    ):
        shutil.copytree(ASSETS / name, tmp_path / name)
        before = sorted(p.name for p in (tmp_path / name).iterdir())
        said = refused(*words, "--out", tmp_path / name)
        assert "has run format 2" in said
        assert sorted(p.name for p in (tmp_path / name).iterdir()) == before


@pytest.mark.parametrize("version", [2, 3])
def test_archives_of_formats_2_and_3(version):
    archive = read_archive(ASSETS / f"archive-v{version}.npz")
    store = RunStore.open(ASSETS / "run-v2")
    stored = store.table()
    if version == 2:
        assert archive.policies is None
    else:
        assert archive.all_policies is not None
        gain = archive.all_policies.arrays()["gain"]
        np.testing.assert_array_equal(gain, store.table_policies().arrays()["gain"])
    for name in ("performance", "home_performance", "best_known"):
        np.testing.assert_array_equal(archive.table[name], stored[name])
    assert archive.table.attrs["provenance"] == "exact"
    assert archive.axes["k"].unit == "N/m"


def test_a_selection_of_format_2_opens(tmp_path):
    """Its table, its history and its picture are those of a new selection."""
    old = ASSETS / "selection-v2"
    stored = ts.open(old)
    kinds = stored.table["source_kind"].values.tolist()
    assert kinds == ["trained"] * 9 + ["interpolated"] * 3
    assert not RunStore.open(old).damages()
    plot = stored_selection(old)
    assert [one.place for one in plot.sources] == list(range(12))
    asked = load_experiment(str(old / "selection.toml"))
    new = run_selection(asked, tmp_path / "new").result
    log = RunStore.open(old).log
    assert [step.entry for step in log.steps] == new.history
    np.testing.assert_array_equal(new.table["performance"], stored.table["performance"])
