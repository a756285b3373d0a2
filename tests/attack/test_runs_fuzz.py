"""Seeded mutations of everything that is read back, and kills at random moments.

Outcomes allowed: the same answer, a refusal in a sentence, or a recomputation to the
same bytes. A few dozen in the quick suite, thousands in the slow one.
"""

import hashlib
import json
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from taskspace._files import read_sealed, write_sealed
from taskspace.cover import Cover, minimum_cover
from taskspace.questions import Question
from taskspace.runs import RunStore, load_experiment, run_experiment
from taskspace.runs.archive import write_archive
from tests.test_cli import taskspace

OPTIONS = ["space.n=6", "trainer.n_policies=2", "cover.n_repeats=4"]
BLOCK_CELLS = 9 * 36 * 2
EPSILON = 0.4


def small():
    return load_experiment("msd", OPTIONS)


def digests(path, *, figures=False):
    return {
        str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(path.rglob("*"))
        if file.is_file() and (figures or "figures" not in file.parts)
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of four blocks, never changed by a test."""
    path = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("taskspace.runs.layout.BLOCK_CELLS", BLOCK_CELLS)
        run_experiment(small(), path)
    return path


@pytest.fixture
def few_cells(monkeypatch):
    monkeypatch.setattr("taskspace.runs.layout.BLOCK_CELLS", BLOCK_CELLS)


# --- mutations --------------------------------------------------------------------


def mutated(data, rng):
    """Other bytes, by one of the ways in which files go wrong."""
    data, n = bytearray(data), len(data)
    at = int(rng.integers(n)) if n else 0
    length = int(min(n - at, rng.integers(1, 64))) if n else 0
    match rng.integers(8):
        case 0 if n:
            data[at] ^= 1 << int(rng.integers(8))
        case 1 if n:
            data[at : at + length] = rng.bytes(length)
        case 2 if n:
            data[at : at + length] = bytes(length)
        case 3:
            data[at:at] = rng.bytes(int(rng.integers(1, 16)))
        case 4:
            del data[at : at + length]
        case 5:
            data[at:at] = data[at : at + length]
        case 6:
            del data[at:]
        case _:
            data += rng.bytes(int(rng.integers(1, 64)))
    return bytes(data)


def answer(command, *words):
    """What a command prints as JSON, None where it refuses in a sentence."""
    done = taskspace(*command, *words, "--format", "json")
    assert "Traceback" not in done.stderr
    if done.returncode == 0:
        value = json.loads(done.stdout)
        if isinstance(value, dict):
            value.pop("seconds", None)
        return value
    assert done.returncode in (1, 2), done.stderr
    assert "Error:" in done.stderr or "Usage:" in done.stderr
    assert done.stdout == ""
    return None


def fuzz_run(finished, folder, seed, n):
    """Damage one file of a run, read it, mend it; and count what was noticed."""
    rng = np.random.default_rng(seed)
    asked = ("cover", finished, "--epsilon", EPSILON)
    truth, whole = answer(asked), digests(finished)
    report = answer(("report", finished, "--out", folder / "figures"))["covers"]
    files = sorted(f for f in finished.rglob("*") if f.is_file())
    noticed = 0
    for turn in range(n):
        file = files[int(rng.integers(len(files)))]
        path = folder / "run"
        shutil.copytree(finished, path)
        mine = path / file.relative_to(finished)
        mine.write_bytes(mutated(mine.read_bytes(), rng))
        if mine.read_bytes() == file.read_bytes():
            shutil.rmtree(path)
            continue
        found = answer(("cover", path, "--epsilon", EPSILON))
        assert found in (None, truth), (seed, turn, file)
        noticed += found is None
        if file.name == "results.json":
            again = answer(("report", path, "--out", folder / "figures"))
            assert again is None or again["covers"] == report, (seed, turn)
        run_experiment(small(), path)
        assert digests(path) == whole, (seed, turn, file)
        shutil.rmtree(path)
    return noticed


def test_damaged_runs(finished, tmp_path, few_cells):
    assert fuzz_run(finished, tmp_path, 0, 24) > 4  # the attack is not in vain


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_many_damaged_runs(finished, tmp_path, few_cells, seed):
    assert fuzz_run(finished, tmp_path, seed, 200) > 40


def fuzz_archive(finished, folder, seed, n):
    rng = np.random.default_rng(seed)
    good = write_archive(RunStore.open(finished), folder / "good.npz")
    truth = answer(("cover", good, "--epsilon", EPSILON))
    data, bad, noticed = good.read_bytes(), folder / "bad.npz", 0
    for turn in range(n):
        bad.write_bytes(mutated(data, rng))
        found = answer(("cover", bad, "--epsilon", EPSILON))
        assert found in (None, truth), (seed, turn)
        noticed += found is None
    return noticed


def test_damaged_archives(finished, tmp_path):
    assert fuzz_archive(finished, tmp_path, 0, 40) > 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_many_damaged_archives(finished, tmp_path, seed):
    assert fuzz_archive(finished, tmp_path, seed, 400) > 100


def fuzz_cover(finished, folder, seed, n):
    """A saved cover that is verified although it was changed must still be true."""
    rng = np.random.default_rng(seed)
    good = folder / "cover.json"
    done = taskspace("cover", finished, "--epsilon", EPSILON, "--save", good)
    assert done.returncode == 0
    sets = Question("regret", epsilon=EPSILON).sets(RunStore.open(finished).table())
    least = minimum_cover(sets).size
    data, bad, refused = good.read_bytes(), folder / "bad.json", 0
    for turn in range(n):
        bad.write_bytes(mutated(data, rng))
        done = taskspace("verify", bad)
        assert "Traceback" not in done.stderr, (seed, turn)
        assert done.returncode in (0, 1, 2), (seed, turn)
        if done.returncode:
            refused += 1
            continue
        cover = Cover.load(bad)
        served = sets.union(cover.sources)
        assert served.mean() == cover.coverage, (seed, turn)
        assert cover.size == len(cover.sources)
        assert cover.lower_bound <= least, (seed, turn)
        assert not cover.optimal or cover.size == least, (seed, turn)
    return refused


def test_damaged_covers(finished, tmp_path):
    assert fuzz_cover(finished, tmp_path, 0, 40) > 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_many_damaged_covers(finished, tmp_path, seed):
    assert fuzz_cover(finished, tmp_path, seed, 400) > 100


# --- forgeries: the checksum fits, the content does not ---------------------------


def disturbed(value, rng):
    """A JSON value with one part of it replaced by something of another kind."""
    others = [None, [], {}, "x", -1, 1e300, True, [1], {"a": 1}]
    if isinstance(value, dict | list) and value and rng.random() < 0.8:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = keys[int(rng.integers(len(keys)))]
        copy = dict(value) if isinstance(value, dict) else list(value)
        if rng.random() < 0.15:
            copy.pop(key)
        else:
            copy[key] = disturbed(copy[key], rng)
        return copy
    return others[int(rng.integers(len(others)))]


def forge(finished, folder, seed, n):
    rng = np.random.default_rng(seed)
    files = sorted(finished.glob("*.json")) + sorted((finished / "blocks").iterdir())
    for turn in range(n):
        file = files[int(rng.integers(len(files)))]
        path = folder / "run"
        shutil.copytree(finished, path)
        mine = path / file.relative_to(finished)
        write_sealed(mine, disturbed(read_sealed(mine), rng))
        for words in (("cover", path, "--epsilon", EPSILON), ("verify", path)):
            done = taskspace(*words)
            assert "Traceback" not in done.stderr, (seed, turn, file, words)
            assert done.returncode in (0, 1, 2)
        if file.name != "results.json":
            done = taskspace("report", path, "--out", folder / "figures")
            assert done.returncode in (0, 2), (seed, turn, file)
        shutil.rmtree(path)


def test_forged_records_are_never_a_traceback(finished, tmp_path):
    forge(finished, tmp_path, 0, 8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_many_forged_records(finished, tmp_path, seed):
    forge(finished, tmp_path, seed, 200)


# --- kills ------------------------------------------------------------------------


WORDS = [sys.executable, "-m", "taskspace", "run", "msd"]
WORDS += [word for option in OPTIONS for word in ("--set", option)]


def killed_until_done(folder, rng, whole, longest, most=12):
    """Kill the command at random moments until it gets to its end; count kills."""
    path, kills = folder / "run", 0
    while True:
        process = subprocess.Popen(
            [*WORDS, "--out", str(path)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        # The last try has all the time that it needs.
        wait = float(rng.uniform(0.3, 1.0)) * longest if kills < most else None
        try:
            _, said = process.communicate(timeout=wait)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
            continue
        assert process.returncode == 0, said
        assert digests(path, figures=True) == whole
        shutil.rmtree(path)
        return kills


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The files of a whole run with its figures, and how long it takes."""
    path = tmp_path_factory.mktemp("undisturbed") / "run"
    began = time.monotonic()
    subprocess.run([*WORDS, "--out", str(path)], check=True, capture_output=True)
    return digests(path, figures=True), time.monotonic() - began


def test_killed_at_random_moments(undisturbed, tmp_path):
    whole, seconds = undisturbed
    rng = np.random.default_rng(0)
    assert any("figures" in name for name in whole)
    assert killed_until_done(tmp_path, rng, whole, seconds, most=4) >= 1


def test_killed_while_drawing(undisturbed, tmp_path):
    """Once the first picture is there, so that others are missing or half there."""
    whole, _ = undisturbed
    path = tmp_path / "run"
    words = [*WORDS, "--out", str(path)]
    process = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 300
    while not list(path.glob("figures/*.png")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.wait()
    cut = digests(path, figures=True)
    assert cut != whole  # it was killed before the last picture
    done = taskspace(*WORDS[3:], "--out", path)
    assert done.returncode == 0, done.stderr
    assert digests(path, figures=True) == whole
    # A damaged picture is drawn again, too.
    picture = next(path.glob("figures/*.pdf"))
    picture.write_bytes(picture.read_bytes()[:100])
    assert taskspace(*WORDS[3:], "--out", path).returncode == 0
    assert digests(path, figures=True) == whole


@pytest.mark.slow
def test_two_hundred_kills(undisturbed, tmp_path):
    whole, seconds = undisturbed
    rng = np.random.default_rng(1)
    kills = 0
    while kills < 200:
        kills += killed_until_done(tmp_path, rng, whole, seconds)
