"""Runs and archives that were damaged, forged, killed or fought over.

Outcomes allowed: the same answer, a sentence with exit code 2, or a recomputation to
the same bytes. Never another number, never a traceback, never code that runs.
"""

import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

from taskspace._util.files import checksum, read_sealed, write_sealed
from taskspace.errors import RunStoreError, TaskspaceError
from taskspace.runs import Experiment, run_experiment
from taskspace.runs import execute as execute_module
from taskspace.runs.info import locked
from tests.helpers import block_of, refused, taskspace, zipped
from tests.runs.test_kills import MSD

EVIL = 'id = "subprocess:Popen"\nargs = ["touch", "{mark}"]\n'


def small():
    return Experiment.from_toml(MSD)


def digests(path):
    return {
        str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(path.rglob("*"))
        if file.is_file() and "figures" not in file.parts
    }


def answer_of(path):
    """What the reading commands say: the cover, or None and a sentence."""
    done = taskspace("cover", path, "--ask", "regret <= 0.4", "--format", "json")
    assert "Traceback" not in done.stderr
    if done.returncode == 0:
        return json.loads(done.stdout)["sources"], ""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    return None, done.stderr


# --- security ---------------------------------------------------------------------


def forged_run(path, mark):
    """A run whose experiment names a program to start, with checksums that fit."""
    text = (path / "experiment.toml").read_text()
    head, _, rest = text.partition("[system]\n")
    _, _, rest = rest.partition("\n[")
    text = f"{head}[system]\n{EVIL.format(mark=mark)}\n[{rest}"
    (path / "experiment.toml").write_text(text)
    reseal(path, experiment=checksum(text.encode()))
    return path


def reseal(path, **changes):
    """Change what a run says of itself, with a checksum that fits."""
    write_sealed(path / "run.json", read_sealed(path / "run.json") | changes)


@pytest.mark.parametrize("kind", ["run", "zip"])
def test_reading_never_runs_what_a_file_names(copy, tmp_path, kind):
    mark = tmp_path / "executed"
    path = forged_run(copy, mark)
    if kind == "zip":
        path = zipped(path)
    for words in (
        ("cover", path, "--ask", "regret <= 0.4"),
        ("profile", path, "--time-limit", 5),
        ("certify", path, "--ask", "regret <= 0.4", "--time-limit", 2),
        ("explore", path, "--out", tmp_path / "page.html"),
        ("doctor", path),
        ("run", path / "experiment.toml", "--out", path),
    ):
        done = taskspace(*words)
        assert not mark.exists(), words
        assert "Traceback" not in done.stderr, words
    # Negative control: the same words in a file of one's own are carried out.
    evil = EVIL.format(mark=mark).replace("Popen", "check_call")
    head, _, rest = small().to_toml().partition("[system]\n")
    rest = rest.partition("\n[")[2]
    (tmp_path / "own.toml").write_text(f"{head}[system]\n{evil}\n[{rest}")
    said = refused("run", tmp_path / "own.toml", "--out", tmp_path / "new")
    assert "must make a System" in said
    assert mark.exists()


