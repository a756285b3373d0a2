"""Run directories and archives of strangers: links, lies and bombs.

Reading them, and finishing or mending them, gives a sentence; nothing outside is
written, nothing that they name is run, and no number of bytes that they claim is
believed.
"""

import io
import json
import shutil
import time
import zipfile

import numpy as np
import pytest
from numcodecs.zstd import Zstd

from taskspace._util import memory as _memory
from taskspace._util.files import checksum, replacing, seal, unseal
from taskspace.errors import InvalidInputError, RunStoreError
from taskspace.runs import Experiment, RunStore, run_experiment
from taskspace.runs.archive import read_archive, write_archive
from taskspace.runs.takeover import locked
from tests.helpers import refused, taskspace
from tests.runs.test_kills import MSD
from tests.runs.test_runs_attack import reseal

DEEP = "[" * 100_000 + "]" * 100_000


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "run"
    run_experiment(Experiment.from_toml(MSD), path)
    return path


@pytest.fixture
def copy(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


def mended(path, whole):
    """Run the experiment again; whether the directory is as it was."""
    run_experiment(Experiment.from_toml(MSD), path)
    return files(path) == files(whole)


def files(path):
    found = (f for f in path.rglob("*") if f.is_file())
    return {f.relative_to(path): f.read_bytes() for f in found}


# --- links ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [".lock", "trainings", "trainings/policies", "trainings/table.zarr/performance/c"],
)
def test_a_link_that_leads_out_of_a_run_is_not_written_through(copy, tmp_path, name):
    outside = tmp_path / "outside"
    if name == ".lock":
        outside.write_text("precious")
    else:
        shutil.move(copy / name, outside)
    before = outside.read_bytes() if outside.is_file() else files(outside)
    (copy / name).symlink_to(outside)
    with pytest.raises(InvalidInputError, match="a link leads out of it"):
        run_experiment(Experiment.from_toml(MSD), copy)
    assert before == (outside.read_bytes() if outside.is_file() else files(outside))


