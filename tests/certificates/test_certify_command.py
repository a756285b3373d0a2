import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import taskspace as ts
from taskspace.certificates import certify
from taskspace.cli.commands.certify import certify as certify_command
from taskspace.errors import TaskspaceError, UntrustedCodeError
from taskspace.runs import RunFolder, load_experiment, run_experiment
from tests.certificates.worlds import MSD, msd_family

SPACE = ts.Grid(k=(0.1, 8.0, 10), c=(0.1, 8.0, 10))


@pytest.fixture(scope="module")
def msd():
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    table = ts.evaluate(MSD, trainer, SPACE, seed=0).table
    result = certify(
        ts.Study.of(table, system=MSD, policies=msd_family(SPACE)),
        ts.Question("signed", epsilon=0.5),
        time_limit=4,
    )
    return table, result


# --- figures ------------------------------------------------------------------------


def test_figures_hold_what_is_certified(msd):
    table, result = msd
    study = ts.Study.of(table)
    figure = ts.show.tolerance(study, result.question, source=55)
    _, drawn = (np.asarray(c.get_offsets()) for c in figure.axes[0].collections)
    served = ts.loss(table, ts.Question("signed", epsilon=0.0)).values[55] <= 0.5
    np.testing.assert_array_equal(drawn, SPACE.points[served])


def test_one_axis_is_drawn_too():
    space = ts.Grid(k=(0.5, 8.0, 9))
    table = ts.evaluate(
        MSD, ts.trainers.Lqr(n_policies=1, noise=0.0), space, seed=0
    ).table
    result = certify(
        ts.Study.of(table, system=MSD, policies=msd_family(space)),
        ts.Question("signed", epsilon=0.5),
        time_limit=1,
    )
    assert result.certificates[-1].holds
    study = ts.Study.of(table)
    for figure in (
        ts.show.boxes(study, result),
        ts.show.tolerance(study, result.question, source=3),
    ):
        figure.savefig(io.BytesIO(), dpi=40)


# --- the command --------------------------------------------------------------------

app = typer.Typer()
app.command()(certify_command)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "msd"
    run_experiment(load_experiment("msd", ["space.n=6", "trainer.n_policies=2"]), path)
    return path


def test_command_prints_json(run):
    result = CliRunner().invoke(
        app,
        [str(run), "--ask", "regret <= 1.5", "--time-limit", "2", "--format", "json"],
    )
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    last = record["certificates"][-1]
    assert last["name"] == "continuum cover"
    assert last["kind"] == "proof"
    assert last["holds"]
    assert ts.Question(record["ask"]).epsilon == 1.5


def test_command_prints_for_people(run, tmp_path):
    arguments = [str(run), "--ask", "regret <= 1.5", "--time-limit", "2"]
    result = CliRunner().invoke(app, [*arguments, "--plot", str(tmp_path / "b.png")])
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    assert "not only the grid, is within 1.5 of optimal, by whichever policy" in text
    # Brackets of a sentence are no markup.
    assert "E[x0 x0ᵀ] = the identity" in text.replace("│", "")
    assert "with E = the" not in text
    assert (tmp_path / "b.png").is_file()


def test_exit_code_3_where_no_proof_was_reached(run):
    words = [str(run), "--ask", "ratio <= 1 %", "--time-limit", "1"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 3, result.output
    text = " ".join(result.stdout.split())
    assert "continuum cover: proof, does not hold" in text
    assert "is refuted" in text
    assert "% is open" in text
    assert "1 more that bound less or do not apply: --format json." in text
    help_text = CliRunner().invoke(app, ["--help"]).output
    assert "Exit code 3" in " ".join(help_text.split())


def test_command_certifies_given_sources_and_saved_covers(run, tmp_path):
    table = RunFolder.open(run).table()
    question = ts.Question("regret", epsilon=1.0)
    saved = ts.minimum_cover(question.sets(table))
    saved.save(tmp_path / "cover.json")
    numbers = ",".join(map(str, saved.sources.tolist()))
    words = [
        str(run),
        "--ask",
        "regret <= 1.5",
        "--time-limit",
        "5",
        "--format",
        "json",
    ]
    for option in (["--sources", numbers], ["--cover", str(tmp_path / "cover.json")]):
        result = CliRunner().invoke(app, [*words, *option])
        assert result.exit_code == 0, result.output
        last = json.loads(result.stdout)["certificates"][-1]
        assert last["holds"]
        assert last["values"]["sources"] == sorted(saved.sources.tolist())
    few = CliRunner().invoke(app, [*words, "--sources", "0"])
    assert few.exit_code == 3
    values = json.loads(few.stdout)["certificates"][-1]["values"]
    assert values["sources"] == [0]
    names = ("share_certified", "share_uncovered", "share_open")
    assert sum(values[name] for name in names) == pytest.approx(1.0)
    small = ts.minimum_cover(question.sets(table.isel(target=slice(0, 5))))
    small.save(tmp_path / "small.json")
    for option, message in (
        (["--sources", "99"], "99"),
        (["--sources", " "], "at least one"),
        (["--sources", "1", "--cover", "x"], "either"),
        (["--cover", str(tmp_path / "small.json")], "36 targets, but is one of 36"),
    ):
        refused = CliRunner().invoke(app, [*words, *option])
        assert isinstance(refused.exception, TaskspaceError)
        assert message in str(refused.exception)


def test_command_takes_matrix_files(tmp_path):
    file = tmp_path / "matrix.csv"
    np.savetxt(file, -np.abs(np.subtract.outer(range(5), range(5))), delimiter=",")
    result = CliRunner().invoke(
        app, [str(file), "--ask", "signed <= 1", "--format", "json"]
    )
    assert result.exit_code == 3, result.output  # an estimate, at most
    certificates = json.loads(result.stdout)["certificates"]
    assert certificates[0]["values"]["size"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "--ask", "regret <= 1"], "does not exist"),
        (["RUN", "--ask", "regret <= -1"], "epsilon >= 0"),
        (["RUN", "--ask", "regert <= 1"], "regret"),
        (["RUN", "--ask", "regret <= 1 some"], "worst, best"),
    ],
)
def test_command_refuses_with_a_sentence(run, arguments, message):
    arguments = [str(run) if a == "RUN" else a for a in arguments]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, TaskspaceError)
    assert message in str(result.exception)


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "cartpole"
    settings = [
        "space.n=2",
        "system.n_episodes=8",
        "system.horizon=60",
        "trainer.n_steps=4096",
        "trainer.n_policies=1",
        "cover.n_repeats=2",
        "cover.time_limit=1",
    ]
    run_experiment(load_experiment("cartpole", settings), path)
    return path


