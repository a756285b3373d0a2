"""Selections on workers that join, die or never come: the same sequence."""

import functools

import pytest

from taskspace.errors import RunStoreError
from taskspace.runs import engines, run_selection
from taskspace.selection import loop
from tests.runs.test_engines_attack import scheduler, start, worker
from tests.selection.test_disk import assert_same, experiment

pytest.importorskip("distributed", reason="needs the extra 'dask'")

__all__ = ["start"]


class After:
    """Does something once so many trainings are done."""

    def __init__(self, deeds):
        self.deeds = dict(deeds)

    def __call__(self, stage, done, total, note=""):
        trainings = int(note.split()[0])
        for key in [k for k in self.deeds if trainings >= k]:
            self.deeds.pop(key)()


def test_dask_workers_join_and_die_in_mid_selection(tmp_path, start):
    _, address = scheduler(start)
    first = worker(start, address, "--local-directory", str(tmp_path / "a"))
    deeds = {
        2: functools.partial(worker, start, address),
        4: first.kill,
    }
    asked, there = experiment("coverage"), tmp_path / "there"
    found = run_selection(asked, there, scheduler=address, progress=After(deeds))
    assert first.poll() is not None
    assert found.result.stop_reason == "covered"
    run_selection(asked, tmp_path / "here")
    assert_same(there, tmp_path / "here")


def test_a_selection_whose_workers_are_gone_says_so_and_goes_on(
    tmp_path, start, monkeypatch
):
    monkeypatch.setattr(engines, "SCHEDULER_WAIT", 1.0)
    monkeypatch.setattr(loop, "CHECKED", 0.2)
    process, address = scheduler(start)
    asked, path = experiment("farthest"), tmp_path / "lost"
    with pytest.raises(RunStoreError, match="has no worker"):
        run_selection(asked, path, scheduler=address)
    only = worker(start, address)
    with pytest.raises(RunStoreError, match="lost all its workers"):
        run_selection(asked, path, scheduler=address, progress=After({2: only.kill}))
    worker(start, address)
    gone = After({4: process.kill})
    with pytest.raises(RunStoreError, match=r"has gone away|lost all its workers"):
        run_selection(asked, path, scheduler=address, progress=gone)
    # Whatever was finished is kept, and the sequence is that of one process.
    run_selection(asked, path)
    run_selection(asked, tmp_path / "whole")
    assert_same(path, tmp_path / "whole")
