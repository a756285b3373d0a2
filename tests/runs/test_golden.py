"""The current format opens as it was written; former ones are refused in a sentence.

Matrices, covers and libraries have their examples beside their own tests.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import RunStoreError
from taskspace.runs import RunFolder, load_experiment, run_experiment
from tests.helpers import refused, taskspace

ASSETS = Path(__file__).parents[1] / "assets"
SIZES = {("signed", "minimum"): 3, ("regret", "minimum"): 7, ("regret", "greedy"): 7}


def test_a_run_of_format_6():
    run = ts.open(ASSETS / "run-v6")
    covers = run.results.covers
    found = {(a.question.criterion, a.method): a.size for a in covers}
    assert found.items() >= SIZES.items()
    table = run.table
    assert dict(table.sizes) == {"source": 16, "policy": 2, "target": 16}
    assert table.attrs["provenance"] == "exact"
    question = ts.Question("regret", epsilon=0.2)
    assert ts.minimum_cover(question.sets(table)).size == 7
    assert run.policies.arrays()["gain"].shape == (16, 2, 1, 2)
    assert not RunFolder.open(ASSETS / "run-v6").damages()
    assert taskspace("verify", ASSETS / "run-v6").returncode == 0


def test_a_run_of_format_6_goes_on(tmp_path):
    """The stored policies, table and covers are used, not made again."""
    shutil.copytree(ASSETS / "run-v6", tmp_path / "run")
    options = ["space.n=4", "trainer.n_policies=2", "cover.n_repeats=3"]
    assert run_experiment(load_experiment("msd", options), tmp_path / "run").reused
    fresh = run_experiment(load_experiment("msd", options), tmp_path / "fresh")
    assert not fresh.reused
    names = (ts.open(tmp_path / name).table["performance"] for name in ("run", "fresh"))
    np.testing.assert_allclose(*names, rtol=1e-9)


@pytest.mark.parametrize("manifest", ["manifest.json", "trainings/manifest.jsonl"])
def test_a_run_of_a_former_format_is_refused(tmp_path, manifest):
    """By what reads and by what writes, and nothing changes."""
    path = tmp_path / "run"
    for name in (manifest, "experiment.toml", "results.json"):
        (path / name).parent.mkdir(exist_ok=True, parents=True)
        (path / name).write_text("{}")
    for words in (("cover", path, "--ask", "regret <= 1"), ("verify", path)):
        assert "run" in refused(*words)
    for words in (("run", "msd"), ("select", "msd", "--ask", "regret <= 1")):
        assert "not a run directory" in refused(*words, "--out", path)
    assert len(list(path.iterdir())) == 3


def test_an_archive_is_refused(tmp_path):
    file = tmp_path / "a.npz"
    np.savez(file, experiment=np.array(""), notes=np.array("{}"), performance=[[1.0]])
    with pytest.raises(RunStoreError, match="is an archive of a run, which this"):
        ts.open(file)
    assert "is an archive of a run" in refused("cover", file, "--ask", "regret <= 1")
