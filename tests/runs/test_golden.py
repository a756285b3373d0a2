"""Files of earlier versions open in this one, and say the same.

Each released format leaves one small example in `tests/assets`; matrices, covers and
libraries have theirs beside their own tests.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

import taskspace as ts
from taskspace.runs import (
    RunStore,
    load_experiment,
    run_experiment,
    run_selection,
    selection,
)
from taskspace.runs.archive import read_archive
from taskspace.show.figures.history import stored_selection
from tests.helpers import taskspace

ASSETS = Path(__file__).parents[1] / "assets"
SIZES = {("signed", "minimum"): 3, ("regret", "minimum"): 7, ("regret", "greedy"): 7}


def test_run_of_format_2():
    run = ts.open(ASSETS / "run-v2")
    covers = run.results.covers
    found = {(a.question.criterion, a.cover.method): a.cover.size for a in covers}
    assert found.items() >= SIZES.items()
    table = run.table
    assert dict(table.sizes) == {"source": 16, "policy": 2, "target": 16}
    assert table.attrs["provenance"] == "exact"
    question = ts.Question("regret", epsilon=0.2)
    assert ts.minimum_cover(question.sets(table)).size == 7
    assert run.policies.arrays()["gain"].shape == (16, 2, 1, 2)
    assert not RunStore.open(ASSETS / "run-v2").damages()
    assert taskspace("verify", ASSETS / "run-v2").returncode == 0


def test_a_run_of_format_2_is_taken_over(tmp_path):
    """The stored policies and table are used, not made again."""
    shutil.copytree(ASSETS / "run-v2", tmp_path / "run")
    options = ["space.n=4", "trainer.n_policies=2", "cover.n_repeats=3"]
    result = run_experiment(load_experiment("msd", options), tmp_path / "run")
    assert result.reused


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
    assert archive.system.axes[0]["unit"] == "N/m"


def test_a_selection_of_format_2_opens_and_goes_on(tmp_path, monkeypatch):
    """What is trained is taken over, and the sequence is that of a new selection."""
    shutil.copytree(ASSETS / "selection-v2", tmp_path / "old")
    asked = load_experiment(str(tmp_path / "old" / "selection.toml"))
    stored = ts.open(tmp_path / "old")
    kinds = stored.table["source_kind"].values.tolist()
    assert kinds == ["trained"] * 9 + ["interpolated"] * 3
    performance = stored.table["performance"].values
    assert not RunStore.open(tmp_path / "old").damages()
    plot = stored_selection(tmp_path / "old")
    assert [one.place for one in plot.sources] == list(range(12))
    new = run_selection(asked, tmp_path / "new").result
    with monkeypatch.context() as patch:
        patch.setattr(selection, "do_selected", None)  # would fail if called
        old = run_selection(asked, tmp_path / "old").result
    assert old.history == new.history
    np.testing.assert_array_equal(old.table["performance"], performance)
    for name in ("results.json", "trainings/manifest.jsonl", "experiment.toml"):
        there, here = tmp_path / "old" / name, tmp_path / "new" / name
        assert there.read_bytes() == here.read_bytes(), name
    assert not (tmp_path / "old" / "selection.json").exists()
