"""The study: one value for what is known, read once, whatever it comes from."""

import json
import shlex
import shutil
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import taskspace as ts
from taskspace.errors import InvalidInputError, TaskspaceError
from taskspace.performance.blocks import StoredBlock
from taskspace.runs import RunFolder, run_experiment
from taskspace.show.page import collect
from tests.helpers import refused, taskspace, zipped
from tests.performance.test_readers_fuzz import NOT_READ
from tests.runs.test_plant import experiment

ASSETS = Path(__file__).parents[1] / "assets"
REGRET = ts.Question("regret", epsilon=0.5)
SCORES = np.array([[3.0, 1.0, 0.0], [2.0, 4.0, 1.0]])


@pytest.fixture(scope="module")
def study():
    space = ts.Grid(k=(0.5, 4.0, 4), c=(0.5, 4.0, 3))
    trainer = ts.trainers.Lqr(n_policies=2, noise=0.05)
    return ts.evaluate(ts.systems.MassSpringDamper(), trainer, space, seed=0)


# --- parts are read once ----------------------------------------------------------

PARTS = (
    "table",
    "system",
    "axes",
    "policies",
    "targets",
    "experiment",
    "results",
)


def test_every_part_is_read_when_first_used_and_once(study):
    asked = Counter()

    def counting(name):
        def read():
            asked[name] += 1
            return study.parts[name]() if name in study.parts else None

        return read

    counted = replace(study, parts={name: counting(name) for name in PARTS})
    assert not asked
    for _ in range(3):
        for part in PARTS:
            getattr(counted, part)
        assert counted.shape == (4, 3)
        assert counted.policies is not None
        ts.minimum_cover(counted, REGRET)
        ts.certify(counted, REGRET, time_limit=1.0)
        repr(counted)
    assert asked == dict.fromkeys(PARTS, 1)
    # The counter counts: without the study each use is one more.
    counted.parts["table"]()
    assert asked["table"] == 2


def test_a_run_reads_its_policies_once_per_study(monkeypatch):
    """Files of policies, also those from which the table takes scores at home."""
    files = []
    original = StoredBlock._policies

    def counted(self, archive):
        files.append(self.path.name)
        return original(self, archive)

    monkeypatch.setattr(StoredBlock, "_policies", counted)
    run = ts.open(ASSETS / "run-v6")
    assert not files
    cover = ts.minimum_cover(run, REGRET)
    ts.certify(run, REGRET, time_limit=1.0)
    ts.certify(run, REGRET.at(1.0), time_limit=1.0)
    ts.library(run, cover)
    n_blocks = len(set(files))
    assert len(files) == n_blocks
    ts.certify(ts.open(ASSETS / "run-v6"), REGRET, time_limit=1.0)
    assert len(files) == 2 * n_blocks


# --- showing ----------------------------------------------------------------------


def test_a_study_says_what_it_is(study):
    said = "12 sources, 2 policies each, 12 targets, msd-v1, lqr, exact"
    assert repr(study) == f"Study({said})"
    alone = ts.study_from([[1.0]])
    assert repr(alone) == "Study(1 source, 1 policy each, 1 target, given)"


# --- opening ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def run_and_zip(tmp_path_factory):
    folder = tmp_path_factory.mktemp("opened") / "run"
    shutil.copytree(ASSETS / "run-v6", folder)
    return folder, zipped(folder)


@pytest.mark.parametrize("which", [0, 1], ids=["folder", "zip"])
def test_runs_and_zips_of_them_open_as_the_same_study(run_and_zip, which):
    path = run_and_zip[which]
    opened, run = ts.open(path), RunFolder.open(ASSETS / "run-v6")
    assert opened.origin == str(path)
    assert repr(opened) == (
        "Study(16 sources, 2 policies each, 16 targets, msd-v1, lqr, exact)"
    )
    for part in ("performance", "home_performance", "best_known"):
        np.testing.assert_array_equal(opened.table[part], run.table()[part])
    assert opened.system == ts.systems.MassSpringDamper()
    assert opened.shape == (4, 4)
    assert opened.targets == run.experiment.target_space
    assert opened.labels["k"] == "spring stiffness k [N/m]"
    assert opened.experiment.name == run.experiment.name
    assert opened.table.attrs["best_known_kind"] == "optimum"
    assert ts.minimum_cover(opened, ts.Question(epsilon=0.2)).size == 7
    assert opened.results.to_dict() == ts.open(ASSETS / "run-v6").results.to_dict()
    gain = run.table_policies().arrays()["gain"]
    np.testing.assert_array_equal(opened.policies.arrays()["gain"], gain)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "npz"])
def test_a_matrix_opens_as_a_study(suffix):
    path = ASSETS / "matrices-1" / f"table.{suffix}"
    options = {} if suffix == "npz" else {"ignore": NOT_READ}
    opened = ts.open(path, **options)
    table = ts.performance.read_matrix(path, **options)
    xr.testing.assert_identical(opened.table, table)
    assert opened.system is opened.policies is opened.experiment is opened.results
    assert opened.system is None
    assert opened.origin == str(path)
    with pytest.raises(InvalidInputError, match=r"needs the system.*numbers alone"):
        opened.require_system()


