"""Measures of one's own: a function under a name, asked for like any other."""

import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError
from taskspace.performance.study import with_score
from taskspace.systems import ContextAxis, LinearFamily, Pi
from taskspace.systems.linear.measures import MEASURES

SPACE = ts.Grid(k=(0.5, 1.5, 3))


def plant():
    return LinearFamily(
        [ContextAxis("k", 1.0)],
        A=lambda k: [[0, 1], [-k, -1.0]],
        B=[[0], [100.0]],
        Q=np.eye(2),
        R=[[1.0]],
        C=[[1.0, 0.0]],
    )


@pytest.fixture
def registered():
    """Leave the registry as it was."""
    before = set(MEASURES)
    yield
    for name in set(MEASURES) - before:
        del MEASURES[name]


@pytest.fixture
def study():
    """Two PI controllers, the second unstable: ki > kp d + k d / b fails it."""
    return ts.evaluate_policies(plant(), Pi([4.0, 0.0], [1e-4, 1.0]), SPACE)


def trace_of(loop):
    """Minus the trace of the loop: the sum of its rates, known by hand."""
    assert loop.F.ndim == 2
    return -float(np.trace(loop.F))


def test_a_function_of_the_loop_is_asked_like_any_other(registered, study):
    ts.measure("sum_of_rates", larger_is_better=True)(trace_of)
    question = ts.Question("floor", measure="sum_of_rates", epsilon=-1.0)
    losses = question.losses(study)
    np.testing.assert_allclose(losses[0], -1.0)  # the damping; an integral adds none
    assert np.isinf(losses[1]).all()  # an unstable loop is not asked about
    assert ts.minimum_cover(study, question).size == 1


def test_a_function_of_system_policy_and_context(registered, study):
    seen = []

    @ts.measure("load", larger_is_better=False, unit="N")
    def load(system, policy, context):
        seen.append((system.id, policy.parameters.tolist(), context))
        return policy.parameters[0] * context["k"]

    question = ts.Question("floor", measure="load", epsilon=4.0)
    np.testing.assert_allclose(question.losses(study)[0], [2.0, 4.0, 6.0])
    assert question.sets(study).to_bool()[0].tolist() == [True, True, False]
    assert (study.system.id, [4.0, 1e-4], {"k": 1.0}) in seen
    assert "a load of at most 4 N" in question.statement


def test_any_system_may_have_one(registered):
    system = ts.systems.FunctionSystem(
        lambda context, policy: -abs(context["x"] - policy), [ContextAxis("x", 0.0)]
    )

    @ts.measure("effort", larger_is_better=False)
    def effort(system, policy, context):
        del system
        return abs(context["x"]) + 1.0

    study = ts.evaluate_policies(system, [0.0, 1.0], ts.Grid(x=(0.0, 2.0, 3)))
    asked = ts.Question("floor", measure="effort", epsilon=2.0)
    np.testing.assert_allclose(asked.losses(study), [[1.0, 2.0, 3.0]] * 2)
    ts.measure("of_loop", larger_is_better=True)(trace_of)
    with pytest.raises(InvalidInputError, match="linear closed loop"):
        ts.Question("floor", measure="of_loop", epsilon=0.0).losses(study)


def test_nothing_about_it_is_called_proven(registered, study):
    ts.measure("sum_of_rates", larger_is_better=True)(trace_of)
    own = ts.Question("floor", measure="sum_of_rates", epsilon=-1.0)
    cost = ts.Question("floor", epsilon=1e6)
    for question in (own, ts.Question(all_of=[cost, own])):
        result = ts.certify(study, question, time_limit=5)
        assert all(c.kind != "proof" for c in result.certificates), result
        library = ts.library(study, ts.minimum_cover(study, question))
        assert library.guarantee.kind == "estimate"
        assert library.select({"k": 1.0}).status.name != "GUARANTEED"
        assert question.losses(study).attrs["provenance"] == "given"
    # J of the same study stays exact, also where a table holds the measure.
    assert study.provenance == "exact"
    held = with_score(study, "sum_of_rates", "worst")
    assert held.provenance == "exact"
    assert cost.provenance_of(held) == "exact"
    assert own.provenance_of(held) == "given"


def test_refusals(registered):
    with pytest.raises(InvalidInputError, match="built in"):
        ts.measure("hinf", larger_is_better=False)
    for name in ("cost", "two words", "1st", "worst"):
        with pytest.raises(InvalidInputError, match="one word"):
            ts.measure(name, larger_is_better=False)
    with pytest.raises(InvalidInputError, match="takes 2 arguments"):
        ts.measure("odd", larger_is_better=True)(lambda a, b: 0.0)
