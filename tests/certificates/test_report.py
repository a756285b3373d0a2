import io
import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import taskspace as ts
from taskspace.certificates import Certificate, certify
from taskspace.certificates.report import grid_of
from taskspace.cli.certify import certify as certify_command
from taskspace.errors import TaskspaceError, UnknownNameError
from taskspace.runs import load_experiment, run_experiment
from taskspace.show.certificates import (
    box_map,
    draw_box_map,
    draw_rate_map,
    draw_tolerance,
    rate_map,
    save_certificate_figures,
    tolerance_plot,
)
from taskspace.systems import MassSpringDamper
from taskspace.systems.cartpole import CartPole
from tests.certificates.worlds import (
    MSD,
    Sawtooth,
    line_table,
    msd_family,
    msd_loss,
    policy_table,
)
from tests.helpers import four_states

SPACE = ts.Grid(k=(0.1, 8.0, 10), c=(0.1, 8.0, 10))


@pytest.fixture(scope="module")
def msd():
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    table = ts.evaluate(MSD, trainer, SPACE, seed=0)
    result = certify(
        table,
        0.5,
        system=MSD,
        policies=msd_family(SPACE),
        sources=SPACE,
        targets=SPACE,
        time_limit=4,
    )
    return table, result


def test_everything_is_there_and_plain(msd):
    _, result = msd
    names = [c.name for c in result.certificates]
    for name in (
        "grid cover",
        "cover: lp",
        "loss rates",
        "inner balls",
        "outer balls",
        "volume: packing",
        "volume: box lattice",
        "volume: printed upper",
        "volume: printed lower",
        "grid cover, between nodes",
        "continuum cover",
    ):
        assert name in names
    assert names[-1] == "continuum cover"
    text = json.dumps([c.to_dict() for c in result.certificates], allow_nan=False)
    assert {"name", "holds", "kind", "why", "values"} == set(json.loads(text)[0])
    with pytest.raises(KeyError):
        result["no such certificate"]


def test_bounds_agree_with_each_other(msd):
    _, result = msd
    size = result["grid cover"].values["size"]
    for certificate in result.certificates:
        values = certificate.values
        if certificate.kind == "proof" and values.get("side") == "lower":
            assert values["value"] <= size
        # About signed, whose covers are no larger than those of regret here.
        if certificate.kind == "proof" and values.get("side") == "upper":
            signed = ts.table_sets(msd[0], "signed", "all", 0.5)
            assert values["value"] >= ts.minimum_cover(signed, time_limit=2).size
    continuum = result["continuum cover"].values
    assert size <= continuum["size"]
    assert continuum["lower_bound"] <= continuum["size"]


def test_the_last_sentence_is_true(msd):
    _, result = msd
    last = result.certificates[-1]
    assert last.holds
    assert last.kind == "proof"
    assert last.why.startswith(
        "Every (k, c) in the box, not only the grid, is within 0.5 of optimal, by these"
    )
    rng = np.random.default_rng(0)
    rows = np.c_[0.1 + rng.random((20_000, 2)) * 7.9, np.ones(20_000)]
    loss = msd_loss(SPACE, msd_family(SPACE), rows, "regret", "all")
    assert loss[last.values["sources"]].min(0).max() <= 0.5


def test_a_table_alone_gives_an_estimate(msd):
    table, _ = msd
    result = certify(table, 0.5, time_limit=2)
    last = result["continuum cover"]
    assert last.kind == "estimate"
    assert result.continuum is None
    given = certify(table, 0.5, rates=[1e3, 1e3], time_limit=2)["continuum cover"]
    assert given.kind == "proof"
    assert not given.holds


def test_tables_without_contexts_or_home_say_what_is_missing():
    result = certify(ts.table_from_matrix(-np.ones((2, 3))), 0.5, time_limit=1)
    assert result["loss rates"].kind == "vacuous"
    assert result["continuum cover"].kind == "vacuous"
    assert result["grid cover"].holds
    ratio = certify(ts.table_from_matrix(-np.ones((2, 3))), 0.5, criterion="ratio")
    assert "units of performance" in ratio["loss rates"].why
    nobody = line_table([0.0, 1.0], lambda s, t: np.where(t == s, -np.inf, -np.inf))
    assert not certify(nobody, 0.5, criterion="floor")["continuum cover"].holds


def test_a_signed_cover_tells_the_regret_it_leaves():
    table = ts.table_from_matrix([[0.0, 0.0], [0.0, 100.0]])
    why = certify(table, 1.0, criterion="signed", time_limit=1)["grid cover"].why
    assert "leave a regret of 100" in why


def test_known_constants_certify_other_systems():
    space = ts.Grid(x=(0.0, 4.0, 21))
    system, policies = Sawtooth(), Sawtooth.policies(space.points[:, 0])
    table = policy_table(system, policies, space)
    options = {"system": system, "policies": policies, "sources": space}
    result = certify(table, 1.1, rates=2.0, time_limit=2, **options)
    assert result["continuum cover"].holds
    assert result["continuum cover"].kind == "proof"
    assert "if they hold" in result["continuum cover"].why
    guess = certify(table, 1.1, time_limit=2, **options)["continuum cover"]
    assert guess.kind == "estimate"


def test_a_linear_family_is_certified_only_by_given_constants():
    system = four_states()
    space = ts.Grid(coupling=(0.1, 1.0, 6))
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    table = ts.evaluate(system, trainer, space, seed=0)
    policies = trainer.train(system, system.contexts(space), seed=0).policies
    result = certify(table, 0.5, system=system, policies=policies, time_limit=2)
    assert result["continuum cover"].kind == "estimate"


