# pyright: reportAttributeAccessIssue=false, reportIndexIssue=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportOptionalMemberAccess=false
"""Libraries of interpolated schedules: what is guaranteed where, files, the command."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import taskspace as ts
from taskspace.deploy import OutsideError, PolicyLibrary, ScheduleLibrary, Status
from taskspace.errors import InvalidInputError, UnknownNameError
from tests.deploy.helpers import compile_c, needs_cc
from tests.helpers import refused, taskspace

ASSETS = Path(__file__).parents[1] / "assets"
QUESTION = ts.Question("ratio <= 5 %")
SPACE = ts.Grid(b=(0.1, 1.0, 10))
SYSTEM, TRAINER = ts.systems.ScalarLqr(), ts.trainers.Lqr()


class Changed(ts.systems.ScalarLqr):
    """A plant of the same name with another input."""

    def matrices(self, contexts):
        found = super().matrices(contexts)
        return found._replace(B=found.B * 1.01)


@pytest.fixture(scope="module")
def study():
    return ts.evaluate(SYSTEM, TRAINER, SPACE)


@pytest.fixture(scope="module")
def schedule(study):
    return ts.schedule(study, QUESTION)


@pytest.fixture(scope="module")
def proof(study, schedule):
    found = ts.certify(study, QUESTION, schedule=schedule)
    assert found["schedule"].holds
    return found


def test_a_proof_guarantees_the_whole_range_and_nothing_else_does(
    study, schedule, proof
):
    rows = np.array([[0.1], [0.55], [1.0], [np.nextafter(1, 2)], [np.nan], [np.inf]])
    for given, word in ((proof, Status.GUARANTEED), (None, Status.INSIDE)):
        library = ts.library(study, schedule, proof=given)
        assert library.question == QUESTION
        chosen = library.select(rows)
        assert chosen.status.tolist() == [word] * 3 + [Status.REFUSED] * 3
        assert np.isnan(chosen.numbers[3:]).all()
        assert np.array_equal(chosen.numbers[:3], schedule.numbers_at(rows[:3]))
        clamped = replace(library, outside="clamp").select(rows)
        assert clamped.status.tolist()[3:] == [Status.OUTSIDE] + [Status.REFUSED] * 2
        assert clamped.numbers[3] == schedule.numbers_at(rows[2:3])[0]
        assert library.select({"b": 0.55}).guaranteed == (given is not None)
    assert "Nothing is proven" in library.guarantee.statement
    assert library.act({"b": 0.5}, [2.0]) == -2 * schedule(b=0.5).gain[0]
    with pytest.raises(OutsideError, match=r"b = 2 is not.*b in \[0.1, 1\]"):
        library.act([2.0], [1.0])
    with pytest.raises(InvalidInputError, match="1 numbers"):
        library.act([0.5], [1.0, 2.0])


def test_what_is_guaranteed_holds_at_drawn_contexts(study, schedule, proof):
    """By the closed form of the scalar plant; with other gains it does not hold."""
    library = ts.library(study, schedule, proof=proof)
    b = np.random.default_rng(0).uniform(0.1, 1.0, 10_000)
    best = (1 + np.sqrt(1 + b**2)) / b**2
    k = library.select(b[:, None]).numbers[:, 0]
    assert ((1 + k**2) / (2 * (b * k - 1)) <= 1.05 * best).all()
    k *= 1.5
    assert ((1 + k**2) / (2 * (b * k - 1)) > 1.05 * best).any()


def test_a_proof_is_taken_for_what_it_was_proven_for_only(study, schedule, proof):
    def other(thing, given=study, question=None):
        with pytest.raises(InvalidInputError, match="something differs") as error:
            ts.library(given, thing, question, proof=proof)
        return str(error.value)

    moved = replace(schedule, gains=schedule.gains * (1 + 1e-15))
    assert "the schedule." in other(moved)
    log = dict.fromkeys(schedule.names, "log")
    assert "the schedule." in other(replace(schedule, interpolation=log))
    assert "the question." in other(schedule, question="ratio <= 4 %")
    wider = ts.evaluate(SYSTEM, TRAINER, ts.Grid(b=(0.1, 1.1, 10)))
    assert "the box" in other(schedule, wider)
    plant = ts.evaluate(Changed(), TRAINER, SPACE)
    assert "the matrices." in other(schedule, plant)
    about_covers = replace(proof, certificates=())
    with pytest.raises(InvalidInputError, match="is about a cover"):
        ts.library(study, schedule, proof=about_covers)
    with pytest.raises(InvalidInputError, match="that of a schedule"):
        ts.library(study, ts.minimum_cover(study, QUESTION), proof=proof)


def test_a_refuted_or_open_schedule_guarantees_nothing(study, schedule):
    question = ts.Question("ratio <= 0.01 %")
    refuted = ts.certify(study, question, schedule=schedule)
    library = ts.library(study, schedule, proof=refuted)
    assert library.select([0.5]).status == Status.INSIDE
    assert "fails" in library.guarantee.statement
    assert library.question == question


def test_measured_contexts_may_lie_beyond_the_range_by_their_error(study):
    question = ts.Question("ratio <= 20 % with b=0.05")
    schedule = ts.schedule(study, question)
    proof = ts.certify(study, question, schedule=schedule)
    assert proof["schedule"].holds
    library = ts.library(study, schedule, proof=proof)
    chosen = library.select([[0.06], [1.04], [1.06]])
    assert chosen.status.tolist() == [Status.GUARANTEED] * 2 + [Status.REFUSED]
    error = library.contract()["inputs"]["context"][0]["error"]
    assert error == question.error.to_dict()["b"]


def test_a_table_needs_a_question_and_the_axes_of_the_study(study, schedule):
    table = ts.Schedule.of_gains({"b": [0.1, 1.0]}, [[[0.1]], [[0.5]]])
    with pytest.raises(InvalidInputError, match="must know what its schedule answers"):
        ts.library(study, table)
    made = ts.library(study, table, "ratio <= 5 %")
    assert made.guarantee.statement.endswith("for 'ratio <= 5 %'.")
    with pytest.raises(InvalidInputError, match=r"must vary v .* they vary b"):
        ts.library(study, ts.Schedule.of_gains({"v": [1.0]}, [[[0.1]]]), QUESTION)
    wide = ts.Schedule.of_gains({"b": [1.0]}, [[[0.1, 0.2]]])
    with pytest.raises(ts.TaskspaceError, match="1 state"):
        ts.library(study, wide, QUESTION)
    with pytest.raises(UnknownNameError):
        ts.library(study, schedule, outside="wrap")


def test_axes_in_another_order_give_the_same_numbers():
    space = ts.Grid(k=(0.1, 8.0, 4), c=(0.2, 7.0, 5))
    study = ts.evaluate(ts.systems.MassSpringDamper(), TRAINER, space, seed=0)
    schedule = ts.schedule(study, "regret <= 1", constant_pieces=False)
    turned = replace(
        schedule,
        breakpoints=dict(reversed(schedule.breakpoints.items())),
        gains=schedule.gains.swapaxes(0, 1),
    )
    one, two = ts.library(study, schedule), ts.library(study, turned)
    assert two.low.tolist() == one.low.tolist()[::-1]
    assert two.units == one.units[::-1] == ("N s/m", "N/m")
    assert one.fixed == two.fixed
    for context in ({"k": 3.0, "c": 1.0}, {"k": 8.0, "c": 0.2, "m": 1.0}):
        assert np.allclose(one.select(context).numbers, two.select(context).numbers)
    with pytest.raises(InvalidInputError, match="m = 1 only"):
        one.select({"k": 3.0, "c": 1.0, "m": 2.0})


def test_a_saved_library_is_the_same_and_changes_are_found(
    study, schedule, proof, tmp_path
):
    library = ts.library(study, schedule, proof=proof, outside="clamp")
    folder = library.save(tmp_path / "a")
    again = ScheduleLibrary.load(folder)
    rows = np.linspace(-1, 2, 50)[:, None]
    assert np.array_equal(library.select(rows).numbers, again.select(rows).numbers)
    assert np.array_equal(library.select(rows).status, again.select(rows).status)
    assert again.contract() == library.contract()
    again.save(tmp_path / "b")
    for file in folder.iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()
    with pytest.raises(InvalidInputError, match=r"Use ScheduleLibrary\.load"):
        PolicyLibrary.load(folder)
    for name in ("library.json", "contract.json"):
        text = (folder / name).read_text()
        (folder / name).write_text(text.replace("1", "2"))
        with pytest.raises(InvalidInputError, match=r"changed|must have format"):
            ScheduleLibrary.load(folder)
        (folder / name).write_text(text)
    ScheduleLibrary.load(folder)


def test_files_of_the_present_version_open_with_their_numbers():
    library = ScheduleLibrary.load(ASSETS / "schedule-library-v2")
    schedule = ts.Schedule.load(ASSETS / "schedule-v1.json")
    for made in (library.schedule, schedule):
        assert made.breakpoints["b"].tolist() == [0.1, 1.0]
        assert made(b=10**-0.5).gain == pytest.approx(3.0, abs=1e-12)
    assert library.select([0.5]).status == Status.INSIDE
    assert library.outside == "clamp"


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("schedule")
    options = ["space.n=8", "trainer.n_policies=1", "trainer.noise=0.0"]
    sets = [word for o in [*options, "cover.n_repeats=2"] for word in ("--set", o)]
    done = taskspace("run", "msd", *sets, "--out", "small", cwd=folder)
    assert done.returncode == 0, done.stderr
    asked = ("small", "--ask", "regret <= 0.5")
    done = taskspace("schedule", *asked, "--save", "table.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "\\n" not in done.stdout
    assert len(done.stdout.splitlines()) > 5
    return folder


@needs_cc
def test_export_of_a_schedule(desk):
    asked = ("export", "small", "--ask", "regret <= 0.5", "--schedule", "table.json")
    done = taskspace(*asked, "--certified", "--to", "lib", "--format", "json", cwd=desk)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["guarantee"]["kind"] == "proof"
    assert record["formats"] == ["c", "tables"]
    library = ScheduleLibrary.load(desk / "lib")
    assert library.select({"k": 2, "c": 3}).guaranteed
    program = compile_c(desk / "lib" / "c", ["schedule.c", "schedule_selftest.c"])
    subprocess.run([program], check=True)
    assert (desk / "lib" / "tables" / "schedule.mat").is_file()
    plain = taskspace(*asked, "--to", "plain", "--name", "gains", cwd=desk)
    assert plain.returncode == 0, plain.stderr
    assert "\\n" not in plain.stdout
    assert "Nothing is proven of this schedule" in " ".join(plain.stdout.split())
    assert (
        "GAINS_GUARANTEED = 0, /* never here */"
        in (desk / "plain" / "c" / "gains.h").read_text()
    )


def test_an_unproven_schedule_is_not_written_as_certified(desk):
    done = taskspace(
        "export", "small", "--ask", "regret <= 0.001", "--schedule", "table.json",
        "--certified", "--to", "no", cwd=desk,
    )  # fmt: skip
    assert done.returncode == 3
    assert "Nothing was written" in done.stderr
    assert not (desk / "no").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--schedule", "table.json", "--sources", "1"], "Give --schedule alone"),
        (["--schedule", "table.json", "--as", "onnx"], "onnx"),
        (["--schedule", "table.json", "--precision", "float"], "no such export"),
        (["--schedule", "missing.json"], "is no schedule"),
    ],
)
def test_wrong_options_get_a_sentence(desk, words, says):
    asked = ("export", "small", "--ask", "regret <= 0.5", "--to", "no")
    assert says in refused(*asked, *words, cwd=desk)
    assert not (desk / "no").exists()
