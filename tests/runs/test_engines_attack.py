"""Workers that join, die or never come: the same bytes, or one sentence."""

import contextlib
import functools
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest

from taskspace.errors import RunStoreError
from taskspace.runs import RunFolder, engines, execute, load_experiment, run_experiment
from tests.runs.test_kills import MSD
from tests.runs.test_runs_attack import digests

pytest.importorskip("distributed", reason="needs the extra 'dask'")

OPTIONS = ["space.n=8", "trainer.n_policies=2", "cover.n_repeats=4"]


def small():
    return load_experiment("msd", OPTIONS)


@pytest.fixture
def many_blocks(monkeypatch):
    """16 blocks of the table."""
    monkeypatch.setattr("taskspace.runs.folder.BLOCK_CELLS", 4 * 64 * 2)


@pytest.fixture
def whole(tmp_path, many_blocks):
    run_experiment(small(), tmp_path / "whole", workers=0)
    return digests(tmp_path / "whole")


class Started:
    """Processes of a test, ended with it."""

    def __init__(self, stack, folder):
        self._stack, self._folder, self._n = stack, folder, 0

    def __call__(self, *words, until):
        """A process, once what it says holds `until`; and what was found."""
        self._n += 1
        log = self._folder / f"log{self._n}"
        with log.open("w") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", *words], stdout=out, stderr=subprocess.STDOUT
            )
        self._stack.callback(end, process)
        deadline = time.monotonic() + 120
        while not (found := re.search(until, log.read_text())):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return process, found


def end(process):
    """End a process with all its children."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
    process.kill()
    process.wait()


@pytest.fixture
def start(tmp_path):
    with contextlib.ExitStack() as stack:
        yield Started(stack, tmp_path)


def scheduler(start):
    process, found = start(
        "dask", "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
        until=r"Scheduler at:\s+(tcp://\S+)",
    )  # fmt: skip
    return process, found[1]


def worker(start, address, *more):
    # Without a nanny: what is killed stays dead.
    return start(
        "dask", "worker", address, "--no-nanny", "--nthreads", "1", "--no-dashboard",
        *more, until="Registered to",
    )[0]  # fmt: skip


class Watched:
    """A report that does something once some blocks of four sources are done."""

    def __init__(self, deeds):
        self.deeds, self.notes = dict(deeds), set()

    def __call__(self, stage, done, total, note=""):
        if note:
            self.notes.add((stage, note))
        for key in [k for k in self.deeds if k[0] == stage and done >= 4 * k[1]]:
            self.deeds.pop(key)()


def test_dask_workers_join_and_die_in_mid_run(tmp_path, whole, start):
    _, address = scheduler(start)
    first = worker(start, address, "--local-directory", str(tmp_path / "a"))
    watched = Watched(
        {
            ("train", 2): functools.partial(worker, start, address),
            ("train", 4): first.kill,
        }
    )
    out = tmp_path / "there"
    run_experiment(small(), out, scheduler=address, report=watched)
    assert first.poll() is not None
    assert digests(out) == whole
    assert any("sources 0–3" in note for _, note in watched.notes)


def test_a_scheduler_without_workers_or_without_a_scheduler(
    tmp_path, many_blocks, start, monkeypatch
):
    monkeypatch.setattr(engines, "SCHEDULER_WAIT", 1.0)
    monkeypatch.setattr(engines, "CONNECT_WAIT", 2.0)
    monkeypatch.setattr(execute, "CHECKED", 0.2)
    process, address = scheduler(start)
    with pytest.raises(RunStoreError, match="has no worker"):
        run_experiment(small(), tmp_path / "empty", scheduler=address)
    # The only worker dies in mid-run: what is finished is kept.
    only = worker(start, address)
    watched = Watched({("train", 3): only.kill})
    with pytest.raises(RunStoreError, match="lost all its workers"):
        run_experiment(small(), tmp_path / "lost", scheduler=address, report=watched)
    assert RunFolder.open(tmp_path / "lost").trainings.evaluated[:12].all()
    # Then the scheduler itself.
    worker(start, address)
    watched = Watched({("train", 6): process.kill})
    with pytest.raises(RunStoreError, match=r"has gone away|lost all its workers"):
        run_experiment(small(), tmp_path / "lost", scheduler=address, report=watched)
    with pytest.raises(RunStoreError, match="There is no Dask scheduler"):
        run_experiment(small(), tmp_path / "lost", scheduler=address)
    run_experiment(small(), tmp_path / "lost", workers=0)
    run_experiment(small(), tmp_path / "whole", workers=0)
    assert digests(tmp_path / "lost") == digests(tmp_path / "whole")


@pytest.mark.parametrize("address", ["nonsense", "tcp://127.0.0.1:1", "ftp://a:1"])
def test_addresses_of_nothing(tmp_path, address, monkeypatch):
    monkeypatch.setattr(engines, "CONNECT_WAIT", 1.0)
    with pytest.raises(RunStoreError, match="There is no Dask scheduler"):
        run_experiment(small(), tmp_path / "run", scheduler=address)


def pool_workers():
    """Processes of pools that this one has started."""
    mine = psutil.Process().children(recursive=True)
    return {p for p in mine if "spawn_main" in " ".join(p.cmdline())}


def test_a_killed_pool_worker_is_one_sentence_and_costs_nothing(tmp_path, whole):
    out = tmp_path / "run"
    before = pool_workers()  # pools of other tests are kept for their next use

    def kill_one():
        (pool_workers() - before).pop().kill()
        time.sleep(0.5)

    watched = Watched({("train", 3): kill_one})
    with pytest.raises(RunStoreError, match="A worker process ended") as caught:
        run_experiment(small(), out, workers=2, report=watched)
    assert "run the same command" in str(caught.value)
    store = RunFolder.open(out)
    assert store.trainings.evaluated.sum() >= 12
    run_experiment(small(), out, workers=0)
    assert digests(out) == whole


def test_memory_that_runs_out_is_not_a_failed_training(tmp_path, monkeypatch):
    def train(self, contexts, seed=None):
        raise MemoryError

    monkeypatch.setattr(execute.Task, "train", train)
    with pytest.raises(MemoryError):
        run_experiment(small(), tmp_path / "run", workers=0)


SLEEPER = """
import time
from dataclasses import dataclass
from taskspace.trainers import Lqr

@dataclass(frozen=True)
class Sleeper(Lqr):
    def train(self, system, contexts, *, seed):
        time.sleep(600)
        return super().train(system, contexts, seed=seed)
"""
ASLEEP = MSD.replace('id = "lqr"', 'id = "sleeper:Sleeper"')


@pytest.mark.parametrize(("sent", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_signals_end_busy_workers_at_once(tmp_path, start, sent, code):
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    (tmp_path / "asleep.toml").write_text(ASLEEP)
    out = tmp_path / "run"
    process, _ = start(
        "taskspace", "run", str(tmp_path / "asleep.toml"), "--out", str(out),
        "--workers", "2", until="",
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not (children := psutil.Process(process.pid).children(recursive=True)):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    time.sleep(3)
    children = psutil.Process(process.pid).children(recursive=True)
    began = time.monotonic()
    process.send_signal(getattr(signal, sent))
    assert process.wait(30) == code
    assert time.monotonic() - began < 10  # a second on a free machine
    _, alive = psutil.wait_procs(children, timeout=5)
    assert len(children) >= 2
    assert not alive