def test_how_a_matrix_is_read_is_not_for_runs(run_and_zip):
    for path in run_and_zip:
        for option in ({"lower_is_better": True}, {"header": False}, {"ignore": ["a"]}):
            with pytest.raises(InvalidInputError, match="is for matrix files"):
                ts.open(path, **option)
        # What is so anyway may be said.
        ts.open(path, lower_is_better=False)
    with pytest.raises(InvalidInputError, match="does not exist"):
        ts.open(ASSETS / "nothing")


NAMED = "name,a,b,c\nx,3,1,2\ny,1,4,0\n"
READINGS = [
    ({}, NAMED),
    ({"lower_is_better": True}, NAMED),
    ({"lower_is_better": False}, "name,cost,time,loss\nx,3,1,2\ny,1,4,0\n"),
    ({"header": False, "row_names": False}, "3,1,2\n1,4,0\n"),
    ({"header": True, "row_names": False}, "10,20,30\n3,1,2\n1,4,0\n"),
    ({"targets": ["a", "c"]}, NAMED),
    ({"ignore": ["b"], "missing": "not served"}, "name,a,b,c\nx,3,1,\ny,1,4,0\n"),
]


@pytest.mark.parametrize(("options", "text"), READINGS)
def test_how_a_matrix_was_read_goes_into_the_commands_of_its_page(
    tmp_path, options, text
):
    """The words of a page read the same numbers: for cover, and for verify."""
    file = tmp_path / "my matrix.csv"
    file.write_text(text)
    study = ts.open(file, **options)
    about = collect(study, time_limit=0.2, n_steps=4).header["about"]
    cover = ts.minimum_cover(study, ts.Question(epsilon=1.0))
    words = shlex.split(about["path"])
    printed = taskspace("cover", *words, "--ask", "regret <= 1", "--format", "json")
    assert printed.returncode == 0, printed.stderr
    assert json.loads(printed.stdout)["size"] == cover.size
    saved = tmp_path / "cover.json"
    cover.save(saved, question=about["question"])
    verified = taskspace("verify", saved, file)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_page_of_costs_is_not_verified_as_scores(tmp_path):
    """Negative control: the words of another reading do not hold."""
    file = tmp_path / "m.csv"
    file.write_text("name,a,b,c\nx,3,1,2\ny,1,4,0\n")
    costs = ts.open(file, lower_is_better=True)
    assert costs.reading == {"lower_is_better": True}
    cover = ts.minimum_cover(costs, ts.Question(epsilon=0.0))
    saved = tmp_path / "cover.json"
    asked = collect(costs, time_limit=0.2, n_steps=4).header["about"]["question"]
    cover.save(saved, question={**asked, "read": {"lower_is_better": False}})
    assert taskspace("verify", saved, file).returncode == 1
    cover.save(saved, question=asked)
    assert taskspace("verify", saved, file).returncode == 0


