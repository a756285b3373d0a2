"""Kills in every stage of a run, a simulated run and a selection: the same bytes.

A process is watched until something of its next stage is on the disk, and killed a
random moment later, again and again; then it may end. A few kills in the quick suite,
two hundred in the slow one.
"""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest

from tests.helpers import msd_toml, taskspace

MSD = msd_toml()
CARTPOLE = """
name = "small"
seed = 0
ask = "regret <= 5"
[system]
id = "cartpole-v1"
horizon = 50
n_episodes = 8
[space]
pole_length = [0.5, 1.0, 2]
cart_mass = [1.0, 2.0, 2]
[trainer]
id = "ppo"
n_policies = 1
total_steps = 512
n_envs = 4
n_steps = 64
n_epochs = 1
hidden = [8]
evaluate_every = 512
n_evaluation_episodes = 8
[cover]
methods = ["greedy"]
n_repeats = 2
"""
# Small blocks, so that there is something between two of them.
CODE = """
from taskspace.runs import folder
from taskspace.trainers.lqr import Lqr
from taskspace.trainers.ppo import Ppo
folder.BLOCK_CELLS, folder.BLOCK_EPISODES = 9 * 36 * 2, 2 * 4 * 8
Lqr.sources_per_block, Ppo.sources_per_block = 9, 1
from taskspace.cli import main
main()
"""
KINDS = {"msd": ("run", MSD), "cartpole": ("run", CARTPOLE), "select": ("select", MSD)}
STAGES = {
    "made": ".lock",
    "known": "run.json",
    "training": "trainings/00000-*.npz",
    "half": "trainings/00001-*.npz",
    "covering": "trainings/00002-*.npz",
    "drawing": "results.json",
    "drawn": "figures/*.png",
}
"""What shows that a stage was reached, in order."""


class Command:
    """A command on an experiment, started again after each kill."""

    def __init__(self, kind, folder):
        name, text = KINDS[kind]
        self.stages, self.folder = STAGES, folder
        folder.mkdir(exist_ok=True)
        (folder / "experiment.toml").write_text(text)
        self._words = [sys.executable, "-c", CODE, name, folder / "experiment.toml"]
        if kind == "cartpole":
            self._words += ["--workers", "0"]
        self._environment = os.environ | {
            "JAX_COMPILATION_CACHE_DIR": str(folder.parent / "compiled"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }

    def start(self, out):
        return subprocess.Popen(
            [*map(str, self._words), "--out", str(out)],
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ahead(self, out):
        """Stages that a run has not reached yet."""
        return [s for s, sign in self.stages.items() if not any(out.glob(sign))]

    def whole(self):
        """The files of an undisturbed run."""
        out = self.folder / "whole"
        process = self.start(out)
        _, said = process.communicate()
        assert process.returncode == 0, said
        return files_of(out)

    def killed_until_done(self, out, rng, kills, n):
        """Kill it while stages are ahead, then let it end; counts where it was."""
        done = 0
        while True:
            ahead = self.ahead(out)
            process = self.start(out)
            if ahead and done < 3 and kills.total() < n:
                until = min(ahead, key=lambda stage: kills[stage])
                while until in self.ahead(out) and process.poll() is None:
                    time.sleep(0.001)
                # Half of the kills follow at once, others some time later.
                time.sleep(float(rng.choice([0.0, 0.0, 0.01, 0.3]) * rng.random()))
                if process.poll() is None:
                    left = self.ahead(out)
                    reached = [s for s in self.stages if s not in left]
                    kills[reached[-1] if reached else "before"] += 1
                    done += 1
                    process.kill()
                    process.communicate()
                    continue
            _, said = process.communicate()
            assert process.returncode == 0, said
            return


def files_of(path):
    """What is in a run, without the time that a selection took."""
    found = {}
    for file in sorted(path.rglob("*")):
        if not file.is_file():
            continue
        data = file.read_bytes()
        if file.name == "selection.jsonl":
            lines = [json.loads(line)["content"] for line in data.splitlines()]
            data = json.dumps([line | {"hours": 0} for line in lines]).encode()
        found[str(file.relative_to(path))] = hashlib.sha256(data).hexdigest()
    return found


def kill(kind, folder, seed, n):
    """Kill a command so many times in all; where it was."""
    rng, kills = np.random.default_rng(seed), Counter()
    command = Command(kind, folder / kind)
    whole = command.whole()
    turn = 0
    while kills.total() < n:
        turn += 1
        out = command.folder / f"run{turn}"
        command.killed_until_done(out, rng, kills, n)
        assert files_of(out) == whole, (kind, seed, turn)
    return kills


def test_killed_a_few_times(tmp_path):
    kills = kill("msd", tmp_path, 0, 3)
    assert kills.total() == 3


def test_damaged_and_missing_pictures_are_drawn_again(tmp_path):
    out, file = tmp_path / "run", tmp_path / "e.toml"
    file.write_text(MSD)
    assert taskspace("run", file, "--out", out).returncode == 0
    whole = files_of(out)
    picture = next(out.glob("figures/*.pdf"))
    picture.write_bytes(picture.read_bytes()[:100])
    next(out.glob("figures/*.png")).unlink()
    assert files_of(out) != whole
    assert taskspace("run", file, "--out", out).returncode == 0
    assert files_of(out) == whole


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "n"), [("msd", 90), ("select", 60), ("cartpole", 50)])
def test_two_hundred_kills_in_every_stage(tmp_path, kind, n):
    kills = kill(kind, tmp_path, 1, n)
    print(kind, dict(kills))
    assert kills.total() == n
    assert set(kills) >= set(STAGES), kills