def test_the_lock_itself_follows_no_link(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links"), locked(tmp_path / "run"):
        pass
    assert (tmp_path / "precious").read_text() == "precious"


def test_links_within_a_run_and_to_a_run_are_its_owners_affair(copy, tmp_path):
    (tmp_path / "link").symlink_to(copy)
    (copy / "trainings" / "policies").rename(copy / "figures")
    (copy / "trainings" / "policies").symlink_to(copy / "figures")
    run_experiment(Experiment.from_toml(MSD), tmp_path / "link")


def test_a_link_in_the_place_of_a_draft_is_not_followed(tmp_path):
    (tmp_path / "precious").write_text("precious")
    with replacing(tmp_path / "file") as draft:
        draft.write_text("old")
        name = draft.name
    (tmp_path / name).symlink_to(tmp_path / "precious")
    with replacing(tmp_path / "file") as draft:
        draft.write_text("new")
    assert (tmp_path / "precious").read_text() == "precious"
    assert (tmp_path / "file").read_text() == "new"


def test_a_page_is_not_written_through_a_link(copy, tmp_path):
    (tmp_path / "precious").write_text("precious")
    (copy / "explore.html").symlink_to(tmp_path / "precious")
    assert "a link leads out of it" in refused("explore", copy)
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_run_with_its_page_can_go_on(copy):
    (copy / "explore.html").write_text("<!doctype html>")
    assert run_experiment(Experiment.from_toml(MSD), copy).reused


# --- code -------------------------------------------------------------------------


def evil(path, mark):
    text = (path / "experiment.toml").read_text()
    head, _, rest = text.partition("[system]\n")
    names = f'id = "subprocess:check_call"\nargs = ["touch", "{mark}"]'
    text = f"{head}[system]\n{names}\n[{rest.partition(chr(10) + '[')[2]}"
    (path / "experiment.toml").write_text(text)


@pytest.mark.parametrize("left", ["trainings"])
def test_what_is_left_of_a_run_is_not_a_file_of_ones_own(copy, tmp_path, left):
    """A stranger's directory without a manifest, whose experiment names code."""
    mark = tmp_path / "executed"
    evil(copy, mark)
    for item in list(copy.iterdir()):
        if item.name not in ("experiment.toml", left):
            shutil.rmtree(item) if item.is_dir() else item.unlink()
    (tmp_path / "own.toml").symlink_to(copy / "experiment.toml")
    for file in (copy / "experiment.toml", tmp_path / "own.toml"):
        for words in (("run", file, "--out", copy), ("doctor", file), ("select", file)):
            assert "say --trust" in refused(*words)
    assert not mark.exists()


# --- nesting ----------------------------------------------------------------------


def test_deep_nesting_is_a_sentence(copy, finished, tmp_path):
    manifest = copy / "trainings" / "manifest.jsonl"
    line = f'{{"crc32c": "{checksum(DEEP.encode())}", "content": {DEEP}}}\n'
    lines = manifest.read_text().splitlines(keepends=True)
    for place in range(len(lines)):
        changed = [*lines[:place], line, *lines[place + 1 :]]
        manifest.write_text("".join(changed))
        refused("cover", copy, "--epsilon", 0.4)
        assert mended(copy, finished)
    text = (copy / "experiment.toml").read_text() + f"\n[x]\na = {DEEP}\n"
    (copy / "experiment.toml").write_text(text)
    reseal(copy, experiment=checksum(text.encode()))
    for words in (("cover", copy, "--epsilon", 0.4), ("verify", copy)):
        assert "recursion" in refused(*words)
    assert "recursion" in refused("run", copy / "experiment.toml")
    (copy / "experiment.toml").write_text((finished / "experiment.toml").read_text())
    assert mended(copy, finished)
    (tmp_path / "cover.json").write_text(DEEP)
    assert "recursion" in refused("verify", tmp_path / "cover.json", finished)


# --- whose policies? --------------------------------------------------------------


def test_without_a_manifest_policies_are_not_taken_for_those_of_another(copy):
    """They have other noise; nothing but the experiment beside them says so."""
    (copy / "trainings" / "manifest.jsonl").unlink()
    other = Experiment.from_toml(MSD.replace("noise = 0.1", "noise = 0.3"))
    with pytest.raises(RunStoreError, match=r"noise is 0\.1 there and 0\.3 here"):
        run_experiment(other, copy)
    (copy / "experiment.toml").write_text("cut")  # now nobody knows: trained again
    result = run_experiment(other, copy)
    whole = run_experiment(other, copy.parent / "other")
    assert result.results.to_dict() == whole.results.to_dict()
    assert files(copy) == files(copy.parent / "other")


# --- lies whose checksums fit -----------------------------------------------------


def test_a_bomb_in_a_chunk(copy, finished):
    """Its checksum fits, and it would unpack to a hundred megabytes."""
    data = Zstd(level=1).encode(bytes(10**8))
    assert len(data) < 10**5
    (copy / "trainings/table.zarr/performance/c/0/0/0").write_bytes(data)
    facts = {"performance": {"bytes": len(data), "crc32c": checksum(data)}}
    manifest = copy / "trainings" / "manifest.jsonl"
    lines = [unseal(line) for line in manifest.read_text().splitlines(keepends=True)]
    lines = [
        line | {"files": facts} if line.get("stage") == "evaluate" else line
        for line in lines
    ]
    manifest.write_text("".join(map(seal, lines)))
    assert "buffer too small" in refused("cover", copy, "--epsilon", 0.4)
    assert taskspace("verify", copy).returncode == 1
    assert mended(copy, finished)


def npy(shape):
    file = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue()


def members(file):
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def npz(parts):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return file.getvalue()


def saved(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def forged(archive, **changes):
    """An archive with other arrays, whose checksums fit."""
    parts = members(archive) | {f"{name}.npy": v for name, v in changes.items()}
    notes = json.loads(str(np.load(io.BytesIO(parts["notes.npy"]))))
    for name in changes:
        notes["crc32c"].pop(name, None)
    body = json.dumps(notes)
    parts["notes.npy"] = saved(np.array(body))
    parts["notes_crc32c.npy"] = saved(np.array(checksum(body.encode())))
    return npz(parts)


@pytest.mark.parametrize(
    "changes",
    [
        {"performance": npy((10**6, 2, 10**6))},
        {"home_performance": npy((10**7, 10**6))},
        {"performance": npy((5000, 2, 500)) + bytes(4 * 10**7)},
        {"policy_gain": saved(np.zeros((3, 2, 1, 2)))},
    ],
)
def test_archives_that_lie(finished, tmp_path, changes):
    good = write_archive(RunStore.open(finished), tmp_path / "good.npz")
    (tmp_path / "bad.npz").write_bytes(forged(good, **changes))
    began = time.perf_counter()
    with pytest.raises(InvalidInputError, match="not a whole archive"):
        read_archive(tmp_path / "bad.npz")
    assert time.perf_counter() - began < 5
    # Negative control: the same forgery without a lie is read.
    (tmp_path / "same.npz").write_bytes(forged(good))
    assert read_archive(tmp_path / "same.npz").policies is not None


def test_archives_must_fit_into_the_memory(finished, tmp_path, monkeypatch):
    good = write_archive(RunStore.open(finished), tmp_path / "good.npz")
    monkeypatch.setattr(_memory, "available", lambda: 10_000)
    with pytest.raises(InvalidInputError, match="half of the memory"):
        read_archive(good)