def test_means_over_episodes_are_never_proofs():
    space = ts.Grid(pole_length=(0.25, 5.0, 3), cart_mass=(0.5, 10.0, 3))
    table = ts.table_from_matrix(np.full((9, 9), 100.0), sources=space, targets=space)
    options = {"targets": space, "rates": [1.0, 1.0], "time_limit": 1}
    sure = certify(table, 20.0, **options)["continuum cover"]
    assert sure.kind == "proof"
    assert sure.holds
    sampled = certify(table, 20.0, system=CartPole(), **options)["continuum cover"]
    assert sampled.kind == "estimate"
    assert "mean over episodes" in sampled.why


def test_a_finite_horizon_is_not_certified_by_the_closed_form():
    system = MassSpringDamper(horizon=4.0)
    space = ts.Grid(k=(1.0, 4.0, 4))
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    table = ts.evaluate(system, trainer, space, seed=0)
    policies = trainer.train(system, system.contexts(space), seed=0).policies
    options = {"system": system, "policies": policies, "sources": space}
    result = certify(table, 0.5, criterion="signed", time_limit=1, **options)
    assert result["continuum cover"].kind == "estimate"
    assert result["inner balls"].kind == "estimate"


def test_grids_are_recognised():
    assert grid_of(ts.Points(SPACE.names, SPACE.points)) == SPACE
    log = ts.Grid(x=(0.1, 10.0, 7, "log"))
    assert grid_of(ts.Points(["x"], log.points)) == log
    assert grid_of(ts.Points(["x"], [0.0, 1.0, 3.0])) is None
    assert grid_of(ts.Points(["x", "y"], [[0, 0], [1, 1], [2, 0.0]])) is None
    assert grid_of(None) is None


def test_kinds_are_checked():
    with pytest.raises(UnknownNameError, match="Did you mean 'proof'"):
        Certificate("x", True, "prooof", "")  # type: ignore[arg-type]
    values = {"a": np.float64(np.inf), "b": np.arange(2), "c": (1, {"d": np.nan})}
    assert Certificate("x", True, "proof", "", values).values == {
        "a": None,
        "b": [0, 1],
        "c": [1, {"d": None}],
    }


# --- figures ------------------------------------------------------------------------


def test_records_hold_what_is_drawn(msd, tmp_path):
    table, result = msd
    plot = tolerance_plot(table, result.balls, 0.5, 55)
    served = ts.loss(table, "signed").values[55] <= 0.5
    assert plot.served == served.tolist()
    inside = np.linalg.norm(np.array(plot.targets) - plot.source, axis=1) <= plot.inner
    assert served[inside].all()
    rates = rate_map(result.balls.rates)
    assert len(rates.rates) == SPACE.size
    boxes = box_map(result.continuum, table)
    assert boxes.names == ["k", "c"]
    area = np.prod(np.array(boxes.high) - np.array(boxes.low), axis=1).sum()
    assert area == pytest.approx(7.9**2)
    assert set(boxes.status) == {0}
    files = save_certificate_figures(result, table, tmp_path / "figures")
    assert len(files) == 6
    assert all(file.stat().st_size > 1000 for file in files)
    stored = json.loads((tmp_path / "figures" / "loss-rates.json").read_text())
    assert stored["names"] == ["k", "c"]


def test_one_axis_is_drawn_too():
    space = ts.Grid(k=(0.5, 8.0, 9))
    table = ts.evaluate(MSD, ts.trainers.Lqr(n_policies=1, noise=0.0), space, seed=0)
    result = certify(
        table, 0.5, system=MSD, policies=msd_family(space), sources=space, time_limit=1
    )
    assert result.certificates[-1].holds
    for figure in (
        draw_box_map(box_map(result.continuum, table)),
        draw_rate_map(rate_map(result.balls.rates)),
        draw_tolerance(tolerance_plot(table, result.balls, 0.5, 3)),
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
        app, [str(run), "--epsilon", "1.5", "--time-limit", "2", "--format", "json"]
    )
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    last = record["certificates"][-1]
    assert last["name"] == "continuum cover"
    assert last["kind"] == "proof"
    assert last["holds"]
    assert record["epsilon"] == 1.5


def test_command_prints_for_people(run, tmp_path):
    arguments = [str(run), "--epsilon", "1.5", "--time-limit", "2"]
    result = CliRunner().invoke(app, [*arguments, "--figures", str(tmp_path)])
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    assert "not only the grid, is within 1.5 of optimal, by whichever policy" in text
    assert "volume: printed lower" in text
    assert (tmp_path / "certified-boxes.png").is_file()


def test_command_takes_matrix_files(tmp_path):
    file = tmp_path / "matrix.csv"
    np.savetxt(file, -np.abs(np.subtract.outer(range(5), range(5))), delimiter=",")
    result = CliRunner().invoke(
        app, [str(file), "--epsilon", "1", "--criterion", "signed", "--format", "json"]
    )
    assert result.exit_code == 0, result.output
    certificates = json.loads(result.stdout)["certificates"]
    assert certificates[0]["values"]["size"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "--epsilon", "1"], "does not exist"),
        (["RUN", "--epsilon", "-1"], "epsilon >= 0"),
        (["RUN", "--epsilon", "1", "--criterion", "regert"], "regret"),
        (["RUN", "--epsilon", "1", "--family", "some"], "family"),
    ],
)
def test_command_refuses_with_a_sentence(run, arguments, message):
    arguments = [str(run) if a == "RUN" else a for a in arguments]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, TaskspaceError)
    assert message in str(result.exception)
