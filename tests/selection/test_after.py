"""From a TOML file to a proven, exported library: what follows a selection."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import taskspace as ts
from taskspace.cli import app
from taskspace.runs import RunFolder, load_experiment, run_selection
from tests.helpers import msd_toml, zipped

TOML = msd_toml(
    "[0.1, 8.0, 10]",
    n_policies=1,
    noise=0.0,
    more='[select]\nselector = "coverage"',
)
ASKED = ["--ask", "regret <= 0.6"]


def call(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return " ".join(re.sub(r"[│┃]", " ", done.output).split())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("selected")
    file = folder / "mine.toml"
    file.write_text(TOML)
    run_selection(load_experiment(file), folder / "run")
    zipped(folder / "run")
    return folder / "run"


def test_a_zip_keeps_the_note(run):
    table = RunFolder.open(run).table()
    kept = ts.open(run.with_suffix(".zip")).table
    assert kept.attrs["notes"] == table.attrs["notes"]
    np.testing.assert_array_equal(kept["performance"], table["performance"])


@pytest.mark.parametrize("suffix", ["", ".zip"])
def test_every_command_says_of_what_it_speaks(run, suffix, tmp_path):
    path = run.with_suffix(suffix)
    n_trained = RunFolder.open(run).table().sizes["source"]
    says = f"{n_trained} sources that a selection trained, not of all contexts"
    assert says in call("cover", path, *ASKED)
    assert says in call("profile", path, "--ask", "regret")
    assert says in call("certify", path, *ASKED)
    record = json.loads(
        CliRunner().invoke(app, ["cover", str(path), *ASKED, "--format", "json"]).stdout
    )
    assert says in record["notes"][0]
    call("explore", path, "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "a selection trained" in page


def test_the_run_is_as_it_was_written(run):
    assert "as it was written" in call("verify", run)


def test_the_whole_box_is_proven_and_exported(run, tmp_path):
    """Selected within 0.4 at the nodes; 0.6 is then proven everywhere."""
    proof = call("certify", run, *ASKED)
    assert "proof Every (k, c) in the box, not only the grid, is within 0.6" in proof
    said = call("export", run, *ASKED, "--certified", "--to", tmp_path / "lib")
    assert "source" in said
    record = json.loads((tmp_path / "lib" / "library.json").read_text())
    assert record["guarantee"]["kind"] == "proof"
    assert record["provenance"]["selector"] == "coverage"
