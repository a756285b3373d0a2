"""Seeded mutations of everything that is read back.

Outcomes allowed: the same answer, a refusal in a sentence, or a recomputation to the
same bytes. A few dozen in the quick suite, thousands in the slow one.
"""

import contextlib
import json
import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from taskspace._util.files import read_sealed, write_sealed
from taskspace.cover import Cover, minimum_cover
from taskspace.deploy import PolicyLibrary
from taskspace.deploy.files import digest
from taskspace.errors import DamagedFileError, InvalidInputError, TaskspaceError
from taskspace.questions import Question
from taskspace.runs import Experiment, RunFolder, run_experiment, run_selection
from taskspace.runs.results import Results
from tests.helpers import taskspace, zipped
from tests.runs.test_kills import MSD
from tests.runs.test_runs_attack import digests

EPSILON = 0.4


def small():
    return Experiment.from_toml(MSD)


def often(quick, seeds, n, least):
    """A seed, a number of attacks, and how many are noticed; more in the slow suite."""
    slow = [pytest.param(seed, n, least, marks=pytest.mark.slow) for seed in seeds]
    return pytest.mark.parametrize(("seed", "n", "least"), [quick, *slow])


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


def results_of(path):
    """The covers that a run has stored, None where they are refused in a sentence."""
    try:
        return [*Results.load(path / "results.json").covers]
    except DamagedFileError:
        return None


@often((0, 24, 4), range(1, 11), 200, 40)
def test_damaged_runs(finished, tmp_path, few_cells, seed, n, least):
    """Damage one file of a run, read it, mend it; and count what was noticed."""
    rng = np.random.default_rng(seed)
    asked = ("cover", finished, "--ask", f"regret <= {EPSILON}")
    truth, whole = answer(asked), digests(finished)
    report = [cover.to_dict() for cover in results_of(finished)]
    files = sorted(f for f in finished.rglob("*") if f.is_file())
    noticed = 0
    for turn in range(n):
        file = files[int(rng.integers(len(files)))]
        path = tmp_path / "run"
        shutil.copytree(finished, path)
        mine = path / file.relative_to(finished)
        mine.write_bytes(mutated(mine.read_bytes(), rng))
        if mine.read_bytes() == file.read_bytes():
            shutil.rmtree(path)
            continue
        found = answer(("cover", path, "--ask", f"regret <= {EPSILON}"))
        assert found in (None, truth), (seed, turn, file)
        noticed += found is None
        if file.name == "results.json":
            again = results_of(path)
            assert again is None or [c.to_dict() for c in again] == report, (seed, turn)
        run_experiment(small(), path)
        assert digests(path) == whole, (seed, turn, file)
        shutil.rmtree(path)
    assert noticed > least  # the attack is not in vain


@often((0, 40, 10), range(1, 6), 400, 100)
def test_damaged_zips(finished, tmp_path, seed, n, least):
    rng = np.random.default_rng(seed)
    good = zipped(shutil.copytree(finished, tmp_path / "good"))
    truth = answer(("cover", good, "--ask", f"regret <= {EPSILON}"))
    data, bad, noticed = good.read_bytes(), tmp_path / "bad.zip", 0
    for turn in range(n):
        bad.write_bytes(mutated(data, rng))
        found = answer(("cover", bad, "--ask", f"regret <= {EPSILON}"))
        assert found in (None, truth), (seed, turn)
        noticed += found is None
    assert noticed > least


@often((0, 40, 10), range(1, 6), 400, 100)
def test_damaged_covers(finished, tmp_path, seed, n, least):
    """A saved cover that is verified although it was changed must still be true."""
    rng = np.random.default_rng(seed)
    good = tmp_path / "cover.json"
    done = taskspace("cover", finished, "--ask", f"regret <= {EPSILON}", "--save", good)
    assert done.returncode == 0
    assert taskspace("verify", good, finished).returncode == 0
    sets = Question("regret", epsilon=EPSILON).sets(RunFolder.open(finished).table())
    truth = minimum_cover(sets)
    assert truth.optimal
    data, bad = good.read_bytes(), tmp_path / "bad.json"
    counts = {"refused": 0, "true": 0}
    for turn in range(n):
        bad.write_bytes(mutated(data, rng))
        done = taskspace("verify", bad, finished)
        assert "Traceback" not in done.stderr, (seed, turn)
        assert done.returncode in (0, 1, 2), (seed, turn)
        if done.returncode:
            counts["refused"] += 1
            continue
        counts["true"] += 1
        asked = json.loads(bad.read_text())["question"]
        cover = Cover.load(bad)
        if asked["ask"] != f"regret <= {EPSILON}":
            continue  # it answers another question
        served = sets.union(cover.sources)
        assert served.mean() == cover.coverage, (seed, turn)
        assert cover.size == len(cover.sources)
        assert cover.lower_bound <= truth.size, (seed, turn)
        assert not cover.optimal or cover.size == truth.size, (seed, turn)
    assert counts["refused"] > least
    assert counts["true"] >= 1  # a changed number of seconds is no lie about the cover


def facts(folder):
    """What a library says and does."""
    made = replace(PolicyLibrary.load(folder), outside="clamp")
    chosen = made.select(np.random.default_rng(0).uniform(0.1, 8.0, (50, 2)))
    arrays = {k: v.tobytes() for k, v in made.policies.arrays().items()}
    said = made.guarantee, made.entries, made.names, made.units, made.fixed
    return np.asarray(chosen.policy).tolist(), arrays, said