@pytest.mark.slow
def test_command_plays_a_simulated_cover_again(cartpole):
    arguments = [str(cartpole), "--ask", "regret <= 59", "--time-limit", "20"]
    more = ["--max-episodes", "256", "--distribution", "uniform", "--samples", "40"]
    result = CliRunner().invoke(app, [*arguments, *more, "--format", "json"])
    assert result.exit_code == 0, result.output
    found = {c["name"]: c for c in json.loads(result.stdout)["certificates"]}
    assert "proof" not in {c["kind"] for c in found.values()}
    assert found["grid cover"]["scope"] == "the estimated table"
    fresh = found["fresh episodes"]
    assert fresh["kind"] == "confidence"
    counts = [fresh["values"][f"n_{n}"] for n in ("certified", "refuted", "undecided")]
    assert sum(counts) == 4
    # 59 of 60 steps may be lost: any policy that stands for more than a step serves.
    assert fresh["holds"]
    assert fresh["values"]["confidence"] == 0.999
    assert found["share of contexts"]["values"]["n_samples"] == 40
    assert found["share of contexts"]["scope"].startswith("contexts and starts drawn")
    looked = CliRunner().invoke(
        app, [*arguments, "--pilot", "2", "16", "--max-episodes", "256"]
    )
    assert looked.exit_code == 0, looked.output
    assert "of a shortlist of 2, on 16 other" in " ".join(looked.output.split())


def test_command_never_calls_a_mean_a_proof():
    file = Path(__file__).parents[2] / "examples" / "data" / "cartpole.npz"
    words = ["--ask", "regret <= 5", "--time-limit", "3", "--format", "json"]
    result = CliRunner().invoke(app, [str(file), *words])
    assert result.exit_code == 3, result.output
    found = {c["name"]: c for c in json.loads(result.stdout)["certificates"]}
    assert "proof" not in {c["kind"] for c in found.values()}
    assert found["grid cover"]["scope"] == "the estimated table"


def test_command_wants_a_distribution_for_samples(run):
    result = CliRunner().invoke(
        app, [str(run), "--ask", "regret <= 1", "--samples", "10"]
    )
    assert isinstance(result.exception, TaskspaceError)
    assert "--distribution uniform" in str(result.exception)


def test_a_plant_that_a_function_makes_is_certified(tmp_path, monkeypatch):
    """From ten lines of plant code to a proof, as a user would."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "my_cart.py").write_text(
        "from os import remove\n"
        "from taskspace.systems import ContextAxis, LinearFamily\n"
        "def cart(friction):\n"
        "    return LinearFamily(\n"
        "        [ContextAxis('mass', 1.0, low=0.0, low_open=True)],\n"
        "        A=lambda mass: [[0, 1], [0, -friction / mass]],\n"
        "        B=lambda mass: [[0], [1 / mass]],\n"
        "        Q=[[1, 0], [0, 1]], R=[[1]])\n"
    )
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\nseed = 0\nask = "ratio <= 5 %"\n'
        '[system]\nid = "my_cart:cart"\nfriction = 0.2\n'
        "[space]\nmass = [0.5, 2.0, 5]\n"
        '[trainer]\nid = "lqr"\nn_policies = 1\nnoise = 0.0\n'
    )
    run_experiment(load_experiment("mine.toml"), tmp_path / "run")
    words = ["run", "--ask", "ratio <= 0.05"]
    refused = CliRunner().invoke(app, words)
    assert isinstance(refused.exception, UntrustedCodeError)
    result = CliRunner().invoke(app, [*words, "--trust", "--time-limit", "20"])
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert (
        "cover: proof Every mass in the box, not only the grid, costs at most 5 %"
        in said
    )
    del sys.modules["my_cart"]
