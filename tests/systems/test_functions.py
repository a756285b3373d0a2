"""Plain functions and lists of policies, equal to the same problem built in."""

import os
import time

import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError, MissingExtraError, TaskspaceError
from taskspace.policies import LinearGain
from taskspace.systems import ContextAxis, FunctionSystem, PythonPolicies, function
from tests.systems import own

SPACE = ts.Grid(k=(0.1, 8.0, 5), c=(0.1, 8.0, 4))


def msd_gains():
    msd = ts.systems.MassSpringDamper()
    contexts = msd.contexts(SPACE)
    trained = ts.trainers.Lqr(n_policies=2, noise=0.2).train(msd, contexts, seed=0)
    assert isinstance(trained.policies, LinearGain)
    return trained.policies.gain


def test_a_function_equals_the_built_in_system():
    trainer = ts.trainers.Lqr(n_policies=2, noise=0.2)
    expected = ts.evaluate(ts.systems.MassSpringDamper(), trainer, SPACE, seed=0).table
    gains = msd_gains()
    sources = ts.Points(SPACE.names, np.repeat(SPACE.points, 2, axis=0))
    table = ts.evaluate_policies(
        own.msd_performance, list(gains.reshape(-1, 1, 2)), SPACE, sources=sources
    ).table
    for name in ("performance", "home_performance"):
        np.testing.assert_allclose(table[name], expected[name], rtol=1e-9)
    expected["best_known"] = table["best_known"]  # a function knows no optimum
    for criterion in ("signed", "regret"):
        mine, theirs = (
            ts.greedy_cover(ts.Question(criterion, "worst", epsilon=0.3).sets(t))
            for t in (table, expected)
        )
        assert mine.sources.tolist() == theirs.sources.tolist()


def test_lambdas_travel_to_processes():
    power = 2
    arguments = [lambda x: x, lambda x: -x], ts.Grid(x=(-1.0, 1.0, 3))
    here, there = (
        ts.evaluate_policies(
            lambda context, policy: policy(context["x"]) ** power, *arguments,
            workers=workers,
        ).table
        for workers in (0, 2)
    )  # fmt: skip
    np.testing.assert_array_equal(here["performance"], there["performance"])


def where_am_i(context, policy):
    """The process that works, and a little time."""
    time.sleep(0.02)
    return float(os.getpid())


def test_processes_are_kept_until_code_changes(monkeypatch):
    arguments = where_am_i, [0.0] * 40, ts.Grid(x=(0.0, 1.0, 2))

    def workers():
        table = ts.evaluate_policies(*arguments, workers=2).table
        return set(table["performance"].values.ravel().tolist())

    first = workers()
    assert len(first) == 2
    assert os.getpid() not in first
    assert workers() == first
    code = function._code_on_disk() | {("tests.systems.own", -1)}
    monkeypatch.setattr(function, "_code_on_disk", lambda: code)
    assert not workers() & first


