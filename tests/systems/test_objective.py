"""What J is: one record, from which summary, certificate, contract and header speak."""

import json

import numpy as np
import pytest

import taskspace as ts
from taskspace.certificates import certify
from taskspace.deploy import PolicyLibrary
from taskspace.errors import InvalidInputError
from taskspace.export.c99 import c99_files
from taskspace.policies import LinearGain
from taskspace.systems import (
    CartPole,
    ContextAxis,
    LinearFamily,
    MassSpringDamper,
    Objective,
    Quadrotor,
)
from tests.helpers import taskspace

AVERAGE = "means over initial states with E[x0 x0ᵀ] = "


def servo(**options) -> LinearFamily:
    return LinearFamily(
        [ContextAxis("k", 1.0, low=0.0, low_open=True)],
        A=lambda k: [[0, 1], [-k, -1]],
        B=lambda k: [[0], [1]],
        Q=options.pop("Q", np.diag([3.0, 2.0])),
        R=[[0.5]],
        state_names=["angle [rad]", "speed [rad/s]"],
        input_names=["torque [N m]"],
        **options,
    )


def test_a_linear_family_says_what_its_cost_is():
    said = servo(x0_covariance=np.diag([0.01, 4.0])).objective
    assert said.states == ("angle [rad]", "speed [rad/s]")
    assert said.inputs == ("torque [N m]",)
    assert said.initial_covariance == ((0.01, 0.0), (0.0, 4.0))
    assert (said.Q, said.R) == (((3.0, 0.0), (0.0, 2.0)), ((0.5,),))
    assert (said.time, said.horizon, said.varying) == ("continuous", np.inf, ())
    for part in ("Q = diag(3, 2)", "R = 0.5", "speed [rad/s]", "= diag(0.01, 4)"):
        assert part in said.statement
    assert "E[x0 x0ᵀ] = the identity" in servo().objective.statement
    varying = servo(Q=lambda k: [[k, 0], [0, 1]]).objective
    assert varying.varying == ("Q",)
    assert "Q of the context" in varying.statement
    assert json.loads(json.dumps(said.to_dict()))["horizon"] == "inf"


def test_names_of_states():
    default = LinearFamily(
        [ContextAxis("k", 1.0)],
        A=lambda k: [[0, 1], [-k, -1]],
        B=lambda k: [[0], [1]],
        Q=np.eye(2),
        R=[[1.0]],
    )
    assert (default.states, default.inputs) == (("x1", "x2"), ("u1",))
    for wrong in (["angle"], ["angle", "angle"], "ab"):
        with pytest.raises(InvalidInputError, match="2 different names"):
            LinearFamily(
                default.context_axes,
                default.A,
                default.B,
                np.eye(2),
                [[1.0]],
                state_names=wrong,
            )
    named = LinearFamily(
        default.context_axes,
        default.A,
        default.B,
        lambda k: k * np.eye(2),
        [[1.0]],
        state_names=["a", "b"],
    )
    assert (named.states, named.varying_weights) == (("a", "b"), ("Q",))
    # Systems of episodes say less, and no certificate of theirs is a mean over x0.
    assert isinstance(CartPole().objective, Objective)
    # Names are a description: who gives them computes the same J.
    assert (default.provenance, named.provenance) == ("exact", "exact")
    assert Quadrotor().provenance == "exact"
    assert CartPole().objective.caution == ""


def test_names_come_from_python_control():
    control = pytest.importorskip("control")
    family = ts.systems.control_family(
        lambda k: control.ss(
            [[0, 1], [-k, -1]], [[0], [1]], np.eye(2), 0,
            states=["angle", "speed"], inputs=["torque"],
        ),
        [ContextAxis("k", 1.0)],
        Q=np.eye(2),
        R=[[1.0]],
    )  # fmt: skip
    assert (family.states, family.inputs) == (("angle", "speed"), ("torque",))


def known(criterion):
    system = servo(x0_covariance=np.diag([0.01, 4.0]))
    space = ts.Grid(k=(1.0, 2.0, 5))
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    table = ts.evaluate(system, trainer, space, seed=0).table
    contexts = system.contexts(space)
    gains = LinearGain(system.optimal_gain(contexts)[0][:, None])
    return system, table, gains, ts.Question(criterion, epsilon=0.05)


def test_certificates_say_that_they_are_about_the_mean():
    """A share above the optimum is one of the mean over initial states."""
    system, table, gains, question = known("ratio")
    result = certify(
        ts.Study.of(table, system=system, policies=gains), question, time_limit=20
    )
    for name in ("grid cover", "continuum cover"):
        why = result[name].why
        assert f"{AVERAGE}diag(0.01, 4)" in why
        assert "not those of the worst one" in why


def test_library_contract_and_header_say_it(tmp_path):
    system, table, gains, question = known("ratio")
    nodes = ts.minimum_cover(question.sets(table))
    box = certify(ts.Study.of(table, system=system, policies=gains), question).continuum
    for number, cover in enumerate((nodes, box)):
        made = ts.library(
            ts.Study.of(table, system=system, policies=gains), cover, question
        )
        assert f"{AVERAGE}diag(0.01, 4)" in made.guarantee.statement.replace("C", "c")
        read = PolicyLibrary.load(made.save(tmp_path / str(number)))
        for library in (made, read):
            says = library.contract()
            assert says["objective"] == json.loads(
                json.dumps(system.objective.to_dict())
            )
            assert says["inputs"]["observation"]["names"] == list(system.states)
            assert says["outputs"]["action"]["names"] == list(system.inputs)
            header = " ".join(c99_files(library)["library.h"].decode().split())
            header = header.replace(" * ", " ")
            for part in ("angle [rad], speed [rad/s]", "diag(0.01, 4)"):
                assert part in header
            assert "Q = diag(3, 2)" in header


def test_commands_say_it(tmp_path):
    out = tmp_path / "run"
    small = ["--set", "space.n=5", "--set", 'cover.methods=["greedy"]']
    shown = taskspace("run", "msd-lqr", "--out", str(out), *small).stdout
    file = str(out / "experiment.toml")
    again = taskspace("run", file, "--out", str(out)).stdout
    asked = ["certify", str(out), "--ask", "regret <= 0.2", "--time-limit", "5"]
    certified = taskspace(*asked).stdout
    for text in (shown, again, certified):
        flat = " ".join(text.split())
        assert "Q = diag(10, 4), R = 1, x = (position [m], velocity [m/s])" in flat
        assert "E[x0 x0ᵀ] = the identity" in flat
    values = json.loads(taskspace(*asked, "--format", "json").stdout)
    assert values["objective"] == json.loads(
        json.dumps(MassSpringDamper().objective.to_dict())
    )
