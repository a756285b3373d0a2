"""Archives: a run in one file, with the policies that its readers need."""

import json

import numpy as np
import pytest

import taskspace as ts
from taskspace.deploy import library, load_library
from taskspace.errors import InvalidInputError
from taskspace.questions import Question
from taskspace.runs import Experiment, RunStore, run_experiment
from taskspace.runs import archive as archive_module
from taskspace.runs.archive import read_archive, write_archive
from tests.helpers import refused, taskspace
from tests.runs.test_kills import MSD

QUESTION = Question("regret", epsilon=0.4)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "run"
    run_experiment(Experiment.from_toml(MSD), path)
    return path


def archived(run, folder, policies):
    file = folder / f"{policies}.npz"
    words = ("archive", run, file, "--policies", policies)
    assert taskspace(*words).returncode == 0
    return file


def test_policies_come_along_and_are_the_same(run, tmp_path):
    store = RunStore.open(run)
    whole = store.table_policies().arrays()["gain"]
    chosen = sorted(
        {
            source
            for cover in json.loads((run / "results.json").read_text())["content"][
                "covers"
            ]
            if cover["method"] == "greedy"
            for source in cover["sources"]
        }
    )
    for policies, numbers in (
        ("auto", range(36)),
        ("all", range(36)),
        ("covers", chosen),
        ("none", ()),
    ):
        archive = read_archive(archived(run, tmp_path, policies))
        there = ~archive.without_policies
        assert np.flatnonzero(there).tolist() == list(numbers)
        assert (archive.all_policies is None) == (len(numbers) < 36)
        if len(numbers):
            assert archive.policies is not None
            gain = archive.policies.arrays()["gain"]
            np.testing.assert_array_equal(gain[there], whole[there])
        else:
            assert archive.policies is None
        assert archive.table.drop_attrs().identical(store.table().load().drop_attrs())


def test_large_policies_are_those_of_the_covers(run, tmp_path, monkeypatch):
    monkeypatch.setattr(archive_module, "ALL_POLICIES_BYTES", 100)
    file = write_archive(RunStore.open(run), tmp_path / "a.npz")
    assert 0 < (~read_archive(file).without_policies).sum() < 36


def test_an_archive_makes_the_library_of_its_run(run, tmp_path):
    words = ("--epsilon", 0.4, "--method", "greedy", "--as", "none", "--to")
    assert taskspace("export", run, *words, tmp_path / "a").returncode == 0
    for policies in ("all", "covers"):
        file = archived(run, tmp_path, policies)
        to = tmp_path / f"b-{policies}"
        assert taskspace("export", file, *words, to).returncode == 0
        one, two = load_library(tmp_path / "a"), load_library(to)
        assert one.entries == two.entries
        assert one.policies is not None
        assert two.policies is not None
        np.testing.assert_array_equal(
            one.policies.arrays()["gain"], two.policies.arrays()["gain"]
        )


def test_sources_without_policies_are_named(run, tmp_path):
    study = ts.open(archived(run, tmp_path, "covers"))
    lost = np.flatnonzero(study.without_policies)[:2].tolist()
    named = f"of the sources {lost[0]}, {lost[1]} are not in"
    with pytest.raises(InvalidInputError, match=named):
        library(study, lost, QUESTION)
    assert library(study, np.flatnonzero(~study.without_policies), QUESTION).size


def test_an_archive_stands_for_its_run(run, tmp_path):
    """As a system, as a pool of policies, on a page, and for certificates."""
    file, none = (archived(run, tmp_path, p) for p in ("all", "none"))
    words = ("--epsilon", 0.4, "--method", "greedy", "--as", "none")
    assert taskspace("export", file, *words, "--to", tmp_path / "l").returncode == 0
    tried = ("evaluate", tmp_path / "l")
    of_run = taskspace(*tried, "msd-v1", "--run", run, "--format", "json")
    of_file = taskspace(*tried, file, "--run", file, "--format", "json")
    assert of_run.returncode == of_file.returncode == 0
    a, b = json.loads(of_run.stdout), json.loads(of_file.stdout)
    assert a["contenders"] == b["contenders"]
    assert "--policies all" in refused(*tried, "msd-v1", "--run", none)
    assert "all its policies" in refused(
        "export", none, *words, "--to", tmp_path / "c", "--certified"
    )
    for path, plays in ((file, True), (none, False)):
        page = tmp_path / "page.html"
        assert taskspace("explore", path, "--out", page).returncode == 0
        assert ('"scene"' in page.read_text()) == plays


def test_unknown_choices_are_refused(run, tmp_path):
    said = refused("archive", run, tmp_path / "x.npz", "--policies", "som")
    assert "auto, all, covers, none" in said
