"""A finished run and a finished selection, which tests copy and damage."""

import shutil

import pytest

from taskspace.questions import Question
from taskspace.runs import Experiment, run_experiment, run_selection
from tests.runs.test_kills import MSD

BLOCK_CELLS = 9 * 36 * 2


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A run of four blocks, never changed by a test."""
    path = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("taskspace.runs.folder.BLOCK_CELLS", BLOCK_CELLS)
        run_experiment(Experiment.from_toml(MSD), path)
    return path


@pytest.fixture(scope="session")
def selected(tmp_path_factory):
    """A finished selection, never changed by a test."""
    path = tmp_path_factory.mktemp("selected") / "run"
    question = Question("regret", epsilon=0.4)
    run_selection(Experiment.from_toml(MSD), path, question=question)
    return path


@pytest.fixture
def few_cells(monkeypatch):
    """Cut new runs into blocks as `finished` is."""
    monkeypatch.setattr("taskspace.runs.folder.BLOCK_CELLS", BLOCK_CELLS)


@pytest.fixture
def copy(finished, tmp_path, few_cells):
    """A copy of the finished run."""
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"
