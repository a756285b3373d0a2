"""`taskspace export` and `evaluate`, with good and with bad input."""

import json
import re
import subprocess
from itertools import chain

import numpy as np
import pytest

import taskspace as ts
from taskspace.deploy import PolicyLibrary
from taskspace.policies import LinearGain
from tests.helpers import refused, taskspace

from .helpers import compile_c, needs_cc


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    done = taskspace(
        "run", "msd", "--set", "space.n=8", "--set", "trainer.n_policies=1",
        "--set", "trainer.noise=0.0", "--set", "cover.n_repeats=2", "--out", "small",
        cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def exported(folder):
    done = taskspace(
        "export", "small", "--ask", "regret <= 0.4", "--to", "lib", "--name", "plant",
        "--format", "json", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_export_of_a_run(folder, exported):
    assert exported["library"] == "lib"
    assert exported["guarantee"]["question"]["ask"].startswith("regret <= ")
    assert exported["guarantee"]["kind"] == "proof"
    assert exported["formats"] == ["c", "tables"]
    made = PolicyLibrary.load(folder / "lib")
    assert made.size == exported["size"]
    assert made.units == ("N/m", "N s/m")
    # The gains are those of the sources, from the system itself.
    system = ts.systems.MassSpringDamper()
    contexts = np.array([[e.context["k"], e.context["c"], 1.0] for e in made.entries])
    gains, _ = system.optimal_gain(contexts)
    assert isinstance(made.policies, LinearGain)
    np.testing.assert_array_equal(made.policies.gain, gains)
    contract = json.loads((folder / "lib" / "c" / "contract.json").read_text())
    assert contract["made"]["command"].startswith(
        "taskspace export small --ask 'regret <= 0.4'"
    )
    assert not list(folder.glob(".partial-*"))


@needs_cc
def test_exported_c_passes_its_own_test(folder, exported):
    del exported
    program = compile_c(folder / "lib" / "c", ["plant.c", "plant_selftest.c"])
    assert subprocess.run([program], check=False, capture_output=True).returncode == 0


def test_people_see_policies_and_the_next_step(folder):
    done = taskspace(
        "export", "small", "--ask", "regret <= 0.4", "--to", "shown", "--as", "none",
        "--sources", "3,17", "--outside", "clamp", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "2 policies in 64 nodes of a grid" in done.stdout
    assert "Next: taskspace evaluate shown small\n" in done.stdout
    made = PolicyLibrary.load(folder / "shown")
    assert [e.source for e in made.entries] == [3, 17]
    assert made.outside == "clamp"
    assert not (folder / "shown" / "c").exists()


def test_a_saved_cover_is_exported(folder):
    taskspace(
        "cover", "small", "--ask", "regret <= 0.4", "--save", "cover.json", cwd=folder
    )
    done = taskspace(
        "export", "small", "--ask", "regret <= 0.4", "--cover", "cover.json", "--to",
        "covered", "--as", "none", "--format", "json", cwd=folder,
    )  # fmt: skip
    saved = json.loads((folder / "cover.json").read_text())
    assert done.returncode == 0, done.stderr
    entries = PolicyLibrary.load(folder / "covered").entries
    assert [e.source for e in entries] == saved["sources"]


def test_certified(folder):
    done = taskspace(
        "export", "small", "--ask", "regret <= 0.6", "--certified", "--to", "box",
        "--format", "json", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["guarantee"]["scope"] == "box"
    assert record["selection"]["kind"] == "boxes"
    done = taskspace("evaluate", "box", "msd-v1", "--format", "json", cwd=folder)
    trial = json.loads(done.stdout)
    assert trial["held"] in (1.0, None)
    assert trial["violations"] == 0
    assert trial["applied"] == pytest.approx(
        record["guarantee"]["values"]["share_certified"], abs=0.05
    )


def test_without_a_proof_nothing_is_written(folder):
    words = ("export", "small", "--ask", "regret <= 0.6", "--certified", "--to", "none")
    done = taskspace(*words, "--sources", "1", cwd=folder)
    assert done.returncode == 3, done.stderr
    said = " ".join(done.stderr.split())
    assert "Nothing was written: Not so that every" in said
    assert "is refuted" in said
    assert not (folder / "none").exists()
    assert not list(folder.glob(".partial-*"))


def test_evaluate(folder, exported):
    done = taskspace(
        "evaluate", "lib", "small", "--contexts", "200", "--noise", "0.02",
        cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert re.search(r"Worst loss of \d+ contexts tried, .* Least: \w+", said)
    assert "left out of every row" in said
    assert "noise of the measured context 0.02" in said
    done = taskspace(
        "evaluate", "lib", "msd-v1", "--contexts", "50", "--format", "json", cwd=folder
    )
    record = json.loads(done.stdout)
    names = [c["name"] for c in record["contenders"]]
    assert names[0] == "library"
    assert {"one policy of it", "uniform library", "random library", "optimum"} <= set(
        names
    )
    assert record["contenders"][0]["n_policies"] == exported["size"]


def test_matrices_export_names(folder):
    (folder / "scores.csv").write_text("policy,flat,hill\nwalk,9,1\nrun,5,8\n")
    done = taskspace(
        "export", "scores.csv", "--ask", "regret <= 1", "--to", "named", "--as", "none",
        cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "holds names" in done.stdout
    made = PolicyLibrary.load(folder / "named")
    assert made.entries[made.select("hill").policy].name == "run"
    said = refused(
        "export", "scores.csv", "--ask", "regret <= 1", "--to", "no", cwd=folder
    )
    assert "names only" in said
    assert not (folder / "no").exists()
    assert "names only" in refused("evaluate", "named", "msd-v1", cwd=folder)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--ask", "regret <= -1"], "epsilon >= 0 must hold"),
        (["--to", "small"], "must be a new or empty folder"),
        (["--as", "cpp"], "Unknown export format 'cpp'"),
        (["--sources", "a"], "must be a number from 0 to 63"),
        (["--sources", "99"], "from 0 to 63"),
        (["--outside", "no"], "behaviour outside"),
        (["--name", "1x"], "C identifier"),
        (["--precision", "half"], "Unknown precision"),
        (["--to", "scores.csv/x"], "can be written"),
    ],
)
def test_bad_options_of_export(folder, words, says):
    (folder / "scores.csv").touch()
    asked = {"--ask": "regret <= 1", "--to": "x"} | dict([words])
    said = refused("export", "small", *chain(*asked.items()), cwd=folder)
    assert says in said
    assert not (folder / "x").exists()
    assert not list(folder.glob(".partial-*"))


def test_bad_input_of_evaluate(folder, exported, tmp_path):
    del exported
    assert "has no library.json" in refused("evaluate", tmp_path, "msd-v1")
    assert "Did you mean 'msd-v1'" in refused("evaluate", "lib", "msd-v2", cwd=folder)
    said = refused("evaluate", "lib", "cartpole-v1", cwd=folder)
    assert "Unknown context axis of cartpole-v1 'k'" in said
    assert "noise >= 0" in refused(
        "evaluate", "lib", "msd-v1", "--noise", "-1", cwd=folder
    )
    file = folder / "lib" / "contract.json"
    good = file.read_bytes()
    file.write_bytes(good.replace(b"1", b"2", 1))
    assert "was changed or cut short" in refused(
        "evaluate", "lib", "msd-v1", cwd=folder
    )
    file.write_bytes(good)
