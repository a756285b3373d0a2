"""Run directories and archives of strangers: links, lies and bombs.

Reading them, and finishing or mending them, gives a sentence; nothing outside is
written, nothing that they name is run, and no number of bytes that they claim is
believed.
"""

import io
import shutil
import zipfile
from pathlib import Path

import pytest

from taskspace._util.files import checksum, replacing
from taskspace.errors import InvalidInputError, RunStoreError
from taskspace.runs import Experiment, run_experiment
from taskspace.runs.info import locked
from tests.helpers import block_of, refused, taskspace, zipped
from tests.runs.test_kills import MSD
from tests.runs.test_runs_attack import reseal

DEEP = "[" * 100_000 + "]" * 100_000


def mended(path, whole):
    """Run the experiment again; whether the directory is as it was."""
    run_experiment(Experiment.from_toml(MSD), path)
    return files(path) == files(whole)


def files(path):
    found = (f for f in path.rglob("*") if f.is_file())
    return {f.relative_to(path): f.read_bytes() for f in found}


# --- links ------------------------------------------------------------------------


@pytest.mark.parametrize("name", [".lock", "trainings"])
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
    (copy / "trainings").rename(copy / "figures")
    (copy / "trainings").symlink_to(copy / "figures")
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


def test_what_is_left_of_a_run_is_not_a_file_of_ones_own(copy, tmp_path):
    """A stranger's directory without its facts, whose experiment names code."""
    mark = tmp_path / "executed"
    evil(copy, mark)
    for item in list(copy.iterdir()):
        if item.name not in ("experiment.toml", "trainings"):
            shutil.rmtree(item) if item.is_dir() else item.unlink()
    (tmp_path / "own.toml").symlink_to(copy / "experiment.toml")
    for file in (copy / "experiment.toml", tmp_path / "own.toml"):
        for words in (("run", file, "--out", copy), ("doctor", file), ("select", file)):
            assert "say --trust" in refused(*words)
    assert not mark.exists()


# --- nesting ----------------------------------------------------------------------


def test_deep_nesting_is_a_sentence(copy, finished, tmp_path):
    line = f'{{"crc32": "{checksum(DEEP.encode())}", "content": {DEEP}}}\n'
    (copy / "run.json").write_text(line)
    refused("cover", copy, "--ask", "regret <= 0.4")
    assert mended(copy, finished)
    text = (copy / "experiment.toml").read_text() + f"\n[x]\na = {DEEP}\n"
    (copy / "experiment.toml").write_text(text)
    reseal(copy, experiment=checksum(text.encode()))
    for words in (("cover", copy, "--ask", "regret <= 0.4"), ("verify", copy)):
        assert "recursion" in refused(*words)
    assert "recursion" in refused("run", copy / "experiment.toml")
    (copy / "experiment.toml").write_text((finished / "experiment.toml").read_text())
    assert mended(copy, finished)
    (tmp_path / "cover.json").write_text(DEEP)
    assert "recursion" in refused("verify", tmp_path / "cover.json", finished)


# --- whose policies? --------------------------------------------------------------


def test_without_its_facts_policies_are_not_taken_for_those_of_another(copy):
    """They have other noise; nothing but the experiment beside them says so."""
    (copy / "run.json").unlink()
    other = Experiment.from_toml(MSD.replace("noise = 0.1", "noise = 0.3"))
    with pytest.raises(RunStoreError, match=r"noise is 0\.1 there and 0\.3 here"):
        run_experiment(other, copy)
    (copy / "experiment.toml").write_text("cut")  # now nobody knows: trained again
    result = run_experiment(other, copy)
    whole = run_experiment(other, copy.parent / "other")
    assert result.results.to_dict() == whole.results.to_dict()
    assert files(copy) == files(copy.parent / "other")


# --- lies whose checksums fit -----------------------------------------------------


def test_a_bomb_in_a_block(copy, finished):
    """Its checksum fits, and it would unpack to a hundred megabytes."""
    good, bad = block_of(copy), io.BytesIO()
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(bad, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            if info.filename == "row_performance.npy":
                data += bytes(10**8)
            new.writestr(info, data)
    assert len(bad.getvalue()) < 3 * 10**5
    good.unlink()
    name = f"{good.name.rpartition('-')[0]}-{checksum(bad.getvalue())}.npz"
    good.with_name(name).write_bytes(bad.getvalue())
    assert "has another size" in refused("cover", copy, "--ask", "regret <= 0.4")
    assert taskspace("verify", copy).returncode == 1
    assert mended(copy, finished)


def forged_zip(run, file, **members):
    """A zip file of a run with further members, by name."""
    good = zipped(run)
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            if name not in members:
                new.writestr(name, old.read(name))
        for name, data in members.items():
            new.writestr(name, data)
    return file


def test_zips_that_lead_out_are_refused(finished, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    for name in ("../evil", "a/../../evil", "/tmp/taskspace-evil"):
        file = forged_zip(run, tmp_path / "bad.zip", **{name: "x"})
        assert "leads out of it" in refused("cover", file, "--ask", "regret <= 0.4")
        file.unlink()
    assert not (tmp_path / "evil").exists()
    assert not Path("/tmp/taskspace-evil").exists()
    # Negative control: a zip file made the same way is read.
    same = forged_zip(run, tmp_path / "same.zip", note="x")
    assert taskspace("cover", same, "--ask", "regret <= 0.4").returncode == 0


def test_a_zip_bomb_is_refused_before_it_is_unpacked(finished, tmp_path, monkeypatch):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr("taskspace.runs.opening.shutil.disk_usage", lambda _: usage)
    assert "cannot be unpacked" in refused(
        "cover", zipped(run), "--ask", "regret <= 0.4"
    )


def test_other_zip_files_get_a_sentence(finished, tmp_path):
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as file:
        file.writestr("a.txt", "a")
    assert refused("cover", tmp_path / "other.zip", "--ask", "regret <= 0.4")
    (tmp_path / "cut.zip").write_bytes(b"PK\x03\x04")
    assert "not a whole zip" in refused(
        "cover", tmp_path / "cut.zip", "--ask", "regret <= 0.4"
    )