@often((0, 40, 10), range(1, 6), 400, 100)
def test_damaged_libraries(finished, tmp_path, seed, n, least):
    """A library that loads although a file of it was changed is the same library."""
    rng = np.random.default_rng(seed)
    good = tmp_path / "library"
    asked = ("--ask", f"regret <= {EPSILON}")
    words = ("export", finished, *asked, "--to", good, "--as", "tables")
    assert taskspace(*words).returncode == 0

    truth, refused = facts(good), 0
    files = sorted(
        f for f in good.rglob("*") if f.is_file() and "tables" not in f.parts
    )
    for turn in range(n):
        path = tmp_path / "bad"
        shutil.copytree(good, path)
        file = files[int(rng.integers(len(files)))]
        mine = path / file.relative_to(good)
        mine.write_bytes(mutated(mine.read_bytes(), rng))
        try:
            assert facts(path) == truth, (seed, turn, file)
        except InvalidInputError:
            refused += 1
        shutil.rmtree(path)
    assert refused > least


def gone_on(path):
    """Digests of a selection's files after it was gone on with."""
    run_selection(small(), path, question=Question("regret", epsilon=EPSILON))
    again = digests(path)
    del again["selection.jsonl"]  # how long it took is in it
    return again


@often((0, 24, 10), range(1, 5), 100, 40)
def test_damaged_selections(selected, tmp_path, seed, n, least):
    """Damage one file of a selection, read it, go on with it."""
    rng = np.random.default_rng(seed)
    truth = answer(("cover", selected, "--ask", f"regret <= {EPSILON}"))
    files = sorted(f for f in selected.rglob("*") if f.is_file())
    whole = digests(selected)
    mended = 0
    for turn in range(n):
        file = files[int(rng.integers(len(files)))]
        path = tmp_path / "run"
        shutil.copytree(selected, path)
        mine = path / file.relative_to(selected)
        mine.write_bytes(mutated(mine.read_bytes(), rng))
        found = answer(("cover", path, "--ask", f"regret <= {EPSILON}"))
        assert found in (None, truth), (seed, turn, file)
        with contextlib.suppress(TaskspaceError):
            assert gone_on(path).items() <= whole.items(), (seed, turn, file)
            mended += 1
        shutil.rmtree(path)
    assert mended > least


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


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("covers", 0, "method"), ["greedy"]),
        (("covers", 0, "optimal"), "yes"),
        (("curves", 0, "coverage"), "all"),
        (("scores",), [1.0]),
        (("environment_steps",), 1e300),
        (("provenance",), "heard"),
        (("failures",), [1]),
        (("n_targets",), True),
    ],
)
def test_forged_results_get_a_sentence_and_are_made_again(
    finished, tmp_path, few_cells, keys, value
):
    path = tmp_path / "run"
    shutil.copytree(finished, path)
    file = path / "results.json"
    record = inner = read_sealed(file)
    for key in keys[:-1]:
        inner = inner[key]
    assert inner[keys[-1]] != value
    inner[keys[-1]] = value
    write_sealed(file, record)
    with pytest.raises(DamagedFileError):
        Results.load(file)
    run_experiment(small(), path)
    assert digests(path) == digests(finished)


@often((0, 6, 3), range(1, 4), 100, 30)
def test_forged_files_are_never_a_traceback(finished, tmp_path, seed, n, least):
    """Runs, libraries and covers: checksums that fit, content that does not."""
    rng = np.random.default_rng(seed)
    library, cover = (tmp_path / name for name in ("good", "c.json"))
    asked = ("--ask", f"regret <= {EPSILON}", "--method", "greedy")
    for words in (
        ("export", finished, *asked[:2], "--to", library, "--as", "tables"),
        ("cover", finished, *asked, "--save", cover),
    ):
        assert taskspace(*words).returncode == 0
    record = json.loads((library / "library.json").read_text())
    facts = read_sealed(finished / "run.json")
    counts = Counter()
    for _ in range(n):
        bad = tmp_path / "bad"
        bad.mkdir()
        (bad / "c.json").write_text(
            json.dumps(disturbed(json.loads(cover.read_text()), rng))
        )
        shutil.copytree(finished, bad / "run")
        write_sealed(bad / "run" / "run.json", disturbed(facts, rng))
        shutil.copytree(library, bad / "library")
        parts = {k: v for k, v in record.items() if k not in ("files", "checksum")}
        forged = disturbed(parts, rng)
        if isinstance(forged, dict):
            forged["files"] = record["files"]
            forged["checksum"] = digest(forged)
        (bad / "library" / "library.json").write_text(json.dumps(forged))
        for words in (
            ("verify", bad / "c.json", finished),
            ("cover", bad / "run", "--ask", f"regret <= {EPSILON}"),
            ("explore", bad / "run", "--out", tmp_path / "page.html"),
            ("explore", bad / "library", "--out", tmp_path / "page.html"),
            ("evaluate", bad / "library", "msd-v1", "--contexts", 20),
        ):
            done = taskspace(*words)
            assert done.returncode in (0, 1, 2), words
            counts[words[0], done.returncode] += 1
        shutil.rmtree(bad)
    assert counts["explore", 2] > least
    assert n < 100 or counts["cover", 2] > 30
    assert n < 100 or counts["cover", 0] > 0