class Odd(Exception):
    """An error that cannot be unpickled."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def odd(context, policy):
    raise Odd("this", "that")


def zero_division(context, policy):
    return 1 / context["x"]


def missing(context, policy):
    raise MissingExtraError("This", "rl")


@pytest.mark.parametrize(
    ("function", "kind", "says"),
    [
        (odd, TaskspaceError, "Odd: this and that"),
        (missing, MissingExtraError, "needs the extra 'rl'"),
        (zero_division, ZeroDivisionError, "division by zero"),
    ],
)
def test_errors_cross_the_border_of_processes(function, kind, says):
    with pytest.raises(kind, match=says):
        ts.evaluate_policies(function, [0.0] * 4, SPACE_X, workers=2)


def test_families_may_have_different_sizes():
    table = ts.evaluate_policies(
        lambda context, policy: -abs(context["x"] - policy),
        [0.0, 1.0, 5.0],
        ts.Points(["x"], [0.0, 5.0]),
        sources=ts.Points(["x"], [0.0, 0.0, 5.0]),
    ).table
    assert table["performance"].values.tolist() == [
        [[0, -5], [-1, -4]],
        [[-5, 0], [-5, 0]],
    ]


def test_without_sources_there_are_covers_but_no_signed_ones():
    table = ts.evaluate_policies(
        lambda context, policy: -abs(context["x"] - policy), [0.0, 4.0], SPACE_X
    ).table
    assert (
        ts.greedy_cover(
            ts.Question("regret", "worst", epsilon=2.0).sets(table)
        ).coverage
        == 1.0
    )
    with pytest.raises(InvalidInputError, match="signed"):
        ts.loss(table, ts.Question("signed", epsilon=0.0))


SPACE_X = ts.Grid(x=(0.0, 4.0, 5))


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda context, policy: np.nan, "it gave nan"),
        (lambda context, policy: "good", "it gave 'good'"),
        (lambda context, policy: np.inf, "it gave inf"),
    ],
)
def test_what_a_function_may_not_give(function, says):
    with pytest.raises(InvalidInputError, match=says):
        ts.evaluate_policies(function, [1], SPACE_X)


def test_python_objects_stay_out_of_files():
    with pytest.raises(InvalidInputError, match="cannot be stored"):
        PythonPolicies([1, 2]).settings()
    with pytest.raises(InvalidInputError, match="same number"):
        PythonPolicies([[1, 2], [3]])
    with pytest.raises(InvalidInputError, match="one home per example"):
        FunctionSystem(max, [ContextAxis("x", 0.0)], examples=[1], homes=[{}, {}])


def rated(context, aim):
    """A cost of at least 1 + x; a policy that aims elsewhere pays the distance."""
    return -(1 + context["x"]) - abs(context["x"] - aim)


def least_cost(context):
    return -(1 + context["x"])


def test_a_reference_makes_regret_and_ratio_of_a_simulator():
    axes = [ContextAxis("x", 0.0)]
    targets, aims = ts.Grid(x=(0.0, 4.0, 5)), [1.0, 3.0]
    system = FunctionSystem(rated, axes, reference=least_cost)
    study = ts.evaluate_policies(system, aims, targets)
    x = targets.points[:, 0]
    away = np.abs(np.subtract.outer(aims, x))
    np.testing.assert_array_equal(ts.loss(study, "regret"), away)
    np.testing.assert_allclose(ts.loss(study, "ratio"), away / (1 + x), rtol=1e-12)
    # Without it both are against the best policy of the table.
    alone = ts.evaluate_policies(FunctionSystem(rated, axes), aims, targets)
    np.testing.assert_array_equal(ts.loss(alone, "regret"), away - away.min(0))


@pytest.mark.parametrize("question", ["regret <= 1.2", "ratio <= 50 %"])
def test_a_reference_serves_fresh_samples(question):
    """The share of contexts served, against the truth on a fine grid."""
    axes, space = [ContextAxis("x", 0.0)], ts.Points(["x"], [[1.0], [3.0]])
    targets, policies = ts.Grid(x=(0.0, 4.0, 41)), PythonPolicies([1.0, 3.0])

    def share(system):
        study = ts.evaluate_policies(system, policies, targets, sources=space)
        drawn = ts.certify(study, question, distribution="uniform", n_samples=2000)
        return drawn["share of contexts"].values.get("share")

    x = np.linspace(0, 4, 100_001)
    away = np.abs(np.subtract.outer([1.0, 3.0], x)).min(0)
    loss = away if question.startswith("regret") else away / (1 + x)
    limit = 1.2 if question.startswith("regret") else 0.5
    truth = (loss <= limit).mean()
    found = share(FunctionSystem(rated, axes, reference=least_cost))
    assert found is not None
    assert truth - 0.06 < found <= truth
    assert share(FunctionSystem(rated, axes)) is None


@pytest.mark.parametrize(("value", "says"), [("much", "a number"), (np.inf, "finite")])
def test_a_reference_is_a_number(value, says):
    system = FunctionSystem(
        rated, [ContextAxis("x", 0.0)], reference=lambda context: value
    )
    with pytest.raises(InvalidInputError, match=says):
        ts.evaluate_policies(system, [1.0], ts.Grid(x=(0.0, 4.0, 5)))