@pytest.mark.parametrize(
    "name", ["../../x", "/tmp/x", "", ".", "..", "a\x1b[31mb", "a\u202eb", "[bold]x"]
)
def test_names_that_leave_runs_or_speak_to_terminals_are_refused(name, tmp_path):
    toml = small().to_toml().replace('name = "small"', f"name = {json.dumps(name)}")
    (tmp_path / "e.toml").write_text(toml)
    assert "must be plain text" in refused("run", "e.toml", cwd=tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["e.toml"]


# --- integrity --------------------------------------------------------------------


def damage(file, how, rng):
    data = bytearray(file.read_bytes())
    if how == "flip":
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    elif how == "zero":
        data = bytearray(len(data))
    elif how == "cut":
        data = data[: len(data) // 2]
    elif how == "empty":
        data = bytearray()
    file.write_bytes(bytes(data))


@pytest.mark.parametrize("how", ["flip", "zero", "cut", "empty", "remove"])
@pytest.mark.usefixtures("few_cells")
def test_damage_is_noticed_and_mended_to_the_same_bytes(finished, tmp_path, how):
    truth, _ = answer_of(finished)
    whole = digests(finished)
    rng = np.random.default_rng(list(how.encode()))
    files = sorted(f for f in finished.rglob("*") if f.is_file())
    files = [f for f in files if "figures" not in f.parts]
    noticed = 0
    for file in files:
        path = tmp_path / "run"
        shutil.copytree(finished, path)
        mine = path / file.relative_to(finished)
        if how == "remove":
            mine.unlink()
        else:
            damage(mine, how, rng)
        found, sentence = answer_of(path)
        assert found in (None, truth), file
        noticed += found is None
        if found is None:
            assert "delete" not in sentence.lower()
            assert "Remove the directory" not in sentence
        run_experiment(small(), path)
        assert digests(path) == whole, file
        shutil.rmtree(path)
    assert noticed >= len(files) / 3  # the attack does find what it plants


def test_verify_lists_all_damage(copy):
    assert "Every file" in taskspace("verify", copy).stdout
    chunk = block_of(copy, 1)
    damage(chunk, "zero", np.random.default_rng(0))
    (copy / "results.json").write_text("{}")
    done = taskspace("verify", copy, "--format", "json")
    assert done.returncode == 1
    assert len(json.loads(done.stdout)["failures"]) == 2


# --- crashes ----------------------------------------------------------------------


@pytest.mark.usefixtures("few_cells")
def test_a_directory_that_was_only_just_made_is_taken_over(tmp_path, finished):
    for leftovers in ((), (".lock",), (".partial-17-results.json",), ("trainings",)):
        path = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        path.mkdir()
        for name in leftovers:
            if "." in name:
                (path / name).write_text("")
            else:
                (path / name).mkdir()
        run_experiment(small(), path)
        assert digests(path) == digests(finished)


def test_two_writers_do_not_meet(tmp_path):
    path = tmp_path / "run"
    with locked(path), pytest.raises(RunStoreError, match="another process"):
        run_experiment(small(), path)
    run_experiment(small(), path)  # the lock went with its holder
    assert not (path / ".lock").exists()


@pytest.mark.usefixtures("few_cells")
def test_a_full_disk_keeps_what_is_finished(tmp_path, finished, monkeypatch):
    """Every single write of a run fails once; the next call goes on."""
    real, fails_at = os.fsync, 0
    for fails_at in range(200):
        count, path = iter(range(10**6)), tmp_path / str(fails_at)

        def full(handle, count=count, fails_at=fails_at):
            # A folder that cannot be synced is no error; a file is.
            is_file = stat.S_ISREG(os.fstat(handle).st_mode)
            if is_file and next(count) == fails_at:
                raise OSError(28, "No space left on device")
            real(handle)

        monkeypatch.setattr(os, "fsync", full)
        try:
            run_experiment(small(), path)
            break
        except OSError:
            assert not list(path.rglob(".partial-*"))
        finally:
            monkeypatch.setattr(os, "fsync", real)
        run_experiment(small(), path)
        assert digests(path) == digests(finished)
    assert fails_at > 5


def test_no_servable_target_is_an_answer(tmp_path):
    done = taskspace(
        "run", "msd", "--set", "space.n=5", "--set", "trainer.n_policies=2",
        "--set", "ask=regret <= 0.001", "--out", tmp_path / "run",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "No source serves" in done.stdout


def test_a_failed_training_is_recorded_and_tried_again(tmp_path, monkeypatch):
    real = execute_module.Task.train
    broken = True

    def train(self, contexts, seed=None):
        if broken and (contexts[:, 0] > 7.9).any():
            raise ZeroDivisionError("the simulator crashed")
        return real(self, contexts, seed)

    monkeypatch.setattr(execute_module.Task, "train", train)
    result = run_experiment(small(), tmp_path / "run")
    failures = result.results.failures
    assert len(failures) == 6  # the six sources with k = 8
    assert {f["context"]["k"] for f in failures} == {8.0}
    assert all("the simulator crashed" in f["reason"] for f in failures)
    for a in result.results.covers:  # nothing is served by what does not exist
        assert a.n_sources == 30
        assert all(context["k"] < 7.9 for context in a.contexts)
    broken = False
    again = run_experiment(small(), tmp_path / "run")
    assert not again.results.failures
    whole = run_experiment(small(), tmp_path / "whole")
    assert again.results.to_dict() == whole.results.to_dict()
    assert digests(tmp_path / "run") == digests(tmp_path / "whole")


CREWS = {
    "of a run": """
from taskspace.runs.engines import engine
if __name__ == '__main__':
    with engine(2, None) as found:
        list(found.executor.map(abs, range(4)))
        print('ready', flush=True)
        time.sleep(60)
""",
    "of a function": """
from taskspace.systems.function import parallel_map
if __name__ == '__main__':
    parallel_map(time.sleep, [0.2] * 20, 2)
    print('ready', flush=True)
    parallel_map(time.sleep, [60] * 4, 2)
""",
}


@pytest.mark.parametrize("crew", CREWS)
def test_workers_end_with_their_parent(tmp_path, crew):
    """SIGKILL of a parent leaves no worker behind, whatever it does."""
    file = tmp_path / "parent.py"
    file.write_text("import time\n" + CREWS[crew])
    with subprocess.Popen(
        [sys.executable, file], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline().strip() == "ready"
        children = psutil.Process(parent.pid).children(recursive=True)
        assert len(children) >= 2
        parent.kill()
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive


def _read(file):
    return file.read_bytes() if file.exists() else b""


@pytest.mark.parametrize(("sent", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_signals_end_a_command_with_one_line(tmp_path, sent, code):
    process = subprocess.Popen(
        [
            sys.executable, "-m", "taskspace", "run", "msd", "--set", "space.n=60",
            "--set", "ask=regret <= 0.02", "--set", "cover.methods=['minimum']",
            "--set", "trainer.n_policies=1", "--set", "trainer.noise=0.0",
            "--set", "cover.time_limit=300", "--out", str(tmp_path / "run"),
        ],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while b"best_known" not in _read(tmp_path / "run" / "run.json"):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(2)
    process.send_signal(getattr(signal, sent))
    _, said = process.communicate(timeout=60)
    assert process.returncode == code, said
    assert "Traceback" not in said
    assert "Run the same command to go on" in said


def test_every_error_crosses_a_process_border():
    import pickle

    from taskspace import errors

    for error in (
        errors.UnknownNameError("system", "msd", ["msd-v1"]),
        errors.MissingExtraError("This", "rl"),
        errors.InvalidInputError("x"),
        errors.RunStoreError("y"),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert str(again) == str(error)
    assert issubclass(errors.UnknownNameError, TaskspaceError)