def test_a_study_in_memory_is_no_file(study, tmp_path, monkeypatch):
    """What lies in the working directory is not taken for it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "selection.json").write_text("{}")
    header = collect(study, time_limit=0.2, n_steps=4).header
    assert "selection" not in header
    assert header["about"]["path"] == "TABLE"


# --- data that a program holds ----------------------------------------------------


def test_arrays_and_frames_make_the_same_study():
    names = {"source": ["x", "y"], "target": ["a", "b", "c"]}
    array = xr.DataArray(SCORES, dims=("source", "target"), coords=names)
    frame = pd.DataFrame(SCORES, index=names["source"], columns=names["target"])
    dataset = array.to_dataset(name="performance")
    for data in (SCORES, SCORES.tolist(), frame, array, dataset):
        made = ts.study_from(data)
        assert repr(made) == "Study(2 sources, 1 policy each, 3 targets, given)"
        np.testing.assert_array_equal(made.table["performance"][:, 0], SCORES)
        assert made.table["best_known"].values.tolist() == [3.0, 4.0, 1.0]
        assert ts.minimum_cover(made, ts.Question(epsilon=1.0)).sources.tolist() == [1]
    families = np.stack([SCORES, SCORES - 1.0], 1)
    made = ts.study_from(families)
    assert made.n_policies == 2
    worst, best = (
        ts.Question("floor", judge, epsilon=0.0) for judge in ("worst", "best")
    )
    np.testing.assert_array_equal(ts.loss(made, worst), -(SCORES - 1.0))
    np.testing.assert_array_equal(ts.loss(made, best), -SCORES)


def test_costs_are_turned_round_once():
    frame = pd.DataFrame(SCORES, index=["x", "y"], columns=["a", "b", "c"])
    turned = ts.study_from(frame, lower_is_better=True).table
    np.testing.assert_array_equal(turned["performance"][:, 0], -SCORES)
    # A dataset with a reference is no reason to leave an option unheard.
    costs = xr.Dataset(
        {
            "performance": (("source", "target"), SCORES),
            "best_known": ("target", [1.0, 0.5, 0.0]),
        }
    )
    made = ts.study_from(costs, lower_is_better=True)
    np.testing.assert_array_equal(made.table["performance"][:, 0], -SCORES)
    assert made.table["best_known"].values.tolist() == [-1.0, -0.5, 0.0]
    with pytest.raises(InvalidInputError, match="best_known"):
        ts.study_from(costs)


def test_a_performance_table_stays_as_it_is(study):
    assert ts.study_from(study.table).table is study.table
    reduced = study.table.drop_vars("performance")
    worst = study.table["performance"].min("policy")
    reduced = reduced.assign(worst=worst, best=worst)
    assert ts.study_from(reduced).table is reduced
    given = ts.study_from(study.table, system=study.system, policies=study.policies)
    assert given.system is study.system
    assert given.policies is study.policies
    assert given.provenance == "exact"


# --- a cover knows its question ---------------------------------------------------


def test_a_cover_keeps_its_question(study, tmp_path):
    question = ts.Question("ratio", "best", epsilon=0.1)
    found = ts.minimum_cover(study, question)
    assert found.question == question
    for make in (ts.greedy_cover, ts.cover.local_cover, ts.cover.uniform_cover):
        assert make(study, question).question == question
    assert ts.cover.random_cover(study, question, seed=0).question == question
    assert ts.minimum_cover(question.sets(study)).question == question
    found.save(tmp_path / "cover.json")
    back = ts.Cover.load(tmp_path / "cover.json")
    assert back.question == question
    assert back.sources.tolist() == found.sources.tolist()
    made = ts.library(study, back)  # nobody has to say the question again
    assert made.guarantee.question == question


def test_a_bare_table_is_a_study_of_itself(study):
    table = study.table
    xr.testing.assert_identical(ts.loss(table, REGRET), ts.loss(study, REGRET))
    alone = ts.certify(table, REGRET, time_limit=1.0)
    assert alone.continuum is None  # no system, nothing between the targets
    assert ts.certify(study, REGRET, time_limit=5.0).continuum is not None


# --- refusals ---------------------------------------------------------------------


def test_what_does_not_fit_together_is_refused(study):
    few = ts.Study.of(study.table, system=study.system, policies=study.policies[:5])
    for use in (
        lambda: few.policies,
        lambda: ts.certify(few, REGRET, time_limit=1.0),
        lambda: ts.library(few, [3], question=REGRET),
    ):
        with pytest.raises(InvalidInputError, match=r"all 12 sources.*there are 5"):
            use()
    with pytest.raises(InvalidInputError, match="a question in them already"):
        ts.minimum_cover(REGRET.sets(study), REGRET)
    with pytest.raises(InvalidInputError, match="a question in them already"):
        ts.greedy_cover(REGRET.sets(study), REGRET.at(1.0))
    with pytest.raises(InvalidInputError, match=r"needs a study.*got str"):
        ts.certify("runs/msd", REGRET)
    with pytest.raises(TaskspaceError, match="epsilon"):
        ts.Question("regret", epsilon=-1.0)


def test_a_run_whose_code_is_not_trusted_is_not_certified_by_less(tmp_path):
    """Its table is still read; what needs the code says how to allow it."""
    run_experiment(experiment(), tmp_path / "run")
    path = zipped(tmp_path / "run")
    for opened in (ts.open(tmp_path / "run"), ts.open(path)):
        assert opened.system is None
        assert opened.labels == {"length": "length [m]"}
        assert (
            ts.minimum_cover(opened, ts.Question("ratio", epsilon=0.5)).coverage == 1.0
        )
        with pytest.raises(TaskspaceError, match="--trust"):
            opened.require_system()
        with pytest.raises(TaskspaceError, match="--trust"):
            ts.certify(opened, ts.Question("ratio", epsilon=0.5))
        # The table alone is another matter, and asked for in so many words.
        assert ts.certify(opened.table, ts.Question("ratio", epsilon=0.5)).cover.size
    options = ("--ask", "ratio <= 0.5")
    said = refused("export", path, *options, "--certified", "--to", tmp_path / "lib")
    assert "--trust" in said
    trusted = ts.open(tmp_path / "run", trust=True)
    assert [axis.name for axis in trusted.require_system().axes] == ["length"]


@pytest.mark.parametrize("asked", [0.1, None])
def test_what_is_no_question_is_refused_in_words(study, asked):
    random = partial(ts.cover.random_cover, seed=0)
    covers = (ts.cover.local_cover, ts.cover.uniform_cover, random)
    doors = (ts.loss, ts.minimum_cover, ts.greedy_cover, ts.complexity_profile)
    for door in (*doors, *covers, ts.certify):
        with pytest.raises(InvalidInputError, match="needs a question"):
            door(study, asked)


def test_a_cover_of_another_study_makes_no_library(study):
    other = ts.study_from(np.zeros((2, 3)))
    foreign = ts.minimum_cover(other, REGRET)
    with pytest.raises(InvalidInputError, match="2 sources and 3 targets"):
        ts.library(study, foreign)
    with pytest.raises(InvalidInputError, match="For a file use"):
        ts.study_from("table.csv")
